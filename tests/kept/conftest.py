"""Start the application on a kept database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.web.web_site import Site

FOLDER = Path(__file__).with_name("0_1")


@pytest.fixture
def start_kept() -> Iterator[Callable[[str, dict[str, str]], Site]]:
    """Start servers on kept databases, with the datasets that these were made with; they end with the test."""
    pytest.importorskip("fastapi", reason="the web application is not installed: pip install 'dosimeter[web]'")
    from dosimeter.web.settings import DatasetSettings
    from tests.web.web_site import Site, make_settings

    running: list[Site] = []

    def start(database: str, tokens: dict[str, str]) -> Site:
        terms = {"people": "budget:4", "stays": "budget:4@1e-5"}
        datasets = {
            name: DatasetSettings(
                data=str(FOLDER / f"{name}.csv"), schema=FOLDER / f"{name}.toml", policy=policy, algorithm="fixed"
            )
            for name, policy in terms.items()
        }
        running.append(Site.start(make_settings(database, datasets), tokens))
        return running[-1]

    yield start
    for site in running:
        site.stop()
