"""Schemas: what is read is what was written, what is wrong is named, and a digest is of facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dosimeter.errors import SchemaError
from dosimeter.planning import plan_query
from dosimeter.schema.facts import Column, ColumnType, Schema
from dosimeter.schema.toml import digest_schema, dump_schema, load_schema, parse_schema, read_schema

EXAMPLE = """
# What is publicly known.
table = "adult"
individuals = 32561
unit = "row"
max_rows_per_unit = 1
reviewed = true

[columns]
age = { type = "integer", bounds = [17, 90] }
income_eur = { type = "decimal", bounds = [0, 250000], resolution = 0.01 }
marital_status = { type = "category", values = ["Divorced", "Married-AF-spouse"] }
born = { type = "date", bounds = [1920-01-01, 2020-12-31] }
seen = { type = "timestamp", bounds = ["2024-01-01T00:00:00", 2024-12-31T23:59:59] }
member = { type = "boolean" }
name = { type = "text", identifying = true }
"""


def test_example_is_read() -> None:
    schema = parse_schema(EXAMPLE)
    assert (schema.table, schema.individuals, schema.unit, schema.max_rows_per_unit) == ("adult", 32561, "row", 1)
    assert schema.reviewed
    assert schema.columns["age"] == Column("age", ColumnType.INTEGER, bounds=(Decimal(17), Decimal(90)))
    assert schema.columns["income_eur"].resolution == Decimal("0.01")
    assert schema.columns["marital_status"].values == ("Divorced", "Married-AF-spouse")
    assert schema.columns["born"].bounds == (date(1920, 1, 1), date(2020, 12, 31))
    assert schema.columns["seen"].bounds == (
        datetime.fromisoformat("2024-01-01"),
        datetime.fromisoformat("2024-12-31T23:59:59"),
    )
    assert [name for name, column in schema.columns.items() if column.identifying] == ["name"]


NAMES = st.text(min_size=1, max_size=12).filter(lambda name: bool(name.strip()) and name.isprintable())
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.decimals(-(10**12), 10**12, places=4, allow_nan=False)


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    kind = draw(st.sampled_from(list(ColumnType)))
    identifying = draw(st.booleans())
    bounds: Any = None
    if kind is ColumnType.INTEGER:
        bounds = draw(st.one_of(st.none(), st.lists(st.integers(-(2**61), 2**61), min_size=2, max_size=2)))
        bounds = None if bounds is None else tuple(Decimal(bound) for bound in sorted(bounds))
    elif kind is ColumnType.DECIMAL:
        bounds = draw(st.one_of(st.none(), st.lists(NUMBERS, min_size=2, max_size=2)))
        bounds = None if bounds is None else tuple(sorted(bounds))
        return Column(name, kind, bounds, None, draw(st.sampled_from([None, Decimal("0.0001")])), identifying)
    elif kind is ColumnType.DATE:
        bounds = tuple(sorted(draw(st.lists(st.dates(), min_size=2, max_size=2))))
    elif kind is ColumnType.TIMESTAMP:
        bounds = tuple(sorted(draw(st.lists(st.datetimes(), min_size=2, max_size=2))))
    values = None
    if kind is ColumnType.CATEGORY:
        values = tuple(draw(st.lists(TEXTS, min_size=1, max_size=5, unique=True)))
    return Column(name, kind, bounds, values, None, identifying)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    free = NAMES.filter(lambda name: not name.lower().startswith("dosimeter_"))
    names = draw(st.lists(free, min_size=1, max_size=4, unique_by=str.lower))
    row, individual = (draw(st.sampled_from([None, "stay", "day patient", "Ärztin"])) for _ in range(2))
    return Schema(
        table=draw(NAMES),
        columns={name: draw(columns(name)) for name in names},
        individuals=draw(st.one_of(st.none(), st.integers(1, 2**53 - 1))),
        reviewed=draw(st.booleans()),
        row=row,
        rows=draw(st.sampled_from([None, "stays"])) if row else None,
        individual=individual,
        people=draw(st.sampled_from([None, "children"])) if individual else None,
    )


@settings(max_examples=50)
@given(schemas(), TEXTS)
@example(parse_schema(EXAMPLE), 'Drafted.\ntable = "evil"\n\rreviewed = false')  # a comment stays one
def test_written_and_read_again(schema: Schema, comment: str) -> None:
    text = dump_schema(schema, comment=comment)
    again = parse_schema(text)
    assert again == schema
    assert digest_schema(again) == digest_schema(schema)
    assert dump_schema(again, comment=comment) == text


@pytest.mark.parametrize(
    ("source", "located"),
    [
        ("clinics.csv", "conf/clinics.csv"),
        ("../data/Clinics.CSV.gz", "conf/../data/Clinics.CSV.gz"),
        ("parts/p-*.parquet", "conf/parts/p-*.parquet"),
        ("written.parquet/", "conf/written.parquet"),
        ("a.pq", "conf/a.pq"),
        ("duckdb:clinics.db", "duckdb:conf/clinics.db"),
        ("duckdb:/srv/clinics.db", "duckdb:/srv/clinics.db"),
        ("/srv/clinics.csv", "/srv/clinics.csv"),
        ("ref.clinics", "ref.clinics"),
        ('"Odd.Schema"."Clinics"', '"Odd.Schema"."Clinics"'),
        ("s3://bucket/x.parquet", "s3://bucket/x.parquet"),
        ("hdfs:/bucket/x.csv", "hdfs:/bucket/x.csv"),
        ("spark:ref.clinics", "spark:ref.clinics"),
    ],
)
def test_only_files_are_named_from_the_schemas_folder(
    source: str, located: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    joined = (
        f"[tables.clinics]\npublic = true\nkey = 'k'\nsource = '{source}'\n[tables.clinics.columns.k]\ntype = 'text'\n"
    )
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "t.toml").write_text(f"table = 't'\n[columns.a]\ntype = 'text'\n{joined}")
    assert load_schema("conf/t.toml").tables["clinics"].source == located


WRONG = [
    ("table = ", "not valid TOML"),
    ("a = " + "[" * 5000, "not valid TOML"),
    ("", "the table has no name"),
    ('table = " "\n[columns.a]\ntype = "text"', "the table has no name"),
    ('table = "t"', "there are no columns"),
    ('table = "t"\ncolour = "red"\n[columns.a]\ntype = "text"', "unknown entry 'colour'. Known: account, columns"),
    ('table = "t"\n[columns.a]\ntype = "text"\n[columns.A]\ntype = "text"', "upper and lower case"),
    ('table = "t"\nunit = ""\n[columns.a]\ntype = "text"', 'unit must be "row" or'),
    ('table = "t"\nunit = "a"\n[columns.a]\ntype = "text"', "max_rows_per_unit = m"),
    ('table = "t"\n[columns.dosimeter_rank]\ntype = "integer"', "start with dosimeter_"),
    ('table = "t"\nmax_rows_per_unit = 3\n[columns.a]\ntype = "text"', "everybody has one row"),
    ('table = "t"\nindividuals = 0\n[columns.a]\ntype = "text"', "individuals must be a positive whole number"),
    ('table = "t"\nindividuals = true\n[columns.a]\ntype = "text"', "individuals must be a positive whole number"),
    ('table = "t"\nreviewed = "yes"\n[columns.a]\ntype = "text"', "reviewed must be true or false"),
    ('table = "t"\nrow_key = "b"\n[columns.a]\ntype = "text"', "row_key must name one of the columns"),
    ('table = "t"\n[columns]\na = 3', "[columns.a] must be a section"),
    ('table = "t"\n[columns.a]\ntype = "float"', "[columns.a] type must be one of integer, decimal"),
    ('table = "t"\n[columns.a]\ntype = ["text"]', "[columns.a] type must be one of integer, decimal"),
    ('table = "t"\n[columns.a]\ntype = "text"\nnullable = true', "[columns.a] has an unknown entry 'nullable'"),
    ('table = "t"\n[columns.a]\ntype = "text"\nidentifying = 1', "identifying must be true or false"),
    ('table = "t"\n[columns.a]\ntype = "text"\nbounds = [1, 2]', "a text column has no bounds"),
    ('table = "t"\n[columns.a]\ntype = "integer"\nbounds = 3', "bounds = [low, high]"),
    ('table = "t"\n[columns.a]\ntype = "integer"\nbounds = [1, 2, 3]', "bounds = [low, high]"),
    ('table = "t"\n[columns.a]\ntype = "integer"\nbounds = [2, 1]', "the wrong way round"),
    ('table = "t"\n[columns.a]\ntype = "integer"\nbounds = [0.5, 1]', "must be whole numbers"),
    ('table = "t"\n[columns.a]\ntype = "integer"\nbounds = ["0", "1"]', "bounds must be numbers"),
    ('table = "t"\n[columns.a]\ntype = "integer"\nbounds = [false, true]', "bounds must be numbers"),
    ('table = "t"\n[columns.a]\ntype = "decimal"\nbounds = [0, inf]', "must be finite"),
    ('table = "t"\n[columns.a]\ntype = "decimal"\nbounds = [nan, 1]', "must be finite"),
    ('table = "t"\n[columns.a]\ntype = "decimal"\nbounds = [0, 1e400]', "below 2^62"),
    ('table = "t"\n[columns.a]\ntype = "decimal"\nbounds = [0, 1e-999999999]', "30 decimal places"),
    ('table = "t"\n[columns.a]\ntype = "decimal"\nbounds = [0, 9223372036854775807]', "below 2^62"),
    ('table = "t"\n[columns.a]\ntype = "date"\nbounds = [1, 2]', "must be days"),
    ('table = "t"\n[columns.a]\ntype = "date"\nbounds = ["May", "June"]', "must be days"),
    ('table = "t"\n[columns.a]\ntype = "date"\nbounds = [2020-01-01T00:00:00, 2020-01-02T00:00:00]', "must be days"),
    ('table = "t"\n[columns.a]\ntype = "timestamp"\nbounds = [2020-01-01, 2020-01-02]', "must be UTC moments"),
    ('table = "t"\n[columns.a]\ntype = "timestamp"\nbounds = [2020-01-01T00:00:00Z, 2020-01-02T00:00:00Z]', "UTC"),
    ('table = "t"\n[columns.a]\ntype = "integer"\nresolution = 1', "only decimal columns have a resolution"),
    ('table = "t"\n[columns.a]\ntype = "decimal"\nresolution = 0', "resolution must be a positive number"),
    ('table = "t"\n[columns.a]\ntype = "decimal"\nresolution = nan', "resolution must be finite"),
    ('table = "t"\n[columns.a]\ntype = "decimal"\nresolution = 1e-999999999', "30 decimal places"),
    ('table = "t"\n[columns.a]\ntype = "decimal"\nresolution = "fine"', "resolution must be a positive number"),
    ('table = "t"\n[columns.a]\ntype = "decimal"\nbounds = [0, 0.015]\nresolution = 0.01', "multiples of"),
    ('table = "t"\n[columns.a]\ntype = "text"\nvalues = ["x"]', "only category columns have values"),
    ('table = "t"\n[columns.a]\ntype = "category"\nvalues = []', "values must be a list of texts"),
    ('table = "t"\n[columns.a]\ntype = "category"\nvalues = ["x", "x"]', "must not repeat"),
    ('table = "t"\n[columns.a]\ntype = "category"\nmax_length = 9', "only text columns have a max_length"),
    ('table = "t"\n[columns.a]\ntype = "text"\nmax_length = 0', "from 1 to 65,536"),
    ('table = "t"\n[columns.a]\ntype = "text"\nmax_length = 65537', "from 1 to 65,536"),
    ('table = "t"\n[columns.a]\ntype = "text"\nmax_length = true', "max_length must be a whole number of letters"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "advice"), WRONG, ids=lambda text: repr(text[:90]))
def test_wrong_schema_is_named(text: str, advice: str) -> None:
    with pytest.raises(SchemaError) as refusal:
        parse_schema(text, name="my.toml")
    assert advice in str(refusal.value)
    assert str(refusal.value).startswith("my.toml")


def test_many_values_have_a_limit() -> None:
    column = {"type": "category", "values": [str(number) for number in range(10_001)]}
    with pytest.raises(SchemaError, match="more than 10,000 values"):
        read_schema({"table": "t", "columns": {"a": column}})


def test_bounds_and_resolution_of_many_digits_are_exact() -> None:
    fine = '[columns.a]\ntype = "decimal"\nbounds = [0, 4e18]\nresolution = 1e-12'
    column = parse_schema(f'table = "t"\n{fine}').columns["a"]
    assert column.resolution == Decimal("1e-12")
    close = [
        f'table = "t"\n[columns.a]\ntype = "decimal"\nbounds = [0, 0.12345678901234567890123456789{d}]' for d in "12"
    ]
    first, second = (digest_schema(parse_schema(text)) for text in close)
    assert first != second


def test_digest_is_of_facts() -> None:
    schema = parse_schema(EXAMPLE)
    same = parse_schema("# another comment\n" + EXAMPLE.replace("0.01", "0.0100").replace("[17, 90]", "[17.0, 9e1]"))
    assert digest_schema(same) == digest_schema(schema)
    assert digest_schema(replace(schema, reviewed=False)) == digest_schema(schema)
    others = [
        replace(schema, table="adults"),
        replace(schema, individuals=32562),
        parse_schema(EXAMPLE.replace("[17, 90]", "[17, 91]")),
        parse_schema(EXAMPLE.replace("0.01", "0.02")),
        parse_schema(EXAMPLE.replace('"Divorced", ', "")),
        parse_schema(EXAMPLE.replace("2020-12-31", "2021-12-31")),
        parse_schema(EXAMPLE.replace('type = "text"', 'type = "category"')),
    ]
    digests = {digest_schema(other) for other in others}
    assert len(digests) == len(others)
    assert digest_schema(schema) not in digests


DESCRIBED = """
table = "visits"
description = "One row per visit"
individuals = 10
[columns.age]
type = "integer"
description = "Age in full years"
bounds = [0, 120]
"""


def test_descriptions_are_read_written_and_no_part_of_the_facts() -> None:
    described = parse_schema(DESCRIBED)
    assert (described.description, described.columns["age"].description) == ("One row per visit", "Age in full years")
    assert parse_schema(dump_schema(described)) == described
    plain = parse_schema("\n".join(line for line in DESCRIBED.splitlines() if "description" not in line))
    assert plain.columns["age"].description is None
    assert digest_schema(plain) == digest_schema(described)
    sql = "SELECT SUM(age) FROM visits"
    assert plan_query(sql, plain).digest == plan_query(sql, described).digest


@pytest.mark.parametrize("text", ['""', '"two\\nlines"', "7", f'"{"x" * 501}"'])
def test_a_description_is_one_short_line(text: str) -> None:
    with pytest.raises(SchemaError, match="description must be one line"):
        parse_schema(DESCRIBED.replace('"Age in full years"', text))


NAMED = 'row = "entry"\nrows = "entries"\nindividual = "patient"\n'


def test_words_are_read_written_and_no_part_of_the_facts() -> None:
    named, plain = parse_schema(NAMED + DESCRIBED), parse_schema(DESCRIBED)
    assert (named.row, named.rows, named.individual, named.people) == ("entry", "entries", "patient", None)
    assert parse_schema(dump_schema(named)) == named
    assert digest_schema(named) == digest_schema(plain)
    sql = "SELECT SUM(age) FROM visits"
    assert plan_query(sql, plain).digest == plan_query(sql, named).digest


@pytest.mark.parametrize(
    "word", ['""', '"two\\nlines"', "7", f'"{"x" * 41}"', '" stay"', '"<b>"', '"stay 2"', '"a  b"']
)
@pytest.mark.parametrize("entry", ["row", "individual"])
def test_a_word_is_short_and_plain(entry: str, word: str) -> None:
    with pytest.raises(SchemaError, match=f"{entry} must be a short word"):
        parse_schema(f"{entry} = {word}\n{DESCRIBED}")


@pytest.mark.parametrize("entry", ["rows", "people"])
def test_a_plural_needs_its_singular(entry: str) -> None:
    with pytest.raises(SchemaError, match="what one is called"):
        parse_schema(f'{entry} = "several"\n{DESCRIBED}')
