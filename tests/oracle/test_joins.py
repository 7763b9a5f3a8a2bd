"""Joined tables: the closed form against joining and leaving out by hand.

The oracle keeps the right rows of each private table, joins by nested loops in Python, and deletes everybody in turn
from all private tables. Also here: CTEs and subqueries give what the written-out query gives, and what is refused.
"""

from __future__ import annotations

import csv
import random
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter import Dataset, Ledger
from dosimeter.errors import DosimeterError, QueryError, SchemaError
from dosimeter.planning import plan_query
from dosimeter.schema.toml import dump_schema, parse_schema, read_schema
from tests.corpus.reading import FOLDER
from tests.oracle.unit_oracle import (
    DECLARED,
    SLOTS,
    Aggregate,
    Condition,
    Grouping,
    Question,
    Row,
    Term,
    assert_same_people,
    bound,
    check_against_deletion,
    expand,
    kept_rows,
    leave_out,
)

EXAMPLES = settings().max_examples
WARDS, REGIONS = ("A", "B"), ("north", "south")
DECLARED["clinics.region"] = REGIONS
FACTS: dict[str, Any] = tomllib.loads((FOLDER / "joins.toml").read_text(encoding="utf-8"))
VISITS = pa.schema([(name, pa.string() if name in ("pid", "ward") else pa.int64()) for name in FACTS["columns"]])
CLINICS = pa.schema([("clinic_id", pa.int64()), ("region", pa.string()), ("beds", pa.int64()), ("x", pa.int64())])
LABS = pa.schema([("pid", pa.string()), ("lab", pa.string()), ("score", pa.int64()), ("kind", pa.int64())])


@dataclass(frozen=True)
class Tables:
    visits: list[Row]
    clinics: list[Row]
    labs: list[Row]

    def open(self, m: int, n: int, **facts: Any) -> Dataset:
        schema = {**FACTS, "max_rows_per_unit": m, **facts}
        labs = {**FACTS["tables"]["labs"], "max_rows_per_unit": n}
        schema["tables"] = {**FACTS["tables"], "labs": labs}
        return Dataset.open(
            pa.Table.from_pylist(self.visits, schema=VISITS),
            schema=schema,
            table="visits",
            tables={
                "clinics": pa.Table.from_pylist(self.clinics, schema=CLINICS),
                "labs": pa.Table.from_pylist(self.labs, schema=LABS),
            },
        )


def count_visits(tables: Tables, m: int) -> list[Row]:
    """Return the visits that count."""
    return kept_rows(tables.visits, m, FACTS["columns"], "pid")


def count_labs(tables: Tables, n: int) -> list[Row]:
    """Return the labs that count."""
    return kept_rows(tables.labs, n, FACTS["tables"]["labs"]["columns"], "pid")


def draw_tables(seed: int) -> Tables:
    chance = random.Random(seed)
    people = [f"p{at}" for at in range(chance.choice([1, 3, 5]))]

    def some(values: Sequence[Any]) -> Any:
        return None if chance.random() < 0.15 else chance.choice(values)

    visits = [
        {"pid": chance.choice(people), "vid": at * 7 - 20, "clinic_id": some(range(1, 6)), "x": some(range(-1, 8)),
         "ward": some([*WARDS, "Nowhere"])}
        for at in range(chance.choice([0, 1, 6, 12, 12]))
    ]  # fmt: skip
    clinics = [
        {"clinic_id": at, "region": some([*REGIONS, "east"]), "beds": some(range(-3, 6)), "x": some([0, 1])}
        for at in chance.sample([1, 2, 3, 4, 9], 4)
    ]
    clinics.append({"clinic_id": None, "region": "north", "beds": 1, "x": 1})
    labs = [
        {
            "pid": chance.choice([*people, "stranger"]),
            "lab": f"l{at}é",
            "score": some(range(-1, 8)),
            "kind": some([1, 2]),
        }
        for at in range(chance.choice([0, 2, 8]))
    ]
    return Tables(visits, clinics, labs)


TABLES = st.integers(0, 2**32).map(draw_tables)


# ---------------------------------------------------------------- joins with their meaning


def match(left: Sequence[Row], right: Sequence[Row], pairs: dict[str, str], *, name: str, keep: bool) -> Iterator[Row]:
    """Nested loops. Columns of the right table stand under ``name.column`` beside those of the left."""
    columns = FACTS["tables"][name]["columns"]
    for row in left:
        found = [other for other in right if all(row[a] is not None and row[a] == other[b] for a, b in pairs.items())]
        for other in found or ([dict.fromkeys(columns)] if keep else []):
            yield {**row, **{f"{name}.{column}": other[column] for column in columns}}


