"""The signed-in user as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["analyst", "controller"]


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who is signed in. ``session`` is the digest of their session, empty for an API token."""

    id: str
    name: str
    role: Role
    session: str = ""
