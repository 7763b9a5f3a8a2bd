"""Users, sessions and API tokens. Knows no pages.

Only digests of session and token keys are stored; passwords as Argon2id. A session's id is new at every sign-in.
throttle.py limits how often a password may be tried, password_queue.py how many are verified at a time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

import sqlalchemy as sa

from dosimeter.errors import LimitError, OptionError
from dosimeter.web.identity.addresses import group_address
from dosimeter.web.identity.passwords import LONGEST_PASSWORD, check_password
from dosimeter.web.identity.throttle import Limits, clean_name, count_attempt, take_back
from dosimeter.web.store import (
    AUDIT,
    NOBODY,
    OPERATOR,
    SESSIONS,
    TOKENS,
    USERS,
    Database,
    Role,
    User,
    count_rows,
    digest_key,
    later,
    make_identifier,
    make_key,
    make_password,
    write_audit,
    write_time,
)

if TYPE_CHECKING:
    from argon2 import PasswordHasher

TOKEN_PREFIX = "dsm_"
MOST_TOKENS = 20
MOST_SESSIONS = 50  # that are listed
MOST_RECALLED = 50  # sign-ins whose addresses count as usual
SUCCEEDED, FAILED = "signed in", "failed to sign in"


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher()


@cache
def _nobodys_password() -> str:
    """Return the hash that is verified for an unknown name.

    Without it, an unknown name would be refused sooner than a wrong password, which would tell that nobody has this
    name.
    """
    return _hasher().hash(make_password())


# ---------------------------------------------------------------- users


def add_user(database: Database, name: str, role: str, password: str | None = None) -> str:
    """Add a user; return the password, which is made up if none is given.

    Raises OptionError for an unusable role, name or password, and for a name that is taken.
    """
    if role not in get_args(Role):
        raise OptionError(f"The role must be one of {', '.join(get_args(Role))}.")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", name):
        raise OptionError("A user's name is 1 to 64 letters, digits, dots, dashes, underscores or @.")
    chosen = password or make_password()
    row = {
        "id": make_identifier(),
        "name": name.lower(),
        "role": role,
        "password": hash_password(chosen, name),
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


def hash_password(password: str, name: str) -> str:
    """Return the Argon2id hash to store for a password; refuse one that is easy to guess. ``name``: its owner."""
    check_password(password, name)
    return _hasher().hash(password)


def list_users(database: Database) -> list[dict[str, object]]:
    query = sa.select(USERS.c.name, USERS.c.role, USERS.c.disabled, USERS.c.created_at).order_by(USERS.c.name)
    return _read_all(database, query)


def _read_all(database: Database, query: sa.Select[Any]) -> list[dict[str, Any]]:
    with database.reading() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]


def reset_password(database: Database, name: str) -> str:
    """Set and return a new password. Enables the user again, and ends all their sessions and tokens.

    Their devices are no longer known. Raises OptionError if there is no such user.
    """
    password = make_password()
    _change_user(database, name, {"password": hash_password(password, name), "disabled": False}, "reset a password")
    return password


def disable_user(database: Database, name: str) -> None:
    """Disable a user: no more sign-ins; sessions and tokens end at once. Queries and records stay.

    Raises OptionError if there is no such user.
    """
    _change_user(database, name, {"disabled": True}, "disabled a user")


def _change_user(database: Database, name: str, values: dict[str, object], action: str) -> None:
    with database.writing() as connection:
        row = connection.execute(sa.select(USERS.c.id).where(USERS.c.name == name.lower()).with_for_update()).first()
        if row is None:
            raise OptionError(f"There is no user {name}. See: dosimeter user list")
        connection.execute(USERS.update().where(USERS.c.id == row.id).values(devices_since=write_time(), **values))
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
    """Return whether the user is enabled and ``password``, a hash, is still the stored one. Locks the user's row."""
    query = sa.select(USERS.c.password, USERS.c.disabled).where(USERS.c.id == user_id).with_for_update()
    row = connection.execute(query).first()
    return row is not None and row.password == password and not row.disabled


