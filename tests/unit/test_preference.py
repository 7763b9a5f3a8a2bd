"""Preferences: what is accepted, what is refused and why, and that a condition means what DuckDB says it means."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import duckdb
import numpy as np
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.errors import PreferenceError
from dosimeter.risk.exposure import RDRs
from dosimeter.risk.largest_epsilon import paper_candidates
from dosimeter.risk.preference import parse_preference


def rdrs_of(
    values: Sequence[float], counts: Sequence[int], *, ceiling: float = 1.0, **attributes: Sequence[bool]
) -> RDRs:
    return RDRs(
        epsilon=1.0,
        values=np.array(values, dtype=np.float64),
        counts=np.array(counts, dtype=np.int64),
        ceiling=ceiling,
        attributes={name: np.array(flags) for name, flags in attributes.items()},
    )


THREE = rdrs_of([1.0, 2.0, 4.0], [3, 1, 1], ceiling=8.0)


# ---------------------------------------------------------------- accepted

# Written canonically: kind, threshold, value on {1, 1, 1, 2, 4} with ceiling 8, and whether it is met there.
ACCEPTED: list[tuple[str, str, float | None, float | None, bool]] = [
    ("MIN(rdr) / MAX(rdr) >= 95 / 100", "ratio", 0.95, 0.25, False),
    ("MIN(normalized_rdr) / MAX(normalized_rdr) >= 0.5", "ratio", 0.5, 0.25, False),
    ("MIN(rdr) / MAX(rdr) > 0.25", "condition", 0.25, 0.25, False),
    ("MIN(rdr) / MAX(rdr) >= 1.5", "condition", 1.5, 0.25, False),
    ("MIN(rdr) / MAX(normalized_rdr) >= 0.5", "condition", 0.5, 2.0, True),
    ("MIN(rdr) >= 0.25 * MAX(rdr)", "condition", None, 1.0, True),
    ("COUNT(rdr) - COUNT(normalized_rdr) = 0", "condition", 0.0, 0.0, True),
    ("STDDEV_POP(rdr) / AVG(rdr) <= 1", "condition", 1.0, math.sqrt(1.36) / 1.8, True),
    ("QUANTILE_CONT(rdr, 0.875) > 2", "condition", 2.0, 3.0, True),
    ("QUANTILE_CONT(rdr, 1) <= 1.5 * AVG(rdr)", "condition", None, 4.0, False),
    ("ABS(-MAX(rdr)) <= 4", "condition", 4.0, 4.0, True),
    ("GREATEST(MIN(rdr), AVG(rdr)) <= 2", "condition", 2.0, 1.8, True),
    ("MAX(rdr) - (MIN(rdr) - 1) <= -(-4)", "condition", 4.0, 4.0, True),
    ("-(-MIN(rdr)) < 2", "condition", 2.0, 1.0, True),
    ("(MAX(rdr) + 1) / (MIN(rdr) * 2) < 2.6", "condition", 2.6, 2.5, True),
    ("MAX(rdr) / MIN(rdr) / 2 <= 2", "condition", 2.0, 2.0, True),
    ("MAX(rdr) / (MIN(rdr) / 2) <= 8", "condition", 8.0, 8.0, True),
    ("MIN(rdr) / (MAX(rdr) - 4) >= 0", "condition", 0.0, None, False),
    ("MIN(rdr) / MAX(rdr) >= 0.25", "ratio", 0.25, 0.25, True),
    ("VAR_POP(normalized_rdr) <= 0.03", "variance", 0.03, 0.02125, True),
    ("LEAST(MIN(rdr), 3, 0.5) <= 0.5", "condition", 0.5, 0.5, True),
    ("MIN(rdr) >= 1 AND MAX(rdr) <= 4", "condition", None, None, True),
    ("MIN(rdr) > 1 AND MAX(rdr) < 5 AND AVG(rdr) < 2", "condition", None, None, False),
]
RESPELT = {
    "(MIN(rdr) / (MAX(rdr))) >= (0.2)": "MIN(rdr) / MAX(rdr) >= 0.2",
    " Ratio : 1 ": "MIN(rdr) / MAX(rdr) >= 1",
    "variance:1e-5": "VAR_POP(normalized_rdr) <= 1e-5",
    "0.03 >= VAR_POP(normalized_rdr)": "VAR_POP(normalized_rdr) <= 0.03",
    "AVG(rdr) == 1.8": "AVG(rdr) = 1.8",
    "LEAST(MIN(rdr), 3, 0.5) <= .5": "LEAST(MIN(rdr), 3, 0.5) <= 0.5",
    "guess:0.2": "guess(0.1) <= 0.2",
    "posterior:0.05,Guess:0.3": "posterior(0.01) <= 0.05 AND guess(0.1) <= 0.3",
    "0.3 > GUESS(.25) AND Posterior(1e-3) < 2 * guess(0.25)": (
        "guess(0.25) < 0.3 AND posterior(0.001) < 2 * guess(0.25)"
    ),
    "MIN(rdr) > 1e-300 -- why\n": "MIN(rdr) > 1e-300",
    "MIN(rdr) >= 1 AND (MAX(rdr) <= 4)": "MIN(rdr) >= 1 AND MAX(rdr) <= 4",
    "MIN(rdr) > 1 AND 5 > MAX(rdr) AND AVG(rdr) < 2": "MIN(rdr) > 1 AND MAX(rdr) < 5 AND AVG(rdr) < 2",
}


@pytest.mark.parametrize(("text", "kind", "threshold", "value", "satisfied"), ACCEPTED, ids=[a[0] for a in ACCEPTED])
def test_accepted_text(text: str, kind: str, threshold: float | None, value: float | None, satisfied: bool) -> None:
    preference = parse_preference(text)
    verdict = preference.evaluate(THREE)
    assert (preference.text, preference.kind, preference.filters) == (text, kind, {})
    assert preference.threshold == (None if threshold is None else pytest.approx(threshold, rel=1e-15))
    assert verdict.value == (None if value is None else pytest.approx(value, rel=1e-14))
    assert (verdict.satisfied, verdict.empty) == (satisfied, False)


@pytest.mark.parametrize(("text", "canonical"), RESPELT.items(), ids=list(RESPELT))
def test_respelt_text(text: str, canonical: str) -> None:
    assert parse_preference(text) == parse_preference(canonical)
    assert parse_preference(text).text == canonical


# ---------------------------------------------------------------- refused

REFUSED = [
    ("", "empty"),
    ("MIN(rdr) / MAX(rdr)", "compares it"),
    ("rdr >= 1", "into an aggregate"),
    ("MIN(rdr) / rdr >= 1", "into an aggregate"),
    ("age >= 1", "FILTER"),
    ("MIN(rdr) >= age", "age"),
    ("MIN(age) >= 1", r"MIN\(age\): MIN takes rdr"),
    ("MIN(t.rdr) >= 1", "t.rdr"),
    ("1 <= 2", "nothing here is about the RDRs"),
    ("MIN(rdr) >= 1 AND 1 <= 2", "nothing here is about the RDRs"),
    ("0.9 <= MIN(rdr) <= 1", "chained"),
    ("MIN(rdr) >= 1 OR MAX(rdr) <= 2", "OR"),
    ("MIN(rdr) <> 1", "<>"),
    ("MIN(rdr) >= NULL", "NULL"),
    ("MIN(rdr) >= '0.95'", "without quotes"),
    ("MIN(rdr) >= 1e999", "too large"),
    ("SELECT MIN(rdr) >= 1", "not a condition"),
    ("MIN(rdr) >= (SELECT 1)", "not supported"),
    ("DROP TABLE adult", "DROP"),
    ("MIN(rdr) >= 1; MAX(rdr) <= 2", "2 statements"),
    ("MIN(rdr) >= MAX(rdr", "not closed"),
    ("(MIN(rdr) >= 1", "cannot be read"),
    ("'unclosed", "cannot be read"),
    ("MIN(rdr, 3) >= 1", r"MIN\(rdr, 3\)"),
    ("MIN(DISTINCT rdr) >= 1", "DISTINCT"),
    ("COUNT(1) >= 1", "COUNT"),
    ("MIN(rdr) OVER () >= 1", "OVER"),
    ("MIN(rdr) IGNORE NULLS >= 1", "IgnoreNulls: this is not supported"),
    ("VARIANCE(rdr) >= 1", "VARIANCE"),
    ("STDDEV(rdr) >= 1", "STDDEV"),
    ("MEAN(rdr) >= 1", "MEAN"),
    ("QUANTILE(rdr, 0.5) >= 1", "QUANTILE"),
    ("QUANTILE_DISC(rdr, 0.5) >= 1", "not supported"),
    ("QUANTILE_CONT(rdr) >= 1", "fraction"),
    ("QUANTILE_CONT(rdr, 1.5) >= 1", "between 0 and 1"),
    ("QUANTILE_CONT(rdr, -0.5) >= 1", "number is needed"),
    ("QUANTILE_CONT(rdr, MIN(rdr)) >= 1", "number is needed"),
    ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY rdr) >= 1", "not supported"),
    ("SQRT(MIN(rdr)) >= 1", "SQRT"),
    ("MIN(rdr) FILTER (WHERE a = 1 AND Normalized_RDR > 1) >= 1", "rdr cannot stand in it"),
    ("MIN(rdr) FILTER (WHERE age > (SELECT 1)) >= 1", "cannot stand in a FILTER"),
    ("MIN(rdr) FILTER (WHERE MAX(age) > 1) >= 1", "cannot stand in a FILTER"),
    ("MIN(rdr) FILTER (WHERE age > ?) >= 1", "cannot stand in a FILTER"),
    ("ABS(MIN(rdr)) FILTER (WHERE age > 1) >= 1", "FILTER belongs to an aggregate"),
    ("ratio:", "needs a number"),
    ("ratio:1.01", "at most 1"),
    ("ratio:nan", "above 0"),
    ("variance:0", "positive"),
    ("variance:inf", "positive"),
    ("range:3", "The short names are ratio:0.95, variance:1e-5, own:0.5"),
    ("ratio:0.9,range:3", "no short name range"),
    ("advantage:2", "at most 1"),
    ("error:many", "error: needs a number, as in error:10"),
    ("guess:0.1", "guess: takes a number above 0.1 and at most 1, not 0.1"),
    ("posterior:0.01", "above 0.01"),
    ("guess <= 0.2", r"one number above 0 and below 1, as in guess\(0.1\) <= 0.2"),
    ("guess() <= 0.2", "one number above 0 and below 1"),
    ("guess(0) <= 0.2", "one number above 0 and below 1"),
    ("guess(1) <= 1", "one number above 0 and below 1"),
    ("guess(-0.1) <= 1", "one number above 0 and below 1"),
    ("guess(0.1, 0.2) <= 1", "one number above 0 and below 1"),
    ("posterior(1.5) <= 1", r"as in posterior\(0.01\) <= 0.05: what a suspicion of p"),
    ("posterior(MIN(rdr)) <= 1", "one number above 0 and below 1"),
    ("MAX(guess(0.1)) <= 1", "MAX takes rdr"),
    ("guess(0.1) FILTER (WHERE age > 1) <= 1", "FILTER belongs to an aggregate"),
    ("error(3) <= 1", "error takes nothing in parentheses. Write it as in error <= 10"),
    ("guess(0.1) <= 0.2 OR error <= 3", "OR"),
    ("advantage <= 0.2", r"put it into an aggregate, as in MAX\(advantage\)"),
    ("MIN(rdr) >= " + "+".join(["1"] * 200), "too deeply"),
    ("MIN(rdr) >= " + "(" * 5000 + "1" + ")" * 5000, "cannot be read"),
]


@pytest.mark.parametrize(
    ("source", "meant"),
    [
        ("cautios", "cautious"),
        ("ratio95", "ratio:0.95"),
        ("ratio=0.9", "ratio:0.9"),
        ("ratoi:0.9", "ratio:0.9"),
        ("own <= 2", "own:2"),
        ("gues:0.3", "guess:0.3"),
        ("posteriour:0.001", "posterior:0.05"),
        ("ratio", "ratio:0.95"),
        ("ratio:0.9,cautios", "cautious"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_one_meant(source: str, meant: str) -> None:
    parse_preference(meant)
    with pytest.raises(PreferenceError) as refusal:
        parse_preference(source)
    assert f" Is {meant} meant?" in str(refusal.value)
    assert "FILTER" not in str(refusal.value)
    with pytest.raises(PreferenceError, match="presets are cautious, balanced, exploratory; the short names are ratio"):
        parse_preference("nothing")


@pytest.mark.parametrize(("source", "message"), REFUSED, ids=[r[0][:60] for r in REFUSED])
def test_refused_text(source: str, message: str) -> None:
    with pytest.raises(PreferenceError, match=message) as refusal:
        parse_preference(source)
    assert len(str(refusal.value)) < 500


def test_what_is_neither_text_nor_callable_is_refused() -> None:
    with pytest.raises(PreferenceError, match="not int"):
        parse_preference(3)  # type: ignore[arg-type]
    with pytest.raises(PreferenceError, match="write it into the condition"):
        parse_preference("ratio:0.95", threshold=0.9)


# ---------------------------------------------------------------- FILTER


def test_filters_are_named_deduplicated_and_evaluated() -> None:
    source = (
        "MEDIAN(rdr) FILTER (WHERE race = 'White') / MEDIAN(rdr) FILTER (WHERE race <> 'White') >= 0.9 "
        "AND MIN(rdr) FILTER (race = 'White') >= 1"
    )
    preference = parse_preference(source)
    assert {name: tree.sql("duckdb") for name, tree in preference.filters.items()} == {
        "filter0": "race = 'White'",
        "filter1": "race <> 'White'",
    }
    assert preference.text == source.replace("(race", "(WHERE race")
    assert [tree.parent for tree in preference.filters.values()] == [None, None]
    rdrs = rdrs_of([1.0, 2.0, 3.0], [2, 3, 1], filter0=[True, False, True], filter1=[False, True, False])
    assert not preference.evaluate(rdrs).satisfied  # medians 1 and 2
    rdrs = rdrs_of([1.0, 2.0, 3.0], [1, 3, 2], filter0=[True, False, True], filter1=[False, True, False])
    assert preference.evaluate(rdrs).satisfied  # medians 3 and 2


def test_an_empty_filter_group_is_null_and_flagged() -> None:
    nobody = rdrs_of([1.0, 2.0], [1, 0], filter0=[False, True])
    verdict = parse_preference("MIN(rdr) FILTER (WHERE a = 1) <= 100").evaluate(nobody)
    assert (verdict.value, verdict.satisfied, verdict.empty) == (None, False, True)
    verdict = parse_preference("COUNT(*) FILTER (WHERE a = 1) = 0").evaluate(nobody)
    assert (verdict.value, verdict.satisfied, verdict.empty) == (0.0, True, False)
    verdict = parse_preference("LEAST(MIN(rdr) FILTER (WHERE a = 1), 7) = 7").evaluate(nobody)  # as DuckDB: skips NULL
    assert (verdict.value, verdict.satisfied, verdict.empty) == (7.0, True, True)


def test_a_filter_that_was_not_measured_is_refused() -> None:
    with pytest.raises(PreferenceError, match="not measured"):
        parse_preference("MIN(rdr) FILTER (WHERE a = 1) >= 0").evaluate(THREE)


# ---------------------------------------------------------------- callables


def test_callables() -> None:
    def share_above_one(values: FloatArray, counts: IntArray) -> float:
        return float(counts[values > 1].sum() / counts.sum())

    preference = parse_preference(share_above_one, threshold=0.4)
    assert (preference.kind, preference.text) == ("callable", "share_above_one(values, counts) >= 0.4")
    verdict = preference.evaluate(THREE)
    assert (verdict.value, verdict.satisfied) == (0.4, True)
    assert not parse_preference(share_above_one, threshold=0.41).evaluate(THREE).satisfied

    verdict = parse_preference(lambda values, counts: np.max(values) <= 4).evaluate(THREE)
    assert (verdict.value, verdict.satisfied) == (None, True)
    assert not parse_preference(lambda values, counts: False, threshold=-1.0).evaluate(THREE).satisfied
    assert parse_preference(lambda values, counts: Fraction(1, 3), threshold=1 / 3).evaluate(THREE).satisfied
    not_a_number = parse_preference(lambda values, counts: math.nan, threshold=0.0).evaluate(THREE)
    assert (not_a_number.value, not_a_number.satisfied) == (None, False)


@pytest.mark.parametrize("result", ["yes", None, [True], np.array([1.0, 2.0]), 1j])
def test_a_callable_that_returns_something_else_is_refused(result: object) -> None:
    with pytest.raises(PreferenceError, match="returns a bool or a number"):
        parse_preference(lambda values, counts: result, threshold=0.5).evaluate(THREE)


def test_a_callable_with_a_number_needs_a_finite_threshold() -> None:
    with pytest.raises(PreferenceError, match="threshold="):
        parse_preference(lambda values, counts: 0.5).evaluate(THREE)
    with pytest.raises(PreferenceError, match="finite"):
        parse_preference(lambda values, counts: 0.5, threshold=math.nan)


def test_a_callable_cannot_change_the_rdrs() -> None:
    def overwrite(values: FloatArray, counts: IntArray) -> bool:
        values[0] = 99.0
        return True

    with pytest.raises(ValueError, match="read-only"):
        parse_preference(overwrite).evaluate(THREE)
    assert THREE.values[0] == 1.0
    assert THREE.values.flags.writeable


# ---------------------------------------------------------------- R8, R10


@pytest.mark.parametrize(
    ("source", "scale_free", "shift_free", "compares_raw_spread"),
    [
        ("ratio:0.95", True, False, False),
        ("variance:1e-5", True, False, False),
        ("QUANTILE_CONT(rdr, 0.99) <= 1.5 * AVG(rdr)", True, False, False),
        ("MIN(rdr) - 0.9 * MAX(rdr) >= 0", True, False, False),
        ("VAR_POP(rdr) / (AVG(rdr) * AVG(rdr)) <= 0.1", True, False, False),
        ("STDDEV_POP(rdr) <= 0.1 * AVG(rdr)", True, False, False),
        ("VAR_POP(rdr) / STDDEV_POP(rdr) <= MAX(rdr) - MIN(rdr)", True, True, False),
        ("GREATEST(MAX(rdr), 0) <= 2 * ABS(-MIN(rdr))", True, False, False),
        ("COUNT(*) >= 100", True, True, False),
        ("MAX(rdr) <= 5", False, False, False),
        ("MAX(rdr) + 1 <= 2 * MIN(rdr)", False, False, False),
        ("MAX(rdr) * MIN(rdr) <= MAX(rdr)", False, False, False),
        ("LEAST(MAX(rdr), 3) <= MIN(rdr)", False, False, False),
        ("MAX(rdr) - MIN(rdr) <= 5", False, True, False),
        ("MIN(rdr) >= MAX(rdr) - 5", False, True, False),
        ("2 * MEDIAN(rdr) - (MAX(rdr) + MIN(rdr)) / 0.5 / 2 <= 5", False, True, False),
        ("SUM(rdr) - MIN(rdr) <= 5", False, False, False),
        ("VAR_POP(rdr) <= 5", False, True, True),
        ("STDDEV_POP(rdr) / 2 + 1 <= 5", False, True, True),
        ("STDDEV_POP(rdr) <= MAX(rdr) * MAX(rdr)", False, False, False),
        ("MIN(rdr) / MAX(rdr) >= 0.9 AND VAR_POP(rdr) <= 5", False, False, True),
    ],
)
def test_what_a_preference_depends_on(
    source: str, scale_free: bool, shift_free: bool, compares_raw_spread: bool
) -> None:
    preference = parse_preference(source)
    assert preference.scale_free is scale_free
    assert preference.shift_free is shift_free
    assert preference.compares_raw_spread is compares_raw_spread


# ---------------------------------------------------------------- against DuckDB, which evaluates the same words

FUNCTIONS = ("MIN", "MAX", "AVG", "SUM", "COUNT", "VAR_POP", "STDDEV_POP", "MEDIAN", "QUANTILE_CONT")
FILTERS = ["g = 0", "g > 0 OR h", "g > 7"]


@st.composite
def aggregates(draw: st.DrawFn, functions: Sequence[str] = FUNCTIONS) -> str:
    function, column = draw(st.sampled_from(functions)), draw(st.sampled_from(["rdr", "normalized_rdr"]))
    match function:
        case "QUANTILE_CONT":
            inside = f"{column}, {draw(st.sampled_from(['0', '0.1', '0.25', '0.9', '1']))}"
        case "COUNT":
            inside = draw(st.sampled_from([column, "*"]))
        case _:
            inside = column
    predicate = draw(st.sampled_from([None, None, *FILTERS]))
    return f"{function}({inside})" + ("" if predicate is None else f" FILTER (WHERE {predicate})")


LITERALS = st.sampled_from(["0.5", "2", "3.25", "1e-1"])
DIVISORS = aggregates(("MIN", "MAX", "AVG", "SUM", "COUNT", "MEDIAN")) | LITERALS | st.just("0")
# Divisors are 0 or well away from it, so that rounding cannot decide which.
TERMS = st.recursive(
    aggregates() | aggregates() | LITERALS,
    lambda inner: st.one_of(
        st.builds("{} {} ({})".format, inner, st.sampled_from("+-"), inner),
        st.builds("({}) * {}".format, inner, LITERALS),
        st.builds("({}) / {}".format, inner, DIVISORS),
        st.builds("-({})".format, inner),
        st.builds("ABS({})".format, inner),
        st.builds("{}({}, {})".format, st.sampled_from(["LEAST", "GREATEST"]), inner, inner),
    ),
    max_leaves=5,
)
PEOPLE = st.lists(
    st.tuples(st.integers(1, 64), st.integers(1, 4), st.integers(0, 2), st.sampled_from([True, False, None])),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


def divide_by_zero_to_null(text: str) -> str:
    """DuckDB's own x / 0 is an infinity. Here it is NULL, which is the only departure."""
    tree = sqlglot.parse_one(text, read="duckdb")
    for division in list(tree.find_all(exp.Div)):
        division.set("expression", exp.func("NULLIF", division.expression.copy(), exp.Literal.number(0)))
    return tree.sql("duckdb")


