"""One suite, every engine: distinct contributions, counts, exact totals and the found ε are those of DuckDB."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import psycopg
import pyarrow as pa
import pytest

from dosimeter.assessment import Risk
from dosimeter.dataset import Dataset
from dosimeter.engines.engine import Engine
from dosimeter.influence.contributions import Contributions
from dosimeter.influence.rows.row_profile import measure_answer
from dosimeter.inspection.compare import check_schema
from dosimeter.inspection.draft import draft_schema
from dosimeter.inspection.remarks import text_remarks
from dosimeter.inspection.written_draft import write_draft
from dosimeter.ledger import Ledger
from dosimeter.planning.planner import plan_query
from dosimeter.schema.facts import Schema
from dosimeter.schema.toml import parse_schema
from dosimeter_paper.recompute import recompute_risk

ROWS = 240
BIG = 2**53 + 1
pytestmark = pytest.mark.xdist_group("conformance")  # one server and one Spark session for all of it

WHERE = [
    "age = 7",
    "age <> 7",
    "age >= 3 AND age < 11",
    "NOT age BETWEEN 3 AND 11",
    "age IN (1, 2, 3, 91)",
    "age NOT IN (1, 2, 3)",
    "age IS NULL OR pay IS NOT NULL",
    "age + 2 * big > 0",
    "age // 3 = 2 OR age // 3 = -1",
    "age % 4 = -1",
    "age // 0 IS NULL",
    "pay / age > 0.5",
    "pay / 0 IS NULL",
    "pay = 0",
    "pay = 0.025 OR pay = -0.075 OR pay = 0.30000000000000004",
    "pay < -0.02",
    "FLOOR(pay) = 2 OR CEIL(pay) = -4",
    "FLOOR(pay * 1e90) > 1e89",
    "FLOOR(big) = 9007199254740992",
    "ABS(pay) > 100",
    "-pay > 10",
    "big = 9007199254740993",
    "big > 9007199254740992",
    "COALESCE(age, 50) > 40",
    "CASE WHEN member THEN age ELSE 0 - age END > 3",
    "CASE WHEN member THEN 'a' ELSE 'B' END < 'b'",
    "name = 'Ada'",
    "name = 'Ádá'",
    "name = ''",
    "name = 'trail '",
    "name = 'trail'",
    "name = 'back\\slash' OR name = '\\n'",
    "name = 'two\nlines'",
    "name = 'O''Hara' OR name = 'say \"hi\"'",
    "name = 'NA{x}'",
    "name < 'a'",
    "name > 'Z'",
    "name BETWEEN 'A' AND 'Z'",
    "name >= 'é'",
    "name IN ('ada', 'ß', '😀', 'Ω')",
    "name LIKE 'a%'",
    "name LIKE '_'",
    "name LIKE '__'",
    "name LIKE '%lines'",
    "name LIKE '%''%'",
    "name < city",
    "city <> 'Bonn'",
    "city = 'aix'",
    "city > 'Zug'",
    "member",
    "NOT member",
    "member = TRUE",
    "member IS NULL",
    "born = '2020-02-29'",
    "born >= DATE '2020-06-01'",
    "born BETWEEN '2019-12-28' AND '2020-01-05'",
    "born IN ('2020-01-01', '2020-05-05')",
    "seen < '2020-04-01 12:00:00'",
    "seen = TIMESTAMP '2020-12-31 23:59:59.999999'",
    "seen >= '2020-02-29 12:00:00' AND seen < '2020-03-29 12:30:00'",
    "EXTRACT(YEAR FROM born) = 2020 AND EXTRACT(QUARTER FROM born) = 1",
    "EXTRACT(MONTH FROM seen) = 3 AND EXTRACT(DAY FROM seen) > 28",
    "EXTRACT(ISODOW FROM born) >= 6",
    "ISODOW(seen) = 7",
    "HOUR(seen) = 23 OR HOUR(seen) = 1",
    "DATE_TRUNC('week', born) = '2019-12-30'",
    "DATE_TRUNC('month', seen) = '2020-03-01'",
    "DATE_TRUNC('quarter', born) = '2020-04-01' OR DATE_TRUNC('year', seen) = '2020-01-01'",
    "DATE_TRUNC('day', seen) = '2020-04-01'",
    "DATE_TRUNC('hour', seen) = '2020-03-29 01:00:00' OR DATE_TRUNC('minute', seen) < '2020-02-29 12:00:01'",
    "DATE_TRUNC('second', seen) = '2020-12-31 23:59:59'",
    "seen < born OR seen BETWEEN DATE '2020-03-29' AND '2020-04-02'",
    "born IN (DATE '2020-01-01', TIMESTAMP '2020-05-05 00:00:00')",
    "born + INTERVAL '1' MONTH > DATE '2020-03-31' AND born - INTERVAL '1' YEAR < DATE '2019-06-30'",
    "born - 30 >= DATE '2020-02-29' AND born + INTERVAL '2' WEEK < DATE '2020-12-31'",
    "seen + INTERVAL '36' HOUR > TIMESTAMP '2020-04-05 12:30:00'",
    "seen - INTERVAL '1 month 90 seconds' < '2020-03-01'",
    "born + INTERVAL '7980' YEAR IS NULL AND seen - INTERVAL '2019' YEAR IS NOT NULL",
    "DATE_DIFF('day', born, seen) > 5",
    "DATE_DIFF('week', born, seen) = -1 OR DATE_DIFF('month', born, seen) = 2",
    "DATE_DIFF('quarter', born, seen) = 1 OR DATE_DIFF('year', born, seen) = -1",
    "DATE_DIFF('hour', seen, TIMESTAMP '2020-03-29 12:30:00') BETWEEN -30 AND 30",
    "DATE_DIFF('minute', seen, DATE '2020-03-30') < 0 OR DATE_DIFF('second', seen, DATE '2020-03-30') % 7 = 3",
    "born - DATE '2020-06-30' > -20",
    "seen - born < INTERVAL 30 DAY AND seen - born >= INTERVAL '-36' HOUR",
    "seen - TIMESTAMP '2020-03-29 12:30:00' BETWEEN INTERVAL '-3 days' AND '2 days 1 second'::INTERVAL",
    "INTERVAL '2' WEEK < born - DATE '2020-02-29' OR born - CAST(seen AS DATE) = INTERVAL '0' DAY",
    "seen - born < INTERVAL '2915000' DAY AND NOT born - seen > INTERVAL '2915000' DAY",
    "seen - born > INTERVAL '-738500' DAY",
    "DAYOFWEEK(born) = 0 OR EXTRACT(DOW FROM seen) = 6",
    "WEEK(born) = 53 OR EXTRACT(ISOYEAR FROM born) = 2019",
    "DAYOFYEAR(born) > 300 OR MINUTE(seen) = 30 AND SECOND(seen) = 0",
    "SECOND(seen) = 59",
    "STRFTIME(born, '%Y-%m') = '2020-02' OR STRFTIME(seen, '%d.%m.%Y %H:%M:%S') = '29.02.2020 12:00:00'",
    "STRFTIME(born, '%a %b %j') = 'Wed Jan 001' OR STRFTIME(born, '%G-W%V-%u') = '2020-W53-4'",
    "DAYNAME(born) = 'Sunday' AND MONTHNAME(born) <> 'May'",
    "TO_CHAR(seen, 'YYYY-MM-DD HH24:MI') = '2020-03-29 12:30'",
    "LAST_DAY(born) = DATE '2020-02-29' OR CAST(seen AS DATE) = '2020-03-30'",
    "MAKE_DATE(2020, age, 30) > DATE '2020-04-01'",
    "GREATEST(born, seen) = seen AND LEAST(born, DATE '2020-05-05') < DATE '2020-05-05'",
    "CAST(born AS TIMESTAMP) < seen",
    "CAST(pay AS INTEGER) = 2 OR CAST(pay AS INTEGER) = 1234",
    "CAST(fine AS DECIMAL(4, 1)) = 0.5 OR CAST(big AS INTEGER) IS NULL",
    "CAST(age AS VARCHAR) = '-3' OR CAST(age * 2 AS TEXT) = '18'",
    "CAST(born AS TEXT) < '2020-03-01' AND CAST(member AS TEXT) = 'true'",
    "CAST(age AS BOOLEAN) AND CAST(member AS INTEGER) = 1",
    "age::DOUBLE / 4 > 2 AND pay::DECIMAL(10, 2) < 1000",
    "ROUND(pay) = 3 OR ROUND(pay, 1) = -0.1 OR ROUND(pay, -3) = 1000",
    "ROUND(fine, 2) > 0.33 OR ROUND(age, -1) = 10",
    "TRUNC(pay) = -3 OR SIGN(pay) = -1",
    "SQRT(age) > 3.1 OR SQRT(pay) < 0.3",
    "LN(age) > 2.5 OR LOG(pay) > 2 OR EXP(fine) < 0.6",
    "POWER(age, 2) = 49 OR pay ^ 3 < -1 OR POWER(age, -1) > 0.4",
    "GREATEST(age, pay, 3) > 10 AND LEAST(age, pay) < 5",
    "NULLIF(age, 7) IS NULL AND IFNULL(pay, 0) >= 0",
    "MOD(age, 4) = 3 AND age // 4 > -1",
    "member IS TRUE",
    "member IS NOT TRUE AND member IS NOT FALSE",
    "age IS DISTINCT FROM 7 AND city IS NOT DISTINCT FROM 'Aix'",
    "UPPER(city) = 'BONN' OR LOWER(city) = 'ülm'",
    "UPPER(name) = 'ADA' OR LOWER(name) = 'zoe'",
    "LOWER(name) >= 'a' AND UPPER(name) < 'Z'",
    "name ILIKE 'A%' OR name NOT ILIKE '%A%'",
    "TRIM(name) = 'trail' OR LTRIM(name) = 'lead' OR RTRIM(name) = ' lead'",
    "LEFT(name, 1) = 'A' OR RIGHT(name, 2) = 'da'",
    "SUBSTR(name, 2, 1) = 'd' OR SUBSTR(city, 2) = 'onn'",
    "name || '!' = 'ada!' OR city || name > 'K'",
    "CONCAT(city, '-', age) = 'Bonn-3' OR CONCAT(name, city) = 'Bonn'",
    "REPLACE(name, 'da', 'x') = 'Ax' OR REPLACE(city, 'nn', 'nnnn') = 'Bonnnn'",
    "LENGTH(name) = 2 OR LENGTH(city) = 4",
    "LENGTH(name) > 3 AND LENGTH(name) < 6",
    "STARTS_WITH(name, 'A') OR ENDS_WITH(name, 'a') OR CONTAINS(name, 'ar')",
    "CASE city WHEN 'Bonn' THEN 1 WHEN 'Aix' THEN 2 END = 2",
    "DATE_ADD(born, INTERVAL 1 MONTH) > seen OR DATE(seen) = born",
    "QUARTER(born) = 2 OR DAY(seen) = 29 OR DAYOFMONTH(born) = 1 OR WEEKOFYEAR(seen) = 13",
    "TRY_CAST(city AS INTEGER) IS NULL AND TRY_CAST(fine AS INTEGER) = 0",
    "DATE_PART('month', born) = 2 OR DATEPART('year', seen) = 2019 OR WEEKDAY(born) = 3 OR ISOYEAR(born) = 2019",
    "PREFIX(name, 'A') OR SUFFIX(name, 'lines')",
    "POSITION('a' IN name) = 3 OR STRPOS(name, 'é') = 1 OR POSITION('nn' IN city) = 3",
    "POSITION('lines' IN name) = 5 OR STRPOS(name, '\u0301') > 2 OR INSTR(name, '😀') = 1 OR STRPOS(name, '\\') = 5",
    "SPLIT_PART(city, 'n', 1) = 'Bo' OR SPLIT_PART(city, 'l', -1) = 'm' OR SPLIT_PART(city, 'x', 2) = ''",
    "REGEXP_MATCHES(city, '^[A-Z]') AND city ~ 'n+$' OR city ~* '^ü'",
    "NOT REGEXP_FULL_MATCH(city, '.[a-z]{3}') OR REGEXP_EXTRACT(city, '(.)n', 1) = 'o'",
    """CASE city WHEN 'Bonn' THEN '{"a": [{"k": "x''y\\\\z"}]}' WHEN 'Zug' THEN '[' ELSE '{"a": 1}' END -> 'a' -> 0 """
    """->> '$.k' = 'x''y\\z'""",
    "WIDTH_BUCKET(fine, 0, 1, 7) = 3 OR WIDTH_BUCKET(age, 0, 50, 5) IN (0, 2, 6) OR WIDTH_BUCKET(big, 0, 10, 3) = 3",
    "WIDTH_BUCKET(pay, 1000, -1000, 8) = 4 OR WIDTH_BUCKET(pay + 0.5, 0, 0.7, 7) = 6",
]

QUERIES = [
    "SELECT COUNT(*) FROM people",
    "SELECT COUNT(*), COUNT(age), COUNT(pay) FROM people WHERE member",
    "SELECT COUNT(name), COUNT(DISTINCT name) FROM people",
    "SELECT COUNT(DISTINCT age) FROM people WHERE pay > 0",
    "SELECT COUNT(DISTINCT pay) FROM people",
    "SELECT COUNT(DISTINCT seen), COUNT(DISTINCT born), COUNT(DISTINCT city), COUNT(DISTINCT member) FROM people",
    "SELECT SUM(age) FROM people",
    "SELECT SUM(pay) FROM people",
    "SELECT SUM(fine), SUM(pay), COUNT(*) FROM people WHERE city <> 'Zug'",
    "SELECT SUM(big) FROM people",
    "SELECT SUM(2 * age - 3 * ABS(pay)) FROM people",
    "SELECT SUM(age * pay), SUM(-fine) FROM people",
    "SELECT SUM(CASE WHEN member THEN pay WHEN city = 'aix' THEN 1 ELSE 0.25 END) FROM people",
    "SELECT SUM(COALESCE(age, 10)) FROM people",
    "SELECT SUM(EXTRACT(YEAR FROM born)), SUM(ISODOW(born)), SUM(HOUR(seen)) FROM people",
    "SELECT SUM(pay) FILTER (WHERE name < 'a'), COUNT(*) FILTER (WHERE city = 'bonn') FROM people",
    "SELECT AVG(age) FROM people",
    "SELECT AVG(pay), VAR_POP(pay), STDDEV_POP(fine) FROM people WHERE age > 0",
    "SELECT MIN(age), MAX(age) FROM people",
    "SELECT MIN(pay), MEDIAN(pay), MAX(pay), QUANTILE_CONT(pay, 0.9) FROM people",
    "SELECT MEDIAN(fine) FROM people WHERE name LIKE '%a%'",
    "SELECT MEDIAN(big) FROM people",
    "SELECT city, member, QUANTILE_DISC(pay, 0.3), MAX(big) FROM people GROUP BY city, member",
    "SELECT city, COUNT(*) FROM people GROUP BY city",
    "SELECT city, member, SUM(pay), COUNT(age) FROM people WHERE name > 'A' GROUP BY city, member",
    "SELECT city, MEDIAN(pay), COUNT(DISTINCT name) FROM people GROUP BY city",
    "SELECT member, AVG(fine), MAX(age) FROM people GROUP BY 1 ORDER BY 2",
    "SELECT age, COUNT(*) FROM people GROUP BY age",
    "SELECT age // 10, SUM(pay) FROM people GROUP BY age // 10",
    "SELECT born, COUNT(*) FROM people GROUP BY born",
    "SELECT DATE_TRUNC('month', born), SUM(age) FROM people GROUP BY DATE_TRUNC('month', born)",
    "SELECT EXTRACT(ISODOW FROM born), COUNT(*) FROM people GROUP BY EXTRACT(ISODOW FROM born)",
    "SELECT HOUR(seen), COUNT(*), SUM(pay) FROM people GROUP BY HOUR(seen)",
    "SELECT DATE_TRUNC('week', seen), COUNT(*) FROM people GROUP BY DATE_TRUNC('week', seen)",
    "SELECT CASE WHEN age < 5 THEN 'young' WHEN name < 'b' THEN 'b' ELSE 'Rest' END, COUNT(*) FROM people GROUP BY 1",
    "SELECT age > 5, COUNT(*) FROM people GROUP BY age > 5",
    "SELECT SUM(DATE_DIFF('day', born, seen)), AVG(DATE_DIFF('month', born, seen)) FROM people",
    "SELECT SUM(DATE_DIFF('hour', seen, DATE '2020-06-30')), SUM(DAYOFWEEK(born)), SUM(WEEK(born)) FROM people",
    "SELECT SUM(GREATEST(pay, 0)), SUM(LEAST(age, pay)), SUM(age // 3), SUM(age % 3) FROM people",
    "SELECT AVG(pay / 3), SUM(pay / age), SUM(age / 7) FROM people",
    "SELECT SUM(SQRT(pay)), SUM(LN(pay)), SUM(EXP(fine)), SUM(LOG10(age)) FROM people",
    "SELECT SUM(ROUND(pay)), SUM(ROUND(fine, 1)), SUM(FLOOR(pay / 7)), SUM(CEIL(fine)), SUM(TRUNC(pay)) FROM people",
    "SELECT SUM(CAST(pay AS INTEGER)), SUM(CAST(member AS INTEGER)), SUM(CAST(fine AS DECIMAL(3, 1))) FROM people",
    "SELECT SUM(POWER(age, 2)), SUM(SIGN(pay)), SUM(NULLIF(age, 0)), SUM(LENGTH(city)), SUM(member) FROM people",
    "SELECT FLOOR(pay / 500) * 500, COUNT(*) FROM people GROUP BY FLOOR(pay / 500) * 500",
    "SELECT ROUND(fine, 1), COUNT(*), SUM(age) FROM people GROUP BY ROUND(fine, 1)",
    "SELECT ROUND(pay, -3), CAST(FLOOR(age / 10) AS INTEGER), COUNT(*) FROM people GROUP BY 1, 2",
    "SELECT age // 10 * 10, AVG(pay) FROM people GROUP BY age // 10 * 10",
    "SELECT UPPER(city), COUNT(*) FROM people GROUP BY UPPER(city)",
    "SELECT LEFT(city, 1) || '/' || member, COUNT(*) FROM people GROUP BY 1",
    "SELECT STRFTIME(seen, '%Y-%m'), COUNT(*) FROM people GROUP BY 1",
    "SELECT DAYNAME(born), DAYOFWEEK(seen), COUNT(*) FROM people GROUP BY 1, 2",
    "SELECT DATE_TRUNC('hour', seen), COUNT(*) FROM people GROUP BY DATE_TRUNC('hour', seen)",
    "SELECT CAST(seen AS DATE), COUNT(DISTINCT UPPER(name)) FROM people GROUP BY CAST(seen AS DATE)",
    "SELECT YEAR(born) * 100 + MONTH(born) AS month, COUNT(*) FROM people GROUP BY month",
    "SELECT fine, COUNT(*) FROM people GROUP BY fine",
    "SELECT COUNT_IF(age > 5 AND member), APPROX_COUNT_DISTINCT(city), COUNT(DISTINCT age // 3) FROM people",
    "SELECT VAR_SAMP(pay), STDDEV(age), STDDEV_SAMP(fine), VARIANCE(age) FROM people WHERE name > 'A'",
    "SELECT city, CORR(age, pay), COVAR_POP(pay, fine) FROM people GROUP BY city",
    "SELECT COVAR_SAMP(age, fine), REGR_SLOPE(pay, age), REGR_INTERCEPT(SQRT(age), fine) FROM people WHERE member",
    "SELECT city, member, COUNT(*), SUM(pay) FROM people GROUP BY ROLLUP (city, member)",
    "SELECT member, age > 5 AS old, AVG(fine), CORR(age, pay) FROM people GROUP BY CUBE (member, old)",
    "SELECT city, UPPER(LEFT(city, 1)) AS c, COUNT_IF(member) FROM people GROUP BY GROUPING SETS ((city, c), (c), ())",
    "SELECT city, COUNT(*), SUM(pay) FROM people GROUP BY city UNION ALL SELECT 'old', COUNT(age), SUM(age) FROM "
    "people WHERE age > 40 UNION ALL SELECT 'new', COUNT(*), SUM(fine) FROM people WHERE pay > 0 GROUP BY member",
    "SELECT city, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM people WHERE member) FROM people WHERE age < 30 GROUP BY 1",
    "SELECT city, member, MEDIAN(pay), COUNT(DISTINCT age) FROM people WHERE age > 1 GROUP BY CUBE (city, member)",
    "SELECT SPLIT_PART(city, 'n', 1), city ~ 'n', COUNT(*) FROM people GROUP BY 1, 2",
    "SELECT WIDTH_BUCKET(pay, 0, 1000, 4) AS b, SUM(WIDTH_BUCKET(fine, 1, -1, 20)), COUNT(*) FROM people GROUP BY b",
    "SELECT DISTINCT city, member FROM people WHERE age > 5",
]
NOISY = [
    "SELECT MIN(pay), MEDIAN(pay), MAX(pay), QUANTILE_CONT(pay, 0.9) FROM people",
    "SELECT city, MEDIAN(pay), COUNT(DISTINCT name) FROM people GROUP BY city",
]
OBSERVED = [
    "SELECT city, COUNT(*), SUM(age) FROM people GROUP BY city",
    "SELECT name, member, MEDIAN(age) FROM people GROUP BY name, member",
    "SELECT pay, COUNT(*) FROM people GROUP BY pay",
    "SELECT seen, COUNT(*) FROM people WHERE seen IS NOT NULL GROUP BY seen",
]
PREFERENCES: list[tuple[str, Literal["laplace", "gaussian"]]] = [
    ("MIN(rdr) / MAX(rdr) >= 0.95", "laplace"),
    ("MEDIAN(rdr) FILTER (WHERE city = 'Bonn') / MEDIAN(rdr) FILTER (WHERE city <> 'Bonn') >= 0.9", "laplace"),
    ("AVG(rdr) FILTER (WHERE member AND name < 'a') <= 1.1 * AVG(rdr)", "gaussian"),
    ("QUANTILE_CONT(rdr, 0.9) FILTER (WHERE born >= '2020-06-01') <= 1.5 * AVG(rdr)", "laplace"),
]


def count_vectors(found: Contributions) -> Counter[tuple[Any, ...]]:
    """How many individuals have each contribution vector, whatever the order of the rows."""
    people: Counter[tuple[Any, ...]] = Counter()
    for row, count in enumerate(found.people.tolist()):
        owned = slice(found.starts[row], found.starts[row + 1])
        people[tuple(zip(found.cells[owned].tolist(), found.changes[owned].tolist(), strict=True))] += count
    return +people


def compare(dataset: Dataset, reference: Dataset, sql: str, **look: Any) -> Risk:
    expected, found = (one.risk(sql, **look) for one in (reference, dataset))
    assert found.k == expected.k
    assert count_vectors(found.contributions) == count_vectors(expected.contributions)
    assert found.measured() == expected.measured()
    return found


def test_conditions_select_the_same_people(dataset: Dataset, reference: Dataset, schema: Schema) -> None:
    """As one query, so that an engine goes through the table once for all of them."""
    counts = ", ".join(f"COUNT(*) FILTER (WHERE {where})" for where in WHERE)
    plan = plan_query(f"SELECT {counts} FROM people", schema)
    assert len(plan.measures) == len(WHERE)
    expected, found = (
        dict(zip(WHERE, measure_answer(plan, one.tables.find_rows(plan)).values[0], strict=True))
        for one in (reference, dataset)
    )
    assert found == expected
    assert sum(0 < count < ROWS for count in expected.values()) > len(WHERE) - 8  # nearly all of them tell people apart


@pytest.mark.parametrize("sql", QUERIES)
def test_contributions_and_totals_agree(dataset: Dataset, reference: Dataset, table: pa.Table, sql: str) -> None:
    """Nor do more rows leave the engine than there are distinct contributions.

    These follow from the query's columns: there are at most as many as distinct records of these.
    """
    dataset.count()
    before = dataset.engine.rows_fetched
    found = compare(dataset, reference, sql)
    assert found.profile is not None
    moved = len(found.profile.people)
    columns = list(found.plan.columns)
    assert moved <= max(table.select(columns).group_by(columns).aggregate([]).num_rows, 1)
    if found.plan.additive:
        assert dataset.engine.rows_fetched - before <= 2 * moved  # the profile, and the exact totals of its groups
        if len(found.plan.measures) == 1 and not found.plan.groups:
            assert moved <= len(count_vectors(found.contributions)) + 1  # NULL and 0 are two, and move nothing


@pytest.mark.parametrize(
    ("column", "intervals"),
    [
        ("fine", "-1, 1, 20"),
        ("fine", "0.7, -0.3, 100"),
        ("pay", "0, 1, 8"),
        ("pay", "1234.5, 0.025, 3"),
        ("age", "0, 9, 4"),
    ],
)
def test_intervals_are_those_of_postgres(postgres_url: str, reference: Dataset, column: str, intervals: str) -> None:
    """Of exact numbers: PostgreSQL's own function asks itself."""
    with psycopg.connect(postgres_url) as connection:
        plain = f"width_bucket({column}::numeric, {intervals})"
        rows = connection.execute(f"SELECT {plain}, COUNT(*) FROM registry.people GROUP BY 1").fetchall()
    expected = {int(bucket): people for bucket, people in rows if bucket is not None}
    bucket = f"WIDTH_BUCKET({column}, {intervals})"
    measured = reference.risk(f"SELECT {bucket} AS b, COUNT(*) FROM people GROUP BY b").measured()
    found = {key: int(people) for (key,), (people,) in zip(measured.keys, measured.values, strict=True) if people}
    assert {each: people for each, people in expected.items() if (each,) in measured.keys} == found
    assert len(found) > 2


