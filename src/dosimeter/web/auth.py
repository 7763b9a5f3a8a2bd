"""Who somebody is: users, sessions, API tokens, and how often a password may be tried. Knows no pages.

Only digests of session and token keys are stored; passwords as Argon2id. A session's id is new at every sign-in.
An attempt is counted before its password is looked at, and taken back when it was right, so that many at once are no
way around the limit. How many passwords are looked at at a time is the gate's part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, get_args

import sqlalchemy as sa

from dosimeter.errors import OptionError
from dosimeter.web.addresses import group_address
from dosimeter.web.audit import NOBODY, OPERATOR, write_audit
from dosimeter.web.database import COUNTING, Database, take_turn
from dosimeter.web.keys import digest_key, make_identifier, make_key, make_password
from dosimeter.web.tables import ATTEMPTS, SESSIONS, TOKENS, USERS, later, write_time

if TYPE_CHECKING:
    from argon2 import PasswordHasher

Role = Literal["analyst", "controller"]
SHORTEST_PASSWORD, LONGEST_PASSWORD = 10, 200
TOKEN_PREFIX = "dsm_"
PER_ADDRESS = 6  # an address may fail this many times as often as one account from it


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who is signed in. ``session`` is the digest of their session, empty for an API token."""

    id: str
    name: str
    role: Role
    session: str = ""


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher()


@cache
def _nobodys_password() -> str:
    """Verified when there is no such user, so that both answers take the same time."""
    return _hasher().hash(make_password())


# ---------------------------------------------------------------- users


def add_user(database: Database, name: str, role: str, password: str | None = None) -> str:
    """Make an account; gives its password."""
    if role not in get_args(Role):
        raise OptionError(f"The role must be one of {', '.join(get_args(Role))}.")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", name):
        raise OptionError("A user's name is 1 to 64 letters, digits, dots, dashes, underscores or @.")
    chosen = password or make_password()
    row = {
        "id": make_identifier(),
        "name": name.lower(),
        "role": role,
        "password": hash_password(chosen),
        "disabled": False,
        "created_at": write_time(),
    }
    try:
        with database.writing() as connection:
            connection.execute(USERS.insert().values(row))
            write_audit(connection, OPERATOR, "added a user", detail=f"{row['name']}, {role}")
    except sa.exc.IntegrityError:
        raise OptionError(f"There is a user {name} already.") from None
    return chosen


def hash_password(password: str) -> str:
    _check_length(password)
    return _hasher().hash(password)


def _check_length(password: str) -> None:
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise OptionError(f"A password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters.")


def list_users(database: Database) -> list[dict[str, object]]:
    with database.reading() as connection:
        rows = connection.execute(sa.select(USERS).order_by(USERS.c.name)).mappings().all()
    return [{k: row[k] for k in ("name", "role", "disabled", "created_at")} for row in rows]


def reset_password(database: Database, name: str) -> str:
    """A new password; the user is enabled again, and every session and token of theirs ends."""
    password = make_password()
    _change_user(database, name, {"password": hash_password(password), "disabled": False}, "reset a password")
    return password


def disable_user(database: Database, name: str) -> None:
    """No more sign-ins; sessions and tokens end at once. Queries and records stay."""
    _change_user(database, name, {"disabled": True}, "disabled a user")


def _change_user(database: Database, name: str, values: dict[str, object], action: str) -> None:
    with database.writing() as connection:
        row = connection.execute(sa.select(USERS.c.id).where(USERS.c.name == name.lower()).with_for_update()).first()
        if row is None:
            raise OptionError(f"There is no user {name}. See: dosimeter user list")
        connection.execute(USERS.update().where(USERS.c.id == row.id).values(values))
        connection.execute(SESSIONS.delete().where(SESSIONS.c.user_id == row.id))
        _revoke_all(connection, row.id)
        write_audit(connection, OPERATOR, action, detail=name.lower())


def _revoke_all(connection: sa.Connection, user_id: str) -> None:
    connection.execute(
        TOKENS.update()
        .where(TOKENS.c.user_id == user_id, TOKENS.c.revoked_at.is_(None))
        .values(revoked_at=write_time())
    )


def _is_unchanged(connection: sa.Connection, user_id: str, password: str) -> bool:
    """Whether the user still has this stored password and is not disabled. Until the transaction ends, it stays so."""
    query = sa.select(USERS.c.password, USERS.c.disabled).where(USERS.c.id == user_id).with_for_update()
    row = connection.execute(query).first()
    return row is not None and row.password == password and not row.disabled


