"""Jobs: the same work runs once, can be cancelled, and fails without telling what it saw."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dosimeter.errors import OptionError
from dosimeter.web.worker import DatasetWorker, JobMeter
from tests.waiting import LONGEST_WAIT, wait_until
from tests.web.web_site import COUNT, Site, clinic_settings

CLINIC = Path(str(clinic_settings().schema))


class Clay:
    """A dataset whose engine only counts how often it was interrupted."""

    def __init__(self) -> None:
        self.engine = self
        self.interrupts = 0

    def interrupt(self) -> None:
        self.interrupts += 1

    def progress(self) -> float | None:
        return 12.0

    def renew(self) -> str:
        return "clay"

    def refresh(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def worker() -> Any:
    made = DatasetWorker("clay", Clay())  # type: ignore[arg-type]
    yield made
    made.close()


def test_same_work_runs_once_and_failures_are_tried_again(worker: DatasetWorker) -> None:
    calls: list[int] = []

    def work(_dataset: Any, _meter: JobMeter) -> int:
        calls.append(1)
        if len(calls) == 1:
            raise OptionError("not yet")
        return 7

    first = worker.ask("a", "work", work, wait=LONGEST_WAIT)
    assert (first.state, str(first.error)) == ("failed", "not yet")
    assert [worker.ask("a", "work", work, wait=LONGEST_WAIT).result for _ in range(3)] == [7, 7, 7]
    assert len(calls) == 2


def test_work_can_be_cancelled_while_it_runs_and_while_it_waits(worker: DatasetWorker) -> None:
    go_on = threading.Event()

    def slow(_dataset: Any, meter: JobMeter) -> None:
        while not go_on.is_set():
            meter(1, 4)
            time.sleep(0.01)

    running = worker.ask("slow", "slow", slow, wait=0)
    wait_until(lambda: running.meter.steps is not None, "the work reports how far it is")
    queued = worker.ask("next", "next", lambda _d, _m: 1, wait=0)
    assert worker.share(running) == 25.0
    assert worker.cancel(queued)
    assert worker.cancel(running)
    assert (running.state, queued.state) == ("cancelled", "cancelled")
    assert worker.dataset.engine.interrupts >= 1  # type: ignore[attr-defined]
    go_on.set()
    assert (
        worker.ask("next", "next", lambda _d, _m: 1, wait=LONGEST_WAIT).state == "cancelled"
    )  # until somebody asks on purpose
    assert worker.ask("next", "next", lambda _d, _m: 1, wait=LONGEST_WAIT, revive=True).result == 1


def test_bug_in_a_job_is_not_shown(worker: DatasetWorker) -> None:
    def broken(_dataset: Any, _meter: JobMeter) -> None:
        raise KeyError("the cell of Xanthippe")

    job = worker.ask("b", "broken", broken, wait=LONGEST_WAIT)
    assert job.state == "failed"
    assert "Xanthippe" not in str(job.error)
    assert worker.ask("c", "fine", lambda _d, _m: 3, wait=LONGEST_WAIT).result == 3


def test_one_dataset_computes_while_another_page_works(start_site: Callable[..., Site], tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(CLINIC.read_text().replace('table = "clinic"', 'table = "other"'))
    data = tmp_path / "other.csv"
    data.write_text(CLINIC.with_name("clinic.csv").read_text().replace("Harbour", "Northgate", 1))
    site = start_site(
        datasets={"clinic": clinic_settings(), "other": clinic_settings(data=str(data), schema=other)}
    )  # fmt: skip
    state = site.state
    stop = threading.Event()

    def block(_dataset: Any, meter: JobMeter) -> None:
        while not stop.is_set():
            meter(1, 2)
            time.sleep(0.01)

    with site.guest("anna") as anna, site.guest("carol") as carol:
        waiting, quick = anna.ask(), anna.ask(COUNT.replace("clinic", "other"), dataset="other")
        job = state.datasets["clinic"].worker.ask("block", "blocking", block, wait=0)
        page = carol.get(f"/decide/{waiting}").text
        assert "Measuring how exposed everybody is" in page
        assert "Largest ε that meets the preference: 0.05" in carol.get(f"/decide/{quick}").text
        assert carol.approve(quick).status_code == 200
        assert carol.get(f"/decide/{waiting}/people", params={"epsilon": "1"}).status_code == 503
        assert carol.act(f"/jobs/{job.id}/cancel").status_code == 204
        assert job.state == "cancelled"
        assert "Largest ε that meets the preference: 0.05" in carol.get(f"/decide/{waiting}").text
    stop.set()
