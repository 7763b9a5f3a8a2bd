"""One noisy number finds ε: it is paid for once and kept (V8), and its promise is public (V7)."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from dosimeter import Answer, Dataset, Ledger
from dosimeter.errors import LedgerError, OptionError
from dosimeter.release import selection, write_record
from dosimeter.release.selection import svt_sensitivity
from tests.unit.release_stays import ROWS, account_of, make_table, preview, schema_of

COUNT = "SELECT COUNT(*) AS n FROM stays WHERE urgent"
SUM = "SELECT SUM(nights) AS n FROM stays"
ASKED: dict[str, Any] = {"svt": 0.5, "variance": 0.9, "candidates": "1,0.5", "policy": "budget:100"}
HALF = Decimal("0.5")


def ask(dataset: Dataset, ledger: Ledger, sql: str = COUNT, **changes: Any) -> Answer:
    return dataset.release(sql, ledger=ledger, **{**ASKED, **changes})


def charges(ledger: Ledger) -> list[Decimal | None]:
    """What finding ε was charged, entry by entry."""
    return [entry.epsilon_svt for entry in account_of(ledger).entries]


def numbers(ledger: Ledger) -> list[str | None]:
    return [None if entry.kept is None else entry.kept.number for entry in account_of(ledger).entries]


# ---------------------------------------------------------------- V8: paid for once


@pytest.mark.parametrize(
    "changes",
    [
        {"variance": 0.8},
        {"candidates": "2,0.25"},
        {"mechanism": "gaussian"},
        {"mechanism": "gaussian", "delta": 1e-9, "variance": 0.1},
        {"clamp": True, "variance": 0.7},
    ],
    ids=str,
)
def test_the_same_query_by_another_threshold_costs_no_second_test(
    stays: Dataset, ledger: Ledger, changes: dict[str, Any]
) -> None:
    first, second = ask(stays, ledger, analyst="ada"), ask(stays, ledger, **changes, analyst="eve")
    assert (first.status, second.status) == ("released", "released")
    assert not second.repeated
    assert charges(ledger) == [HALF, None]
    assert len({*numbers(ledger)}) == 1
    entries = account_of(ledger).entries
    assert entries[1].charge == entries[1].epsilon
    assert account_of(ledger).reading.epsilon == sum(entry.charge for entry in entries)
    assert second.epsilon_svt == first.epsilon_svt == 0.5  # an analyst does not learn that somebody asked before
    assert "0.5 for finding ε" in (second.guarantee or "")
    assert any("used again" in note for note in second.notes)
    assert not any("used again" in note for note in first.notes)


def test_a_printed_record_does_not_tell_that_a_number_was_used_again(stays: Dataset, ledger: Ledger) -> None:
    for threshold in (0.9, 0.8):
        ask(stays, ledger, variance=threshold)
    assert charges(ledger) == [HALF, None]  # the second did use it again
    pages = [write_record(entry, None, None) for entry in account_of(ledger).entries]
    first, second = (dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page)) for page in pages)
    assert list(first) == list(second)
    assert first["ε for finding it"] == second["ε for finding it"] == "0.5"


@pytest.mark.parametrize(
    ("sql", "changes"),
    [
        (COUNT, {"svt": 0.25}),
        (COUNT, {"violation": 0.05}),
        (COUNT, {"again": True}),
        (COUNT, {"selection": "paper"}),
        ("SELECT COUNT(*) AS n FROM stays WHERE nights > 2", {}),
        (SUM, {}),
    ],
    ids=str,
)
def test_another_question_price_or_promise_is_charged(
    stays: Dataset, ledger: Ledger, sql: str, changes: dict[str, Any]
) -> None:
    ask(stays, ledger)
    ask(stays, ledger, sql, **{"variance": 0.8, **changes})
    assert charges(ledger) == [HALF, Decimal(str(changes.get("svt", 0.5)))]


def test_another_mechanism_is_another_number_where_people_move_the_answer_by_different_amounts(
    stays: Dataset, ledger: Ledger
) -> None:
    for at, mechanism in enumerate(("laplace", "gaussian", "laplace", "gaussian")):
        ask(stays, ledger, SUM, mechanism=mechanism, variance=0.9 - 0.1 * at)
    assert charges(ledger) == [HALF, HALF, None, None]
    kept = numbers(ledger)
    assert kept[:2] == kept[2:]
    assert kept[0] != kept[1]


def test_other_data_have_a_number_of_their_own(tmp_path: Path, stays: Dataset, ledger: Ledger) -> None:
    ask(stays, ledger)
    changed = make_table(nights=[1] * ROWS)
    with Dataset.open(changed, schema=schema_of()) as others:
        ask(others, ledger, continued=True)
    assert charges(ledger) == [HALF, HALF]
    ask(stays, ledger, variance=0.8)
    assert charges(ledger)[2] is None
    assert numbers(ledger)[2] == numbers(ledger)[0]


def test_a_denial_keeps_its_number_and_cannot_be_asked_away(stays: Dataset, ledger: Ledger) -> None:
    """Asked again, the same test gives the same denial: nobody draws until the noise is kind."""
    denied: dict[str, Any] = {"svt": 50.0, "variance": 1e-9}
    for _ in range(3):
        assert ask(stays, ledger, **denied).describe() == {"status": "denied"}
    assert charges(ledger) == [50, None, None]
    assert [entry.charge for entry in account_of(ledger).entries] == [50, 0, 0]
    assert {entry.reason for entry in account_of(ledger).entries} == {"noisy test"}
    assert ask(stays, ledger, svt=50.0).status == "released"
    assert charges(ledger)[3] is None


def test_what_is_kept_is_the_variance_with_its_noise(
    stays: Dataset, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted by hand: 3 of 40 slots, in steps of Δ_svt/2³⁰, and a draw of 7."""
    monkeypatch.setattr(selection, "draw_discrete_laplace", lambda scale, count: [7] * count)
    ask(stays, ledger)
    share = 3 / 40
    steps = share * (1 - share) / float(svt_sensitivity(40)) * 2**30
    assert int(numbers(ledger)[0] or 0) == pytest.approx(steps + 7, abs=1)


