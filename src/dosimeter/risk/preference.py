"""Read a preference from text, a short name or a callable, and evaluate it on RDRs.

A preference is one SQL condition over ``rdr`` or another number of everybody, such as ``MIN(rdr) / MAX(rdr) >= 0.95``.
Text is translated, through an allow-list of (node class, argument) pairs, into the small terms of ``preference_terms``.
Of the parsed tree only the predicates of FILTER clauses are kept. They are over the data's own columns: here they are
refused if they hold ``rdr``, an aggregate or a subquery, and later the planner resolves and rebuilds them like a WHERE.

SQL's meaning is kept: an aggregate over nobody is NULL, LEAST and GREATEST skip NULL, a comparison with NULL is not
met. Division by zero is NULL. Two sides within 1e-12 relative of each other are equal (F1), so rounding in the RDRs
never decides a comparison that exact arithmetic calls a tie.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from dosimeter.errors import PreferenceError
from dosimeter.risk.preference_functions import COLUMNS, FUNCTIONS, NUMBER_FUNCTIONS, TERMS
from dosimeter.risk.preference_names import PRESETS, RATIO, SHORT_NAMES, VARIANCE
from dosimeter.risk.preference_terms import (
    AnswerNumber,
    Arithmetic,
    Comparison,
    FunctionCall,
    Negative,
    Number,
    PeopleAggregate,
    PreferenceFunction,
    Term,
    Verdict,
    constant_of,
    evaluate_aggregate,
    evaluate_function,
    evaluate_term,
    is_met,
    is_raw_spread,
    is_scale_free,
    is_shift_free,
    list_aggregates,
    list_measured,
    write_number,
    write_term,
)

if TYPE_CHECKING:
    from dosimeter.risk.exposure import RDRs

__all__ = ["PeopleAggregate", "Preference", "PreferenceFunction", "Verdict", "parse_preference"]

Kind = Literal["ratio", "variance", "condition", "callable"]

MAX_DEPTH = 100
_OF_RDR = ("rdr", "normalized_rdr")
_SHORT = [f"{name}:{short.example}" for name, short in SHORT_NAMES.items()]
EXAMPLE = "A preference is a condition like MIN(rdr) / MAX(rdr) >= 0.95, or a short name: ratio:0.95, variance:1e-5."
_NAMED = [f"{name}(rdr, p)" if function.takes_fraction else name for name, function in FUNCTIONS.items()]
_NUMBERS = [f"{name}({term.takes})" if term.takes else name for name, term in TERMS.items()]
SUPPORTED = (
    f"Supported: {', '.join(_NAMED[:-1])} and {_NAMED[-1]} over {', '.join(COLUMNS)}, each with FILTER (WHERE …) if "
    f"wanted; {', '.join(_NUMBERS)}; numbers, + - * /, {', '.join(NUMBER_FUNCTIONS)}; one comparison (>=, <=, >, <, "
    "=), or several joined by AND."
)
ARITHMETIC: Mapping[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
COMPARISONS: Mapping[type[exp.Expr], str] = {exp.GTE: ">=", exp.LTE: "<=", exp.GT: ">", exp.LT: "<", exp.EQ: "="}
MIRRORED: Mapping[str, str] = {">=": "<=", "<=": ">=", ">": "<", "<": ">", "=": "="}
# Arguments that the parser sets and that mean nothing by themselves.
PARSER_MARKS = frozenset({"typed", "safe", "big_int", "ignore_nulls"})


@dataclass(frozen=True, slots=True)
class Preference:
    """A condition on the RDRs of everybody in the table.

    ``kind`` is "ratio" for MIN(rdr) / MAX(rdr) >= τ and "variance" for VAR_POP(normalized_rdr) <= τ, however they were
    written, since these have an exact limit (F2). ``threshold``: the constant right side of a single comparison, such
    as τ, or what a callable's number must reach; otherwise None. ``filters`` maps a name to a FILTER's predicate;
    ``RDRs.attributes`` of that name says, per class, whether it holds (NULL counts as false). ``comparisons``: the
    conditions that AND joins, parsed. ``function``: the callable, where the preference was given as one. ``preset``:
    its name, where it was given by the name of a preset.
    """

    text: str
    kind: Kind
    threshold: float | None
    filters: Mapping[str, exp.Expression] = field(default_factory=dict)
    comparisons: tuple[Comparison, ...] = ()
    function: PreferenceFunction | None = None
    preset: str | None = None

    def evaluate(self, rdrs: RDRs) -> Verdict:
        if self.function is not None:
            return evaluate_function(self.function, self.threshold, rdrs)
        empty = bool(self.filters) and any(evaluate_aggregate(a, rdrs) is None for a in self.aggregates if a.filter)
        sides = [(evaluate_term(c.left, rdrs), c.operator, evaluate_term(c.right, rdrs)) for c in self.comparisons]
        parts = tuple(is_met(left, operator, right) for left, operator, right in sides)
        return Verdict(sides[0][0] if len(sides) == 1 else None, all(parts), empty, parts)

    def judge(self, ratio: float | None) -> Verdict:
        """Return the verdict of a preference over least ÷ most exposed (``kind``) from that ratio; None for 0 ÷ 0."""
        met = is_met(ratio, ">=", self.threshold)
        return Verdict(ratio, met, parts=(met,))

    @property
    def aggregates(self) -> tuple[PeopleAggregate, ...]:
        """Return every aggregate in the text, each once."""
        found = (a for c in self.comparisons for side in (c.left, c.right) for a in list_aggregates(side))
        return tuple(dict.fromkeys(found))

    @property
    def measured(self) -> frozenset[str]:
        """Return the names of all columns and numbers that the preference reads besides the RDRs."""
        names = {part.name if isinstance(part, AnswerNumber) else part.column for part in self._parts}
        return frozenset(names - {*_OF_RDR, "*"})

    @property
    def beliefs(self) -> frozenset[AnswerNumber]:
        """Return what the preference reads of what somebody could believe or guess: guess(b) and posterior(p)."""
        return frozenset(part for part in self._parts if isinstance(part, AnswerNumber) and part.given is not None)

    @property
    def _parts(self) -> list[PeopleAggregate | AnswerNumber]:
        return [part for each in self.comparisons for part in _list_parts(each)]

    @property
    def about_rdr(self) -> bool:
        """Return whether the preference compares RDRs, so that the choice of indicator matters."""
        return self.function is not None or any(aggregate.column in _OF_RDR for aggregate in self.aggregates)

    @property
    def about_errors(self) -> bool:
        """Return whether a condition reads an error of the answer."""
        return any(map(_is_error, self._parts))

    @property
    def limits_absolute(self) -> bool:
        """Return whether a condition reads an absolute risk, which limits it at every candidate."""
        return any(name in COLUMNS or not TERMS[name].is_error for name in self.measured)

    @property
    def limits_risk(self) -> bool:
        """Return whether a condition reads anything else than an error of the answer."""
        return self.about_rdr or self.limits_absolute

    def meets_people(self, verdict: Verdict) -> bool:
        """Return whether all conditions are met that read no error of the answer, where there are both kinds."""
        of_errors = [any(map(_is_error, _list_parts(each))) for each in self.comparisons]
        met = [part for part, of_error in zip(verdict.parts, of_errors, strict=False) if not of_error]
        return any(of_errors) and bool(met) and all(met)

    def write_parts(self) -> tuple[str, ...]:
        """Return the text of each comparison that AND joins."""
        texts = _write_filters(self.filters)
        return tuple(_write_comparison(comparison, texts) for comparison in self.comparisons)

    @property
    def scale_free(self) -> bool:
        """Return whether the verdict stays the same if everybody's RDR is multiplied by one positive factor (R10).

        True for a callable, of which nothing is known.
        """
        return all(is_scale_free(comparison) for comparison in self.comparisons)

    @property
    def shift_free(self) -> bool:
        """Return whether the verdict stays the same if one number is added to everybody's RDR (R8).

        The bound indicator under Laplace noise adds one such number to everybody's RDR. False for a callable, of which
        nothing is known.
        """
        return bool(self.comparisons) and all(is_shift_free(comparison) for comparison in self.comparisons)

    @property
    def compares_raw_spread(self) -> bool:
        """Return whether a comparison is between a spread of raw RDRs, such as VAR_POP(rdr), and a constant (R10)."""
        return any(is_raw_spread(comparison) for comparison in self.comparisons)

    def write_aggregate(self, aggregate: PeopleAggregate) -> str:
        return write_term(aggregate, _write_filters(self.filters))

    def write_filter(self, name: str) -> str:
        return _write_filters(self.filters)[name]


def _list_parts(comparison: Comparison) -> list[PeopleAggregate | AnswerNumber]:
    return [part for side in (comparison.left, comparison.right) for part in list_measured(side)]


def _is_error(part: PeopleAggregate | AnswerNumber) -> bool:
    return isinstance(part, AnswerNumber) and TERMS[part.name].is_error


def parse_preference(source: str | PreferenceFunction, *, threshold: float | None = None) -> Preference:
    """Return the preference that a text, a short name, a preset or a callable stands for.

    ``threshold``: only for a callable that returns a number; the preference is met if the number is at least this.
    Raises PreferenceError if ``source`` is none of these, or a text or callable that cannot be used.
    """
    if isinstance(source, str):
        if threshold is not None:
            raise PreferenceError("A threshold goes with a Python callable. In text, write it into the condition.")
        found = _parse_short_names(source)
        if found is None:
            _refuse_misspelt(source)
        return found or _parse_condition(source)
    if not callable(source):
        raise PreferenceError(f"A preference is text or a callable, not {type(source).__name__}. {EXAMPLE}")
    if threshold is not None and not math.isfinite(threshold):
        raise PreferenceError("The threshold of a preference must be a finite number.")
    if not _takes_two(source):
        raise PreferenceError("A preference in Python takes two arguments: the RDRs, and how many people have each.")
    name = getattr(source, "__name__", type(source).__name__)
    text = f"{name}(values, counts)" + ("" if threshold is None else f" >= {write_number(threshold)}")
    return Preference(text, "callable", threshold, function=source)


def _takes_two(source: Callable[..., object]) -> bool:
    """Return whether a callable takes two arguments: the RDRs, and how many people have each.

    True also for a function of an extension, which has no signature to look at.
    """
    try:
        inspect.signature(source).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a function of an extension, which has no signature
        return True
    return True


def _parse_short_names(source: str) -> Preference | None:
    """Return the preference for short names and presets joined by commas; None if the text is no such list."""
    parts = [part.strip() for part in source.split(",")]
    if not all(part.lower() in PRESETS or _SHORT_NAME.fullmatch(part) for part in parts):
        return None
    comparisons: list[Comparison] = []
    for part in parts:
        preset = PRESETS.get(part.lower())
        names = [part] if preset is None else preset.condition.split(",")
        comparisons += (_read_short_name(name) for name in names)
    found = _build(tuple(dict.fromkeys(comparisons)), {})
    return replace(found, preset=source.strip().lower()) if source.strip().lower() in PRESETS else found


_SHORT_NAME = re.compile(r"([A-Za-z_]\w*)\s*:\s*([^\s:=]*)")
_LIKE_A_NAME = re.compile(r"([A-Za-z_]+)\s*([=<>]*)\s*([\d.]*)")


def _refuse_misspelt(source: str) -> None:
    """Refuse a word that is no name and no column, alone or with a number (cautios, ratio=0.95); say what is meant.

    Such a text is no condition either: the word would be read as a column of the data.
    """
    for part in source.split(","):
        match = _LIKE_A_NAME.fullmatch(part.strip())
        if match is None or match[1].lower() in (*COLUMNS, *TERMS, *PRESETS, "true", "false", "null"):
            continue
        meant = _guess_name(match[1], match[3])
        if meant or not match[2]:
            raise PreferenceError(
                f"There is no preference {part.strip()!r}.{meant} The presets are {', '.join(PRESETS)}; the short "
                f"names are {', '.join(_SHORT)}. Anything else is a condition such as MIN(rdr) / MAX(rdr) >= 0.95."
            )


def _guess_name(word: str, number: str) -> str:
    """Return a question for the preset or short name that a misspelt word may mean; "" if none is near.

    The short name is written with this number, or with its example where that is none for it.
    """
    near = get_close_matches(word.lower(), [*PRESETS, *SHORT_NAMES], 1)
    if not near:
        return ""
    short = SHORT_NAMES.get(near[0])
    if short is None:
        return f" Is {near[0]} meant?"
    fits = re.fullmatch(r"\d*\.?\d+", number) is not None and short.above < float(number) <= short.most
    return f" Is {near[0]}:{number if fits else short.example} meant?"


def _read_short_name(part: str) -> Comparison:
    match = _SHORT_NAME.fullmatch(part)
    assert match is not None
    name, number = match[1].lower(), match[2]
    short = SHORT_NAMES.get(name)
    if short is None:
        meant = _guess_name(name, number)
        raise PreferenceError(f"There is no short name {match[1]}.{meant} The short names are {', '.join(_SHORT)}.")
    try:
        value = float(number)
    except ValueError:
        raise PreferenceError(f"{name}: needs a number, as in {name}:{short.example}, not {number!r}.") from None
    if not short.above < value <= short.most:
        raise PreferenceError(f"{name}: takes {short.takes}, not {number}.")
    return Comparison(short.left, short.operator, Number(value))


_NORMALISED_RATIO = Arithmetic("/", PeopleAggregate("MIN", "normalized_rdr"), PeopleAggregate("MAX", "normalized_rdr"))


def _parse_condition(source: str) -> Preference:
    filters: dict[str, exp.Expression] = {}
    comparisons = tuple(_translate_condition(_read(source), filters))
    return _build(comparisons, filters)


def _build(comparisons: tuple[Comparison, ...], filters: Mapping[str, exp.Expression]) -> Preference:
    texts = _write_filters(filters)
    text = " AND ".join(_write_comparison(comparison, texts) for comparison in comparisons)
    kind: Kind = "condition"
    threshold = constant_of(comparisons[0].right) if len(comparisons) == 1 else None
    if threshold is not None:
        left, operator = comparisons[0].left, comparisons[0].operator
        if left in (RATIO, _NORMALISED_RATIO) and operator == ">=" and 0.0 < threshold <= 1.0:
            kind = "ratio"
        elif left == VARIANCE and operator == "<=" and threshold > 0.0:
            kind = "variance"
    return Preference(text, kind, threshold, filters, comparisons)


def _write_comparison(comparison: Comparison, filters: Mapping[str, str]) -> str:
    left, right = write_term(comparison.left, filters), write_term(comparison.right, filters)
    return f"{left} {comparison.operator} {right}"


def _read(source: str) -> exp.Expr:
    """Return a preference's text as one parsed tree. Refuse what cannot be parsed or is nested too deeply.

    The parser accepts a call that is never closed, so parentheses are counted here.
    """
    try:
        tokens = [token.token_type for token in sqlglot.tokenize(source, read="duckdb")]
        trees = [tree for tree in sqlglot.parse(source, read="duckdb") if tree is not None]
    except (SqlglotError, RecursionError) as error:
        raise PreferenceError(f"The preference cannot be read as SQL. {EXAMPLE}") from error
    if tokens.count(sqlglot.TokenType.L_PAREN) != tokens.count(sqlglot.TokenType.R_PAREN):
        raise PreferenceError(f"A parenthesis of the preference is not closed. {EXAMPLE}")
    if not trees:
        raise PreferenceError(f"The preference is empty. {EXAMPLE}")
    if len(trees) > 1:
        raise PreferenceError(f"The preference holds {len(trees)} statements. Join conditions with AND.")
    (tree,) = trees
    level: list[exp.Expr] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in node.iter_expressions()]
    if level:
        raise PreferenceError(f"The preference is nested too deeply (more than {MAX_DEPTH} levels).")
    return tree


def _write_sql(node: exp.Expr) -> str | None:
    """Return the node as SQL text; None if sqlglot cannot write it, such as a node whose arguments are missing."""
    try:
        return node.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE)
    except (SqlglotError, ValueError, AttributeError, TypeError):  # a half-filled node fails in many ways
        return None


def _write_filters(filters: Mapping[str, exp.Expression]) -> dict[str, str]:
    return {name: _write_sql(predicate) or "…" for name, predicate in filters.items()}


def _refuse(node: exp.Expr, why: str) -> NoReturn:
    piece = _write_sql(node) or type(node).__name__
    piece = piece if len(piece) <= 80 else piece[:79] + "…"
    raise PreferenceError(f"{piece}: {why}")


def _allow(node: exp.Expr, *arguments: str) -> None:
    """Refuse the node if it has any argument besides those named."""
    for name, value in node.args.items():
        if name not in arguments and name not in PARSER_MARKS and value not in (None, False, []):
            _refuse(node, f"this form ({name}) is not supported. {SUPPORTED}")


def _translate_condition(node: exp.Expr, filters: dict[str, exp.Expression]) -> Iterator[Comparison]:
    match node:
        case exp.Paren():
            _allow(node, "this")
            yield from _translate_condition(node.this, filters)
        case exp.And():
            _allow(node, "this", "expression")
            yield from _translate_condition(node.this, filters)
            yield from _translate_condition(node.expression, filters)
        case _ if type(node) in COMPARISONS:
            _allow(node, "this", "expression")
            for side in (node.this, node.expression):
                if type(side.unnest()) in COMPARISONS:
                    _refuse(node, "comparisons cannot be chained. Join two of them with AND.")
            left, right = _translate(node.this, filters), _translate(node.expression, filters)
            operator = COMPARISONS[type(node)]
            if not any((*list_measured(left), *list_measured(right))):
                _refuse(node, f"nothing here is about the RDRs. {EXAMPLE}")
            if constant_of(left) is not None:  # a constant reads better on the right
                left, operator, right = right, MIRRORED[operator], left
            yield Comparison(left, operator, right)
        case exp.Or() | exp.Not() | exp.NEQ() | exp.Between() | exp.In():
            _refuse(node, "OR, NOT, <>, BETWEEN and IN belong in a FILTER. Here use comparisons joined by AND.")
        case exp.Alias() | exp.Query():
            _refuse(node, f"this is not a condition. {EXAMPLE}")
        case _:
            _translate(node, filters)
            _refuse(node, f"this is a number, and a preference compares it with something. {EXAMPLE}")


def _translate(node: exp.Expr, filters: dict[str, exp.Expression]) -> Term:
    kind = type(node)
    match node:
        case exp.Paren():
            _allow(node, "this")
            return _translate(node.this, filters)
        case exp.Literal():
            return Number(_read_number(node))
        case exp.Neg():
            _allow(node, "this")
            return Negative(_translate(node.this, filters))
        case exp.Filter():
            return _translate_filter(node, filters)
        case exp.Column() if node.name.lower() in TERMS:
            _allow(node, "this")
            return _translate_number(node, node.name.lower(), [])
        case exp.Anonymous() if node.name.lower() in TERMS:
            _allow(node, "this", "expressions")
            return _translate_number(node, node.name.lower(), node.expressions)
        case exp.Column() if node.name.lower() in _OF_RDR:
            _refuse(node, f"this stands for everybody's RDR at once; put it into an aggregate. {EXAMPLE}")
        case exp.Column() if node.name.lower() in COLUMNS:
            _refuse(node, f"everybody has one; put it into an aggregate, as in MAX({node.name.lower()}) <= 0.2.")
        case exp.Column():
            _refuse(node, "the data's own columns belong in a FILTER (WHERE …). Here use MIN(rdr), AVG(rdr), …")
        case exp.Window():
            _refuse(node, f"OVER is not supported. {SUPPORTED}")
        case _ if kind in ARITHMETIC:
            _allow(node, "this", "expression")
            return Arithmetic(ARITHMETIC[kind], _translate(node.this, filters), _translate(node.expression, filters))
        case _:
            name, arguments = _read_call(node)
            if name in FUNCTIONS:
                return _translate_aggregate(node, name, arguments)
            if name not in NUMBER_FUNCTIONS or (NUMBER_FUNCTIONS[name].single and len(arguments) != 1):
                _refuse(node, f"this is not supported. {SUPPORTED}")
            return FunctionCall(name, tuple(_translate(part, filters) for part in arguments))


def _translate_number(node: exp.Expr, name: str, arguments: list[exp.Expr]) -> AnswerNumber:
    """Return the number of the answer that a name stands for, with the probability that it takes, if it takes any."""
    term = TERMS[name]
    if not term.takes and not arguments:
        return AnswerNumber(name)
    if not term.takes:
        _refuse(node, f"{name} takes nothing in parentheses. Write it as in {term.example}.")
    given = _read_number(arguments[0]) if len(arguments) == 1 and isinstance(arguments[0], exp.Literal) else 0.0
    if not 0.0 < given < 1.0:
        _refuse(node, f"{name} takes one number above 0 and below 1, as in {term.example}: {term.words}.")
    return AnswerNumber(name, given)


_WRITTEN = {"PERCENTILE_CONT": "QUANTILE_CONT"}  # what the parser calls a function, and how it is written here


def _read_call(node: exp.Expr) -> tuple[str, list[exp.Expr]]:
    """Return the name of the function that a node calls, and its arguments.

    The name is empty for a node that is no call, or calls a known SQL function that preferences do not offer.
    """
    if isinstance(node, exp.Anonymous):
        name, arguments = node.name.upper(), list(node.expressions)
    else:
        names = node.sql_names() if isinstance(node, exp.Func) else []
        name = next((known for each in names if (known := _WRITTEN.get(each, each)) in _KNOWN), "")
        given = [node.args.get("this"), node.args.get("expression"), *node.expressions]
        arguments = [argument for argument in given if argument is not None]
    if name in _KNOWN:
        _allow(node, "this", "expression", "expressions")
    return name, arguments


_KNOWN = {*FUNCTIONS, *NUMBER_FUNCTIONS}


def _read_number(node: exp.Expr) -> float:
    if not isinstance(node, exp.Literal) or node.is_string:
        _refuse(node, "a number is needed here, without quotes.")
    try:
        value = float(node.this)
    except ValueError:
        _refuse(node, "this is not a number. Write it like 0.95 or 1e-5.")
    if not math.isfinite(value):
        _refuse(node, "this number is too large.")
    return value


def _translate_aggregate(node: exp.Expr, function: str, arguments: list[exp.Expr]) -> PeopleAggregate:
    facts = FUNCTIONS[function]
    fraction = facts.fraction
    if facts.takes_fraction:
        if len(arguments) < 2:
            _refuse(node, f"{function} takes the fraction too, as in {function}(rdr, 0.99).")
        fraction = _read_number(arguments.pop(1))
        if not 0.0 <= fraction <= 1.0:
            _refuse(node, "the fraction of a quantile lies between 0 and 1.")
    argument = arguments[0] if len(arguments) == 1 else None
    if isinstance(argument, exp.Star) and facts.takes_star:
        _allow(argument)
        return PeopleAggregate(function, "*")
    if not isinstance(argument, exp.Column) or argument.name.lower() not in COLUMNS:
        star = ", or *" if facts.takes_star else ""
        _refuse(node, f"{function} takes {', '.join(COLUMNS)}{star}, and nothing else.")
    _allow(argument, "this")
    return PeopleAggregate(function, argument.name.lower(), fraction)


def _translate_filter(node: exp.Filter, filters: dict[str, exp.Expression]) -> PeopleAggregate:
    _allow(node, "this", "expression")
    name, arguments = _read_call(node.this)
    if name not in FUNCTIONS:
        _refuse(node, f"FILTER belongs to an aggregate. {SUPPORTED}")
    aggregate = _translate_aggregate(node.this, name, arguments)
    _allow(node.expression, "this")
    predicate = node.expression.this
    for part in predicate.walk():
        if isinstance(part, exp.Column) and part.name.lower() in _OF_RDR:
            _refuse(predicate, "a FILTER is over the data's own columns; rdr cannot stand in it.")
        if isinstance(part, (exp.AggFunc, exp.Query, exp.Window, exp.Placeholder, exp.Parameter)):
            _refuse(part, "this cannot stand in a FILTER. Write a condition on the data's columns.")
    if _write_sql(predicate) is None:
        _refuse(predicate, "this cannot stand in a FILTER. Write a condition on the data's columns.")
    name = next((name for name, known in filters.items() if known == predicate), f"filter{len(filters)}")
    filters.setdefault(name, _bare(predicate))
    return PeopleAggregate(aggregate.function, aggregate.column, aggregate.fraction, name)


def _bare(predicate: exp.Expression) -> exp.Expression:
    """Return a copy of the predicate without its parent and its comments."""
    copy = predicate.copy()
    for node in copy.walk():
        node.comments = None
    return copy