def change_password(database: Database, user: User, current: str, fresh: str, limits: Limits) -> bool:
    """Every other session and every token ends. False when the current password is wrong; raises Throttled."""
    _check_length(fresh)
    attempt = _count_attempt(database, user.name, limits)
    with database.reading() as connection:
        stored = connection.execute(sa.select(USERS.c.password).where(USERS.c.id == user.id)).scalar_one()
    right = _matches(stored, current)
    hashed = hash_password(fresh) if right else ""
    with database.writing() as connection:
        if not right or not _is_unchanged(connection, user.id, stored):
            write_audit(connection, user.name, "failed to change the password", detail=limits.address)
            return False
        _take_back(connection, attempt)
        connection.execute(USERS.update().where(USERS.c.id == user.id).values(password=hashed))
        connection.execute(SESSIONS.delete().where(SESSIONS.c.user_id == user.id, SESSIONS.c.digest != user.session))
        _revoke_all(connection, user.id)
        write_audit(connection, user.name, "changed the password")
    return True


def _matches(stored: str, password: str) -> bool:
    from argon2.exceptions import VerificationError

    try:
        return _hasher().verify(stored, password[: LONGEST_PASSWORD + 1])
    except VerificationError:
        return False


# ---------------------------------------------------------------- signing in


class Throttled(Exception):
    """Too many wrong passwords for this account from this address, or from this address at all."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How often a password may be wrong from one address, and for how many minutes it is remembered."""

    address: str
    allowed: int
    minutes: int

    @property
    def network(self) -> str:
        """The address as limits count it: an IPv6 address by its /64."""
        return group_address(self.address)

    def keys(self, account: str) -> dict[str, int]:
        """Return what an attempt counts for, each with how many failures are allowed."""
        return {f"{account}|{self.network}": self.allowed, f"|{self.network}": self.allowed * PER_ADDRESS}


def clean_name(name: str) -> str:
    """A name as it was typed, in the shape that names have; what no name contains becomes a question mark."""
    return re.sub(r"[^a-z0-9._@-]", "?", name.strip().lower()[:64])


def sign_in(database: Database, name: str, password: str, limits: Limits, *, hours: int) -> str | None:
    """The key of a new session, or None. Raises Throttled before the password is even looked at."""
    account = clean_name(name)
    attempt = _count_attempt(database, account, limits)
    with database.reading() as connection:
        found = connection.execute(sa.select(USERS).where(USERS.c.name == account)).mappings().first()
    right = _matches(found["password"] if found is not None else _nobodys_password(), password)
    key = make_key()
    with database.writing() as connection:
        who = NOBODY if found is None else account
        if found is None or not right or not _is_unchanged(connection, found["id"], found["password"]):
            write_audit(connection, who, "failed to sign in", detail=limits.address)
            return None
        _take_back(connection, attempt)
        connection.execute(SESSIONS.delete().where(SESSIONS.c.expires_at < write_time()))
        connection.execute(
            SESSIONS.insert().values(
                digest=digest_key(key),
                user_id=found["id"],
                created_at=write_time(),
                expires_at=later(hours=hours),
                address=limits.address[:64],
            )
        )
        write_audit(connection, account, "signed in", detail=limits.address)
    return key


def refuse_throttled(database: Database, name: str, limits: Limits) -> None:
    """Raise Throttled where another attempt would be one too many. Writes nothing, unless it is the first such one.

    For before the gate: whoever is turned away takes nobody's turn.
    """
    account = clean_name(name)
    keys = limits.keys(account)
    query = sa.select(ATTEMPTS.c.key, ATTEMPTS.c.failures)
    with database.reading() as connection:
        found = connection.execute(query.where(ATTEMPTS.c.key.in_(keys), ATTEMPTS.c.until > write_time())).all()
    full = [row for row in found if row.failures >= keys[row.key]]
    if any(row.failures == keys[row.key] for row in full):
        _count_attempt(database, account, limits)  # puts it on record
    if full:
        raise Throttled


def _count_attempt(database: Database, account: str, limits: Limits) -> dict[str, int]:
    """Count it as a failure, in the transaction that looks whether there were too many. Gives the keys it counts for.

    A run of failures is forgotten once none was added for so many minutes. That an address was turned away is on
    record once per run, so that nobody can fill the log.
    """
    keys = limits.keys(account)
    with database.writing() as connection:
        take_turn(connection, COUNTING)
        connection.execute(ATTEMPTS.delete().where(ATTEMPTS.c.until <= write_time()))
        rows = connection.execute(sa.select(ATTEMPTS).where(ATTEMPTS.c.key.in_(keys))).mappings().all()
        failures = {row["key"]: row["failures"] for row in rows}
        full = [key for key, most in keys.items() if failures.get(key, 0) >= most]
        for key in keys if not full else [key for key in full if failures[key] == keys[key]]:
            _set_failures(connection, key, failures.get(key), None if full else limits.minutes)
        if any(failures[key] == keys[key] for key in full):
            known = connection.execute(sa.select(USERS.c.name).where(USERS.c.name == account)).scalar()
            write_audit(connection, known or NOBODY, "was throttled", detail=limits.address)
    if full:
        raise Throttled
    return keys


