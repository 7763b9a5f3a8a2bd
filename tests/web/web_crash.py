"""A server that kills itself at a chosen instant of an approval. Run by test_web_crash.py as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import sys

from dosimeter.ledger import Ledger
from dosimeter.web.decision import approve
from dosimeter.web.run import serve
from tests.web.web_site import make_settings


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def plant(place: str) -> None:
    """Replace one step by one that dies before or after it."""
    reserve, settle, finish = Ledger.reserve, Ledger.settle, approve.settle_claim
    match place:
        case "after claim":
            approve.release = lambda *_: die()  # type: ignore[assignment]
        case "after reserve":
            Ledger.reserve = lambda *a, **k: (reserve(*a, **k), die())[0]  # type: ignore[method-assign]
        case "before settle":
            Ledger.settle = lambda *_, **__: die()  # type: ignore[method-assign,assignment]
        case "after settle":
            Ledger.settle = lambda *a, **k: (settle(*a, **k), die())[0]  # type: ignore[method-assign]
        case "after release":
            approve.settle_claim = lambda *_: die()  # type: ignore[assignment]
        case "after all":
            approve.settle_claim = lambda *a: (finish(*a), die())[0]  # type: ignore[assignment]
        case "nowhere":
            pass
        case _:
            raise SystemExit(f"no such place: {place}")


if __name__ == "__main__":
    database, place = sys.argv[1:]
    plant(place)
    serve(make_settings(database, port=0), lambda address: print(json.dumps({"url": address}), flush=True))  # noqa: T201
