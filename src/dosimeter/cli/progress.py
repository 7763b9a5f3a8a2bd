"""Run work with a progress bar after the first second, and stop the engine's query on Ctrl-C."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from dosimeter.errors import Interrupted

if TYPE_CHECKING:
    from dosimeter.engines import Engine

Result = TypeVar("Result")
LONGEST_STOP = 5.0  # seconds given to the engine; then the process ends anyway


class ProgressMeter:
    """The progress of some work. The work reports it by ``steps``; whoever draws the progress bar reads ``share``.

    ``share`` is in percent: that of the steps, or that of the engine's running query before the first step is reported;
    None if it is unknown.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._steps: tuple[int, int] | None = None
        self._stopped = False

    def steps(self, done: int, total: int) -> None:
        """Note that ``done`` of ``total`` steps are done. Raise Interrupted if the work is to stop."""
        if self._stopped:
            raise Interrupted("stopped.")
        self._steps = (done, total)

    def share(self) -> float | None:
        if self._steps is not None:
            done, total = self._steps
            return 100.0 * done / total if total else None
        return self._engine.progress()

    def stop(self) -> None:
        """Interrupt the engine's running query, and make the work stop at its next step."""
        self._stopped = True
        self._engine.interrupt()


def run_with_progress(engine: Engine, title: str, work: Callable[[ProgressMeter], Result]) -> Result:
    """Run ``work`` in a thread of its own and return its result; stop it on Ctrl-C.

    After the first second a progress bar is drawn, if standard error is a terminal. Raises what the work raises, and
    Interrupted after Ctrl-C. ``title``: what stands beside the bar.
    """
    meter = ProgressMeter(engine)
    outcome: list[Result] = []
    failure: list[BaseException] = []
    ended = threading.Event()  # not Thread.join: an interrupted join may take a running thread for an ended one

    def run() -> None:
        try:
            outcome.append(work(meter))
        except BaseException as error:  # noqa: BLE001 - carried over to the other thread and raised there
            failure.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, daemon=True).start()
    try:
        if not ended.wait(1.0):
            _draw_until_ended(ended, meter, title)
    except KeyboardInterrupt:
        _stop(ended, meter)
        raise Interrupted("stopped.") from None
    if failure:
        raise failure[0]
    return outcome[0]


def _stop(ended: threading.Event, meter: ProgressMeter) -> None:
    """Ask the work to stop, again and again until it has ended: one request would miss a query that begins later.

    Ends the process if the engine does not react within a few seconds.
    """
    deadline = time.monotonic() + LONGEST_STOP
    while not ended.is_set():
        meter.stop()
        ended.wait(0.1)
        if time.monotonic() > deadline:  # the engine does not react: end without it
            sys.stderr.write("dosimeter: stopped.\n")
            sys.stderr.flush()
            os._exit(Interrupted.exit_code)


def _draw_until_ended(ended: threading.Event, meter: ProgressMeter, title: str) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not (console.is_terminal and sys.stderr.isatty()):
        ended.wait()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=None)
        while not ended.wait(0.1):
            share = meter.share()
            if share is not None:
                progress.update(task, total=100.0, completed=min(share, 100.0))
