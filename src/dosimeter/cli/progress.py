"""Run work and say what is done: a bar on a terminal, a line now and then elsewhere. Stop the work on Ctrl-C."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from dosimeter.cli.stopping import STOPPED, NotedSignals, end_process, note_signals
from dosimeter.errors import DatasetStopped, Interrupted, LedgerError

if TYPE_CHECKING:
    from dosimeter.engines import Engine

Result = TypeVar("Result")
LONGEST_STOP = 5.0  # seconds given to the engine; then the process ends anyway
FIRST_BAR = 1.0  # seconds until a bar is drawn on a terminal
FIRST_LINE, LONGEST_SILENCE = 5.0, 300.0  # seconds until the first line elsewhere, and at most between two lines


def run_with_progress(
    engine: Engine,
    title: str | Callable[[], str],
    work: Callable[[], Result],
    *,
    tell: Callable[[Result | None], str] | None = None,
) -> Result:
    """Run ``work`` in a thread of its own and return its result; stop it on Ctrl-C or SIGTERM.

    Meanwhile standard error says what is done: by a bar after the first second if it is a terminal, otherwise by a line
    after five seconds, and further lines ever more seldom. Raises what the work raises, and Interrupted after a signal.

    ``title``: what is done, in words; or a function that returns what is done by now. ``tell``: returns a sentence on
    what the work did that stays, such as a charge, for whoever stops the command after the work has ended; given None,
    for whoever stops it before that is known.
    """
    outcome: list[Result] = []
    failure: list[BaseException] = []
    ended = threading.Event()  # not Thread.join: an interrupted join may take a running thread for an ended one

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - carried over to the other thread and raised there
            failure.append(error)
        finally:
            ended.set()

    with note_signals() as noted:
        threading.Thread(target=run, daemon=True).start()
        _show_until_ended(ended, noted, engine, title if callable(title) else lambda: title)
        if noted.numbers:
            _stop(ended, engine, noted.numbers[0], STOPPED if tell is None else f"{STOPPED} {tell(None)}")
        words = f"{STOPPED} {tell(outcome[0])}" if tell is not None and outcome else STOPPED
        noted.say_afterwards(words)
    if noted.numbers and not (failure and isinstance(failure[0], (LedgerError, DatasetStopped))):
        told = str(failure[0]) if failure and isinstance(failure[0], Interrupted) else words.removeprefix("dosimeter: ")
        stopped = Interrupted(told[:1].lower() + told[1:])
        stopped.exit_code = 128 + noted.numbers[0]
        raise stopped
    if failure:
        raise failure[0]
    return outcome[0]


def _stop(ended: threading.Event, engine: Engine, number: int, words: str) -> None:
    """Interrupt the engine, again and again until the work has ended: once would miss a query that begins later.

    If the engine does not react within a few seconds, say ``words`` and end the process. ``number``: the signal's.
    """
    deadline = time.monotonic() + LONGEST_STOP
    while not ended.is_set():
        engine.interrupt()
        ended.wait(0.1)
        if time.monotonic() > deadline:  # the engine does not react: end without it
            end_process(words, 128 + number)


def _show_until_ended(ended: threading.Event, noted: NotedSignals, engine: Engine, title: Callable[[], str]) -> None:
    """Show the progress until the work has ended or a signal has come."""
    begun = time.monotonic()

    def goes_on_until(seconds: float) -> bool:
        """Wait until so many seconds have passed since the beginning. Return whether the work still goes on."""
        while not ended.is_set() and not noted.numbers and (left := begun + seconds - time.monotonic()) > 0.0:
            ended.wait(min(left, 0.1))
        return not ended.is_set() and not noted.numbers

    if sys.stderr.isatty():
        if goes_on_until(FIRST_BAR):
            _draw_bar(goes_on_until, engine, title)
        return
    most = 0.0
    for seconds in _list_moments():
        if not goes_on_until(seconds):
            return
        share = engine.progress()
        # The share of the engine's running query begins anew with the next: a smaller one would seem to go backwards.
        _write_line(title(), seconds, share if share is not None and share >= most else None)
        most = max(most, share or 0.0)


@contextlib.contextmanager
def say_meanwhile(title: str) -> Iterator[None]:
    """Write a line now and then while something is done that has no progress and need not be stopped with care."""
    ended, begun = threading.Event(), time.monotonic()

    def write_lines() -> None:
        for seconds in _list_moments():
            if ended.wait(begun + seconds - time.monotonic()):
                return
            _write_line(title, seconds, None)

    threading.Thread(target=write_lines, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _write_line(title: str, seconds: float, share: float | None) -> None:
    """Write to standard error what is done, since when, and the share of it that is done, in percent, if known."""
    done = "" if share is None else f", {min(share, 100.0):.0f} % done"
    with contextlib.suppress(OSError, ValueError):  # nobody reads it
        sys.stderr.write(f"dosimeter: {title[0].lower()}{title[1:]} for {seconds:,.0f} s{done} …\n")
        sys.stderr.flush()


def _list_moments() -> Iterator[float]:
    """Yield after how many seconds a line is written: 5, 10, 20, 40 …, at last every five minutes."""
    seconds = FIRST_LINE
    while True:
        yield seconds
        seconds += min(seconds, LONGEST_SILENCE)


def _draw_bar(goes_on_until: Callable[[float], bool], engine: Engine, title: Callable[[], str]) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title(), total=None)
        seconds = FIRST_BAR
        while goes_on_until(seconds := seconds + 0.1):
            share = engine.progress()
            progress.update(task, description=title())
            if share is not None:
                progress.update(task, total=100.0, completed=min(share, 100.0))
