"""Plan what is computed from aggregates: the SELECT list, HAVING and ORDER BY. Never opens a connection."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.aggregates import SUPPORTED, Aggregates, as_aggregate
from dosimeter.planning.groups import unaliased, whole_number
from dosimeter.planning.parsing import NO_SUBQUERIES
from dosimeter.planning.query_plan import Group, Ordering, Output
from dosimeter.sql import (
    COMPARISONS,
    NUMERIC,
    Checked,
    Scope,
    Type,
    align_types,
    check_expression,
    clause_of,
    connect,
    expect_only,
    flatten_connector,
    make_total,
    refusal,
    wrap,
)

MAX_PLACES = 15
NO_STAR = "SELECT * would release rows. Ask for aggregates, such as COUNT(*)."


@dataclass(slots=True)
class Formulas:
    """Formulas over aggregates, as trees over columns e0, e1 … (estimates) and g0, g1 … (group columns).

    Only Python evaluates these, on released numbers, so their types are decided here.
    """

    scope: Scope
    groups: tuple[Group, ...]
    kinds: tuple[Type, ...]
    aggregates: Aggregates
    named: dict[str, Checked] = field(default_factory=dict)

    def outputs(self, select: exp.Select) -> tuple[Output, ...]:
        outputs: list[Output] = []
        for item in select.expressions:
            node, alias = unaliased(item), item.alias if isinstance(item, exp.Alias) else None
            if isinstance(node, (exp.Star, exp.Columns)) or (isinstance(node, exp.Column) and node.name == "*"):
                raise refusal(node, NO_STAR)
            position = self._matching_group(node)
            if position is not None:
                group = self.groups[position]
                plain = group.name if isinstance(group.tree, exp.Column) else f"group{position + 1}"
                name = self._free_name(alias or plain)
                self.named[name.lower()] = self._group(position)
                outputs.append(Output(name, position, None))
                continue
            if node.find(exp.AggFunc) is None and not as_aggregate(node):
                raise self._not_grouped(node)
            formula = self.formula(node)
            name = self._free_name(alias or self.aggregates.default_name(node) or f"column{len(outputs) + 1}")
            self.named[name.lower()] = formula
            outputs.append(Output(name, None, formula.tree))
        if not any(output.is_aggregate for output in outputs):
            raise QueryError("The query has no aggregate. Ask for COUNT, SUM, AVG, MIN, MAX, MEDIAN, ….")
        return tuple(outputs)

    def _free_name(self, name: str) -> str:
        candidate, number = name, 2
        while candidate.lower() in self.named:
            candidate, number = f"{name}_{number}", number + 1
        return candidate

    def _not_grouped(self, node: exp.Expression) -> QueryError:
        if isinstance(node, exp.Column):
            self.scope.resolve(node)
        elif isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation, exp.Exists)):
            return refusal(node, NO_SUBQUERIES)
        return refusal(
            node, f"{clause_of(node)} is neither an aggregate nor in the GROUP BY. Add it there, or leave it out."
        )

    def _group(self, position: int) -> Checked:
        return Checked(exp.column(f"g{position}"), self.kinds[position])

    def _matching_group(self, node: exp.Expression) -> int | None:
        if node.find(exp.AggFunc) is not None or as_aggregate(node):
            return None
        try:
            tree = make_total(check_expression(node, self.scope).tree, self.scope.schema)
        except QueryError:
            return None
        return next((at for at, group in enumerate(self.groups) if group.tree == tree), None)

    # ------------------------------------------------------------ one formula

    def formula(self, node: exp.Expression) -> Checked:
        """Rebuild arithmetic over aggregates and group columns."""
        if as_aggregate(node):
            return Checked(exp.column(f"e{self.aggregates.add(node)}"), Type.NUMBER)
        position = self._matching_group(node)
        if position is not None and not isinstance(node, exp.Literal):
            return self._group(position)
        match node:
            case exp.Paren():
                expect_only(node, "this")
                inner = self.formula(node.this)
                return Checked(wrap(inner.tree), inner.type)
            case exp.Literal():
                return check_expression(node, self.scope)
            case exp.Neg() | exp.Abs() | exp.Floor() | exp.Ceil():
                expect_only(node, "this")
                return Checked(type(node)(this=self._number(node.this, node)), Type.NUMBER)
            case exp.Round():
                expect_only(node, "this", "decimals")
                decimals = node.args.get("decimals")
                places = 0 if decimals is None else whole_number(decimals)
                if places is None or places > MAX_PLACES:
                    raise refusal(node, f"{clause_of(node)}: ROUND takes a whole number of places up to {MAX_PLACES}.")
                rounded = exp.Round(this=self._number(node.this, node), decimals=exp.Literal.number(places))
                return Checked(rounded, Type.NUMBER)
            case exp.Least() | exp.Greatest():
                expect_only(node, "this", "expressions")
                first, *others = (self._number(part, node) for part in (node.this, *node.expressions))
                return Checked(type(node)(this=first, expressions=others), Type.NUMBER)
            case exp.Nullif() | exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
                expect_only(node, "this", "expression")
                left, right = self._number(node.this, node), self._number(node.expression, node)
                return Checked(type(node)(this=left, expression=right), Type.NUMBER)
            case exp.Window():
                raise refusal(node, "Window functions (OVER) are not supported. Use GROUP BY.")
            case exp.Subquery() | exp.Select() | exp.SetOperation() | exp.Exists():
                raise refusal(node, NO_SUBQUERIES)
            case exp.Column():
                raise self._not_grouped(node)
            case exp.AggFunc():
                raise refusal(node, f"{clause_of(node)} is not supported. {SUPPORTED}")
            case _:
                raise refusal(
                    node,
                    f"{clause_of(node)} is not supported over aggregates. "
                    "Use + - * / ABS ROUND FLOOR CEIL LEAST GREATEST NULLIF.",
                )

    def _number(self, node: exp.Expression | None, parent: exp.Expression) -> exp.Expression:
        if node is None:
            raise refusal(parent, f"{clause_of(parent)} lacks an argument.")
        checked = self.formula(node)
        if checked.type not in NUMERIC:
            raise refusal(parent, f"{clause_of(parent)} needs numbers, and {clause_of(node)} is {checked.type}.")
        return wrap(checked.tree)

    # ------------------------------------------------------------ HAVING and ORDER BY

    def condition(self, node: exp.Expression) -> exp.Expression:
        match node:
            case exp.Paren():
                return wrap(self.condition(node.this))
            case exp.And() | exp.Or():
                parts = [self.condition(part) for part in flatten_connector(node)]
                return connect(parts, exp.And if isinstance(node, exp.And) else exp.Or)
            case exp.Not():
                return exp.Not(this=wrap(self.condition(node.this)))
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                expect_only(node, "this", "expression")
                sides = (node.this, node.expression)
                if any(isinstance(side.unnest(), COMPARISONS) for side in sides):
                    raise refusal(node, f"{clause_of(node)} chains comparisons. Write BETWEEN, or AND.")
                left, right = align_types([(side, self.term(side)) for side in sides], parent=node)
                return type(node)(this=wrap(left.tree), expression=wrap(right.tree))
            case exp.Between():
                expect_only(node, "this", "low", "high")
                parts = [node.args[name] for name in ("this", "low", "high")]
                subject, low, high = align_types([(part, self.term(part)) for part in parts], parent=node)
                return exp.Between(this=wrap(subject.tree), low=wrap(low.tree), high=wrap(high.tree))
            case _:
                raise refusal(
                    node, f"HAVING takes comparisons of aggregates joined by AND and OR, not {clause_of(node)}."
                )

    def term(self, node: exp.Expression) -> Checked:
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in self.named:
            known = self.named[node.name.lower()]
            return Checked(known.tree.copy(), known.type)
        return self.formula(node)

    def ordering(self, clause: exp.Expression) -> tuple[Ordering, ...]:
        expect_only(clause, "expressions")
        keys = []
        for item in clause.expressions:
            expect_only(item, "this", "desc", "nulls_first")
            descending = bool(item.args.get("desc"))
            keys.append(Ordering(self._order_term(item.this), descending, bool(item.args.get("nulls_first"))))
        return tuple(keys)

    def _order_term(self, node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Literal) and not node.is_string:
            position = whole_number(node)
            if position is None or not 1 <= position <= len(self.named):
                raise refusal(node, f"ORDER BY {clause_of(node)} does not name an item of the SELECT list.")
            return list(self.named.values())[position - 1].tree.copy()
        if isinstance(node, exp.Var):
            raise refusal(node, "ORDER BY ALL is not supported. List the columns.")
        return self.term(node).tree
