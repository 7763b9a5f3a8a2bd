"""Read SQL as one SELECT, and say in the analyst's words what does not parse. Takes text; gives sqlglot's tree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import ClassVar, TypeGuard, cast

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.duckdb import DuckDBParser

from dosimeter.errors import QueryError
from dosimeter.sql import Scope, clause_of, expect_only, name_to_char, refusal

MAX_SQL = 100_000
MAX_DEPTH = 50

_ONLY_SELECT = "Only SELECT is supported: SELECT [columns,] aggregates FROM table [WHERE …] [GROUP BY …]."
_ONE_STATEMENT = "Give exactly one SELECT statement."
NO_SUBQUERIES = "Subqueries are not supported here. Ask a plain SELECT … FROM table WHERE … GROUP BY …."
NO_SET_OPERATIONS = "INTERSECT and EXCEPT are not supported. Ask one SELECT, or join several by UNION ALL."
UNION = "union"  # in the meta of a SELECT that was written as a UNION
NO_STAR = "SELECT * would release rows. Ask for aggregates, such as COUNT(*)."
TOO_DEEP = "The SQL is nested too deeply. Simplify its expressions."
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
_DISTINCT_ON = (
    "DISTINCT ON would release rows. Choose each individual's row in a subquery, and aggregate: SELECT …, COUNT(*) "
    "FROM (SELECT DISTINCT ON (unit) … ORDER BY unit, …) GROUP BY …."
)
# Words of the queries that are understood: none of them is taken for a column by mistake.
_CLAUSE_WORDS = re.compile(
    r"select|from|where|group|by|having|order|limit|and|or|not|in|is|like|between|case|when|then|else|end|as|on"
    r"|join|inner|left|right|full|cross|using|distinct|filter|over|with|union|intersect|except|null|true|false"
    r"|asc|desc|date|timestamp|extract|cast|offset|all|exists|interval",
    re.IGNORECASE,
)
_SET_WORDS = (TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT)
_AFTER_SET_WORD = (
    TokenType.ALL, TokenType.DISTINCT, TokenType.SELECT, TokenType.FROM, TokenType.WITH, TokenType.L_PAREN,
)  # fmt: skip
_ENDS_OF_SELECT = (TokenType.VAR, TokenType.NUMBER, TokenType.STRING, TokenType.IDENTIFIER, TokenType.R_PAREN)
_READ = ("expressions", "from_", "joins", "where", "group", "having", "order", "limit")


class _PlainPaths(DuckDB):
    """DuckDB's SQL, with paths into JSON left as they are written: 'a.b' is one key, and '$.a.b' two.

    UPPER(x -> 'a') reads JSON, too: the parser would take it for a function of x.
    """

    class Parser(DuckDBParser):
        LAMBDAS: ClassVar = {kind: read for kind, read in DuckDBParser.LAMBDAS.items() if kind is not TokenType.ARROW}

    def to_json_path(self, path: exp.Expr | None) -> exp.Expr | None:
        return path


def parse_select(sql: str) -> exp.Select:
    """Return exactly one SELECT statement, parsed; refuse anything else.

    A UNION becomes SELECT * FROM (… UNION ALL …), with DISTINCT unless it was a UNION ALL.
    """
    return as_select(_parse_query(sql))


def as_select(query: exp.Expression) -> exp.Select:
    """Return a SELECT itself, and a UNION as SELECT * FROM (… UNION ALL …) with the union's own ORDER BY and LIMIT.

    The SELECT has DISTINCT unless the union was a UNION ALL. INTERSECT and EXCEPT are refused.
    """
    if isinstance(query, exp.Select):
        return query
    if not isinstance(query, exp.Union):
        raise refusal(query, NO_SET_OPERATIONS)
    expect_only(query, "this", "expression", "distinct", "with_", "order", "limit", "offset")
    parts = exp.Union(this=query.this.copy(), expression=query.expression.copy(), distinct=False)
    select = exp.select("*").from_(exp.Subquery(this=parts, alias=exp.TableAlias(this=exp.to_identifier("parts"))))
    for name in ("with_", "order", "limit", "offset"):
        if query.args.get(name) is not None:
            select.set(name, query.args[name].copy())
    if query.args.get("distinct"):
        select.set("distinct", exp.Distinct())
    select.meta[UNION] = True
    return select


def list_parts(union: exp.Expression) -> list[exp.Select]:
    """Return the SELECTs of a UNION ALL, in order.

    A part that is itself a UNION without ALL, or a union with its own ORDER BY, LIMIT …, becomes one SELECT.
    """
    while isinstance(union, exp.Subquery):
        expect_only(union, "this")
        union = union.this
    plain = isinstance(union, exp.Union) and not any(
        union.args.get(name) for name in ("distinct", "with_", "order", "limit", "offset", "by_name")
    )
    return [*list_parts(union.this), *list_parts(union.expression)] if plain else [as_select(union)]


def _parse_query(sql: str) -> exp.Expression:
    if not isinstance(sql, str):
        raise QueryError("The SQL must be text. Ask for example: SELECT COUNT(*) FROM table.")
    if len(sql) > MAX_SQL:
        raise QueryError(f"The SQL is longer than {MAX_SQL:,} characters.")
    if not sql.strip():
        raise QueryError("The SQL is empty. Ask for example: SELECT COUNT(*) FROM table.")
    try:
        sql.encode()
        _expect_one_select(sql)
        statements = [statement for statement in sqlglot.parse(sql, read=_PlainPaths) if statement is not None]
    except UnicodeEncodeError:
        raise QueryError("The SQL holds characters that are not Unicode text.") from None
    except SqlglotError as error:
        raise _parsing_error(sql, error) from None
    except RecursionError:
        raise QueryError(TOO_DEEP) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise QueryError("The SQL does not parse. Ask for example: SELECT COUNT(*) FROM table.") from None
    statements = [statement for statement in statements if not isinstance(statement, exp.Semicolon)]
    for node in [node for statement in statements for node in statement.find_all(exp.ToChar)]:
        node.replace(name_to_char(node))
    if len(statements) != 1:
        raise QueryError(_ONE_STATEMENT)
    statement = statements[0]
    while isinstance(statement, exp.Subquery) and isinstance(statement.this, exp.SetOperation):
        expect_only(statement, "this")
        statement = statement.this
    if isinstance(statement, exp.SetOperation) and not isinstance(statement, exp.Union):
        raise refusal(statement, NO_SET_OPERATIONS)
    if not isinstance(statement, (exp.Select, exp.Union)):
        raise QueryError(_ONLY_SELECT)
    if _depth(statement) > MAX_DEPTH:
        raise QueryError(TOO_DEEP)
    return statement


def write_plainly(sql: str) -> str:
    """Return a query in one fixed layout and without comments, so that the same query always looks the same."""
    return _parse_query(sql).sql(dialect="duckdb", comments=False)


def _expect_one_select(sql: str) -> None:
    """Refuse anything but one SELECT before it is parsed: the parser would accept statements that it does not know."""
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
        mark, at = _find_unclosed(sql)
        reason = "it holds a character that has no place"
        if mark is not None:
            reason = "a comment is not closed by */" if mark == "/*" else f"a quote ({mark}) is not closed"
        return QueryError(f"The SQL does not parse: {reason}.", clause=mark, at=at)
    found = error.errors[0]
    reason, word, rest = (str(found.get(name) or "") for name in ("description", "highlight", "end_context"))
    meant = _find_set_word(sql) or (word if _is_reserved(word) else None)
    if meant is not None:
        return QueryError(
            f'The SQL does not parse: {meant} is a reserved word. If it is a column, write "{meant}".', clause=meant
        )
    if "DateDiff" in reason:
        return QueryError(
            "DATE_DIFF takes a unit, a start and an end: DATE_DIFF('day', start, end).", clause="DATE_DIFF"
        )
    named = re.search(r"(?<![\w.])[0-9]+_?[^\W\d]\w*", re.sub(r"'[^']*'|\"[^\"]*\"", " ", sql))
    if named is not None and not re.fullmatch(r"[0-9]+[eE][0-9]+", named[0]):
        return QueryError(
            f'The SQL does not parse: a name that begins with a digit needs quotes. Write "{_shorten(named[0])}".',
            clause=named[0],
        )
    where, separator = f"near '{_shorten(word + rest)}'", ""
    if not rest.strip() and not reason.startswith("Invalid expression"):
        before = _shorten(str(found.get("start_context") or "") + word, from_end=True)
        where, separator = f"it ends too early, after '{before}'", ":"
    at = _find_start(sql, found["line"], found["col"], word) if word else None
    if reason == "Expecting )":
        return QueryError(f"The SQL does not parse: a parenthesis is not closed, {where}.", clause=word or None, at=at)
    return QueryError(f"The SQL does not parse{separator} {where}.", clause=word or None, at=at)


def _find_start(sql: str, line: int, column: int, word: str) -> int | None:
    """Return where a word begins that ends in this line and column, as sqlglot counts them; None if it is not there."""
    start = sum(len(before) + 1 for before in sql.split("\n")[: line - 1]) + column - len(word)
    return start if start >= 0 and sql.startswith(word, start) else None


def _shorten(text: str, *, from_end: bool = False) -> str:
    flat = " ".join(text.split())
    if len(flat) <= 40:
        return flat
    return f"…{flat[-39:]}" if from_end else f"{flat[:39]}…"


def _is_reserved(word: str) -> bool:
    """Return whether a word is a keyword, but none of ``_CLAUSE_WORDS``: it may have been meant as a name."""
    if not word.isidentifier() or _CLAUSE_WORDS.fullmatch(word):
        return False
    kinds = [token.token_type for token in sqlglot.tokenize(word, read="duckdb")]
    return kinds != [TokenType.VAR]


def _find_set_word(sql: str) -> str | None:
    """Return UNION, INTERSECT or EXCEPT, as written, where it joins no SELECTs: it may have been meant as a name."""
    tokens = sqlglot.tokenize(sql, read="duckdb")
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if token.token_type not in _SET_WORDS:
            continue
        if after is not None and after.token_type not in _AFTER_SET_WORD:
            return str(token.text)
        if after is None and before is not None and before.token_type not in _ENDS_OF_SELECT:
            return str(token.text)
    return None


def _find_unclosed(sql: str) -> tuple[str, int] | tuple[None, None]:
    """Return the mark of a text, a name or a comment that is opened and never closed, and where it stands, if any."""
    closed = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/"
    opened = re.sub(closed, lambda found: " " * len(found[0]), sql, flags=re.DOTALL)
    found = re.search(r"'|\"|/\*", opened)
    return (None, None) if found is None else (found[0], found.start())


def _depth(tree: exp.Expression) -> int:
    deepest, pending = 0, [(tree, 1)]
    while pending:
        node, depth = pending.pop()
        deepest = max(deepest, depth)
        # A flat chain of AND or OR is a deep tree, but it is rebuilt balanced, so only nesting of other nodes counts.
        step = 0 if isinstance(node, exp.Connector) else 1
        pending.extend((child, depth + step) for child in node.iter_expressions())
    return deepest


def check_shape(select: exp.Select, *more: str) -> None:
    """Refuse a SELECT with a clause that is not supported. ``more``: clauses allowed besides the usual ones."""
    for name, value in select.args.items():
        if name in (*_READ, *more) or not value:
            continue
        if name == "distinct" and value.args.get("on"):
            raise QueryError(_DISTINCT_ON, clause=clause_of(value))
        message = _CLAUSES.get(name, f"The clause {name.strip('_').upper()} is not supported.")
        raise QueryError(message, clause=clause_of(value) if isinstance(value, exp.Expression) else None)


def read_whole_number(node: exp.Expression) -> int | None:
    """Return the value of a whole number such as the 10 of LIMIT 10; None for anything else, or if too large."""
    if not isinstance(node, exp.Literal) or node.is_string or not re.fullmatch(r"\d{1,18}", str(node.this), re.ASCII):
        return None
    return int(node.this)


# ---------------------------------------------------------------- the parts of a SELECT


def unaliased(item: exp.Expression) -> exp.Expression:
    """Return an item of a SELECT list without its alias."""
    return cast(exp.Expression, item.this) if isinstance(item, exp.Alias) else item


def is_star(item: exp.Expression) -> bool:
    """Return whether an item of a SELECT list is ``*`` or ``table.*``."""
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))


def expect_plain_star(item: exp.Expression) -> None:
    """Refuse a ``*`` with options, such as EXCLUDE."""
    expect_only(item if isinstance(item, exp.Star) else item.this)


def find_item(node: exp.Expression, items: Iterable[exp.Expression]) -> exp.Expression | None:
    """Return what a bare name in another clause stands for in the SELECT list; None if no item has that alias."""
    if isinstance(node, exp.Column) and not node.table:
        for item in items:
            if isinstance(item, exp.Alias) and item.alias.lower() == node.name.lower():
                return unaliased(item)
    return None


def dereference(node: exp.Expression, select: exp.Select, scope: Scope) -> exp.Expression:
    """Return the SELECT item that GROUP BY 1 or GROUP BY alias stands for; otherwise the node itself.

    A name that is also a column means the column. Refuses a position that is not in the SELECT list.
    """
    if isinstance(node, exp.Literal) and not node.is_string:
        position = read_whole_number(node)
        if position is None or not 1 <= position <= len(select.expressions):
            raise refusal(node, f"GROUP BY {clause_of(node)} does not name an item of the SELECT list.")
        return unaliased(select.expressions[position - 1])
    if isinstance(node, exp.Column) and not node.table:
        with suppress(QueryError):
            scope.resolve(node)
            return node
    return find_item(node, select.expressions) or node


def list_sources(select: exp.Select) -> list[exp.Expression]:
    """Return what stands in FROM and in the JOINs of a SELECT, in order."""
    origin = select.args.get("from_")
    return [*([] if origin is None else [origin.this]), *(join.this for join in select.args.get("joins") or [])]


def is_plain_table(node: exp.Expression | None) -> TypeGuard[exp.Table]:
    """Return whether a name of a table stands here, and no subquery or function."""
    return isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)


def expect_alias(node: exp.Expression, *parts: str) -> None:
    """Refuse a table or subquery of FROM with other options than ``parts`` and a plain alias."""
    expect_only(node, *parts, "alias")
    if node.args.get("alias") is not None:
        expect_only(node.args["alias"], "this")


def read_table_name(node: exp.Table) -> str:
    """Return the name of a table of FROM as it is written, with its schema if that is written, too."""
    expect_alias(node, "this", "db")
    return f"{node.db}.{node.name}" if node.db else node.name
