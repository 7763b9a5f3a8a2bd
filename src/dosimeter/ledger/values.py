"""The frozen values that go into the ledger and come out of it. Checked at construction; no database, no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from dosimeter.errors import LedgerError
from dosimeter.json_values import JsonObject, JsonValue, read_list, read_optional_text, read_text
from dosimeter.ledger.accounting import Policy
from dosimeter.ledger.decimals import exact_decimal, write_decimal
from dosimeter.ledger.entries import (
    ACCOUNT_ALGORITHMS,
    REASONS,
    RESERVED,
    AccountAlgorithm,
    Algorithm,
    DenialReason,
    Entry,
    KeptNumber,
    ReleasedAnswer,
    Request,
    check_choice,
)
from dosimeter.ledger.incidents import Incident
from dosimeter.ledger.people import People
from dosimeter.ledger.readings import Charge, Reading
from dosimeter.ledger.records import check_text, write_fields, write_value
from dosimeter.ledger.remaining import CURVE, Remaining, find_remaining
from dosimeter.problems import ASKING, Hint, Option, Piece, Surface

Pair = tuple[str, str]
"""The digests of a schema and of a source of data. An account agrees to such pairs."""


def _write_agreed(agreed: AccountOpening | Continuation, *left_out: str) -> JsonObject:
    """Return the payload of what was agreed to. Without public tables, or people found, it is as before these."""
    missing = [name for name in ("public", "individuals") if not getattr(agreed, name)]
    return write_fields(agreed, *left_out, *missing)


def read_apart(payload: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Return the accounts that a payload says to hold other people; empty if it says nothing of that."""
    return tuple(map(read_text, read_list(payload.get("apart", ()))))


