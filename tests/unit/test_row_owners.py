"""Whose rows these are: a draft that protects people where their rows repeat, and warnings where a schema does not."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.engines.duckdb import open_duckdb
from dosimeter.inspection.row_owners import (
    ColumnCounts,
    Evidence,
    find_overlooked_owner,
    find_repeated_owner,
    weigh_name,
)
from dosimeter.inspection.written_draft import propose_bound
from dosimeter.schema.facts import Column, ColumnType
from dosimeter.schema.toml import parse_schema, read_schema
from tests.known import known
from tests.schemas import declare, whole
from tests.unit.drafts import check, draft

Table = dict[str, Sequence[Any]]


def make_visits(seed: int = 1, visits: int = 3000, patients: int = 250) -> Table:
    """Visits, a third of which are those of one busy patient."""
    chance = random.Random(seed)
    owners = [0 if chance.random() < 0.33 else chance.randrange(patients) for _ in range(visits)]
    return {
        "patient_id": [f"p{owner}" for owner in owners],
        "visit_id": list(range(visits)),
        "ward": [chance.choice("ABC") for _ in range(visits)],
        "minutes": [chance.randrange(100) for _ in range(visits)],
    }


def read_comments(text: str) -> str:
    return " ".join(line.removeprefix("# ") for line in text.splitlines() if line.startswith("#"))


def facts_of(table: Table, **more: Any) -> dict[str, Any]:
    """A schema by hand in which every row is an individual."""
    columns: dict[str, Any] = {
        "patient_id": {"type": "text", "identifying": True},
        "visit_id": {"type": "integer", "identifying": True},
        "minutes": whole(0, 120),
    }
    return declare("data", 5000, {name: columns[name] for name in columns if name in table}) | more


# ---------------------------------------------------------------- the written draft


def test_people_with_many_rows_become_the_unit() -> None:
    table = make_visits()
    written = draft(pa.table(dict(table)))
    schema = parse_schema(written.text)
    assert schema == written.schema
    each = Counter(table["patient_id"])
    assert (schema.unit, schema.individuals, schema.row_key) == ("patient_id", len(each), "visit_id")
    covered = sum(rows <= schema.max_rows_per_unit for rows in each.values()) / len(each)
    assert 0.95 <= covered < 1.0
    cut = sum(max(rows - schema.max_rows_per_unit, 0) for rows in each.values())
    assert f"{cut:,} of 3,000 rows" in read_comments(written.text)
    assert not schema.reviewed
    found = check(pa.table(dict(table)), schema)
    assert found.agrees
    assert any(f"{cut:,} of 3,000 rows" in remark.remark for remark in found.remarks)


def test_following_the_draft_protects_people() -> None:
    """Reviewed as it is, the draft's answers move by at most Δ when a whole person leaves; by rows it would be more."""
    table = make_visits()
    schema = parse_schema(draft(pa.table(dict(table))).text.replace("reviewed = false", "reviewed = true"))
    busy = [at for at, owner in enumerate(table["patient_id"]) if owner == "p0"]
    without = {name: [cell for at, cell in enumerate(cells) if at not in set(busy)] for name, cells in table.items()}
    answers = []
    for rows in (table, without):
        with Dataset.open(pa.table(dict(rows)), schema=schema) as dataset:
            risk = dataset.risk("SELECT COUNT(*) FROM data")
            answers.append(float(risk.measured().values[0][0]))
            delta = risk.sensitivity
    assert 0 < answers[0] - answers[1] <= delta < len(busy)


