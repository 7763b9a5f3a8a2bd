"""A study to test on: Adult-like people drawn here, and a participant who fills in its pages over HTTP."""

from __future__ import annotations

import re
import threading
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from dosimeter_paper.study import texts
from dosimeter_paper.study.answers import GROUPS
from dosimeter_paper.study.instrument import Instrument
from dosimeter_paper.study.server import make_app
from dosimeter_paper.study.store import StudySettings, StudyStore
from tests.waiting import LONGEST_WAIT, wait_until

CERTIFICATES = httpx.create_ssl_context()  # reading them takes longer than most answers
RIGHT = "".join(question.right for question in texts.QUIZ)
WRONG = "a" + RIGHT[1:]
RACES = ("White", "Black", "Asian-Pac-Islander", "Other", "Amer-Indian-Eskimo")
DEGREES = {9: "HS-grad", 13: "Bachelors", 14: "Masters", 16: "Doctorate"}


def make_people(rows: int = 400, *, earners: bool = True) -> pa.Table:
    """A table with Adult's columns. Without earners nobody has more than 50K."""
    draw = np.random.default_rng(7)
    years = draw.choice(list(DEGREES), size=rows, p=[0.5, 0.3, 0.15, 0.05])
    rich = draw.random(rows) < (0.3 if earners else 0.0)
    return pa.table(
        {
            "age": draw.integers(17, 90, rows),
            "workclass": ["Private"] * rows,
            "fnlwgt": draw.integers(10_000, 500_000, rows),
            "education": [DEGREES[int(year)] for year in years],
            "education_num": years,
            "marital_status": ["Divorced"] * rows,
            "occupation": ["Sales"] * rows,
            "relationship": ["Unmarried"] * rows,
            "race": draw.choice(RACES, size=rows, p=[0.6, 0.2, 0.1, 0.05, 0.05]),
            "sex": draw.choice(["Female", "Male"], size=rows),
            "capital_gain": [0] * rows,
            "capital_loss": [0] * rows,
            "hours_per_week": draw.integers(10, 60, rows),
            "native_country": ["United-States"] * rows,
            "income": [">50K" if one else "<=50K" for one in rich],
        }
    )


class StudySite:
    """One study with its file, and browsers without a screen that take part in it."""

    def __init__(self, instrument: Instrument, path: Path, groups: tuple[str, ...] = GROUPS, seed: int = 1) -> None:
        self.path = path
        self._visitors: list[Visitor] = []
        self.store = StudyStore(path)
        self.name = self.store.begin_study(StudySettings(seed, groups, instrument.digest))
        self.app: Any = make_app(instrument, self.store, name=self.name)

    @cached_property
    def server(self) -> LiveServer:
        return LiveServer(self.app)

    def visitor(self) -> Visitor:
        self._visitors.append(Visitor(self.server.url))
        return self._visitors[-1]

    def close(self) -> None:
        for visitor in self._visitors:
            visitor.client.close()
        if "server" in vars(self):
            self.server.stop()
        self.store.close()


class Visitor:
    """Keeps every page that it got."""

    def __init__(self, url: str) -> None:
        headers = {"user-agent": "Peculiar/1.0", "accept-language": "gsw-x-peculiar"}
        options: dict[str, Any] = {"headers": headers, "timeout": LONGEST_WAIT, "verify": CERTIFICATES}
        self.client = httpx.Client(base_url=url, follow_redirects=True, **options)
        self.pages: list[str] = []

    def read(self) -> str:
        page = self.client.get("/").text
        self.pages.append(page)
        return page

    def send(self, place: str, **form: str) -> Any:
        self.read()
        response = self.client.post(place, data=form)
        self.pages.append(response.text)
        return response

    def begin(self, *, knowledge: str = "no") -> None:
        """Up to the quiz."""
        self.send("/consent", consent="yes")
        self.send("/step/knowledge", knowledge=knowledge)
        self.send("/step/tutorial")

    def take_quiz(self, letters: str = RIGHT) -> Any:
        return self.send("/step/quiz", **{f"q{place}": letter for place, letter in enumerate(letters, start=1)})

    def take_part(self, first: str = "2.0", second: str = "1.5", *, used: str = "yes", knowledge: str = "no") -> None:
        """From the consent to the end."""
        self.begin(knowledge=knowledge)
        self.take_quiz()
        self.send("/step/briefing")
        self.send("/step/first", epsilon=first)
        self.send("/step/second", epsilon=second)
        if "follow-up" in self.read():
            self.send("/step/follow-up", used=used)


class LiveServer:
    """The application on a port of its own, in a thread that ends with the test."""

    def __init__(self, app: Any) -> None:
        import uvicorn

        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        wait_until(lambda: self._server.started, "the study's server has started")
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(LONGEST_WAIT)


def find_title(page: str) -> str:
    found = re.search(r"<h1>(.*?)</h1>", page)
    assert found is not None
    return found[1]
