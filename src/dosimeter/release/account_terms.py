"""Check a release against its account's terms and data, and write down what is recorded of a request.

Takes a PreparedRelease and the ledger; gives values, or refuses before any data are measured. Charges nothing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dosimeter.errors import OptionError, SchemaError
from dosimeter.inspection import digest_individuals
from dosimeter.ledger import (
    MOST_KEPT,
    AccountOpening,
    AccountSummary,
    Continuation,
    Identification,
    KeptNumber,
    Ledger,
    People,
    Policy,
    Request,
    RequestCharges,
    SharedPeople,
    check_apart,
    check_shared,
    choose_algorithm,
    exact_decimal,
    refuse_stopped,
    write_decimal,
)
from dosimeter.planning import digest_measured
from dosimeter.problems import Option
from dosimeter.release.order import Terms
from dosimeter.release.ways.way import NO_WAY
from dosimeter.schema import Schema
from dosimeter.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

    from dosimeter.engines import Engine
    from dosimeter.ledger import Reading
    from dosimeter.release.measurable import Measurable
    from dosimeter.release.order import PreparedRelease


@dataclass(frozen=True, slots=True)
class Agreement:
    """The terms of the account that a release is charged to, and what is recorded in it before the charge.

    At most one of these three is set: ``opening`` opens a new account, ``continuation`` carries an account on to
    changed data or a changed schema, ``identification`` adds the identities by which the same data are recognised.
    ``identities``: of the data; None if the account already knows them. ``apart``: the other accounts of which the
    controller says that they hold other people. ``public``: the identities of public tables. ``people``: digests of
    whose data these are; None if nothing tells.
    """

    terms: AccountSummary | AccountOpening
    opening: AccountOpening | None = None
    continuation: Continuation | None = None
    identification: Identification | None = None
    identities: frozenset[str] | None = None
    apart: tuple[str, ...] = ()
    public: frozenset[str] = frozenset()
    people: People | None = None

    def identified_by(self, identities: frozenset[str] | None, schema: str, source: str) -> Agreement:
        """Return this agreement with the identities of the data, for the ledger to record; None if none are to be.

        ``schema`` and ``source``: the digests of the schema and of the data.
        """
        if identities is None:
            return self
        if self.opening is None and self.continuation is None:
            assert isinstance(self.terms, AccountSummary), "without an account there is an opening"
            if (schema, source) in self.terms.identified:
                return self
            found = Identification(schema_digest=schema, source_digest=source, identities=identities)
            return replace(self, identification=found, identities=identities)
        return self._record(identities=identities)

    def keep_found(self, before: Agreement) -> Agreement:
        """Return this agreement with what was found out about other accounts ``before`` the data were measured."""
        return replace(self._record(apart=before.apart, public=before.public), people=before.people)

    def _record(self, **found: Any) -> Agreement:
        """Return this agreement with what was found out, which its opening or continuation records."""
        return replace(
            self,
            opening=self.opening and replace(self.opening, **found),
            continuation=self.continuation and replace(self.continuation, **found),
            **found,
        )


def require_running(ledger: Ledger, schema: Schema) -> AccountSummary | None:
    """Return the dataset's account as it is now; None if it has none.

    Raises DatasetStopped if an incident has stopped the dataset (N4). A release checks this before anything else.
    """
    account = ledger.summary(schema.account_name)
    stopped = ledger.stopped(schema.account_name) if account is None else account.stopped
    if stopped is not None:
        ledger.stop_killed(schema.account_name)  # if it was a process that was killed, nobody may have recorded it yet
        raise refuse_stopped(schema.account_name)
    return account


def recognise_data(dataset: Measurable, account: AccountSummary | None) -> str:
    """Return the digest of the data as they are now, by which the account knows them if it does.

    The account may know them by other options that mean the same, such as the delimiter that the file has.
    """
    source = dataset.renew()
    known = {each for _, each in account.agreed} if account is not None else set()
    if not known or source in known:
        return source
    return min(known & dataset.engine.equal_fingerprints(), default=source)


def check_account(
    ledger: Ledger, prepared: PreparedRelease, source: str, engine: Engine, account: AccountSummary | None = None
) -> tuple[AccountSummary | None, Agreement]:
    """Check a release against its account before any data are measured, and return two values.

    They are the account, None if there is none; and its terms, with what the release would record in it. The identities
    of data that the account knows are not looked for: that takes a scan of the whole table. Refuses what contradicts
    the account's terms, and data that another account holds. ``account``: as it was when the release began; None to
    read it now. ``source``: the digest of the data.
    """
    account = account or ledger.summary(prepared.dataset)
    # First what can be refused without a scan; only a refusal of changed data takes one, to say what changed.
    agreement = agree_on_terms(
        account, prepared, source, held=lambda: ledger.share_held(prepared.dataset, engine.identities())
    )
    identities = None
    if account is None or (prepared.schema_digest, source) not in account.identified:
        identities = engine.identities()
        agreement = agreement.identified_by(identities, prepared.schema_digest, source)
    agreed = agreement.opening or agreement.continuation
    if identities is not None or agreed is not None:
        private, public = identities or frozenset(), engine.identities(public=True)
        _require_apart(private, public)
        if agreed is not None:
            ledger.check_holder(prepared.dataset, source, private, public)
            agreement = _compare_people(ledger, prepared, engine, replace(agreement, public=public))
    return account, agreement


def _compare_people(ledger: Ledger, prepared: PreparedRelease, engine: Engine, agreement: Agreement) -> Agreement:
    """Refuse an account for people whom another one may hold, unless the order says that they are ``other_people``.

    Return the agreement with digests of these people, and with the accounts of which that is said.
    """
    schema = prepared.plan.declared_schema or prepared.plan.schema
    people, shared = find_people(ledger, engine, schema, prepared.dataset)
    unidentified = () if agreement.opening is None else ledger.unidentified()
    if not prepared.order.other_people:
        check_apart(unidentified, ())
        check_shared(shared, ())
    return replace(agreement, apart=(*unidentified, *(each.account for each in shared)), people=people)


def find_people(
    ledger: Ledger, engine: Engine, schema: Schema, account: str
) -> tuple[People | None, tuple[SharedPeople, ...]]:
    """Return digests of whose data these are, and the other accounts that share some of them; for the controller.

    ``account``: the one that the data are for. Where rows are individuals nothing can be compared: (None, ()).
    """
    in_rows = schema.unit == "row"
    digests = None if in_rows else digest_individuals(engine, schema, ledger.people_key(), MOST_KEPT)
    if digests is None:
        return None, ()
    people = People(digests)
    return people, ledger.shared_people(account, people)


def _require_apart(private: frozenset[str], public: frozenset[str]) -> None:
    """Refuse a table that is declared public, but shares an identity with a private one: a copy, or a view over it.

    ``private``: the identities of the schema's private tables. ``public``: those of its public tables.
    """
    if not private.isdisjoint(public):
        raise SchemaError(
            "A table that the schema declares public is a copy of a private one, or a view over it. Its rows belong to "
            "individuals: a public table is one that nobody's data stand in."
        )


def agree_on_terms(
    account: AccountSummary | None,
    prepared: PreparedRelease,
    source: str,
    *,
    held: Callable[[], float] | None = None,
) -> Agreement:
    """Return the terms that the release is charged under, and what must be recorded in the account first.

    Without an account, these are the terms to open one. ``source``: the digest of the data. ``held``: tells which
    share of the stored data the account knows, however they are read. Refuses terms that contradict the account's, and
    changed data or a changed schema unless the order says ``continued``.
    """
    order, terms = prepared.order, prepared.order.terms
    schema = prepared.schema_digest
    policy = Policy.parse(terms.policy) if terms.policy is not None else None
    total, cap = _read_term(terms.delta_total, "delta_total"), _read_term(terms.max_epsilon, "max_epsilon")
    if account is None:
        if policy is None:
            raise OptionError(
                f"{prepared.dataset} has no account in this ledger yet. Choose how it may be spent: ",
                Option("policy", "paper"),
                ", ",
                Option("policy", "budget:E"),
                ", or ",
                Option("policy", "budget:E@D"),
                ".",
            )
        if policy.in_zcdp and prepared.group_delta and not total:
            raise OptionError(
                "Groups that nobody declared need a δ of their own. Say how much of the policy's δ is set aside for "
                "them: ", Option("delta_total", text="G"), ".",
            )  # fmt: skip
        opening = AccountOpening(
            policy=policy,
            algorithm=choose_algorithm(policy, order.way.algorithm),
            delta_total=policy.agree_on_delta(total, prepared.n),
            max_epsilon=cap,
            individuals=prepared.n,
            schema_digest=schema,
            source_digest=source,
        )
        return Agreement(opening, opening=opening)
    account.check_terms(algorithm=order.way.algorithm, policy=policy, delta_total=total, max_epsilon=cap)
    if account.is_of(schema, source):
        return Agreement(account)
    if not order.continued:
        raise account.refuse_change(schema, source, held=0.0 if held is None else held())
    by = order.approved_by or order.analyst
    continuation = Continuation(schema_digest=schema, source_digest=source, by=by)
    return Agreement(account, continuation=continuation)


def _read_term(value: float | str | None, name: str) -> Decimal | None:
    return None if value is None else exact_decimal(value, name=Option(name))


def find_charges(terms: AccountSummary | AccountOpening, prepared: PreparedRelease) -> RequestCharges:
    """Return what the release would be charged at each ε, and which ε's its account admits.

    ``terms``: the account, or the terms that it is about to be opened with; then nothing is spent yet.
    """
    reading = terms.reading if isinstance(terms, AccountSummary) else terms.policy.start(terms.delta_total)
    return _compute_charges(terms.policy, terms.max_epsilon, reading, prepared)


def expect_charges(terms: Terms, prepared: PreparedRelease) -> RequestCharges:
    """Return what the release would be charged at each ε by a new account with these terms, and which ε's it admits.

    For a dataset that has no account yet, and so has spent nothing.
    """
    policy = Policy.parse(terms.policy)
    reading = policy.start(policy.agree_on_delta(_read_term(terms.delta_total, "delta_total"), prepared.n))
    return _compute_charges(policy, _read_term(terms.max_epsilon, "max_epsilon"), reading, prepared)


def _compute_charges(
    policy: Policy, cap: Decimal | None, reading: Reading, prepared: PreparedRelease
) -> RequestCharges:
    return RequestCharges(
        policy=policy,
        max_epsilon=cap,
        reading=reading,
        epsilon_svt=prepared.epsilon_svt,
        delta=prepared.delta,
        group_delta=prepared.group_delta,
        find_rho=prepared.find_rho,
    )


def recall_number(ledger: Ledger, prepared: PreparedRelease, source: str) -> PreparedRelease:
    """Return the release with the number that an earlier noisy test drew and paid for, if the ledger keeps one (V8).

    With this number, ε is found again at no further cost. The release is returned unchanged if the ledger keeps no such
    number, or if the order says ``again``. ``source``: the digest of the data.
    """
    of = prepared.order.way.name_number(prepared, source)
    if of is None or prepared.order.again:
        return prepared
    return replace(prepared, kept=ledger.find_kept(prepared.dataset, of))


def keep_number(prepared: PreparedRelease, source: str, number: int | None) -> KeptNumber | None:
    """Return the number that the noisy test drew, for the ledger to keep and use again (V8).

    It comes with a digest of what it was drawn for: the query, the schema, the data and the test's settings. Returns
    None if ``number`` is None, or if the way to set ε draws no number that may be used again. ``number``: what the test
    drew, or None. ``source``: the digest of the data.
    """
    of = prepared.order.way.name_number(prepared, source)
    return None if of is None or number is None else KeptNumber(of, str(number))


def write_request(prepared: PreparedRelease, source: str) -> Request:
    order, mechanism = prepared.order, prepared.mechanism
    recorded = order.way.record()
    return Request(
        query=prepared.plan.sql,
        plan_digest=prepared.plan.digest,
        measured_digest=digest_measured(prepared.plan),
        schema_digest=prepared.schema_digest,
        source_digest=source,
        request_digest=digest_request(prepared, source),
        algorithm=order.way.algorithm,
        mechanism=mechanism.name,
        calibration=mechanism.calibration,
        delta=prepared.delta,
        software=f"dosimeter {__version__}",
        analyst=order.analyst,
        purpose=order.purpose,
        preference=recorded.preference,
        tau=recorded.tau,
        selection=recorded.selection,
        settings={
            "indicator": prepared.look.indicator,
            "candidates": _write_candidates(prepared.candidates),
            "min_rows": prepared.look.min_rows,
            **({"quantiles": "ranks"} if prepared.plan.ranks else {}),
            **({} if prepared.look.group_delta is None else {"group_delta": prepared.look.group_delta}),
            **({} if prepared.look.tell_cut is None else {"tell_cut": prepared.look.tell_cut}),
            **recorded.settings,
            **order.record(),
        },
    )


@lru_cache(maxsize=64)
def _write_candidates(epsilons: tuple[float, ...]) -> str:
    return ",".join(write_decimal(exact_decimal(epsilon)) for epsilon in epsilons)


def digest_request(prepared: PreparedRelease, source_digest: str) -> str:
    """Return the digest that identifies a request: the same for the same query on the same data by the same rules.

    Neither the analyst nor clamping counts: clamping changes only numbers that were released already. A change of this
    function makes every ledger in use charge again for what it has already answered.
    """
    way = prepared.order.way
    content = {
        "plan": prepared.plan.digest,
        "source": source_digest,
        "mechanism": [prepared.mechanism.name, prepared.mechanism.calibration, write_decimal(prepared.delta)],
        "algorithm": way.algorithm,
        **NO_WAY,
        **way.identify(prepared.look, prepared.candidates),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
