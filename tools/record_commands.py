"""Record again what the recorded commands print: ``record_commands.py [STORY ...]``, all of them by default.

Run it only when a change of the output is intended, and read the difference before you commit it.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def main() -> None:
    sys.path.insert(0, str(REPOSITORY))
    for line in importlib.import_module("tests.recorded.recorded_stories").record_stories(sys.argv[1:]):
        print(line)


if __name__ == "__main__":
    main()
