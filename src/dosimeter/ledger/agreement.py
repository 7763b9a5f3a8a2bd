"""Check a reservation against its account and against all others, and write what it adds to the account.

Takes the checked chain, inside the transaction that reserves; gives nothing, or refuses. Never charges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dosimeter.errors import LedgerError
from dosimeter.ledger.accounting import admits_charge
from dosimeter.ledger.checked_chain import CheckedChain, RecordWriter
from dosimeter.ledger.holders import check_apart, check_holder, check_public, find_shared
from dosimeter.ledger.people import add_people, check_shared
from dosimeter.ledger.values import AccountSummary, Identification, Reservation
from dosimeter.problems import Option

if TYPE_CHECKING:
    from dosimeter.ledger.store import Transaction


def agree(
    transaction: Transaction, checked: CheckedChain, writer: RecordWriter, dataset: str, reservation: Reservation
) -> None:
    """Write what the reservation adds to the account: its opening, a continuation, its data's identities; or refuse."""
    account = checked.of(dataset).summary
    opening, continuation = reservation.opening, reservation.continuation
    agreed = opening or continuation
    if agreed is not None:
        check_holder(checked, dataset, reservation.request.source_digest, agreed.identities or frozenset())
        check_public(checked, agreed.public)
        if reservation.people is not None:
            check_shared(find_shared(transaction, checked, dataset, reservation.people), agreed.apart)
            add_people(transaction, dataset, reservation.people)
    if opening is not None:
        if account is not None:
            raise LedgerError(f"The dataset {dataset!r} has an account already; it cannot be opened again.")
        check_apart(checked.list_unidentified(), opening.apart)
        writer.append("account", opening.to_payload())
    if continuation is not None:
        if account is None:
            raise LedgerError(f"The dataset {dataset!r} has no account that could be continued.")
        writer.append("continue", continuation.to_payload())
    if reservation.identification is not None:
        write_identification(checked, writer, dataset, reservation.identification)


def write_identification(checked: CheckedChain, writer: RecordWriter, dataset: str, found: Identification) -> None:
    account = checked.of(dataset).summary
    if account is None or not account.is_of(found.schema_digest, found.source_digest):
        raise LedgerError(f"The account of {dataset!r} never agreed to these data: they cannot be identified.")
    if (found.schema_digest, found.source_digest) not in account.identified:  # another process may have been faster
        writer.append("identify", found.to_payload(checked.list_holders(dataset, found.identities)))


def check_reservation(dataset: str, account: AccountSummary | None, reservation: Reservation) -> None:
    """Refuse a reservation that the terms of the account do not allow, whatever the caller decided (O2, O3)."""
    if account is None:
        raise LedgerError(
            f"The dataset {dataset!r} has no account yet. Say with ", Option("policy"), " on which terms to open one."
        )
    request = reservation.request
    account.check_terms(algorithm=request.algorithm)
    if not account.is_of(request.schema_digest, request.source_digest):
        raise account.refuse_change(request.schema_digest, request.source_digest)
    charge = reservation.charge
    if charge.is_nothing:
        return
    if account.policy.in_zcdp != (charge.rho is not None):
        raise LedgerError(f"A charge has a ρ if the policy of its account counts ρ; that of {dataset!r} differs.")
    if not admits_charge(account.policy, account.reading, charge, max_epsilon=account.max_epsilon):
        raise LedgerError(f"The account of {dataset!r} does not admit this charge under its policy {account.policy}.")
