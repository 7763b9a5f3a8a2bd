"""Which SQL is understood and as what, and which is refused and with what advice. Nothing but QueryError may escape."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.planner import PlanOptions, plan_query
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.schema.facts import Column, ColumnType, Schema
from tests.golden.golden_people import FLOOR, HAND, SCHEMA, expect_harmless

NOISE = PlanOptions(quantiles="noise")


@dataclass(frozen=True)
class Understood:
    """k numbers per answer (groups × measures), Δ of the vector in L1, and the columns of the answer."""

    sql: str
    k: int
    delta: float
    names: tuple[str, ...]
    measures: tuple[str, ...] = ()
    options: PlanOptions = field(default_factory=PlanOptions)


ACCEPTED = [
    # One aggregate each: S1–S3.
    Understood("SELECT COUNT(*) FROM people", 1, 1, ("count",), ("count",)),
    Understood("select count(*) from PEOPLE", 1, 1, ("count",)),
    Understood("SELECT COUNT(1) FROM people", 1, 1, ("count",)),
    Understood("SELECT COUNT(name) FROM people", 1, 1, ("count_name",)),
    Understood("SELECT COUNT(DISTINCT name) FROM people", 1, 1, ("count_name",), ("count distinct",)),
    Understood("SELECT SUM(age) FROM people", 1, 100, ("sum_age",), ("sum",)),
    Understood("SELECT SUM(age - 70) FROM people", 1, 70, ("sum",)),
    Understood("SELECT SUM(-age) FROM people", 1, 100, ("sum",)),
    Understood("SELECT SUM(ABS(age - 70)) FROM people", 1, 70, ("sum",)),
    Understood("SELECT SUM(pay * 2 + age) FROM people", 1, 600, ("sum",)),
    Understood("SELECT SUM(pay * 0.1) FROM people", 1, 25, ("sum",)),
    Understood("SELECT SUM(CASE WHEN name = 'Ada' THEN 1 ELSE 0 END) FROM people", 1, 1, ("sum",)),
    Understood("SELECT SUM(IF(member, age, 2)) FROM people", 1, 100, ("sum",)),
    Understood("SELECT SUM(COALESCE(age, 200)) FROM people", 1, 200, ("sum",)),
    Understood("SELECT SUM(GREATEST(age - 30, 0)) FROM people", 1, 70, ("sum",)),
    Understood("SELECT SUM(LEAST(age, 18)) FROM people", 1, 18, ("sum",)),
    Understood("SELECT SUM(pay / 2) FROM people", 1, 125, ("sum",)),
    Understood("SELECT SUM(pay / -5) FROM people", 1, 50, ("sum",)),
    Understood("SELECT SUM(pay / age) FROM people", 1, 250, ("sum",)),  # an age is 0, and that NULL, or at least 1
    Understood("SELECT SUM(SQRT(age)) FROM people", 1, 10, ("sum",)),
    Understood("SELECT SUM(age // 7) FROM people", 1, 14, ("sum",)),
    Understood("SELECT SUM(age % 7) FROM people", 1, 6, ("sum",)),
    Understood("SELECT SUM(ROUND(pay, -2)) FROM people", 1, 300, ("sum",)),
    Understood("SELECT SUM(CEIL(pay / 7)) FROM people", 1, 36, ("sum",)),
    Understood("SELECT SUM(POWER(age, 2)) FROM people", 1, 10_000, ("sum",)),
    Understood("SELECT SUM(CAST(member AS INTEGER)), SUM(member) FROM people", 2, 2, ("sum", "sum_member")),
    Understood("SELECT SUM(born - DATE '1920-12-31') FROM people", 1, 850, ("sum",)),
    Understood("SELECT SUM(DATE_DIFF('year', born, DATE '1930-01-01')) FROM people", 1, 10, ("sum",)),
    Understood("SELECT SUM(LENGTH(city)) FROM people", 1, 4, ("sum",)),
    Understood("SELECT MIN(age) FROM people", 1, 100, ("min_age",), ("quantile",), NOISE),
    Understood("SELECT MAX(pay) FROM people", 1, 250, ("max_pay",), ("quantile",), NOISE),
    Understood("SELECT MAX(YEAR(born)) FROM people", 1, 3, ("max",)),
    Understood("SELECT MEDIAN(age) FROM people", 1, 50, ("median_age",), ("quantile",), NOISE),
    Understood("SELECT QUANTILE_CONT(age, 0.9) FROM people", 1, 90, ("quantile_age",), (), NOISE),
    # By ranks the exact answer may move by the whole range (R12).
    Understood("SELECT MIN(age) FROM people", 1, 100, ("min_age",), ("quantile",)),
    Understood("SELECT MEDIAN(age) FROM people", 1, 100, ("median_age",), ("quantile",)),
    Understood("SELECT QUANTILE_DISC(age, 0.5), MEDIAN(age) FROM people", 1, 100, ("quantile_age", "median_age")),
    Understood("SELECT PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY age) FROM people", 1, 100, ("column1",)),
    Understood("SELECT PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age) FROM people", 1, 75, ("column1",), (), NOISE),
    # Through sums: S2, S5. Several measures stand in one norm, each divided by its own Δ.
    Understood("SELECT AVG(age) FROM people", 2, 2, ("avg_age",), ("count", "centred sum")),
    Understood("SELECT VAR_POP(age) FROM people", 3, 3, ("var_pop_age",)),
    Understood("SELECT STDDEV_POP(pay) FROM people", 3, 3, ("stddev_pop_pay",)),
    Understood("SELECT VAR_SAMP(age), STDDEV(age), STDDEV_SAMP(age), VAR_POP(age) FROM people", 3, 3,
               ("variance_age", "stddev_age", "stddev_age_2", "var_pop_age")),
    Understood("SELECT APPROX_COUNT_DISTINCT(name) FROM people", 1, 1, ("count_name",), ("count distinct",)),
    Understood("SELECT COUNT_IF(age > 30) FROM people", 1, 1, ("count_if",), ("count",)),
    Understood("SELECT COVAR_POP(age, pay) FROM people", 4, 4, ("covar_pop_age",),
               ("count", "centred sum", "centred sum", "sum")),
    Understood("SELECT CORR(age, pay), REGR_SLOPE(pay, age) FROM people", 6, 6, ("corr_age", "regr_slope_pay")),
    Understood("SELECT AVG(age), COUNT(age) FROM people", 2, 2, ("avg_age", "count_age")),
    Understood("SELECT COUNT(*), COUNT(*) FROM people", 1, 1, ("count", "count_2")),
    Understood("SELECT COUNT(*), COUNT(age) FROM people", 2, 2, ("count", "count_age")),
    Understood("SELECT MIN(age), MAX(age) FROM people", 2, 2, ("min_age", "max_age")),
    Understood("SELECT AVG(age) FROM people", 1, 1, ("avg_age",), ("mean with a floor on rows",), FLOOR),
    Understood("SELECT AVG(age) FROM people", 1, 2.5, ("avg_age",), ("mean",), HAND),
    Understood("SELECT VAR_POP(age) FROM people", 1, 2.5, ("var_pop_age",), ("variance",), HAND),
    Understood("SELECT STDDEV_POP(age) FROM people", 1, 2.5, ("stddev_pop_age",), ("standard deviation",), HAND),
    # Conditions.
    Understood("SELECT COUNT(*) FROM people WHERE age = 25", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people WHERE age == 25", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people WHERE age <> 25 AND age != 26 OR NOT member", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people WHERE age BETWEEN 17 AND 90", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people WHERE city IN ('Bonn', 'Ulm')", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people WHERE name LIKE 'A%' AND name NOT LIKE '%z_'", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people WHERE name IS NULL OR city IS NOT NULL", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people WHERE born < '1921-01-01'", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people WHERE '1921-01-01' BETWEEN '1920-01-01' AND born", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people WHERE born < DATE '1921-01-01'", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people WHERE seen >= TIMESTAMP '2024-01-05 10:00:00'", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people WHERE HOUR(seen) < 6 AND EXTRACT(YEAR FROM born) = 1921", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people WHERE pay / age > 1.5e-3", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people WHERE age % 10 = 0 AND age // 10 = 3", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people WHERE (((age))) = ((1))", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people WHERE age > 9223372036854775807", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FILTER (WHERE age > 30) FROM people", 1, 1, ("column1",)),
    Understood("SELECT COUNT(*) FILTER (WHERE age > 30) AS old, SUM(age) FROM people", 2, 2, ("old", "sum_age")),
    Understood("SELECT COUNT_IF(age > 30) FROM people", 1, 1, ("count_if",), measures=("count",)),
    Understood("SELECT COUNT_IF(member) FROM people", 1, 1, ("count_if_member",), measures=("count",)),
    Understood("SELECT COUNT_IF(member) FILTER (WHERE age > 30), COUNT(*) FROM people", 2, 2, ("column1", "count")),
    Understood("SELECT COUNT_IF(age > 30) + COUNT(*) FILTER (WHERE age > 30) AS twice FROM people", 1, 1, ("twice",)),
    # Groups: the declared ones (C8).
    Understood("SELECT city, COUNT(*) FROM people GROUP BY city", 2, 1, ("city", "count")),
    Understood("SELECT COUNT(*) FROM people GROUP BY city, member", 4, 1, ("count",)),
    Understood("SELECT city AS c, COUNT(*) AS n FROM people GROUP BY 1", 2, 1, ("c", "n")),
    Understood("SELECT age // 10 AS decade, COUNT(*) FROM people GROUP BY decade", 11, 1, ("decade", "count")),
    Understood("SELECT COUNT(*) FROM people GROUP BY age", 101, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people GROUP BY born", 1095, 1, ("count",)),
    Understood("SELECT YEAR(born) AS y, COUNT(*) FROM people GROUP BY y", 4, 1, ("y", "count")),
    Understood("SELECT COUNT(*) FROM people GROUP BY DATE_TRUNC('month', seen)", 3, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people GROUP BY CASE WHEN pay > 100 THEN 'high' ELSE 'low' END", 2, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people GROUP BY pay > 100", 2, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people GROUP BY FLOOR(pay / 100) * 100", 3, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people GROUP BY pay", 501, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people GROUP BY ROUND(pay, -2)", 4, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people GROUP BY CAST(FLOOR(age / 10) AS INTEGER)", 11, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people GROUP BY UPPER(city), LEFT(city, 1)", 4, 1, ("count",)),
    Understood("SELECT STRFTIME(seen, '%Y-%m') AS m, COUNT(*) FROM people GROUP BY m", 3, 1, ("m", "count")),
    Understood("SELECT DAYOFWEEK(seen) AS d, COUNT(*) FROM people GROUP BY d", 7, 1, ("d", "count")),
    Understood("SELECT COUNT(*) FROM people GROUP BY born + INTERVAL '1' MONTH >= DATE '1921-06-30'", 2, 1, ("count",)),
    Understood("SELECT COUNT(*), COUNT(*) FROM people GROUP BY city, city", 2, 1, ("count", "count_2")),
    Understood("SELECT city, AVG(pay) FROM people GROUP BY city", 4, 2, ("city", "avg_pay")),
    # Over aggregates: post-processing.
    Understood("SELECT SUM(pay) / COUNT(*) AS mean FROM people", 2, 2, ("mean",)),
    Understood("SELECT ROUND(100 * COUNT(*) / NULLIF(SUM(age), 0), 2) FROM people", 2, 2, ("column1",)),
    Understood("SELECT GREATEST(COUNT(*), 0), LEAST(COUNT(*), 5), -COUNT(*) FROM people", 1, 1,
               ("column1", "column2", "column3")),
    Understood("SELECT city, COUNT(*) AS n FROM people GROUP BY city HAVING n > 5 AND city <> 'Ulm' ORDER BY n DESC, 1",
               2, 1, ("city", "n")),
    Understood("SELECT city, COUNT(*) FROM people GROUP BY city ORDER BY COUNT(*) LIMIT 3", 2, 1, ("city", "count")),
    Understood("SELECT born, COUNT(*) n FROM people GROUP BY born HAVING born > '1921-01-01'", 1095, 1, ("born", "n")),
    Understood("SELECT COUNT(*) FROM people HAVING SUM(age) BETWEEN 1 AND 10", 2, 2, ("count",)),
    # Everything after the noise (Q4): windows, clauses, SELECTs around.
    Understood("SELECT DISTINCT city, COUNT(*) FROM people GROUP BY city", 2, 1, ("city", "count")),
    Understood("SELECT city, COUNT(*) FROM people GROUP BY ALL", 2, 1, ("city", "count")),
    Understood("SELECT COUNT(*) FROM people ORDER BY ALL", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people LIMIT 10 OFFSET 5", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people QUALIFY ROW_NUMBER() OVER () = 1", 1, 1, ("count",)),
    Understood("SELECT city, RANK() OVER w FROM people GROUP BY city WINDOW w AS (ORDER BY COUNT(*))", 2, 1,
               ("city", "column2")),
    Understood("SELECT city, COUNT(*) AS n, 100.0 * n / SUM(n) OVER () AS pct FROM people GROUP BY city", 2, 1,
               ("city", "n", "pct")),
    Understood("SELECT COUNT(*) FROM people GROUP BY ROLLUP (city)", 2, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people GROUP BY CUBE (city, member)", 4, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people GROUP BY GROUPING SETS ((city), ())", 2, 1, ("count",)),
    Understood("SELECT 'all' AS what, COUNT(*) FROM people", 1, 1, ("what", "count")),
    Understood("SELECT city, CASE WHEN COUNT(*) < 5 THEN NULL ELSE COUNT(*) END AS n FROM people GROUP BY city", 2, 1,
               ("city", "n")),
    Understood("SELECT AVG(n) AS mean FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city)", 2, 1, ("mean",)),
    Understood("SELECT city FROM people GROUP BY city HAVING COUNT(*) > 3", 2, 1, ("city",)),
    Understood("WITH g AS (SELECT city, AVG(age) AS a FROM people GROUP BY city) SELECT * FROM g WHERE a > 3", 4, 2,
               ("city", "a")),
    # Names and layout.
    Understood("SELECT p.age + COUNT(*) FROM people AS p WHERE p.city = 'Bonn' GROUP BY p.age", 101, 1, ("column1",)),
    Understood('SELECT SUM("odd name") FROM "people"', 1, 1, ("sum_odd name",)),
    Understood("SELECT SUM(größe) FROM people", 1, 250, ("sum_größe",)),
    Understood("SELECT /* all */ COUNT(*) -- of them\nFROM people;", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) FROM people;;  ; -- done", 1, 1, ("count",)),
    Understood("FROM people SELECT COUNT(*)", 1, 1, ("count",)),
    Understood("SELECT COUNT(*) AS \"; DROP TABLE people\" FROM people", 1, 1, ("; DROP TABLE people",)),
    Understood("SELECT COUNT(*) AS 数 FROM people WHERE name = '数'';--'", 1, 1, ("数",)),
]  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.sql[:90])
def test_accepted(case: Understood) -> None:
    plan = plan_query(case.sql, SCHEMA, case.options)
    keys = plan.group_keys
    assert keys is not None
    assert len(keys) * len(plan.measures) == case.k
    assert plan.sensitivity(1) == pytest.approx(case.delta, rel=1e-12)
    assert tuple(output.name for output in plan.outputs) == case.names
    if case.measures:
        assert tuple(measure.name for measure in plan.measures) == case.measures
    expect_harmless(plan)


NESTED = "(" * 10_000 + "1" + ")" * 10_000
REFUSED = [
    # Other statements.
    ("", "empty"),
    (" \n-- nothing\n", "exactly one SELECT"),
    (";", "exactly one SELECT"),
    ("SELECT COUNT(*) FROM people; SELECT COUNT(*) FROM people", "exactly one SELECT"),
    ("SELECT COUNT(*) FROM people; DROP TABLE people", "exactly one SELECT"),
    ("INSERT INTO people VALUES (1)", "Only SELECT"),
    ("UPDATE people SET age = 1", "Only SELECT"),
    ("DELETE FROM people", "Only SELECT"),
    ("DROP TABLE people", "Only SELECT"),
    ("CREATE TABLE x AS SELECT COUNT(*) FROM people", "Only SELECT"),
    ("COPY people TO 'out.csv'", "Only SELECT"),
    ("COPY (SELECT COUNT(*) FROM people) TO 'out.csv'", "Only SELECT"),
    ("ATTACH 'other.db'", "Only SELECT"),
    ("PRAGMA database_list", "Only SELECT"),
    ("INSTALL httpfs", "Only SELECT"),
    ("LOAD httpfs", "Only SELECT"),
    ("SET memory_limit = '1GB'", "Only SELECT"),
    ("CALL pragma_version()", "Only SELECT"),
    ("EXPLAIN SELECT COUNT(*) FROM people", "Only SELECT"),
    ("DESCRIBE people", "Only SELECT"),
    ("VALUES (1)", "Only SELECT"),
    ("WITH x AS (SELECT 1) INSERT INTO people SELECT * FROM x", "Only SELECT"),
    ("nonsense", "Only SELECT"),
    ("(SELECT COUNT(*) FROM people)", "Only SELECT"),
    ("SELECT COUNT(*) FROM", "does not parse"),
    ("SELECT COUNT(* FROM people", "does not parse"),
    ("SELECT 'unfinished", "does not parse"),
    ("SELECT COUNT(*) FROM people WHERE name = '\ud800'", "not Unicode"),
    # More than one table, or none.
    ("SELECT COUNT(*) FROM people JOIN people AS other USING (name)", "cannot be joined with itself"),
    ("SELECT COUNT(*) FROM people, people AS other", "every row is another individual"),
    ("SELECT COUNT(*) FROM people NATURAL JOIN other", "only [INNER] JOIN and LEFT JOIN"),
    ("SELECT COUNT(*) FROM people CROSS JOIN LATERAL (SELECT 1)", "only [INNER] JOIN and LEFT JOIN"),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT name FROM people)", "each row by itself"),
    ("SELECT COUNT(*) FROM (SELECT name, COUNT(*) FROM people GROUP BY name)", "identifies people"),
    ("SELECT COUNT(*) FROM (SELECT * FROM people LIMIT 3)", "each row by itself"),
    ("WITH RECURSIVE p AS (SELECT * FROM people) SELECT COUNT(*) FROM p", "WITH RECURSIVE is not supported"),
    ("WITH p AS (SELECT 1 AS one) SELECT COUNT(*) FROM p", "no FROM"),
    ("SELECT SUM(missing) FROM (SELECT age FROM people)", "no column missing"),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)", "read off other people's rows"),
    ("SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM people)", 'unit = "row"'),
    ("SELECT COUNT(*) FROM people WHERE age IN (SELECT age FROM people)", 'unit = "row"'),
    ("SELECT (SELECT age FROM people)", "neither an aggregate nor in the GROUP BY"),
    ("SELECT COUNT(*), (SELECT 1) FROM people", "gives rows where one number stands"),
    ("SELECT COUNT(*) FROM people UNION ALL SELECT age FROM people", "UNION ALL joins grouped queries"),
    ("SELECT COUNT(*) FROM people UNION ALL BY NAME SELECT COUNT(*) FROM people", "not supported"),
    ("SELECT COUNT(*) FROM people EXCEPT SELECT 1", "INTERSECT and EXCEPT are not supported"),
    ("SELECT COUNT(*)", "no FROM. The table is people"),
    ("SELECT COUNT(*) FROM persons", "no table persons. The table is people"),
    ("SELECT COUNT(*) FROM other.people", "no table other.people"),
    ("SELECT COUNT(*) FROM a.b.people", "not supported"),
    ("SELECT COUNT(*) FROM 'people.csv'", "no table people.csv"),
    ("SELECT COUNT(*) FROM '/etc/passwd'", "no table /etc/passwd"),
    ("SELECT COUNT(*) FROM read_csv('people.csv')", "plain table"),
    ("SELECT COUNT(*) FROM range(10)", "plain table"),
    ("SELECT COUNT(*) FROM (VALUES (1)) AS people", "FROM"),
    ("SELECT COUNT(*) FROM people AS p (a, b)", "not supported"),
    ("SELECT COUNT(*) FROM people PIVOT (SUM(age) FOR city IN ('Bonn'))", "not supported"),
    ("SELECT COUNT(*) FROM people AT (VERSION => 1)", "not supported"),
    # Clauses that would mean something else.
    ("SELECT COUNT(*) FROM people USING SAMPLE 10", "Sampling is not supported"),
    ("SELECT COUNT(*) FROM people TABLESAMPLE 10%", "sample"),
    ("SELECT SUM(age) OVER () FROM people", "a number for every row"),
    ("SELECT COUNT(*) OVER (PARTITION BY city) FROM people", "a number for every row"),
    ("SELECT city, RANK() OVER x FROM people GROUP BY city WINDOW w AS (ORDER BY COUNT(*))", "There is no window x"),
    ("SELECT city, COUNT(*), RANK() OVER (w ORDER BY city) FROM people GROUP BY city WINDOW w AS (ORDER BY COUNT(*))",
     "changes the window w"),
    ("SELECT COUNT(*) INTO x FROM people", "SELECT INTO is not supported"),
    ("SELECT COUNT(*) FROM people FOR UPDATE", "only read"),
    ("SELECT COUNT(*) FROM people GROUP BY 7", "does not name an item"),
    ("SELECT COUNT(*) FROM people GROUP BY 1", "aggregate cannot stand"),
    ("SELECT COUNT(*) FROM people GROUP BY " + "9" * 5000, "does not name an item"),
    ("SELECT COUNT(*) FROM people ORDER BY 2", "does not name an item"),
    ("SELECT COUNT(*) FROM people ORDER BY age", "neither an aggregate nor in the GROUP BY"),
    ("SELECT COUNT(*) FROM people LIMIT 10%", "LIMIT takes a whole number"),
    ("SELECT COUNT(*) FROM people LIMIT '10'", "LIMIT takes a whole number"),
    ("SELECT COUNT(*) FROM people LIMIT 1 + 1", "LIMIT takes a whole number"),
    ("SELECT COUNT(*) FROM people LIMIT " + "9" * 5000, "LIMIT takes a whole number"),
    ("SELECT city, COUNT(*) FROM people GROUP BY city HAVING member", "neither an aggregate nor in the GROUP BY"),
    ("SELECT city, COUNT(*) FROM people GROUP BY city HAVING age > 3", "neither an aggregate nor in the GROUP BY"),
    ("SELECT city, COUNT(*) FROM people GROUP BY city HAVING COUNT(*) > 'x'", "cannot be computed"),
    ("SELECT city, COUNT(*) FROM people GROUP BY city HAVING city > 3", "cannot be computed"),
    ("SELECT city, COUNT(*) FROM people GROUP BY city HAVING 1 < COUNT(*) < 3", "chains comparisons"),
    ("SELECT born, COUNT(*) FROM people GROUP BY born HAVING born > 'May'", "cannot be computed"),
    # What would release rows.
    ("SELECT * FROM people", "SELECT * would release rows"),
    ("SELECT people.* FROM people", "SELECT * would release rows"),
    ("SELECT COLUMNS(*) FROM people", "SELECT * would release rows"),
    ("FROM people", "SELECT * would release rows"),
    ("SELECT name FROM people", "neither an aggregate nor in the GROUP BY"),
    ("SELECT name, COUNT(*) FROM people", "neither an aggregate nor in the GROUP BY"),
    ("SELECT age + COUNT(*) FROM people", "neither an aggregate nor in the GROUP BY"),
    ("SELECT city FROM people GROUP BY city", "no aggregate"),
    ("SELECT 1 FROM people", "no aggregate"),
    # Names.
    ("SELECT SUM(wage) FROM people", "no column wage. Known columns: age"),
    ("SELECT COUNT(*) FROM people WHERE wage > 3", "no column wage"),
    ("SELECT wage, COUNT(*) FROM people", "no column wage"),
    ("SELECT COUNT(*) FROM people WHERE other.age > 3", "Unknown table other"),
    ("SELECT COUNT(*) FROM people AS p WHERE x.age > 3", "Unknown table x"),
    ("SELECT COUNT(*) AS n FROM people WHERE n > 3", "no column n"),
    # Aggregates.
    ("SELECT COUNT() FROM people", "COUNT() counts nothing"),
    ("SELECT COUNT_IF() FROM people", "does not parse"),
    ("SELECT COUNT_IF(age) FROM people", "age"),
    ("SELECT COUNT_IF(DISTINCT member) FROM people", "takes one condition"),
    ("SELECT COUNT_IF(age > 3, city) FROM people", ""),
    ("SELECT COUNT_IF(COUNT(*) > 3) FROM people", "aggregate cannot stand inside"),
    ("SELECT SUM() FROM people", ""),
    ("SELECT COUNT(DISTINCT age, city) FROM people", "takes one column"),
    ("SELECT COUNT(age, city) FROM people", "not supported"),
    ("SELECT SUM(DISTINCT age) FROM people", "DISTINCT is supported in COUNT only"),
    ("SELECT AVG(DISTINCT age) FROM people", "DISTINCT is supported in COUNT only"),
    ("SELECT MAX(age, 3) FROM people", "not supported"),
    ("SELECT SUM(age ORDER BY age) FROM people", "not supported"),
    ("SELECT FIRST(age) FROM people", "not supported"),
    ("SELECT STRING_AGG(name, ',') FROM people", "not supported"),
    ("SELECT LIST(name) FROM people", ""),
    ("SELECT MODE(age) FROM people", "not supported"),
    ("SELECT ARG_MAX(name, age) FROM people", "not supported"),
    ("SELECT SUM(SUM(age)) FROM people", "aggregate cannot stand inside"),
    ("SELECT COUNT(*) FROM people WHERE COUNT(*) > 3", "aggregate cannot stand inside"),
    ("SELECT QUANTILE_CONT(age, 1.5) FROM people", "between 0 and 1"),
    ("SELECT QUANTILE_CONT(age, -0.5) FROM people", "between 0 and 1"),
    ("SELECT QUANTILE_CONT(age, 1e-999999999) FROM people", "not a number"),
    ("SELECT QUANTILE_CONT(age, [0.1, 0.9]) FROM people", "between 0 and 1"),
    ("SELECT QUANTILE_CONT(age) FROM people", "between 0 and 1"),
    ("SELECT QUANTILE_DISC(age, 2) FROM people", "between 0 and 1"),
    ("SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age DESC) FROM people", "QUANTILE_CONT(column, fraction)"),
    ("SELECT COUNT(*) + country FROM people GROUP BY country", 'groups="observed"'),
    ("SELECT COUNT(*) + city FROM people GROUP BY city", "cannot be computed"),
    ("SELECT UPPER(COUNT(*)) FROM people", "cannot be computed"),
    ("SELECT city, COUNT(*), GROUPING(city) FROM people GROUP BY city", "takes columns of a ROLLUP"),
    ("SELECT city, REPEAT(city, 1000000000) FROM people GROUP BY city", "not supported here"),
    ("SELECT city, REPLACE(city, 'B', city), COUNT(*) FROM people GROUP BY city", "not supported here"),
    ("SELECT COUNT(*), RANDOM() FROM people", "not supported here"),
    ("SELECT COUNT(*), NOW() FROM people", "not supported here"),
    ("SELECT COUNT(*), CURRENT_SETTING('threads') FROM people", "not supported here"),
    ("SELECT city, STRING_AGG(city, ',') OVER () FROM people GROUP BY city", "not supported here"),
    ("SELECT n FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) t, RANGE(10)", "gives rows beside"),
    ("SELECT p.age FROM people p JOIN (SELECT city, COUNT(*) n FROM people GROUP BY city) g USING (city)",
     "gives rows beside"),
    ("SELECT m FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) t", "has no column m"),
    ("WITH g AS (SELECT city, COUNT(*) AS n FROM people GROUP BY city) SELECT n, (SELECT n FROM g) FROM g",
     "several rows where one number stands"),
    ("SELECT COUNT(*) " + "UNION ALL SELECT COUNT(*) FROM people " * 60, "nested too deeply"),
    # Bounds, resolutions, types: the message names the line of the schema.
    ("SELECT SUM(visits) FROM people", "Add [columns.visits] bounds = [low, high]"),
    ("SELECT AVG(score) FROM people", "Add [columns.score] bounds = [low, high]"),
    ("SELECT MAX(rate) FROM people", "Add [columns.rate] resolution ="),
    ("SELECT SUM(name) FROM people", "needs a numeric column, and name is text"),
    ("SELECT AVG(city) FROM people", "needs a numeric column, and city is category"),
    ("SELECT MIN(born) FROM people", "needs a numeric column, and born is date"),
    ("SELECT SUM(born) FROM people", "CASE turns others into numbers"),
    ("SELECT SUM(LENGTH(name)) FROM people", "has no bounds. Inside an aggregate use"),
    ("SELECT SUM(age / 0) FROM people", "always NULL by the bounds"),
    ("SELECT SUM(LN(0 - age)) FROM people", "always NULL by the bounds"),
    ("SELECT SUM(EXP(pay)) FROM people", "too large to count exactly"),
    ("SELECT SUM(SQRT(SQRT(SQRT(SQRT(SQRT(SQRT(SQRT(SQRT(pay / (age / (pay / age))))))))))) FROM people", "nested too"),
    ("SELECT SUM('3') FROM people", "has no bounds"),
    ("SELECT SUM(NULL) FROM people", "has no bounds"),
    ("SELECT SUM(0) FROM people", "cannot change"),
    ("SELECT AVG(5) FROM people", "cannot change"),
    ("SELECT SUM(age * age * age * age * age * age * age * age * age * age) FROM people", "too large to count exactly"),
    ("SELECT SUM(age * 1e18 * 1e18 - age * 1e18 * 1e18) FROM people", "too large to count exactly"),
    ("SELECT SUM(age * 1e-200) FROM people", "too large to count exactly"),
    ("SELECT VAR_POP(pay * 1000000 * 1000000) FROM people", "too large to count exactly"),
    # Types of expressions.
    ("SELECT COUNT(*) FROM people WHERE age = 'x'", "mixes integer and text"),
    ("SELECT COUNT(*) FROM people WHERE name > 3", "mixes integer and text"),
    ("SELECT COUNT(*) FROM people WHERE member = 1", "mixes boolean and integer"),
    ("SELECT COUNT(*) FROM people WHERE seen = age", "mixes integer and timestamp"),
    ("SELECT COUNT(*) FROM people WHERE age IN (1, 'x')", "mixes"),
    ("SELECT COUNT(*) FROM people WHERE COALESCE(age, 'x') = 1", "mixes"),
    ("SELECT COUNT(*) FROM people WHERE CASE WHEN member THEN 1 ELSE 'x' END = 1", "mixes"),
    ("SELECT COUNT(*) FROM people WHERE age", "is not a condition"),
    ("SELECT COUNT(*) FROM people WHERE NOT age", "is not a condition"),
    ("SELECT COUNT(*) FROM people WHERE name + 1 > 2", "needs numbers"),
    ("SELECT COUNT(*) FROM people WHERE pay % 2 = 0", "// and % take integers"),
    ("SELECT COUNT(*) FROM people WHERE 1 < age < 3", "BETWEEN"),
    ("SELECT COUNT(*) FROM people WHERE (age = 1) = (age = 2)", "BETWEEN"),
    ("SELECT COUNT(*) FROM people WHERE born = 'yesterday'", "Write it as '2024-12-31'"),
    ("SELECT COUNT(*) FROM people WHERE seen = '2024-01-01T00:00:00+02:00'", "timestamps are UTC"),
    ("SELECT COUNT(*) FROM people WHERE HOUR(born) = 3", "a date has no hour"),
    ("SELECT COUNT(*) FROM people WHERE EXTRACT(EPOCH FROM seen) > 3", "supported date parts are YEAR"),
    ("SELECT COUNT(*) FROM people WHERE YEAR(age) > 3", "needs a date"),
    ("SELECT COUNT(*) FROM people WHERE CENTURY(born) = 20", "not supported"),
    ("SELECT COUNT(*) FROM people WHERE DATE_TRUNC('decade', born) = '1920-01-01'", "DATE_TRUNC takes year"),
    ("SELECT COUNT(*) FROM people WHERE born + INTERVAL (age) DAY > '1921-01-01'", "INTERVAL '30' DAY"),
    ("SELECT COUNT(*) FROM people WHERE CAST(pay AS VARCHAR) = '3'", "engines write a number in different ways"),
    ("SELECT COUNT(*) FROM people WHERE name::DOUBLE > 3", "engines read text differently"),
    ("SELECT COUNT(*) FROM people WHERE REVERSE(name) = 'ADA'", "not supported. Supported: columns"),
    ("SELECT COUNT(*) FROM people WHERE name ILIKE 'ä%'", "Use LIKE"),
    ("SELECT COUNT(*) FROM people WHERE name SIMILAR TO 'a'", "Use LIKE or, if values are declared"),
    ("SELECT COUNT(*) FROM people WHERE MD5(name) = 'a'", "not supported. Supported: columns"),
    ("SELECT COUNT(*) FROM people WHERE name LIKE 'a$%' ESCAPE '$'", "not supported. Supported: columns"),
    ("SELECT COUNT(*) FROM people WHERE name LIKE 'a\\%'", "backslash"),
    ("SELECT COUNT(*) FROM people WHERE name LIKE city", "LIKE compares"),
    ("SELECT COUNT(*) FROM people WHERE age IS TRUE", "is not a condition"),
    ("SELECT COUNT(*) FROM people WHERE age IS DISTINCT FROM '3'", "Both sides need the same type"),
    ("SELECT COUNT(*) FROM people WHERE RANDOM() < 0.5", "not supported"),
    ("SELECT COUNT(*) FROM people WHERE age = ?", "not supported"),
    ("SELECT COUNT(*) FROM people WHERE age = $1", "not supported"),
    ("SELECT COUNT(*) FROM people WHERE age IN []", ""),
    ("SELECT COUNT(*) FROM people WHERE name = 'a\x00b'", "NUL"),
    # Numbers without end, nesting without end.
    ("SELECT COUNT(*) FROM people WHERE age > 9223372036854775808", "too large. Write it with a decimal point"),
    ("SELECT COUNT(*) FROM people WHERE age > " + "9" * 5000, "not a number this tool reads"),
    ("SELECT COUNT(*) FROM people WHERE age > 1e999", "too large"),
    ("SELECT COUNT(*) FROM people WHERE pay > 1e-999", "too small"),
    ("SELECT SUM(age * 1e-999999999) FROM people", "not a number this tool reads"),
    ("SELECT SUM(age * 0e-999999999) FROM people", "not a number this tool reads"),
    (f"SELECT {NESTED} FROM people", "nested too deeply"),
    (f"SELECT COUNT(*) FROM people WHERE {NESTED} = 1", "nested too deeply"),
    ("SELECT COUNT(*) FROM people WHERE " + "NOT " * 3000 + "member", "nested too deeply"),
    ("SELECT COUNT(*) FROM people WHERE age " + "// 1 " * 45 + "= 1", "nested too deeply"),
    ("SELECT COUNT(*) FROM people WHERE age " + "+ 1 " * 20_000 + "= 1", "nested too deeply"),
    ("SELECT COUNT(*) FROM people WHERE " + "CASE " * 25 + "1" + " WHEN 1 THEN 1 WHEN 2 THEN 2 END" * 25 + " = 1",
     "too long once its expressions are written"),
    ("SELECT COUNT(*) FROM people WHERE " + " OR ".join(["name = 'Ada'"] * 10_000), "longer than 100,000 characters"),
    # Groups without a declared list.
    ("SELECT COUNT(*) FROM people GROUP BY name", "name identifies people, so it cannot be a group"),
    ("SELECT COUNT(*) FROM people GROUP BY note", 'type = "category" and values'),
    ("SELECT COUNT(*) FROM people GROUP BY country", "Add values = […] to [columns.country]"),
    ("SELECT COUNT(*) FROM people GROUP BY visits", "Add bounds = [low, high] to [columns.visits]"),
    ("SELECT COUNT(*) FROM people GROUP BY rate", "// instead of /, FLOOR, ROUND, or CASE"),
    ("SELECT COUNT(*) FROM people GROUP BY seen", "Group by a condition, a CASE, DATE_TRUNC or a date part"),
    ("SELECT COUNT(*) FROM people GROUP BY pay / age", "// instead of /"),
    ("SELECT COUNT(*) FROM people GROUP BY SQRT(pay)", "// instead of /"),
    ("SELECT COUNT(*) FROM people GROUP BY age, born", "at most 10,000"),
    ("SELECT COUNT(*) FROM people GROUP BY age * größe * YEAR(born)", "at most 1,000,000"),
    ("SELECT COUNT(*) FROM people GROUP BY NULL", "has no groups"),
    ("SELECT COUNT(*) FROM people GROUP BY CASE WHEN FALSE THEN 1 END", "has no groups"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "advice"), REFUSED, ids=lambda text: repr(text[:80]))
def test_refused(sql: str, advice: str) -> None:
    with pytest.raises(QueryError) as refusal:
        plan_query(sql, SCHEMA)
    message = str(refusal.value)
    assert advice in message
    assert 10 < len(message) < 900
    assert "\x1b" not in message


def test_observed_groups_need_no_declaration() -> None:
    plan = plan_query("SELECT name, COUNT(*) FROM people GROUP BY name", SCHEMA, PlanOptions(groups="observed"))
    assert plan.group_keys is None
    assert not plan.declared
    extremes = plan_query("SELECT name, MIN(age) FROM people GROUP BY name", SCHEMA, PlanOptions(groups="observed"))
    assert extremes.sensitivity(1) == extremes.sensitivity(2) == 100


def test_digest_is_of_meaning_not_of_layout() -> None:
    digests = {
        plan_query(sql, SCHEMA).digest
        for sql in (
            "SELECT COUNT(*) FROM people WHERE age = 3",
            "select  count(*)\nfrom people where age == 3;",
            "SELECT /* hello */ COUNT(*) FROM people -- there\nWHERE age = 3",
        )
    }
    assert len(digests) == 1
    assert plan_query("SELECT COUNT(*) FROM people WHERE age = 4", SCHEMA).digest not in digests
    assert plan_query("SELECT COUNT(*) FROM people WHERE age = 3", SCHEMA, HAND).digest not in digests


def test_coarse_noise_grid_takes_its_sensitivity_along() -> None:
    """Rounding to a coarser grid keeps neighbours within Δ only when Δ is a whole number of its steps."""
    wide = Column("v", ColumnType.INTEGER, bounds=(Decimal(0), Decimal(2**55 + 1)))
    schema = Schema(table="t", individuals=1000, columns={"v": wide})
    measure = plan_query("SELECT SUM(v) FROM t", schema).measures[0]
    assert measure.grid > measure.unit
    steps = measure.sensitivity(1) / float(measure.grid)
    assert steps == int(steps)
    assert measure.sensitivity(1) >= 2**55 + 1


# ---------------------------------------------------------------- what runs


HARMLESS = (exp.Select, exp.Subquery, exp.From, exp.Table)


def call_deep(frames: int, sql: str) -> QueryPlan | None:
    """Plan and write out from deep inside somebody else's call stack."""
    if frames:
        return call_deep(frames - 1, sql)
    try:
        plan = plan_query(sql, SCHEMA)
    except QueryError:
        return None
    expect_harmless(plan)
    return plan


