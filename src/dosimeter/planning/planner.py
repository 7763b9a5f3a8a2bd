"""Plan a query. Takes SQL and a Schema; gives a QueryPlan. Never opens a connection.

The passes, in order: parse one SELECT, check its shape, resolve the table, the groups, the SELECT list (every
aggregate becomes measures and an estimate), then HAVING, ORDER BY and LIMIT as post-processing. What is not
understood is refused by name.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal, cast

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from dosimeter.errors import OptionError, QueryError
from dosimeter.planning.aggregates import SUPPORTED, Aggregates, as_aggregate
from dosimeter.planning.declared_groups import declared_values
from dosimeter.planning.joins import list_identifying, resolve_joins
from dosimeter.planning.person_levels import PersonLevels
from dosimeter.planning.query_plan import Group, Ordering, Output, QueryPlan
from dosimeter.planning.singling_out import find_singled_out
from dosimeter.planning.subqueries import inline_subqueries
from dosimeter.schema import Schema, digest_schema
from dosimeter.sql import (
    COMPARISONS,
    NUMERIC,
    Checked,
    Scope,
    Type,
    align_types,
    check_condition,
    check_expression,
    clause_of,
    conjunction,
    disjunction,
    expect_only,
    flatten_connector,
    make_total,
    refusal,
    wrap,
)

Groups = Literal["declared", "observed"]
MAX_SQL = 100_000
MAX_DEPTH = 50
MAX_GROUPS = 10_000
MAX_NUMBERS = 50_000
MAX_PLACES = 15

_CLAUSES = {
    "laterals": "LATERAL is not supported: ask one table.",
    "distinct": "SELECT DISTINCT is not supported. Use GROUP BY, or COUNT(DISTINCT column).",
    "windows": "WINDOW is not supported. Use GROUP BY.",
    "qualify": "QUALIFY is not supported. Use HAVING.",
    "sample": "Sampling is not supported: the risk is that of the whole table.",
    "offset": "OFFSET is not supported. Use ORDER BY … LIMIT ….",
    "into": "SELECT INTO is not supported: queries only read.",
    "locks": "Locking clauses are not supported: queries only read.",
}
_ONLY_SELECT = "Only SELECT is supported: SELECT [columns,] aggregates FROM table [WHERE …] [GROUP BY …]."
_ONE_STATEMENT = "Give exactly one SELECT statement."
_TOO_DEEP = "The SQL is nested too deeply. Simplify its expressions."
_NO_SUBQUERIES = "Subqueries are not supported. Ask a plain SELECT … FROM table WHERE … GROUP BY …."
_NO_STAR = "SELECT * would release rows. Ask for aggregates, such as COUNT(*)."
# Words of the queries that are understood: none of them is taken for a column by mistake.
_CLAUSE_WORDS = re.compile(
    r"select|from|where|group|by|having|order|limit|and|or|not|in|is|like|between|case|when|then|else|end|as|on"
    r"|join|inner|left|right|full|cross|using|distinct|filter|over|with|union|intersect|except|null|true|false"
    r"|asc|desc|date|timestamp|extract|cast|offset|all|exists|interval",
    re.IGNORECASE,
)
_READ = ("expressions", "from_", "joins", "where", "group", "having", "order", "limit")


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options that decide a plan. A sensitivity given by hand and observed groups are for study (S7, C8)."""

    groups: Groups = "declared"
    min_rows: int | None = None
    sensitivity: float | None = None

    def __post_init__(self) -> None:
        if self.min_rows is not None and self.min_rows < 1:
            raise OptionError("--min-rows must be at least 1.")
        if self.sensitivity is not None and not 0.0 < self.sensitivity < float("inf"):
            raise OptionError("--sensitivity must be a positive number.")


def plan_query(sql: str, schema: Schema, options: PlanOptions | None = None) -> QueryPlan:
    """Return the plan of one query, or raise a QueryError that names the clause."""
    try:
        return _plan_select(sql, parse_select(sql), schema, options or PlanOptions())
    except RecursionError:
        raise QueryError(_TOO_DEEP) from None


