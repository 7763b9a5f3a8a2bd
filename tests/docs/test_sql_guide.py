"""docs/guide/sql.md is true and complete: each example is answered or refused as it says, and what the planner knows is
in it.

What the planner knows is read off the planner itself: its tables, and the cases of its ``match`` statements. Whoever
teaches it something new adds a row to the page; a new ``match`` gets a line in DISPATCHERS.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from dosimeter import web
from dosimeter.errors import QueryError
from dosimeter.measures import AGGREGATES
from dosimeter.planning import list_functions, plan_query
from dosimeter.planning.after import expressions, outer_select
from dosimeter.planning.identity import digest_measured
from dosimeter.planning.measured import aggregate_collector
from dosimeter.planning.people import columns, windows
from dosimeter.planning.rows import grid, parsing, subqueries
from dosimeter.schema.facts import Schema
from dosimeter.schema.toml import parse_schema
from dosimeter.sql import (
    COMPARISONS,
    NAMED_FUNCTIONS,
    PART_NODES,
    PART_VALUES,
    ROW_FUNCTIONS,
    SUPPORTED,
    TRUNCATIONS,
    functions,
)
from dosimeter.sql.casts import TARGETS

GUIDES = Path(__file__).parents[2] / "docs" / "guide"
PAGE = (GUIDES / "sql.md").read_text(encoding="utf-8")
README = (GUIDES.parents[1] / "README.md").read_text(encoding="utf-8")


# ---------------------------------------------------------------- the page


def read_rows(text: str) -> Iterator[tuple[str, str]]:
    """The rows of every table of the text, as two cells. A bar inside a cell is written with a backslash."""
    for line in text.splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if line.startswith("|") and not set(line) <= set("|- ") and any(cell.startswith("`") for cell in cells):
            assert len(cells) == 2, f"a row has two cells: {line}"
            yield cells[0], cells[1]


def read_sql(cell: str) -> str:
    found = re.fullmatch(r"`([^`]+)`", cell)
    assert found is not None, f"not an example: {cell}"
    return found[1]


ANSWERED_PART, REFUSED_PART = PAGE.partition("## Answered")[2].split("## Refused")
ANSWERED = [read_sql(example) for _, example in read_rows(ANSWERED_PART)]
REFUSED = [(read_sql(example), words) for example, words in read_rows(REFUSED_PART)]


@cache
def read_schema() -> Schema:
    document = re.search(r"<<'TOML'\n(.*?)^TOML$", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert document is not None
    return parse_schema(document[1])


@pytest.mark.parametrize(("sql", "words"), REFUSED)
def test_refused_examples_are_refused_with_these_words(sql: str, words: str) -> None:
    with pytest.raises(QueryError) as refused:
        plan_query(sql, read_schema())
    assert len(words) >= 10
    assert words in str(refused.value)


def test_no_example_stands_there_twice() -> None:
    examples = [*ANSWERED, *(sql for sql, _ in REFUSED)]
    assert len(set(examples)) == len(examples) > 100


# ---------------------------------------------------------------- what the examples hold


def find_places(node: exp.Expr, top: exp.Select) -> Iterator[str]:
    """Where a node of a query stands. An item of the SELECT list without an aggregate is a group's, of a row."""
    above = []
    while node.parent is not None and node is not top:
        above.append(node)
        node = node.parent
    yield "anywhere"
    kinds = tuple(type(each) for each in above[1:])
    if any(issubclass(kind, exp.AggFunc) for kind in kinds):
        yield "inside_aggregates"
        yield "of_a_row"
        return
    if any(issubclass(kind, (exp.Where, exp.Group, exp.Join, exp.CTE, exp.Subquery, exp.Filter)) for kind in kinds):
        yield "of_a_row"
        return
    if any(issubclass(kind, exp.Having) for kind in kinds):
        yield "in_having"
    if above and above[-1].find(exp.AggFunc) is not None:
        yield "over_aggregates"


@cache
def hold_answered() -> dict[str, set[type]]:
    """Return the kinds of nodes of the examples, by where they stand."""
    found: dict[str, set[type]] = defaultdict(set)
    for sql in ANSWERED:
        top = parsing.parse_select(sql)
        for node in top.walk():
            for place in find_places(node, top):
                found[place].add(type(node))
    return found


def lacking(wanted: Iterable[type], held: Iterable[type]) -> list[str]:
    """The names of the kinds that no example is of."""
    kinds = tuple(held)
    return sorted(kind.__name__ for kind in wanted if not any(issubclass(each, kind) for each in kinds))


# ---------------------------------------------------------------- what the planner knows


