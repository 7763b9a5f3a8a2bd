"""SQL that stands in no file: texts that are odd or very long, digests, and how deep a query may be nested."""

from __future__ import annotations

import sys
from decimal import Decimal

import pytest

from dosimeter.errors import QueryError
from dosimeter.planning import PlanOptions, QueryPlan, plan_query
from dosimeter.schema import Column, ColumnType, Schema
from tests.corpus.harmless import expect_harmless
from tests.corpus.tables import find_schema

SCHEMA = find_schema("people")


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT /* all */ COUNT(*) -- of them\nFROM people;", "count"),
        ("SELECT COUNT(*) FROM people;;  ; -- done", "count"),
        ('SELECT COUNT(*) AS "; DROP TABLE people" FROM people', "; DROP TABLE people"),
    ],
)
def test_accepted(sql: str, name: str) -> None:
    plan = plan_query(sql, SCHEMA)
    assert [output.name for output in plan.outputs] == [name]
    expect_harmless(plan)


NESTED = "(" * 10_000 + "1" + ")" * 10_000
REFUSED = [
    ("", "empty"),
    (" \n-- nothing\n", "exactly one SELECT"),
    (";", "exactly one SELECT"),
    ("SELECT COUNT(*) FROM people WHERE name = '\ud800'", "not Unicode"),
    ("SELECT COUNT(*) FROM people WHERE name = 'a\x00b'", "NUL"),
    ("SELECT COUNT(*) FROM people GROUP BY " + "9" * 5000, "does not name an item"),
    ("SELECT COUNT(*) FROM people LIMIT " + "9" * 5000, "LIMIT takes a whole number"),
    ("SELECT COUNT(*) " + "UNION ALL SELECT COUNT(*) FROM people " * 60, "nested too deeply"),
    ("SELECT COUNT(*) FROM people WHERE age > " + "9" * 5000, "not a number this tool reads"),
    (f"SELECT {NESTED} FROM people", "nested too deeply"),
    (f"SELECT COUNT(*) FROM people WHERE {NESTED} = 1", "nested too deeply"),
    ("SELECT COUNT(*) FROM people WHERE " + "NOT " * 3000 + "member", "nested too deeply"),
    ("SELECT COUNT(*) FROM people WHERE age " + "// 1 " * 45 + "= 1", "nested too deeply"),
    ("SELECT COUNT(*) FROM people WHERE age " + "+ 1 " * 4_000 + "= 1", "nested too deeply"),
    ("SELECT COUNT(*) FROM people WHERE " + "CASE " * 25 + "1" + " WHEN 1 THEN 1 WHEN 2 THEN 2 END" * 25 + " = 1",
     "too long once its expressions are written"),
    ("SELECT COUNT(*) FROM people WHERE " + " OR ".join(["name = 'Ada'"] * 10_000), "longer than 100,000 characters"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "advice"), REFUSED, ids=lambda text: repr(text[:80]))
def test_refused(sql: str, advice: str) -> None:
    with pytest.raises(QueryError) as refusal:
        plan_query(sql, SCHEMA)
    message = str(refusal.value)
    assert advice in message
    assert 10 < len(message) < 900
    assert "\x1b" not in message


def test_observed_groups_need_no_declaration() -> None:
    plan = plan_query("SELECT name, COUNT(*) FROM people GROUP BY name", SCHEMA, PlanOptions(groups="observed"))
    assert plan.group_keys is None
    assert not plan.declared
    extremes = plan_query("SELECT name, MIN(age) FROM people GROUP BY name", SCHEMA, PlanOptions(groups="observed"))
    assert extremes.sensitivity(1) == extremes.sensitivity(2) == 100


def test_coarse_noise_grid_takes_its_sensitivity_along() -> None:
    """Rounding to a coarser grid keeps neighbours within Δ only when Δ is a whole number of its steps."""
    wide = Column("v", ColumnType.INTEGER, bounds=(Decimal(0), Decimal(2**55 + 1)))
    schema = Schema(table="t", individuals=1000, columns={"v": wide})
    measure = plan_query("SELECT SUM(v) FROM t", schema).measures[0]
    assert measure.grid > measure.unit
    steps = measure.sensitivity(1) / float(measure.grid)
    assert steps == int(steps)
    assert measure.sensitivity(1) >= 2**55 + 1


# ---------------------------------------------------------------- what runs


def call_deep(frames: int, sql: str) -> QueryPlan | None:
    """Plan and write out from deep inside somebody else's call stack."""
    if frames:
        return call_deep(frames - 1, sql)
    try:
        plan = plan_query(sql, SCHEMA)
    except QueryError:
        return None
    expect_harmless(plan)
    return plan


ROWS = "SELECT COUNT(*) FROM people WHERE "


@pytest.mark.parametrize(
    ("start", "opening", "inner", "closing", "end", "accepted", "beyond"),
    [
        (ROWS, "(", "age = 1", ")", "", (5, 15), (35, 100)),
        (f"{ROWS}age", " / 2", " = 1", "", "", (5, 40), (60,)),
        ("SELECT SUM(", "ABS(age - ", "1", ")", ") FROM people", (3, 15, 20), ()),
        (ROWS, "CASE WHEN age = 1 THEN 2 ELSE ", "3", " END", " = 2", (5, 10, 20), ()),
    ],
)
def test_what_is_accepted_can_be_written_out(
    start: str, opening: str, inner: str, closing: str, end: str, accepted: tuple[int, ...], beyond: tuple[int, ...]
) -> None:
    """Somewhere beyond, nesting is refused; never is it accepted and then too deep to be written."""
    assert sys.getrecursionlimit() == 1000
    for depth in (*accepted, *beyond):
        found = call_deep(150, start + opening * depth + inner + closing * depth + end)
        assert found is not None or depth in beyond, depth


def test_a_long_list_of_conditions_is_fine() -> None:
    sql = "SELECT COUNT(*) FROM people WHERE " + " OR ".join(
        f"age = {age}" for age in range(1100)
    )  # deeper than Python's own stack
    plan = plan_query(sql, SCHEMA)
    expect_harmless(plan)
