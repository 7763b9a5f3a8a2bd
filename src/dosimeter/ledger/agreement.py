"""Check a reservation against its account and against all others, and write what it adds to the account.

Takes the checked chain, inside the transaction that reserves; gives nothing, or refuses. Never charges.
"""

from __future__ import annotations

from collections.abc import Sequence

from dosimeter.errors import LedgerError
from dosimeter.ledger.accounting import admits_charge
from dosimeter.ledger.checked_chain import CheckedChain, RecordWriter
from dosimeter.ledger.incidents import refuse_stopped
from dosimeter.ledger.values import AccountSummary, Identification, Reservation
from dosimeter.problems import Option


def agree(checked: CheckedChain, writer: RecordWriter, dataset: str, reservation: Reservation) -> None:
    """Write what the reservation adds to the account: its opening, a continuation, its data's identities; or refuse."""
    account = checked.of(dataset).summary
    opening, continuation = reservation.opening, reservation.continuation
    agreed = opening or continuation
    if agreed is not None:
        check_holder(checked, dataset, reservation.request.source_digest, agreed.identities or frozenset())
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


def check_holder(checked: CheckedChain, dataset: str, source_digest: str, identities: frozenset[str]) -> None:
    for holder, replay in checked.each():
        if any(not incident.identities.isdisjoint(identities) for incident in replay.open_incidents):
            raise refuse_stopped(holder)
        if holder != dataset and (replay.held(source_digest) or replay.shares(identities)):
            raise LedgerError(
                f"The same data have the account {holder!r} in this ledger, or some of them do; releases of them "
                f'belong there: use account = "{holder}" in the schema.'
            )


def check_public(checked: CheckedChain, public: frozenset[str]) -> None:
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
