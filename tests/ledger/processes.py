"""Run the programs of these tests in processes of their own, with the sources that are tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.known import known
from tests.waiting import LONGEST_WAIT

NOBODY = 65534
FOLDER = Path(__file__).parent
SOURCES = FOLDER.parents[1] / "src"


def start_program(program: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start one of the programs of this folder; its output comes as text."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(FOLDER / program), *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(SOURCES)}, **(pipes | options))


def run_program(program: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run one of the programs of this folder to its end."""
    process = start_program(program, *arguments, **options)
    try:
        out, err = process.communicate(timeout=4 * LONGEST_WAIT)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@contextmanager
def keep_running(program: str, *arguments: str, until: str = "") -> Iterator[subprocess.Popen[str]]:
    """Yield one of the programs of this folder once it has said what is waited for; kill it at the end of the block."""
    process = start_program(program, *arguments, stdin=subprocess.PIPE)
    try:
        assert not until or known(process.stdout).readline() == f"{until}\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def hand_over(*paths: Path) -> tuple[str, ...]:
    """Root may write anything: then give files to another user, and return what makes a program that user."""
    if os.geteuid() != 0:
        return ()
    for path in paths:
        os.chown(path, NOBODY, NOBODY)
    return (str(NOBODY),)


def run_releases(*arguments: str) -> list[Any]:
    """Run release_worker.py; return what it tells as JSON."""
    result = run_program("release_worker.py", *arguments)
    assert result.returncode == 0, result.stderr
    return list(json.loads(result.stdout))