@given(
    left=st.builds("{} {} ({})".format, aggregates(), st.sampled_from("+-"), TERMS),
    operator=st.sampled_from([">=", "<=", ">", "<", "="]),
    right=TERMS,
    people=PEOPLE,
)
@settings(max_examples=150, deadline=None)
def test_a_condition_means_what_duckdb_says(
    connection: duckdb.DuckDBPyConnection,
    left: str,
    operator: str,
    right: str,
    people: list[tuple[int, int, int, bool | None]],
) -> None:
    flags = {
        "g = 0": [g == 0 for _, _, g, _ in people],
        "g > 0 OR h": [g > 0 or h is True for _, _, g, h in people],
        "g > 7": [False for _ in people],
    }
    preference = parse_preference(f"{left} {operator} {right}")
    verdict = preference.evaluate(
        rdrs_of(
            [eighths / 8 for eighths, *_ in people],
            [count for _, count, *_ in people],
            ceiling=4.0,
            **{name: flags[tree.sql("duckdb")] for name, tree in preference.filters.items()},
        )
    )
    rows = ", ".join(
        f"({eighths / 8}::DOUBLE, {eighths / 32}::DOUBLE, {g}, {'NULL' if h is None else h}::BOOLEAN)"
        for eighths, count, g, h in people
        for _ in range(count)
    )
    sides = [divide_by_zero_to_null(side) for side in (left, right)]
    (theirs,) = connection.execute(
        f"SELECT ({sides[0]})::DOUBLE AS l, ({sides[1]})::DOUBLE AS r, l {operator} r "
        f"FROM (VALUES {rows}) AS people(rdr, normalized_rdr, g, h)"
    ).fetchall()
    assert verdict.value == (None if theirs[0] is None else pytest.approx(theirs[0], rel=1e-9, abs=1e-9))
    if None in theirs:
        assert not verdict.satisfied
    elif abs(theirs[0] - theirs[1]) > 1e-9 * max(1.0, abs(theirs[1])):  # ties are tested below
        assert verdict.satisfied == theirs[2]


