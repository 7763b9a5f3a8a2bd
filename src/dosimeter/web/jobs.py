"""Long computations: one thread per dataset, with progress and cancel. The same work asked for twice runs once.

An engine is not shared between threads, so everything that touches a dataset's engine runs on its bench. Pages wait a
moment for a result, and otherwise show how far it is and ask again.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from dosimeter.controller import Dataset
from dosimeter.errors import DosimeterError, Interrupted
from dosimeter.web.keys import make_identifier
from dosimeter.web.trouble import report_bug

State = Literal["waiting", "running", "done", "failed", "cancelled"]
MOST_KEPT = 64  # finished jobs whose results are remembered
MOST_HEAVY = 12  # and of those that hold a table's worth of numbers
BROKEN = "The computation failed: a bug of ours. It is in the server's log."
LONGEST_STOP = 5.0


class Meter:
    """How far the work is. Called by the work; raises once it is to stop."""

    def __init__(self) -> None:
        self.steps: tuple[int, int] | None = None
        self.stopped = False

    def __call__(self, done: int, total: int) -> None:
        if self.stopped:
            raise Interrupted("Stopped.")
        self.steps = (done, total)


Work = Callable[[Dataset, Meter], Any]


@dataclass(slots=True, repr=False)
class Job:
    """One computation on one dataset. ``result`` and ``error`` are for the controller alone."""

    id: str
    dataset: str
    key: Hashable
    title: str
    meter: Meter
    cancellable: bool
    heavy: bool
    state: State = "waiting"
    result: Any = None
    error: DosimeterError | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def __repr__(self) -> str:
        return f"Job({self.title!r}, {self.state})"


class Bench:
    """A dataset, its engine's thread, and the results that were computed lately."""

    def __init__(self, name: str, dataset: Dataset) -> None:
        self.name = name
        self.dataset = dataset
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"bench-{name}")
        self._jobs: OrderedDict[Hashable, Job] = OrderedDict()
        self._guard = threading.Lock()

    def ask(
        self, key: Hashable, title: str, work: Work, *, wait: float, cancellable: bool = True, heavy: bool = False
    ) -> Job:
        """The job for this key: a finished one, the running one, or a new one; after waiting at most so long."""
        with self._guard:
            job = self._jobs.get(key)
            if job is None or job.state in ("failed", "cancelled"):
                job = Job(make_identifier(), self.name, key, title, Meter(), cancellable, heavy)
                self._jobs[key] = job
                self._forget_old()
                self._executor.submit(self._run, job, work)
            self._jobs.move_to_end(key)
        job.ended.wait(wait)
        return job

    def _forget_old(self) -> None:
        """The least recently used results go first."""
        for most, heavy in ((MOST_HEAVY, True), (MOST_KEPT, False)):
            finished = [k for k, job in self._jobs.items() if job.ended.is_set() and (job.heavy or not heavy)]
            for key in finished[: max(0, len(finished) - most)]:
                del self._jobs[key]

    def _run(self, job: Job, work: Work) -> None:
        with self._guard:
            if job.meter.stopped:
                return
            job.state = "running"
        try:
            job.result = work(self.dataset, job.meter)
            job.state = "done"
        except Interrupted:
            job.state = "cancelled"
        except DosimeterError as error:
            job.error, job.state = error, "failed"
        except Exception as error:  # noqa: BLE001 - a bug of ours ends this job, not the thread
            job.error, job.state = DosimeterError(BROKEN), "failed"
            report_bug(job.title, error)
        finally:
            job.ended.set()

    def find(self, job_id: str) -> Job | None:
        with self._guard:
            return next((job for job in self._jobs.values() if job.id == job_id), None)

    def peek(self, key: Hashable) -> Job | None:
        with self._guard:
            return self._jobs.get(key)

    def running(self) -> list[Job]:
        with self._guard:
            return [job for job in self._jobs.values() if not job.ended.is_set()]

    def share(self, job: Job) -> float | None:
        """Percent done, where it can be told."""
        if job.meter.steps is not None:
            done, total = job.meter.steps
            return min(100.0, 100.0 * done / total) if total else None
        return self.dataset.engine.progress() if job.state == "running" else None

    def cancel(self, job: Job) -> bool:
        """Stop a job; a query that began after the first interrupt must hear the second."""
        if not job.cancellable:
            return False
        with self._guard:
            job.meter.stopped = True
            if job.state == "waiting":
                job.state = "cancelled"
                job.ended.set()
                return True
        deadline = time.monotonic() + LONGEST_STOP
        while not job.ended.is_set() and time.monotonic() < deadline:
            self.dataset.engine.interrupt()
            job.ended.wait(0.05)
        return job.state == "cancelled"

    def close(self) -> None:
        """A release that was begun is finished; everything else stops."""
        for job in self.running():
            self.cancel(job)
        self._executor.shutdown(wait=True)
        self.dataset.close()
