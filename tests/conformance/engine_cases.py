"""On which engines a case is asked: on DuckDB always, on servers as a smoke set, and all where all is required."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.corpus.reading import read_corpus

GROUP = pytest.mark.xdist_group("conformance")  # one server and one Spark session for all of it
SERVER = [GROUP, pytest.mark.servers]


def on(engine: str, *values: Any, smoke: bool = False, long: bool = False, name: str | None = None) -> Any:
    """Return the parameters of one case on one engine."""
    marks = [GROUP] if engine == "duckdb" else [*SERVER]
    marks += [pytest.mark.smoke] * (smoke and engine != "duckdb") + [pytest.mark.long] * long
    return pytest.param(engine, *values, marks=marks, id=name)


def on_servers(cases: Sequence[Any], *, often: Sequence[int], smoke: Sequence[int]) -> list[Any]:
    """Every case on PostgreSQL; on Spark, where each takes seconds, those at these places, and all in long runs."""
    return [
        on(engine, case, smoke=at in smoke, long=engine == "spark" and at not in often)
        for engine in ("postgres", "spark")
        for at, case in enumerate(cases)
    ]


def on_every_engine(cases: Sequence[Any], *, often: Sequence[int], smoke: Sequence[int]) -> list[Any]:
    """The same, with DuckDB: where the cases are judged by another road than one engine against another."""
    duckdb = [on("duckdb", case, name=f"duckdb-{at}") for at, case in enumerate(cases)]
    return [*duckdb, *on_servers(cases, often=often, smoke=smoke)]


def queries_on_servers(name: str) -> list[Any]:
    """The queries of a file of the corpus: always asked, asked of Spark often, or in long runs alone."""
    return [
        on(engine, entry.sql, smoke=asked == "always", long=engine == "spark" and asked is None)
        for engine in ("postgres", "spark")
        for entry in read_corpus(f"engines/{name}")
        for asked in [entry.facts.get("asked")]
    ]


def queries(name: str) -> list[Any]:
    """The queries of a file, asked of every engine where all is required."""
    return [
        pytest.param(entry.sql, marks=[pytest.mark.smoke] if entry.facts else [])
        for entry in read_corpus(f"engines/{name}")
    ]


def with_smoke(cases: Sequence[Any], *places: int) -> list[Any]:
    """Mark those at these places as the smoke set."""
    return [pytest.param(case, marks=[pytest.mark.smoke] if at in places else []) for at, case in enumerate(cases)]


EVERY_ENGINE = [on("duckdb"), on("postgres"), on("spark")]
EVERY_ENGINE_ALWAYS = [on("duckdb"), on("postgres", smoke=True), on("spark", smoke=True)]
SERVERS = EVERY_ENGINE[1:]
SERVERS_ALWAYS = EVERY_ENGINE_ALWAYS[1:]
