"""The signed-in user as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["analyst", "controller"]


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who is signed in. ``session``: the digest of their session; by a token, one name for all their requests.

    So what is recorded once per session, such as that an answer was read, is recorded once per user of the API.
    """

    id: str
    name: str
    role: Role
    session: str = ""
