"""Row-wise CTEs and subqueries: they ask what the written-out query asks, and everything else is refused by name.

The judge is DuckDB: over one small table it runs the original text and the written-in one, and both must answer alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pytest
from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.people.levels import PersonLevels
from dosimeter.planning.planner import plan_query
from dosimeter.planning.rows.parsing import parse_select
from dosimeter.planning.rows.subqueries import inline_subqueries
from dosimeter.schema.toml import read_schema

TABLES = """
    CREATE TABLE visits AS SELECT * FROM (VALUES
        (1, 10, 4.0, 'A', 2), (1, 11, 2.5, 'B', 1), (2, 12, NULL, 'A', 3), (3, 13, 9.0, NULL, 2), (3, 14, 7.0, 'B', 9)
    ) AS rows(pid, vid, cost, ward, clinic_id);
    CREATE TABLE clinics AS SELECT * FROM (VALUES (1, 'north', 5.0), (2, 'south', 6.0), (3, 'north', 7.0))
        AS rows(clinic_id, region, cost);
    CREATE TABLE labs AS SELECT * FROM (VALUES (1, 100, 3), (3, 101, 4), (3, 102, 8)) AS rows(pid, lab, score);
"""
SAME = [
    "WITH x AS (SELECT cost * 2 AS c2, ward FROM visits WHERE cost > 3) SELECT ward, SUM(c2) FROM x GROUP BY ward",
    "SELECT COUNT(*) FROM (FROM visits WHERE ward = 'A')",
    "SELECT SUM(cost) FROM (SELECT * FROM (SELECT cost * 2 AS cost FROM visits) a) b",
    "SELECT SUM(cost), SUM(d) FROM (SELECT *, c + 1 AS d FROM (SELECT *, cost * 2 AS c FROM visits) a) b",
    "SELECT SUM(cost) FROM (SELECT a.* FROM (SELECT cost * 3 AS cost FROM visits) a) b",
    "WITH visits AS (SELECT * FROM visits WHERE cost > 3) SELECT COUNT(*) FROM visits",
    "WITH a AS (SELECT cost AS c, ward FROM visits), b AS (SELECT c * 2 AS d, ward FROM a WHERE c > 2) "
    "SELECT ward, SUM(d), COUNT(*) FROM b WHERE ward = 'A' GROUP BY ward",
    "WITH a AS (WITH b AS (SELECT cost AS c FROM visits) SELECT c + 1 AS c FROM b) SELECT SUM(c) FROM a",
    "WITH unused AS (SELECT DISTINCT ward FROM visits) SELECT COUNT(*) FROM visits",
    "SELECT ward AS w, COUNT(*) AS cost FROM (SELECT cost * 2 AS cost, ward FROM visits) x GROUP BY ward "
    "ORDER BY cost, w",
    "SELECT ward, SUM(c) AS total FROM (SELECT cost AS c, ward FROM visits) x GROUP BY ward HAVING total > 5",
    "SELECT w AS k, COUNT(*) FROM (SELECT ward AS w FROM visits) x GROUP BY k",
    "SELECT COUNT(*) FROM (SELECT cost > 3 AND ward = 'A' AS hit FROM visits) x WHERE NOT hit",
    "SELECT SUM(d) FROM (SELECT -cost AS d FROM visits) x WHERE -d > 3",
    "SELECT SUM(a * 2) FROM (SELECT cost - 1 AS a FROM visits) x",
    "SELECT clinics.region, SUM(x.cost) FROM (SELECT cost, clinic_id FROM visits) x JOIN clinics USING (clinic_id) "
    "GROUP BY clinics.region",
    "SELECT c.region, SUM(x.cost), SUM(c.cost) FROM (SELECT cost * 2 AS cost, clinic_id AS place FROM visits WHERE "
    "cost > 3) x LEFT JOIN clinics c ON x.place = c.clinic_id GROUP BY c.region",
    "WITH x AS (SELECT visits.cost AS c, region FROM visits JOIN clinics USING (clinic_id)) "
    "SELECT region, SUM(c) FROM x GROUP BY region",
    "WITH x AS (SELECT visits.pid, region FROM visits JOIN clinics USING (clinic_id)) "
    "SELECT region, SUM(labs.score) FROM x JOIN labs ON labs.pid = x.pid GROUP BY region",
]  # fmt: skip


def inline(sql: str, columns: Sequence[str] = ("other",)) -> exp.Select:
    """Write the subqueries in, where every row is another individual and the table has these columns."""
    facts = {name: {"type": "integer", "bounds": [0, 9]} for name in columns}
    select = parse_select(sql)
    return inline_subqueries(select, PersonLevels(read_schema({"table": "visits", "columns": facts}), select))


@pytest.fixture(scope="module")
def judge() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(TABLES)
    return connection


@pytest.mark.parametrize("sql", SAME)
def test_written_in_query_answers_alike(judge: duckdb.DuckDBPyConnection, sql: str) -> None:
    written = inline(sql)
    assert written.args.get("with_") is None
    assert "(SELECT" not in written.sql(dialect="duckdb")
    expected, found = (judge.execute(text).fetchall() for text in (sql, written.sql(dialect="duckdb")))
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert expected != [(0,)]


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT SUM(c) FROM (SELECT SUM(cost) AS c FROM visits) x", "Aggregate in the outer query"),
        ("SELECT SUM(c) FROM (SELECT SUM(cost) OVER () AS c FROM visits) x", 'the schema says unit = "row"'),
        ("WITH x AS (SELECT cost FROM visits UNION ALL SELECT 1) SELECT SUM(cost) FROM x", "plain SELECT"),
        ("SELECT SUM(cost) FROM (SELECT cost FROM visits UNION SELECT cost FROM visits) x", "plain SELECT"),
        (
            "WITH clinics AS (SELECT * FROM clinics WHERE region = 'north') "
            "SELECT COUNT(*) FROM visits JOIN clinics USING (clinic_id)",
            'the schema says unit = "row"',
        ),
    ],
)
def test_what_is_not_row_wise_is_refused(sql: str, says: str) -> None:
    """What the planner reads in another way before; everything else that is refused is in tests/corpus/rowwise.sql."""
    with pytest.raises(QueryError, match=says):
        inline(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(cost) FROM (SELECT *, 1 AS cost FROM visits) x",
        "SELECT SUM(cost) FROM (SELECT *, vid AS Cost FROM visits) x",
        "WITH x AS (SELECT *, vid + 1 AS cost FROM visits) SELECT SUM(cost) FROM x",
        "SELECT SUM(cost) FROM (SELECT *, 1 AS cost FROM (SELECT * FROM visits) y) x",
    ],
)
def test_a_star_has_the_columns_of_the_table_already(sql: str) -> None:
    """DuckDB takes the first of two columns of one name; PostgreSQL refuses."""
    with pytest.raises(QueryError, match=r"has a column [cC]ost already"):
        inline(sql, ["vid", "cost"])
    assert isinstance(inline(sql, ["vid"]), exp.Select)


def test_a_constant_written_into_group_by_is_no_position() -> None:
    """GROUP BY one, where one is the constant 2, does not mean the second item of the SELECT list."""
    schema = read_schema({"table": "visits", "columns": {"cost": {"type": "integer", "bounds": [0, 9]}}})
    plan = plan_query("SELECT COUNT(*), one FROM (SELECT 2 AS one FROM visits) x GROUP BY one", schema)
    assert plan.group_keys == ((2,),)
    assert [output.name for output in plan.outputs] == ["count", "one"]


def test_nesting_and_doubling_have_an_end() -> None:
    deep = "SELECT cost FROM visits"
    for _ in range(12):
        deep = f"SELECT cost FROM ({deep}) x"
    with pytest.raises(QueryError, match="nested too deeply"):
        inline(f"SELECT SUM(cost) FROM ({deep}) x")
    steps = ", ".join(f"c{at} AS (SELECT c + c AS c FROM c{at - 1})" for at in range(1, 40))
    with pytest.raises(QueryError, match="too long"):
        inline(f"WITH c0 AS (SELECT cost AS c FROM visits), {steps} SELECT SUM(c) FROM c39")