@pytest.mark.parametrize(
    ("columns", "row_key"),
    [
        ({"visit": "unique"}, "visit"),
        ({"visit": "numbered"}, "visit"),  # 1, 2, 3 … for each patient
        ({"note": "unique text", "visit_no": "numbered"}, "visit_no"),
        ({"pop": "unique", "year": "numbered"}, "year"),  # no two patients weigh the same: that is chance
        ({"exper": "numbered", "transplant": "unique"}, None),
        ({"year": "years", "month": "months"}, None),  # only both together tell rows apart
        ({"visit_no": "gaps"}, None),
        ({"day": "dates"}, None),
    ],
)
def test_the_row_key_is_unique_within_the_unit(columns: dict[str, str], row_key: str | None) -> None:
    owners = [f"p{at * at % 211}" for at in range(900)]
    seen: Counter[str] = Counter()
    numbered = []
    for owner in owners:
        seen[owner] += 1
        numbered.append(seen[owner])
    kinds: dict[str, pa.Array] = {
        "unique": pa.array(range(900)),
        "numbered": pa.array(numbered),
        "years": pa.array([2000 + at // 2 for at in numbered]),
        "months": pa.array([at % 2 + 1 for at in numbered]),
        "unique text": pa.array([f"text {at}" for at in range(900)]),
        "gaps": pa.array([None if at == 5 else at for at in numbered]),
        "dates": pa.array([at * 86_400_000 for at in range(900)], pa.date64()).cast(pa.date32()),
    }
    table = {"patient": pa.array(owners), **{name: kinds[kind] for name, kind in columns.items()}}
    written = draft(pa.table(dict(table)))
    schema = parse_schema(written.text)
    assert (schema.unit, schema.row_key) == ("patient", row_key)
    assert schema.max_rows_per_unit == propose_bound(Counter(seen.values())) > 1
    assert ("No row_key is needed" in read_comments(written.text)) == (row_key is None)
    if row_key is None:
        return
    pairs = list(zip(owners, table[row_key].to_pylist(), strict=True))
    assert len(set(pairs)) == len(pairs)


def test_numbers_of_people_kept_as_floats_or_listed() -> None:
    for cells in ([float(at % 60) for at in range(240)], [f"p{at % 60}" for at in range(240)]):
        schema = draft(pa.table({"subject": cells, "x": list(range(240))})).schema
        column = schema.columns["subject"]
        assert (schema.unit, schema.individuals) == ("subject", 60)
        assert (column.identifying, column.bounds, column.values) == (True, None, None)
        assert column.type in (ColumnType.INTEGER, ColumnType.TEXT)


APART: dict[str, Table] = {
    "namesakes": {"patient_id": list(range(300)), "name": [f"Kim {at % 200}" for at in range(300)]},
    "a few namesakes": {"id": list(range(300)), "name": [f"Kim {at % 290}" for at in range(300)]},
    "clinics": {"clinic_id": [at % 7 for at in range(300)], "x": list(range(300))},
    "regions": {"region_name": [f"r{at % 22}" for at in range(300)]},
    "first names": {"first_name": [f"n{at % 120}" for at in range(300)]},
    "citizens": {"citizen": ["US", "Non-US"] * 150},
    "children": {"child618": [at % 9 for at in range(300)]},
    "titles": {"title": [f"t{at % 290}" for at in range(300)]},
    "nitrogen monoxide": {"NO": [at % 90 for at in range(300)]},
    "nothing": {"x": [at % 9 for at in range(300)]},
    "one patient": {"patient_id": ["p1"] * 30},
    "nobody": {"patient_id": pa.array([], pa.string())},
}


@pytest.mark.parametrize("table", APART.values(), ids=APART)
def test_rows_are_individuals_where_nothing_speaks_against_it(table: Table) -> None:
    written = draft(pa.table(dict(table)))
    assert written.schema.unit == "row"
    assert "Whose privacy" not in written.text


@pytest.mark.parametrize(
    ("each", "bound"),
    [({1: 10}, 1), ({1: 99, 40: 1}, 1), ({3: 10}, 5), ({9: 100, 3860: 1}, 10), ({1: 50, 13: 50}, 20), ({101: 2}, 200)],
)
def test_the_bound_is_a_round_number_that_is_enough_for_nearly_all(each: dict[int, int], bound: int) -> None:
    assert propose_bound(each) == bound


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("patient_id", Evidence.PERSON), ("PatientId", Evidence.PERSON), ("Patient ID", Evidence.PERSON),
        ("customer_no", Evidence.PERSON), ("subject", Evidence.PERSON), ("email", Evidence.PERSON),
        ("pid", Evidence.PERSON), ("patient_name", Evidence.NAME), ("name", Evidence.NAME), ("address", Evidence.NAME),
        ("region_name", Evidence.KEY), ("visit_id", Evidence.KEY), ("caseid", Evidence.KEY),
        ("patient_age", Evidence.NONE), ("first_name", Evidence.NONE), ("surname", Evidence.NONE),
        ("minutes", Evidence.NONE), ("", Evidence.NONE), ("42", Evidence.NONE),
    ],
)  # fmt: skip
def test_what_a_name_says(name: str, evidence: Evidence) -> None:
    assert weigh_name(name) is evidence