def _set_failures(connection: sa.Connection, key: str, known: int | None, minutes: int | None) -> None:
    """One more than there were. Without minutes the run is not prolonged."""
    until = {} if minutes is None else {"until": later(minutes=minutes)}
    if known is None:
        connection.execute(ATTEMPTS.insert().values(key=key, failures=1, **until))
    else:
        connection.execute(ATTEMPTS.update().where(ATTEMPTS.c.key == key).values(failures=known + 1, **until))


def _take_back(connection: sa.Connection, keys: dict[str, int]) -> None:
    """The password was right: the account's run of failures ends, and the address has one less."""
    take_turn(connection, COUNTING)
    for key in keys:
        if key.startswith("|"):
            connection.execute(
                ATTEMPTS.update()
                .where(ATTEMPTS.c.key == key, ATTEMPTS.c.failures > 0)
                .values(failures=ATTEMPTS.c.failures - 1)
            )
        else:
            connection.execute(ATTEMPTS.delete().where(ATTEMPTS.c.key == key))


def find_session(database: Database, key: str) -> User | None:
    digest = digest_key(key)
    query = (
        sa.select(USERS.c.id, USERS.c.name, USERS.c.role)
        .join(SESSIONS, SESSIONS.c.user_id == USERS.c.id)
        .where(SESSIONS.c.digest == digest, SESSIONS.c.expires_at > write_time(), USERS.c.disabled.is_(False))
    )
    with database.reading() as connection:
        row = connection.execute(query).first()
    return None if row is None else User(row.id, row.name, row.role, digest)


def end_session(database: Database, user: User) -> None:
    with database.writing() as connection:
        connection.execute(SESSIONS.delete().where(SESSIONS.c.digest == user.session))
        write_audit(connection, user.name, "signed out")


def end_everything(database: Database, user: User) -> None:
    """Every session and every token of theirs."""
    with database.writing() as connection:
        connection.execute(sa.select(USERS.c.id).where(USERS.c.id == user.id).with_for_update())
        connection.execute(SESSIONS.delete().where(SESSIONS.c.user_id == user.id))
        _revoke_all(connection, user.id)
        write_audit(connection, user.name, "signed out everywhere")


# ---------------------------------------------------------------- API tokens


class SessionEnded(Exception):
    """The session was ended by somebody else between the request and what it asks for."""


def make_token(database: Database, user: User, name: str) -> str:
    """A token, shown once. Only analysts have them."""
    key = TOKEN_PREFIX + make_key()
    with database.writing() as connection:
        connection.execute(sa.select(USERS.c.id).where(USERS.c.id == user.id).with_for_update())
        still = connection.execute(sa.select(SESSIONS.c.digest).where(SESSIONS.c.digest == user.session)).first()
        if user.session and still is None:
            raise SessionEnded
        connection.execute(
            TOKENS.insert().values(
                id=make_identifier(), digest=digest_key(key), user_id=user.id, name=name, created_at=write_time()
            )
        )
    return key


def list_tokens(database: Database, user: User) -> list[dict[str, str | None]]:
    query = sa.select(TOKENS).where(TOKENS.c.user_id == user.id, TOKENS.c.revoked_at.is_(None))
    with database.reading() as connection:
        rows = connection.execute(query.order_by(TOKENS.c.created_at)).mappings().all()
    return [{k: row[k] for k in ("id", "name", "created_at", "used_on")} for row in rows]


def revoke_token(database: Database, user: User, token_id: str) -> bool:
    with database.writing() as connection:
        found = connection.execute(
            TOKENS.update()
            .where(TOKENS.c.id == token_id, TOKENS.c.user_id == user.id, TOKENS.c.revoked_at.is_(None))
            .values(revoked_at=write_time())
        )
    return found.rowcount == 1


def find_token(database: Database, key: str) -> User | None:
    """Return whose token this is, or None. Its first use on a day is put on record."""
    query = (
        sa.select(USERS.c.id, USERS.c.name, USERS.c.role, TOKENS.c.id.label("token"), TOKENS.c.used_on)
        .join(TOKENS, TOKENS.c.user_id == USERS.c.id)
        .where(
            TOKENS.c.digest == digest_key(key),
            TOKENS.c.revoked_at.is_(None),
            USERS.c.disabled.is_(False),
            USERS.c.role == "analyst",
        )
    )
    with database.reading() as connection:
        row = connection.execute(query).first()
    if row is None:
        return None
    today = write_time()[:10]
    if row.used_on != today:
        _record_use(database, row.token, row.name, today)
    return User(row.id, row.name, row.role)


def _record_use(database: Database, token_id: str, user: str, today: str) -> None:
    """Write down that a token is used today, once however many requests come at the same time."""
    with database.writing() as connection:
        query = sa.select(TOKENS.c.name, TOKENS.c.used_on).where(TOKENS.c.id == token_id).with_for_update()
        token = connection.execute(query).one()
        if token.used_on != today:
            connection.execute(TOKENS.update().where(TOKENS.c.id == token_id).values(used_on=today))
            write_audit(connection, user, "used a token", detail=token.name)
