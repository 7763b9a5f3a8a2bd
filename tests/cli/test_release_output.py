"""`dosimeter release`: what people read, denials, and the dry run. Its JSON is recorded (tests/recorded)."""

from __future__ import annotations

import gzip
import json
import re

import pytest

from dosimeter.cli.printing import print_answer
from dosimeter.release import Answer
from tests.cli.command_line import check_refusal
from tests.cli.small_shop import COUNT, Shop, read_output

OPENED = ("--epsilon", "0.5", "--policy", "budget:9")

# ---------------------------------------------------------------- what the analyst gets


@pytest.mark.parametrize("json_option", [(), ("--json",)])
def test_a_denial_says_nothing(shop: Shop, json_option: tuple[str, ...]) -> None:
    """Too expensive, or above the cap of one query: the same two words, and status 1."""
    shop.release(COUNT, "--epsilon", "0.2", "--policy", "budget:1", "--max-epsilon", "0.5")
    expensive = shop.release(COUNT, "--epsilon", "0.6", *json_option)
    shop.release("SELECT COUNT(weight) FROM shop", "--epsilon", "0.5")
    spent = shop.release("SELECT SUM(weight) FROM shop", "--epsilon", "0.4", *json_option)
    for status, out, _ in (expensive, spent):
        assert status == 1
        assert out == ('{"status": "denied"}\n' if json_option else "Denied.\n")
    assert expensive == spent
    assert (f"dosimeter ledger {shop.ledger}" in spent.err) is not bool(json_option)
    (account,) = shop.accounts()
    assert account["epsilon"] == 0.7
    assert [entry["charge"] for entry in account["entries"]] == [0.2, 0.0, 0.5, 0.0]
    assert [entry["reason"] for entry in account["entries"]] == [None, "cap", None, "budget"]


def test_a_first_denial_says_where_its_reason_stands(shop: Shop) -> None:
    """It opens no account, so that ``ledger`` shows none; the last record of the export has the reason."""
    _, out, err = shop.release(COUNT, "--epsilon", "3", "--policy", "budget:1")
    assert out == "Denied.\n"
    assert f"{shop.ledger} export has the reason in its last record" in err
    exported = shop.run("ledger", str(shop.ledger), "export")[1]
    assert json.loads(exported.splitlines()[-1])["payload"]["reason"] == "budget"