def test_a_person_is_preferred_to_a_key_and_a_key_to_a_name() -> None:
    columns = [Column(name, ColumnType.TEXT) for name in ("order_id", "patient_id", "name")]
    counts = {"order_id": ColumnCounts(900, 450), "patient_id": ColumnCounts(900, 80), "name": ColumnCounts(900, 79)}
    owner = known(find_repeated_owner(columns, counts, 900))
    assert str(owner).startswith("patient_id ")
    assert "80 values in 900 rows" in str(owner)


# ---------------------------------------------------------------- warnings where a schema says otherwise


def test_check_warns_and_agrees() -> None:
    table = make_visits()
    found = check(pa.table(dict(table)), read_schema(facts_of(table)))
    assert found.agrees
    (remark,) = found.remarks
    assert 'unit = "patient_id"' in remark.remark
    assert f"{len(set(table['patient_id'])):,} values in 3,000 rows" in remark.remark


def test_no_warning_without_marks_or_with_a_unit() -> None:
    table = make_visits()
    unmarked = facts_of(table)
    unmarked["columns"]["patient_id"] = {"type": "text"}
    units = facts_of(table, unit="patient_id", max_rows_per_unit=5, row_key="visit_id")
    for facts in (unmarked, units):
        engine = open_duckdb(pa.table(dict(table)))
        schema = read_schema(facts)
        engine.impose(schema)
        before = engine.rows_fetched
        assert find_overlooked_owner(engine, schema) is None
        if facts is units:
            assert engine.rows_fetched == before, "nothing is looked at"
        engine.close()


def test_release_warns_the_controller_when_an_account_is_opened_or_continued(ledger: Ledger) -> None:
    table = make_visits()
    grown = {name: [*cells, cells[0]] for name, cells in table.items()}
    notes = []
    for rows, sql, options in (
        (table, "SELECT COUNT(*) FROM data", {"policy": "budget:9"}),
        (table, "SELECT SUM(minutes) FROM data", {}),
        (grown, "SELECT COUNT(*) FROM data", {"continued": True}),
    ):
        with Dataset.open(pa.table(dict(rows)), schema=facts_of(table)) as dataset:
            answer = dataset.release(sql, epsilon=1.0, ledger=ledger, **options)
        assert answer.status == "released"
        assert "patient_id" not in json.dumps(answer.describe()), "the analyst sees nothing of it"
        notes.append([note for note in answer.notes if "patient_id" in note])
    assert [len(found) for found in notes] == [1, 0, 1]
    assert 'unit = "patient_id"' in notes[0][0]


def test_risk_without_a_schema_says_so_and_looks_once() -> None:
    with Dataset.open(pa.table(dict(make_visits()))) as dataset:
        risk = dataset.risk("SELECT SUM(minutes) FROM data")
        assert dataset.schema.unit == "row"
        assert risk.n == 3000
        assert sum("patient_id identifies people and repeats" in note for note in risk.notes) == 1
        before = dataset.engine.rows_fetched
        dataset.risk("SELECT SUM(minutes) FROM data")
        assert dataset.engine.rows_fetched - before == 100, "the profile alone"


def test_release_tells_the_controller_alone_of_more_people_than_declared(tmp_path: Path) -> None:
    """The answer and what the analyst reads are the same whether or not there are more (N4)."""
    table = make_visits()
    people = len(set(table["patient_id"]))
    told, published = [], []
    for declared in (people, people - 1):
        schema = read_schema(facts_of(table, unit="patient_id", max_rows_per_unit=5, individuals=declared))
        ledger_path = tmp_path / f"{declared}.db"
        with Dataset.open(pa.table(dict(table)), schema=schema) as dataset, Ledger.open(ledger_path) as ledger:
            for epsilon in (1.0, 2.0):
                answer = dataset.release("SELECT COUNT(*) FROM data", ledger=ledger, epsilon=epsilon, policy="paper")
                told.append([note for note in answer.notes if "Correct individuals" in note])
                published.append(answer.describe().keys())
                assert "Correct individuals" not in json.dumps(answer.describe())
    assert [len(notes) for notes in told] == [0, 0, 1, 0]  # when the account is opened
    assert f"holds {people:,} people and the schema declares {people - 1:,}" in told[2][0]
    assert all(keys == published[0] for keys in published)
