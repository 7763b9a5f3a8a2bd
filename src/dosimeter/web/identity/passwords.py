"""Refuse passwords that are too easy to guess. Takes a password and its owner's name; raises OptionError or returns.

There is a list of a few hundred of the best-known words, and rules for what people make of them: digits after the word,
digits that look like letters, the word twice. The minimum length does the rest: ten characters exclude most first
guesses.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from dosimeter.errors import OptionError

SHORTEST_PASSWORD, LONGEST_PASSWORD = 10, 200
ADVICE = "Choose three or four unrelated words, or let a password manager make one."

_LOOK_ALIKES = (str.maketrans("013457@$!", "oieastasi"), str.maketrans("013457@$!", "oleastasl"))
_SEQUENCES = (
    "abcdefghijklmnopqrstuvwxyz", "01234567890123456789", "qwertyuiop", "asdfghjkl", "zxcvbnm",
    "qwertzuiop", "azertyuiop", "1q2w3e4r5t6y7u8i9o0p", "q1w2e3r4t5y6u7i8o9p0", "1qaz2wsx3edc4rfv5tgb6yhn7ujm",
    "qazwsxedcrfvtgbyhnujm",
    "zaqxswcdevfrbgt", "1a2b3c4d5e6f7g8h9i", "a1b2c3d4e5f6g7h8i9",
)  # fmt: skip
_RUN = 3  # characters in a row that make a sequence
_LEAST_REST = 5  # characters that must remain besides sequences or the owner's name


@cache
def _list_common() -> frozenset[str]:
    """Return the best-known words that passwords are made of."""
    text = resources.files("dosimeter.web.identity").joinpath("common_words.txt").read_text(encoding="utf-8")
    return frozenset(text.split())


def check_password(password: str, name: str = "") -> None:
    """Refuse a password that is too short, too long, or among those that are guessed first.

    ``name``: the owner; their own name with a few digits is refused too. Raises OptionError with what to do instead.
    """
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise OptionError(f"A password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters.")
    weakness = find_weakness(password, name)
    if weakness:
        raise OptionError(f"{weakness} {ADVICE}")


def find_weakness(password: str, name: str = "") -> str:
    """Return why a password is easy to guess; "" if no rule says that it is."""
    plain = re.sub(r"[\s._-]", "", password.casefold())
    if plain.isdecimal():
        return "Passwords of digits alone are guessed first."
    if len(set(plain)) < 5 or _is_repeated(plain):
        return "A password that repeats itself is guessed first."
    if name and any(_is_made_of(spelling, name.casefold()) for spelling in _list_spellings(plain)):
        return "Your own name, also with digits or signs, is guessed first."
    if _count_outside_sequences(plain) < _LEAST_REST:
        return "Letters and digits in the order of the alphabet or the keyboard are guessed first."
    if any(_is_common(spelling) for spelling in _list_spellings(plain)):
        return "A well-known word, also with digits or signs, is guessed first."
    return ""


def _list_spellings(plain: str) -> list[str]:
    """Return the spellings of a password in which to look for names and well-known words.

    These are the password as it is, and with letters for digits and signs that look like them (o for 0, a for @): the
    whole, and without the digits and signs at its start, at its end, and at both. So "1p4ssw0rd!" gives "password".
    """
    after, before = re.sub(r"[\W\d_]+$", "", plain), re.sub(r"^[\W\d_]+", "", plain)
    return [plain, *(text.translate(table) for text in (plain, after, before, _trim(plain)) for table in _LOOK_ALIKES)]


def _trim(text: str) -> str:
    """Return a text without the digits and punctuation around it."""
    return re.sub(r"^[\W\d_]+|[\W\d_]+$", "", text)


def _is_repeated(text: str) -> bool:
    found = re.match(r"(.{1,8}?)\1+", text)
    return found is not None and len(text) - found.end() < len(found[1])


def _count_outside_sequences(text: str) -> int:
    """Return how many characters are in no run along the alphabet, the digits or the keyboard."""
    rest, at = 0, 0
    while at < len(text):
        length = _find_run(text[at:])
        rest, at = (rest, at + length) if length >= _RUN else (rest + 1, at + 1)
    return rest


def _find_run(text: str) -> int:
    longest = 0
    for row in (*_SEQUENCES, *(row[::-1] for row in _SEQUENCES)):
        while longest < len(text) and text[: longest + 1] in row:
            longest += 1
    return longest


def _is_common(text: str) -> bool:
    core = _trim(text)
    if core in _list_common() or core[::-1] in _list_common():
        return True
    half, odd = divmod(len(core), 2)
    return not odd and core[:half] == core[half:] and core[:half] in _list_common()


def _is_made_of(text: str, name: str) -> bool:
    """Return whether a text is little more than the name or a part of it, or one of these with a common word.

    The name may be written backwards.
    """
    for part in (name, *re.split(r"[^a-z0-9]+", name)):
        plain = re.sub(r"[\s._-]", "", part)
        for written in (plain, plain[::-1]):
            if len(written) < 3 or written not in text:
                continue
            rest = text.replace(written, "")
            core = re.sub(r"[\W\d_]", "", rest)
            if len(core) < _LEAST_REST or core in _list_common():
                return True
    return False