Joined = Callable[[Sequence[Row], Tables, Sequence[Row]], list[Row]]


def with_clinics(keep: bool) -> Joined:
    return lambda visits, tables, labs: list(
        match(visits, tables.clinics, {"clinic_id": "clinic_id"}, name="clinics", keep=keep)
    )


def with_labs(keep: bool, also: dict[str, str] | None = None) -> Joined:
    return lambda visits, tables, labs: list(
        match(visits, labs, {"pid": "pid", **(also or {})}, name="labs", keep=keep)
    )


def with_both(visits: Sequence[Row], tables: Tables, labs: Sequence[Row]) -> list[Row]:
    return with_labs(True)(with_clinics(False)(visits, tables, labs), tables, labs)


def with_chain(visits: Sequence[Row], tables: Tables, labs: Sequence[Row]) -> list[Row]:
    """The public table is reached through a column of the private one."""
    joined = with_labs(False)(visits, tables, labs)
    return list(match(joined, tables.clinics, {"labs.kind": "clinic_id"}, name="clinics", keep=False))


# What stands in FROM, what it means, which tables it has, and whether the private one multiplies rows.
JOINS: list[tuple[str, Joined, str, bool]] = [
    ("visits JOIN clinics USING (clinic_id)", with_clinics(False), "clinics", False),
    ("visits v INNER JOIN clinics AS c ON c.clinic_id = v.clinic_id", with_clinics(False), "clinics", False),
    ("visits LEFT JOIN clinics USING (clinic_id)", with_clinics(True), "clinics", False),
    ("visits LEFT OUTER JOIN clinics ON (visits.clinic_id = clinics.clinic_id)", with_clinics(True), "clinics", False),
    ("visits JOIN labs USING (pid)", with_labs(False), "labs", True),
    ("visits JOIN labs ON visits.pid = labs.pid", with_labs(False), "labs", True),
    ("visits LEFT JOIN labs USING (pid)", with_labs(True), "labs", True),
    (
        "visits JOIN labs ON visits.pid = labs.pid AND visits.clinic_id = labs.kind",
        with_labs(False, {"clinic_id": "kind"}),
        "labs",
        True,
    ),
    ("visits JOIN clinics USING (clinic_id) LEFT JOIN labs USING (pid)", with_both, "clinics labs", True),
    ("visits JOIN labs USING (pid) JOIN clinics ON labs.kind = clinics.clinic_id", with_chain, "clinics labs", True),
]


def clamp(column: str, low: int, high: int) -> Callable[[Row], Fraction | None]:
    return lambda row: None if row[column] is None else Fraction(min(max(row[column], low), high))


X = Term("visits.x", clamp("x", 0, 6), Fraction(0), Fraction(6), Fraction(1))
BEDS = Term("beds", clamp("clinics.beds", -2, 4), Fraction(-2), Fraction(4), Fraction(1))
SCORE = Term("labs.score", clamp("labs.score", 0, 5), Fraction(0), Fraction(5), Fraction(1))
PLACE: dict[str, tuple[list[Term], list[Grouping], list[Condition], list[str]]] = {
    "visits": (
        [X],
        [("ward", WARDS, lambda row: row["ward"])],
        [("ward = 'A'", lambda row: row["ward"] == "A"), ("visits.x > 90", lambda row: False)],
        ["vid"],
    ),
    "clinics": (
        [BEDS],
        [("region", REGIONS, lambda row: row["clinics.region"])],
        [("region <> 'north'", lambda row: row["clinics.region"] not in (None, "north"))],
        ["clinics.region"],
    ),
    "labs": (
        [SCORE],
        [("kind", tuple(range(1, 10)), lambda row: row["labs.kind"])],
        [("score IS NULL", lambda row: row["labs.score"] is None)],
        ["labs.lab"],
    ),
}


