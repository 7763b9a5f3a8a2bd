"""Refuse to open or continue an account for data, or for people, that another account of the ledger holds.

Takes what the checked chain says of every account; gives an error, or nothing. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dosimeter.errors import LedgerError
from dosimeter.ledger.incidents import refuse_stopped
from dosimeter.ledger.people import People, SharedPeople, compare_people
from dosimeter.problems import Option

if TYPE_CHECKING:
    from dosimeter.ledger.checked_chain import CheckedChain
    from dosimeter.ledger.store import Transaction


def check_holder(checked: CheckedChain, dataset: str, source_digest: str, identities: frozenset[str]) -> None:
    """Refuse stored data that are stopped, that another account holds or once held, or that another called public.

    ``identities``: of the stored tables or files.
    """
    for holder, replay in checked.each():
        if any(not incident.identities.isdisjoint(identities) for incident in replay.open_incidents):
            raise refuse_stopped(holder)
        if holder != dataset and (replay.held(source_digest) or replay.shares(identities)):
            raise LedgerError(
                f"The same data have the account {holder!r} in this ledger, or some of them do; releases of them "
                f'belong there: use account = "{holder}" in the schema.'
            )
        if holder != dataset and replay.calls_public(identities):
            raise LedgerError(
                f"A schema of the account {holder!r} declares a table of these data public, and this schema declares "
                "it private: its rows belong to individuals, or to nobody. If to individuals, declare it private there "
                f'too and use account = "{holder}" here, so that both spend one budget.'
            )


def check_public(checked: CheckedChain, public: frozenset[str]) -> None:
    """Refuse tables that are declared public, and that an account protects. ``public``: their identities."""
    for holder, replay in checked.each():
        if replay.shares(public):
            raise LedgerError(
                f"A table that the schema declares public holds people whom the account {holder!r} protects. Declare "
                "it private: leave public = true out of its section and name its unit."
            )


def check_apart(unidentified: Sequence[str], apart: Sequence[str]) -> None:
    """Refuse to open an account while one of the ``unidentified`` accounts might hold the same people.

    ``unidentified``: accounts whose data have no known identities. ``apart``: accounts known to hold other people.
    """
    unknown = [name for name in unidentified if name not in apart]
    if unknown:
        raise LedgerError(
            f"The account {unknown[0]!r} was opened by an earlier version, and the ledger does not know yet which data "
            "it is of: they might be these. Release from it once, which writes that down (an answer that is repeated "
            "is enough, and costs nothing); or, if it holds other people, say so: ",
            Option("other_people", True),
            ".",
        )


def find_shared(
    transaction: Transaction, checked: CheckedChain, dataset: str, people: People
) -> tuple[SharedPeople, ...]:
    """Return the accounts that share individuals with data for the account ``dataset``, the one with most first.

    Two accounts are left out if it was said of one that the other holds other people.
    """
    said = checked.of(dataset).apart
    found = compare_people(transaction, dataset, people)
    return tuple(each for each in found if each.account not in said and dataset not in checked.of(each.account).apart)
