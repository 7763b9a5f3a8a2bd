"""Individuals with many rows, and joins: on every engine the same rows count, the same people move the same numbers.

DuckDB is the reference, which `tests/oracle/` compares with deletion; which rows are kept is checked on every engine by
test_rows_that_count.py. Units differ in case, accents, normal form and signs.
"""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from dosimeter import Dataset
from dosimeter.assessment import Risk
from dosimeter.errors import SchemaError
from dosimeter.ledger import Ledger
from dosimeter.postprocess import assemble_answer
from tests.conformance.engine_cases import EVERY_ENGINE, GROUP, SERVERS, SERVERS_ALWAYS, on_servers, queries_on_servers
from tests.conformance.group_tables import count_vectors
from tests.rows_that_count import rows_that_count

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
FACTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("units.toml").read_text(encoding="utf-8"))


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


@pytest.fixture(scope="module")
def opener(open_in: Callable[..., Dataset]) -> Callable[..., Dataset]:
    """Open these tables, or changed ones, in an engine."""
    return lambda engine, tables=TABLES, facts=FACTS: open_in(engine, facts, tables, POSTGRES)


@pytest.fixture(scope="module")
def visits_in(opener: Callable[..., Dataset]) -> Callable[[str], Dataset]:
    """The tables in each engine, opened once."""
    return cache(opener)


def compare(found: Risk, expected: Risk) -> None:
    assert (found.k, found.sensitivity, found.n) == (expected.k, expected.sensitivity, expected.n)
    assert count_vectors(found.contributions) == count_vectors(expected.contributions)
    assert found.measured() == expected.measured()
    assert len(count_vectors(expected.contributions)) >= 2


@pytest.mark.parametrize(("engine", "sql"), [*queries_on_servers("units"), *queries_on_servers("people")])
def test_individuals_move_the_same_numbers(visits_in: Callable[[str], Dataset], engine: str, sql: str) -> None:
    """Also by the last word on order, by means of each individual, and by members of other tables."""
    compare(visits_in(engine).risk(sql), visits_in("duckdb").risk(sql))


@pytest.mark.parametrize(("engine", "sql"), queries_on_servers("blocks"))
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


@pytest.mark.parametrize("engine", SERVERS_ALWAYS)
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


@pytest.mark.parametrize("engine", SERVERS)
def test_bounded_mean_agrees(visits_in: Callable[[str], Dataset], engine: str) -> None:
    sql = "SELECT ward, AVG(cost) FROM visits GROUP BY ward"
    compare(visits_in(engine).risk(sql, min_rows=8), visits_in("duckdb").risk(sql, min_rows=8))


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


@pytest.mark.parametrize(("engine", "asked"), on_servers(PREFERENCES, often=[2], smoke=[2]))
def test_filters_agree(visits_in: Callable[[str], Dataset], engine: str, asked: tuple[str, str]) -> None:
    prefer, source = asked
    sql = f"SELECT SUM(cost), COUNT(*) FROM {source} WHERE ward >= 'A'"
    found, expected = (visits_in(one).risk(sql).find(prefer) for one in (engine, "duckdb"))
    assert (found.epsilon, found.limit, found.candidates) == (expected.epsilon, expected.limit, expected.candidates)


@pytest.mark.parametrize(("engine", "column"), on_servers(["ward", "urgent", "x", "cost", "day"], often=[1], smoke=[1]))
def test_groups_of_by_agree(visits_in: Callable[[str], Dataset], engine: str, column: str) -> None:
    sql = "SELECT ward, SUM(cost) FROM visits WHERE urgent GROUP BY ward"
    found, expected = (visits_in(one).risk(sql).by(column) for one in (engine, "duckdb"))
    assert found == expected
    assert sum(line.people for line in found) == len(UNITS)


@pytest.mark.parametrize(("engine", "sql"), on_servers(MOST_EXPOSED, often=[0, 1], smoke=[1]))
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


@pytest.mark.parametrize("engine", EVERY_ENGINE)
def test_a_public_key_that_repeats_is_refused(opener: Callable[..., Dataset], engine: str) -> None:
    dataset = opener(engine, altered("clinics", repeat_first), FACTS)
    with pytest.raises(SchemaError, match="key clinic_id is not unique"):
        dataset.risk(JOINED)


@GROUP
@pytest.mark.servers
@pytest.mark.parametrize(("table", "change"), [("visits", forget_unit), ("visits", repeat_key), ("labs", forget_unit)])
def test_rows_of_nobody_and_repeated_keys_are_the_same_on_every_engine(
    opener: Callable[..., Dataset], table: str, change: Callable[[list[dict[str, Any]]], None]
) -> None:
    tables = altered(table, change)
    found = {opener(engine, tables, FACTS).risk(JOINED).measured().values for engine in ("duckdb", "postgres", "spark")}
    assert len(found) == 1
    assert found != {((0,),)}


@pytest.mark.parametrize("engine", EVERY_ENGINE)
def test_fingerprint_notices_a_changed_joined_table(opener: Callable[..., Dataset], engine: str) -> None:
    same, again = (opener(engine, TABLES, FACTS).engine.fingerprint() for _ in range(2))
    other = opener(engine, altered("labs", repeat_first), FACTS).engine.fingerprint()
    assert same == again != other


@GROUP
@pytest.mark.servers
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
