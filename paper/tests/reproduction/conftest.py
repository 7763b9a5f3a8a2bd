"""Run ``dosimeter paper`` inside this process, and Adult opened once for all tests of the paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dosimeter.errors import DosimeterError
from dosimeter_paper.paper_commands import app
from dosimeter_paper.reproduction.data import load_adult
from dosimeter_paper.reproduction.queries import Adult, open_adult
from reproduction.paper_command import Ended, Paper


@pytest.fixture
def paper(capsys: pytest.CaptureFixture[str]) -> Paper:
    """``paper("example", "--json")`` → exit status and what was printed."""

    def call(*words: object) -> Ended:
        capsys.readouterr()
        message = ""
        try:
            status = app(args=[str(word) for word in words], prog_name="paper", standalone_mode=False)
        except DosimeterError as error:
            status, message = error.exit_code, str(error)
        printed = capsys.readouterr()
        return Ended(status or 0, printed.out, printed.err + message)

    return call


@pytest.fixture(scope="session")
def opened(adult_train: Path) -> Iterator[Adult]:
    """The training split under both conventions."""
    with open_adult(load_adult(adult_train)) as adult:
        yield adult
