"""The parts of a parsed preference: terms over aggregates of the RDRs, and comparisons of terms.

Evaluates them on RDRs, writes them as SQL again, and tells how they change if all RDRs are multiplied or shifted. Knows
nothing of parsing: a FILTER is only a name here, and ``preference`` holds its predicate.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import add, mul, sub, truediv
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.errors import PreferenceError
from dosimeter.html import Private
from dosimeter.risk.preference_functions import COLUMNS, FUNCTIONS, NUMBER_FUNCTIONS

if TYPE_CHECKING:
    from dosimeter.risk.exposure import RDRs

PreferenceFunction = Callable[[FloatArray, IntArray], object]

TOLERANCE = 1e-12  # F1


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class AnswerNumber:
    """A single number about the whole answer, such as its largest error, by its name in SQL.

    ``given``: the probability that it takes, as in guess(0.1); None for a number that takes none.
    """

    name: str
    given: float | None = None

    @property
    def text(self) -> str:
        """Return the number as SQL writes it: ``error``, or ``guess(0.1)``."""
        return self.name if self.given is None else f"{self.name}({write_number(self.given)})"


@dataclass(frozen=True, slots=True)
class PeopleAggregate:
    """An aggregate over people: of their RDRs, or of another column with one number per individual.

    ``fraction``: the p at which a quantile is taken, ½ for a median; None for other functions. ``filter``: a key of
    ``Preference.filters``.
    """

    function: str
    column: str
    fraction: float | None = None
    filter: str | None = None


@dataclass(frozen=True, slots=True)
class Arithmetic:
    operator: str
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Negative:
    operand: Term


@dataclass(frozen=True, slots=True)
class FunctionCall:
    function: str
    arguments: tuple[Term, ...]


Term = Number | AnswerNumber | PeopleAggregate | Arithmetic | Negative | FunctionCall


@dataclass(frozen=True, slots=True)
class Comparison:
    left: Term
    operator: str
    right: Term


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(Private):
    """The verdict on one ε: whether its RDRs meet a preference (``satisfied``). Private, as the RDRs are.

    ``value``: the left-hand side of a single comparison, or a callable's number; otherwise None. ``empty``: whether a
    FILTER matched nobody, so that its aggregate is NULL. ``parts``: whether each of the comparisons joined by AND is
    met.
    """

    value: float | None
    satisfied: bool
    empty: bool = False
    parts: tuple[bool, ...] = ()


# ---------------------------------------------------------------- terms → text


def write_number(value: float) -> str:
    mantissa, exponent_mark, exponent = repr(float(value)).partition("e")
    mantissa = mantissa.removesuffix(".0")
    return f"{mantissa}e{int(exponent)}" if exponent_mark else mantissa


def _binding(term: Term) -> int:
    match term:
        case Arithmetic(operator="+" | "-"):
            return 1
        case Arithmetic():
            return 2
        case Negative():
            return 3
        case Number(value) if value < 0:
            return 3
        case Number() | AnswerNumber() | PeopleAggregate() | FunctionCall():
            return 4


def write_term(term: Term, filters: Mapping[str, str], above: int = 0) -> str:
    """Return the term as SQL.

    ``filters``: the predicate of each FILTER as text, such as "age > 30"; the keys are the names in
    ``PeopleAggregate.filter``. ``above``: how tightly the operator around the term binds; a term that binds less
    tightly gets parentheses.
    """
    match term:
        case Number(value):
            text = write_number(value)
        case AnswerNumber():
            text = term.text
        case PeopleAggregate(function, column, fraction, name):
            given = f", {write_number(fraction)}" if fraction is not None and FUNCTIONS[function].takes_fraction else ""
            text = f"{function}({column}{given})"
            if name is not None:
                text += f" FILTER (WHERE {filters[name]})"
        case Arithmetic(operator, left, right):
            own = _binding(term)
            text = f"{write_term(left, filters, own)} {operator} {write_term(right, filters, own + 1)}"
        case Negative(operand):
            text = f"-{write_term(operand, filters, 4)}"
        case FunctionCall(function, arguments):
            text = f"{function}({', '.join(write_term(argument, filters) for argument in arguments)})"
    return f"({text})" if _binding(term) < above else text


# ---------------------------------------------------------------- evaluation


def is_met(left: float | None, operator: str, right: float | None) -> bool:
    """Return whether a comparison is met (F1). A comparison with None (NULL) on either side is not met.

    Two sides count as equal if they differ by at most 1e-12 of the right one: then >=, <= and = are met, and > and <
    are not.
    """
    if left is None or right is None:
        return False
    return _HOLDS[operator](left, right, abs(left - right) <= TOLERANCE * abs(right))


_HOLDS: Mapping[str, Callable[[float, float, bool], bool]] = {
    ">=": lambda left, right, equal: equal or left > right,
    "<=": lambda left, right, equal: equal or left < right,
    ">": lambda left, right, equal: left > right and not equal,
    "<": lambda left, right, equal: left < right and not equal,
    "=": lambda left, right, equal: equal,
}
_COMBINED: Mapping[str, Callable[[float, float], float]] = {"+": add, "-": sub, "*": mul, "/": truediv}


def evaluate_term(term: Term, rdrs: RDRs | None) -> float | None:
    """Return the term's value on these RDRs; None is SQL's NULL, which division by zero and overflow also give.

    Without RDRs (None), everything that is read off them is NULL.
    """
    match term:
        case Number(value):
            return value
        case AnswerNumber():
            return None if rdrs is None else _find_plain(term.text, rdrs)
        case PeopleAggregate():
            return None if rdrs is None else evaluate_aggregate(term, rdrs)
        case Negative(operand):
            inner = evaluate_term(operand, rdrs)
            return None if inner is None else -inner
        case FunctionCall(function, arguments):
            present = [part for argument in arguments if (part := evaluate_term(argument, rdrs)) is not None]
            return NUMBER_FUNCTIONS[function].evaluate(present) if present else None
        case Arithmetic(operator, left, right):
            first, second = evaluate_term(left, rdrs), evaluate_term(right, rdrs)
            if first is None or second is None or (operator == "/" and second == 0.0):
                return None
            result = _COMBINED[operator](first, second)
            return result if math.isfinite(result) else None


def _find_plain(name: str, rdrs: RDRs) -> float | None:
    if name not in rdrs.terms:
        raise PreferenceError(f"This preference's {name} was not measured. Measure the risk with the preference.")
    return rdrs.terms[name]


def _find_column(name: str, rdrs: RDRs) -> FloatArray:
    if COLUMNS[name].follows_rdr:
        return rdrs.values
    if name == "normalized_rdr":
        return rdrs.values / rdrs.ceiling  # R9
    if name not in rdrs.columns:
        raise PreferenceError(f"This preference's {name} was not measured. Measure the risk with the preference.")
    return rdrs.columns[name]


def evaluate_aggregate(aggregate: PeopleAggregate, rdrs: RDRs) -> float | None:
    chosen = rdrs.counts > 0
    if aggregate.filter is not None:
        if aggregate.filter not in rdrs.attributes:
            raise PreferenceError("This preference's FILTER was not measured. Measure the risk with the preference.")
        chosen = chosen & np.asarray(rdrs.attributes[aggregate.filter], dtype=bool)
    values = rdrs.values if aggregate.column == "*" else _find_column(aggregate.column, rdrs)
    counts = rdrs.counts
    if not chosen.all():
        values, counts = values[chosen], counts[chosen]
    function = FUNCTIONS[aggregate.function]
    if not values.size:
        return function.of_nobody
    return float(function.evaluate(values, counts, 0.5 if aggregate.fraction is None else aggregate.fraction))


def evaluate_function(function: PreferenceFunction, threshold: float | None, rdrs: RDRs) -> Verdict:
    values, counts = rdrs.values.view(), rdrs.counts.view()
    values.flags.writeable = counts.flags.writeable = False
    result = function(values, counts)
    if isinstance(result, (bool, np.bool_)):
        return Verdict(None, bool(result))
    if not isinstance(result, numbers.Real):
        raise PreferenceError(f"A preference callable returns a bool or a number, not {type(result).__name__}.")
    if threshold is None:
        raise PreferenceError("The preference callable returned a number. Give threshold=…, or return a bool.")
    value = float(result) if math.isfinite(float(result)) else None
    return Verdict(value, is_met(value, ">=", threshold))


# ---------------------------------------------------------------- how a condition depends on the level (R8, R10)


def list_measured(term: Term) -> Iterator[PeopleAggregate | AnswerNumber]:
    """Yield the parts of a term that are measured: aggregates over people, and numbers of the answer."""
    match term:
        case PeopleAggregate() | AnswerNumber():
            yield term
        case Arithmetic(_, left, right):
            yield from list_measured(left)
            yield from list_measured(right)
        case Negative(operand):
            yield from list_measured(operand)
        case FunctionCall(_, arguments):
            for argument in arguments:
                yield from list_measured(argument)


def list_aggregates(term: Term) -> Iterator[PeopleAggregate]:
    return (part for part in list_measured(term) if isinstance(part, PeopleAggregate))


def constant_of(term: Term) -> float | None:
    """Return the value of a term that reads no aggregate and no number of the answer; None for any other term.

    None also for a constant that is NULL, as 1/0 is.
    """
    return None if any(True for _ in list_measured(term)) else evaluate_term(term, None)


def _common_degree(terms: tuple[Term, ...]) -> int | None:
    """Return the degree (see ``_degree``) that all terms have; None if they differ. The constant 0 has every degree."""
    degrees = {_degree(term) for term in terms if constant_of(term) != 0.0}
    return degrees.pop() if len(degrees) == 1 else None if degrees else 0


def _degree(term: Term) -> int | None:
    """Return d, if multiplying every RDR by t > 0 multiplies the term by t**d; None if there is no such d.

    Normalised RDRs stay the same, since RDR*, which they are divided by, is multiplied too.
    """
    match term:
        case Number() | AnswerNumber():
            return 0
        case PeopleAggregate(column=column) if column != "*" and not COLUMNS[column].follows_rdr:
            return 0
        case PeopleAggregate(function):
            return FUNCTIONS[function].degree
        case Negative(operand):
            return _degree(operand)
        case FunctionCall(_, arguments):
            return _common_degree(arguments)
        case Arithmetic("+" | "-", left, right):
            return _common_degree((left, right))
        case Arithmetic(operator, left, right):
            first, second = _degree(left), _degree(right)
            if first is None or second is None:
                return None
            return first + second if operator == "*" else first - second


def _shift(term: Term) -> float | None:
    """Return s, if adding t to every RDR adds s·t to the term; None if there is no such s."""
    match term:
        case Number():
            return 0.0
        case AnswerNumber():
            return None  # it depends on the noise in a way of its own
        case PeopleAggregate(function, column) if column != "*" and not COLUMNS[column].follows_rdr:
            return 0.0 if FUNCTIONS[function].degree == 0 else None
        case PeopleAggregate(function):
            return FUNCTIONS[function].shift
        case Negative(operand):
            inner = _shift(operand)
            return None if inner is None else -inner
        case FunctionCall(function, arguments):
            shifts = {_shift(argument) for argument in arguments}
            shift = shifts.pop() if len(shifts) == 1 else None
            return shift if shift == 0.0 or NUMBER_FUNCTIONS[function].shifts else None
        case Arithmetic(operator, left, right):
            first, second = _shift(left), _shift(right)
            if first is None or second is None:
                return None
            if operator in "+-":
                return _COMBINED[operator](first, second)
            if first == second == 0.0:
                return 0.0
            factor, other = (constant_of(right), first) if second == 0.0 else (constant_of(left), second)
            if factor is None or (operator == "/" and (second != 0.0 or factor == 0.0)):
                return None
            return _COMBINED[operator](other, factor)


def is_scale_free(comparison: Comparison) -> bool:
    return _common_degree((comparison.left, comparison.right)) is not None


def is_shift_free(comparison: Comparison) -> bool:
    left, right = _shift(comparison.left), _shift(comparison.right)
    return left is not None and right is not None and abs(left - right) <= TOLERANCE


def is_raw_spread(comparison: Comparison) -> bool:
    carriers = [a for side in (comparison.left, comparison.right) for a in list_aggregates(side) if _degree(a) != 0]
    return bool(carriers) and not is_scale_free(comparison) and all(FUNCTIONS[a.function].is_spread for a in carriers)
