"""Requests and entries: what was asked, what it cost, and the outcome. Frozen values and their records' payloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args

from dosimeter.errors import LedgerError
from dosimeter.json_values import (
    JsonObject,
    JsonRow,
    JsonScalar,
    JsonValue,
    read_list,
    read_number,
    read_object,
    read_optional_text,
    read_scalar,
    read_text,
)
from dosimeter.ledger.decimals import exact_decimal, write_decimal
from dosimeter.ledger.readings import Charge, Reading
from dosimeter.ledger.records import check_text, write_fields

Algorithm = Literal["fixed", "find", "find-and-release"]
AccountAlgorithm = Literal["fixed", "find", "find-and-release", "mixed"]
"""How the ε's of an account are set. Mixed: each is either fixed or selected by a noisy test (O3)."""
Status = Literal["reserved", "released", "denied"]
RESERVED: tuple[Literal["reserved", "denied"], ...] = ("reserved", "denied")
SETTLED: tuple[Literal["released", "denied"], ...] = ("released", "denied")
AnswerRows = tuple[tuple[JsonScalar, ...], ...]
MeasuredTexts = tuple[tuple[str, ...], ...]
Errors = Mapping[str, float | None]  # a column → its 95 % error, None where it has none

DenialReason = Literal["budget", "reading", "cap", "delta", "preference", "chosen", "noisy test", "incident"]
"""Why a request was denied, for the controller alone.

In this order: the budget, the reading under the policy paper, the cap on one answer's ε, δ_g, no candidate meets the
preference, the controller chose an ε above the one found, the noisy test, an incident.
"""


REASON_WORDS: Mapping[DenialReason, str] = {
    "budget": "the budget does not allow it",
    "reading": "ε is not larger than the reading",
    "cap": "ε is above the cap of one answer",
    "delta": "the account's δ does not allow it",
    "preference": "no ε meets the preference",
    "chosen": "the chosen ε does not meet the preference",
    "noisy test": "the noisy test found no ε",
    "incident": "it failed, and the dataset was stopped",
}
"""Why a request was denied, in words. For the controller alone."""

ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
ACCOUNT_ALGORITHMS: tuple[AccountAlgorithm, ...] = get_args(AccountAlgorithm)
REASONS: tuple[DenialReason, ...] = get_args(DenialReason)
_Choice = TypeVar("_Choice", bound=str)


def check_choice(value: object, choices: Sequence[_Choice], name: str) -> _Choice:
    """Return ``value`` if it is one of ``choices``. Refuse any other. ``name``: what it is, for the message."""
    for choice in choices:
        if value == choice:
            return choice
    raise LedgerError(f"{name} must be one of {', '.join(choices)}.")


@dataclass(frozen=True, slots=True)
class KeptNumber:
    """The number that a noisy test drew to select an ε; once paid for, it may be used for the same question again (V8).

    ``of``: a digest of this question. ``number``: the number as an exact text.
    """

    of: str
    number: str

    def __post_init__(self) -> None:
        check_text(self.of, "What a kept number is of")
        _read_fraction(self.number)


def read_kept(payload: JsonValue) -> KeptNumber | None:
    if payload is None:
        return None
    kept = read_object(payload)
    return KeptNumber(read_text(kept["of"]), read_text(kept["number"]))


