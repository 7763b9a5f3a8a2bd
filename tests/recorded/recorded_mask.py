"""Replace what may change from run to run by markers: times, entries, digests of records, noise, and wording.

Keys, the number of items and the types stay. Entries and digests are numbered in the order in which a story first
shows them, so that which of them are the same can still be seen.
"""

from __future__ import annotations

import re
from typing import Any

WORDING = {"notes", "guarantee", "message", "problem", "remark", "remedy", "words", "theirs", "here", "title"}
WORDING_IN_LISTS = {"why"}  # of one person it is a fact, "count from 1 to 0", and stays
REASON_CODES = {"budget", "reading", "cap", "delta", "preference", "chosen", "noisy test", "incident"}
TIMES = {"at", "created_at"}
NOISY = {"answer", "measured", "errors"}
FIRST_OF_CHAIN = "0" * 64
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
ENTRY = re.compile(r"[0-9a-f]{16}")
DIGEST = re.compile(r"[0-9a-f]{64}")


class Mask:
    """The markers of one story. ``exact``: its answers are without noise (ε is enormous), and are kept."""

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}
        self._digests: dict[str, str] = {}

    def apply(self, document: Any, *, exact: bool = False, noisy: frozenset[str] = frozenset()) -> Any:
        """Return the document with markers. ``noisy``: further keys whose numbers hang on the noise."""
        return self._walk(document, "", noisy if exact else noisy | NOISY)

    def resolve(self, word: str) -> str:
        """Return a command's word with ``<entry 1>`` and ``<digest 1>`` replaced by what they stand for."""
        for known in (self._entries, self._digests):
            for value, marker in known.items():
                word = word.replace(marker, value)
        return word

    def _walk(self, value: Any, key: str, noisy: frozenset[str] | set[str]) -> Any:
        if key in ("salt", "lock"):  # drawn at random
            return f"<{key}>"
        if key == "about":
            return ["<words>"]  # some facts hang on the noise: a count below 0, too few people to tell
        if key in noisy:
            return None if value is None else _mask_numbers(value, strings=key == "measured")
        if isinstance(value, dict):
            chained = "seq" in value or "previous" in value
            return {
                name: self._number(self._digests, "digest", inner)
                if name in ("head", "previous") or (chained and name == "digest")
                else self._walk(inner, name, noisy)
                for name, inner in value.items()
            }
        if isinstance(value, list):
            return ["<words>" if key in WORDING_IN_LISTS else self._walk(inner, key, noisy) for inner in value]
        return self._mask_text(value, key) if isinstance(value, str) else value

    def _mask_text(self, text: str, key: str) -> str:
        if key in WORDING or (key == "reason" and text not in REASON_CODES):
            return "<words>"
        if key in TIMES and TIME.fullmatch(text):
            return "<time>"
        if key in ("id", "entry", "release") and ENTRY.fullmatch(text):
            return str(self._number(self._entries, "entry", text))
        if key == "number":  # that a noisy test drew, as the ledger keeps it
            return "<noisy number>"
        if key == "password":
            return "<password>"
        if key == "software":
            return re.sub(r"\d+(\.\d+)+\S*", "<version>", text)
        return text

    def _number(self, known: dict[str, str], name: str, value: Any) -> Any:
        if (
            not isinstance(value, str)
            or value == FIRST_OF_CHAIN
            or not (ENTRY if name == "entry" else DIGEST).fullmatch(value)
        ):
            return value
        return known.setdefault(value, f"<{name} {len(known) + 1}>")


def _mask_numbers(value: Any, *, strings: bool) -> Any:
    if isinstance(value, dict):
        return {name: _mask_numbers(inner, strings=strings) for name, inner in value.items()}
    if isinstance(value, list):
        return [_mask_numbers(inner, strings=strings) for inner in value]
    if isinstance(value, bool):
        return value
    if value is None:  # too few people to tell, by chance
        return "<noisy float>"
    if isinstance(value, str):
        return "<noisy number>" if strings else value
    return "<noisy integer>" if isinstance(value, int) else "<noisy float>"
