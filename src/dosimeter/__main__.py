"""``python -m dosimeter`` and the ``dosimeter`` command."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading

SELDOM = (200_000, 20, 100)
"""When cyclic garbage is looked for. Modules make none while they are loaded, and looking took a fifth of that time."""


def main() -> None:
    gc.set_threshold(*SELDOM)
    try:
        from dosimeter.cli import main as run
    except KeyboardInterrupt:  # while modules are being loaded, before anything was begun
        sys.exit(130)
    _leave(run(sys.argv[1:]))


def _leave(status: int) -> None:
    """End the process as ``sys.exit`` does, but without freeing every loaded module: that took a sixth of a command."""
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
