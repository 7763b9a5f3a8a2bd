"""Find the first and the last date that an expression of dates can give, from the bounds of its columns.

Takes a checked expression of one row and a schema; gives two dates, which bound numbers computed from the expression.
In most expressions a later date in a column never makes the result earlier. These are computed at the bounds of their
columns, in the embedded engine. In a CASE, and in some MAKE_DATEs, a later date can make the result earlier. So each
branch of a CASE is looked at by itself, and such a MAKE_DATE is replaced by the first day of its first year and the
last day of its last year.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import date
from itertools import islice
from typing import cast

from sqlglot import exp

from dosimeter.schema import ColumnType, Schema
from dosimeter.sql import constant_tree, distinct_values, evaluate_row, make_total, wrap

_SHORTEST_MONTH = 28  # days
_MOST_BRANCHES = 256  # combinations of branches of the CASEs in one expression

Ends = tuple[date, date] | None


def find_ends(tree: exp.Expression, schema: Schema) -> Ends:
    """Return the first and the last date or timestamp that a tree gives within its columns' bounds; None if unbounded.

    Every branch of a CASE is tried, in every combination, because some dates between the bounds may take a branch that
    neither bound takes. None also if there are more than ``_MOST_BRANCHES`` combinations. A number that is computed
    from the tree, such as its year, is later clamped to what it is at the two dates, so that its bounds hold for any
    data.
    """
    branches = list(islice(_list_branches(tree), _MOST_BRANCHES + 1))
    if len(branches) > _MOST_BRANCHES:
        return None
    return _join_ends(_ends_of_branch(each, schema) for each in branches if not isinstance(each.unnest(), exp.Null))


def _list_branches(tree: exp.Expression) -> Iterator[exp.Expression]:
    """Yield the tree with each CASE replaced by the result of one of its branches, in every combination.

    A CASE around MAKE_DATE, which gives NULL where there is no such date, is not replaced.
    """
    written = next((node for node in _list_cases(tree) if not _makes_date(node)), None)
    if written is None:
        yield tree
        return
    default = written.args.get("default")
    for result in [branch.args["true"] for branch in written.args["ifs"]] + ([] if default is None else [default]):
        yield from _list_branches(_put_in_place(tree, written, result))


def _list_cases(tree: exp.Expression) -> Iterator[exp.Case]:
    """Yield every CASE of a tree, without those inside a MAKE_DATE."""
    return (node for node in tree.walk(prune=_makes_date) if isinstance(node, exp.Case))


def _makes_date(node: exp.Expr) -> bool:
    """Return whether a node is the CASE around a MAKE_DATE: CASE WHEN there is such a date THEN MAKE_DATE(…) END."""
    if not isinstance(node, exp.Case) or node.args.get("default") is not None:
        return False
    result = node.args["ifs"][0].args["true"]
    return isinstance(result, exp.Anonymous) and result.name == "MAKE_DATE"


def _put_in_place(tree: exp.Expression, old: exp.Expression, new: exp.Expression) -> exp.Expression:
    """Return a copy of a tree with one of its nodes replaced."""
    if old is tree:
        return new
    place = [node is old for node in tree.walk()].index(True)
    found = tree.copy()
    list(found.walk())[place].replace(wrap(new.copy()))
    return found


def _join_ends(found: Iterable[Ends]) -> Ends:
    """Return the first and the last date of several pairs; None if one of the pairs is None, or if there is no pair."""
    listed = list(found)
    known = [ends for ends in listed if ends is not None]
    if not known or len(known) < len(listed):
        return None
    return min(first for first, _ in known), max(last for _, last in known)


def _ends_of_branch(tree: exp.Expression, schema: Schema) -> Ends:
    """Return the ends of a tree without CASE (see ``find_ends``)."""
    bare = cast(exp.Expression, tree.unnest())
    names = {node.name for node in bare.find_all(exp.Column)}
    if len(names) > 1 and isinstance(bare, (exp.Coalesce, exp.Greatest, exp.Least)):
        parts = [bare.this, *bare.expressions]
        return _join_ends(_ends_of_branch(part, schema) for part in parts if not isinstance(part, exp.Null))
    made = next((node for node in _list_cases(bare) if not _grows_with_date(_list_parts(node), schema)), None)
    if made is None:
        return _ends_of_one(bare, names, schema)
    ends = _ends_of_year(_list_parts(made)[0], schema) or ()
    return _join_ends(_ends_of_branch(_put_in_place(bare, made, constant_tree(end)), schema) for end in ends)


def _list_parts(made: exp.Case) -> list[exp.Expression]:
    """Return the trees of year, month and day of a MAKE_DATE."""
    return list(made.args["ifs"][0].args["true"].expressions)


def _grows_with_date(parts: Sequence[exp.Expression], schema: Schema) -> bool:
    """Return whether a later date in its column never makes the result of MAKE_DATE earlier.

    If so, the first and the last result are those at the column's bounds. ``parts``: its year, month and day. True for
    (year of d, month of d, day of d), for (year of d, month of d, 1) and for (year of d, 6, 1), with one column d. A
    constant day must be at most 28, as every month has it: otherwise there may be no such date at the bounds. Constants
    alone, such as (2024, 6, 1), are also True.
    """
    names = {node.name for part in parts for node in part.find_all(exp.Column)}
    read = sum(part.find(exp.Column) is not None for part in parts)
    taken = [_name_part(part) for part in parts[:read]]
    if len(names) > 1 or taken != ["YEAR", "MONTH", "DAY"][:read]:
        return False
    return read == len(parts) or int(evaluate_row(make_total(parts[-1], schema), {})) <= _SHORTEST_MONTH


def _name_part(tree: exp.Expression) -> str | None:
    """Return which part of a date a tree extracts, in capitals; None if it extracts none."""
    found = tree.find(exp.Extract)
    return None if found is None else found.this.name.upper()


def _ends_of_year(year: exp.Expression, schema: Schema) -> Ends:
    """Return the first day of the first and the last day of the last year that a tree gives; None if unknown."""
    if year.find(exp.Column) is None:
        first = last = int(evaluate_row(make_total(year, schema), {}))
    else:
        extracted = year.find(exp.Extract)
        ends = find_ends(extracted.expression, schema) if extracted and _name_part(year) == "YEAR" else None
        if ends is None:
            return None
        first, last = ends[0].year, ends[1].year
    return (date(first, 1, 1), date(last, 12, 31)) if 1 <= first <= last <= 9999 else None


def _ends_of_one(tree: exp.Expression, names: Set[str], schema: Schema) -> Ends:
    domains = {}
    for name in names:
        column = schema.columns[name]
        if column.bounds is None or column.type not in (ColumnType.DATE, ColumnType.TIMESTAMP):
            return None
        ends = [f"({constant_tree(end).sql(dialect='duckdb')})" for end in column.bounds]
        domains[name] = f"VALUES {', '.join(ends)}, (NULL)"
    moments = distinct_values(make_total(tree, schema), domains)
    return (moments[0], moments[-1]) if moments else None
