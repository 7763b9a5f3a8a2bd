"""One account per people: however the same files and tables are read, named or joined, one ledger spends one budget.

Every way below is tried as the first release and, after another one has spent the budget, as the second. What must be
accepted is tried too, so that a ledger that refuses everything would not pass.
"""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.engines.identities import identify_files
from dosimeter.errors import LedgerError, SchemaError
from dosimeter.schema.toml import digest_schema, dump_schema, parse_schema, read_schema
from tests.known import known
from tests.schemas import plain, whole

Way = tuple[Any, dict[str, Any], dict[str, Any]]  # a source, what its schema says otherwise, and how it is opened

LABS: dict[str, Any] = {
    "unit": "pid",
    "max_rows_per_unit": 2,
    "row_key": "lid",
    "columns": {"pid": plain("text"), "lid": plain("integer"), "score": whole(0, 10)},
}


VISITS: dict[str, Any] = {
    "unit": "pid",
    "max_rows_per_unit": 4,
    "row_key": "vid",
    "columns": {"pid": plain("text"), "vid": plain("integer"), "mins": whole(0, 120)},
}


def schema_of(section: dict[str, Any], table: str, **changes: Any) -> dict[str, Any]:
    """Return the reviewed schema of a table of these rows."""
    return {**section, "table": table, "individuals": 200, "reviewed": True, **changes}


visits, labs = partial(schema_of, VISITS), partial(schema_of, LABS)


def rows_of(count: int, start: int = 0, whose: str = "p") -> list[tuple[str, int, int]]:
    return [(f"{whose}{at % 150}", at, at % 11) for at in range(start, start + count)]


