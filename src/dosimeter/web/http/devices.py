"""Devices that signed in before, recognised by a signed cookie. Strangers who try passwords do not slow them down.

The cookie grants no access: attempts on its device are only counted separately. *Sign out everywhere*, a password
reset and disabling a user make the devices of that user unknown again.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from dosimeter.web.identity import clean_name
from dosimeter.web.state import ServerState
from dosimeter.web.store import USERS, make_identifier, write_time

DEVICE_COOKIE = "dosimeter_device"
KEPT = 180 * 24 * 3600  # seconds for which the cookie is valid


@dataclass(frozen=True, slots=True)
class Device:
    """A known device and its user."""

    id: str
    user_id: str


def write_device(state: ServerState, user_id: str) -> str:
    """Return the cookie for a device on which this user has just signed in."""
    return state.sign("device", [user_id, make_identifier(), write_time()])


def find_device(state: ServerState, cookie: str, name: str) -> Device | None:
    """Return the device if the user of this name signed in on it before; otherwise None."""
    user_id, device, since = state.read_signed("device", cookie) or ("", "", "")
    query = sa.select(USERS.c.devices_since).where(USERS.c.id == user_id, USERS.c.name == clean_name(name))
    with state.database.reading() as connection:
        row = connection.execute(query).first()
    if row is None or since <= (row.devices_since or ""):
        return None
    return Device(device, user_id)
