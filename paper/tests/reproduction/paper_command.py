"""What running ``dosimeter paper`` gives, for the annotations of the tests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Paper(Protocol):
    def __call__(self, *words: object) -> Ended: ...