def write_csv(path: Path, key: str, column: str, rows: list[tuple[str, int, int]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"pid,{key},{column}\n" + "".join(f"{p},{k},{v}\n" for p, k, v in rows))
    return path


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Write the same people as files, links, packed files, parts, and tables and views of a DuckDB file."""
    write_csv(tmp_path / "visits.csv", "vid", "mins", rows_of(600))
    write_csv(tmp_path / "labs.csv", "lid", "score", rows_of(300))
    write_csv(tmp_path / "others.csv", "vid", "mins", rows_of(90, start=7000, whose="q"))
    (tmp_path / "link.csv").symlink_to(tmp_path / "visits.csv")
    os.link(tmp_path / "visits.csv", tmp_path / "hard.csv")
    shutil.copy(tmp_path / "visits.csv", tmp_path / "copy.txt")
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress((tmp_path / "visits.csv").read_bytes()))
    for part in range(3):
        rows = rows_of(100, start=1000 * (part + 1), whose="rst"[part])
        write_csv(tmp_path / "parts" / f"p{part}.csv", "vid", "mins", rows)
    with duckdb.connect(str(tmp_path / "stored.duckdb")) as connection:
        connection.execute(f"CREATE TABLE visits AS FROM '{tmp_path / 'visits.csv'}'")
        connection.execute(f"CREATE TABLE labs AS FROM '{tmp_path / 'labs.csv'}'")
        connection.execute(f"CREATE TABLE others AS FROM '{tmp_path / 'others.csv'}'")
        connection.execute("CREATE SCHEMA archive")
        connection.execute("CREATE TABLE archive.kept AS SELECT mins, vid, pid FROM visits ORDER BY vid DESC")
        connection.execute("CREATE VIEW early AS SELECT pid, vid, mins FROM visits WHERE vid < 300")
        connection.execute("CREATE VIEW nested AS WITH named AS (SELECT * FROM main.early) SELECT * FROM named")
    shutil.copy(tmp_path / "stored.duckdb", tmp_path / "copied.duckdb")
    return tmp_path


@pytest.fixture
def ledger(world: Path) -> Iterator[Ledger]:
    with Ledger.open(world / "ledger.db") as opened:
        yield opened


def file_ways(world: Path) -> dict[str, Way]:
    beside = {"tables": {"labs": {**LABS, "source": str(world / "labs.csv")}}}
    return {
        "with labs": (world / "visits.csv", visits("a", **beside), {}),
        "plain": (world / "visits.csv", visits("b"), {}),
        "delimiter": (world / "visits.csv", visits("c"), {"delimiter": ","}),
        "encoding": (world / "visits.csv", visits("d"), {"encoding": "utf-8"}),
        "null": (world / "visits.csv", visits("e"), {"null": "NA"}),
        "table": (world / "visits.csv", visits("f"), {"table": "another"}),
        "symlink": (world / "link.csv", visits("g"), {}),
        "hard link": (world / "hard.csv", visits("h"), {}),
        "copy": (world / "copy.txt", visits("i"), {}),
        "packed": (world / "packed.csv.gz", visits("j"), {}),
        "individuals": (world / "visits.csv", visits("k", individuals=500), {}),
        "rows": (world / "visits.csv", visits("l", max_rows_per_unit=1), {}),
        "beside others": (
            world / "others.csv",
            visits("m", tables={"v": {**VISITS, "source": str(world / "visits.csv")}}),
            {},
        ),
    }


def stored_ways(world: Path) -> dict[str, Way]:
    here, copied = f"duckdb:{world / 'stored.duckdb'}", f"duckdb:{world / 'copied.duckdb'}"
    tables = {"labs": LABS}
    return {
        "table": (here, visits("a"), {"table": "visits"}),
        "with labs": (here, visits("b", tables=tables), {"table": "main.visits"}),
        "view": (here, visits("c"), {"table": "early"}),
        "view of a view": (here, visits("d"), {"table": "nested"}),
        "copied file": (copied, visits("e"), {"table": "visits"}),
        "another name": (here, visits("f"), {"table": "archive.kept"}),
        "view of the copy": (copied, visits("g"), {"table": "nested"}),
    }


def part_ways(world: Path) -> dict[str, Way]:
    return {
        "all three": (str(world / "parts" / "*.csv"), visits("a"), {}),
        "two of three": (str(world / "parts" / "p[12].csv"), visits("b"), {}),
        "another two": (str(world / "parts" / "p[01].csv"), visits("c"), {}),
    }


def memory_ways(world: Path) -> dict[str, Way]:
    frame = pd.read_csv(world / "visits.csv")
    return {
        "pandas": (frame, visits("a"), {}),
        "polars": (pl.from_pandas(frame), visits("b"), {}),
        "arrow": (pa.Table.from_pandas(frame, preserve_index=False), visits("c"), {}),
        "other order": (frame.iloc[::-1][["mins", "pid", "vid"]], visits("d"), {}),
        "stored": (f"duckdb:{world / 'stored.duckdb'}", visits("e"), {"table": "visits"}),
    }


WORLDS = {"files": file_ways, "stored": stored_ways, "parts": part_ways, "memory": memory_ways}


def try_release(ledger: Ledger, way: Way, **options: Any) -> str:
    source, facts, how = way
    with Dataset.open(source, schema=facts, **how) as dataset:
        sql = f'SELECT COUNT(*) AS n FROM "{facts["table"]}"'
        try:
            return dataset.release(sql, ledger=ledger, epsilon=1.0, policy="budget:1", **options).status
        except LedgerError as error:
            return "refused" if 'account = "' in str(error) else str(error)


def total_spent(ledger: Ledger) -> Decimal:
    return sum((account.reading.epsilon for account in ledger.accounts()), Decimal(0))


@pytest.mark.parametrize("kind", WORLDS)
def test_the_same_people_spend_one_budget(world: Path, kind: str) -> None:
    """After each way as the first, every other one is refused."""
    ways = WORLDS[kind](world)
    for first, way in ways.items():
        with Ledger.open(world / f"{first}.db") as ledger:
            assert try_release(ledger, way) == "released", first
            for second, other in ways.items():
                if second != first:
                    assert try_release(ledger, other) == "refused", (first, second)
            assert total_spent(ledger) == 1


def test_labs_by_themselves_are_refused_though_no_query_joined_them(world: Path) -> None:
    ways = file_ways(world)
    alone: Way = (world / "labs.csv", labs("n"), {})
    with Ledger.open(world / "ledger.db") as ledger:
        assert try_release(ledger, ways["with labs"]) == "released"
        assert try_release(ledger, alone) == "refused"
    with Ledger.open(world / "other way round.db") as ledger:
        assert try_release(ledger, alone) == "released"
        assert try_release(ledger, ways["with labs"]) == "refused"
        assert try_release(ledger, ways["plain"], other_people=True) == "released"  # other stored data


def test_other_people_have_accounts_of_their_own(ledger: Ledger, world: Path) -> None:
    ways: list[Way] = [
        (world / "visits.csv", visits("a"), {}),
        (world / "others.csv", visits("b"), {}),
        (str(world / "parts" / "p0.csv"), visits("d"), {}),
        (str(world / "parts" / "p1.csv"), visits("e"), {}),
    ]
    assert [try_release(ledger, way) for way in ways] == ["released"] * len(ways)


def test_an_account_keeps_what_it_once_held(ledger: Ledger, world: Path) -> None:
    """It went on with other data; the first are still its own."""
    with Dataset.open(world / "visits.csv", schema=visits("a")) as dataset:
        dataset.release("SELECT COUNT(*) FROM a", ledger=ledger, epsilon=0.5, policy="budget:1")
    with Dataset.open(world / "others.csv", schema=visits("a")) as dataset:
        dataset.release("SELECT COUNT(*) FROM a", ledger=ledger, epsilon=0.5, continued=True)
    for way in (file_ways(world)["delimiter"], (world / "others.csv", visits("z"), {"null": "NA"})):
        assert try_release(ledger, way) == "refused"
    assert total_spent(ledger) == 1


def test_continuing_with_somebody_elses_data_is_refused(ledger: Ledger, world: Path) -> None:
    assert try_release(ledger, (world / "visits.csv", visits("a"), {})) == "released"
    assert try_release(ledger, (world / "others.csv", visits("b"), {})) == "released"
    before = ledger.verify()
    moved = (world / "visits.csv", visits("b"), {"delimiter": ","})
    assert try_release(ledger, moved, continued=True) == "refused"
    assert ledger.verify() == before


def test_a_view_whose_tables_cannot_be_told_is_of_every_table(world: Path) -> None:
    with duckdb.connect(str(world / "stored.duckdb")) as connection:
        connection.execute("CREATE MACRO hidden() AS TABLE SELECT * FROM visits")
        connection.execute("CREATE VIEW veiled AS SELECT * FROM hidden()")
    path = f"duckdb:{world / 'stored.duckdb'}"
    for first, second in (("veiled", "visits"), ("visits", "veiled"), ("labs", "veiled")):
        with Ledger.open(world / f"{first}-{second}.db") as ledger:
            facts = {name: labs(name) if name == "labs" else visits(name) for name in (first, second)}
            assert try_release(ledger, (path, facts[first], {"table": first})) == "released"
            assert try_release(ledger, (path, facts[second], {"table": second})) == "refused"


def test_a_private_table_is_not_declared_public_elsewhere(ledger: Ledger, world: Path) -> None:
    """Whoever joins it as public would protect nobody in it."""
    public = {
        "public": True,
        "key": "lid",
        "source": str(world / "labs.csv"),
        "columns": LABS["columns"],
    }
    assert try_release(ledger, (world / "labs.csv", labs("labs_own"), {})) == "released"
    with (
        Dataset.open(world / "visits.csv", schema=visits("a", tables={"labs": public})) as dataset,
        pytest.raises(LedgerError, match="declares public holds people whom the account 'labs_own' protects"),
    ):
        dataset.release("SELECT COUNT(*) FROM a", ledger=ledger, epsilon=1.0, policy="budget:1")
    assert total_spent(ledger) == 1


@pytest.mark.parametrize(
    ("source", "table", "public"),
    [("visits.csv", "a", "hard.csv"), ("stored.duckdb", "visits", "nested"), ("stored.duckdb", "early", "visits")],
)
def test_a_private_table_is_not_declared_public_in_its_own_schema(
    ledger: Ledger, world: Path, source: str, table: str, public: str
) -> None:
    """Not under another name, and not by a view: after the noise its rows would be handed out as they are."""
    path = f"duckdb:{world / source}" if source.endswith("duckdb") else str(world / source)
    facts = visits(table)
    facts["columns"] = {**facts["columns"], "vid": whole(0, 20)}
    beside = public if path.startswith("duckdb:") else str(world / public)
    facts["tables"] = {"names": {"public": True, "key": "vid", "source": beside, "columns": facts["columns"]}}
    asked = (
        f"SELECT g.vid, names.pid FROM (SELECT vid, COUNT(*) AS n FROM {table} GROUP BY vid) g JOIN names USING (vid)"
    )
    with Dataset.open(path, schema=facts, table=table) as dataset:
        with pytest.raises(SchemaError, match="copy of a private one, or a view over it"):
            dataset.release(asked, ledger=ledger, epsilon=1.0, policy="budget:1")
        assert ledger.account(table) is None


def test_an_empty_table_holds_nobody(tmp_path: Path) -> None:
    empty = pa.table(
        {"pid": pa.array([], pa.string()), "vid": pa.array([], pa.int64()), "mins": pa.array([], pa.int64())}
    )
    (tmp_path / "empty.csv").write_bytes(b"")
    assert identify_files([str(tmp_path / "empty.csv")]) == frozenset()
    with Dataset.open(empty, schema=visits("a")) as dataset:
        assert dataset.engine.identities() == frozenset()


def test_identities_are_found_out_once(ledger: Ledger, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They cost a look at the whole table, so they are asked for when a pair is new, and never again."""
    asked: list[bool] = []
    with Dataset.open(world / "visits.csv", schema=visits("a")) as dataset:
        inner = dataset.engine.identities

        def count(*, public: bool = False) -> frozenset[str]:
            asked.append(public)
            return inner(public=public)

        monkeypatch.setattr(dataset.engine, "identities", count)
        for at in range(3):
            sql = f"SELECT COUNT(*) FROM a WHERE mins > {at}"
            dataset.release(sql, ledger=ledger, epsilon=0.1, policy="budget:1")
        assert asked == [False, True]
        dataset.schema = read_schema(visits("a", individuals=300))
        dataset.release("SELECT COUNT(*) FROM a", ledger=ledger, epsilon=0.1, continued=True)
        assert asked == [False, True] * 2


# ---------------------------------------------------------------- the schema's account


def test_schemas_with_one_account_share_one_budget(ledger: Ledger, world: Path) -> None:
    ways = file_ways(world)
    shared = [
        (source, facts | {"account": "hospital"}, how)
        for source, facts, how in (ways["with labs"], ways["delimiter"], (world / "labs.csv", labs("labs_own"), {}))
    ]
    for number, (source, facts, how) in enumerate(shared):
        with Dataset.open(source, schema=facts, **how) as dataset:
            sql = f"SELECT COUNT(*) FROM {facts['table']}"
            if number:
                with pytest.raises(LedgerError, match="continued=True"):
                    dataset.release(sql, ledger=ledger, epsilon=0.25)
            dataset.release(
                sql, ledger=ledger, epsilon=0.25, policy="budget:1", continued=bool(number), analyst=f"anna{number}"
            )
    assert ledger.datasets() == ("hospital",)
    for source, facts, how in shared:  # agreed to: no word is needed to go back and forth
        with Dataset.open(source, schema=facts, **how) as dataset:
            sql = f"SELECT COUNT(*) + 0 AS again FROM {facts['table']}"
            status = dataset.release(sql, ledger=ledger, epsilon=0.25).status
            assert status == ("released" if source == shared[0][0] and how == {} and "tables" in facts else "denied")
    assert total_spent(ledger) == 1
    account = known(ledger.account("hospital"))
    assert len(account.agreed) == len(account.identified) == 3
    shown: dict[str, Any] = account.describe()
    assert [line["by"] for line in shown["continuations"]] == ["anna1", "anna2"]


def test_the_account_changes_no_digest_and_survives_being_written() -> None:
    plain, named = read_schema(visits("visits")), read_schema(visits("visits", account="hospital"))
    assert (plain.account_name, named.account_name) == ("visits", "hospital")
    assert digest_schema(plain) == digest_schema(named)
    assert parse_schema(dump_schema(named)) == named
    assert parse_schema(dump_schema(plain)) == plain
    assert "account" not in dump_schema(plain)


@pytest.mark.parametrize("name", ["", "  ", 7, "two\nlines", ["a"]])
def test_what_is_no_name_of_an_account_is_refused(name: object) -> None:
    with pytest.raises(SchemaError, match="account must be the name"):
        read_schema(visits("visits", account=name))