def test_what_people_read(shop: Shop) -> None:
    sql = "SELECT city, COUNT(*) AS n, AVG(paid) AS mean FROM shop GROUP BY city"
    status, out, err = shop.release(sql, "--epsilon", "1e9", "--policy", "budget:1e10")
    assert (status, err) == (0, "")
    assert "ε = 1000000000. 95 % error of the noise: n ± 0, mean ± " in out
    assert "differentially private" in out
    bern = next(line for line in out.splitlines() if line.startswith("Bern"))
    city, count, _, off, mean, *_ = bern.split()
    assert (city, count, off, float(mean)) == ("Bern", "12", "0", 11.0)
    out = read_output(shop.release(f"{sql} HAVING COUNT(*) > 1000", "--epsilon", "1e9"))
    assert "No group is left" in out


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (1, "95 % error of the noise: n ± 9. There is no bound on the error of mean."),
        (
            2,
            "error of the noise: n ± 9 in the worst row. In at least one row there is no bound on the error of mean.",
        ),
    ],
)
def test_a_column_without_an_error_is_named(rows: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer("released", [{"n": 6, "mean": None}] * rows, 1.0, error_95=(9.0, None))
    print_answer(answer, ["n", "mean"])
    assert words in " ".join(capsys.readouterr().out.split())


# ---------------------------------------------------------------- what the controller is told


def test_the_controller_is_told_what_was_charged(shop: Shop) -> None:
    """On standard error, for people only: standard output is the analyst's."""
    assert shop.release(COUNT, "--epsilon", "0.5", "--policy", "budget:9")[2] == ""
    status, _, err = shop.release(COUNT, "--epsilon", "0.5")
    assert (status, "it cost nothing" in err) == (0, True)
    status, out, err = shop.release(COUNT, "--epsilon", "0.4")
    assert (status, "other settings" in err, "other settings" in out) == (0, True, False)
    assert shop.release(COUNT, "--epsilon", "0.4", "--again")[2] == ""
    assert shop.release(COUNT, "--epsilon", "0.4", "--json")[2] == ""
    assert shop.release(COUNT, "--epsilon", "0.3", "--json")[2] == ""
    assert shop.accounts()[0]["epsilon"] == 1.6


def test_round_numbers_are_written_out(shop: Shop) -> None:
    """10 and 200, nowhere 1E+1 or 2E+2: for people, in messages and in the records."""
    texts: list[str] = []
    for words in (
        ("--epsilon", "10", "--policy", "budget:200", "--max-epsilon", "100"),
        ("--epsilon", "20", "--dry-run"),
        ("--epsilon", "200", "--dry-run"),
        ("--epsilon", "100", "--policy", "budget:300"),
        ("--epsilon", "100", "--max-epsilon", "40"),
        ("--epsilon", "100", "--candidates", "100,10"),
        ("--epsilon", "100", "--again"),
        ("--epsilon", "100", "--again", "--dry-run"),
    ):
        texts += shop.release(COUNT, *words)[1:]
    for action in ([], ["export"], ["--json"]):
        texts += shop.run("ledger", str(shop.ledger), *action)[1:]
    shop.ledger.unlink()
    searching = ("--svt", "20", "--variance", "50", "--candidates", "100,10", "--policy", "budget:300")
    texts += shop.release(COUNT, *searching)[1:]
    texts += shop.run("ledger", str(shop.ledger), "export")[1:]
    for text in texts:
        assert not re.search(r"\dE[+-]?\d", text)
    assert any("110 of the budget of 200 is spent; this needs 100, 90 is left." in text for text in texts)


# ---------------------------------------------------------------- the dry run


def test_the_dry_run_for_people(shop: Shop) -> None:
    options = ("--svt", "1", "--variance", "0.01", "--policy", "budget:20", "--dry-run")
    out = read_output(shop.release(COUNT, *options))
    assert "nothing charged, nothing released" in out
    assert "Denied with probability" in out
    assert "e-" not in out.split("The released ε violates")[1].split("%")[0]  # no 8.3e-142 %
    status, out, _ = shop.release(COUNT, "--epsilon", "3", "--policy", "budget:2", "--dry-run")
    assert status == 1
    assert "would be denied: 0 of the budget of 2 is spent; this needs 3, 2 is left." in out
    assert shop.accounts() == []


def test_the_dry_run_of_what_was_answered(shop: Shop) -> None:
    """Nothing is left of the budget, and it is granted all the same: it costs nothing."""
    assert shop.release(COUNT, "--epsilon", "0.5", "--policy", "budget:0.5").status == 0
    out = read_output(shop.release(COUNT, "--epsilon", "0.5", "--dry-run"))
    assert "Already answered: the analyst gets the same numbers again, from the ledger. Cost: 0." in out
    assert "denied" not in out


# ---------------------------------------------------------------- the same file, read in the same way


def test_options_that_change_nothing_change_no_data(shop: Shop) -> None:
    """Said or left out, in either order: the account knows its data, and repeats its answer at no charge."""
    again = [
        ("--table", "shop"),
        ("--table", "store"),
        ("--delimiter", ","),
        ("--encoding", "utf-8"),
        ("--null", ""),
        ("--delimiter", ",", "--encoding", "utf-8", "--table", "shop"),
        ("--decimal", "."),
        (),
    ]
    for opening in ((), ("--table", "shop", "--delimiter", ",")):
        shop.ledger = shop.data.parent / f"{len(opening)}.db"
        first = shop.release(COUNT, *OPENED, *opening, "--json")
        assert first.status == 0
        for options in again:
            answered = shop.release(COUNT, "--epsilon", "0.5", *options, "--json")
            assert answered == first, options
            assert shop.release(COUNT, "--epsilon", "0.5", *options, "--dry-run")[0] == 0
        (account,) = shop.accounts()
        assert account["epsilon"] == 0.5


def test_another_way_of_reading_is_said_to_be_one(shop: Shop) -> None:
    """It needs --continue, and opens no second account; what is stored is compared, and not the options' names."""
    assert shop.release(COUNT, *OPENED)[0] == 0
    second = shop.data.parent / "second.toml"
    second.write_text(shop.schema.read_text().replace('table = "shop"', 'table = "shop"\naccount = "second"'))
    for options in (("--null", "7"), ("--decimal", ",")):
        check_refusal(shop.release(COUNT, "--epsilon", "0.5", *options), "what is stored did not change")
        words = ["release", shop.data, COUNT, "--schema", second, "--ledger", shop.ledger, *OPENED, *options]
        check_refusal(shop.run(*words))
        assert len(shop.accounts()) == 1
    packed = shop.data.parent / "shop.csv.gz"
    packed.write_bytes(gzip.compress(shop.data.read_bytes()))
    original, shop.data = shop.data, packed
    check_refusal(shop.release(COUNT, "--epsilon", "0.5"), "part of what is stored is the same")
    shop.data = original
    shop.write_data(last="48")
    check_refusal(shop.release(COUNT, "--epsilon", "0.5"), "the data changed")
