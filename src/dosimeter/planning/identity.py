"""Identify what a plan measures, however the query is worded. Takes a QueryPlan; gives a digest. Touches no data.

Two queries with the same digest measure the same numbers: aliases, the order of columns, HAVING, ORDER BY and LIMIT do
not count, and conditions are compared by a normal form, so that ``AND 1 = 1``, ``3 < x`` for ``x > 3`` and double
negation make no difference. The ledger records looks under this digest (G1). Two queries that measure the same may
still have two digests, as ``x > 3`` and ``x + 1 > 4`` have: arithmetic is not solved.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, cast

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.measures import ArgumentMeasure, Measure
from dosimeter.planning.people.stage import Memberships, OwnAggregates, OwnWindows, PersonRows, PersonStage, PersonTable
from dosimeter.planning.query_plan import Join, QueryPlan
from dosimeter.sql import evaluate_row, is_cut

Form = list[Any]  # a JSON value: the name of a node, then its parts

LONGEST_FORM = 200_000  # characters of person stages that are written out in full

_TRUE: Form = ["true"]
_FALSE: Form = ["false"]
_TURNED = {exp.GT: exp.LT, exp.GTE: exp.LTE}
_NEGATED = {"LT": "GTE", "LTE": "GT", "EQ": "NEQ", "NEQ": "EQ", "GT": "LTE", "GTE": "LT"}
_COMMUTING = (exp.EQ, exp.NEQ, exp.Add, exp.Mul)
_CONDITIONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Is, exp.Like)


def digest_measured(plan: QueryPlan) -> str:
    """Return a digest of the numbers that are measured: the rows, the groups, and what is added up over them.

    Columns of person stages are written out in full, or by a digest if that would be too long. What is told beside the
    answer (E5) does not count: a look at the same question with or without it is a look at both. A query that is nested
    too deeply to be compared has the digest of its plan instead.
    """
    try:
        return _digest(plan, in_full=True) or cast(str, _digest(plan, in_full=False))
    except RecursionError:
        return plan.digest  # nested too deeply to be compared: the digest of its text


def knows_earlier_looks(plan: QueryPlan) -> bool:
    """Return whether looks that earlier versions recorded at the same question have the plan's ``digest_measured``.

    These wrote every column of a person stage out in full, however long that was.
    """
    try:
        return _digest(plan, in_full=True) is not None
    except RecursionError:
        return True  # it had the digest of its plan in earlier versions, too


def _digest(plan: QueryPlan, *, in_full: bool) -> str | None:
    """Return the digest of what a plan measures; None if writing it out in full would be too long."""
    forms = _StageForms(in_full)
    try:
        made = {**({} if plan.person is None else forms.columns(plan.person)), **forms.made_by(plan.joins)}
        blocks = sorted((_form_block(block, made, forms) for block in plan.answered), key=_write)
        measured = blocks[0] if len(blocks) == 1 else [blocks]
        content = [
            plan.table.lower(),
            forms.joins(plan.joins),
            *measured,
            [plan.declared, plan.hand_sensitivity, *([] if plan.threshold is None else ["thresholded"])],
            *([] if plan.person is None else [forms.stage(plan.person)]),
        ]
    except _TooLongError:
        return None
    return hashlib.sha256(_write(content).encode()).hexdigest()


def _form_block(block: QueryPlan, made: Mapping[str, str], forms: _StageForms) -> Form:
    """Return the normal form of what one block (SELECT that measures) measures: its WHERE, its groups, its measures.

    ``made``: by name, for each column of a person stage or of a joined subquery, what it computes, as text.
    """
    return [
        _write(_TRUE if block.where is None else forms.normal(block.where, made)),
        sorted({_write(forms.normal(group.tree, made)) for group in block.groups}),
        sorted({_write(_form_measure(measure, made, forms)) for measure in block.measures}),
    ]


def _form_measure(measure: Measure, made: Mapping[str, str], forms: _StageForms) -> Form:
    argument = measure.argument if isinstance(measure, ArgumentMeasure) else None
    tree = None if argument is None else forms.normal(argument.tree, made)
    parts = None if argument is None else [argument.role, tree, str(argument.unit)]
    return [measure.name, parts, *measure.parameters]


# ---------------------------------------------------------------- the person stage


class _TooLongError(Exception):
    """The forms of a plan's person stages, written out in full, would be too long."""


