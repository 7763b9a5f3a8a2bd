"""Connections of DuckDB: how they are opened, locked and interrupted. Knows no source."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import duckdb

from dosimeter.errors import Interrupted


def connect(*, one_row_each: bool) -> duckdb.DuckDBPyConnection:
    """Open a database in memory that loads no extension and sees no variables of Python.

    ``one_row_each``: whether each row is one individual, which saves time in counting rows.
    """
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
        },
    )
    with contextlib.suppress(duckdb.InvalidInputException):  # in a notebook without ipywidgets there is no progress
        connection.execute("SET enable_progress_bar = true")
        connection.execute("SET enable_progress_bar_print = false")
    connection.execute("SET TimeZone = 'UTC'")
    if one_row_each:  # counting rows by small numbers is faster without; windows over individuals are not
        connection.execute("SET disabled_optimizers = 'compressed_materialization'")
    return connection


def lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Forbid the connection, from now on, other files, the network and any change of settings."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted where another thread stopped DuckDB, and KeyboardInterrupt for Ctrl-C in this thread.

    DuckDB itself then raises a plain RuntimeError.
    """
    try:
        yield
    except duckdb.InterruptException:
        raise Interrupted("Stopped.") from None
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from None
