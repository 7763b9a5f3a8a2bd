"""``python -m dosimeter`` and the ``dosimeter`` command."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from dosimeter.cli import main as run
    except KeyboardInterrupt:  # while modules are being loaded, before anything was begun
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
