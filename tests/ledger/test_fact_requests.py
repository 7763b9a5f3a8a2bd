"""A search for facts is one request: one charge, whatever happens on the way, and the account agrees to its schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dosimeter import Dataset, DatasetStopped, FoundSchema, InputError, Ledger, OptionError, Schema
from dosimeter.engines.duckdb import DuckDBEngine
from dosimeter.errors import DataError, LedgerError, SourceUnreachable
from dosimeter.release.facts import spending
from dosimeter.release.thresholds import draw_numbers
from tests.known import known

TERMS: dict[str, Any] = {"spend": 40, "unit": "row", "delta": 1e-7, "policy": "budget:100"}
TABLE = pa.table({
    "age": np.random.default_rng(5).integers(20, 80, 2_000),
    "ward": np.random.default_rng(6).choice(["east", "west"], 2_000),
})  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "people.parquet"
    pq.write_table(TABLE, file)
    return file


@pytest.fixture
def table(path: Path) -> Iterator[Dataset]:
    with Dataset.open(path) as opened:
        yield opened


def find(table: Dataset, ledger: Ledger, **changes: Any) -> FoundSchema:
    return table.find_schema(ledger, **TERMS | changes)


def test_one_entry_one_charge_and_the_next_release_needs_no_further_word(
    table: Dataset, path: Path, ledger: Ledger, tmp_path: Path
) -> None:
    found = find(table, ledger)
    account = known(ledger.account("people"))
    assert [(entry.id, str(entry.charge), float(entry.delta)) for entry in account.entries] == [
        (found.entry, "40", 1e-7)
    ]
    file = tmp_path / "people.toml"
    file.write_text(found.text, encoding="utf-8")
    schema = Schema.load(file)
    assert schema == found.schema
    assert (schema.reviewed, schema.found) == ("released", found.entry)
    assert [column.found for column in schema.columns.values()] == [found.entry, found.entry]
    assert schema.columns["ward"].values == ("east", "west")
    with Dataset.open(path, schema=file) as dataset:
        answer = dataset.release("SELECT ward, AVG(age) AS a FROM people GROUP BY ward", ledger=ledger, epsilon=50)
        assert answer.status == "released"
    narrowed = Dataset.open(path, schema=replace(schema, individuals=7))
    with narrowed, pytest.raises(LedgerError, match="another schema"):
        narrowed.release("SELECT COUNT(*) FROM people", ledger=ledger, epsilon=1)


def test_asked_again_it_costs_nothing_and_gives_the_same(table: Dataset, ledger: Ledger) -> None:
    first, second = find(table, ledger), find(table, ledger, policy=None)
    assert second.repeated
    assert not first.repeated
    assert first.text == second.text
    assert str(known(ledger.summary("people")).reading.epsilon) == "40"
    again = find(table, ledger, policy=None, again=True)
    assert again.entry != first.entry
    assert str(known(ledger.summary("people")).reading.epsilon) == "80"


@pytest.mark.parametrize("change", [{"spend": 41}, {"delta": 2e-7}, {"columns": ["age"]}])
def test_another_search_is_charged_anew(table: Dataset, ledger: Ledger, change: dict[str, Any]) -> None:
    find(table, ledger)
    other = find(table, ledger, policy=None, **change)
    assert not other.repeated
    assert known(ledger.summary("people")).entry_count == 2


def test_an_account_opened_by_a_search_knows_how_many_there_are_from_then_on(table: Dataset, ledger: Ledger) -> None:
    """Its warnings, and how many more answers fit, go by that number; a replay of all records agrees."""
    found = find(table, ledger, policy="budget:100@0.5", columns=["age"], delta=None, spend=20)
    account = known(ledger.summary("people"))
    assert account.individuals == known(found.schema).individuals
    assert "above 1/2,0" in account.notes[0]
    assert account.remaining.gaussian
    assert ledger.verify().intact
    assert known(ledger.account("people")).individuals == account.individuals
    find(table, ledger, policy=None, columns=["age"], delta=None, spend=1)
    assert known(ledger.summary("people")).individuals == account.individuals


def test_an_account_takes_another_unit_only_if_somebody_says_so(path: Path, ledger: Ledger) -> None:
    """Its reading is about people: a search that takes each row for a person must not be agreed to by itself."""
    pq.write_table(TABLE.append_column("id", pa.array(np.arange(2_000) % 400)), path)
    with Dataset.open(path) as table:
        find(table, ledger, unit="id")
        with pytest.raises(LedgerError, match="another schema"):
            find(table, ledger, policy=None)
        assert known(ledger.summary("people")).entry_count == 1
        assert not find(table, ledger, policy=None, continued=True).repeated


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, LedgerError("the disk is full.")])
@pytest.mark.parametrize("question", [0, 3])
def test_what_stops_half_way_is_taken_up_at_no_further_charge(
    table: Dataset, ledger: Ledger, error: Any, question: int
) -> None:
    asked = 0

    def stop_at(*given: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == question + 1:
            raise error
        return draw_numbers(*given)

    with mock.patch.object(spending, "draw_numbers", stop_at), pytest.raises(BaseException):  # noqa: B017
        find(table, ledger)
    (entry,) = known(ledger.account("people")).entries
    assert entry.status == "reserved"
    found = find(table, ledger, policy=None)
    assert found.entry == entry.id
    assert not found.repeated
    (settled,) = known(ledger.account("people")).entries
    assert (settled.status, str(settled.reading)) == ("released", "40")


def test_data_that_cannot_be_read_stop_the_dataset(table: Dataset, ledger: Ledger) -> None:
    with mock.patch.object(spending, "measure_exactly", side_effect=DataError("bytes")), pytest.raises(DatasetStopped):
        find(table, ledger)
    account = known(ledger.account("people"))
    assert [entry.status for entry in account.entries] == ["reserved"]
    assert account.stopped is not None
    with pytest.raises(DatasetStopped):
        find(table, ledger, policy=None)
    ledger.clear("people", by="somebody", reason="the file was mended")
    assert find(table, ledger, policy=None).entry == account.entries[0].id
    assert str(known(ledger.summary("people")).reading.epsilon) == "40"


def test_data_that_change_meanwhile_are_said_and_the_charge_with_them(table: Dataset, ledger: Ledger) -> None:
    with (
        mock.patch.object(DuckDBEngine, "is_still", return_value=False),
        pytest.raises(SourceUnreachable, match=r"changed while it was measured\. ε = 40 is charged"),
    ):
        find(table, ledger)
    assert known(ledger.summary("people")).stopped is None
    assert not find(table, ledger, policy=None).repeated
    assert str(known(ledger.summary("people")).reading.epsilon) == "40"


def test_what_the_account_can_never_allow_opens_none(table: Dataset, ledger: Ledger) -> None:
    with pytest.raises(OptionError, match="more than the account would ever allow"):
        find(table, ledger, policy="budget:39")
    with pytest.raises(OptionError, match="delta_total="):
        find(table, ledger, delta=1e-5)
    assert ledger.account("people") is None


def test_what_the_account_does_not_allow_any_more_is_denied_for_nothing(table: Dataset, ledger: Ledger) -> None:
    find(table, ledger)
    denied = find(table, ledger, policy=None, spend=61)
    assert denied.schema is None
    assert denied.text == ""
    account = known(ledger.account("people"))
    assert (account.entries[-1].status, account.entries[-1].reason) == ("denied", "budget")
    assert str(account.reading.epsilon) == "40"


def test_in_zcdp_the_questions_are_charged_one_by_one(table: Dataset, ledger: Ledger) -> None:
    """Σ ε²/2 over the questions, and δ/(1 − δ) for undeclared values: far below what one draw at ε = 0.5 costs."""
    terms = {"spend": 0.5, "policy": "budget:2@1e-6", "delta_total": 5e-7}
    find(table, ledger, **terms)
    (entry,) = known(ledger.account("people")).entries
    shares = [0.05, 0.475 * 0.1, 0.475 * 0.36, 0.475 * 0.54, 0.475]
    expected = sum((0.5 * share) ** 2 / 2 for share in shares) + 1e-7
    assert float(known(entry.rho)) == pytest.approx(expected, rel=1e-6)
    assert float(known(entry.rho)) >= expected * (1 - 1e-9)


def test_other_data_of_the_account_need_a_word(table: Dataset, ledger: Ledger, tmp_path: Path) -> None:
    find(table, ledger)
    grown = tmp_path / "grown.parquet"
    pq.write_table(pa.concat_tables([TABLE, TABLE.slice(0, 5)]), grown)
    with Dataset.open(grown, table="people") as dataset:
        with pytest.raises(LedgerError, match="the data changed"):
            find(dataset, ledger, policy=None)
        assert find(dataset, ledger, policy=None, continued=True).schema is not None


def test_an_answer_of_facts_has_no_risk_afterwards_and_says_so(table: Dataset, path: Path, ledger: Ledger) -> None:
    from dosimeter.release import ex_post_risk

    found = find(table, ledger)
    entry = known(ledger.entry(known(found.entry)))
    with Dataset.open(path, schema=known(found.schema)) as dataset, pytest.raises(InputError):
        ex_post_risk(dataset, entry)
