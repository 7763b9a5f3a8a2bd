"""Checks that take as long as a test wants, or too much: what their processes run, and what is seen of them."""

from __future__ import annotations

import os
from pathlib import Path

# What a check of these texts does in its process. "slow FILE" notes its process in FILE.PID, and waits for FILE.
PROGRAM = """
import os, pathlib, time
from dosimeter.web import checks
check_query = checks.check_query
def check(planner, sql, wanted=None):
    word, _, path = sql.partition(" ")
    if word == "slow":
        pathlib.Path(f"{path}.{os.getpid()}").touch()
        while not pathlib.Path(path).exists():
            time.sleep(0.01)
        return check_query(planner, "", wanted)
    if word == "endless":
        while True:
            pass
    if word == "growing":
        kept = []
        while True:
            kept.append(bytes(1 << 20))
    if word == "crashing":
        os._exit(3)
    if word == "broken":
        raise KeyError("a name that nobody may read in a log")
    return check_query(planner, sql, wanted)
checks.check_query = check
checks.answer_requests()
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Slow:
    """A check that takes as long as the test wants. ``sql``: its query."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "go"
        self.sql = f"slow {self._file}"

    @property
    def begun(self) -> list[int]:
        """The processes in which it has begun."""
        return [int(path.suffix[1:]) for path in self._file.parent.glob("go.*")]

    def end(self) -> None:
        self._file.touch()
