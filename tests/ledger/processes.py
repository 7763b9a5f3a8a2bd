"""Run the programs of these tests in processes of their own, with the sources that are tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.waiting import LONGEST_WAIT

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


def run_releases(*arguments: str) -> list[Any]:
    """Run release_worker.py; return what it tells as JSON."""
    result = run_program("release_worker.py", *arguments)
    assert result.returncode == 0, result.stderr
    return list(json.loads(result.stdout))
