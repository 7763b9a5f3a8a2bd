"""A private table with one row per individual, such as the patients behind visits: it needs no row key.

What is measured is compared with plain Python over the joined rows, and with leaving each patient out.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from dosimeter import Dataset
from dosimeter.errors import SchemaError
from dosimeter.schema.toml import dump_schema, parse_schema, read_schema

MOST = 3
SEXES = ("f", "m")
SQL = "SELECT sex, COUNT(*) FROM visits JOIN patients USING (pid) GROUP BY sex"
Row = dict[str, Any]


def facts_with(**patients: Any) -> dict[str, Any]:
    columns = {"pid": {"type": "text"}, "sex": {"type": "category", "values": list(SEXES)}}
    return {
        "table": "visits",
        "individuals": 40,
        "unit": "pid",
        "max_rows_per_unit": MOST,
        "row_key": "vid",
        "reviewed": True,
        "columns": {"pid": {"type": "text"}, "vid": {"type": "integer"}},
        "tables": {"patients": {"unit": "pid", "max_rows_per_unit": 1, "columns": columns} | patients},
    }


WAYS = {"none": facts_with(), "the unit": facts_with(row_key="pid"), "another": facts_with(row_key="sex")}


def draw(seed: int) -> tuple[list[Row], list[Row]]:
    chance = random.Random(seed)
    people = [f"p{at}" for at in range(chance.randint(1, 12))]
    visits = [{"pid": chance.choice(people), "vid": at} for at in range(chance.randint(0, 30))]
    known = [pid for pid in [*people, "p99"] if chance.random() < 0.8]
    return visits, [{"pid": pid, "sex": chance.choice([*SEXES, "x", None])} for pid in known]


def open_tables(visits: Sequence[Row], patients: Sequence[Row], facts: dict[str, Any]) -> Dataset:
    return Dataset.open(
        pa.Table.from_pylist(list(visits), schema=pa.schema([("pid", pa.string()), ("vid", pa.int64())])),
        schema=facts,
        table="visits",
        tables={
            "patients": pa.Table.from_pylist(
                list(patients), schema=pa.schema([(name, pa.string()) for name in ("pid", "sex")])
            )
        },
    )


def count_by_sex(visits: Sequence[Row], sex_of: dict[str, str | None]) -> list[int]:
    """Visits by the patient's sex, at most MOST of each: which of them does not matter here."""
    each = Counter(visit["pid"] for visit in visits)
    return [
        sum(min(number, MOST) for pid, number in each.items() if pid in sex_of and sex_of[pid] == sex) for sex in SEXES
    ]


@pytest.mark.parametrize("way", WAYS)
def test_one_row_each_needs_no_row_key(way: str) -> None:
    joined = 0
    for seed in range(12):
        visits, patients = draw(seed)
        sex_of = {row["pid"]: row["sex"] for row in patients}
        whole = count_by_sex(visits, sex_of)
        moves = []
        for pid in {visit["pid"] for visit in visits}:
            left = count_by_sex([visit for visit in visits if visit["pid"] != pid], sex_of)
            moves.append(float(sum(abs(a - b) for a, b in zip(whole, left, strict=True))))
        with open_tables(visits, patients, WAYS[way]) as dataset:
            risk = dataset.risk(SQL)
            assert risk.sensitivity == MOST
            assert [row[0] for row in risk.measured().values] == whole
            pairs = zip(risk.sensitivities.values.tolist(), risk.sensitivities.counts.tolist(), strict=True)
        found = Counter({value: count for value, count in pairs if value})
        assert found == Counter(move for move in moves if move)
        joined += sum(whole)
    assert joined > 30, "the tables are joined at all"


@pytest.mark.parametrize("way", WAYS)
def test_of_several_rows_one_counts_whoever_else_is_there(way: str) -> None:
    """The schema says one row each and the data do not: one of the rows is chosen, by that individual's rows alone."""
    visits = [{"pid": pid, "vid": at} for at, pid in enumerate(["p1", "p1", "p2", "p3"])]
    twice = [{"pid": "p1", "sex": "m"}, {"pid": "p1", "sex": "f"}]
    others = [{"pid": "p2", "sex": "f"}, {"pid": "p3", "sex": "m"}, {"pid": "p3", "sex": "m"}]
    with open_tables(visits, [*twice, *others], WAYS[way]) as dataset:
        everybody = [int(row[0]) for row in dataset.risk(SQL).measured().values]
    with open_tables(visits[:2], twice[::-1], WAYS[way]) as dataset:
        alone = [int(row[0]) for row in dataset.risk(SQL).measured().values]
    assert sorted(alone) == [0, 2]
    assert [a - b for a, b in zip(everybody, alone, strict=True)] == [1, 1]


def test_a_table_of_the_unit_alone() -> None:
    only = facts_with()
    only["tables"]["patients"]["columns"] = {"pid": {"type": "text"}}
    visits = [{"pid": pid, "vid": at} for at, pid in enumerate(["p1", "p1", "p2"])]
    with open_tables(visits, [{"pid": "p1", "sex": None}] * 3, only) as dataset:
        risk = dataset.risk("SELECT COUNT(*) FROM visits JOIN patients USING (pid)")
        assert [row[0] for row in risk.measured().values] == [2]


@pytest.mark.parametrize("way", WAYS)
def test_written_and_read_again(way: str) -> None:
    schema = read_schema(WAYS[way])
    assert parse_schema(dump_schema(schema)) == schema


def test_a_row_key_is_not_the_unit() -> None:
    assert read_schema(facts_with(max_rows_per_unit=2)).tables["patients"].row_key is None
    with pytest.raises(SchemaError, match="another column than unit"):
        read_schema(facts_with(max_rows_per_unit=2, row_key="pid"))


def test_the_first_table_too() -> None:
    first = {name: value for name, value in facts_with().items() if name not in ("row_key", "tables")}
    schema = read_schema(first | {"max_rows_per_unit": 1})
    assert (schema.unit, schema.row_key) == ("pid", None)
    with open_tables(
        [{"pid": "p1", "vid": 1}, {"pid": "p2", "vid": 2}, {"pid": "p2", "vid": 3}],
        [],
        {**first, "max_rows_per_unit": 1},
    ) as dataset:
        assert [row[0] for row in dataset.risk("SELECT COUNT(*) FROM visits").measured().values] == [2]
