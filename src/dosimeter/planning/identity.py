"""Identify what a plan measures, however the query is worded. Takes a QueryPlan; gives a digest. Touches no data.

Two queries with the same digest measure the same numbers: aliases, the order of columns, HAVING, ORDER BY and LIMIT do
not count, and conditions are compared by a normal form, so that ``AND 1 = 1``, turned comparisons and double negation
make no difference. The ledger records looks under this digest (G1). Queries that only a proof could show to be the same
may still have two digests.
"""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.measures import ArgumentMeasure, Measure
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.sql import evaluate_row

Form = list[Any]  # a JSON value: the name of a node, then its parts

_TRUE: Form = ["true"]
_FALSE: Form = ["false"]
_TURNED = {exp.GT: exp.LT, exp.GTE: exp.LTE}
_NEGATED = {"LT": "GTE", "LTE": "GT", "EQ": "NEQ", "NEQ": "EQ", "GT": "LTE", "GTE": "LT"}
_COMMUTING = (exp.EQ, exp.NEQ, exp.Add, exp.Mul)
_CONDITIONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Is, exp.Like)


def digest_measured(plan: QueryPlan) -> str:
    """Return a digest of the numbers that are measured: the rows, the groups, and what is added up over them."""
    try:
        content = [
            plan.table.lower(),
            sorted(_write(_form_join(plan, at)) for at in range(len(plan.joins))),
            _write(_TRUE if plan.where is None else _normal(plan.where)),
            sorted({_write(_normal(group.tree)) for group in plan.groups}),
            sorted({_write(_form_measure(measure)) for measure in plan.measures}),
            [plan.declared, plan.hand_sensitivity],
        ]
    except RecursionError:
        return plan.digest  # nested too deeply to be compared: the digest of its text
    return hashlib.sha256(_write(content).encode()).hexdigest()


def _form_join(plan: QueryPlan, at: int) -> Form:
    join = plan.joins[at]
    return [join.table.name.lower(), join.left, sorted(list(pair) for pair in join.pairs)]


def _form_measure(measure: Measure) -> Form:
    argument = measure.argument if isinstance(measure, ArgumentMeasure) else None
    parts = None if argument is None else [argument.role, _normal(argument.tree), str(argument.unit)]
    return [measure.name, parts, *measure.parameters]


def _write(form: object) -> str:
    return json.dumps(form, ensure_ascii=False, separators=(",", ":"))


def _normal(tree: exp.Expression) -> Form:
    match tree:
        case exp.Paren():
            return _normal(tree.this)
        case exp.Column():
            return ["column", tree.table.lower(), tree.name.lower()]
        case exp.Boolean():
            return _TRUE if tree.this else _FALSE
        case exp.Null():
            return ["null"]
        case exp.Literal():
            return ["text", tree.this] if tree.is_string else ["number", _normal_number(tree.this)]
        case exp.And() | exp.Or():
            return _normal_connector(tree)
        case exp.Not():
            return _negate(_normal(tree.this))
        case exp.Between():
            subject, low, high = (_normal(tree.args[name]) for name in ("this", "low", "high"))
            return _settle(tree) or _connect("And", [["LTE", low, subject], ["LTE", subject, high]])
        case exp.In() if not tree.args.get("query"):
            members = sorted({_write(_normal(member)) for member in tree.expressions})
            return _settle(tree) or ["in", _normal(tree.this), members]
        case _ if isinstance(tree, exp.Binary):
            return _settle(tree) or _normal_binary(tree)
        case _:
            return _settle(tree) or [type(tree).__name__, *_parts(tree)]


def _parts(tree: exp.Expression) -> list[Any]:
    """Return every argument that is set, with its name."""
    found: list[Any] = []
    for name, value in sorted(tree.args.items()):
        if isinstance(value, exp.Expression):
            found.append([name, _normal(value)])
        elif isinstance(value, list) and value:
            found.append([name, [_normal(part) if isinstance(part, exp.Expression) else str(part) for part in value]])
        elif value not in (None, False, []):
            found.append([name, str(value)])
    return found


def _normal_number(text: str) -> str:
    try:
        return str(Decimal(text).normalize())
    except InvalidOperation:
        return text


def _normal_connector(tree: exp.Expression) -> Form:
    kind = exp.And if isinstance(tree, exp.And) else exp.Or
    forms: list[Form] = []
    pending = [tree]
    while pending:  # a loop, for thousands of conditions may stand side by side
        part = pending.pop()
        if isinstance(part, exp.Paren):
            pending.append(part.this)
        elif isinstance(part, kind):
            pending += [part.this, part.expression]
        else:
            forms.append(_normal(part))
    return _connect("And" if kind is exp.And else "Or", forms)


def _connect(kind: Literal["And", "Or"], forms: list[Form]) -> Form:
    """Return AND or OR over these forms, without order, repetition, and parts that change nothing."""
    neutral, decisive = (_TRUE, _FALSE) if kind == "And" else (_FALSE, _TRUE)
    parts: dict[str, Form] = {}
    for form in forms:
        parts |= {_write(each): each for each in (form[1] if form[0] == kind else [form])}
    if _write(decisive) in parts:
        return decisive
    parts.pop(_write(neutral), None)
    if not parts:
        return neutral
    ordered = [parts[text] for text in sorted(parts)]
    return ordered[0] if len(ordered) == 1 else [kind, ordered]


def _normal_binary(tree: exp.Binary) -> Form:
    kind, left, right = type(tree), _normal(tree.this), _normal(tree.expression)
    if kind in _TURNED:
        kind, left, right = _TURNED[kind], right, left
    if isinstance(tree, _COMMUTING):
        left, right = sorted((left, right), key=_write)
    if kind in (exp.EQ, exp.NEQ):  # flag = TRUE is flag
        for truth, other in ((left, right), (right, left)):
            if truth in (_TRUE, _FALSE):
                return other if (truth == _TRUE) is (kind is exp.EQ) else _negate(other)
    return [kind.__name__, left, right]


def _negate(form: Form) -> Form:
    """Return the negation of a form: for a comparison the opposite one, which is NULL in the same cases."""
    match form:
        case ["true"]:
            return _FALSE
        case ["false"]:
            return _TRUE
        case ["not", inner]:
            return list(inner)
        case ["And", parts]:
            return _connect("Or", [_negate(part) for part in parts])
        case ["Or", parts]:
            return _connect("And", [_negate(part) for part in parts])
        case [str(kind), left, right] if kind in _NEGATED:
            if _NEGATED[kind] in ("GT", "GTE"):
                return ["LT" if _NEGATED[kind] == "GT" else "LTE", right, left]
            return [_NEGATED[kind], left, right]
        case _:
            return ["not", form]


def _settle(tree: exp.Expression) -> Form | None:
    """Return the truth value of a condition without columns; None for anything else."""
    if not isinstance(tree, _CONDITIONS) or tree.find(exp.Column) is not None:
        return None
    try:
        found = evaluate_row(tree, {})
    except QueryError:  # NULL where a type is needed
        return None
    return None if found is None else (_TRUE if found else _FALSE)
