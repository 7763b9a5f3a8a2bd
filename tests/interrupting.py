"""Interrupt an engine from another thread, as the web does when somebody stops a computation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dosimeter.engines.engine import Engine


@contextmanager
def interrupting(engine: Engine) -> Iterator[None]:
    """Interrupt an engine again and again: what comes before its query has begun stops nothing."""
    stop = threading.Event()

    def interrupt() -> None:
        while not stop.wait(0.2):
            engine.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
