"""Invented rows: every value as it is declared, keys that join, few rows of each individual, the same each time."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dosimeter import Dataset, OptionError, Schema
from dosimeter.schema import count_most_rows, read_schema
from dosimeter.schema.dummy_rows import MOST_ROWS
from tests.schemas import Facts, category, decimal, declare, plain, whole

pytestmark = pytest.mark.usefixtures("shared_duckdb")
LARGEST = 2**62 - 1


@st.composite
def numbers(draw: st.DrawFn) -> Facts:
    low, high = sorted(draw(st.lists(st.integers(-LARGEST, LARGEST) | st.integers(-9, 9), min_size=2, max_size=2)))
    return draw(st.sampled_from([whole(low, high), plain("integer")]))


@st.composite
def decimals(draw: st.DrawFn) -> Facts:
    step = Decimal(draw(st.sampled_from(["0.01", "0.1", "0.25", "3", "0.0007", "1"])))
    low = draw(st.integers(-(10**6), 10**6))
    high = low + draw(st.integers(0, 10**6) | st.integers(0, 9))
    given = decimal(low * step, high * step, 1) | {"resolution": step}
    return draw(st.sampled_from([given, {**given, "resolution": None}, plain("decimal")]))


@st.composite
def times(draw: st.DrawFn) -> Facts:
    first = draw(st.datetimes(max_value=datetime.fromisoformat("9998-01-01")))
    last = first + timedelta(seconds=draw(st.integers(0, 10**7)))
    if draw(st.booleans()):
        return {"type": "timestamp", "bounds": [first, last]}
    return {"type": "date", "bounds": [first.date(), last.date()]}


TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), min_size=1, max_size=30, unique=True)
COLUMNS = (
    numbers()
    | decimals()
    | times()
    | TEXTS.map(lambda values: category(*values))
    | st.sampled_from(["boolean", "text", "category", "date", "timestamp"]).map(plain)
    | st.integers(1, 3).map(lambda most: {"type": "text", "max_length": most})
)
UNITS = (
    st.sampled_from([plain("integer"), plain("text")])
    | st.integers(0, 40).map(lambda more: whole(5, 5 + more))
    | TEXTS.map(lambda values: category(*values))
)


@st.composite
def tables(draw: st.DrawFn, *, unit: bool) -> Facts:
    """The columns of a table; with ``unit``, whose each row is, how many rows count, and what tells them apart."""
    found = {f"c{at}": draw(COLUMNS) for at in range(draw(st.integers(1, 4)))}
    found = {
        name: {key: value for key, value in facts.items() if value is not None} | {"nulls": draw(st.booleans())}
        for name, facts in found.items()
    }
    if not unit:
        return {"columns": found}
    columns = {
        "who": draw(UNITS),
        "row": draw(st.sampled_from([plain("integer"), plain("text"), whole(1, 2)])),
        **found,
    }
    return {"columns": columns, "unit": "who", "max_rows_per_unit": draw(st.integers(1, 12)), "row_key": "row"}


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    own = draw(tables(unit=draw(st.booleans())))
    joined: dict[str, Facts] = {}
    if "unit" in own and draw(st.booleans()):
        joined["labs"] = draw(tables(unit=True))
    if draw(st.booleans()):
        name = draw(st.sampled_from([name for name in own["columns"] if name not in ("who", "row")]))
        key = draw(st.sampled_from([own["columns"][name], plain(own["columns"][name]["type"])]))
        joined["wards"] = {"public": True, "key": name, "columns": {name: key, "beds": draw(COLUMNS)}}
        joined["wards"]["columns"]["beds"].pop("resolution", None)
    return read_schema(declare("t", 100, **own, tables=joined))


def is_declared(value: Any, facts: Mapping[str, Any]) -> bool:
    """By the declaration as it is written in the schema, in exact numbers."""
    bounds, values = facts["bounds"], facts["values"]
    if values is not None:
        return value in values
    if isinstance(value, float):
        given = Decimal(repr(value))
        on_grid = facts["resolution"] is None or given % facts["resolution"] == 0
        return on_grid and (bounds is None or bounds[0] <= given <= bounds[1])
    if isinstance(value, str):
        return len(value) <= 9  # also a value that a column of the same name declares
    return bounds is None or bounds[0] <= value <= bounds[1]


KINDS = {"integer": int, "decimal": float, "boolean": bool, "date": date, "timestamp": datetime}


def check_cells(table: pa.Table, columns: Mapping[str, Any], never_null: set[str | None]) -> None:
    assert table.column_names == list(columns)
    for name, column in columns.items():
        cells = table.column(name).to_pylist()
        facts = {each: getattr(column, each) for each in ("bounds", "values", "resolution", "max_length")}
        known = [cell for cell in cells if cell is not None]
        assert all(type(cell) is KINDS.get(column.type, str) for cell in known)
        assert [cell for cell in known if not is_declared(cell, facts) and name not in never_null] == []
        missing = len(cells) - len(known)
        assert missing == 0 if name in never_null else missing <= len(cells) / 10
        assert not column.nulls or name in never_null or len(cells) < 10 or missing


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(schemas(), st.integers(1, 300))
def test_rows_are_as_declared(schema: Schema, rows: int) -> None:
    rows = min(rows, count_most_rows(schema))
    own = schema.dummy(rows)
    assert own.num_rows == rows
    assert own.equals(read_schema(dict(written(schema))).dummy(rows))
    units = set() if schema.unit == "row" else {schema.unit, schema.row_key}
    check_cells(own, schema.columns, {None, *units})
    if units:
        check_units(own, schema.unit, schema.max_rows_per_unit, schema.columns)
    others = {name: schema.dummy(rows, table=name) for name in schema.tables}
    if "labs" in others:
        labs = schema.tables["labs"]
        check_cells(others["labs"], labs.columns, {"who", "row"})
        check_units(others["labs"], "who", labs.max_rows_per_unit, labs.columns)
        ours, theirs = (set(each.column("who").to_pylist()) for each in (own, others["labs"]))
        declared = [each.columns["who"] for each in (schema, labs)]
        if all(each.bounds is None and each.values is None for each in declared):
            assert ours >= theirs or declared[0].type != declared[1].type
    if "wards" in others:
        wards = schema.tables["wards"]
        assert wards.key is not None
        check_cells(others["wards"], wards.columns, {wards.key})
        keys = others["wards"].column(wards.key).to_pylist()
        assert len(set(keys)) == len(keys)
        if len(keys) < 10_000:
            assert {*own.column(wards.key).to_pylist()} - {None} <= {*keys}
    with Dataset.open(own, schema=schema, tables=others) as dataset:
        assert not any(dataset.engine.count_odd_cells(list(schema.columns)).values())
        for joined in schema.tables.values():
            assert not any(dataset.engine.count_odd_cells(list(joined.columns), joined).values())


def written(schema: Schema) -> Mapping[str, Any]:
    """The schema as it is written, read again: nothing of how it was made is left."""
    import tomllib

    from dosimeter.schema import dump_schema

    return tomllib.loads(dump_schema(schema), parse_float=Decimal)


def check_units(table: pa.Table, unit: str, most: int, columns: Mapping[str, Any]) -> None:
    """At most so many rows of each individual, which the row key tells apart; both are as they are declared."""
    pairs = list(zip(*(table.column(name).to_pylist() for name in (unit, "row")), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert max(Counter(who for who, _ in pairs).values()) <= most
    for at, name in enumerate((unit, "row")):
        column = columns[name]
        if column.values is not None:
            assert {pair[at] for pair in pairs} <= set(column.values)
        if column.bounds is not None:
            assert all(column.bounds[0] <= pair[at] <= column.bounds[1] for pair in pairs)


# ---------------------------------------------------------------- what helps to try queries

VISITS = read_schema(
    declare(
        "visits", 500, unit="pid", max_rows_per_unit=9, row_key="vid",
        columns={
            "pid": plain("text") | {"identifying": True},
            "vid": plain("integer"),
            "ward": category("a", "b", "c") | {"nulls": True},
            "part": plain("integer"),
            "place": plain("text"),
            "age": whole(0, 100),
        },
        tables={
            "labs": {
                "unit": "patient", "max_rows_per_unit": 3, "row_key": "lab",
                "columns": {"patient": plain("text"), "lab": plain("integer")},
            },
            "wards": {"public": True, "key": "ward", "columns": {"ward": plain("text"), "beds": plain("integer")}},
            "parts": {"public": True, "key": "PART", "columns": {"PART": whole(0, 10**9), "price": decimal(0, 1, 0.5)}},
            "places": {"public": True, "key": "name", "columns": {"name": plain("text")}},
        },
    )
)  # fmt: skip


def read(schema: Schema, column: str, rows: int = 300, table: str | None = None) -> list[Any]:
    found: list[Any] = schema.dummy(rows, table=table).column(column).to_pylist()
    return found


def test_several_rows_of_most_and_one_of_some() -> None:
    assert set(Counter(read(VISITS, "pid")).values()) == {1, 2, 3, 4, 5}
    labs = Counter(read(VISITS, "patient", table="labs"))
    assert set(labs.values()) == {1, 2, 3}
    assert set(labs) < set(read(VISITS, "pid"))  # some have none


def test_values_are_spread_evenly() -> None:
    ages, wards = read(VISITS, "age", 1_000), Counter(read(VISITS, "ward", 1_000))
    assert {age for age in ages if age is not None} == set(range(101))
    assert wards.pop(None) == 100
    assert all(abs(count - 300) < 40 for count in wards.values())


@pytest.mark.parametrize(
    ("ours", "key", "table"), [("ward", "ward", "wards"), ("part", "PART", "parts"), ("place", "name", "places")]
)
def test_what_is_joined_on_is_covered(ours: str, key: str, table: str) -> None:
    """By a key that says no values, by a column that says none, and where both say none and are called differently."""
    keys, wanted = read(VISITS, key, table=table), set(read(VISITS, ours)) - {None}
    assert len(set(keys)) == len(keys)
    assert wanted
    assert wanted <= set(keys)


def test_another_process_invents_the_same() -> None:
    program = "from dosimeter import Schema; import sys; print(Schema.load(sys.argv[1]).dummy(50).to_pylist())"
    path = __file__.replace("unit/test_dummy_rows.py", "corpus/care.toml")
    made = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert made.stdout.strip() == str(Schema.load(path).dummy(50).to_pylist())


def test_texts_are_short() -> None:
    texts = read_schema(declare("t", 900, {"a": plain("text"), "b": plain("text") | {"max_length": 1}}))
    assert {len(text) for text in read(texts, "a") if text is not None} == {1, 2}
    assert {text for text in read(texts, "b") if text is not None} == set("abcdefghijklmnopqrstuvwxyz")


def test_another_schema_invents_other_rows() -> None:
    other = read_schema(declare("t", 900, {"a": whole(0, 99)}))
    assert read(other, "a") != read(read_schema(declare("t", 901, {"a": whole(0, 99)})), "a")


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("rows", [0, -1, True, 1.5, "9"])
def test_a_number_of_rows_is_whole_and_positive(rows: Any) -> None:
    with pytest.raises(OptionError, match="whole number, at least 1"):
        VISITS.dummy(rows)


def test_size_is_refused_by_what_is_public() -> None:
    wide = read_schema(declare("t", 10**6, {f"c{at}": plain("boolean") for at in range(1_000)}))
    few = read_schema(
        declare("t", 10, {"who": category("x", "y"), "at": whole(1, 2)}, unit="who", max_rows_per_unit=7, row_key="at")
    )
    large = replace(VISITS, individuals=None)
    for schema, most in ((large, MOST_ROWS), (wide, 50_000), (few, 4), (VISITS, 4_500), (EVERYBODY, 7)):
        with pytest.raises(OptionError, match=f"At most {most:,} rows"):
            schema.dummy(most + 1)
    assert few.dummy(4).num_rows == 4


EVERYBODY = read_schema(declare("t", 7, {"a": plain("boolean")}))


def test_no_more_people_than_are_declared() -> None:
    """An answer counts no more of them: then the rows would give other numbers than they hold."""
    assert EVERYBODY.dummy(7).num_rows == 7
    assert len(set(read(VISITS, "pid", 4_500))) == 500
    assert set(Counter(read(VISITS, "pid", 4_500)).values()) == {9}
    assert len(set(read(VISITS, "pid", 3_000))) == 500


def test_only_declared_tables_have_rows() -> None:
    with pytest.raises(OptionError, match=r"no table beds\. Declared: visits, labs, wards, parts, places"):
        VISITS.dummy(9, table="beds")
    assert VISITS.dummy(9, table="visits").equals(VISITS.dummy(9))
