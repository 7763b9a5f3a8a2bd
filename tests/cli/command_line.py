"""Run the command line inside this process, and what a run of it came to."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from dosimeter.cli import main


class Outcome(NamedTuple):
    """An exit status, and what was printed."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON document: nothing before it and nothing after it."""
        assert self.out.endswith("\n")
        return json.loads(self.out)


Run = Callable[..., Outcome]


def run_command(*words: object) -> Outcome:
    """Run the command line in this process, and catch what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([str(word) for word in words])
    return Outcome(status, out.getvalue(), err.getvalue())


def check_refusal(outcome: Outcome, *expected: str) -> None:
    """Bad input: one message that says these words, nothing else, and no cell of tests/cli/marked_table.py."""
    assert (outcome.status, outcome.out) == (2, ""), outcome
    assert outcome.err.startswith("dosimeter: ")
    assert outcome.err.count("\n") == 1, "one message"
    assert "Traceback" not in outcome.err
    assert "77731" not in outcome.err
    for words in expected:
        assert words in outcome.err
