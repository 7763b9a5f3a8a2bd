"""Everything that a study draws. Nothing here touches an answer of a query: noise is in ``release/noise.py``.

Seeded, so that a study can be repeated: which rows of the data are the sample, and which group and order of queries
the participants get. Assignment is block-randomised: every block holds each pair of a group and an order once, so
after each full block the groups, and the orders within each, are exactly equal in size. A block is drawn from the
seed and its own number alone; it does not matter when, or by which process, it is drawn.

Not seeded, from the system: tokens, participant numbers and the name of a study.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dosimeter.errors import DataError

QueryName = Literal["q1", "q2"]
QUERY_NAMES: tuple[QueryName, QueryName] = ("q1", "q2")
_SAMPLE, _ASSIGNMENT = 1, 2  # one stream per purpose: the sample says nothing about the groups


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one participant is assigned: a group, and the query that they see first."""

    group: str
    first_query: QueryName


def draw_sample(rows: int, size: int, *, seed: int) -> list[int]:
    """Draw ``size`` rows from a table of ``rows`` rows, each at most once; return their indices, from 0, ascending.

    Raises DataError if there are too few rows.
    """
    if rows < size:
        raise DataError(
            f"The data has {rows} records, and the study shows {size}. Give the whole of Adult with --data."
        )
    drawn = np.random.default_rng([seed, _SAMPLE]).choice(rows, size=size, replace=False)
    return sorted(int(row) for row in drawn)


def draw_assignment(slot: int, groups: Sequence[str], *, seed: int) -> Assignment:
    """Return the assignment of the ``slot``-th participant who passed the quiz, counted from 0."""
    cells = [Assignment(group, first) for group in groups for first in QUERY_NAMES]
    block, place = divmod(slot, len(cells))
    order = np.random.default_rng([seed, _ASSIGNMENT, block]).permutation(len(cells))
    return cells[int(order[place])]


def make_token() -> str:
    """Return 256 random bits as text, for the cookie by which a participant can resume."""
    return secrets.token_urlsafe(32)


def digest_token(token: str) -> str:
    """Return the digest that is stored in place of a token. Nobody can resume by the digest alone."""
    return hashlib.sha256(token.encode()).hexdigest()


def make_participant_number() -> int:
    """Return a number of eight digits that does not tell when or in which order somebody came."""
    return 10_000_000 + secrets.randbelow(90_000_000)


def make_study_name() -> str:
    """Return a random name for a study, which keeps the cookies of two studies apart."""
    return secrets.token_hex(4)
