"""Text functions. Over a column with declared values a function becomes a table of results, which DuckDB computes once.

An undeclared value gives NULL in such a table. Over other text a function is supported where all engines agree to the
byte: only the letters a to z have two cases, and only the blank is trimmed.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.schema import Schema
from dosimeter.sql.checking import check_expression
from dosimeter.sql.declared_values import evaluate_each
from dosimeter.sql.literals import constant_tree, read_text, read_whole
from dosimeter.sql.text_lengths import is_cut, limit_text, require_short
from dosimeter.sql.trees import as_bigint, case, concatenated, quote_text, wrap
from dosimeter.sql.types import (
    MAX_NODES,
    STEPS_OF_NODE,
    Checked,
    Scope,
    Type,
    clause_of,
    count_steps,
    expect_only,
    limit_size,
    refusal,
)

LONGEST = 1000  # of a written-out argument, and of a text that a table holds: texts must not grow without end
_ASKING = 100 * STEPS_OF_NODE  # to ask DuckDB at all
_Build = Callable[[exp.Expression], exp.Expression]


def check_text(node: exp.Expression, scope: Scope, parent: exp.Expression) -> Checked:
    """Check an operand of ``parent`` that must be a text."""
    checked = check_expression(node, scope)
    if checked.type is not Type.TEXT:
        fix = f" Write CAST({clause_of(node)} AS VARCHAR)." if checked.type is Type.INTEGER else ""
        raise refusal(parent, f"{clause_of(parent)} needs a text, and {clause_of(node)} is {checked.type}.{fix}")
    return checked


# ---------------------------------------------------------------- tables over declared values


def tabulate(
    tree: exp.Expression, schema: Schema, build: _Build, node: exp.Expression, *, steps: int = 0
) -> exp.Expression | None:
    """Write a function of a text as a CASE over the text's declared values; None if they are not declared or too many.

    ``build`` writes the function for DuckDB. ``steps``: how many it takes for one letter; 0 if that is too few to be
    counted. Refuses what takes too many, results that are too long, and a CASE that becomes too large.
    """
    texts = _list_texts(tree, schema)
    if texts is None:
        return None
    if steps:
        count_steps(_ASKING + sum(steps * len(text) + STEPS_OF_NODE for text in texts), node)
    values = evaluate_each(build, texts)
    made = [value for value in values.values() if isinstance(value, str)]
    if any(len(value) > LONGEST for value in made):
        raise refusal(node, f"{clause_of(node)} makes texts of more than {LONGEST:,} characters.")
    if any("\x00" in value for value in made):
        raise refusal(node, f"{clause_of(node)} makes a text with a NUL character, which not every engine can hold.")
    return limit_size(_map_texts(tree, schema, lambda text: constant_tree(values[text])), node)


def _list_texts(tree: exp.Expression, schema: Schema) -> list[str] | None:
    """Return every text that a rebuilt tree can give; None where that is not declared, or where there are too many."""
    match tree:
        case exp.Paren():
            return _list_texts(tree.this, schema)
        case exp.Left() if is_cut(tree):  # declared values are shorter than the cut
            return _list_texts(tree.this, schema)
        case exp.Column():
            declared = schema.columns[tree.name].values
            return None if declared is None else list(declared)
        case exp.Literal():
            return [str(tree.this)]
        case exp.Null():
            return []
        case exp.Case():
            parts = [branch.args["true"] for branch in tree.args["ifs"]] + [tree.args.get("default") or exp.Null()]
            return _join([_list_texts(part, schema) for part in parts])
        case exp.Coalesce():
            return _join([_list_texts(part, schema) for part in (tree.this, *tree.expressions)])
        case exp.DPipe():
            left, right = _list_texts(tree.this, schema), _list_texts(tree.expression, schema)
            if left is None or right is None or len(left) * len(right) > LONGEST:
                return None
            return [one + other for one in left for other in right]
        case _:
            return None


def _join(lists: Iterable[list[str] | None]) -> list[str] | None:
    """Return the texts of all lists, each text once; None if a list is None. Refuse too many, counted in every list.

    A table is written for each list.
    """
    joined: dict[str, None] = {}
    written = 0
    for each in lists:
        if each is None:
            return None
        written += len(each)
        if written > MAX_NODES:
            raise QueryError(
                f"The query chooses among columns that have {written:,} declared values together; at most "
                f"{MAX_NODES:,} can be computed with. Choose among fewer columns."
            )
        joined |= dict.fromkeys(each)
    return list(joined)


def _map_texts(tree: exp.Expression, schema: Schema, result: Callable[[str], exp.Expression]) -> exp.Expression:
    """Write a CASE that gives ``result(text)`` for the text that ``tree`` has in a row; NULL for an undeclared text."""
    match tree:
        case exp.Column():
            texts = schema.columns[tree.name].values or ()
            found: dict[str, tuple[exp.Expression, list[exp.Expression]]] = {}
            for text in texts:
                value = result(text)
                if not isinstance(value, exp.Null):
                    found.setdefault(_write_constant(value), (value, []))[1].append(exp.Literal.string(text))
            branches = [
                (exp.In(this=tree.copy(), expressions=listed), value) for _, (value, listed) in sorted(found.items())
            ]
            return case(*branches) if branches else exp.Null()
        case exp.Literal():
            return result(str(tree.this))
        case exp.Case():
            default = tree.args.get("default")
            return case(
                *((branch.this.copy(), _map_texts(branch.args["true"], schema, result)) for branch in tree.args["ifs"]),
                default=None if default is None else _map_texts(default, schema, result),
            )
        case exp.Coalesce():
            *firsts, last = (tree.this, *tree.expressions)
            known = [(exp.Not(this=exp.Is(this=wrap(part.copy()), expression=exp.Null())), part) for part in firsts]
            return case(
                *((test, _map_texts(part, schema, result)) for test, part in known),
                default=_map_texts(last, schema, result),
            )
        case exp.DPipe():
            return _map_texts(
                tree.this,
                schema,
                lambda left: _map_texts(tree.expression, schema, lambda right: result(left + right)),
            )
        case exp.Paren():
            return _map_texts(tree.this, schema, result)
        case exp.Left() if is_cut(tree):
            return _map_texts(tree.this, schema, result)
        case _:
            return exp.Null()


def _write_constant(tree: exp.Expression) -> str:
    """Return a constant as SQL text. Literals are written here: a table has thousands of them."""
    if isinstance(tree, exp.Literal):
        return quote_text(str(tree.this)) if tree.is_string else str(tree.this)
    return str(tree.sql())


# ---------------------------------------------------------------- functions of one text


def check_text_function(
    node: exp.Expression,
    scope: Scope,
    build: _Build,
    everywhere: _Build | None = None,
    kind: Type = Type.TEXT,
    *,
    of: exp.Expression | None = None,
    steps: int = 0,
    instead: str = "",
) -> Checked:
    """Check a function of a text.

    ``build`` writes it for DuckDB, over declared values. ``everywhere`` writes it for undeclared text on any engine;
    None where engines differ, so that undeclared text is refused. ``kind``: the type of the result. ``of``: the text,
    if it is not ``node.this``. ``steps``: as for ``tabulate``. ``instead``: a sentence about what undeclared text
    allows.
    """
    subject = check_text(node.this if of is None else of, scope, node)
    table = tabulate(subject.tree, scope.schema, build, node, steps=steps)
    if table is not None:
        return Checked(table, kind)
    if everywhere is None:
        raise refusal(
            node,
            f"{clause_of(node)}: engines differ here about text that is not declared. Declare the column's values in "
            f"the schema.{instead and ' '}{instead}",
        )
    found = everywhere(subject.tree)
    return Checked(limit_size(limit_text(found, scope.schema) if kind is Type.TEXT else found, node), kind)


def lower_ascii(tree: exp.Expression) -> exp.Expression:
    """Write LOWER for the letters A to Z only; other letters stay as they are."""
    return _translate(tree, string.ascii_uppercase, string.ascii_lowercase)


def _translate(tree: exp.Expression, letters: str, others: str) -> exp.Expression:
    return exp.Anonymous(this="TRANSLATE", expressions=[tree, exp.Literal.string(letters), exp.Literal.string(others)])


def check_letters(node: exp.Expression, scope: Scope) -> Checked:
    """Check UPPER and LOWER. In undeclared text only the letters a to z change."""
    expect_only(node, "this")
    letters = (string.ascii_lowercase, string.ascii_uppercase)
    change = letters if isinstance(node, exp.Upper) else letters[::-1]
    return check_text_function(node, scope, lambda tree: type(node)(this=tree), lambda tree: _translate(tree, *change))


def check_trim(node: exp.Expression, scope: Scope) -> Checked:
    """Check TRIM, LTRIM and RTRIM. In undeclared text only blanks are trimmed."""
    expect_only(node, "this", "position")
    position = node.args.get("position")

    def trimmed(tree: exp.Expression, mark: exp.Expression | None) -> exp.Expression:
        return exp.Trim(this=tree, expression=mark, position=position)

    return check_text_function(
        node, scope, lambda tree: trimmed(tree, None), lambda tree: trimmed(tree, exp.Literal.string(" "))
    )


def check_ends(node: exp.Expression, scope: Scope) -> Checked:
    """Check LEFT(x, n) and RIGHT(x, n): the first or last n characters of a text, n being written out."""
    expect_only(node, "this", "expression")
    count = read_whole(node.expression)
    if count is None or abs(count) > LONGEST:
        raise refusal(node, f"{clause_of(node)}: how many letters is a written-out number up to {LONGEST:,}.")

    def build(tree: exp.Expression) -> exp.Expression:
        return type(node)(this=tree, expression=constant_tree(count))

    return check_text_function(node, scope, build, build if count >= 0 else None)


def check_substring(node: exp.Expression, scope: Scope) -> Checked:
    """Check SUBSTR(x, start, length)."""
    expect_only(node, "this", "start", "length")
    start, length = (read_whole(node.args.get(name)) for name in ("start", "length"))
    if start is None or (node.args.get("length") is not None and length is None):
        raise refusal(
            node,
            f"{clause_of(node)}: SUBSTR takes written-out whole numbers: SUBSTR(x, 1, 3). REGEXP_EXTRACT takes "
            "a pattern.",
        )

    def build(tree: exp.Expression) -> exp.Expression:
        return exp.Substring(
            this=tree, start=constant_tree(start), length=None if length is None else constant_tree(length)
        )

    agreed = start >= 1 and (length is None or length >= 0)
    return check_text_function(node, scope, build, build if agreed else None)


def check_replacement(node: exp.Expression, scope: Scope) -> Checked:
    """Check REPLACE(x, 'a', 'b'). Over undeclared text 'b' may not be longer than 'a', so that texts cannot grow."""
    expect_only(node, "this", "expression", "replacement")
    old, new = read_text(node.expression), read_text(node.args.get("replacement"))
    if not old or new is None or len(new) > LONGEST:
        raise refusal(node, f"{clause_of(node)}: REPLACE takes two written-out texts: REPLACE(x, 'a', 'b').")

    def build(tree: exp.Expression) -> exp.Expression:
        return exp.Replace(this=tree, expression=exp.Literal.string(old), replacement=exp.Literal.string(new))

    return check_text_function(node, scope, build, build if len(new) <= len(old) else None)


def check_length(node: exp.Expression, scope: Scope) -> Checked:
    """Check LENGTH, which counts code points."""
    expect_only(node, "this")

    def build(tree: exp.Expression) -> exp.Expression:
        return exp.Length(this=tree)

    return check_text_function(node, scope, build, lambda tree: as_bigint(build(tree)), Type.INTEGER)


# ---------------------------------------------------------------- tests and joining


def require_short_pattern(pattern: str, node: exp.Expression) -> None:
    """Refuse a text that others are searched for if it is long: an engine may take as many steps for each letter."""
    if len(pattern) > LONGEST:
        raise refusal(
            node,
            f"{clause_of(node)}: {len(pattern):,} letters are searched for; at most {LONGEST:,} are supported. Search "
            "for a shorter part, or compare the whole text by =.",
        )


def check_part_of_text(node: exp.Expression, scope: Scope) -> Checked:
    """Check STARTS_WITH, ENDS_WITH and CONTAINS, and PREFIX and SUFFIX, for which the parser has no class."""
    named = isinstance(node, exp.Anonymous)
    subject_node, part_node = node.expressions if named and len(node.expressions) == 2 else (node.this, node.expression)
    if not named:
        expect_only(node, "this", "expression")
    part = read_text(part_node if isinstance(part_node, exp.Expression) else None)
    if part is None or not isinstance(subject_node, exp.Expression):
        raise refusal(node, f"{clause_of(node)} takes a text and a written-out part of it.")
    require_short_pattern(part, node)
    subject = check_text(subject_node, scope, node).tree
    if isinstance(node, exp.Contains):
        found = exp.StrPosition(this=subject, substr=exp.Literal.string(part))
        return Checked(exp.GT(this=found, expression=exp.Literal.number(0)), Type.BOOLEAN)
    size = exp.Literal.number(len(part))
    at_start = isinstance(node, exp.StartsWith) or node.name.lower() == "prefix"
    end = exp.Substring(this=subject, start=exp.Literal.number(1), length=size) if at_start else exp.Right(
        this=subject, expression=size
    )  # fmt: skip
    return Checked(exp.EQ(this=end, expression=exp.Literal.string(part)), Type.BOOLEAN)


def check_joined(node: exp.Expression, scope: Scope) -> Checked:
    """Check x || y, which is NULL if either is. Refuse a text that could be too long."""
    expect_only(node, "this", "expression")
    left, right = (_as_text(part, scope, node) for part in (node.this, node.expression))
    joined = exp.DPipe(this=wrap(left), expression=wrap(right))
    return Checked(require_short(joined, scope.schema, node), Type.TEXT)


def check_concat(node: exp.Expression, scope: Scope) -> Checked:
    """Check CONCAT(x, y …), which skips NULL. Refuse a text that could be too long."""
    expect_only(node, "expressions", "coalesce")
    parts = [
        part if isinstance(part, exp.Literal) else exp.Coalesce(this=part, expressions=[exp.Literal.string("")])
        for part in (_as_text(each, scope, node) for each in node.expressions)
    ]
    return Checked(require_short(exp.Paren(this=concatenated(*parts)), scope.schema, node), Type.TEXT)


def _as_text(node: exp.Expression, scope: Scope, parent: exp.Expression) -> exp.Expression:
    """Check an operand that is joined to a text, and write it as a text whose length is limited."""
    from dosimeter.sql.casts import cast_to_text

    checked = check_expression(node, scope)
    if checked.type in (Type.TEXT, Type.NULL):
        return limit_text(checked.tree, scope.schema)
    return cast_to_text(checked, scope, parent)