# ---------------------------------------------------------------- F1: ties


def test_the_same_candidate_as_exact_rational_arithmetic() -> None:
    """One COUNT in k groups has the ratio k/(k + ε). Floats alone choose another candidate for some (k, τ)."""
    candidates = [(epsilon, Fraction(str(epsilon))) for epsilon in paper_candidates()]
    plain_floats_differ = 0
    for hundredths in range(1, 100):
        tau = Fraction(hundredths, 100)
        preference = parse_preference(f"MIN(rdr) / MAX(rdr) >= {hundredths / 100}")
        for k in (*range(1, 21), *range(30, 81, 10)):
            exact = max((epsilon for epsilon, e in candidates if k / (k + e) >= tau), default=None)
            found = plain = None
            for epsilon, _ in candidates:  # descending
                low = k * (1.0 / epsilon)
                if plain is None and low / (1.0 + low) >= hundredths / 100:
                    plain = epsilon
                if found is None and preference.evaluate(rdrs_of([low, 1.0 + low], [1, 1])).satisfied:
                    found = epsilon
                if found is not None and plain is not None:
                    break
            assert found == exact, (k, hundredths)
            plain_floats_differ += plain != exact
    assert plain_floats_differ > 0  # otherwise the tolerance would be for nothing


@pytest.mark.parametrize(("operator", "met"), [(">=", True), ("<=", True), ("=", True), (">", False), ("<", False)])
@pytest.mark.parametrize("nudge", [0.0, 5e-13, -5e-13])
def test_sides_are_equal_within_the_tolerance_and_not_beyond(operator: str, met: bool, nudge: float) -> None:
    preference = parse_preference(f"MAX(rdr) {operator} 3")
    assert preference.evaluate(rdrs_of([3.0 * (1.0 + nudge)], [1])).satisfied is met
    beyond = preference.evaluate(rdrs_of([3.0 * (1.0 - 2e-12)], [1]))
    assert beyond.satisfied is operator.startswith("<")


def test_variance_survives_a_high_level() -> None:
    """Deviations of 1e-3 on a level of 1e6: the variance of the stored floats, by exact fractions."""
    values, counts = [1e6, 1e6 + 1e-3, 1e6 + 5e-3], [3, 5, 7]
    people = [Fraction(value) for value, count in zip(values, counts, strict=True) for _ in range(count)]
    mean = sum(people) / len(people)
    exact = sum((person - mean) ** 2 for person in people) / len(people)
    verdict = parse_preference("VAR_POP(rdr) <= 1").evaluate(rdrs_of(values, counts))
    assert verdict.value == pytest.approx(float(exact), rel=1e-9)
