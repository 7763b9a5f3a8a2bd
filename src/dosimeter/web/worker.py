"""Long computations: one thread per dataset, with progress and cancel. The same work asked for twice runs once.

An engine is not shared between threads, so everything that touches a dataset's engine runs on its worker. Releases run
first, then what a page shows, then side jobs, which are cancelled for a release. Every job but a release begins with
the data as they are then, and no job leaves a snapshot behind. Pages wait a moment for a result, and otherwise show
the progress and ask again.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Generic, Literal, TypeVar

from dosimeter.dataset import Dataset
from dosimeter.errors import DosimeterError, Interrupted
from dosimeter.problems import Surface
from dosimeter.web.log import report_bug
from dosimeter.web.store import make_identifier

State = Literal["waiting", "running", "done", "failed", "cancelled"]
Result = TypeVar("Result")
MOST_KEPT = 64  # finished jobs whose results are remembered
MOST_HEAVY = 12  # of these, jobs that hold as many numbers as a table
BROKEN = "The computation failed: a bug of ours. It is in the server's log."
LONGEST_STOP = 5.0
PATIENCE = 1.2  # seconds a page waits for a computation before it shows progress instead


class Rank(IntEnum):
    """The order in which a worker runs jobs, lowest first."""

    RELEASE = 0
    LOOK = 1
    ASIDE = 2


class Meter:
    """The progress of a job, and the digest of its data. The work calls it; it raises Interrupted to stop."""

    def __init__(self) -> None:
        self.steps: tuple[int, int] | None = None
        self.stopped = False
        self.digest = ""

    def __call__(self, done: int, total: int) -> None:
        if self.stopped:
            raise Interrupted("Stopped.")
        self.steps = (done, total)


Work = Callable[[Dataset, Meter], Result]


@dataclass(slots=True, repr=False)
class Job(Generic[Result]):
    """One computation on one dataset, which gives a Result. ``result`` and ``error`` are for the controller alone."""

    id: str
    dataset: str
    key: Hashable
    title: str
    meter: Meter
    rank: Rank
    heavy: bool
    state: State = "waiting"
    error: DosimeterError | None = None
    ended: threading.Event = field(default_factory=threading.Event)
    _results: list[Result] = field(default_factory=list)  # one, once the job is done

    @property
    def result(self) -> Result:
        """What was computed. Only a job that is done has a result."""
        return self._results[0]

    def run(self, work: Work[Result], dataset: Dataset) -> None:
        """Compute the result, on the dataset's worker."""
        self._results.append(work(dataset, self.meter))

    @property
    def cancellable(self) -> bool:
        return self.rank is not Rank.RELEASE

    @property
    def problem(self) -> str:
        """Return what went wrong, for the controller; empty where nothing did."""
        return "" if self.error is None else self.error.word(Surface.WEB)

    def __repr__(self) -> str:
        return f"Job({self.title!r}, {self.state})"


