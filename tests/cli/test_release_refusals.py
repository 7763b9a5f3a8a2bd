"""`dosimeter release` on bad input and on ledgers that cannot be used: one message, no charge, no answer."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cli.command_line import check_refusal
from tests.cli.small_shop import COUNT, FIXED, Shop, break_content
from tests.small_tables import SHOP_SCHEMA as SCHEMA

# ---------------------------------------------------------------- bad input


BAD: list[tuple[str, tuple[str, ...], str]] = [
    ("a sensitivity by hand", ("--sensitivity", "1", *FIXED), "No such option"),
    ("the classic Gaussian", ("--mechanism", "gaussian", "--calibration", "classic", *FIXED), "No such option"),
    ("no policy", ("--epsilon", "0.5"), "--policy paper, --policy budget:E, or --policy budget:E@D"),
    ("epsilon 0", ("--epsilon", "0", "--policy", "paper"), "--epsilon must be a positive number"),
    ("an epsilon without finite noise", ("--epsilon", "1e-40", "--policy", "paper"), "larger ε"),
    ("svt out of range", ("--svt", "1e-9", "--variance", "1", "--policy", "paper"), "must lie between"),
    ("a cap of nothing", (*FIXED, "--max-epsilon", "0"), "larger than 0"),
    ("delta_total of 2", (*FIXED, "--delta-total", "2"), "larger than 1"),
]


@pytest.mark.parametrize(("options", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_costs_nothing(shop: Shop, options: tuple[str, ...], message: str) -> None:
    for extra in ((), ("--json",)):
        check_refusal(shop.release(COUNT, *options, *extra), message)
    assert not shop.ledger.exists() or shop.accounts() == []


def test_a_schema_without_the_number_of_individuals_backs_nothing(shop: Shop) -> None:
    shop.schema.write_text(SCHEMA.replace("individuals = 30\n", ""), encoding="utf-8")
    check_refusal(shop.release(COUNT, *FIXED), "individuals")
    assert not shop.ledger.exists() or shop.accounts() == []


def test_a_delta_of_one_individual_is_given_as_a_number(shop: Shop) -> None:
    """What is declared decides, whoever is in the table: 25 people where one is declared, one where two are."""
    told = []
    for declared, people in ((1, 25), (1, 1), (2, 1)):
        shop.schema.write_text(SCHEMA.replace("individuals = 30", f"individuals = {declared}"), encoding="utf-8")
        lines = shop.data.read_text(encoding="utf-8").splitlines()
        shop.data.write_text("\n".join(lines[: people + 1]) + "\n", encoding="utf-8")
        for delta in ((), ("--delta", "1/n"), ("--delta", "1/n^2")):
            status, _, err = shop.release(COUNT, *FIXED, "--mechanism", "gaussian", *delta, "--dry-run")
            told.append((declared, status, err))
    assert len({err for declared, _, err in told if declared == 1}) == 1
    assert all((status, "--delta D" in err) == (2 if n == 1 else 0, n == 1) for n, status, err in told)


def test_terms_that_contradict_the_account(shop: Shop) -> None:
    shop.release(COUNT, *FIXED)
    before = shop.accounts()
    for options, message in (
        (("--epsilon", "5", "--policy", "budget:9"), "--policy paper"),
        (("--prefer", "ratio:0.1"), "a fixed ε (--epsilon)"),
    ):
        check_refusal(shop.release(COUNT, *options), message)
        assert shop.accounts() == before


def test_files_that_are_not_there(shop: Shop) -> None:
    shop.data.unlink()
    check_refusal(shop.release(COUNT, *FIXED), "shop.csv")
    assert not shop.ledger.exists()


# ---------------------------------------------------------------- ledgers that cannot be used


def test_a_ledger_that_was_altered(shop: Shop) -> None:
    shop.release(COUNT, *FIXED)
    break_content(shop.ledger)
    content = shop.ledger.read_bytes()
    for words in (shop.words(COUNT, "--epsilon", "5"), shop.words(COUNT, *FIXED), ["ledger", str(shop.ledger)]):
        check_refusal(shop.run(*words), "was altered at record 3")
    assert shop.ledger.read_bytes() == content


UNTIL_IT_IS_FULL = """
import json, resource, sys
from pathlib import Path
from dosimeter.cli import main
ledger, words = sys.argv[1], sys.argv[2:]
assert main([*words, "--policy", "budget:1000", "--json"]) == 0
size = Path(ledger).stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
statuses = []
while len(statuses) < 60 and not any(statuses):
    statuses.append(main([*words, "--again", "--json"]))
sys.stdout.flush()
sys.stderr.write(json.dumps(statuses) + "\\n")
"""


def test_a_full_disk_never_gives_an_answer_that_is_not_on_record(shop: Shop) -> None:
    """Releases until nothing more fits: the one that fails prints nothing, and what was reserved for it counts."""
    words = [str(shop.ledger), *shop.words(COUNT, "--epsilon", "0.25")]
    result = subprocess.run(
        [sys.executable, "-c", UNTIL_IT_IS_FULL, *words], capture_output=True, text=True, check=True, timeout=600
    )
    *complaint, told = result.stderr.splitlines()
    statuses, out = json.loads(told), result.stdout.splitlines()
    assert statuses == [0] * (len(out) - 1) + [2]
    assert any("full" in line or "disk" in line for line in complaint)
    (account,) = shop.accounts()
    released = [entry for entry in account["entries"] if entry["status"] == "released"]
    assert [entry["answer"] for entry in released] == [json.loads(line)["answer"] for line in out]
    assert account["epsilon"] == 0.25 * len(account["entries"])
    assert len(account["entries"]) - len(released) in (0, 1)