def test_with_little_left_the_kept_number_still_finds(stays: Dataset, ledger: Ledger) -> None:
    """1 is left after the first answer: the test would not fit beside ε = 1, and need not."""
    first = ask(stays, ledger, svt=1.0, policy="budget:3")
    assert first.epsilon == 1.0
    second = ask(stays, ledger, svt=1.0, variance=0.8, policy="budget:3")
    assert (second.status, second.epsilon) == ("released", 1.0)
    assert account_of(ledger).reading.epsilon == 3
    assert ask(stays, ledger, svt=1.0, variance=0.7, policy="budget:3").status == "denied"


def test_a_dry_run_tells_what_the_kept_number_makes_certain(stays: Dataset, ledger: Ledger) -> None:
    before = preview(stays, ledger, COUNT, **{**ASKED, "variance": 0.01, "candidates": None})
    assert before["kept"] is False
    assert before["cost"]["denied"]["charge"] == 0.5
    ask(stays, ledger)
    after = preview(stays, ledger, COUNT, **{**ASKED, "variance": 0.01, "candidates": None})
    assert after["kept"] is True
    assert after["cost"]["denied"]["charge"] == 0.0
    chances = [line["probability"] for line in after["candidates"]]
    assert sorted([*chances, after["denial"]])[-2:] == [0.0, 1.0]
    found = [line["epsilon"] for line in after["candidates"] if line["probability"] == 1.0]
    answer = ask(stays, ledger, variance=0.01, candidates=None)
    assert found == ([] if answer.epsilon is None else [answer.epsilon])


# ---------------------------------------------------------------- who may see it, crashes, tampering