@pytest.mark.parametrize("sql", NOISY)
def test_order_statistics_with_noise_agree(dataset: Dataset, reference: Dataset, sql: str) -> None:
    compare(dataset, reference, sql, quantiles="noise")


@pytest.mark.parametrize(
    ("column", "step", "low", "high"), [("age", 1, -5, 90), ("pay", 0.05, -1000, 2000), ("big", None, -BIG, BIG)]
)
def test_counts_per_candidate_are_those_of_python(
    dataset: Dataset, table: pa.Table, column: str, step: float | None, low: int, high: int
) -> None:
    """M4: values clamped, put on the grid, and rounded to the nearest candidate: by Python's own numbers."""
    plan = plan_query(f"SELECT city, MEDIAN({column}) FROM people GROUP BY city", dataset.schema)
    measured = measure_answer(plan, dataset.tables.find_rows(plan))
    rank = plan.ranks[0]
    cells = len(measured.keys)
    assert rank.candidate_count <= min(2**16, 2**20 // cells)
    candidates = [int(each) * rank.unit for each in rank.candidates]
    assert (candidates[0], candidates[-1]) == (low, high)
    for (city,), found in zip(measured.keys, measured.columns[0], strict=True):
        counts: Counter[Fraction] = Counter()
        for row in table.select(["city", column]).to_pylist():
            if row["city"] == city and row[column] is not None:
                value = row[column] if step is None else math.floor(row[column] / step + 0.5) * rank.unit
                clamped = min(max(Fraction(value), Fraction(low)), Fraction(high))
                place = bisect_left(candidates, clamped)
                near = candidates[max(place - 1, 0) : place + 1]
                counts[min(near, key=lambda each: (abs(each - clamped), -each))] += 1
        own = dict(zip(candidates, rank.count(found).tolist(), strict=True))
        assert {value: count for value, count in own.items() if count} == counts


@pytest.mark.parametrize("sql", OBSERVED)
def test_observed_groups_agree(dataset: Dataset, reference: Dataset, sql: str) -> None:
    compare(dataset, reference, sql, groups="observed")


@pytest.mark.parametrize(("prefer", "mechanism"), PREFERENCES)
def test_found_epsilon_agrees(
    dataset: Dataset, reference: Dataset, prefer: str, mechanism: Literal["laplace", "gaussian"]
) -> None:
    sql = "SELECT SUM(pay), COUNT(age) FROM people WHERE age > 3"
    expected, found = (one.risk(sql, mechanism=mechanism).find(prefer) for one in (reference, dataset))
    assert (found.epsilon, found.limit) == (expected.epsilon, expected.limit)
    assert found.candidates == expected.candidates
    assert expected.epsilon is not None


@pytest.mark.parametrize("column", ["city", "member", "age", "name", "born", "pay"])
def test_groups_of_by_agree(dataset: Dataset, reference: Dataset, column: str) -> None:
    sql = "SELECT SUM(fine) FROM people WHERE name >= 'A'"
    expected, found = (one.risk(sql).by(column) for one in (reference, dataset))
    assert found == expected
    assert sum(row.people for row in found) == ROWS


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(pay) FROM people WHERE id > 500",
        "SELECT city, MEDIAN(age) FROM people WHERE city IN ('Ülm', 'Nowhere') AND member GROUP BY city",
        "SELECT COUNT(DISTINCT name) FROM people WHERE seen < '2020-03-30'",
    ],
)
def test_exposed_people_agree(dataset: Dataset, reference: Dataset, sql: str) -> None:
    """All of them, since among equally exposed people there is no order."""
    shown = ["name", "city", "age", "pay", "born", "seen", "member"]
    everybody = [one.risk(sql).list_people(ROWS, columns=shown) for one in (reference, dataset)]
    expected, found = (Counter(str(person.describe()) for person in people) for people in everybody)
    assert found == expected
    assert len(found) >= 7