class DatasetWorker:
    """A dataset, its engine's thread, and the results that were computed recently."""

    def __init__(self, name: str, dataset: Dataset) -> None:
        self.name = name
        self.dataset = dataset
        self.digest = ""  # of the data as the latest job saw them
        self._jobs: OrderedDict[Hashable, Job[Any]] = OrderedDict()
        self._guard = threading.Lock()
        self._changed = threading.Condition(self._guard)
        self._queue: list[tuple[int, int, Job[Any], Work[Any]]] = []
        self._numbers = itertools.count()
        self._closing = False
        self._thread = threading.Thread(target=self._run_jobs, name=f"worker-{name}", daemon=True)
        self._thread.start()

    def ask(
        self,
        key: Hashable,
        title: str,
        work: Work[Result],
        *,
        wait: float,
        rank: Rank = Rank.LOOK,
        heavy: bool = False,
        revive: bool = False,
    ) -> Job[Result]:
        """Return the job for this key (finished, running or new), after waiting at most ``wait`` seconds for it.

        A cancelled job stays cancelled until it is asked for again on purpose: with ``revive``, or after ``forget``.
        """
        with self._guard:
            job: Job[Result] | None = self._jobs.get(key)
            if job is None or job.state == "failed" or (revive and job.state == "cancelled"):
                if self._closing:
                    raise DosimeterError("The server is stopping.")
                job = Job(make_identifier(), self.name, key, title, Meter(), rank, heavy)
                self._jobs[key] = job
                self._forget_old()
                heapq.heappush(self._queue, (rank, next(self._numbers), job, work))
                self._changed.notify()
            self._jobs.move_to_end(key)
        if rank is Rank.RELEASE:
            self._cancel_side_jobs()
        job.ended.wait(wait)
        return job

    def _cancel_side_jobs(self) -> None:
        """Cancel side jobs, because a release is to run; they start again when they are asked for again."""
        with self._guard:
            aside = [job for job in self._jobs.values() if job.rank is Rank.ASIDE and job.state == "running"]
            for job in aside:
                del self._jobs[job.key]
        for job in aside:
            self.cancel(job)

    def _forget_old(self) -> None:
        """Forget the least recently used results."""
        for most, heavy in ((MOST_HEAVY, True), (MOST_KEPT, False)):
            finished = [k for k, job in self._jobs.items() if job.ended.is_set() and (job.heavy or not heavy)]
            for key in finished[: max(0, len(finished) - most)]:
                del self._jobs[key]

    # ------------------------------------------------------------ in the worker's own thread

    def _run_jobs(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    if self._closing:
                        return
                    self._changed.wait()
                _, _, job, work = heapq.heappop(self._queue)
                if job.meter.stopped:
                    continue
                job.state = "running"
            self._run(job, work)
            del job, work  # hold nothing of a finished job while waiting for the next

    def _run(self, job: Job[Result], work: Work[Result]) -> None:
        state: State = "failed"
        try:
            if job.rank is not Rank.RELEASE:  # a release reads the current data by itself
                job.meter.digest = self.digest = self.dataset.renew()
            job.run(work, self.dataset)
            state = "done"
        except Interrupted:
            state = "cancelled"
        except DosimeterError as error:
            job.error = error
        except BaseException as error:  # noqa: BLE001 - a bug, or a library's panic, ends this job and not the thread
            job.error = DosimeterError(BROKEN)
            report_bug(job.title, error)
        finally:
            self._drop_snapshot(job)
            with self._guard:  # no longer cancellable, so that a late interrupt does not hit the next job
                job.state = state
            job.ended.set()

    def _drop_snapshot(self, job: Job[Any]) -> None:
        """Drop the engine's snapshot. Held between jobs, it would block a database's clean-up and hide new data."""
        try:
            self.dataset.engine.refresh()
        except BaseException as error:  # noqa: BLE001 - the next job opens a lost connection again, or says why not
            report_bug(f"Tidying up after: {job.title}", error)

    # ------------------------------------------------------------ looking and stopping

    def find(self, job_id: str) -> Job[Any] | None:
        with self._guard:
            return next((job for job in self._jobs.values() if job.id == job_id), None)

    def peek(self, key: Hashable) -> Job[Any] | None:
        with self._guard:
            return self._jobs.get(key)

    def forget(self, job: Job[Any]) -> bool:
        """Forget a job that has ended, so that it is computed again when it is asked for."""
        with self._guard:
            if not job.ended.is_set() or self._jobs.get(job.key) is not job:
                return False
            del self._jobs[job.key]
            return True

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def running(self) -> list[Job[Any]]:
        with self._guard:
            return [job for job in self._jobs.values() if not job.ended.is_set()]

    def share(self, job: Job[Any]) -> float | None:
        """Return the percentage done, or None if it is unknown."""
        if job.meter.steps is not None:
            done, total = job.meter.steps
            return min(100.0, 100.0 * done / total) if total else None
        return self.dataset.engine.progress() if job.state == "running" else None

    def cancel(self, job: Job[Any]) -> bool:
        """Stop a job; return whether it stopped. Interrupts repeatedly: a query may begin after the first interrupt."""
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
            with self._guard:
                if job.state == "running":
                    self.dataset.engine.interrupt()
            job.ended.wait(0.05)
        return job.state == "cancelled"

    def close(self) -> None:
        """Stop the worker: cancel everything but releases, which are finished, and close the dataset."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        for job in sorted(self.running(), key=lambda job: job.state == "running"):  # first those that have not begun
            self.cancel(job)
        self._thread.join()
        self.dataset.close()