def test_the_number_is_for_the_controller(stays: Dataset, ledger: Ledger) -> None:
    """It is in the exported records, and in nothing that an analyst or the readings show."""
    answer = ask(stays, ledger, analyst="ada")
    number = numbers(ledger)[0] or ""
    entry = account_of(ledger).entries[0]
    shown = [answer.describe(), ledger.describe(), entry.publish().describe(), preview(stays, ledger, COUNT, **ASKED)]
    assert not any(number in json.dumps(document) for document in shown)
    assert number not in repr((answer, entry, account_of(ledger)))
    written = StringIO()
    ledger.export(written)
    records = [json.loads(line) for line in written.getvalue().splitlines()]
    kept = [record["payload"]["kept"] for record in records if "kept" in record["payload"]]
    assert [each["number"] for each in kept] == [number]
    assert [record["kind"] for record in records if "kept" in record["payload"]] == ["reserve"]


class Killed(BaseException):
    """Stands for the end of the process."""


def ask_and_die(stays: Dataset, ledger: Ledger, where: str) -> None:
    """Ask, in a process that ends where it would call this."""
    with pytest.raises(Killed), patch(where, side_effect=Killed):
        ask(stays, ledger)


def test_a_crash_after_the_charge_keeps_what_was_paid_for(stays: Dataset, ledger: Ledger) -> None:
    ask_and_die(stays, ledger, "dosimeter.ledger.Ledger.settle")
    assert [entry.status for entry in account_of(ledger).entries] == ["reserved"]
    ask(stays, ledger)  # takes the entry up, with the ε that its number led to
    assert charges(ledger) == [HALF]
    assert [entry.status for entry in account_of(ledger).entries] == ["released"]


def test_a_crash_before_the_commit_charges_and_keeps_nothing(stays: Dataset, ledger: Ledger) -> None:
    ask(stays, ledger, SUM)
    ask_and_die(stays, ledger, "dosimeter.ledger.checked_chain.RecordWriter.finish")
    assert charges(ledger) == [HALF]
    ask(stays, ledger)
    assert charges(ledger) == [HALF, HALF]


@pytest.mark.parametrize("asked", [{"variance": 0.8}, {"variance": 0.8, "candidates": "0.1"}])
def test_an_altered_number_is_not_used(tmp_path: Path, stays: Dataset, asked: dict[str, Any]) -> None:
    path = tmp_path / "altered.db"
    with Ledger.open(path) as ledger:
        ask(stays, ledger)
        number = numbers(ledger)[0] or ""
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DROP TRIGGER dosimeter_ledger_no_update")
        raw.execute("UPDATE dosimeter_ledger SET payload = replace(payload, ?, '1')", (f'"{number}"',))
        raw.commit()
    with Ledger.open(path) as ledger:
        assert not ledger.verify().intact
        with pytest.raises(LedgerError, match="altered"):
            ask(stays, ledger, **asked)


# ---------------------------------------------------------------- V7: the promise


def test_the_promise_is_in_the_guarantee_and_in_json(stays: Dataset, ledger: Ledger) -> None:
    answer = ask(stays, ledger, violation=0.05)
    assert answer.describe()["violation"] == 0.05
    assert "with a chance of at most 0.05" in (answer.guarantee or "")
    assert ask(stays, ledger, violation=0.05).repeated
    assert ask(stays, ledger, violation=0.05).describe() == answer.describe()
    plain = ask(stays, ledger, variance=0.85)
    assert "violation" not in plain.describe()
    assert "chance of at most" not in (plain.guarantee or "")
    ahead = preview(stays, ledger, COUNT, **{**ASKED, "variance": 0.6, "violation": 0.05})
    assert ahead["promised"] == 0.05
    assert ahead["kept"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"svt": 1.0, "variance": 0.1, "selection": "paper", "violation": 0.1}, r"Leave selection= out"),
        ({"prefer": "ratio:0.5", "violation": 0.1}, r"violation= goes with svt="),
        ({"svt": 1.0, "variance": 0.1, "violation": 1.0}, r"violation= must be a number strictly between 0 and 1"),
    ],
    ids=str,
)
def test_a_promise_that_nothing_backs_is_refused(
    stays: Dataset, ledger: Ledger, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        stays.release(COUNT, ledger=ledger, policy="budget:9", **options)
