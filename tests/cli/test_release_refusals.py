"""`dosimeter release` on bad input and on ledgers that cannot be used: one message, no charge, no answer."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dosimeter.cli import main
from dosimeter.ledger import Ledger
from tests.cli.command_line import check_refusal
from tests.cli.small_shop import COUNT, FIXED, Shop, break_content
from tests.small_tables import SHOP_SCHEMA as SCHEMA

SOURCES = Path(__file__).parents[2] / "src"
NOBODY = 65534


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


def test_a_schema_that_backs_nothing(shop: Shop) -> None:
    shop.schema.write_text(SCHEMA.replace("reviewed = true", "reviewed = false"), encoding="utf-8")
    check_refusal(shop.release(COUNT, *FIXED), "reviewed schema")
    shop.schema.write_text(SCHEMA.replace("individuals = 30\n", ""), encoding="utf-8")
    check_refusal(shop.release(COUNT, *FIXED), "individuals")
    check_refusal(shop.run("release", str(shop.data), COUNT, "--ledger", str(shop.ledger), *FIXED), "--schema FILE")
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
        (("--epsilon", "5", "--policy", "budget:9"), "was opened with --policy paper"),
        (("--epsilon", "5", "--max-epsilon", "9"), "was opened with no --max-epsilon"),
        (
            ("--prefer", "ratio:0.1"),
            "opened for a fixed ε (--epsilon); this release asks for an ε found from a preference",
        ),
        (("--svt", "1", "--variance", "1"), "--ledger with another file"),
    ):
        check_refusal(shop.release(COUNT, *options), message)
        assert shop.accounts() == before


def test_files_that_are_not_there(shop: Shop) -> None:
    shop.data.unlink()
    check_refusal(shop.release(COUNT, *FIXED), "shop.csv")
    assert not shop.ledger.exists()


# ---------------------------------------------------------------- ledgers that cannot be used


def break_format(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DROP TRIGGER dosimeter_ledger_format_no_update")
        raw.execute("UPDATE dosimeter_ledger_format SET version = 99")
        raw.commit()


def break_kind(path: Path) -> None:
    """A sound record of a kind that does not exist yet."""
    from dosimeter.ledger import Record

    with Ledger.open(path) as ledger:
        head, records = ledger.verify().head, ledger.verify().records
    record = Record(records + 1, "shop", "transfer", 1, "2027-01-01T00:00:00Z", "", "{}", head, "")
    with closing(sqlite3.connect(path)) as raw:
        row = (record.seq, "shop", "transfer", 1, record.at, "", "{}", head, record.compute_digest())
        raw.execute("INSERT INTO dosimeter_ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        raw.commit()


@pytest.mark.parametrize(
    ("damage", "message"),
    [(break_format, "or a newer one"), (break_kind, "or a newer one"), (break_content, "was altered at record 3")],
)
def test_ledgers_that_cannot_be_trusted(shop: Shop, damage: Callable[[Path], None], message: str) -> None:
    shop.release(COUNT, *FIXED)
    damage(shop.ledger)
    content = shop.ledger.read_bytes()
    for words in (shop.words(COUNT, "--epsilon", "5"), shop.words(COUNT, *FIXED), ["ledger", str(shop.ledger)]):
        check_refusal(shop.run(*words), message)
    assert shop.ledger.read_bytes() == content


def test_a_file_that_is_no_ledger(shop: Shop) -> None:
    shop.ledger.write_text("a,b\n" * 400, encoding="utf-8")
    check_refusal(shop.release(COUNT, *FIXED), "not a ledger")
    assert shop.ledger.read_text(encoding="utf-8") == "a,b\n" * 400
    status, _, err = shop.run("ledger", str(shop.directory / "none.db"))
    assert status == 2
    assert "no ledger" in err


IN_A_PROCESS = """
import json, os, resource, sys, tempfile
from pathlib import Path
from dosimeter.cli import main
words, warm, how = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
devnull = os.open(os.devnull, os.O_WRONLY)
kept = os.dup(1)
os.dup2(devnull, 1)
assert main(warm) == 0, "the first release"      # as root, so that every late import has happened
sys.stdout.flush()
os.dup2(kept, 1)
if how == "nobody" and os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
statuses = []
if how == "full":
    size = Path(words[words.index("--ledger") + 1]).stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
for _ in range(60 if how == "full" else 1):
    statuses.append(main(words))
    if statuses[-1]:
        break
sys.stdout.flush()
sys.stderr.write(json.dumps(statuses) + "\\n")
"""


@pytest.fixture
def open_shop() -> Iterator[Shop]:
    """In a directory that every user can reach, unlike pytest's own."""
    directory = Path(tempfile.mkdtemp(prefix="shop"))
    directory.chmod(0o755)
    yield Shop(directory, None)
    directory.chmod(0o755)
    shutil.rmtree(directory)


def run_in_a_process(words: list[str], warm: list[str], how: str) -> tuple[list[int], list[str], str]:
    """The statuses, the lines on standard output and the complaint."""
    result = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, json.dumps(words), json.dumps(warm), how],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    *complaint, statuses = result.stderr.splitlines()
    return json.loads(statuses), result.stdout.splitlines(), "\n".join(complaint)


@pytest.mark.parametrize("protected", ["file", "directory"])
def test_a_ledger_that_may_not_be_written(open_shop: Shop, protected: str) -> None:
    shop = open_shop
    assert main(shop.words(COUNT, *FIXED, "--json")) == 0
    warm = shop.words(COUNT, *FIXED, "--json")
    warm[warm.index(str(shop.ledger))] = str(shop.directory / "other.db")
    for path in (shop.ledger, shop.data, shop.schema):
        path.chmod(0o444 if protected == "file" else 0o644)
    if os.geteuid() == 0 and protected == "directory":
        os.chown(shop.ledger, NOBODY, NOBODY)
    if os.geteuid() != 0 and protected == "directory":
        pytest.skip(
            "the first release of the child needs a directory that it may write to, which only root can keep so"
        )
    before = shop.ledger.read_bytes()
    statuses, out, complaint = run_in_a_process(shop.words(COUNT, "--epsilon", "5", "--json"), warm, "nobody")
    assert (statuses, out) == ([2], [])
    assert "cannot be written to" in complaint
    assert shop.ledger.read_bytes() == before


def test_a_full_disk_never_gives_an_answer_that_is_not_on_record(open_shop: Shop) -> None:
    """Releases until nothing more fits: the one that fails prints nothing, and what was reserved for it counts."""
    shop = open_shop
    warm = shop.words(COUNT, "--epsilon", "0.5", "--policy", "budget:1000", "--json")
    words = shop.words(COUNT, "--epsilon", "0.25", "--again", "--json")
    statuses, out, complaint = run_in_a_process(words, warm, "full")
    assert statuses[-1] == 2
    assert statuses[:-1] == [0] * len(out)
    assert "ledger" in complaint
    assert "full" in complaint or "disk" in complaint
    (account,) = shop.accounts()
    released = [entry for entry in account["entries"][1:] if entry["status"] == "released"]
    assert [entry["answer"] for entry in released] == [json.loads(line)["answer"] for line in out]
    assert account["epsilon"] == 0.5 + 0.25 * (len(account["entries"]) - 1)
    assert len(account["entries"]) - 1 - len(released) in (0, 1)
