"""Remember whose data each account holds, as keyed digests, and tell how many individuals two accounts share.

The digests are pseudonyms, and so personal data. They lie in a table of their own, outside the chain of records: no
export, head or checkpoint holds or depends on them, and a controller can erase them without breaking the chain. The key
is random and belongs to one ledger, so that digests of two ledgers cannot be compared.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dosimeter.errors import LedgerError
from dosimeter.html import Private
from dosimeter.problems import ASKING, Hint, Option, Surface

if TYPE_CHECKING:
    from dosimeter.ledger.store import Transaction

MOST_KEPT = 1 << 17
"""The most digests that are kept of one account: 1 MB. Of more individuals, those with the smallest digests are kept.

A digest is as good as random, so these are a random sample, and of two accounts the same individuals are sampled.
"""
_KEY = ""  # where the key stands among the accounts, of which none has an empty name


@dataclass(frozen=True, slots=True, repr=False)
class People(Private):
    """Digests of the individuals of some data, as whole numbers below 2⁶⁴; at most ``MOST_KEPT``, the smallest."""

    digests: frozenset[int]

    @property
    def limit(self) -> int:
        """Return the number up to which all digests are known; every digest lies below 2⁶⁴."""
        return max(self.digests) if len(self.digests) >= MOST_KEPT else 2**64

    def join(self, others: People) -> People:
        """Return the individuals of both."""
        return People(frozenset(sorted(self.digests | others.digests)[:MOST_KEPT]))

    def to_text(self) -> str:
        return base64.b64encode(b"".join(digest.to_bytes(8) for digest in sorted(self.digests))).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> People:
        """Return the individuals that ``to_text`` wrote. Raises LedgerError for any other text."""
        try:
            stored = base64.b64decode(text, validate=True)
        except ValueError:
            stored = b"?"
        if len(stored) % 8:
            raise LedgerError(
                "The ledger's digests of individuals are damaged. Restore a backup, or delete them: "
                "DELETE FROM dosimeter_ledger_people."
            )
        return cls(frozenset(int.from_bytes(stored[at : at + 8]) for at in range(0, len(stored), 8)))


@dataclass(frozen=True, slots=True)
class SharedPeople:
    """How many individuals of some data have the key of one in an ``account``. For the controller alone.

    ``compared``: how many of the data's individuals were compared; ``everybody``: whether these were all of them, and
    compared with everybody in the account.
    """

    account: str
    shared: int
    compared: int
    everybody: bool

    def __str__(self) -> str:
        whose = "of this table" if self.everybody else "of this table that were compared"
        return (
            f"{self.shared:,} of {self.compared:,} individuals {whose} have the same keys as individuals of the "
            f"account {self.account!r} in this ledger."
        )

    def refuse(self) -> LedgerError:
        """Return the error to raise unless the controller says that these are other people."""
        return LedgerError(
            str(self),
            Hint(
                f'If they are the same people, use account = "{self.account}" in the schema and give ',
                Option("continued", True), ": that account and its reading go on. If they are other people, say so: ",
                Option("other_people", True), ".", surfaces=ASKING,
            ),
            Hint(
                f'If they are the same people, the schema needs account = "{self.account}", and the server a new '
                "start. If they are other people, say so when you confirm.",
                surfaces=[Surface.WEB, Surface.SETTINGS],
            ),
        )  # fmt: skip


def find_key(transaction: Transaction) -> str | None:
    """Return the key of this ledger's digests; None if it has none yet."""
    return transaction.read_people().get(_KEY)


def make_key(transaction: Transaction) -> str:
    """Return the key of this ledger's digests, after making one if there is none. The transaction must be writing."""
    key = find_key(transaction)
    if key is None:
        key = secrets.token_hex(16)
        transaction.write_people(_KEY, key)
    return key


def compare_people(transaction: Transaction, dataset: str, people: People) -> tuple[SharedPeople, ...]:
    """Return the accounts, except ``dataset``, that share individuals with some data; the one with most comes first."""
    found = []
    for account, text in transaction.read_people().items():
        if account not in (_KEY, dataset):
            others = People.from_text(text)
            limit = min(people.limit, others.limit)
            compared = {digest for digest in people.digests if digest <= limit}
            shared = len(compared & others.digests)
            if shared:
                found.append(SharedPeople(account, shared, len(compared), everybody=limit == 2**64))
    return tuple(sorted(found, key=lambda each: -each.shared))


def add_people(transaction: Transaction, dataset: str, people: People) -> None:
    """Add the individuals of some data to those of an account."""
    known = transaction.read_people().get(dataset)
    both = people if known is None else people.join(People.from_text(known))
    transaction.write_people(dataset, both.to_text())


def check_shared(shared: Sequence[SharedPeople], apart: Sequence[str]) -> None:
    """Refuse data that share individuals with another account, unless this account is known to hold other people.

    ``apart``: the accounts known to hold other people.
    """
    unknown = [each for each in shared if each.account not in apart]
    if unknown:
        raise unknown[0].refuse()
