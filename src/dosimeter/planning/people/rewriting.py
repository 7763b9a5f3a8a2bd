"""Rewrite one level (one SELECT) of a query so that its aggregates and windows become columns with names of their own.

Takes parsed expressions and the Scope of the rows that they read. Gives expressions of one row over the new columns,
and the new columns with their trees and facts. Never opens a connection.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.people.columns import OwnValue, hand_on, is_own_aggregate, read_aggregate, read_facts
from dosimeter.planning.people.windows import read_choice, read_window, refuse_chosen
from dosimeter.planning.rows.parsing import find_item, unaliased
from dosimeter.sql import (
    Scope,
    check_expression,
    check_total,
    clause_of,
    column_tree,
    count_nodes,
    flatten_connector,
    make_total,
    refusal,
)

MOST_IN_A_NAME = 60  # bytes: PostgreSQL cuts longer names


def short_digest(text: str) -> str:
    """Return twelve hexadecimal digits of a text's digest, to tell names apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def written_column(name: str) -> exp.Column:
    """Return a column as an analyst would write it, in quotation marks only if it needs them: messages may quote it."""
    return exp.column(exp.to_identifier(name, quoted=re.fullmatch(r"[A-Za-z_]\w*", name) is None))


class Level(ABC):
    """The rewriting of one level (one SELECT): aggregates or windows become new columns, which the rest then reads.

    ``scope``: what names mean in the rows that the level reads. ``columns``: the new columns, by name. ``taken``: names
    that new columns may not have.
    """

    def __init__(self, scope: Scope, taken: Iterable[str] = ()) -> None:
        self.scope = scope
        self.columns: dict[str, OwnValue] = {}
        self._taken = {name.lower() for name in taken}
        self._known: dict[str, str] = {}

    def rewrite_item(self, item: exp.Expression) -> exp.Expression:
        """Return an item of the SELECT list, written over the new columns and with its old name."""
        node = unaliased(item)
        rewritten = self._replace(node, str(item.alias)) or self.rewrite(node, ())
        if not item.alias_or_name:
            return rewritten
        return exp.Alias(this=rewritten, alias=exp.to_identifier(item.alias_or_name, quoted=True))

    def rewrite(self, node: exp.Expression, items: Sequence[exp.Expression]) -> exp.Expression:
        """Return an expression written over the new columns.

        ``items``: the rewritten SELECT list, whose aliases the expression may use.
        """
        return self._rewrite_copy(node.copy(), items)

    def _rewrite_copy(self, node: exp.Expression, items: Sequence[exp.Expression]) -> exp.Expression:
        """Rewrite an expression in place. A chain of ANDs or ORs is looked at as a whole, and then part by part."""
        found = self._replace(node, "")
        if found is not None:
            return found
        if isinstance(node, exp.Column):
            return self._column(node, items)
        chained = isinstance(node, (exp.And, exp.Or))
        for part in flatten_connector(node) if chained else list(node.iter_expressions()):
            rewritten = self._rewrite_copy(part, items)
            if rewritten is not part:  # a part of a long list takes as long to put back as the list is
                part.replace(rewritten)
        return node

    @abstractmethod
    def _replace(self, node: exp.Expression, name: str) -> exp.Expression | None:
        """Return what a node as a whole becomes, such as a new column; None if its parts are to be rewritten instead.

        ``name``: the node's alias in the SELECT list, or empty.
        """

    @abstractmethod
    def _column(self, node: exp.Column, items: Sequence[exp.Expression]) -> exp.Expression:
        """Return the column, or the SELECT item that its name stands for, where ``_replace`` gave None for it.

        Refuses a column that cannot be read here. ``items``: the rewritten SELECT list.
        """

    def _add(self, node: exp.Expression, name: str, value: Callable[[], OwnValue]) -> exp.Column:
        """Return the new column for what a node computes; equal nodes share one.

        ``name``: the node's alias, or empty. ``value`` gives the tree and facts of a column that is new.
        """
        plain = self._plain(node)
        key = plain.sql(dialect="duckdb", comments=False)
        if key not in self._known:
            self._known[key] = self._take_name(name, plain)
            self.columns[self._known[key]] = value()
        return written_column(self._known[key])

    def _plain(self, node: exp.Expression) -> exp.Expression:
        """Return a node with the full name of every column, without the tables' aliases."""

        def full(part: exp.Expression) -> exp.Expression:
            return column_tree(self.scope.resolve(part).name) if isinstance(part, exp.Column) else part

        plain: exp.Expression = node.copy().transform(full)
        return plain

    def _take_name(self, name: str, node: exp.Expression) -> str:
        """Return a free name of at most MOST_IN_A_NAME bytes for a new column, and mark it as taken.

        It is ``name`` if that is free, otherwise the SQL of the node, shortened.
        """
        if not name or name.lower() in self._taken or len(name.encode()) > MOST_IN_A_NAME:
            name = node.sql(dialect="duckdb", comments=False).replace('"', "")
            if len(name.encode()) > MOST_IN_A_NAME:
                name = f"{name.encode()[: MOST_IN_A_NAME - 20].decode(errors='ignore')}… {short_digest(name)}"
        while name.lower() in self._taken:
            name += "'"
        self._taken.add(name.lower())
        return name


