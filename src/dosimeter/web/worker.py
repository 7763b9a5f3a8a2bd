"""Long computations: one thread per dataset, with progress and cancel. The same work asked for twice runs once.

An engine is not shared between threads, so everything that touches a dataset's engine runs on the thread of its worker.
Releases run first, then what a page shows, then side jobs, which are cancelled for a release. Every job but a release
reads the data as they are when it begins, and no job leaves a snapshot behind. A page waits briefly for a result; if it
is not there yet, the page shows the progress and asks again.
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


class JobPriority(IntEnum):
    """The priority of a job: a worker runs the lowest number first."""

    RELEASE = 0
    LOOK = 1
    ASIDE = 2


class JobMeter:
    """The progress of a job, and the digest of the data that it reads.

    The work calls the meter with (done, total). This call raises Interrupted if the job is to stop. ``now``: what the
    work is doing, in words for the controller; "" if it does not say.
    """

    def __init__(self) -> None:
        self.now = ""
        self.steps: tuple[int, int] | None = None
        self.stopped = False
        self.digest = ""

    def __call__(self, done: int, total: int) -> None:
        if self.stopped:
            raise Interrupted("Stopped.")
        self.steps = (done, total)


Work = Callable[[Dataset, JobMeter], Result]


@dataclass(slots=True, repr=False)
class Job(Generic[Result]):
    """One computation on one dataset. Its ``result``, once it is done, and ``error`` are for the controller alone.

    ``key``: what the same work is recognised by. ``heavy``: the result may be as large as the dataset's table.
    ``ended``: set once the job is done, failed or cancelled.
    """

    id: str
    dataset: str
    key: Hashable
    title: str
    meter: JobMeter
    rank: JobPriority
    heavy: bool
    state: State = "waiting"
    error: DosimeterError | None = None
    ended: threading.Event = field(default_factory=threading.Event)
    result: Result = field(init=False)

    @property
    def stopping(self) -> bool:
        """Return whether somebody stopped the job and it has not ended yet."""
        return self.meter.stopped and self.state in ("waiting", "running")

    @property
    def cancellable(self) -> bool:
        return self.rank is not JobPriority.RELEASE

    @property
    def problem(self) -> str:
        """Return what went wrong, worded for the controller; "" if nothing did."""
        return "" if self.error is None else self.error.word(Surface.WEB)

    def __repr__(self) -> str:
        return f"Job({self.title!r}, {self.state})"


class DatasetWorker:
    """The thread that alone uses a dataset's engine, and the jobs that it ran recently, with their results."""

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
        rank: JobPriority = JobPriority.LOOK,
        heavy: bool = False,
        revive: bool = False,
        current: bool = False,
    ) -> Job[Result]:
        """Return the job for this key, after waiting at most ``wait`` seconds for its end; begin one if there is none.

        A failed job is begun again; with ``current`` also one that is done, if the latest job saw other data than it
        did. A cancelled job stays cancelled unless ``revive`` is given, or it was removed by ``forget``. ``rank``: how
        soon it runs; ``heavy``: its result may be as large as the dataset's table. Raises DosimeterError if a job would
        have to begin and the server is stopping.
        """
        with self._guard:
            job: Job[Result] | None = self._jobs.get(key)
            stale = current and job is not None and job.state == "done" and job.meter.digest != self.digest
            if job is None or stale or job.state == "failed" or (revive and job.state == "cancelled"):
                if self._closing:
                    raise DosimeterError("The server is stopping.")
                job = Job(make_identifier(), self.name, key, title, JobMeter(), rank, heavy)
                self._jobs[key] = job
                self._forget_old()
                heapq.heappush(self._queue, (rank, next(self._numbers), job, work))
                self._changed.notify()
            self._jobs.move_to_end(key)
        if rank is JobPriority.RELEASE:
            self._cancel_side_jobs()
        job.ended.wait(wait)
        return job

    def _cancel_side_jobs(self) -> None:
        """Cancel the running side jobs, because a release is to run. Asked for again, they begin anew."""
        with self._guard:
            aside = [job for job in self._jobs.values() if job.rank is JobPriority.ASIDE and job.state == "running"]
            for job in aside:
                del self._jobs[job.key]
        for job in aside:
            self.cancel(job)

    def _forget_old(self) -> None:
        """Forget the least recently used ended jobs, beyond ``MOST_KEPT`` in all and ``MOST_HEAVY`` heavy ones."""
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
            if job.rank is not JobPriority.RELEASE:  # a release reads the current data by itself
                job.meter.digest = self.digest = self.dataset.renew()
            job.result = work(self.dataset, job.meter)
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
        """Make the engine drop its snapshot, which would block a database's clean-up and hide new data between jobs.

        ``job``: the job that has just run, named in the log if this fails.
        """
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
        """Forget an ended job, so that it is computed again when asked for; return whether it was forgotten."""
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
        """Return how much of a job is done, in percent; None if that is unknown."""
        if job.meter.steps is not None:
            done, total = job.meter.steps
            return min(100.0, 100.0 * done / total) if total else None
        return self.dataset.engine.progress() if job.state == "running" else None

    def cancel(self, job: Job[Any]) -> bool:
        """Stop a job; return whether it stopped, after waiting a few seconds at most. A release is never stopped.

        Interrupts the engine repeatedly, because a query may begin after the first interrupt.
        """
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