@st.composite
def questions(draw: st.DrawFn, names: str) -> Question:
    places = [PLACE[name] for name in ("visits", *names.split())]
    terms = [term for place in places for term in place[0]]
    term = draw(st.sampled_from(terms))
    column = draw(st.sampled_from([column for place in places for column in place[3]]))
    offered: list[Aggregate] = [
        ("COUNT(*)", lambda w: [w.count()]),
        (f"COUNT({term.sql})", lambda w: [w.count(term)]),
        (f"SUM({term.sql})", lambda w: [w.total(term)]),
        (f"AVG({term.sql})", lambda w: w.mean(term)),
        (f"MEDIAN({term.sql})", lambda w: [w.rank(term, Fraction(1, 2))]),
        (f"MAX({term.sql})", lambda w: [w.rank(term, Fraction(1))]),
        (f"COUNT(DISTINCT {column})", lambda w: [w.distinct(column)]),
    ]
    chosen = draw(st.lists(st.sampled_from(offered), min_size=1, max_size=2, unique_by=lambda a: a[0]))
    grouping = draw(st.one_of(st.none(), st.sampled_from([g for place in places for g in place[1]])))
    where = draw(st.one_of(st.none(), st.none(), st.sampled_from([c for place in places for c in place[2]])))
    return Question(tuple(chosen), where, (grouping,) if grouping else (), draw(st.sampled_from([None, 2])))


def write(question: Question, source: str) -> str:
    sql = question.sql.replace("FROM visits", f"FROM {source}")
    return sql.replace("visits.x", "v.x") if source.startswith("visits v") else sql


