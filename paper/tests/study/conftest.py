"""The study's material, sites to test on, and a real Chromium to look with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dosimeter_paper.study.instrument import Instrument, build_instrument
from study.study_site import LiveServer, StudySite, make_people
from tests.quick_servers import make_servers_quick


@pytest.fixture(scope="session", autouse=True)
def _quick_servers() -> Iterator[None]:
    with make_servers_quick():
        yield


@pytest.fixture(scope="session")
def instrument() -> Instrument:
    return build_instrument(make_people(), seed=3)


@pytest.fixture
def start_study(tmp_path: Path, instrument: Instrument) -> Iterator[Callable[..., StudySite]]:
    """Studies that end with the test; the same file may be opened again."""
    begun: list[StudySite] = []

    def start(name: str = "study.db", **changes: Any) -> StudySite:
        site = StudySite(instrument, tmp_path / name, **changes)
        begun.append(site)
        return site

    yield start
    for site in begun:
        site.close()


@pytest.fixture
def site(start_study: Callable[..., StudySite]) -> StudySite:
    return start_study()


@pytest.fixture
def serve_live() -> Iterator[Callable[[Any], LiveServer]]:
    running: list[LiveServer] = []

    def serve(app: Any) -> LiveServer:
        running.append(LiveServer(app))
        return running[-1]

    yield serve
    for server in running:
        server.stop()