class _StageForms:
    """The normal forms of the person stages of one plan, each made once.

    ``in_full``: whether a column stands for all that it is computed from, as text; otherwise for the digest of that
    text, which is as long however many stages there are. ``_written``: how many characters were written in full so far.
    """

    def __init__(self, in_full: bool) -> None:
        self._in_full = in_full
        self._written = 0
        self._stages: dict[int, Form] = {}
        self._columns: dict[int, dict[str, str]] = {}
        self._rows: dict[int, Form] = {}

    def stage(self, stage: PersonStage) -> Form:
        """Return the normal form of the rows that a person stage gives, whatever its columns are called."""
        if id(stage) not in self._stages:
            form = self.rows(stage.rows)
            if isinstance(stage.step, OwnAggregates):
                made = self._made_before(stage.rows)
                keys = sorted(_write(self.normal(tree, made)) for _, tree in stage.step.keys)
                form = ["per person", form, keys]
            self._stages[id(stage)] = form
        return self._stages[id(stage)]

    def rows(self, rows: PersonRows) -> Form:
        """Return the normal form of the rows that a person stage reads."""
        if id(rows) not in self._rows:
            made = self._made_before(rows)
            form = [
                "rows",
                ("" if rows.table is None else rows.table.name.lower())
                if rows.stage is None
                else self.stage(rows.stage),
                self.joins(rows.joins),
                _TRUE if rows.where is None else self.normal(rows.where, made),
            ]
            self._rows[id(rows)] = form if self._in_full else [self._refer(form)]
        return self._rows[id(rows)]

    def joins(self, joins: Iterable[Join]) -> list[str]:
        """Return the normal forms of joins as texts, sorted."""
        texts = sorted(_write(self._join(join)) for join in joins)
        self._count(sum(len(text) for text in texts))
        return texts

    def _join(self, join: Join) -> Form:
        table = join.table
        if isinstance(table, PersonTable) and table.stage is not None:
            made = self.columns(table.stage)
            return [self.stage(table.stage), join.left, sorted([left, made[right]] for left, right in join.pairs)]
        return [table.name.lower(), join.left, sorted(list(pair) for pair in join.pairs)]

    def columns(self, stage: PersonStage) -> dict[str, str]:
        """Return how each computed column of a person stage comes about, as text, by the column's name."""
        if id(stage) not in self._columns:
            self._columns[id(stage)] = self._form_columns(stage)
        return self._columns[id(stage)]

    def _form_columns(self, stage: PersonStage) -> dict[str, str]:
        made, rows, step = self._made_before(stage.rows), self.rows(stage.rows), stage.step
        if isinstance(step, Memberships):
            flags = {name: self._refer(["member", self.rows(others), unit]) for name, others, unit in step.flags}
            return {**made, **flags}
        columns = (*step.keys, *step.columns) if isinstance(step, OwnAggregates) else step.columns
        found = {name: self._refer([type(step).__name__, rows, self.normal(tree, made)]) for name, tree in columns}
        return {**made, **found} if isinstance(step, OwnWindows) else found

    def made_by(self, joins: Iterable[Join]) -> dict[str, str]:
        """Return how each column of joined subqueries comes about, as text, by the column's full name."""
        found: dict[str, str] = {}
        for join in joins:
            if isinstance(join.table, PersonTable) and join.table.stage is not None:
                made = self.columns(join.table.stage)
                found |= {f"{join.table.name}.{name}": form for name, form in made.items()}
        return found

    def _made_before(self, rows: PersonRows) -> Mapping[str, str]:
        return {**({} if rows.stage is None else self.columns(rows.stage)), **self.made_by(rows.joins)}

    def normal(self, tree: exp.Expression, made: Mapping[str, str]) -> Form:
        """Return the normal form of a tree with each computed column replaced by how it comes about.

        ``made``: these texts, by column.
        """
        if not made:
            return _normal(tree)
        names = [node.name for node in tree.find_all(exp.Column) if node.name in made]
        self._count(sum(len(made[name]) for name in names))  # before anything is written

        def meaning(node: exp.Expression) -> exp.Expression:
            if isinstance(node, exp.Column) and node.name in made:
                return exp.Anonymous(this="own", expressions=[exp.Literal.string(made[node.name])])
            return node

        return _normal(tree.transform(meaning))

    def _refer(self, form: Form) -> str:
        """Return the text that stands for a form: the form itself, or its digest."""
        text = _write(form)
        self._count(len(text))
        return text if self._in_full else hashlib.sha256(text.encode()).hexdigest()

    def _count(self, characters: int) -> None:
        self._written += characters
        if self._in_full and self._written > LONGEST_FORM:
            raise _TooLongError


def _write(form: object) -> str:
    return json.dumps(form, ensure_ascii=False, separators=(",", ":"))


def _normal(tree: exp.Expression) -> Form:
    match tree:
        case exp.Paren():
            return _normal(tree.this)
        case exp.Left() if is_cut(tree):  # the schema says how many letters of a text count, and not the query
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
    """Return the arguments that are set in a node, each as a list of its name and its normal form."""
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
    """Return the normal form of AND or OR over these forms: sorted, each once, without TRUE in AND or FALSE in OR.

    An AND that holds FALSE is FALSE, and an OR that holds TRUE is TRUE.
    """
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
    """Return the normal form of NOT. A comparison becomes the opposite one, which is NULL for the same rows."""
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
    """Return the truth value of a condition without columns, as a form; None if it has columns or its value is NULL."""
    if not isinstance(tree, _CONDITIONS) or tree.find(exp.Column, exp.Anonymous) is not None:
        return None
    try:
        found = evaluate_row(tree, {})
    except QueryError:  # NULL where a type is needed
        return None
    return None if found is None else (_TRUE if found else _FALSE)
