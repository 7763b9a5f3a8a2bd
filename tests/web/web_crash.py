"""A server that kills itself at a chosen instant of an approval. Run by test_web_crash.py as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from dosimeter.ledger import Ledger
from dosimeter.web.decision import approve
from dosimeter.web.run import serve
from tests.web.web_site import make_settings

# What is replaced, by its owner and name, and whether it is still done before the process dies.
PLACES: dict[str, tuple[object, str, bool]] = {
    "after claim": (approve, "release", False),
    "after reserve": (Ledger, "reserve", True),
    "before settle": (Ledger, "settle", False),
    "after settle": (Ledger, "settle", True),
    "after release": (approve, "settle_claim", False),
    "after all": (approve, "settle_claim", True),
}


def plant(owner: object, name: str, done: bool) -> None:
    """Replace one step by one that dies before or after it."""
    step = getattr(owner, name)

    def die(*given: Any, **named: Any) -> None:
        if done:
            step(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, die)


if __name__ == "__main__":
    database, place = sys.argv[1:]
    if place != "nowhere":
        plant(*PLACES[place])
    serve(make_settings(database, port=0), lambda address: print(json.dumps({"url": address}), flush=True))  # noqa: T201
