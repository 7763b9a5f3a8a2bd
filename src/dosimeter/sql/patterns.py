"""Functions that take a text apart: SPLIT_PART, POSITION, regular expressions and ``->>`` of JSON.

Engines read patterns and JSON in different ways, so that none of them is asked to. Over declared values DuckDB computes
a table of results when the query is planned; its regular expressions (RE2) take time linear in the text. Over other
text only POSITION is supported, about which all engines agree.
"""

from __future__ import annotations

import math
import re

from sqlglot import exp

from dosimeter.sql.declared_values import find_failure
from dosimeter.sql.literals import constant_tree, read_text, read_whole
from dosimeter.sql.texts import LONGEST, check_text_function
from dosimeter.sql.trees import as_bigint, case
from dosimeter.sql.types import Checked, Scope, Type, clause_of, count_steps, expect_only, refusal

_TRY_LIKE = "Over other text use LIKE, CONTAINS or POSITION."
_READING = 2_000  # to read a pattern takes as long as to match so many letters
_CLASS = 300  # letters that \pL counts as: it stands for hundreds of ranges of letters
_REPEATED = re.compile(r"\{(\d+)(?:,(\d*))?\}", re.ASCII)


def check_position(node: exp.Expression, scope: Scope) -> Checked:
    """Check POSITION('a' IN x), STRPOS and INSTR: at which letter a text first holds another; 0 if it does not."""
    expect_only(node, "this", "substr")
    part = _read_argument(node.args.get("substr"))
    if not part:
        raise refusal(node, f"{clause_of(node)}: POSITION takes a text and a written-out part: POSITION('a' IN x).")

    def build(tree: exp.Expression) -> exp.Expression:
        return exp.StrPosition(this=tree, substr=exp.Literal.string(part))

    return check_text_function(node, scope, build, lambda tree: as_bigint(build(tree)), Type.INTEGER, steps=1)


def check_split_part(node: exp.Expression, scope: Scope) -> Checked:
    """Check SPLIT_PART(x, '-', 2). Parts are counted from 1, from the end with -1, −2 …; what is not there is ''."""
    expect_only(node, "this", "delimiter", "part_index")
    mark, index = _read_argument(node.args.get("delimiter")), read_whole(node.args.get("part_index"))
    if not mark or not index or abs(index) > LONGEST:
        raise refusal(
            node,
            f"{clause_of(node)}: SPLIT_PART takes a text, a written-out mark and the number of the part, other than 0: "
            "SPLIT_PART(x, '-', 1).",
        )

    def build(tree: exp.Expression) -> exp.Expression:
        return _call("SPLIT_PART", tree, mark, index)

    return check_text_function(node, scope, build, steps=1, instead="Over other text use LEFT, RIGHT or SUBSTR.")


# ---------------------------------------------------------------- regular expressions


def check_match(node: exp.Expression, scope: Scope) -> Checked:
    """Check REGEXP_MATCHES(x, 'a+'), also written x ~ 'a+', and REGEXP_FULL_MATCH, which the whole text must match."""
    name = "REGEXP_FULL_MATCH" if isinstance(node, exp.RegexpFullMatch) else "REGEXP_MATCHES"
    option = "options" if isinstance(node, exp.RegexpFullMatch) else "flag"
    expect_only(node, "this", "expression", option)
    flags: tuple[str, ...] = ()
    if node.args.get(option) is not None:
        flags = (_read_pattern(node.args[option], node),)
    elif isinstance(node, exp.RegexpILike):  # ~*
        flags = ("i",)
    return _check_pattern(node, scope, name, *flags, kind=Type.BOOLEAN)


def check_extraction(node: exp.Expression, scope: Scope) -> Checked:
    """Check REGEXP_EXTRACT(x, '([a-z]+)-', 1): what a pattern matches, or one of its groups; '' without a match."""
    expect_only(node, "this", "expression", "group", "null_if_pos_overflow")
    group = read_whole(node.args.get("group"))
    if group is None or not 0 <= group <= 9:
        raise refusal(node, f"{clause_of(node)}: REGEXP_EXTRACT takes the number of a group, from 0 to 9.")
    return _check_pattern(node, scope, "REGEXP_EXTRACT", group, kind=Type.TEXT)