def _plan_select(sql: str, parsed: exp.Select, declared: Schema, options: PlanOptions) -> QueryPlan:
    people = PersonLevels.of(declared, parsed)
    select = inline_subqueries(parsed, declared.columns, people)
    check_shape(select)
    person = people.stage_of(select)
    sources = resolve_joins(select, resolve_table(select, people.facts(select)))
    scope, schema = sources.scope, sources.schema
    if options.groups == "observed" and schema.unit != "row":
        raise OptionError("Observed groups reproduce the paper, where everybody has one row. Use declared groups.")
    where = select.args.get("where")
    condition = check_condition(where.this, scope) if where else None
    groups, kinds = _plan_groups(select, scope, options.groups)
    aggregates = Aggregates(
        schema=schema,
        scope=scope,
        min_rows=options.min_rows,
        direct=options.sensitivity is not None,
        groups=math.prod(len(group.values) for group in groups if group.values is not None),
    )
    formulas = _Formulas(scope, groups, kinds, aggregates)
    outputs = formulas.outputs(select)
    having = formulas.condition(select.args["having"].this) if select.args.get("having") else None
    order = formulas.ordering(select.args["order"]) if select.args.get("order") else ()
    limit = _plan_limit(select.args["limit"]) if select.args.get("limit") else None
    measured = aggregates.finish()
    if aggregates.groups * len(measured.measures) > MAX_NUMBERS:
        raise QueryError(
            f"The query measures {len(measured.measures):,} numbers in each of {aggregates.groups:,} groups; at most "
            f"{MAX_NUMBERS:,} in all are supported. Ask for fewer aggregates or fewer groups."
        )
    plan = QueryPlan(
        sql=sql,
        table=declared.table,
        columns=_columns_used(select, scope),
        where=condition,
        groups=groups,
        arguments=measured.arguments,
        measures=measured.measures,
        estimates=measured.estimates,
        outputs=outputs,
        having=having,
        order=order,
        limit=limit,
        declared=options.groups == "declared",
        hand_sensitivity=options.sensitivity,
        schema=schema,
        digest=_digest_plan(parsed if people.stages or people.joined else select, declared, options),
        joins=sources.joins,
        person=person,
        declared_schema=None if person is None else declared,
    )
    singled_out = {**people.singled_out, **dict(find_singled_out(select, scope, list_identifying(plan)))}
    return replace(plan, singled_out=tuple(singled_out.items()))


# ---------------------------------------------------------------- parsing and shape


def parse_select(sql: str) -> exp.Select:
    """Parse exactly one SELECT statement; refuse anything else."""
    if len(sql) > MAX_SQL:
        raise QueryError(f"The SQL is longer than {MAX_SQL:,} characters.")
    if not sql.strip():
        raise QueryError("The SQL is empty. Ask for example: SELECT COUNT(*) FROM table.")
    try:
        sql.encode()
        _expect_one_select(sql)
        statements = [statement for statement in sqlglot.parse(sql, read="duckdb") if statement is not None]
    except UnicodeEncodeError:
        raise QueryError("The SQL holds characters that are not Unicode text.") from None
    except SqlglotError as error:
        raise _parsing_error(sql, error) from None
    except RecursionError:
        raise QueryError(_TOO_DEEP) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise QueryError("The SQL does not parse. Ask for example: SELECT COUNT(*) FROM table.") from None
    statements = [statement for statement in statements if not isinstance(statement, exp.Semicolon)]
    if len(statements) != 1:
        raise QueryError(_ONE_STATEMENT)
    statement = statements[0]
    if isinstance(statement, exp.SetOperation):
        raise refusal(statement, "UNION, INTERSECT and EXCEPT are not supported. Ask one SELECT.")
    if not isinstance(statement, exp.Select):
        raise QueryError(_ONLY_SELECT)
    if _depth(statement) > MAX_DEPTH:
        raise QueryError(_TOO_DEEP)
    return statement


def write_plainly(sql: str) -> str:
    """Return a query as it is understood: without comments, and in the same layout whoever wrote it."""
    return parse_select(sql).sql(dialect="duckdb", comments=False)


def _expect_one_select(sql: str) -> None:
    """Refuse other statements before parsing: the parser keeps what it does not know as an opaque command."""
    kinds = [token.token_type for token in sqlglot.tokenize(sql, read="duckdb")]
    while kinds and kinds[-1] is TokenType.SEMICOLON:
        kinds.pop()
    if TokenType.SEMICOLON in kinds or not kinds:
        raise QueryError(_ONE_STATEMENT)
    if kinds[0] not in (TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.L_PAREN):
        raise QueryError(_ONLY_SELECT)