def _read_fraction(text: object) -> Fraction:
    """Return the number that a text stands for. Refuse what is no number."""
    try:
        return Fraction(check_text(text, "A number"))
    except (ValueError, ZeroDivisionError):
        raise LedgerError("A number in the ledger is a decimal such as 12.34, or a fraction such as 37/64.") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What is recorded of an outcome besides the answer. A field that is None is not written.

    ``further``: the noisy numbers of all blocks (SELECTs that measure) but the first. ``errors``: for each row of the
    answer, the 95 % error of each column that has one. ``rank_errors``: for each column drawn by rank, the 95 % error
    of the rank, a number of rows. ``about``: public facts that a reader of the numbers needs. ``keys``: the groups of
    the noisy numbers, if the schema does not declare them (H1). ``cut`` and ``clamped``: how many "individuals" have a
    row or a value that does not count as it is, with the "error" of this number (E5).
    """

    further: Sequence[Sequence[Sequence[Fraction]]] = ()
    errors: Sequence[Errors] | None = None
    rank_errors: Errors | None = None
    about: Sequence[str] | None = None
    keys: Sequence[Sequence[JsonScalar]] | None = None
    cut: Errors | None = None
    clamped: Errors | None = None

    def to_payload(self) -> JsonObject:
        given = write_fields(self, "further", "keys")
        given["keys"] = None if self.keys is None else [list(key) for key in self.keys]
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request: what was asked, by whom and how. It is all that an auditor needs besides the charge.

    ``plan_digest``, ``schema_digest`` and ``source_digest``: the digests of the query's plan, of the schema and of the
    data. ``request_digest`` identifies the request: it is the same for the same query on the same data with the same
    noise and the same way of setting ε. ``measured_digest``: the digest of what is measured, the same for every wording
    of the query; None in requests of version 0.1.0. ``algorithm``: how ε is set. ``calibration``: how the scale of
    Gaussian noise is computed; None for Laplace noise. ``software``: the version of Dosimeter. ``selection``: which
    noisy test selects ε, and ``tau`` its threshold; None without one. ``settings``: further options as they were given,
    single values only, never rows or RDRs.
    """

    query: str
    plan_digest: str
    schema_digest: str
    source_digest: str
    request_digest: str
    algorithm: Algorithm
    mechanism: str
    calibration: str | None
    delta: Decimal
    software: str
    analyst: str | None = None
    purpose: str | None = None
    preference: str | None = None
    tau: Decimal | None = None
    selection: str | None = None
    measured_digest: str | None = None
    settings: Mapping[str, JsonScalar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice(self.algorithm, ALGORITHMS, "The algorithm")
        for name in ("plan_digest", "schema_digest", "source_digest", "request_digest", "mechanism", "software"):
            check_text(getattr(self, name), name)
        object.__setattr__(self, "delta", exact_decimal(self.delta, name="delta"))
        if self.tau is not None:
            object.__setattr__(self, "tau", exact_decimal(self.tau, name="tau"))
        if any(not isinstance(value, JsonScalar) for value in self.settings.values()):
            raise LedgerError("Settings in a ledger record are single values, never lists.")
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))

    def to_payload(self) -> JsonObject:
        return write_fields(self)

    @classmethod
    def from_payload(cls, payload: Mapping[str, JsonValue]) -> Request:
        """Return the request in a reservation's record of version 1 or 2. Raises TypeError if a field is unknown."""
        tau = read_optional_text(payload["tau"])
        fields: dict[str, Any] = {
            **payload,
            "delta": exact_decimal(read_text(payload["delta"])),
            "tau": None if tau is None else exact_decimal(tau),
        }
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Entry:
    """One request in the ledger: its reservation and, once there is one, its settlement.

    ``spent``: its charge. ``after``: the account's reading after it. ``viewed``: whether somebody had looked at the
    query's risk or dry run; ``told``: whether this request's analyst may be told of such a look. ``kept``: a noisy
    number that it paid for and that may be used again (V8). ``reason``: why it was denied, for the controller alone.
    ``lock``: the name of the lock that the process which reserved it held; None in entries from before there were any.

    ``columns`` and ``rows``: the released answer. ``guarantee``: its sentence on privacy. ``error_95``: the largest
    95 % error of each aggregate column. ``blocks``: for each block, the noisy numbers that the answer was made of, a
    row per group and a number per measure, as exact texts that ``Fraction`` reads; empty if nothing was released, and
    in entries from before the ledger kept these. ``measured``: the numbers of the first block. ``errors``,
    ``rank_errors``, ``about``, ``keys``, ``cut`` and ``clamped``: as in ``Details``.
    """

    id: str
    dataset: str
    at: str
    status: Status
    spent: Charge
    after: Reading
    request: Request
    viewed: bool
    told: bool = False
    settled_at: str | None = None
    columns: tuple[str, ...] | None = None
    rows: AnswerRows | None = None
    guarantee: str | None = None
    error_95: tuple[float | None, ...] | None = None
    blocks: tuple[MeasuredTexts, ...] = ()
    errors: tuple[Errors, ...] | None = None
    rank_errors: Errors | None = None
    about: tuple[str, ...] | None = None
    kept: KeptNumber | None = None
    reason: DenialReason | None = None
    keys: tuple[tuple[JsonScalar, ...], ...] | None = None
    lock: str | None = None
    cut: Errors | None = None
    clamped: Errors | None = None

    @property
    def measured(self) -> MeasuredTexts | None:
        return self.blocks[0] if self.blocks else None

    @property
    def epsilon(self) -> Decimal | None:
        return self.spent.epsilon or None

    @property
    def epsilon_svt(self) -> Decimal | None:
        return self.spent.epsilon_svt or None

    @property
    def finding_epsilon(self) -> Decimal | None:
        """Return ε_svt: what the noisy test costs, in ε, that selects this request's ε; None if there is no such test.

        ε_svt is also returned if the entry did not pay it: because it used the number of an earlier test again (V8), or
        was denied before the test.
        """
        asked = self.request.settings.get("svt")
        return self.epsilon_svt if asked is None else exact_decimal(str(asked))

    @property
    def delta(self) -> Decimal:
        return self.spent.delta

    @property
    def reading(self) -> Decimal:
        """Return the account's reading after this entry, in ε."""
        return self.after.epsilon

    @property
    def charge(self) -> Decimal:
        """Return what the entry added to the reading, in ε."""
        return self.after.added(self.spent)

    @property
    def rho(self) -> Decimal | None:
        """Return what the entry cost in ρ; None if its account does not count in ρ (O4)."""
        return self.spent.rho

    @property
    def query(self) -> str:
        return self.request.query

    @property
    def request_digest(self) -> str:
        return self.request.request_digest

    @property
    def answer(self) -> list[JsonRow] | None:
        """Return the released rows, columns in the order of the query; None if nothing was released."""
        if self.columns is None or self.rows is None:
            return None
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def describe(self) -> JsonObject:
        """Return the JSON form, for the controller. An infinite reading is null: JSON has no infinity."""
        return {
            "id": self.id,
            "at": self.at,
            "status": self.status,
            "epsilon": None if self.epsilon is None else float(self.epsilon),
            "epsilon_svt": None if self.epsilon_svt is None else float(self.epsilon_svt),
            "delta": float(self.delta),
            "charge": None if self.charge.is_infinite() else float(self.charge),
            "reading": None if self.reading.is_infinite() else float(self.reading),
            "rho": None if self.rho is None else float(self.rho),
            "algorithm": self.request.algorithm,
            "query": self.query,
            "answer": self.answer,
            "analyst": self.request.analyst,
            "purpose": self.request.purpose,
            "reason": self.reason,
        }

    @property
    def hides_epsilon(self) -> bool:
        """Return whether ε was found from the data: then analysts see neither ε nor what would reveal it (G2)."""
        return self.request.algorithm == "find"

    def publish(self) -> ReleasedAnswer:
        """Return the released answer as every analyst may see it: without its analyst and purpose."""
        hidden = self.hides_epsilon
        return ReleasedAnswer(
            id=self.id,
            at=self.settled_at,
            query=self.query,
            rows=self.answer or [],
            epsilon=None if hidden or self.epsilon is None else float(self.epsilon),
            epsilon_svt=None if hidden or self.finding_epsilon is None else float(self.finding_epsilon),
            error_95=None if hidden else self.error_95,
            errors=None if hidden else self.errors,
            about=self.about or (),
            guarantee=self.guarantee,
            cut=self.cut,
            clamped=self.clamped,
        )

    def __repr__(self) -> str:
        return f"Entry(id={self.id!r}, status={self.status!r}, redacted)"  # algorithm 1's ε is private


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedAnswer:
    """A released answer as every analyst may see it. ε and errors are None if ε was found from the data (G2).

    ``at``: when it was released. ``epsilon_svt``: the ε that finding ε cost. ``error_95``: the largest 95 % error of
    each aggregate column. ``errors``: for each row, the 95 % error of each column that has one. ``about``: public facts
    that a reader of the numbers needs. ``guarantee``: the sentence on privacy. ``cut`` and ``clamped``: as in
    ``Details``; None where they were not asked for.
    """

    id: str
    at: str | None
    query: str
    rows: list[JsonRow]
    epsilon: float | None
    epsilon_svt: float | None
    error_95: tuple[float | None, ...] | None
    errors: tuple[Errors, ...] | None
    about: tuple[str, ...]
    guarantee: str | None
    cut: Errors | None = None
    clamped: Errors | None = None

    def describe(self) -> JsonObject:
        left_out = [name for name in ("cut", "clamped") if getattr(self, name) is None]
        return {"answer" if name == "rows" else name: value for name, value in write_fields(self, *left_out).items()}