def parentheses(depth: int) -> str:
    return "SELECT COUNT(*) FROM people WHERE " + "(" * depth + "age = 1" + ")" * depth


def divisions(depth: int) -> str:
    return "SELECT COUNT(*) FROM people WHERE age" + " / 2" * depth + " = 1"


def calls(depth: int) -> str:
    return "SELECT SUM(" + "ABS(age - " * depth + "1" + ")" * depth + ") FROM people"


def cases(depth: int) -> str:
    return (
        "SELECT COUNT(*) FROM people WHERE " + "CASE WHEN age = 1 THEN 2 ELSE " * depth + "3" + " END" * depth + " = 2"
    )


@pytest.mark.parametrize(
    ("write", "accepted", "beyond"),
    [
        (parentheses, (5, 15), (35, 100)),
        (divisions, (5, 40), (60,)),
        (calls, (3, 15, 20), ()),
        (cases, (5, 10, 20), ()),
    ],
)
def test_what_is_accepted_can_be_written_out(
    write: Callable[[int], str], accepted: tuple[int, ...], beyond: tuple[int, ...]
) -> None:
    """Somewhere beyond, nesting is refused; never is it accepted and then too deep to be written."""
    assert sys.getrecursionlimit() == 1000
    for depth in accepted:
        assert call_deep(150, write(depth)) is not None, depth
    for depth in beyond:
        call_deep(150, write(depth))


def test_a_long_list_of_conditions_is_fine() -> None:
    sql = "SELECT COUNT(*) FROM people WHERE " + " OR ".join(f"age = {age}" for age in range(2000))
    plan = plan_query(sql, SCHEMA)
    expect_harmless(plan)