def _check_pattern(node: exp.Expression, scope: Scope, name: str, *more: str | int, kind: Type) -> Checked:
    pattern = _read_pattern(node.args.get("expression"), node)

    def build(tree: exp.Expression) -> exp.Expression:
        return _call(name, tree, pattern, *more)

    steps = _measure_pattern(pattern)
    count_steps(steps * _READING, node)
    failure = find_failure(build(exp.Literal.string("")))
    if failure is not None:
        raise refusal(
            node,
            f"{clause_of(node)}: DuckDB does not read this pattern ({failure}). Patterns have the syntax of RE2, "
            r"without look-ahead (?=…) and references \1; write \( for a parenthesis of the text.",
        )
    return check_text_function(node, scope, build, None, kind, steps=steps, instead=_TRY_LIKE)


def _read_pattern(node: exp.Expression | None, parent: exp.Expression) -> str:
    pattern = _read_argument(node)
    if pattern is None:
        raise refusal(
            parent,
            f"{clause_of(parent)} takes a text and a written-out pattern of at most {LONGEST:,} letters, without NUL: "
            "REGEXP_MATCHES(x, '^[A-C]').",
        )
    return pattern


def _measure_pattern(pattern: str) -> int:
    """Return how many steps a pattern can take for one letter of a text: its length with {5} and {2,5} written out."""
    counts = [max(int(most or least), 1) for least, most in _REPEATED.findall(pattern)]
    classes = pattern.lower().count(r"\p")
    return (len(pattern) + 1 + _CLASS * classes) * math.prod(counts)


# ---------------------------------------------------------------- JSON


def check_json_text(node: exp.Expression, scope: Scope) -> Checked:
    """Check x ->> 'key', x -> 'key' ->> 0 and JSON_EXTRACT_STRING(x, '$.key'). A text that is no JSON gives NULL."""
    expect_only(node, "this", "expression")
    paths, of = [_read_path(node.expression, node)], node.this.unnest()
    while isinstance(of, exp.JSONExtract):
        expect_only(of, "this", "expression")
        paths.insert(0, _read_path(of.expression, node))
        of = of.this.unnest()

    def build(tree: exp.Expression) -> exp.Expression:
        *outer, last = paths
        found = tree
        for path in outer:
            found = _call("JSON_EXTRACT", found, path)
        return case((_call("JSON_VALID", tree.copy()), _call("JSON_EXTRACT_STRING", found, last)))

    failure = find_failure(build(exp.Literal.string("{}")), kind="VARCHAR")
    if failure is not None:
        raise refusal(
            node,
            f"{clause_of(node)}: this path does not lead to one value ({failure}). Name a key or a place: x ->> 'key', "
            "x ->> 0, x ->> '$.key.inner'.",
        )
    return check_text_function(node, scope, build, of=of, steps=len(paths), instead=_TRY_LIKE)


def refuse_json(node: exp.Expression, scope: Scope) -> Checked:
    """Refuse x -> 'key' where it is the last step: it gives JSON, which engines write differently."""
    raise refusal(node, f"{clause_of(node)} gives JSON. Take the text of its last step: x ->> 'key'.")


def _read_path(path: exp.Expression, node: exp.Expression) -> str | int:
    place = read_whole(path) if not isinstance(path.unnest(), exp.Literal) or not path.unnest().is_string else None
    found = _read_argument(path) if place is None else place
    if found is None:
        raise refusal(node, f"{clause_of(node)} takes a written-out key or place: x ->> 'key', x ->> 0.")
    return found


# ---------------------------------------------------------------- arguments


def _read_argument(node: exp.Expression | None) -> str | None:
    """Return a written-out text; None for any other expression, and for one that is too long."""
    text = read_text(node)
    return None if text is None or len(text) > LONGEST else text


def _call(name: str, tree: exp.Expression, *arguments: str | int) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=[tree, *(constant_tree(each) for each in arguments)])
