"""``python -m dosimeter`` and the ``dosimeter`` command."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading

from dosimeter.cli.stopping import end_on_signals

SELDOM = (200_000, 20, 100)
"""Thresholds of the garbage collector, high so that it seldom runs.

Modules make no cyclic garbage while they are loaded, and looking for it took a fifth of that time.
"""


def main() -> None:
    gc.set_threshold(*SELDOM)
    end_on_signals()
    _replace_closed_streams()
    from dosimeter.cli import main as run

    _leave(run(sys.argv[1:]))


def _replace_closed_streams() -> None:
    """Open the null device in place of each standard stream that was closed (``>&-``).

    Otherwise the next file that is opened, such as a ledger, would get the closed stream's file descriptor, and what is
    written to the stream would go into that file.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - open as long as the process
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def _leave(status: int) -> None:
    """End the process as ``sys.exit`` does, but without freeing loaded modules: that takes a sixth of a command's time.

    ``sys.exit`` itself is used where other threads still run, or where the last output cannot be written.
    """
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        sys.exit(status)  # which waits for them
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # nobody reads on, or a stream is closed: Python says what to say
        sys.exit(status)
    os._exit(status)


if __name__ == "__main__":
    main()