def _parsing_error(sql: str, error: SqlglotError) -> QueryError:
    """Translate sqlglot's parse error into a message about the SQL text."""
    if not isinstance(error, ParseError) or not error.errors:
        return QueryError(f"The SQL does not parse: {_find_unclosed(sql) or 'it holds a character that has no place'}.")
    found = error.errors[0]
    reason, word, rest = (str(found.get(name) or "") for name in ("description", "highlight", "end_context"))
    if _is_reserved(word):
        return QueryError(
            f'The SQL does not parse: {word} is a reserved word. If it is a column, write "{word}".', clause=word
        )
    where = f"near '{_shorten(word + rest)}'"
    if not rest.strip() and not reason.startswith("Invalid expression"):
        where = f"it ends too early, after '{_shorten(str(found.get('start_context') or '') + word, from_end=True)}'"
    if reason == "Expecting )":
        return QueryError(f"The SQL does not parse: a parenthesis is not closed, {where}.", clause=word or None)
    separator = ":" if where.startswith("it") else ""
    return QueryError(f"The SQL does not parse{separator} {where}.", clause=word or None)


def _shorten(text: str, *, from_end: bool = False) -> str:
    flat = " ".join(text.split())
    if len(flat) <= 40:
        return flat
    return f"…{flat[-39:]}" if from_end else f"{flat[:39]}…"


def _is_reserved(word: str) -> bool:
    """Return whether a word is a keyword that supported queries do not use, so that the analyst must mean a name."""
    if not word.isidentifier() or _CLAUSE_WORDS.fullmatch(word):
        return False
    kinds = [token.token_type for token in sqlglot.tokenize(word, read="duckdb")]
    return kinds != [TokenType.VAR]


