"""Limit how often a password may be tried: by address, by user name, and by known device. Knows no pages.

An attempt is counted as a failure before its password is verified, in the transaction that checks the limits, and the
count is taken back when the password was right: many attempts at once cannot get around the limit. A run of failures is
forgotten once none was added for some minutes.

From one address, one user name can be tried a few times, and all names together somewhat more often; after that,
attempts from there are refused for a while. A user name that is tried from many addresses is slowed down for everybody:
its passwords are verified one at a time, with a pause after each; name_turns.py decides who is next. Neither limit
holds up a device on which the user signed in before: failures on that device are counted separately.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import sqlalchemy as sa

from dosimeter.web.identity.addresses import group_address
from dosimeter.web.store import ATTEMPTS, COUNTING, NOBODY, USERS, Database, later, take_turn, write_audit, write_time

PER_ADDRESS = 6  # failures allowed from an address, as a multiple of those for one user name from it
PER_USER = 4  # the same multiple for a user name, from all addresses together
PAUSE = 2.0  # seconds between two attempts at a user name that is slowed down


class Throttled(Exception):
    """The error that too many passwords were wrong. ``slowed``: for this user one may still be tried now and then."""

    def __init__(self, *, slowed: bool = False) -> None:
        super().__init__()
        self.slowed = slowed


@dataclass(frozen=True, slots=True)
class FailureLimit:
    """How many failures are allowed. After these no attempt is allowed, or with ``slows`` only one now and then."""

    allowed: int
    slows: bool = False

    def is_reached(self, failures: int, until: str, minutes: int) -> bool:
        """Return whether another attempt must be refused after so many ``failures``.

        ``until``: when the run of failures is forgotten, which is ``minutes`` after its latest failure. With ``slows``,
        an attempt beyond the limit is refused only if the latest failure was less than half of ``PAUSE`` ago. Half,
        because the whole pause is kept by another clock.
        """
        if failures < self.allowed:
            return False
        return not self.slows or until > later(minutes=minutes, seconds=-PAUSE / 2)


@dataclass(frozen=True, slots=True)
class Limits:
    """From where a password is tried, how many failures are allowed, and for how many minutes they are remembered.

    ``device``: the known device; "" if the user did not sign in on it before.
    """

    address: str
    allowed: int
    minutes: int
    device: str = ""

    @property
    def network(self) -> str:
        """Return the address as limits count it: an IPv6 address as its /64 network."""
        return group_address(self.address)

    def keys(self, user_name: str) -> dict[str, FailureLimit]:
        """Return the counters of failed sign-ins that an attempt on this user name counts in: their keys and limits."""
        if self.device:
            return {f"{user_name}|device {self.device}": FailureLimit(self.allowed)}
        return {
            f"{user_name}|{self.network}": FailureLimit(self.allowed),
            f"|{self.network}": FailureLimit(self.allowed * PER_ADDRESS),
            f"{user_name}|": FailureLimit(self.allowed * PER_USER, slows=True),
        }


def clean_name(name: str) -> str:
    """Return a typed name in the form of stored names; characters that no name contains become question marks."""
    return re.sub(r"[^a-z0-9._@-]", "?", name.strip().lower()[:64])


def refuse_throttled(database: Database, name: str, limits: Limits) -> bool:
    """Raise Throttled if this attempt to sign in must be refused. The refusal is recorded once per run of failures.

    Return whether the name is slowed down, so that the attempt has to wait for its turn. Called before the attempt
    waits for its password to be verified, so that a refused one takes nobody's turn.
    """
    user_name = clean_name(name)
    keys = limits.keys(user_name)
    query = sa.select(ATTEMPTS).where(ATTEMPTS.c.key.in_(keys), ATTEMPTS.c.until > write_time())
    with database.reading() as connection:
        failures = {row["key"]: row["failures"] for row in connection.execute(query).mappings()}
    reached = {key: count for key, count in failures.items() if count >= keys[key].allowed}
    closed = {key: count for key, count in reached.items() if not keys[key].slows}
    if any(count == keys[key].allowed for key, count in closed.items()):
        count_attempt(database, user_name, limits)  # puts the refusal on record
    if closed:
        raise Throttled
    return bool(reached)


def count_attempt(database: Database, user_name: str, limits: Limits) -> dict[str, FailureLimit]:
    """Count an attempt as a failure, or raise Throttled if a limit is reached.

    Return the keys of the counters to which the attempt was added, each with its limit: ``take_back`` needs them. It is
    recorded once per run of failures that a limit was reached, so that nobody can fill the log: at the first refusal,
    or at the first attempt that was let through after a pause.
    """
    keys = limits.keys(user_name)
    with database.writing() as connection:
        take_turn(connection, COUNTING)
        connection.execute(ATTEMPTS.delete().where(ATTEMPTS.c.until <= write_time()))
        rows = connection.execute(sa.select(ATTEMPTS).where(ATTEMPTS.c.key.in_(keys))).all()
        failures = {row.key: row.failures for row in rows}
        full = [each.key for each in rows if keys[each.key].is_reached(each.failures, each.until, limits.minutes)]
        first = [key for key in full or keys if failures.get(key) == keys[key].allowed]  # refused, or slowed down
        for key in first if full else keys:
            _add_failure(connection, key, failures.get(key), None if full else limits.minutes)
        if first:
            known = connection.execute(sa.select(USERS.c.name).where(USERS.c.name == user_name)).scalar()
            where = "from many addresses" if keys[first[0]].slows else limits.address
            write_audit(connection, known or NOBODY, "was throttled", detail=where)
    if full:
        raise Throttled(slowed=all(keys[key].slows for key in full))
    return keys


def _add_failure(connection: sa.Connection, key: str, known: int | None, minutes: int | None) -> None:
    """Add one failure to a counter. ``known``: its failures so far; None if there is no such counter yet.

    ``minutes``: how long from now the run of failures is remembered; None leaves that unchanged.
    """
    until = {} if minutes is None else {"until": later(minutes=minutes)}
    if known is None:
        connection.execute(ATTEMPTS.insert().values(key=key, failures=1, **until))
    else:
        connection.execute(ATTEMPTS.update().where(ATTEMPTS.c.key == key).values(failures=known + 1, **until))


def take_back(connection: sa.Connection, keys: dict[str, FailureLimit]) -> None:
    """Take back a counted attempt whose password was right.

    The counter of this user name from this address, or on this device, is deleted. The counters of all user names from
    this address, and of this user name from all addresses, lose one failure.
    """
    take_turn(connection, COUNTING)
    for key in keys:
        if key.startswith("|") or key.endswith("|"):
            connection.execute(
                ATTEMPTS.update()
                .where(ATTEMPTS.c.key == key, ATTEMPTS.c.failures > 0)
                .values(failures=ATTEMPTS.c.failures - 1)
            )
        else:
            connection.execute(ATTEMPTS.delete().where(ATTEMPTS.c.key == key))
