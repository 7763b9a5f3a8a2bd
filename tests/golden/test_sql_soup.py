"""Whatever is typed is planned or refused: nothing but QueryError escapes, and every plan can be written out."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dosimeter.errors import QueryError
from dosimeter.planning import PlanOptions, plan_query
from tests.corpus.harmless import expect_harmless
from tests.corpus.reading import read_corpus
from tests.corpus.tables import find_schema
from tests.shares import Share

KEYWORDS = """
    SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT AS AND OR NOT IN IS NULL LIKE BETWEEN CASE WHEN THEN ELSE END
    DISTINCT FILTER OVER PARTITION JOIN ON USING UNION ALL WITH DATE TIMESTAMP INTERVAL CAST EXTRACT YEAR
    people age visits pay rate city member born seen name wage p count e0 g0
    COUNT SUM AVG MIN MAX MEDIAN QUANTILE_CONT VAR_POP STDDEV_POP ABS FLOOR CEIL ROUND COALESCE IF NULLIF
    EXP LOG LENGTH RANDOM NOW HASH getenv read_text STRING_AGG LIST QUALIFY WINDOW SAMPLE ILIKE COLLATE b'x' E'\\n'
    LEAST GREATEST DATE_TRUNC DATE_PART HOUR read_csv range UPPER STDDEV ANY_VALUE EXISTS ROLLUP CUBE ARRAY
    ( ) ( ) ( ) , , . * * + - / // % = == <> < >= || :: ; [ ] { } ? $1 : -> @ # ~ ! ^ & | \\ ' " `
    0 1 2 0.5 1e3 1e999 -1 00 .5 1. 1_000 0x1F 9223372036854775807 99999999999999999999 TRUE FALSE
    'Bonn' '2024-01-01' 'year' '' 'month' "age" é 数 COUNT(*) SUM(age) AVG(pay)
"""
PHRASES = ['"odd name"', "-- c\n", "/* c */", "\x00", "FROM people", "GROUP BY city", "WHERE age >", "ORDER BY 1 DESC"]
SCHEMA = find_schema("people")
SEEDS = [entry.sql for entry in read_corpus() if entry.table in ("people", "sixty people")]
WORDS = [*KEYWORDS.split(), *PHRASES]
SOUP = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)
SHAPED = st.builds(
    lambda items, where, tail: f"SELECT {items} FROM people{where}{tail}",
    SOUP,
    st.one_of(st.just(""), SOUP.map(lambda soup: f" WHERE {soup}")),
    st.one_of(st.just(""), SOUP),
)


@st.composite
def mangled(draw: st.DrawFn) -> str:
    """A query of the corpus in which some words are others', left out or said twice."""
    words = re.findall(r"\w+|'[^']*'|\S", draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(words) - 1))
        others = st.one_of(st.sampled_from(WORDS), st.sampled_from(words))
        words[at : at + 1] = draw(st.sampled_from([[], [words[at]] * 2, [draw(others)], [draw(others), words[at]]]))
        words = words or ["SELECT"]
    return " ".join(words)


MANGLED = mangled()
OPTIONS = st.sampled_from(
    [PlanOptions(), PlanOptions(groups="observed"), PlanOptions(min_rows=99), PlanOptions(sensitivity=2.5)]
)

# Nearly all of the above is refused. What follows has types, and nearly all of it is accepted.
BOUNDED = st.recursive(
    st.sampled_from(["age", "pay"]),  # a number that cannot change is refused
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*"]), inner | st.sampled_from(["1", "0.5"])),
        st.builds("ABS(-{})".format, inner),
        st.builds("CASE WHEN member THEN {} ELSE {} END".format, inner, inner),
        st.builds("COALESCE({}, {})".format, inner, inner),
    ),
    max_leaves=4,
)
VALUES = st.one_of(BOUNDED, st.sampled_from(["visits", "YEAR(born)", "HOUR(seen)", "FLOOR(score)", "visits // 2 % 3"]))
MEANT_CONDITIONS = st.recursive(
    st.one_of(
        st.builds("{} {} {}".format, VALUES, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), VALUES),
        st.builds("{} BETWEEN {} AND {}".format, VALUES, VALUES, VALUES),
        st.builds("{} IN ({}, 7)".format, VALUES, VALUES),
        st.sampled_from(["member", "city = 'Bonn'", "name LIKE 'A%'", "born >= '1921-01-01'", "note IS NOT NULL"]),
        st.sampled_from(["DATE_TRUNC('month', seen) = DATE '2024-02-01'", "city IN ('Bonn', 'Köln')"]),
    ),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=3,
)
MEANT_AGGREGATES = st.builds(
    "{}{}".format,
    st.one_of(
        st.builds("{}({})".format, st.sampled_from(["SUM", "AVG", "MIN", "MAX", "MEDIAN", "VAR_POP"]), BOUNDED),
        st.builds("COUNT({}{})".format, st.sampled_from(["", "DISTINCT "]), VALUES),
        st.builds("QUANTILE_CONT({}, 0.3)".format, BOUNDED),
        st.just("COUNT(*)"),
    ),
    st.one_of(st.just(""), MEANT_CONDITIONS.map(" FILTER (WHERE {})".format)),
)
MEANT_ITEMS = st.recursive(
    MEANT_AGGREGATES,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "/"]), inner),
        st.builds("ROUND({}, 1)".format, inner),
        st.builds("GREATEST({}, 0)".format, inner),
    ),
    max_leaves=3,
)
MEANT = st.builds(
    lambda item, where, group, tail: f"SELECT COUNT(*), {item} AS x FROM people{where}{group}{tail}",
    MEANT_ITEMS,
    st.one_of(st.just(""), MEANT_CONDITIONS.map(" WHERE {}".format)),
    st.sampled_from(["", " GROUP BY city", " GROUP BY member, city", " GROUP BY age // 10", " GROUP BY YEAR(born)"]),
    st.sampled_from(["", " HAVING x > 1", " ORDER BY x DESC LIMIT 3", " ORDER BY 1"]),
)


def plan_or_refuse(sql: str, options: PlanOptions) -> bool:
    """Plan, and write out every query of the plan; return whether it was accepted."""
    try:
        plan = plan_query(sql, SCHEMA, options)
    except QueryError:
        return False
    assert plan.measures
    expect_harmless(plan)
    return True


def test_what_has_types_is_planned() -> None:
    share = Share()

    @settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
    @given(MEANT, OPTIONS)
    def check(sql: str, options: PlanOptions) -> None:
        share.count(plan_or_refuse(sql, options))

    check()
    share.require(0.8)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.one_of(SOUP, SHAPED, st.text(max_size=40)), OPTIONS)
def test_soup_is_planned_or_refused(sql: str, options: PlanOptions) -> None:
    plan_or_refuse(sql, options)


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(MANGLED, OPTIONS)
def test_mangled_queries_are_planned_or_refused(sql: str, options: PlanOptions) -> None:
    plan_or_refuse(sql, options)


@pytest.mark.long
@settings(max_examples=20_000, derandomize=False, suppress_health_check=list(HealthCheck))
@given(st.one_of(SOUP, SHAPED, MANGLED, MEANT, st.text()), OPTIONS)
def test_soup_at_length(sql: str, options: PlanOptions) -> None:
    plan_or_refuse(sql, options)