def _find_unclosed(sql: str) -> str | None:
    """Return a message about a text, a name or a comment that is opened and never closed; otherwise None."""
    opened = re.sub(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", "", sql, flags=re.DOTALL)
    marks = {mark: opened.find(mark) for mark in ("'", '"', "/*") if mark in opened}
    if not marks:
        return None
    first = min(marks, key=lambda mark: marks[mark])
    return "a comment is not closed by */" if first == "/*" else f"a quote ({first}) is not closed"


def _depth(tree: exp.Expression) -> int:
    deepest, pending = 0, [(tree, 1)]
    while pending:
        node, depth = pending.pop()
        deepest = max(deepest, depth)
        # A flat chain of AND or OR is a deep tree, but it is rebuilt balanced, so only nesting of other nodes counts.
        step = 0 if isinstance(node, exp.Connector) else 1
        pending.extend((child, depth + step) for child in node.iter_expressions())
    return deepest


def check_shape(select: exp.Select) -> None:
    for name, value in select.args.items():
        if name in _READ or not value:
            continue
        message = _CLAUSES.get(name, f"The clause {name.strip('_').upper()} is not supported.")
        raise QueryError(message, clause=clause_of(value) if isinstance(value, exp.Expression) else None)


def resolve_table(select: exp.Select, schema: Schema) -> Scope:
    origin = select.args.get("from_")
    if origin is None:
        raise QueryError(f"The query has no FROM. The table is {schema.table}.")
    table = origin.this
    if isinstance(table, exp.Subquery):
        raise refusal(table, _NO_SUBQUERIES)
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise refusal(table, f"Only a plain table can stand in FROM. The table is {schema.table}.")
    if table.args.get("joins"):
        raise refusal(table, f"{clause_of(table)}: write joins one after the other, without parentheses.")
    expect_only(table, "this", "db", "alias")
    written = f"{table.db}.{table.name}" if table.db else table.name
    if written.lower() != schema.table.lower():
        raise refusal(table, f"There is no table {written}. The table is {schema.table}.")
    alias = table.args.get("alias")
    if alias is not None:
        expect_only(alias, "this")
    names = {table.name.lower(), *([alias.name.lower()] if alias is not None else [])}
    return Scope(schema=schema, names=frozenset(names))


# ---------------------------------------------------------------- groups


def _plan_groups(select: exp.Select, scope: Scope, mode: Groups) -> tuple[tuple[Group, ...], tuple[Type, ...]]:
    """Return the groups and the type of each."""
    clause = select.args.get("group")
    if clause is None:
        return (), ()
    for name, value in clause.args.items():
        if name != "expressions" and value:
            raise refusal(clause, f"GROUP BY {name.upper()} is not supported. List the columns.")
    if not clause.expressions:
        raise QueryError("GROUP BY is not followed by a column. Add one, or leave GROUP BY out.", clause="GROUP BY")
    groups: list[Group] = []
    kinds: list[Type] = []
    for node in clause.expressions:
        if isinstance(node, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
            raise refusal(node, f"{clause_of(node)} is not supported in GROUP BY. List the columns.")
        source = _dereference(node, select, scope)
        checked = check_expression(source, scope)
        tree = make_total(checked.tree, scope.schema)
        if any(group.tree == tree for group in groups):
            continue
        values = declared_values(source, checked, scope.schema) if mode == "declared" else None
        groups.append(Group(name=_group_name(source, select), tree=tree, values=values))
        kinds.append(checked.type)
    total = math.prod(len(group.values) for group in groups if group.values is not None)
    if total > MAX_GROUPS:
        raise QueryError(
            f"The GROUP BY has {total:,} declared groups; at most {MAX_GROUPS:,} are supported. "
            "Group by fewer columns or by a coarser expression.",
            clause=clause_of(clause),
        )
    return tuple(groups), tuple(kinds)


def _dereference(node: exp.Expression, select: exp.Select, scope: Scope) -> exp.Expression:
    """Return the SELECT item that GROUP BY 1 or GROUP BY alias stands for; otherwise the node itself."""
    if isinstance(node, exp.Literal) and not node.is_string:
        position = _whole_number(node)
        if position is None or not 1 <= position <= len(select.expressions):
            raise refusal(node, f"GROUP BY {clause_of(node)} does not name an item of the SELECT list.")
        return _unaliased(select.expressions[position - 1])
    if isinstance(node, exp.Column) and not node.table:
        with suppress(QueryError):
            scope.resolve(node)
            return node
        for item in select.expressions:
            if isinstance(item, exp.Alias) and item.alias.lower() == node.name.lower():
                return _unaliased(item)
    return node


def _unaliased(item: exp.Expression) -> exp.Expression:
    return cast(exp.Expression, item.this) if isinstance(item, exp.Alias) else item


def _whole_number(node: exp.Expression) -> int | None:
    """Return a literal such as the 10 of LIMIT 10; None when it is anything else, or too large."""
    if not isinstance(node, exp.Literal) or node.is_string or not re.fullmatch(r"\d{1,18}", str(node.this), re.ASCII):
        return None
    return int(node.this)


def _group_name(node: exp.Expression, select: exp.Select) -> str:
    """Return the analyst's name for a group: its column, its alias in the SELECT list, or the expression as written."""
    bare = node.unnest()
    if isinstance(bare, exp.Column):
        return str(bare.name)
    aliases = [item.alias for item in select.expressions if isinstance(item, exp.Alias) and item.this == node]
    return aliases[0] if aliases else clause_of(node)


# ---------------------------------------------------------------- the SELECT list, HAVING, ORDER BY, LIMIT


@dataclass(slots=True)
class _Formulas:
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
            node, alias = _unaliased(item), item.alias if isinstance(item, exp.Alias) else None
            if isinstance(node, (exp.Star, exp.Columns)) or (isinstance(node, exp.Column) and node.name == "*"):
                raise refusal(node, _NO_STAR)
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
            return refusal(node, _NO_SUBQUERIES)
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
                places = 0 if decimals is None else _whole_number(decimals)
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
                raise refusal(node, _NO_SUBQUERIES)
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
                joined = conjunction(parts) if isinstance(node, exp.And) else disjunction(parts)
                assert joined is not None
                return joined
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
            position = _whole_number(node)
            if position is None or not 1 <= position <= len(self.named):
                raise refusal(node, f"ORDER BY {clause_of(node)} does not name an item of the SELECT list.")
            return list(self.named.values())[position - 1].tree.copy()
        if isinstance(node, exp.Var):
            raise refusal(node, "ORDER BY ALL is not supported. List the columns.")
        return self.term(node).tree


def _plan_limit(clause: exp.Expression) -> int:
    options = clause.args.get("limit_options")
    literal = clause.args.get("expression")
    rows = _whole_number(literal) if isinstance(literal, exp.Expression) else None
    if not isinstance(clause, exp.Limit) or options is not None or rows is None:
        raise refusal(clause, "LIMIT takes a whole number.")
    expect_only(clause, "expression")
    return rows


# ---------------------------------------------------------------- identity


def _columns_used(select: exp.Select, scope: Scope) -> tuple[str, ...]:
    used = {scope.resolve(node).name for node in select.find_all(exp.Column) if _is_column(node, scope)}
    return tuple(name for name in scope.schema.columns if name in used)


def _is_column(node: exp.Column, scope: Scope) -> bool:
    """Return whether a name is a column of the table; in GROUP BY, HAVING and ORDER BY it may be an alias."""
    try:
        scope.resolve(node)
    except QueryError:
        return False
    return True


def _digest_plan(select: exp.Select, schema: Schema, options: PlanOptions) -> str:
    """Return a digest of what is measured: the query as parsed (without layout and comments) and its facts."""
    content = {
        "query": select.sql(dialect="duckdb", comments=False),
        "schema": digest_schema(schema),
        "groups": options.groups,
        "min_rows": options.min_rows,
        "sensitivity": options.sensitivity,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
