"""Ledgers to test on: a file, and a fresh database of an embedded PostgreSQL server."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from dosimeter.ledger import Ledger
from tests.ledger.processes import run_program


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.servers)])
def new_target(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Gives places where a ledger may be created: every test that takes it runs on both databases."""
    if request.param == "postgresql":
        create: Callable[[], str] = request.getfixturevalue("create_database")
        return create
    names = (f"ledger{number or ''}.db" for number in itertools.count())
    return lambda: str(tmp_path / next(names))


@pytest.fixture
def target(new_target: Callable[[], str]) -> str:
    """Where one ledger may be created."""
    return new_target()


@pytest.fixture
def ledger(target: str) -> Iterator[Ledger]:
    """A new ledger, on either database."""
    with Ledger.open(target) as opened:
        yield opened


@pytest.fixture
def run_worker() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs tests/ledger/ledger_worker.py in a process of its own."""
    return partial(run_program, "ledger_worker.py")


@pytest.fixture
def kill(run_worker: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[[list[list[str]]], None]:
    """Runs jobs of ledger_worker.py, each of which must be killed at its step."""

    def run(jobs: list[list[str]]) -> None:
        ended = run_worker("kill", *map(json.dumps, jobs))
        assert json.loads(ended.stdout or "[]") == [-signal.SIGKILL] * len(jobs), ended.stderr

    return run


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user can reach, unlike pytest's own."""
    directory = Path(tempfile.mkdtemp(prefix="ledger"))
    directory.chmod(0o755)
    yield directory
    directory.chmod(0o755)
    shutil.rmtree(directory)