@dataclass(frozen=True)
class Cases:
    """The kinds of nodes that a ``match`` takes, those that it refuses, and names in its guards."""

    taken: set[type] = field(default_factory=set)
    refused: set[type] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


def read_cases(function: Callable[..., Any]) -> Cases:
    """The cases of a function's first ``match`` over nodes; a case that begins with ``raise`` refuses."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    match = next(node for node in ast.walk(tree) if isinstance(node, ast.Match))
    found = Cases()
    for case in match.cases:
        patterns = [node.cls for node in ast.walk(case.pattern) if isinstance(node, ast.MatchClass)]
        kinds = {getattr(exp, pattern.attr) for pattern in patterns if isinstance(pattern, ast.Attribute)}
        strings = {n.value for n in ast.walk(case.guard or ast.Pass()) if isinstance(n, ast.Constant)}
        if isinstance(case.body[0], ast.Raise):
            found.refused.update(kinds)
        elif exp.Anonymous in kinds:  # a function that the parser has no class for
            found.names.update(text for text in strings if isinstance(text, str))
        else:
            found.taken.update(kinds)
    return found


# The functions of the planner that go through kinds of nodes, and where such nodes stand in a query.
# What follows them is never written by an analyst: the planner's own casts, and what only rebuilt trees hold.
DISPATCHERS: list[tuple[Callable[..., Any], str, set[type]]] = [
    (grid._compile, "inside_aggregates", {exp.Cast, exp.Connector, exp.Not, exp.Boolean}),
    (windows.read_window, "of_a_row", set()),
]


@pytest.mark.parametrize(("function", "place", "internal"), DISPATCHERS)
def test_everything_the_planner_takes_has_an_example(
    function: Callable[..., Any], place: str, internal: set[type]
) -> None:
    cases = read_cases(function)
    assert len(cases.taken) > 5
    assert not lacking(cases.taken - internal, hold_answered()[place]), f"add a row to sql.md ({place})"
    told = ANSWERED_PART.lower()
    assert not {name for name in cases.names if f"{name}(" not in told}


def test_everything_the_planner_refuses_by_kind_has_an_example() -> None:
    refused = read_cases(functions.refuse_unknown).taken
    refused.update(*(read_cases(function).refused for function, _, _ in DISPATCHERS))
    assert {exp.Window, exp.Interval} <= refused
    # Read by the parser alone: the planner turns some away unread.
    parsed = (sqlglot.parse_one(sql, read="duckdb") for sql, _ in REFUSED if ";" not in sql)
    assert not lacking(refused, {type(node) for tree in parsed for node in tree.walk()})


@pytest.mark.parametrize(
    ("table", "place"),
    [
        (set(ROW_FUNCTIONS) - {exp.ToChar}, "of_a_row"),  # the planner takes TO_CHAR by its name
        (COMPARISONS, "in_having"),
        (PART_NODES, "of_a_row"),
        (AGGREGATES, "anywhere"),
        (columns.OWN_AGGREGATES, "of_a_row"),
        (expressions.SCALARS, "over_aggregates"),
        (expressions.AGGREGATES, "anywhere"),
        (expressions.WINDOWS, "anywhere"),
        ((exp.Rollup, exp.Cube, exp.GroupingSets, exp.Grouping, exp.Window, exp.Qualify), "anywhere"),
        ((exp.Filter, exp.WithinGroup, exp.Distinct, exp.Star), "anywhere"),
    ],
)
def test_every_kind_in_the_planners_tables_has_an_example(table: Iterable[type], place: str) -> None:
    assert not lacking(table, hold_answered()[place])


def test_every_function_that_is_taken_by_its_name_has_an_example() -> None:
    told = ANSWERED_PART.lower()
    assert not {name for name in NAMED_FUNCTIONS if f"{name}(" not in told}


def test_what_a_query_may_say_of_a_row_a_subquery_may_say_too() -> None:
    asked = [sql for sql in ANSWERED if sql.startswith("SELECT COUNT(*) FROM") and "JOIN" not in sql]
    conditions = [parsing.parse_select(sql).args.get("where") for sql in asked if "(SELECT" not in sql]
    said = [condition.this.sql(dialect="duckdb") for condition in conditions if condition is not None]
    assert len(said) > 50
    for condition in said:
        inner = f"SELECT COUNT(*) FROM (SELECT {condition} AS met FROM visits) WHERE met"
        assert plan_query(inner, read_schema()).measures, condition


@pytest.mark.parametrize("sql", ANSWERED)
def test_answered_examples_are_planned_and_ask_the_same_written_again(sql: str) -> None:
    """The ledger tells queries apart by how they are written: writing them may lose nothing."""
    first = plan_query(sql, read_schema())
    assert first.measures
    if "WITHIN GROUP" not in sql:  # written in DuckDB's own words, which the planner reads as another option
        again = plan_query(parsing.write_plainly(sql), read_schema())
        assert digest_measured(again) == digest_measured(first)


def list_set_arguments(selects: Iterable[exp.Expression]) -> set[str]:
    return {name for select in selects for name, value in select.args.items() if value}


def test_every_clause_has_an_example() -> None:
    parsed = [parsing.parse_select(sql) for sql in ANSWERED]
    assert {*outer_select._CLAUSES, *parsing._READ, "with_"} <= list_set_arguments(parsed)
    inner = [select for tree in parsed for select in tree.find_all(exp.Select) if select is not tree]
    assert set(subqueries._ROW_WISE) <= list_set_arguments(inner)
    refused = []
    for sql, _ in REFUSED:
        with suppress(QueryError):
            refused.append(parsing.parse_select(sql))
    assert set(parsing._CLAUSES) <= list_set_arguments(refused)


def test_every_date_part_and_unit_has_an_example() -> None:
    told = "\n".join(ANSWERED)
    assert not [part for part in PART_VALUES if f"EXTRACT({part} FROM" not in told]
    assert not [unit for unit in TRUNCATIONS if f"DATE_TRUNC('{unit.lower()}'" not in told]
    casts = {node.to.this for sql in ANSWERED for node in parsing.parse_select(sql).find_all(exp.Cast)}
    assert {TARGETS.get(kind) for kind in casts} == set(TARGETS.values())


def test_every_join_has_an_example() -> None:
    """The planner tells joins apart by words; so does this."""
    joins = [join for sql in ANSWERED for join in parsing.parse_select(sql).find_all(exp.Join)]
    assert {str(join.args.get("side") or "") for join in joins} == {"", "LEFT"}
    assert {"using" if join.args.get("using") else "on" for join in joins} == {"using", "on"}
    refused = " ".join(sql for sql, _ in REFUSED)
    assert not [kind for kind in ("RIGHT", "FULL", "CROSS", "NATURAL") if f"{kind} JOIN" not in refused]


# ---------------------------------------------------------------- other lists of the same


def test_what_the_editor_offers_is_answered() -> None:
    """Functions and keywords: each stands in an example that is answered, as it is written or as DuckDB writes it."""
    also = "SELECT sex, COUNT(*) FROM visits LEFT OUTER JOIN clinics USING (clinic_id) GROUP BY sex ORDER BY 2 ASC"
    plan_query(also, read_schema())
    answered = [*ANSWERED, also]
    written = [*answered, *(sqlglot.parse_one(sql, read="duckdb").sql("duckdb") for sql in answered)]
    called = {name for sql in written for name in re.findall(r"(\w+)\(", sql.upper())}
    assert {"AVG", "QUANTILE_CONT", "DATE_TRUNC", "LAG", "BOOL_OR", "ISOYEAR"} <= set(list_functions()) <= called
    script = (Path(web.__file__).parent / "static" / "editor.js").read_text(encoding="utf-8")
    words = [word for text in re.findall(r"const (?:KEYWORDS|TYPES) = [`\"]([^`\"]+)", script) for word in text.split()]
    assert len(words) > 60
    assert {word.upper() for word in words} <= {word for sql in answered for word in re.findall(r"\w+", sql.upper())}


def list_words(text: str) -> set[str]:
    """Words of SQL: two or more capital letters."""
    return set(re.findall(r"\b[A-Z][A-Z_]+\b", text))


@pytest.mark.parametrize(
    "text",
    [
        aggregate_collector.SUPPORTED,
        SUPPORTED,
        columns.SUPPORTED,
        windows.SUPPORTED,
        (GUIDES / "analyst.md").read_text(encoding="utf-8").partition("## What you can ask")[2].split("\n## ")[0],
        re.split(r"\n- ", README.partition("**SQL beyond grouped SELECTs**")[2])[0],
    ],
)
def test_shorter_lists_name_nothing_that_is_not_here(text: str) -> None:
    words = list_words(text)
    assert len(words) > 8
    assert words <= list_words(PAGE)


def test_messages_name_every_aggregate() -> None:
    """By one of the names that the parser knows them by."""
    words = list_words(aggregate_collector.SUPPORTED)
    told = words | {word.replace("QUANTILE", "PERCENTILE") for word in words}
    assert not [node for node in AGGREGATES if issubclass(node, exp.Func) and not told & set(node.sql_names())]
