"""``python -m dosimeter`` and the ``dosimeter`` command."""

from __future__ import annotations

import gc
import sys

SELDOM = (50_000, 20, 100)
"""When cyclic garbage is looked for. Modules make none while they are loaded, and looking took a fifth of that time."""


def main() -> None:
    gc.set_threshold(*SELDOM)
    try:
        from dosimeter.cli import main as run
    except KeyboardInterrupt:  # while modules are being loaded, before anything was begun
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