def tabulate_answer(answer: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return an answer as columns and rows. Refuse rows that differ in their columns.

    Canonical JSON sorts the names of fields, so that rows as objects would lose the order of columns.
    """
    columns = list(answer[0]) if answer else []
    if any(list(row) != columns for row in answer):
        raise LedgerError("Every row of an answer must have the same columns in the same order.")
    return {"columns": columns, "rows": [[row[column] for column in columns] for row in answer]}


def write_measured(measured: Sequence[Sequence[Fraction]]) -> list[list[str]]:
    """Return noisy numbers as exact texts: 12.34 if nine decimals are enough, otherwise a fraction (37/1048576)."""
    return [[_write_fraction(number) for number in row] for row in measured]


def _write_fraction(number: Fraction) -> str:
    billionths = number * 10**9
    if billionths.denominator != 1:
        return f"{number.numerator}/{number.denominator}"
    sign, (whole, part) = "-" if number < 0 else "", divmod(abs(billionths.numerator), 10**9)
    return f"{sign}{whole}.{part:09d}".rstrip("0").rstrip(".")


def read_blocks(payload: JsonValue, version: int) -> tuple[MeasuredTexts, ...]:
    """Return the noisy numbers of a settlement, a table per block; empty if the payload is None.

    ``version``: the version of the record. Version 1 has no numbers, version 2 has the numbers of one block.
    """
    if version < 2 or payload is None:
        return ()
    blocks = [payload] if version == 2 else read_list(payload)
    return tuple(tuple(tuple(map(read_text, read_list(row))) for row in read_list(block)) for block in blocks)


def read_reason(payload: JsonValue) -> DenialReason | None:
    return None if payload is None else check_choice(payload, REASONS, "The reason")


def read_settled(entry: Entry, payload: Mapping[str, JsonValue], version: int, at: str) -> Entry:
    """Return the reserved entry with the outcome in a settlement's payload. Raises if it is no such payload.

    ``version`` and ``at``: the version and the time of the settlement's record.
    """
    settled = replace(
        entry,
        status=check_choice(payload["status"], SETTLED, "The status"),
        settled_at=at,
        guarantee=read_optional_text(payload["guarantee"]),
        reason=read_reason(payload.get("reason")),
    )
    if settled.status != "released":
        return settled
    answer, error, about = read_object(payload["answer"]), payload["error_95"], payload.get("about")
    keys = payload.get("keys")
    rows = tuple(tuple(map(read_scalar, read_list(row))) for row in read_list(answer["rows"]))
    columns = tuple(map(read_text, read_list(answer["columns"])))
    return replace(
        settled,
        columns=columns,
        rows=rows,
        error_95=None if error is None else tuple(map(read_number, read_list(error))),
        blocks=read_blocks(payload["measured"] if version >= 2 else None, version),
        errors=_read_errors(payload.get("errors"), columns, len(rows)),
        rank_errors=None if payload.get("rank_errors") is None else _read_numbers(payload["rank_errors"]),
        about=None if about is None else tuple(check_text(text, "about") for text in read_list(about)),
        keys=None if keys is None else tuple(tuple(map(read_scalar, read_list(key))) for key in read_list(keys)),
        cut=_read_told(payload.get("cut")),
        clamped=_read_told(payload.get("clamped")),
    )


def _read_errors(payload: JsonValue, columns: Sequence[str], rows: int) -> tuple[Errors, ...] | None:
    """Return the errors of every row, by column in the order of ``columns``; None if the payload is None.

    In the payload the columns are sorted by name. ``rows``: how many rows the answer has; raises TypeError if the
    payload has errors for another number of rows.
    """
    if payload is None:
        return None
    read = [_read_numbers(row) for row in read_list(payload)]
    if len(read) != rows:
        raise TypeError
    places = {name: place for place, name in enumerate(columns)}
    return tuple(
        MappingProxyType({name: row[name] for name in sorted(row, key=lambda name: places.get(name, len(places)))})
        for row in read
    )


def _read_told(payload: JsonValue) -> Errors | None:
    if payload is None:
        return None
    told = _read_numbers(payload)
    return MappingProxyType({name: told[name] for name in ("individuals", "error")})


def _read_numbers(payload: JsonValue) -> Errors:
    return MappingProxyType({name: read_number(value) for name, value in read_object(payload).items()})


_PARTS = ("epsilon", "epsilon_svt", "delta")


def write_charge(charge: Charge) -> dict[str, str]:
    return {part: write_decimal(getattr(charge, part)) for part in _PARTS}


def read_charge(payload: Mapping[str, JsonValue]) -> Charge:
    """Return the charge in the payload of a reservation: ε, ε_svt and δ, and ρ if the account counts in ρ (O4)."""
    parts, rho = read_object(payload["charge"]), read_optional_text(payload.get("rho"))
    return Charge(
        **{part: exact_decimal(read_text(parts[part])) for part in _PARTS},
        rho=None if rho is None else exact_decimal(rho),
    )
