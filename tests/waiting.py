"""Wait for what a test expects. The limits end a test that is broken; no test that holds comes near them."""

from __future__ import annotations

import time
from collections.abc import Callable

LONGEST_WAIT = 300.0  # seconds


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Return once ``holds()`` is true; fail with ``what`` if it never is."""
    deadline = time.monotonic() + LONGEST_WAIT
    while not holds():
        assert time.monotonic() < deadline, f"waited {LONGEST_WAIT:g} s in vain: {what}"
        time.sleep(0.01)
