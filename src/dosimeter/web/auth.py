"""Who somebody is: users, sessions, API tokens, and how often a password may be tried. Knows no pages.

Only digests of session and token keys are stored; passwords as Argon2id. A session's id is new at every sign-in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, get_args

import sqlalchemy as sa

from dosimeter.errors import OptionError
from dosimeter.web.database import Database
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
    except sa.exc.IntegrityError:
        raise OptionError(f"There is a user {name} already.") from None
    return chosen


def hash_password(password: str) -> str:
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise OptionError(f"A password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters.")
    return _hasher().hash(password)


def list_users(database: Database) -> list[dict[str, object]]:
    with database.reading() as connection:
        rows = connection.execute(sa.select(USERS).order_by(USERS.c.name)).mappings().all()
    return [{k: row[k] for k in ("name", "role", "disabled", "created_at")} for row in rows]


def reset_password(database: Database, name: str) -> str:
    """A new password; the user is enabled again, and every session of theirs ends."""
    password = make_password()
    _change_user(database, name, {"password": hash_password(password), "disabled": False})
    return password


def disable_user(database: Database, name: str) -> None:
    """No more sign-ins; sessions and tokens end at once. Queries and records stay."""
    user_id = _change_user(database, name, {"disabled": True})
    with database.writing() as connection:
        connection.execute(
            TOKENS.update()
            .where(TOKENS.c.user_id == user_id, TOKENS.c.revoked_at.is_(None))
            .values(revoked_at=write_time())
        )


def _change_user(database: Database, name: str, values: dict[str, object]) -> str:
    with database.writing() as connection:
        row = connection.execute(sa.select(USERS.c.id).where(USERS.c.name == name.lower())).first()
        if row is None:
            raise OptionError(f"There is no user {name}. See: dosimeter user list")
        connection.execute(USERS.update().where(USERS.c.id == row.id).values(values))
        connection.execute(SESSIONS.delete().where(SESSIONS.c.user_id == row.id))
        return str(row.id)


def change_password(database: Database, user: User, current: str, fresh: str) -> bool:
    """Every other session ends. False when the current password is wrong."""
    with database.reading() as connection:
        stored = connection.execute(sa.select(USERS.c.password).where(USERS.c.id == user.id)).scalar_one()
    if not _matches(stored, current):
        return False
    hashed = hash_password(fresh)
    with database.writing() as connection:
        connection.execute(USERS.update().where(USERS.c.id == user.id).values(password=hashed))
        connection.execute(SESSIONS.delete().where(SESSIONS.c.user_id == user.id, SESSIONS.c.digest != user.session))
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


def clean_name(name: str) -> str:
    """A name as it was typed, in the shape that names have; what no name contains becomes a question mark."""
    return re.sub(r"[^a-z0-9._@-]", "?", name.strip().lower()[:64])


def sign_in(
    database: Database, name: str, password: str, address: str, *, allowed: int, minutes: int, hours: int
) -> str | None:
    """The key of a new session, or None. Raises Throttled before the password is even looked at."""
    account = clean_name(name)
    limits = {f"{account}|{address}": allowed, f"|{address}": allowed * PER_ADDRESS}
    _require_open(database, limits)
    with database.reading() as connection:
        found = connection.execute(sa.select(USERS).where(USERS.c.name == account)).mappings().first()
    right = _matches(found["password"] if found is not None else _nobodys_password(), password)
    if found is None or found["disabled"] or not right:
        _count_failure(database, limits, minutes)
        return None
    key = make_key()
    with database.writing() as connection:
        connection.execute(ATTEMPTS.delete().where(ATTEMPTS.c.key == f"{account}|{address}"))
        connection.execute(SESSIONS.delete().where(SESSIONS.c.expires_at < write_time()))
        connection.execute(
            SESSIONS.insert().values(
                digest=digest_key(key),
                user_id=found["id"],
                created_at=write_time(),
                expires_at=later(hours=hours),
                address=address[:64],
            )
        )
    return key


def _require_open(database: Database, limits: dict[str, int]) -> None:
    with database.reading() as connection:
        query = sa.select(ATTEMPTS).where(ATTEMPTS.c.key.in_(limits), ATTEMPTS.c.until > write_time())
        rows = connection.execute(query).mappings().all()
    if any(row["failures"] >= limits[row["key"]] for row in rows):
        raise Throttled


def _count_failure(database: Database, limits: dict[str, int], minutes: int) -> None:
    """A run of failures is forgotten once none was added for so many minutes."""
    with database.writing() as connection:
        connection.execute(ATTEMPTS.delete().where(ATTEMPTS.c.until <= write_time()))
        for key in limits:
            updated = connection.execute(
                ATTEMPTS.update()
                .where(ATTEMPTS.c.key == key)
                .values(failures=ATTEMPTS.c.failures + 1, until=later(minutes=minutes))
            )
            if updated.rowcount == 0:
                connection.execute(ATTEMPTS.insert().values(key=key, failures=1, until=later(minutes=minutes)))


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


def end_all_sessions(database: Database, user: User) -> None:
    with database.writing() as connection:
        connection.execute(SESSIONS.delete().where(SESSIONS.c.user_id == user.id))


# ---------------------------------------------------------------- API tokens


def make_token(database: Database, user: User, name: str) -> str:
    """A token, shown once. Only analysts have them."""
    key = TOKEN_PREFIX + make_key()
    with database.writing() as connection:
        connection.execute(
            TOKENS.insert().values(
                id=make_identifier(), digest=digest_key(key), user_id=user.id, name=name, created_at=write_time()
            )
        )
    return key


def list_tokens(database: Database, user: User) -> list[dict[str, str]]:
    query = sa.select(TOKENS).where(TOKENS.c.user_id == user.id, TOKENS.c.revoked_at.is_(None))
    with database.reading() as connection:
        rows = connection.execute(query.order_by(TOKENS.c.created_at)).mappings().all()
    return [{k: row[k] for k in ("id", "name", "created_at")} for row in rows]


def revoke_token(database: Database, user: User, token_id: str) -> bool:
    with database.writing() as connection:
        found = connection.execute(
            TOKENS.update()
            .where(TOKENS.c.id == token_id, TOKENS.c.user_id == user.id, TOKENS.c.revoked_at.is_(None))
            .values(revoked_at=write_time())
        )
    return found.rowcount == 1


def find_token(database: Database, key: str) -> User | None:
    query = (
        sa.select(USERS.c.id, USERS.c.name, USERS.c.role)
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
    return None if row is None else User(row.id, row.name, row.role)
