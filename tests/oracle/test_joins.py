"""Joined tables: whom filters see, where the tables come from, and what is refused.

Generated joins are compared with DuckDB's own answers and with deletion in test_people_queries.py and test_forms.py.
"""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
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
from tests.oracle.leaving_out import assert_same_people, bound, expand
from tests.oracle.people_tables import CLINICS_TABLE, Row, Tables, draw_tables

EXAMPLES = settings().max_examples
FACTS: dict[str, Any] = tomllib.loads((FOLDER / "joins.toml").read_text(encoding="utf-8"))
BEDS = {row["clinic_id"]: row for row in CLINICS_TABLE.to_pylist()}


@given(table=st.integers(0, 2**32), keep=st.booleans(), name=st.sampled_from(["region", "clinics.region"]))
@settings(max_examples=EXAMPLES // 4)
def test_filter_and_by_see_those_whom_a_join_leaves_out(table: int, keep: bool, name: str) -> None:
    """What a person moves of a SUM is the sum over their rows: of beds, up to 9 each."""
    tables = draw_tables(table)
    kept = tables.counted()
    found = {pid: [BEDS.get(row["clinic_id"]) for row in kept if row["pid"] == pid] for pid in tables.people}
    moved = {pid: (float(sum(min(clinic["beds"], 9) for clinic in own if clinic)),) for pid, own in found.items()}
    with tables.open() as visits:
        risk = visits.risk(f"SELECT SUM(beds) FROM visits {'LEFT ' if keep else ''}JOIN clinics USING (clinic_id)")
        for condition, holds in (
            ("ward = 'A'", {row["pid"] for row in kept if row["ward"] == "A"}),
            (
                f"{name} = 'north'",
                {pid for pid, own in found.items() for each in own if each and each["region"] == "north"},
            ),
        ):
            line = risk.find(f"AVG(rdr) FILTER (WHERE {condition}) >= 0", candidates=[1.0]).candidates[0]
            expected = [bound(moved[pid], risk, 1.0) for pid in holds]
            assert line.value == (pytest.approx(sum(expected) / len(expected), rel=1e-9) if expected else None)
        assert sum(line.people for line in risk.by("ward")) == len(moved)
        assert risk.by("region") == risk.by("clinics.region")


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
    found = next(t for t in map(draw_tables, range(100)) if len(t.visits) == 16 and len(t.labs) == 8)
    return replace(found, m=3, n=2)


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
    folder = tmp_path / "data"
    folder.mkdir()
    columns = {name: FACTS["columns"][name] for name in ("pid", "vid", "clinic_id")}  # the same rows count
    facts = {**FACTS, "columns": columns, "tables": tables.facts["tables"]}
    rows = {
        "visits": [{name: row[name] for name in columns} for row in tables.visits],
        "clinics": CLINICS_TABLE.to_pylist(),
        "labs": tables.labs,
    }
    schema = {**facts, "tables": {name: {**each, "source": f"{name}.csv"} for name, each in facts["tables"].items()}}
    (folder / "visits.toml").write_text(dump_schema(read_schema(schema)), encoding="utf-8")
    found = []
    with duckdb.connect(tmp_path / "all.duckdb") as connection:
        for name in rows:
            write_csv(folder / f"{name}.csv", rows[name])
            connection.execute(f"CREATE TABLE {name} AS FROM '{folder / name}.csv'")
    held = {name: pa.Table.from_pylist(each) for name, each in rows.items()}
    for source, given_facts, further in (
        (held.pop("visits"), facts, held),
        (folder / "visits.csv", folder / "visits.toml", {}),
        (f"duckdb:{tmp_path / 'all.duckdb'}", facts, {}),
    ):
        named: dict[str, Any] = {} if source == folder / "visits.csv" else {"table": "visits", "tables": further}
        with Dataset.open(source, schema=given_facts, **named) as visits:
            found.append(expand(visits.risk(SOURCES_SQL).contributions))
    assert any(any(vector) for vector in found[0])
    assert_same_people(found[1], found[0])
    assert_same_people(found[2], found[0])


def test_release_measures_the_rows_the_risk_is_about(tmp_path: Path) -> None:
    """At a huge ε the answer is the exact one of the kept, joined rows."""
    tables = full_tables()
    asked = "SELECT COUNT(*) AS c, SUM(score) AS s FROM visits JOIN labs USING (pid)"
    with tables.open() as visits, Ledger.open(tmp_path / "ledger.db") as ledger:
        answer = visits.release(asked, epsilon=4000.0, ledger=ledger, policy="budget:10000")
    assert [tuple(row.values()) for row in answer.answer or ()] == tables.ask_duckdb(asked)


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


def change(**facts: Any) -> dict[str, Any]:
    return {key: value for key, value in {**FACTS, **facts}.items() if value is not None}


def with_table(name: str, **facts: Any) -> dict[str, Any]:
    found = {**FACTS["tables"].get(name, {}), **facts}
    return change(tables={name: {key: value for key, value in found.items() if value is not None}})


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (change(row_key=["vid"]), "row_key must name one of the columns"),
        (change(row_key="pid"), "another column than unit"),
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