def read_identities(payload: JsonValue) -> frozenset[str] | None:
    """Return the identities in a record's payload; None if they are not known, which differs from an empty set."""
    return None if payload is None else frozenset(map(read_text, read_list(payload)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountTerms:
    """The terms of a dataset's account, which never change (O2, O3), and a schema and source that it agrees to.

    ``algorithm``: how the ε's of its answers may be set. ``delta_total``: δ_g, the most that the charged δ's may add up
    to. ``max_epsilon``: the largest ε of one answer; None without a cap. ``individuals``: how many are declared; of an
    account that a search opened, how many it found.
    """

    policy: Policy
    algorithm: AccountAlgorithm
    delta_total: Decimal
    max_epsilon: Decimal | None
    individuals: int
    schema_digest: str
    source_digest: str

    @property
    def notes(self) -> tuple[str, ...]:
        """Return warnings for the controller about the account's terms; empty if there are none."""
        warning = self.policy.warn(self.delta_total, self.individuals)
        return () if warning is None else (warning,)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountOpening(AccountTerms):
    """The opening of a dataset's account, on these terms.

    ``identities``: of the stored data (``engines/identities.py``); None if they are not known. ``apart``: the accounts
    of which the controller said that they hold other people. ``public``: the identities of the tables that the schema
    declares public.
    """

    identities: frozenset[str] | None = None
    apart: tuple[str, ...] = ()
    public: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        check_choice(self.algorithm, ACCOUNT_ALGORITHMS, "The algorithm")
        check_text(self.schema_digest, "The schema's digest")
        check_text(self.source_digest, "The source's digest")
        object.__setattr__(self, "delta_total", exact_decimal(self.delta_total, name=Option("delta_total")))
        if self.delta_total > 1:
            raise LedgerError(Option("delta_total"), " must not be larger than 1.")
        self.policy.agree_on_delta(self.delta_total, self.individuals)
        if self.max_epsilon is not None:
            object.__setattr__(self, "max_epsilon", exact_decimal(self.max_epsilon, name=Option("max_epsilon")))
        if self.max_epsilon == 0:
            raise LedgerError(Option("max_epsilon"), " must be larger than 0.")
        if type(self.individuals) is not int or self.individuals < 1:
            raise LedgerError("The number of individuals must be a whole number of at least 1.")

    def to_payload(self) -> JsonObject:
        return {**_write_agreed(self, "policy"), "policy": str(self.policy)}

    @classmethod
    def from_payload(cls, payload: Mapping[str, JsonValue]) -> AccountOpening:
        """Return the opening in a record of any version; version 1 has neither identities nor ``apart``."""
        cap, individuals = read_optional_text(payload["max_epsilon"]), payload["individuals"]
        if not isinstance(individuals, int):
            raise TypeError
        return cls(
            policy=Policy.parse(read_text(payload["policy"])),
            algorithm=check_choice(payload["algorithm"], ACCOUNT_ALGORITHMS, "The algorithm"),
            delta_total=exact_decimal(read_text(payload["delta_total"])),
            max_epsilon=None if cap is None else exact_decimal(cap),
            individuals=individuals,
            schema_digest=read_text(payload["schema_digest"]),
            source_digest=read_text(payload["source_digest"]),
            identities=read_identities(payload.get("identities")),
            apart=read_apart(payload),
            public=read_identities(payload.get("public")) or frozenset(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """Somebody's statement that data or schema changed and the people are the same, so that the account goes on.

    The digests and ``identities`` are those of the new schema and data, ``apart`` and ``public`` as in
    ``AccountOpening``. ``by``: who said it. ``at``: when it was said; the ledger adds it. ``individuals``: how many
    there are, of an account that a search opened before they were counted (B1); None if that changes nothing.
    """

    schema_digest: str
    source_digest: str
    by: str | None = None
    identities: frozenset[str] | None = None
    at: str = ""
    apart: tuple[str, ...] = ()
    public: frozenset[str] = frozenset()
    individuals: int | None = None

    def __post_init__(self) -> None:
        check_text(self.schema_digest, "The schema's digest")
        check_text(self.source_digest, "The source's digest")

    def to_payload(self) -> JsonObject:
        return _write_agreed(self, "at")

    @classmethod
    def from_payload(cls, payload: Mapping[str, JsonValue], at: str) -> Continuation:
        """Return the continuation in a record of any version; version 1 has no identities."""
        return cls(
            schema_digest=read_text(payload["schema_digest"]),
            source_digest=read_text(payload["source_digest"]),
            by=read_optional_text(payload["by"]),
            identities=read_identities(payload.get("identities")),
            at=at,
            apart=read_apart(payload),
            public=read_identities(payload.get("public")) or frozenset(),
            individuals=individuals if isinstance(individuals := payload.get("individuals"), int) else None,
        )

    def describe(self) -> JsonObject:
        """Return the JSON form: when it was said, by whom, and the digests of the new schema and data."""
        return {name: getattr(self, name) for name in ("at", "by", "schema_digest", "source_digest")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identification:
    """The identities of the stored data behind a schema and a source, to be added to an account of version 0.1.0.

    Such accounts were opened without identities.
    """

    schema_digest: str
    source_digest: str
    identities: frozenset[str]

    def to_payload(self, overlaps: Sequence[str]) -> JsonObject:
        """Return the record's payload. ``overlaps``: other accounts that turn out to hold the same data."""
        return {**write_fields(self), "overlaps": list(overlaps)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A decision about a request, to be written before anything is released.

    ``status``: "reserved" if an answer may follow at this charge; "denied" if none follows. The charge of a denial is
    ε_svt if the noisy test was run, and the δ of thresholded groups if these were read (H1); otherwise nothing (O1).
    ``opening``, ``continuation``, ``identification``: what is recorded in the account before the charge; None for what
    is not. ``viewed``: whether the caller knows of a look at the risk or a dry run; the ledger adds the looks that it
    knows of (G1). ``reason``: why it is denied, for the controller. ``kept``: a noisy number that may be used again,
    even after a denial, since the test was paid for (V8). ``people``: whose data an opening or a continuation brings;
    None if that is not known.
    """

    request: Request
    charge: Charge
    status: Literal["reserved", "denied"] = "reserved"
    opening: AccountOpening | None = None
    continuation: Continuation | None = None
    identification: Identification | None = None
    viewed: bool = False
    reason: DenialReason | None = None
    kept: KeptNumber | None = None
    people: People | None = None

    def __post_init__(self) -> None:
        check_choice(self.status, RESERVED, "A reservation's status")
        if self.reason is not None:
            check_choice(self.reason, REASONS, "The reason")
        if self.reason is not None and self.status != "denied":
            raise LedgerError("Only a denial has a reason.")
        if self.status == "reserved" and self.charge.epsilon == 0:
            raise LedgerError("A reservation for an answer must charge an epsilon larger than 0.")
        # A reason can lie in the data: then the groups of the data were read, and their δ may be charged (H1).
        if self.status == "denied" and (self.charge.epsilon != 0 or (self.charge.delta != 0 and self.reason is None)):
            raise LedgerError("A denial charges nothing but epsilon_svt, and only if the noisy test was run.")
        if self.opening is not None and self.status == "denied" and self.charge.is_nothing:
            raise LedgerError("A denial that charges nothing opens no account.")
        if self.opening is not None and self.continuation is not None:
            raise LedgerError("An account that is being opened cannot be continued at the same time.")


def write_decision(reservation: Reservation) -> JsonObject:
    """Return the fields ``reason``, ``kept`` and ``rho`` of a reservation's record, without those that are None."""
    given = {
        "reason": reservation.reason,
        "kept": None if reservation.kept is None else write_fields(reservation.kept),
        "rho": write_value(reservation.charge.rho),
    }
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AccountSummary(AccountTerms):
    """An account as it is now, without its entries: everything that a release needs of it.

    ``schema_digest`` and ``source_digest``: the latest pair that the account agreed to, by its opening or a
    continuation; ``agreed``: all such pairs, the latest last. ``identified``: the pairs for which the identities of the
    stored data are known; ``identities``: the identities of all these data. ``overlaps``: other accounts that turned
    out to hold the same data, once the identities of data in an account of version 0.1.0 were found. ``unsettled``: how
    many entries are reserved and have no outcome.
    """

    dataset: str
    opened_at: str
    reading: Reading
    stopped: Incident | None = None
    agreed: tuple[Pair, ...] = ()
    identified: frozenset[Pair] = frozenset()
    identities: frozenset[str] = frozenset()
    overlaps: tuple[str, ...] = ()
    entry_count: int = 0
    unsettled: int = 0

    def check_terms(
        self,
        *,
        algorithm: Algorithm,
        policy: Policy | None = None,
        delta_total: Decimal | None = None,
        max_epsilon: Decimal | None = None,
    ) -> None:
        """Refuse terms that contradict those of the account. A term that is None contradicts nothing."""
        asked_and_agreed = (
            ("policy", policy, self.policy),
            ("delta_total", delta_total, self.delta_total),
            ("max_epsilon", max_epsilon, self.max_epsilon),
        )
        for option, asked, agreed in asked_and_agreed:
            if asked is not None and asked != agreed:
                raise LedgerError(
                    f"The account of {self.dataset!r} was opened with ", *_name_term(option, agreed),
                    ", which cannot be changed.",
                    Hint("Leave ", Option(option), " out.", surfaces=ASKING), _SET_BACK,
                )  # fmt: skip
        if not _holds(self.algorithm, algorithm):  # O3
            raise LedgerError(
                "The account" if self.algorithm == "mixed" else "An account uses one algorithm. That",
                f" of {self.dataset!r} was opened for ", *_name_way(self.algorithm),
                "; this release asks for ", *_name_way(algorithm), ".",
                Hint(
                    "Ask as the account was opened, or keep releases by the other algorithm in a ledger of their own: ",
                    Option("ledger"), " with another file.", surfaces=ASKING,
                ), _SET_BACK,
            )  # fmt: skip

    def is_of(self, schema_digest: str, source_digest: str) -> bool:
        """Return whether the account ever agreed to this schema and source; if not, it must be continued."""
        return (schema_digest, source_digest) in self.agreed

    def latest_source(self, schema_digest: str) -> str | None:
        """Return the digest of the latest data that the account agreed to under this schema; None without any."""
        return next((source for schema, source in reversed(self.agreed) if schema == schema_digest), None)

    def refuse_change(self, schema_digest: str, source_digest: str, *, held: float = 0.0) -> LedgerError:
        """Return the error to raise for a release with a schema or a source that the account has not agreed to.

        ``held``: which share of the stored data the account knows; with 1, only the way they are read is new.
        """
        return LedgerError(
            self._tell_change(schema_digest, source_digest, held),
            Hint(
                "If the people are the same, give ", Option("continued", True), ": the account and its reading go on. "
                "If they are others, give the dataset another name.", surfaces=ASKING,
            ),
            Hint(
                "If the people are the same, say so when you confirm: the account and its reading go on.",
                surfaces=[Surface.WEB],
            ),
        )  # fmt: skip

    def _tell_change(self, schema_digest: str, source_digest: str, held: float) -> str:
        """Return a sentence that says whether the data, the schema or both are new to the account."""
        head = f"The account of {self.dataset!r} belongs to"
        if any(schema_digest == schema for schema, _ in self.agreed):
            if held == 1.0:
                return f"{head} these data read in another way: what is stored did not change, the options did."
            if held > 0.0:
                return (
                    f"{head} other data: part of what is stored is the same (of a .gz, what is packed in it), part is "
                    "not. The schema did not change."
                )
            return f"{head} other data: the data changed since it was last used, the schema did not."
        if any(source_digest == source for _, source in self.agreed):
            return f"{head} another schema: the schema changed since it was last used, the data did not."
        return f"{head} other data and another schema: both changed since it was last used."

    @property
    def remaining(self) -> Remaining:
        """Return what is left of the budget, and how many more answers fit."""
        return find_remaining(self.policy, self.reading, self.max_epsilon, self.individuals)

    @property
    def curve(self) -> tuple[tuple[Decimal, Decimal], ...] | None:
        """Return pairs (δ, ε): the reading's ε at several δ's, the policy's own included; None if ε's are added up.

        Only a sum of ρ can be read at several δ's (O4).
        """
        own = self.policy.delta
        return None if own is None else self.reading.curve(sorted({own, *CURVE}, reverse=True))

    def __repr__(self) -> str:
        terms = f"policy={str(self.policy)!r}, algorithm={self.algorithm!r}, entries={self.entry_count}"
        return f"{type(self).__name__}(dataset={self.dataset!r}, {terms}; the reading is private)"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Account(AccountSummary):
    """The account of one dataset with its whole history."""

    entries: tuple[Entry, ...]
    continuations: tuple[Continuation, ...] = ()

    def released_answers(self) -> tuple[ReleasedAnswer, ...]:
        """Return every released answer, the latest last, as all analysts of this dataset may see it.

        They do not say who asked and why. They have neither ε nor errors if ε was found from the data (G2). Somebody
        who knows this list learns nothing more when the ledger answers the same question again.
        """
        return tuple(entry.publish() for entry in self.entries if entry.status == "released")

    def describe(self) -> JsonObject:
        """Return the JSON form. An infinite reading is null: JSON has no infinity."""
        return {
            "dataset": self.dataset,
            "epsilon": None if self.reading.infinite else float(self.reading.epsilon),
            "delta": float(self.reading.delta),
            "rho": None if self.reading.rho is None else float(self.reading.rho),
            "curve": _describe_curve(self.curve),
            "remaining": self.remaining.describe(),
            "policy": str(self.policy),
            "algorithm": self.algorithm,
            "notes": list(self.notes),
            "stopped": None if self.stopped is None else self.stopped.describe(),
            "overlaps": list(self.overlaps),
            "continuations": [continuation.describe() for continuation in self.continuations],
            "entries": [entry.describe() for entry in self.entries],
        }


def _describe_curve(curve: Sequence[tuple[Decimal, Decimal]] | None) -> list[JsonValue] | None:
    if curve is None:
        return None
    return [
        {"delta": float(delta), "epsilon": None if epsilon.is_infinite() else float(epsilon)}
        for delta, epsilon in curve
    ]


def describe_without_account(incident: Incident) -> JsonObject:
    """Return the JSON form of a dataset that was stopped before it had an account."""
    return {
        "dataset": incident.dataset,
        "epsilon": 0.0,
        "delta": 0.0,
        "rho": None,
        "curve": None,
        "remaining": None,
        "policy": None,
        "algorithm": None,
        "notes": [],
        "stopped": incident.describe(),
        "overlaps": [],
        "continuations": [],
        "entries": [],
    }


def choose_algorithm(policy: Policy, asked: Algorithm) -> AccountAlgorithm:
    """Return the algorithm of a new account, which says how the ε's of its answers may be set (O3).

    ``asked``: the algorithm of the first request. Under the policy ``paper`` it becomes the account's. Under a budget,
    the account's is ``find`` (ε found from a preference) if that is asked, otherwise ``mixed``.
    """
    return "mixed" if policy.mixes and asked != "find" else asked


def _holds(opened: AccountAlgorithm, asked: Algorithm) -> bool:
    return asked == opened or (opened == "mixed" and asked != "find")


def _name_way(algorithm: AccountAlgorithm) -> tuple[Piece, ...]:
    """Return in words how an account's ε's are set, with the option that asks for this way if there is one."""
    match algorithm:
        case "fixed":
            return "a fixed ε", Hint("(", Option("epsilon"), ")", surfaces=ASKING)
        case "find":
            return "an ε found from a preference", Hint("(", Option("prefer"), ")", surfaces=ASKING)
        case "find-and-release":
            asked = Hint("(", Option("svt"), " with ", Option("variance"), ")", surfaces=ASKING)
            return "an ε found by the noisy test", asked
        case "mixed":
            return ("a fixed ε or one found by the noisy test",)


def _name_term(option: str, agreed: Policy | Decimal | None) -> tuple[Piece, ...]:
    match agreed:
        case None:
            return "no ", Option(option)
        case Policy():
            return (Option(option, str(agreed)),)
        case _:
            return (Option(option, text=write_decimal(agreed)),)


_SET_BACK = Hint("Set the configuration back to the terms of the account.", surfaces=[Surface.SETTINGS])
