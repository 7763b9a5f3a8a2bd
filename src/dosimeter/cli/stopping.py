"""End quietly on Ctrl-C and SIGTERM at any moment: one line on standard error, status 128 + the signal's number.

No exception is raised for a signal: raised while a library is loaded or inside a query, it would come out as another
error, or end the process with a message of the library's. Imports almost nothing, so that it is in place early.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOPPED = "dosimeter: stopped."


class EndAtOnce:
    """A signal handler that says ``words`` and ends the process, without waiting for other threads."""

    def __init__(self) -> None:
        self.words = STOPPED

    def __call__(self, number: int, frame: FrameType | None) -> None:
        end_process(self.words, 128 + number)


def end_process(words: str, status: int) -> None:
    """Write a line to standard error and end the process, without waiting for anything."""
    with contextlib.suppress(OSError):
        os.write(2, f"{words}\n".encode())
    os._exit(status)


def end_on_signals() -> None:
    """Let Ctrl-C and SIGTERM end the process from now on. A signal that is ignored, as under nohup, stays ignored."""
    ending = EndAtOnce()
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, ending)


def raise_on_control_c() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, and SIGTERM too: for a server, which finishes what it has begun."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))


class NotedSignals:
    """The signals that arrived while ``note_signals`` noted them. ``numbers``: their numbers, the first one first."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.before: list[object] = []

    def say_afterwards(self, words: str) -> None:
        """Set what is said if a signal ends the process later: that something is done which cannot be undone."""
        for handler in self.before:
            if isinstance(handler, EndAtOnce):
                handler.words = words


@contextlib.contextmanager
def note_signals() -> Iterator[NotedSignals]:
    """Only note Ctrl-C and SIGTERM, and act as before at the end.

    Signals that are ignored, or end the process by default, keep doing so; so do all signals in a thread of its own,
    which gets none.
    """
    noted = NotedSignals()
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    changed = {number: handler for number, handler in handlers.items() if callable(handler)}
    noted.before.extend(changed.values())
    try:
        for number in changed:
            signal.signal(number, lambda number, _: noted.numbers.append(number))
        yield noted
    finally:
        for number, handler in changed.items():
            signal.signal(number, handler)
