"""``python -m dosimeter`` and the ``dosimeter`` command."""

from __future__ import annotations

import sys


def main() -> None:
    from dosimeter.cli import main as run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
