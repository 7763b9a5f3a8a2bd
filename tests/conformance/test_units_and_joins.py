"""Individuals with many rows, and joins: on every engine the same rows count, the same people move the same numbers.

DuckDB is the reference, which `tests/oracle/` compares with deletion; which rows are kept is checked here once more on
every engine against plain Python. Units differ in case, accents, normal form and signs.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dosimeter.assessment import Risk
from dosimeter.dataset import Dataset
from dosimeter.errors import SchemaError
from dosimeter.influence.contributions import Contributions
from dosimeter.ledger import Ledger
from dosimeter.postprocess import assemble_answer
from tests.conformance.people_queries import PEOPLE_QUERIES
from tests.rows_that_count import rows_that_count

pytestmark = pytest.mark.xdist_group("conformance")  # one server and one Spark session for all of it

M, N, SLOTS = 4, 2, 60
UNITS = [
    "ada", "Ada", "ADA", "Ádá", "A\u0301da\u0301", "a:1", "a", "1", "-1", "10", "", " ", "a ", "ß", "SS", "😀",
    "O'Hara", "back\\slash", "%", "Zoë", "zoe", "Ω", "ω", "é", "e\u0301",
]  # fmt: skip
WARDS = ["A", "b", "Ç", "O'X"]
VISITS = pa.schema(
    [
        ("pid", pa.string()), ("number", pa.int64()), ("vid", pa.int64()), ("clinic_id", pa.int64()),
        ("cost", pa.float64()), ("x", pa.int64()), ("ward", pa.string()), ("urgent", pa.bool_()), ("day", pa.date32()),
    ]
)  # fmt: skip
CLINICS = pa.schema([("clinic_id", pa.int64()), ("region", pa.string()), ("beds", pa.int64())])
DAYS = pa.schema([("day", pa.date32()), ("rate", pa.float64()), ("opens", pa.timestamp("us")), ("feast", pa.bool_())])
LABS = pa.schema([("pid", pa.string()), ("lab", pa.string()), ("score", pa.int64())])
FACTS: dict[str, Any] = {
    "table": "visits",
    "individuals": SLOTS,
    "unit": "pid",
    "max_rows_per_unit": M,
    "row_key": "vid",
    "reviewed": True,
    "columns": {
        "pid": {"type": "text", "max_length": 2},
        "number": {"type": "integer"},
        "vid": {"type": "integer"},
        "clinic_id": {"type": "integer", "bounds": [1, 8]},
        "cost": {"type": "decimal", "bounds": [-50, 200], "resolution": 0.05},
        "x": {"type": "integer", "bounds": [-2, 9]},
        "ward": {"type": "category", "values": WARDS},
        "urgent": {"type": "boolean"},
        "day": {"type": "date", "bounds": ["2024-02-26", "2024-03-05"]},
    },
    "tables": {
        "clinics": {
            "public": True,
            "key": "clinic_id",
            "columns": {
                "clinic_id": {"type": "integer"},
                "region": {"type": "category", "values": ["north", "süd"]},
                "beds": {"type": "integer", "bounds": [0, 40]},
            },
        },
        "days": {
            "public": True,
            "key": "day",
            "columns": {
                "day": {"type": "date"},
                "rate": {"type": "decimal"},
                "opens": {"type": "timestamp"},
                "feast": {"type": "boolean"},
            },
        },
        "labs": {
            "unit": "pid",
            "max_rows_per_unit": N,
            "row_key": "lab",
            "columns": {
                "pid": {"type": "text"},
                "lab": {"type": "text"},
                "score": {"type": "integer", "bounds": [0, 9]},
            },
        },
    },
}


def build_tables() -> dict[str, pa.Table]:
    chance = random.Random(20240229)

    def some(values: Any, missing: float = 0.1) -> Any:
        return None if chance.random() < missing else chance.choice(values)

    visits = [
        {
            "pid": (unit := chance.choice(UNITS)), "number": UNITS.index(unit) - 9, "vid": (at - 60) * 7919,
            "clinic_id": some(range(1, 9)), "cost": some([cents / 40 for cents in range(-2400, 9000, 7)]),
            "x": some(range(-4, 12)), "ward": some([*WARDS, "elsewhere"]), "urgent": some([True, False]),
            "day": some(range(19_779, 19_787)),
        }
        for at in range(150)
    ]  # fmt: skip
    clinics = [{"clinic_id": at, "region": some(["north", "süd", "west"]), "beds": at * 5} for at in (1, 2, 3, 5, 8)]
    days = [
        {
            "day": at, "rate": some([0.1, 2.55, -3.0]), "opens": datetime(2024, 3, 1, 7, at % 60, at % 7),  # noqa: DTZ001
            "feast": some([True, False]),
        }
        for at in range(19_779, 19_786)
    ]  # fmt: skip
    labs = [
        {"pid": chance.choice([*UNITS, "stranger"]), "lab": f"{chance.choice('aÄß:')}{at}", "score": some(range(12))}
        for at in range(80)
    ]
    return {
        "visits": pa.Table.from_pylist(visits, schema=VISITS),
        "clinics": pa.Table.from_pylist(clinics, schema=CLINICS),
        "labs": pa.Table.from_pylist(labs, schema=LABS),
        "days": pa.Table.from_pylist(days, schema=DAYS),
    }


TABLES = build_tables()
POSTGRES = {
    "visits": "pid varchar(40), number numeric(9, 0), vid int, clinic_id smallint, cost double precision, x bigint, "
    "ward text, urgent boolean, day date",
    "clinics": "clinic_id smallint, region varchar, beds int",
    "labs": "pid text, lab text, score numeric(4, 0)",
    "days": "day date, rate numeric(6, 2), opens timestamp, feast boolean",
}

Open = Callable[[dict[str, pa.Table], dict[str, Any]], Dataset]


@pytest.fixture(scope="module")
def opener(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Open]]:
    """How to open the three tables in each engine; servers start when they are first asked for."""
    with ExitStack() as opened:

        def duckdb(tables: dict[str, pa.Table], facts: dict[str, Any]) -> Dataset:
            others = {name: table for name, table in tables.items() if name != "visits"}
            return opened.enter_context(Dataset.open(tables["visits"], schema=facts, table="visits", tables=others))

        def postgres(tables: dict[str, pa.Table], facts: dict[str, Any]) -> Dataset:
            url = request.getfixturevalue("postgres_url")
            place = f"units_{len(request.node.stash.setdefault(PLACES, []))}"
            request.node.stash[PLACES].append(place)
            with psycopg.connect(url) as connection:
                connection.execute(f"CREATE SCHEMA {place}")
                for name, table in tables.items():
                    connection.execute(f"CREATE TABLE {place}.{name} ({POSTGRES[name]})")
                    with connection.cursor().copy(f"COPY {place}.{name} FROM STDIN") as copy:
                        for row in table.to_pylist():
                            copy.write_row(list(row.values()))
            return opened.enter_context(Dataset.open(url, schema=facts, table=f"{place}.visits"))

        def spark(tables: dict[str, pa.Table], facts: dict[str, Any]) -> Dataset:
            request.getfixturevalue("spark_session")
            folder: Path = tmp_path_factory.mktemp("units")
            for name, table in tables.items():
                pq.write_table(table, folder / f"{name}.parquet")
            located = {
                name: {**one, "source": str(folder / f"{name}.parquet")} for name, one in facts["tables"].items()
            }
            return opened.enter_context(
                Dataset.open(folder / "visits.parquet", schema={**facts, "tables": located}, engine="spark")
            )

        yield lambda name: {"duckdb": duckdb, "postgres": postgres, "spark": spark}[name]


PLACES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="module")
def visits_in(opener: Callable[[str], Open]) -> Callable[[str], Dataset]:
    """The tables in each engine, opened once."""
    opened: dict[str, Dataset] = {}

    def find(engine: str) -> Dataset:
        if engine not in opened:
            opened[engine] = opener(engine)(TABLES, FACTS)
        return opened[engine]

    return find


def on_both(cases: Sequence[Any], *, often: Sequence[int]) -> list[Any]:
    """Every case on PostgreSQL; on Spark, where each takes seconds, those at these places, and all in long runs."""
    spark = [
        pytest.param("spark", case, marks=[] if at in often else [pytest.mark.long]) for at, case in enumerate(cases)
    ]
    return [*(pytest.param("postgres", case) for case in cases), *spark]


def count_vectors(found: Contributions) -> Counter[tuple[tuple[int, float], ...]]:
    people: Counter[tuple[tuple[int, float], ...]] = Counter()
    for row, count in enumerate(found.people.tolist()):
        owned = slice(found.starts[row], found.starts[row + 1])
        people[tuple(zip(found.cells[owned].tolist(), found.changes[owned].tolist(), strict=True))] += count
    return +people


QUERIES = [
    "SELECT COUNT(*) FROM visits",
    "SELECT COUNT(*), COUNT(x), COUNT(DISTINCT x), COUNT(DISTINCT pid) FROM visits WHERE cost > 0",
    "SELECT SUM(cost) FROM visits",
    "SELECT SUM(x), AVG(cost), VAR_POP(x) FROM visits WHERE ward <> 'A'",
    "SELECT MIN(cost), MAX(cost) FROM visits WHERE cost > -49 AND cost < 190",
    "SELECT MEDIAN(cost), QUANTILE_CONT(x, 0.9), QUANTILE_DISC(cost, 0.25) FROM visits WHERE urgent",
    "SELECT COUNT(DISTINCT ward), COUNT(DISTINCT cost) FROM visits",
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward",
    "SELECT ward, urgent, SUM(cost), COUNT(x) FROM visits WHERE x > -3 GROUP BY ward, urgent",
    "SELECT x, MEDIAN(cost), COUNT(DISTINCT pid) FROM visits GROUP BY x",
    "SELECT urgent, MIN(x), STDDEV_POP(cost) FROM visits GROUP BY urgent",
    "SELECT day, COUNT(*), SUM(cost) FROM visits GROUP BY day",
    "SELECT x > 3, SUM(cost), COUNT(DISTINCT ward) FROM visits GROUP BY x > 3",
    "SELECT CASE WHEN ward < 'b' THEN 'low' ELSE 'high' END, COUNT(*) FROM visits GROUP BY 1",
    "SELECT region, COUNT(*), SUM(beds) FROM visits JOIN clinics USING (clinic_id) GROUP BY region",
    "SELECT SUM(cost), COUNT(beds) FROM visits v LEFT JOIN clinics c ON v.clinic_id = c.clinic_id WHERE urgent",
    "SELECT SUM(score), MEDIAN(score) FROM visits JOIN labs USING (pid)",
    "SELECT ward, COUNT(*), AVG(score) FROM visits LEFT JOIN labs ON visits.pid = labs.pid GROUP BY ward",
    "SELECT region, COUNT(DISTINCT lab) FROM visits JOIN clinics USING (clinic_id) JOIN labs USING (pid) GROUP BY 1",
    "WITH d AS (SELECT 2 * x AS y, ward FROM visits WHERE cost > 10) SELECT ward, SUM(y) FROM d GROUP BY ward",
    "SELECT COUNT_IF(x > 3 OR urgent), APPROX_COUNT_DISTINCT(ward), STDDEV(cost), VAR_SAMP(x) FROM visits",
    "SELECT VARIANCE(x), STDDEV_SAMP(SQRT(cost)), COUNT(DISTINCT x // 3) FROM visits WHERE UPPER(ward) <> 'B'",
    "SELECT ward, CORR(x, cost), COVAR_SAMP(cost, ISODOW(day)) FROM visits GROUP BY ward",
    "SELECT COVAR_POP(x, cost), REGR_SLOPE(cost, x), REGR_INTERCEPT(score, x) FROM visits JOIN labs USING (pid)",
    "SELECT ward, urgent, COUNT(*), SUM(cost), AVG(x) FROM visits GROUP BY ROLLUP (ward, urgent)",
    "SELECT UPPER(region) AS r, DAYNAME(day) AS d, COUNT(*), CORR(x, beds) FROM visits JOIN clinics USING (clinic_id) "
    "GROUP BY CUBE (r, d)",
    "SELECT ward, LEFT(ward, 1) AS w, COUNT_IF(urgent) FROM visits GROUP BY GROUPING SETS ((ward, w), (w), ())",
    "SELECT ward, COUNT(DISTINCT pid), COUNT(DISTINCT urgent) FROM visits GROUP BY ward",
]  # fmt: skip


def compare(found: Risk, expected: Risk) -> None:
    assert (found.k, found.sensitivity, found.n) == (expected.k, expected.sensitivity, expected.n)
    assert count_vectors(found.contributions) == count_vectors(expected.contributions)
    assert found.measured() == expected.measured()
    assert len(count_vectors(expected.contributions)) >= 2


@pytest.mark.parametrize(("engine", "sql"), on_both(QUERIES, often=[3, 6, 9, 14, 16, 19, 22, 25]))
def test_individuals_move_the_same_numbers(visits_in: Callable[[str], Dataset], engine: str, sql: str) -> None:
    compare(visits_in(engine).risk(sql), visits_in("duckdb").risk(sql))


@pytest.mark.parametrize(("engine", "sql"), on_both(PEOPLE_QUERIES, often=[1, 2, 7, 9, 11, 14, 23, 25, 27]))
def test_questions_about_people_agree(visits_in: Callable[[str], Dataset], engine: str, sql: str) -> None:
    """The last word on order, means of each individual and members of other tables: the same on every engine."""
    compare(visits_in(engine).risk(sql), visits_in("duckdb").risk(sql))


BLOCKS = [
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward UNION ALL SELECT 'urgent', COUNT(*) FROM visits WHERE urgent",
    "SELECT ward, SUM(cost) / (SELECT SUM(cost) FROM visits WHERE x > 0) FROM visits WHERE x > 3 GROUP BY ward",
    "SELECT ward, MEDIAN(cost), COUNT(DISTINCT x), COUNT(DISTINCT pid) FROM visits GROUP BY ROLLUP (ward)",
    "SELECT ward, urgent, MAX(x) FROM visits WHERE cost > 0 GROUP BY CUBE (ward, urgent)",
    "SELECT x, COUNT(*), AVG(cost) FROM visits GROUP BY x UNION ALL SELECT 0, COUNT(x), AVG(x) FROM visits WHERE x > 2",
    "SELECT region, COUNT(*), (SELECT SUM(beds) FROM visits JOIN clinics USING (clinic_id)) FROM visits JOIN clinics "
    "USING (clinic_id) WHERE urgent GROUP BY region",
    "WITH p AS (SELECT pid, COUNT(*) AS n, SUM(cost) AS c FROM visits GROUP BY pid) SELECT n, SUM(c) FROM p GROUP BY n "
    "UNION ALL SELECT -1, MEDIAN(c) FROM p WHERE n > 1",
    "SELECT (SELECT COUNT(*) FROM visits WHERE day < DATE '2024-03-01'), (SELECT COUNT(DISTINCT ward) FROM visits)",
]


@pytest.mark.parametrize(("engine", "sql"), on_both(BLOCKS, often=[0, 2, 6]))
def test_several_selects_agree(visits_in: Callable[[str], Dataset], engine: str, sql: str) -> None:
    found, expected = visits_in(engine).risk(sql), visits_in("duckdb").risk(sql)
    compare(found, expected)
    assert [(group.group, group.people) for group in found.by("ward")] == [
        (group.group, group.people) for group in expected.by("ward")
    ]
    seen, meant = (risk.list_people(3, reveal=True) for risk in (found, expected))
    assert [(person.why, person.columns) for person in seen] == [(person.why, person.columns) for person in meant]


AFTER = [
    "SELECT g.clinic_id, c.region, g.n, g.n / c.beds AS per_bed FROM (SELECT clinic_id, COUNT(*) AS n FROM visits "
    "GROUP BY clinic_id) g LEFT JOIN clinics c USING (clinic_id) ORDER BY g.clinic_id",
    "SELECT d.day, d.feast, d.opens, d.rate * g.n AS paid FROM (SELECT day, COUNT(*) AS n FROM visits GROUP BY day) g "
    "JOIN days d ON g.day = d.day ORDER BY d.day",
]


@pytest.mark.parametrize("engine", ["postgres", "spark"])
def test_public_tables_after_the_noise_agree(visits_in: Callable[[str], Dataset], engine: str, tmp_path: Path) -> None:
    """Every declared type is read alike: the same exact answers, the same foreseen errors, and a release."""
    for sql in AFTER:
        found, expected = (visits_in(one).risk(sql) for one in (engine, "duckdb"))
        answers = [
            assemble_answer(risk.plan, risk.measured().keys, risk.measured().values).rows for risk in (found, expected)
        ]
        assert answers[0] == answers[1]
        assert any(value is not None for row in answers[0] for value in row.values())
        looks = [risk.foresee(1.0, read=True) for risk in (found, expected)]
        assert looks[0] == looks[1]
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        answer = visits_in(engine).release(AFTER[0], ledger=ledger, epsilon=1.0, policy="budget:1")
    beds = dict(zip(*(TABLES["clinics"][name].to_pylist() for name in ("clinic_id", "beds")), strict=True))
    for row, errors in zip(answer.answer or (), answer.errors or (), strict=True):
        known = beds.get(row["clinic_id"])
        assert row["per_bed"] == (None if known is None else pytest.approx(row["n"] / known))
        assert errors["per_bed"] == (None if known is None else pytest.approx((errors["n"] or 0) / known, rel=0.1))


@pytest.mark.parametrize("engine", ["postgres", "spark"])
def test_bounded_mean_agrees(visits_in: Callable[[str], Dataset], engine: str) -> None:
    sql = "SELECT ward, AVG(cost) FROM visits GROUP BY ward"
    compare(visits_in(engine).risk(sql, min_rows=8), visits_in("duckdb").risk(sql, min_rows=8))


@pytest.mark.parametrize("engine", ["duckdb", "postgres", "spark"])
@pytest.mark.parametrize(("unit", "key"), [("pid", "vid"), ("number", "vid")])
def test_the_rows_that_count_are_kept(opener: Callable[[str], Open], engine: str, unit: str, key: str) -> None:
    dataset = opener(engine)(TABLES, {**FACTS, "unit": unit, "row_key": key})
    kept = rows_that_count(TABLES["visits"].to_pylist(), FACTS["columns"], unit, M)
    assert max(Counter(row[unit] for row in TABLES["visits"].to_pylist()).values()) > M
    found = dataset.risk("SELECT COUNT(*), COUNT(x) FROM visits WHERE x > 1 OR ward = 'A'").measured().values[0]
    expected = [row for row in kept if (row["x"] or 0) > 1 or row["ward"] == "A"]
    assert [*found] == [len(expected), sum(row["x"] is not None for row in expected)]
    days = dataset.risk("SELECT day, COUNT(*) FROM visits GROUP BY day").measured()
    assert dict(zip([key for (key,) in days.keys], [v for (v,) in days.values], strict=True)) == {
        day: sum(row["day"] == day for row in kept) for (day,) in days.keys
    }


PREFERENCES = [
    ("MEDIAN(rdr) FILTER (WHERE urgent) / MEDIAN(rdr) FILTER (WHERE NOT urgent) >= 0.5", "visits"),
    ("AVG(rdr) FILTER (WHERE ward = 'Ç') <= 2 * AVG(rdr) FILTER (WHERE x > 4 AND cost < 100)", "visits"),
    ("MAX(rdr) FILTER (WHERE urgent) <= 3 * AVG(rdr)", "visits JOIN clinics USING (clinic_id)"),
]
MOST_EXPOSED = [
    "SELECT SUM(n) FROM (SELECT pid, COUNT(x) AS n, MAX(ward) AS w FROM visits GROUP BY pid) p WHERE w > 'A'",
    "SELECT SUM(cost) FROM visits",
    "SELECT MEDIAN(x), COUNT(DISTINCT cost) FROM visits",
    "SELECT ward, SUM(cost), MAX(x) FROM visits WHERE urgent GROUP BY ward",
]


@pytest.mark.parametrize(("engine", "asked"), on_both(PREFERENCES, often=[2]))
def test_filters_agree(visits_in: Callable[[str], Dataset], engine: str, asked: tuple[str, str]) -> None:
    prefer, source = asked
    sql = f"SELECT SUM(cost), COUNT(*) FROM {source} WHERE ward >= 'A'"
    found, expected = (visits_in(one).risk(sql).find(prefer) for one in (engine, "duckdb"))
    assert (found.epsilon, found.limit, found.candidates) == (expected.epsilon, expected.limit, expected.candidates)


@pytest.mark.parametrize(("engine", "column"), on_both(["ward", "urgent", "x", "cost", "day"], often=[1]))
def test_groups_of_by_agree(visits_in: Callable[[str], Dataset], engine: str, column: str) -> None:
    sql = "SELECT ward, SUM(cost) FROM visits WHERE urgent GROUP BY ward"
    found, expected = (visits_in(one).risk(sql).by(column) for one in (engine, "duckdb"))
    assert found == expected
    assert sum(line.people for line in found) == len(UNITS)


@pytest.mark.parametrize(("engine", "sql"), on_both(MOST_EXPOSED, often=[0, 1]))
def test_exposed_individuals_agree(visits_in: Callable[[str], Dataset], engine: str, sql: str) -> None:
    count = 3 if engine == "spark" else 12
    found, expected = (visits_in(one).risk(sql).list_people(count, reveal=True) for one in (engine, "duckdb"))
    assert found == expected
    assert len(found) >= 3


# ---------------------------------------------------------------- refused on every engine


def altered(name: str, change: Callable[[list[dict[str, Any]]], None]) -> dict[str, pa.Table]:
    rows = TABLES[name].to_pylist()
    change(rows)
    return {**TABLES, name: pa.Table.from_pylist(rows, schema=TABLES[name].schema)}


def forget_unit(rows: list[dict[str, Any]]) -> None:
    rows[7]["pid"] = None


def repeat_key(rows: list[dict[str, Any]]) -> None:
    rows.extend(dict(rows[0]) for _ in range(M))


def repeat_first(rows: list[dict[str, Any]]) -> None:
    rows.append(dict(rows[0]))


JOINED = "SELECT COUNT(*) FROM visits JOIN clinics USING (clinic_id) JOIN labs USING (pid)"


@pytest.mark.parametrize("engine", ["duckdb", "postgres", "spark"])
def test_a_public_key_that_repeats_is_refused(opener: Callable[[str], Open], engine: str) -> None:
    dataset = opener(engine)(altered("clinics", repeat_first), FACTS)
    with pytest.raises(SchemaError, match="key clinic_id is not unique"):
        dataset.risk(JOINED)


@pytest.mark.parametrize(("table", "change"), [("visits", forget_unit), ("visits", repeat_key), ("labs", forget_unit)])
def test_rows_of_nobody_and_repeated_keys_are_the_same_on_every_engine(
    opener: Callable[[str], Open], table: str, change: Callable[[list[dict[str, Any]]], None]
) -> None:
    tables = altered(table, change)
    found = {opener(engine)(tables, FACTS).risk(JOINED).measured().values for engine in ("duckdb", "postgres", "spark")}
    assert len(found) == 1
    assert found != {((0,),)}


@pytest.mark.parametrize("engine", ["duckdb", "postgres", "spark"])
def test_fingerprint_notices_a_changed_joined_table(opener: Callable[[str], Open], engine: str) -> None:
    same, again = (opener(engine)(TABLES, FACTS).engine.fingerprint() for _ in range(2))
    other = opener(engine)(altered("labs", repeat_first), FACTS).engine.fingerprint()
    assert same == again != other


def test_digests_are_of_utf8_whatever_the_database_stores(postgres_server: str) -> None:
    """A LATIN1 database keeps other bytes of é, and still the same rows."""
    units = ["é", "ß", "Zoë"]
    with psycopg.connect(f"host={postgres_server} user=postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    url = f"postgresql://postgres@/latin?host={postgres_server}"
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE visits (pid text, vid int)")
        for unit in units:
            connection.execute("INSERT INTO visits SELECT %s, generate_series(1, 20)", [unit])
    facts = {**FACTS, "columns": {name: FACTS["columns"][name] for name in ("pid", "vid")}, "tables": {}}
    facts["columns"]["vid"] = {"type": "integer", "bounds": [1, 20]}
    table = pa.table({"pid": [unit for unit in units for _ in range(20)], "vid": [*range(1, 21)] * 3})
    kept = Counter(row["vid"] for row in rows_that_count(table.to_pylist(), facts["columns"], "pid", M))
    with Dataset.open(url, schema=facts, table="visits") as dataset:
        found = dataset.risk("SELECT vid, COUNT(*) FROM visits GROUP BY vid").measured()
    assert {key: count for (key,), (count,) in zip(found.keys, found.values, strict=True) if count} == kept
