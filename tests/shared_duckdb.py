"""One DuckDB for many tables in memory: making one takes longer than most queries of a small table.

A dataset over files, or a DuckDB file, still has one of its own. What a dataset's own DuckDB is for, to read its files
and nothing else, is tested where it is not shared (tests/unit/test_duckdb_lock.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest

from dosimeter.engines import duckdb_connections
from dosimeter.engines.duckdb import DuckDBEngine
from dosimeter.engines.engine import ReadOptions


@contextmanager
def ask_plain_duckdb(**tables: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give DuckDB as it is, with these tables and no others: what an answer is compared with."""
    with closing(_open_plain(os.getpid()).cursor()) as cursor:
        for name, table in tables.items():
            cursor.register(name, table)
        yield cursor


@lru_cache(maxsize=1)
def _open_plain(process: int) -> duckdb.DuckDBPyConnection:
    """Open the DuckDB of the process with this id."""
    return duckdb.connect(config={"python_enable_replacements": "false"})


@contextmanager
def share_duckdb() -> Iterator[None]:
    """Open tables in memory as connections to one DuckDB per process and kind of individuals, locked like any other."""
    shared: dict[tuple[int, bool], duckdb.DuckDBPyConnection] = {}
    open_table = DuckDBEngine._over_table
    connect = vars(duckdb_connections)["connect"]
    lock = vars(duckdb_connections)["lock"]

    def connect_shared(*, one_row_each: bool) -> duckdb.DuckDBPyConnection:
        key = os.getpid(), one_row_each  # a forked process makes its own
        if key not in shared:
            shared[key] = connect(one_row_each=one_row_each)
            shared[key].execute("SET GLOBAL TimeZone = 'UTC'")  # of every connection to it
            lock(shared[key])
        return shared[key].cursor()

    def open_shared(table: pa.Table, options: ReadOptions) -> DuckDBEngine:
        with patch.multiple(duckdb_connections, connect=connect_shared, lock=lambda _: None):
            return open_table(table, options)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(DuckDBEngine, "_over_table", open_shared)
        yield
    for connection in shared.values():
        connection.close()
