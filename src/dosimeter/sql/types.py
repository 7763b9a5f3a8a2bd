"""The types of SQL values, what names refer to, and how a clause is refused. Shared by everything that checks SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from itertools import islice

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dosimeter.errors import QueryError
from dosimeter.problems import Piece
from dosimeter.schema import Column, ColumnType, Schema


class Type(StrEnum):
    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    NULL = "null"


COLUMN_TYPES = {
    ColumnType.INTEGER: Type.INTEGER,
    ColumnType.DECIMAL: Type.NUMBER,
    ColumnType.CATEGORY: Type.TEXT,
    ColumnType.TEXT: Type.TEXT,
    ColumnType.BOOLEAN: Type.BOOLEAN,
    ColumnType.DATE: Type.DATE,
    ColumnType.TIMESTAMP: Type.TIMESTAMP,
}
NUMERIC = frozenset({Type.INTEGER, Type.NUMBER})
TEMPORAL = frozenset({Type.DATE, Type.TIMESTAMP})
COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
# Arguments that the parser sets and that mean nothing by themselves.
PARSER_MARKS = frozenset({"typed", "safe", "big_int", "ignore_nulls", "_type", "date_part_boundary"})
MAX_NODES = 10_000  # of one expression
MOST_WRITTEN = 45_000  # nodes of all expressions of a query; one inside another counts again
MOST_STEPS = 5 * 10**7  # that DuckDB takes to compute one function over all declared values
STEPS_OF_NODE = 2_000  # take DuckDB about as long as one node takes to write
_WRITTEN_NODES: ContextVar[list[int] | None] = ContextVar("written_nodes", default=None)
_MOST_NOTED = 5  # texts: looking for a close value takes long
_MOST_COMPARED = 2_000  # declared values
_LONGEST_COMPARED = 100  # letters
_QUOTES = "Text goes in single quotes: '{}'."


@dataclass(frozen=True, slots=True)
class Scope:
    """The meaning of names in a query. ``schema``: the table's columns. ``names``: the table's name and aliases."""

    schema: Schema
    names: frozenset[str]

    def resolve(self, node: exp.Column) -> Column:
        expect_only(node, "this", "table")
        if node.table and node.table.lower() not in self.names:
            raise refusal(node, f"Unknown table {node.table}. The query's table is {self.schema.table}.")
        wanted = node.name
        if wanted in self.schema.columns:
            return self.schema.columns[wanted]
        wanted = wanted.lower()
        for name, column in self.schema.columns.items():
            if name.lower() == wanted:
                return column
        known = f"There is no column {node.name}. Known columns: {_listing(self.schema.columns)}."
        raise refusal(node, f"{known} {_QUOTES.format(node.name)}" if self._looks_like_text(node) else known)

    def _looks_like_text(self, node: exp.Column) -> bool:
        """Return whether an unknown name was probably meant as a text: it is compared with a text column on its left.

        An example is city = "Rome", where SQL reads Rome as a column.
        """
        parent = node.parent
        if node.table or node.arg_key not in ("expression", "expressions"):
            return False
        if not isinstance(parent, (*COMPARISONS, exp.In, exp.Like)) or not isinstance(parent.this, exp.Column):
            return False
        beside = parent.this.name.lower()
        return any(
            name.lower() == beside and COLUMN_TYPES[column.type] is Type.TEXT
            for name, column in self.schema.columns.items()
        )


@dataclass(frozen=True, slots=True)
class Checked:
    """A tree that was checked and rebuilt, and the type of its value."""

    tree: exp.Expression
    type: Type


Checker = Callable[[exp.Expression, Scope], Checked]


def _listing(names: Iterable[str]) -> str:
    ordered = list(names)
    return ", ".join(ordered[:20]) + (" …" if len(ordered) > 20 else "")


def refusal(node: exp.Expression, *pieces: Piece) -> QueryError:
    """Return the error that refuses this node of the query. ``pieces``: its message."""
    starts = [name.meta["start"] for name in node.find_all(exp.Identifier) if "start" in name.meta]
    return QueryError(*pieces, clause=clause_of(node), at=min(starts, default=None))


def clause_of(node: exp.Expression) -> str:
    """Return the node as SQL text, for messages and underlining. It is the analyst's own text, never data."""
    try:
        text = node.sql(dialect="duckdb")
    except (SqlglotError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return type(node).__name__  # a half-parsed tree can fail to print in many ways
    return text if len(text) <= 200 else text[:197] + "…"


def expect_only(node: exp.Expression, *allowed: str) -> None:
    """Refuse a parsed node that uses a part not among ``allowed``: names of sqlglot's arguments, such as 'this'."""
    for name, value in node.args.items():
        if name in allowed or name in PARSER_MARKS or value is None or value is False or value == []:
            continue
        raise refusal(node, f"{clause_of(node)} uses an option that is not supported ({name}). Leave it out.")


def limit_size(tree: exp.Expression, node: exp.Expression, times: int = 1) -> exp.Expression:
    """Return the tree unchanged; refuse it if it has too many nodes.

    ``tree``: an expression as it was written anew. ``node``: what it was written from, for the message. ``times``: how
    often it is about to be written. Some functions write their operand out twice, so that nesting them doubles the tree
    each time.
    """
    if count_nodes(tree) * times > MAX_NODES:
        raise refusal(node, f"{clause_of(node)} is nested too deeply, or its columns have too many values.")
    return tree


def count_nodes(tree: exp.Expression) -> int:
    """Return how many nodes a tree has, MAX_NODES + 1 if there are more, and add them to what the query has written.

    Raises QueryError if all that the query has written so far is too much.
    """
    number = sum(1 for _ in islice(tree.walk(), MAX_NODES + 1))
    _count_written(number)
    return number


def count_steps(steps: int, node: exp.Expression) -> None:
    """Add what DuckDB computes over declared values to what the query has written. ``node``: what asks for it.

    Raises QueryError if that is too much. ``steps``: of a regular expression, the letters of the pattern times those of
    the texts.
    """
    if steps > MOST_STEPS:
        raise refusal(
            node,
            f"{clause_of(node)} would take too long over the declared values. Write a shorter pattern, with smaller "
            "numbers in {…}, or use LIKE.",
        )
    _count_written(steps // STEPS_OF_NODE)


def _count_written(number: int) -> None:
    written = _WRITTEN_NODES.get()
    if written is not None:
        written[0] += number
        if written[0] > MOST_WRITTEN:
            raise QueryError(
                "The query is too long once its expressions are written so that every engine computes the same. Ask "
                "fewer of them at once, or simpler ones."
            )


@contextmanager
def limit_written() -> Iterator[None]:
    """Limit how many nodes ``count_nodes`` counts for one query: short SQL can ask for thousands of large trees."""
    token = _WRITTEN_NODES.set([0])
    try:
        yield
    finally:
        _WRITTEN_NODES.reset(token)


def note_unlisted(trees: Iterable[exp.Expression | None], schema: Schema) -> tuple[str, ...]:
    """Return a sentence for each text that is compared with a category column and is not among its declared values.

    Takes rebuilt trees, or None for a clause that the query lacks. Depends on SQL and schema only.
    """
    found: dict[tuple[str, str], None] = {}
    declared = {name: frozenset(column.values) for name, column in schema.columns.items() if column.values}
    for tree in trees:
        for node in tree.find_all(exp.EQ, exp.NEQ, exp.In) if tree is not None else ():
            sides = [node.this, *(node.expressions if isinstance(node, exp.In) else [node.expression])]
            texts = [side.this for side in sides if isinstance(side, exp.Literal) and side.is_string]
            for name in (side.name for side in sides if isinstance(side, exp.Column) and side.name in declared):
                found |= dict.fromkeys((name, text) for text in texts if text not in declared[name])
    notes = [_unlisted(name, text, schema.columns[name].values or ()) for name, text in islice(found, _MOST_NOTED)]
    if len(found) > _MOST_NOTED:
        notes.append(f"{len(found) - _MOST_NOTED:,} more texts are not among the declared values of their columns.")
    return tuple(notes)


def _unlisted(name: str, text: str, values: Sequence[str]) -> str:
    """Return the sentence for one text. A close value is looked for among the first values, if the text is short."""
    compared = values[:_MOST_COMPARED] if len(text) <= _LONGEST_COMPARED else ()
    near = get_close_matches(text.strip().lower(), [value.lower() for value in compared], 1, 0.7)
    meant = f" Is '{next(value for value in values if value.lower() == near[0])}' meant?" if near else ""
    return f"'{text}' is not among the declared values of {name}.{meant}"
