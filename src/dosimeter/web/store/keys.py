"""Random keys for sessions, tokens, passwords and identifiers. Nothing here touches an answer: noise is elsewhere."""

from __future__ import annotations

import hashlib
import secrets


def make_key() -> str:
    """Return a key of 256 random bits, safe in a URL and in a cookie."""
    return secrets.token_urlsafe(32)


def make_identifier() -> str:
    """Return an identifier of 80 random bits: unique, and not to be guessed from others."""
    return secrets.token_hex(10)


def make_password() -> str:
    """Return a password of three groups, easy to copy by hand, without letters that look alike; about 89 bits."""
    alphabet = "abcdefghjkmnpqrstuvwxyz23456789"
    return "-".join("".join(secrets.choice(alphabet) for _ in range(6)) for _ in range(3))


def digest_key(key: str) -> str:
    """Return the digest that is stored of a key: with it alone nobody can sign in."""
    return hashlib.sha256(key.encode()).hexdigest()
