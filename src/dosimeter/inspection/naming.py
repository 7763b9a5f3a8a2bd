"""Propose what a draft calls rows and individuals, from the names of the table and its unit column. Reads no data."""

from __future__ import annotations

from dataclasses import replace

from dosimeter.inspection.row_owners import KEYS, PEOPLE, split_words
from dosimeter.schema import Schema

_PLURALS = {"person": "people", "child": "children", "man": "men", "woman": "women", "diagnosis": "diagnoses"}
_NO_PLURALS = ("ss", "us", "is", "series", "species", "news", "statistics")


def name_rows(schema: Schema) -> Schema:
    """Return the schema with the words for its rows and individuals that the names suggest.

    Rows of a table visits are visits; where each row is an individual, rows of patients are patients. A unit column
    patient_id speaks of patients. What no name suggests is a row or a person.
    """
    row = _find_singular(split_words(schema.table))
    owner = None if schema.unit == "row" else _find_owner(split_words(schema.unit))
    if row in PEOPLE:
        row, owner = None, row if schema.unit == "row" else owner
    row, owner = None if row == "row" else row, None if owner == "person" else owner
    return replace(schema, row=row, rows=_find_own_plural(row), individual=owner, people=_find_own_plural(owner))


def _find_own_plural(word: str | None) -> str | None:
    """Return a word's plural where an s alone does not make it."""
    plural = None if word is None else _find_plural(word)
    return None if plural == f"{word}s" else plural


def _find_singular(words: list[str]) -> str | None:
    """Return the singular of the last word; None if it is not an English plural."""
    last = words[-1] if words else ""
    irregular = {several: one for one, several in _PLURALS.items()}
    if last in irregular:
        return irregular[last]
    if len(last) < 4 or not last.isascii() or not last.endswith("s") or last.endswith(_NO_PLURALS):
        return None
    if last.endswith("ies"):
        return f"{last[:-3]}y"
    return last[:-2] if last.endswith(("ses", "xes", "zes", "ches", "shes")) and _ends_so(last[:-2]) else last[:-1]


def _ends_so(word: str) -> bool:
    """Return whether a word takes es in the plural: box and branch do, nurse and case do not."""
    return word.endswith(("ss", "us", "x", "zz", "ch", "sh")) and not word.endswith(("ous", "aus"))


def _find_plural(word: str) -> str:
    if word in _PLURALS:
        return _PLURALS[word]
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if _ends_so(word) or word.endswith("s") else f"{word}s"


def _find_owner(words: list[str]) -> str | None:
    """Return whom a unit column's name speaks of: patient for patient_id, subject for subject; None if of nobody."""
    named = [word for word in words if word not in KEYS]
    if not named or not all(word.isascii() for word in named):
        return None
    last = _find_singular(named[-1:]) or named[-1]
    return last if last in PEOPLE or len(named) < len(words) else None
