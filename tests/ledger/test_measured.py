"""The noisy numbers behind an answer: kept exactly, in records of a newer version, and not missed in older ones."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter.errors import LedgerError
from dosimeter.ledger import Ledger, Record
from dosimeter.ledger.entries import write_measured
from tests.known import known
from tests.ledger.ledger_worker import decide_on
from tests.ledger.raw_records import export_records, put_record, seal

NUMBERS = [[Fraction(741), Fraction(-35569, 2)], [Fraction("0.01"), Fraction(37, 2**20)]]
TEXTS = (("741", "-17784.5"), ("0.01", "37/1048576"))


def test_measured_numbers_are_kept_and_given_back(target: str) -> None:
    with Ledger.open(target) as ledger:
        entry = ledger.reserve("clinic", decide_on("0.3"))
        assert entry.measured is None
        settled = ledger.settle(entry.id, status="released", answer=[{"avg": 1.5}], measured=NUMBERS)
        assert settled.measured == TEXTS
        assert [[Fraction(text) for text in row] for row in settled.measured] == NUMBERS
    with Ledger.open(target) as again:
        assert again.entry(entry.id) == settled
        assert "measured" not in json.dumps(again.describe())
        last = export_records(again)[-1]
    assert (last["kind"], last["version"]) == ("settle", 3)
    assert last["payload"]["measured"] == [[list(row) for row in TEXTS]]


def test_a_denial_has_none(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        entry = ledger.reserve("clinic", decide_on("0.3"))
        with pytest.raises(LedgerError, match="no measured numbers"):
            ledger.settle(entry.id, status="denied", measured=NUMBERS)
        assert ledger.settle(entry.id, status="denied").measured is None


def write_settlement(path: Path, entry_id: str, version: int, payload: dict[str, object]) -> None:
    """A sealed settlement, as another version of the program would have written it."""
    with Ledger.open(path) as ledger:
        head, records = ledger.verify().head, ledger.verify().records
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    record = Record(records + 1, "clinic", "settle", version, "2026-11-15T10:00:00Z", entry_id, text, head, "")
    with closing(sqlite3.connect(path)) as raw:
        put_record(raw, seal(record))
        raw.commit()


PLAIN: dict[str, object] = {
    "status": "released",
    "answer": {"columns": ["n"], "rows": [[3]]},
    "guarantee": "g",
    "error_95": [1.0],
}


def test_settlements_of_the_second_version_are_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        entry = ledger.reserve("clinic", decide_on("0.3"))
    write_settlement(path, entry.id, 2, {**PLAIN, "measured": [list(row) for row in TEXTS]})
    with Ledger.open(path) as ledger:
        old = known(ledger.entry(entry.id))
        assert (old.measured, old.blocks, old.errors, old.about) == (TEXTS, (TEXTS,), None, None)


def test_settlements_of_the_first_version_are_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        entry = ledger.reserve("clinic", decide_on("0.3"))
    write_settlement(path, entry.id, 1, PLAIN)
    with Ledger.open(path) as ledger:
        assert ledger.verify().intact
        old = known(ledger.entry(entry.id))
        assert (old.status, old.answer, old.measured) == ("released", [{"n": 3}], None)
        newer = ledger.reserve("clinic", decide_on("0.3"))
        assert ledger.settle(newer.id, status="released", answer=[], measured=[]).measured == ()


@pytest.mark.parametrize("measured", [[[1, 2]], "text", [["1"], [None]], 7])
def test_what_is_no_list_of_numbers_as_text_is_refused(tmp_path: Path, measured: object) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        entry = ledger.reserve("clinic", decide_on("0.3"))
    write_settlement(path, entry.id, 2, {**PLAIN, "measured": measured})
    with Ledger.open(path) as ledger:
        assert ledger.verify().first_bad == (3, "its payload is not that of a record of kind settle")


@given(st.fractions() | st.decimals(allow_nan=False, allow_infinity=False, places=9).map(Fraction) | st.integers())
def test_every_number_is_written_exactly(number: Fraction) -> None:
    ((text,),) = write_measured([[Fraction(number)]])
    assert Fraction(text) == number
    assert "e" not in text.lower()
    assert ("/" in text) == (10**9 % Fraction(number).denominator != 0)
