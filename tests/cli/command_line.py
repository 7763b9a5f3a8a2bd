"""What a run of the command line came to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON document: nothing before it and nothing after it."""
        assert self.out.endswith("\n")
        return json.loads(self.out)


Run = Callable[..., Outcome]