def change_password(database: Database, user: User, current: str, fresh: str, limits: Limits) -> bool:
    """Change a password; return False if ``current`` is wrong. Every other session and every token ends.

    Raises OptionError if the new password (``fresh``) is easy to guess, or the same; Throttled after too many attempts.
    """
    check_password(fresh, user.name)
    attempt = count_attempt(database, user.name, limits)
    with database.reading() as connection:
        stored = connection.execute(sa.select(USERS.c.password).where(USERS.c.id == user.id)).scalar_one()
    right = _matches(stored, current)
    unchanged = right and fresh == current
    hashed = hash_password(fresh, user.name) if right and not unchanged else ""
    with database.writing() as connection:
        if not right or not _is_unchanged(connection, user.id, stored):
            write_audit(connection, user.name, "failed to change the password", detail=limits.address)
            return False
        take_back(connection, attempt)
        if not unchanged:
            connection.execute(USERS.update().where(USERS.c.id == user.id).values(password=hashed))
            others = SESSIONS.delete().where(SESSIONS.c.user_id == user.id, SESSIONS.c.digest != user.session)
            connection.execute(others)
            _revoke_all(connection, user.id)
            write_audit(connection, user.name, "changed the password")
    if unchanged:
        raise OptionError("The new password is the one you have. Choose another, or keep it.")
    return True


def _matches(stored: str, password: str) -> bool:
    from argon2.exceptions import VerificationError

    try:
        return _hasher().verify(stored, password[: LONGEST_PASSWORD + 1])
    except VerificationError:
        return False


