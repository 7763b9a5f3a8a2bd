"""How long a text can be, by the SQL and the schema alone (N4).

A text that is joined to another, or handed to a further stage, has a maximal length, as a number has bounds. Of a
column whose values are not declared, the first letters enter such an expression: ``max_length`` of the schema, or
``DEFAULT_LENGTH``. So no cell, however long, makes a text grow beyond what is public. Letters are code points.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dosimeter.schema import DEFAULT_LENGTH, LONGEST_TEXT, Column, Schema
from dosimeter.sql.literals import read_whole
from dosimeter.sql.types import clause_of, refusal

_CUT = "cut"  # marks LEFT(column, n) that was written here
_MAKING = (exp.DPipe, exp.Left, exp.Right, exp.Substring, exp.Trim, exp.Replace, exp.Anonymous)
_NUMBER = 20  # letters of a whole number of 64 bits, with its sign


def longest_cell(column: Column) -> int:
    """Return how many letters of a text column's cell can enter a join or a further stage.

    Of declared values it is one letter more than the longest has: so a longer cell stays different from all of them.
    """
    if column.values is not None:
        return max(len(value) for value in column.values) + 1
    return column.max_length or DEFAULT_LENGTH


def limit_text(tree: exp.Expression, schema: Schema) -> exp.Expression:
    """Return a rebuilt text with each column that passes into it cut to its maximal length: LEFT(note, 4096).

    A column that is only tested, as in a CASE's condition, is read whole, and so is one of which a function takes a
    written-out number of letters: RIGHT(note, 10). The tree is changed in place.
    """
    whole = exp.Paren(this=tree)  # so that the tree itself can be replaced, too
    for column in list(_passed_on(tree)):
        most = exp.Literal.number(longest_cell(schema.columns[column.name]))
        cut = exp.Left(this=column.copy(), expression=most)
        cut.meta[_CUT] = True
        column.replace(cut)
    limited: exp.Expression = whole.this.pop()
    return limited


def is_cut(tree: exp.Expression) -> bool:
    """Return whether a tree is a column that ``limit_text`` cut to its maximal length."""
    return isinstance(tree, exp.Left) and bool(tree.meta.get(_CUT))


def drop_cuts(tree: exp.Expression) -> exp.Expression:
    """Return a tree as it was before ``limit_text``: its columns whole."""
    if not any(is_cut(node) for node in tree.find_all(exp.Left)):
        return tree
    whole: exp.Expression = tree.transform(lambda node: node.this if is_cut(node) else node)
    return whole


def require_short(tree: exp.Expression, schema: Schema, node: exp.Expression) -> exp.Expression:
    """Return a text that ``limit_text`` limited; refuse it if it could be too long. ``node``: the same as written."""
    most = measure_text(tree, schema)
    if most > LONGEST_TEXT:
        raise refusal(
            node,
            f"{clause_of(node)} could become a text of {most:,} letters; at most {LONGEST_TEXT:,} are supported. Join "
            "fewer texts, or shorter ones: LEFT(x, 100). A column's max_length in the schema says how many of its "
            "letters count.",
        )
    return tree


def measure_text(tree: exp.Expression, schema: Schema) -> int:
    """Return the most letters that a rebuilt text can have, once ``limit_text`` limited it."""
    match tree:
        case exp.Column():
            return longest_cell(schema.columns[tree.name])
        case exp.Literal():
            return len(str(tree.this))
        case exp.Null():
            return 0
        case exp.DPipe():
            return measure_text(tree.this, schema) + measure_text(tree.expression, schema)
        case exp.Case() | exp.Coalesce():
            return max(measure_text(part, schema) for part in _list_results(tree))
        case exp.Cast():  # of a whole number
            return _NUMBER
        case exp.Left() | exp.Right() | exp.Substring() if (taken := _read_taken(tree)) is not None:
            return min(taken, measure_text(tree.this, schema))
        case exp.Paren() | exp.Trim() | exp.Replace() | exp.Substring():
            return measure_text(tree.this, schema)
        case exp.Anonymous() if tree.name == "LPAD":  # of a number in a written date
            return max(_NUMBER, int(tree.expressions[1].name))
        case exp.Anonymous() if tree.name == "TRANSLATE":
            return measure_text(tree.expressions[0], schema)
        case _:
            raise refusal(tree, f"{clause_of(tree)}: how long this text can be is not known. Use LEFT or SUBSTR.")


def count_letters(tree: exp.Expression, schema: Schema) -> int:
    """Return the most letters of all texts that an engine makes to compute a rebuilt tree, also those on the way."""
    made = (node for node in tree.find_all(*_MAKING) if not isinstance(node, exp.Anonymous) or node.name == "TRANSLATE")
    return sum(measure_text(node, schema) for node in made)


def _passed_on(tree: exp.Expression) -> Iterator[exp.Column]:
    """Yield the columns whose cells, as long as they are, pass into a text."""
    match tree:
        case exp.Column():
            yield tree
        case exp.DPipe():
            yield from _passed_on(tree.this)
            yield from _passed_on(tree.expression)
        case exp.Case() | exp.Coalesce():
            for part in _list_results(tree):
                yield from _passed_on(part)
        case exp.Left() | exp.Right() | exp.Substring() if (_read_taken(tree) or LONGEST_TEXT) <= DEFAULT_LENGTH:
            return
        case exp.Left() | exp.Right() | exp.Substring() | exp.Paren() | exp.Trim() | exp.Replace() if not is_cut(tree):
            yield from _passed_on(tree.this)
        case exp.Anonymous() if tree.name == "TRANSLATE":
            yield from _passed_on(tree.expressions[0])


def _list_results(tree: exp.Expression) -> list[exp.Expression]:
    """Return the expressions one of which a CASE or COALESCE gives."""
    if isinstance(tree, exp.Coalesce):
        return [tree.this, *tree.expressions]
    results = [branch.args["true"] for branch in tree.args["ifs"]]
    return [*results, *([tree.args["default"]] if tree.args.get("default") is not None else [])]


def _read_taken(tree: exp.Expression) -> int | None:
    """Return how many letters LEFT, RIGHT or SUBSTR takes at most; None for a SUBSTR without a length."""
    return read_whole(tree.args.get("length" if isinstance(tree, exp.Substring) else "expression"))