@pytest.mark.parametrize(("source", "joined", "names", "multiplies"), JOINS, ids=[join[0] for join in JOINS])
@given(data=st.data(), tables=TABLES, m=st.integers(1, 3), n=st.integers(1, 2))
@settings(max_examples=EXAMPLES // 6)
def test_joined_contributions_are_those_of_deletion(
    source: str, joined: Joined, names: str, multiplies: bool, data: st.DataObject, tables: Tables, m: int, n: int
) -> None:
    question = data.draw(questions(names))
    mechanism: Any = data.draw(st.sampled_from(["laplace", "gaussian"]))
    rows = joined(count_visits(tables, m), tables, count_labs(tables, n))
    with tables.open(m, n) as visits:
        risk = visits.risk(write(question, source), mechanism=mechanism, min_rows=question.min_rows, quantiles="noise")
        check_against_deletion(risk, question, rows, m * n if multiplies else m, "pid")


@given(data=st.data(), tables=TABLES, keep=st.booleans())
@settings(max_examples=EXAMPLES // 4)
def test_one_row_each_joins_public_tables_too(data: st.DataObject, tables: Tables, keep: bool) -> None:
    """unit = "row": everybody is one visit."""
    question = data.draw(questions("clinics"))
    visits = tables.visits[:SLOTS]
    rows = with_clinics(keep)(visits, tables, [])
    facts = {key: value for key, value in FACTS.items() if key not in ("unit", "max_rows_per_unit", "row_key")}
    facts["tables"] = {"clinics": FACTS["tables"]["clinics"]}
    clinics = {"clinics": pa.Table.from_pylist(tables.clinics, schema=CLINICS)}
    arrow = pa.Table.from_pylist(visits, schema=VISITS)
    with Dataset.open(arrow, schema=facts, table="visits", tables=clinics) as dataset:
        source = f"visits {'LEFT ' if keep else ''}JOIN clinics USING (clinic_id)"
        risk = dataset.risk(write(question, source), min_rows=question.min_rows, quantiles="noise")
        check_against_deletion(risk, question, rows, 1, "vid")


NORTH = st.sampled_from(["region", "clinics.region", '"clinics.region"'])


@given(tables=TABLES, m=st.integers(1, 3), keep=st.booleans(), region=NORTH)
@settings(max_examples=EXAMPLES // 4)
def test_filter_and_by_see_those_whom_a_join_leaves_out(tables: Tables, m: int, keep: bool, region: str) -> None:
    kept = count_visits(tables, m)
    rows = with_clinics(keep)(kept, tables, [])
    question = Question((("SUM(beds)", lambda w: [w.total(BEDS)]),), None, (), None)
    left = dict.fromkeys(dict.fromkeys(row["pid"] for row in kept), (0.0,)) | leave_out(question, rows, m, 1, "pid")
    source = f"visits {'LEFT ' if keep else ''}JOIN clinics USING (clinic_id)"
    with tables.open(m, 1) as visits:
        risk = visits.risk(write(question, source))
        for condition, holds in (
            ("ward = 'A'", {row["pid"] for row in kept if row["ward"] == "A"}),
            (f"{region} = 'north'", {row["pid"] for row in rows if row["clinics.region"] == "north"}),
        ):
            found = risk.find(f"AVG(rdr) FILTER (WHERE {condition}) >= 0", candidates=[1.0]).candidates[0].value
            expected = [bound(left[pid], risk, 1.0) for pid in holds]
            assert found == (pytest.approx(sum(expected) / len(expected), rel=1e-9) if expected else None)
        assert sum(line.people for line in risk.by("ward")) == len(left)
        assert risk.by("region") == risk.by("clinics.region")


# ---------------------------------------------------------------- CTEs and subqueries


FORMS = [
    (
        "WITH d AS (SELECT x * 2 - 1 AS y, ward FROM visits WHERE vid > 0) SELECT ward, SUM(y) FROM d GROUP BY ward",
        "SELECT ward, SUM(x * 2 - 1) FROM visits WHERE vid > 0 GROUP BY ward",
    ),
    (
        "SELECT w, MEDIAN(y), COUNT(*) FROM (SELECT ward AS w, x AS y FROM (SELECT * FROM visits WHERE x > 1) a) b "
        "WHERE y < 6 GROUP BY w",
        "SELECT ward, MEDIAN(x), COUNT(*) FROM visits WHERE x > 1 AND x < 6 GROUP BY ward",
    ),
    (
        "WITH d AS (SELECT region, beds, pid FROM visits JOIN clinics USING (clinic_id)) "
        "SELECT region, SUM(beds), COUNT(DISTINCT pid) FROM d GROUP BY region",
        "SELECT region, SUM(beds), COUNT(DISTINCT pid) FROM visits JOIN clinics USING (clinic_id) GROUP BY region",
    ),
    (
        "SELECT clinics.region, SUM(d.y) FROM (SELECT x AS y, clinic_id FROM visits WHERE ward = 'A') d "
        "LEFT JOIN clinics ON d.clinic_id = clinics.clinic_id GROUP BY clinics.region",
        "SELECT region, SUM(v.x) FROM visits v LEFT JOIN clinics USING (clinic_id) WHERE ward = 'A' GROUP BY region",
    ),
    (
        "WITH visits AS (SELECT * FROM visits WHERE ward = 'A') SELECT COUNT(*), AVG(score) FROM visits "
        "JOIN labs USING (pid)",
        "SELECT COUNT(*), AVG(score) FROM visits JOIN labs USING (pid) WHERE ward = 'A'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("nested", "plain"), FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_nested_query_gives_what_the_written_out_one_gives(nested: str, plain: str, seed: int) -> None:
    with draw_tables(seed + 40).open(2, 2) as visits:
        found, expected = visits.risk(nested), visits.risk(plain)
        assert (found.k, found.sensitivity) == (expected.k, expected.sensitivity)
        assert found.measured() == expected.measured()
        assert_same_people(expand(found.contributions), expand(expected.contributions))


# ---------------------------------------------------------------- where the tables come from


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


SOURCES_SQL = (
    "SELECT region, COUNT(*), SUM(score) FROM visits JOIN clinics USING (clinic_id) JOIN labs USING (pid) GROUP BY 1"
)


def full_tables() -> Tables:
    return next(t for t in map(draw_tables, range(100)) if len(t.visits) == 12 and len(t.labs) == 8)


def test_who_somebody_is_takes_reveal_in_every_table() -> None:
    columns = FACTS["tables"]["labs"]["columns"] | {"pid": {"type": "text"}}
    facts = {**FACTS, "tables": {"labs": FACTS["tables"]["labs"] | {"columns": columns}}}
    visits = pa.table({"pid": ["a", "b"], "vid": [1, 2], "clinic_id": [1, 1], "x": [1, 2], "ward": ["A", "B"]})
    labs = pa.table({"pid": ["a", "b"], "lab": ["1", "2"], "score": [1, 2], "kind": [1, 1]})
    with Dataset.open(visits, schema=facts, table="visits", tables={"labs": labs}) as dataset:
        risk = dataset.risk("SELECT SUM(score) FROM visits JOIN labs USING (pid)")
        for column in ("pid", "labs.pid"):
            with pytest.raises(DosimeterError, match="reveal"):
                risk.by(column)
            assert len(risk.by(column, reveal=True)) == 2


def test_group_by_means_a_column_before_an_alias() -> None:
    """As in SQL, also where the column is a joined table's."""
    sql = "SELECT {} AS region, COUNT(*) FROM visits JOIN clinics USING (clinic_id) GROUP BY region"
    by_column = plan_query(sql.format("region"), read_schema(FACTS))
    assert by_column.group_keys == (("north",), ("south",))
    with pytest.raises(QueryError, match="GROUP BY"):  # ward stands in the SELECT list, and no group does
        plan_query(sql.format("ward"), read_schema(FACTS))


def test_files_beside_the_schema_and_a_duckdb_file_give_the_same(tmp_path: Path) -> None:
    tables = full_tables()
    with tables.open(3, 2) as visits:
        expected = expand(visits.risk(SOURCES_SQL).contributions)
    folder = tmp_path / "data"
    folder.mkdir()
    schema = {**FACTS, "tables": {name: {**facts, "source": f"{name}.csv"} for name, facts in FACTS["tables"].items()}}
    (folder / "visits.toml").write_text(dump_schema(read_schema(schema)), encoding="utf-8")
    for name, rows in (("visits", tables.visits), ("clinics", tables.clinics), ("labs", tables.labs)):
        write_csv(folder / f"{name}.csv", rows)
    with Dataset.open(folder / "visits.csv", schema=folder / "visits.toml") as visits:
        assert_same_people(expand(visits.risk(SOURCES_SQL).contributions), expected)
    with duckdb.connect(tmp_path / "all.duckdb") as connection:
        for name in ("visits", "clinics", "labs"):
            connection.execute(f"CREATE TABLE {name} AS FROM '{folder / name}.csv'")
    with Dataset.open(f"duckdb:{tmp_path / 'all.duckdb'}", schema=FACTS, table="visits") as visits:
        assert_same_people(expand(visits.risk(SOURCES_SQL).contributions), expected)


def test_a_changed_joined_table_is_noticed(tmp_path: Path) -> None:
    tables = full_tables()
    changed = Tables(tables.visits, tables.clinics, [{**row, "score": 1} for row in tables.labs])
    with tables.open(3, 2) as before, tables.open(3, 2) as again, changed.open(3, 2) as after:
        assert before.engine.fingerprint() == again.engine.fingerprint() != after.engine.fingerprint()


def test_release_measures_the_rows_the_risk_is_about(tmp_path: Path) -> None:
    """At a huge ε the answer is the exact one of the kept, joined rows."""
    tables = full_tables()
    rows = with_labs(False)(count_visits(tables, 2), tables, count_labs(tables, 1))
    with tables.open(2, 1) as visits, Ledger.open(tmp_path / "ledger.db") as ledger:
        answer = visits.release(
            "SELECT COUNT(*) AS c, SUM(score) AS s FROM visits JOIN labs USING (pid)",
            epsilon=4000.0, ledger=ledger, policy="budget:10000",
        )  # fmt: skip
    assert answer.answer == [{"c": len(rows), "s": int(sum(SCORE.of(rows)))}]


def test_schema_with_tables_survives_writing() -> None:
    schema = read_schema(FACTS)
    assert parse_schema(dump_schema(schema)) == schema


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "source",
    ["clinics c LEFT JOIN g USING (clinic_id)", "g CROSS JOIN clinics", "g JOIN clinics ON g.n = clinics.clinic_id"],
)
def test_a_public_table_after_grouping_names_the_form_that_works(source: str) -> None:
    schema = read_schema(FACTS)
    grouped = "SELECT clinic_id, COUNT(*) AS n FROM visits GROUP BY clinic_id"
    with pytest.raises(QueryError) as refused:
        plan_query(f"WITH g AS ({grouped}) SELECT n FROM {source}", schema)
    shown = re.search(r"(FROM \(SELECT …\) AS g JOIN .*)\.$", str(refused.value))
    assert shown is not None
    plan = plan_query(f"SELECT n {shown[1].replace('SELECT …', grouped)}", schema)
    assert plan.after.public[0].table.name == "clinics"


def test_joins_cannot_make_very_many_rows_of_one_individuals() -> None:
    """Whoever has the most rows could make an engine fail; grouped by individual first, a table multiplies nothing."""
    labs = {**FACTS["tables"]["labs"], "max_rows_per_unit": 1_000}
    facts = {**FACTS, "max_rows_per_unit": 101, "tables": {**FACTS["tables"], "labs": labs}}
    schema = read_schema(facts)
    joined = "SELECT COUNT(*) FROM visits JOIN labs USING (pid)"
    with pytest.raises(QueryError, match="101,000 rows of one individual's; at most 100,000"):
        plan_query(joined, schema)
    with pytest.raises(QueryError, match="101,000 rows"):
        plan_query(f"WITH j AS (SELECT visits.pid, score FROM visits JOIN labs USING (pid)) {joined[:20]} j", schema)
    alone = "(SELECT pid, COUNT(*) AS n FROM labs GROUP BY pid) AS each"
    plan = plan_query(f"SELECT COUNT(*) FROM visits JOIN {alone} USING (pid) WHERE each.n > 1", schema)
    assert plan.schema.max_rows_per_unit == 101
    fewer = read_schema({**facts, "max_rows_per_unit": 100})
    assert plan_query(joined, fewer).schema.max_rows_per_unit == 100_000
    eleven = ", ".join(f"({joined} WHERE score > {at}) AS c{at}" for at in range(11))
    with pytest.raises(QueryError, match="1,100,000 rows of one individual's, all together"):
        plan_query(f"SELECT {eleven}", fewer)


def test_private_table_joins_individuals_only() -> None:
    facts = {key: value for key, value in FACTS.items() if key not in ("unit", "max_rows_per_unit", "row_key")}
    with pytest.raises(QueryError, match="both tables name the unit column"):
        plan_query("SELECT COUNT(*) FROM visits JOIN labs USING (pid)", read_schema(facts))


def test_key_that_repeats_is_refused() -> None:
    tables = full_tables()
    twice = Tables(tables.visits, [*tables.clinics, tables.clinics[0]], tables.labs)
    with (
        twice.open(3, 2) as visits,
        pytest.raises(SchemaError, match=r"\[tables.clinics\] key clinic_id is not unique"),
    ):
        visits.risk("SELECT COUNT(*) FROM visits LEFT JOIN clinics USING (clinic_id)")


def test_null_unit_of_a_joined_table_is_nobodys() -> None:
    tables = full_tables()
    nobody = Tables(tables.visits, tables.clinics, [*tables.labs, {**tables.labs[0], "pid": None}])
    counted = []
    for each in (tables, nobody):
        with each.open(3, 2) as visits:
            counted.append(visits.risk("SELECT COUNT(*) FROM visits JOIN labs USING (pid)").measured().values)
    assert counted[0] == counted[1] != ((0,),)


def change(**facts: Any) -> dict[str, Any]:
    return {key: value for key, value in {**FACTS, **facts}.items() if value is not None}


def with_table(name: str, **facts: Any) -> dict[str, Any]:
    found = {**FACTS["tables"].get(name, {}), **facts}
    return change(tables={name: {key: value for key, value in found.items() if value is not None}})


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (change(unit="nobody"), 'unit = "nobody" must be "row" or name one of the columns'),
        (change(max_rows_per_unit=None), "max_rows_per_unit = m"),
        (change(row_key="nothing"), "row_key must name one of the columns"),
        (change(row_key=["vid"]), "row_key must name one of the columns"),
        (change(row_key="pid"), "another column than unit"),
        (change(unit="row"), "everybody has one row"),
        (change(max_rows_per_unit=0), "positive whole number"),
        (change(columns={**FACTS["columns"], "pid": {"type": "decimal"}}), "integer, text or category"),
        (with_table("clinics", key=None), 'key = "…"'),
        (with_table("clinics", key="nothing"), "name the column that is unique"),
        (with_table("clinics", columns=None), "has no columns"),
        (with_table("labs", unit=None), "is private: name the unit column"),
        (with_table("labs", unit="nobody"), 'unit = "nobody"'),
        (with_table("labs", max_rows_per_unit=None), "max_rows_per_unit = m"),
        (with_table("labs", row_key="nothing"), "row_key must name one of the columns"),
        (with_table("clinics", public=False), "is private"),
        (with_table("clinics", extra=1), "unknown entry 'extra'"),
        (with_table("Visits", **FACTS["tables"]["labs"]), "two tables have one name"),
        (change(tables=3), "tables must be sections"),
        (with_table("clinics", columns={"a": {"type": "text"}, "A": {"type": "text"}}), "upper and lower case"),
        (with_table("clinics", columns={"clinic_id": {"type": "x"}}), r"\[tables.clinics.columns.clinic_id\] type"),
    ],
)  # fmt: skip
def test_schema_that_does_not_bound_individuals_is_refused(facts: dict[str, Any], says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        read_schema(facts)


def test_missing_source_is_named(tmp_path: Path) -> None:
    write_csv(tmp_path / "visits.csv", full_tables().visits)
    with Dataset.open(tmp_path / "visits.csv", schema=FACTS, table="visits") as visits:
        with pytest.raises(DosimeterError, match=r"\[tables.clinics\] does not say where its data are"):
            visits.risk("SELECT COUNT(*) FROM visits JOIN clinics USING (clinic_id)")
        assert visits.risk("SELECT COUNT(*) FROM visits").measured().values[0][0] > 0