def test_leaving_out_each_record_agrees(dataset: Dataset, reference: Dataset) -> None:
    """The closed form in one engine against deletion over the records that the other engine gives."""
    sql = "SELECT member, SUM(age), COUNT(*) FROM people WHERE seen >= '2020-02-01' GROUP BY member"
    closed = reference.risk(sql).contributions
    recomputed = recompute_risk(dataset, sql).contributions
    assert count_vectors(recomputed) == count_vectors(closed)


def test_drafts_agree(openers: dict[str, Callable[[], Engine]], dataset: Dataset) -> None:
    drafts = []
    for name in ("duckdb", dataset.engine.name):
        engine = openers[name]()
        drafts.append(draft_schema(engine))
        assert text_remarks(engine) == []
        engine.close()
    assert drafts[1].columns == drafts[0].columns
    assert drafts[1].individuals == drafts[0].individuals == ROWS


def test_written_drafts_are_accepted(openers: dict[str, Callable[[], Engine]], dataset: Dataset) -> None:
    engine = openers[dataset.engine.name]()
    written = write_draft(engine)
    engine.close()
    engine = openers[dataset.engine.name]()
    found = check_schema(engine, parse_schema(written.text))
    engine.close()
    assert found.agrees, found.findings
    if dataset.engine.name == "postgres":  # the one table with columns that have no equivalent
        assert (
            "Left out, since these types have no equivalent here: notes (jsonb), tags (text[])." in written.remarks[0]
        )


def test_checks_agree(openers: dict[str, Callable[[], Engine]], dataset: Dataset, schema: Schema) -> None:
    checks = []
    for name in ("duckdb", dataset.engine.name):
        engine = openers[name]()
        checks.append(check_schema(engine, schema))
        engine.close()
    assert checks[1] == checks[0]
    assert {finding.column for finding in checks[0].findings} >= {"age", "pay", "fine", "city"}


def test_an_answer_is_released_and_found_again(dataset: Dataset, tmp_path: Path) -> None:
    """The fingerprint stays, so the same question is answered from the ledger: the same numbers, no charge."""
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        first, second = (
            dataset.release("SELECT COUNT(*) FROM people", epsilon=0.5, ledger=ledger, policy="budget:1")
            for _ in range(2)
        )
    assert first.status == second.status == "released"
    assert first.answer == second.answer