# ---------------------------------------------------------------- signing in


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A new session. ``failures``: wrong passwords for this user since they last signed in."""

    key: str
    user: User
    failures: int


def sign_in(database: Database, name: str, password: str, limits: Limits, *, hours: int) -> SignedIn | None:
    """Sign a user in for so many ``hours``; return None if name or password is wrong, or the user is disabled.

    Raises Throttled, before the password is verified, after too many failures.
    """
    user_name = clean_name(name)
    attempt = count_attempt(database, user_name, limits)
    with database.reading() as connection:
        found = connection.execute(sa.select(USERS).where(USERS.c.name == user_name)).mappings().first()
    right = _matches(found["password"] if found is not None else _nobodys_password(), password)
    key = make_key()
    with database.writing() as connection:
        who = NOBODY if found is None else user_name
        if found is None or not right or not _is_unchanged(connection, found["id"], found["password"]):
            write_audit(connection, who, FAILED, detail=limits.address)
            return None
        take_back(connection, attempt)
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
        failures = _count_failures(connection, user_name)
        write_audit(connection, user_name, SUCCEEDED, detail=limits.address)
    return SignedIn(key, User(found["id"], user_name, found["role"], digest_key(key)), failures)


def signed_in_from(database: Database, name: str, network: str) -> bool:
    """Return whether a user signed in from this address before, by the latest ``MOST_RECALLED`` sign-ins on record.

    ``network``: the address as limits count it.
    """
    mine = (AUDIT.c.user == clean_name(name)) & (AUDIT.c.action == SUCCEEDED)
    query = sa.select(AUDIT.c.detail).where(mine).order_by(AUDIT.c.id.desc()).limit(MOST_RECALLED)
    with database.reading() as connection:
        return any(group_address(address) == network for address in connection.execute(query).scalars())


def _count_failures(connection: sa.Connection, user_name: str) -> int:
    """Return how many wrong passwords the audit log holds since this user last signed in."""
    last = sa.select(sa.func.max(AUDIT.c.id)).where(AUDIT.c.user == user_name, AUDIT.c.action == SUCCEEDED)
    since = connection.execute(last).scalar() or 0
    return count_rows(connection, AUDIT.c.user == user_name, AUDIT.c.action == FAILED, AUDIT.c.id > since)


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


def list_sessions(database: Database, user: User) -> list[dict[str, str | bool]]:
    """Return the sessions in which a user is signed in now, latest first, at most ``MOST_SESSIONS``.

    Each has the keys created_at, expires_at, address, ``id`` (the first 16 digits of the session's digest) and ``here``
    (whether it is the session that ``user`` is signed in by).
    """
    found, here = sa.func.substr(SESSIONS.c.digest, 1, 16).label("id"), SESSIONS.c.digest == user.session
    query = (
        sa.select(found, here.label("here"), SESSIONS.c.created_at, SESSIONS.c.expires_at, SESSIONS.c.address)
        .where(SESSIONS.c.user_id == user.id, SESSIONS.c.expires_at > write_time())
        .order_by(SESSIONS.c.created_at.desc())
        .limit(MOST_SESSIONS)
    )
    return _read_all(database, query)


def end_other_session(database: Database, user: User, session_id: str) -> bool:
    """End one of the user's sessions by its id; return False if there is none."""
    with database.writing() as connection:
        begins = SESSIONS.c.digest.startswith(session_id, autoescape=True)
        ended = connection.execute(SESSIONS.delete().where(SESSIONS.c.user_id == user.id, begins)).rowcount
        if ended:
            write_audit(connection, user.name, "ended a session")
    return ended == 1


def end_everything(database: Database, user: User) -> None:
    """End every session and token of a user, and no longer recognise devices on which they signed in."""
    with database.writing() as connection:
        connection.execute(USERS.update().where(USERS.c.id == user.id).values(devices_since=write_time()))
        connection.execute(SESSIONS.delete().where(SESSIONS.c.user_id == user.id))
        _revoke_all(connection, user.id)
        write_audit(connection, user.name, "signed out everywhere")


# ---------------------------------------------------------------- API tokens


class SessionEnded(Exception):
    """The error that another request ended the session while this one was handled."""


def make_token(database: Database, user: User, name: str) -> str:
    """Make an API token and return it. Only its digest is stored, so it is shown once.

    ``name``: the user's own name for it. Raises LimitError if the user has ``MOST_TOKENS`` already, and SessionEnded if
    the session has ended.
    """
    key = TOKEN_PREFIX + make_key()
    with database.writing() as connection:
        connection.execute(sa.select(USERS.c.id).where(USERS.c.id == user.id).with_for_update())
        still = connection.execute(sa.select(SESSIONS.c.digest).where(SESSIONS.c.digest == user.session)).first()
        if user.session and still is None:
            raise SessionEnded
        if count_rows(connection, TOKENS.c.user_id == user.id, TOKENS.c.revoked_at.is_(None)) >= MOST_TOKENS:
            raise LimitError(f"You have {MOST_TOKENS} tokens, the most. Revoke one that you no longer use.", wait=60)
        connection.execute(
            TOKENS.insert().values(
                id=make_identifier(), digest=digest_key(key), user_id=user.id, name=name, created_at=write_time()
            )
        )
    return key


def list_tokens(database: Database, user: User) -> list[dict[str, str | None]]:
    query = sa.select(TOKENS.c.id, TOKENS.c.name, TOKENS.c.created_at, TOKENS.c.used_on)
    mine = query.where(TOKENS.c.user_id == user.id, TOKENS.c.revoked_at.is_(None))
    return _read_all(database, mine.order_by(TOKENS.c.created_at))


def revoke_token(database: Database, user: User, token_id: str) -> bool:
    with database.writing() as connection:
        found = connection.execute(
            TOKENS.update()
            .where(TOKENS.c.id == token_id, TOKENS.c.user_id == user.id, TOKENS.c.revoked_at.is_(None))
            .values(revoked_at=write_time())
        )
    return found.rowcount == 1


def find_token(database: Database, key: str) -> User | None:
    """Return the user of a token; None if it is unknown or revoked, or its user is disabled or no analyst.

    Records its first use on each day.
    """
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
    return User(row.id, row.name, row.role, f"token of {row.id}")


def _record_use(database: Database, token_id: str, user: str, today: str) -> None:
    """Record that a token is used today; once, however many requests come at the same time."""
    with database.writing() as connection:
        query = sa.select(TOKENS.c.name, TOKENS.c.used_on).where(TOKENS.c.id == token_id).with_for_update()
        token = connection.execute(query).one()
        if token.used_on != today:
            connection.execute(TOKENS.update().where(TOKENS.c.id == token_id).values(used_on=today))
            write_audit(connection, user, "used a token", detail=token.name)
