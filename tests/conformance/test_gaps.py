"""Where engines do not do the same, and why: each gap is tried, and has to be there. The guide lists them all.

A gap that closes fails here (strict), so that this list and docs/guide/engines.md stay true.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dosimeter import Dataset
from dosimeter.cli import main
from dosimeter.engines.duckdb import open_duckdb
from dosimeter.engines.spark import open_spark
from dosimeter.errors import DataError, QueryError
from dosimeter.influence.measured_rows import count_individuals
from dosimeter.schema.toml import read_schema
from tests.conformance.engine_cases import GROUP, SERVER

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "engines.md"


class Bench:
    """What a probe may use: the table in each engine, and a place for files."""

    def __init__(self, request: pytest.FixtureRequest, place: Path) -> None:
        self._request = request
        self.place = place

    def agree(self, engine: str, sql: str) -> None:
        """The same exact answer as from the reference."""
        expected = self._request.getfixturevalue("reference").risk(sql).measured().values
        opened = self._request.getfixturevalue("openers")[engine]()
        opened.impose(self._request.getfixturevalue("schema"))
        with Dataset(opened, self._request.getfixturevalue("schema"), drafted=False) as dataset:
            assert dataset.risk(sql).measured().values == expected

    def read_both(self, name: str, content: bytes) -> None:
        """DuckDB and Spark count the same, or both refuse."""
        self._request.getfixturevalue("spark_session")
        (self.place / name).write_bytes(content)
        outcomes: list[Any] = []
        for open_engine in (open_duckdb, open_spark):
            try:
                with contextlib.closing(open_engine(str(self.place / name))) as engine:
                    engine.impose(read_schema({"table": "t", "columns": {"s": {"type": "text"}}}))
                    outcomes.append(count_individuals(engine))
            except DataError:
                outcomes.append("refused")
        assert outcomes[0] == outcomes[1]

    def describe_both(self, name: str, content: bytes) -> None:
        """DuckDB and Spark give every column the same type."""
        self._request.getfixturevalue("spark_session")
        (self.place / name).write_bytes(content)
        found = []
        for open_engine in (open_duckdb, open_spark):
            with contextlib.closing(open_engine(str(self.place / name))) as engine:
                found.append(dict(engine.describe()))
        for name in found[0]:
            assert found[0][name] == found[1][name]


@dataclass(frozen=True)
class Gap:
    engine: str
    what: str
    why: str
    probe: Callable[[Bench], None]
    error: type[Exception] = AssertionError


def nest_roundings(bench: Bench) -> None:
    nested = "pay"
    for _ in range(12):
        nested = f"FLOOR({nested} + 1)"
    bench.agree("spark", f"SELECT COUNT(*) FROM people WHERE {nested} > 0")


def read_nanoseconds(bench: Bench) -> None:
    sink = pa.BufferOutputStream()
    moments = pa.array([1_577_836_800_000_000_001], pa.timestamp("ns"))
    pq.write_table(pa.table({"s": ["a"], "seen": moments}), sink, version="2.6")
    bench.read_both("t.parquet", sink.getvalue().to_pybytes())


def draft_short_years(bench: Bench) -> None:
    bench.describe_both("t.csv", b"n,day,seen\n1,24-01-05,2024-01-05 10:00:00+02\n")


GAPS = [
    Gap(
        "spark",
        "FLOOR and CEIL nested more than seven deep are refused.",
        "Spark's give a BIGINT, which large numbers do not fit into; writing them for all numbers triples the text.",
        nest_roundings,
        QueryError,
    ),
    Gap(
        "spark",
        "Parquet files with timestamps in nanoseconds are refused.",
        "Spark's timestamps have microseconds. Write the file with microseconds.",
        read_nanoseconds,
    ),
    Gap(
        "spark",
        "In a CSV, bytes that are not of its encoding become �; they are no error.",
        "Spark decodes so, and cannot be told otherwise.",
        lambda bench: bench.read_both("t.csv", b"n,s\n" + b"1,a\n" * 30_000 + b"1,K\xf6ln\n"),
    ),
    Gap(
        "spark",
        "In a CSV, a quote that is never closed reaches to the end of the file; it is no error.",
        "Spark's reader takes it so.",
        lambda bench: bench.read_both("t.csv", b'n,s\n1,a\n2,"b\n3,c\n'),
    ),
    Gap(
        "spark",
        "Without a schema, CSV columns of days with short years (24-01-05) or of moments with a zone are text; DuckDB "
        "takes them for dates and moments.",
        "DuckDB's sniffer does so while nothing is declared. With a schema they are NULL on both.",
        draft_short_years,
    ),
]


@pytest.mark.parametrize(
    "gap",
    [
        pytest.param(
            gap,
            marks=[
                *SERVER,
                pytest.mark.xfail(strict=True, reason=gap.why, raises=gap.error),
            ],
            id=f"{gap.engine}: {gap.what}",
        )
        for gap in GAPS
    ],
)
def test_engines_would_agree_without_this_gap(gap: Gap, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    gap.probe(Bench(request, tmp_path))


# ---------------------------------------------------------------- the guide


def test_the_guide_lists_every_gap_and_no_other() -> None:
    rows = re.findall(
        r"^\| (postgres|spark|duckdb) \| (.+?) \| (.+?) \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert rows == [(gap.engine, gap.what, gap.why) for gap in GAPS]


def read_commands() -> list[list[str]]:
    """The guide's commands for servers, which tests/docs cannot run: plain blocks that begin with dosimeter."""
    blocks = re.findall(r"^```\n(dosimeter .+?)\n```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.replace("\\\n", " ").splitlines()]


@GROUP
@pytest.mark.servers
@pytest.mark.parametrize("command", read_commands(), ids=" ".join)
def test_commands_of_the_guide_run(
    command: list[str],
    table: pa.Table,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(table, "people.parquet")
    if "spark" in " ".join(command):
        session = request.getfixturevalue("spark_session")
        session.read.parquet(str(tmp_path / "people.parquet")).createOrReplaceTempView("people")
    words = []
    for word in command[1:]:
        if word.startswith("postgresql://"):
            url = request.getfixturevalue("postgres_url")
            word = url + ("&" + word.partition("?")[2] if "?" in word else "")
        words.append(word)
    assert main(words) == 0, capsys.readouterr().err
