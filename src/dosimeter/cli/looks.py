"""``--ledger`` of ``risk`` and ``find``, ``--release`` of ``risk``: record a look in the ledger, read the account."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dosimeter.errors import LedgerError, OptionError
from dosimeter.json_values import JsonObject

if TYPE_CHECKING:
    from dosimeter.assessment import Risk
    from dosimeter.dataset import Dataset
    from dosimeter.ledger import AccountSummary
    from dosimeter.release import ExPostRisk

LEDGER_TARGET = click.option(
    "--ledger", metavar="L", help="Record in this ledger that it was looked at. find honours the account."
)
RELEASE_ID = click.option("--release", metavar="ID", help="With --ledger: the risk by the answer that this entry gave.")


def check_ledger_options(target: str | None, release: str | None, schema: object, **others: object) -> None:
    """Refuse ``--ledger`` without ``--schema``, ``--release`` without ``--ledger``, and ``others`` with ``--release``.

    ``target``: the value of ``--ledger``. ``others``: the values of further options by name, such as ``top`` and
    ``plot``; None or empty if one was not given. ``--release`` excludes them, as it shows one answer at its own ε.
    """
    if target is not None and schema is None:
        raise OptionError("--ledger goes with --schema: an account belongs to the table that the schema names.")
    if release is None:
        return
    if target is None:
        raise OptionError("--release goes with --ledger: name the ledger that the entry is in.")
    given = [f"--{name}" for name, value in others.items() if value]
    if given:
        raise OptionError(f"--release shows one answer. Leave {', '.join(given)} out.")


def record_look(target: str, dataset: Dataset, risk: Risk) -> AccountSummary | None:
    """Record in the ledger that the risk was looked at, before anything is shown (G1). Return the dataset's account.

    Return None if the dataset has no account yet.
    """
    from dosimeter.ledger import Ledger
    from dosimeter.planning import digest_measured

    with Ledger.open(target) as ledger:
        ledger.record_view(dataset.schema.account_name, digest_measured(risk.plan), "risk")
        return ledger.summary(dataset.schema.account_name)


def describe_reading(account: AccountSummary | None, risk: Risk) -> JsonObject:
    """Return, as JSON, the account's reading and the candidates that the account no longer admits.

    The reading is 0 without an account, and null if it is infinite.
    """
    if account is None:
        return {"reading": 0.0, "cut_off": []}
    from dosimeter.release import charge_plan

    left = set(charge_plan(account, risk.plan, risk.mechanism).remaining(risk.candidates))
    reading = None if account.reading.infinite else float(account.reading.epsilon)
    return {"reading": reading, "cut_off": [epsilon for epsilon in risk.candidates if epsilon not in left]}


def look_back(target: str, release: str, dataset: Dataset, sql: str) -> ExPostRisk:
    """Return how one released answer exposed everybody, and record the look in the ledger.

    ``target``: the ledger. ``release``: the id of the answer's entry in it. ``sql``: the query that the entry must be
    the answer to. Raises LedgerError if this dataset has no such entry, or if the entry is no answer to ``sql``.
    """
    from dosimeter.ledger import Ledger
    from dosimeter.release import ex_post_risk

    with Ledger.open(target, create=False) as ledger:
        entry = ledger.entry(release)
        if entry is None or entry.dataset != dataset.schema.account_name:
            raise LedgerError(
                f"The ledger has no entry {release} of {dataset.schema.account_name}. See: dosimeter ledger {target}"
            )
        found = ex_post_risk(dataset, entry, sql)
        asked = entry.request
        ledger.record_view(entry.dataset, asked.measured_digest or asked.plan_digest, "risk", analyst=asked.analyst)
    return found