class GroupedLevel(Level):
    """The rewriting of a level that groups by the unit: its GROUP BY expressions and aggregates become columns.

    ``keys``: the names of those columns that are GROUP BY expressions.
    """

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.keys: list[str] = []
        self._grouped: dict[str, exp.Expression] = {}  # the keys as they are written, texts uncut

    def add_key(self, node: exp.Expression) -> None:
        """Add a GROUP BY expression to the keys, unless it is there already."""
        checked = check_expression(node, self.scope)
        tree = make_total(checked.tree, self.scope.schema)
        if tree in self._grouped.values():
            return
        name = self._take_name(tree.name if isinstance(tree, exp.Column) else "", self._plain(node))
        self.columns[name] = OwnValue(hand_on(checked, self.scope, node), read_facts(node, checked, self.scope))
        self._grouped[name] = tree
        self.keys.append(name)

    def _replace(self, node: exp.Expression, name: str) -> exp.Expression | None:
        if isinstance(node, exp.Window):
            return self._rewrite_window(node)
        if is_own_aggregate(node):
            return self._add(node, name, lambda: read_aggregate(node, self.scope, lambda tree: tree, windowed=False))
        if node.find(exp.Column) is None or node.find(exp.AggFunc, exp.Window) is not None:
            return None
        computed = any(not isinstance(tree, exp.Column) for tree in self._grouped.values())
        if not computed and not isinstance(node.unnest(), exp.Column):
            return None
        count_nodes(node)  # it is checked here, and again where a part of it may be a key
        with suppress(QueryError):
            tree = check_total(node, self.scope)
            for key, grouped in self._grouped.items():
                if grouped == tree:
                    return written_column(key)
        return None

    def _rewrite_window(self, node: exp.Window) -> exp.Expression:
        """Return a window over the grouped rows: its function stays, and all that the window reads is rewritten."""
        copied = node.copy()
        filtered = copied.this if isinstance(copied.this, exp.Filter) else None
        function = copied.this if filtered is None else filtered.this
        parts = [*function.iter_expressions(), *(part for part in copied.iter_expressions() if part is not copied.this)]
        if filtered is not None:
            parts.append(filtered.expression)
        for part in parts:
            part.replace(self.rewrite(part, ()))
        return copied

    def _column(self, node: exp.Column, items: Sequence[exp.Expression]) -> exp.Expression:
        found = find_item(node, items)
        if found is not None:
            return exp.Paren(this=found.copy())
        name = self.scope.resolve(node).name
        raise refusal(
            node,
            f"{node.name} is not in the GROUP BY, and an individual's rows may hold several values of it. Write "
            f"MAX({name}) or MIN({name}), or add it to the GROUP BY.",
        )


class WindowedLevel(Level):
    """The rewriting of a level with windows, OVER (PARTITION BY unit …): each window becomes a column.

    ``ties``: the columns by which rows that are equal in a window's ORDER BY are ordered.
    """

    def __init__(self, scope: Scope, ties: Sequence[str]) -> None:
        super().__init__(scope, scope.schema.columns)
        self._ties = ties

    def _replace(self, node: exp.Expression, name: str) -> exp.Expression | None:
        if isinstance(node, exp.Window):
            return self._add(node, name, lambda: read_window(node, self.scope, self._ties))
        if is_own_aggregate(node):
            raise refusal(node, f"{clause_of(node)}: write OVER (PARTITION BY {self.scope.schema.unit}), or GROUP BY.")
        return None

    def _column(self, node: exp.Column, items: Sequence[exp.Expression]) -> exp.Expression:
        with suppress(QueryError):
            return written_column(self.scope.resolve(node).name)
        found = find_item(node, items)
        return written_column(self.scope.resolve(node).name) if found is None else exp.Paren(this=found.copy())


class ChosenLevel(WindowedLevel):
    """The rewriting of a level with ARG_MAX or ARG_MIN: each becomes MAX of a column that a window computes.

    All rows of a group have the same value in that column. The rest of the level keeps its meaning. ``keys``: what the
    level groups by.
    """

    def __init__(self, scope: Scope, ties: Sequence[str], keys: Sequence[exp.Expression]) -> None:
        super().__init__(scope, ties)
        self._keys = keys

    def _replace(self, node: exp.Expression, name: str) -> exp.Expression | None:
        if isinstance(node, exp.Window) and is_choice(node.this):
            raise refuse_chosen(node, self.scope.schema.unit)
        if not is_choice(node):
            return None
        return exp.Max(this=self._add(node, "", lambda: read_choice(node, self.scope, self._keys, self._ties)))


def is_choice(node: exp.Expression) -> bool:
    """Return whether a node is ARG_MAX or ARG_MIN, with or without FILTER."""
    return isinstance(node.this if isinstance(node, exp.Filter) else node, (exp.ArgMax, exp.ArgMin))
