"""Which numbers that are computed from several groups have an error, and from what it is computed (E6)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dosimeter import Dataset
from dosimeter.findings import find_at, word_all
from dosimeter.mechanisms import Gaussian, Laplace
from dosimeter.planning import PlanOptions, plan_query
from dosimeter.postprocess import (
    Noise,
    assemble_answer,
    assemble_groups,
    foresee_accuracy,
    list_facts,
    list_group_errors,
    word_facts,
)
from dosimeter.postprocess.cell_errors import MOST_DERIVED
from dosimeter.schema import Schema, read_schema
from tests.known import known
from tests.schemas import declare, plain, whole

NONE = [
    "RANK() OVER (ORDER BY COUNT(*)) AS d FROM t GROUP BY g",
    "SUM(COUNT(*)) OVER (ORDER BY COUNT(*)) AS d FROM t GROUP BY g",
    "SUM(COUNT(*)) OVER (PARTITION BY COUNT(*) > 9) AS d FROM t GROUP BY g",
    "LAG(COUNT(*)) OVER (ORDER BY COUNT(*)) AS d FROM t GROUP BY g",
    "MAX(COUNT(*)) OVER () AS d FROM t GROUP BY g",
    "SUM(AVG(x)) OVER () AS d FROM t GROUP BY g",
    "STDDEV(x) - LAG(STDDEV(x)) OVER (ORDER BY g) AS d FROM t GROUP BY g",
    "MEDIAN(x) - LAG(MEDIAN(x)) OVER (ORDER BY g) AS d FROM t GROUP BY g",
    "CASE WHEN SUM(COUNT(*)) OVER () > 9 THEN 1 ELSE 0 END AS d FROM t GROUP BY g",
    "SUM(COUNT(*)) OVER () AS d FROM t GROUP BY ROLLUP (g)",
    "SUM(COUNT(*)) FILTER (WHERE g > 1) OVER () AS d FROM t GROUP BY g",
    "SUM(COUNT(*)) OVER () AS d FROM t GROUP BY g HAVING COUNT(*) > 3",
    "SUM(COUNT(*)) OVER () AS d FROM t GROUP BY g HAVING g > 1",
    "COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY g) AS d FROM t GROUP BY g ORDER BY 2 LIMIT 2",
    "SUM(COUNT(*)) OVER () AS d FROM t GROUP BY g QUALIFY RANK() OVER (ORDER BY COUNT(*)) = 1",
]
OUTSIDE = [
    "SELECT g, SUM(n) OVER () AS d FROM (SELECT g, COUNT(*) AS n FROM t GROUP BY g) AS q WHERE n > 3",
    "SELECT g, SUM(n) OVER () AS d FROM (SELECT g, COUNT(*) AS n FROM t GROUP BY g) AS q WHERE g > 1",
    "SELECT g, SUM(n) OVER () AS d FROM (SELECT g, COUNT(*) AS n FROM t GROUP BY g LIMIT 2) AS q",
    "SELECT SUM(n) AS d FROM (SELECT g, COUNT(*) AS n FROM t GROUP BY g) AS q",
    "WITH q AS (SELECT g, COUNT(*) AS n FROM t GROUP BY g) SELECT a.g, a.n - b.n AS d FROM q a JOIN q b USING (g)",
    "SELECT g, SUM(n) OVER () AS d FROM (SELECT g, COUNT(*) AS n FROM t GROUP BY g UNION ALL "
    "SELECT g, COUNT(*) AS n FROM t WHERE member GROUP BY g) AS q",
    "WITH q AS (SELECT g, COUNT(*) AS n FROM t GROUP BY g) "
    "SELECT g, 1.0 * n / (SELECT SUM(n) FROM q WHERE g > 1) AS d FROM q",
    *(
        "WITH q AS (SELECT g, COUNT(*) AS n FROM t GROUP BY g), r AS (SELECT g, COUNT(*) AS n FROM t WHERE member "
        f"GROUP BY g) SELECT g, 1.0 * n / (SELECT SUM(n) FROM {other}) AS d FROM {own}"
        for own, other in (("q", "r"), ("r", "q"))
    ),
]
SAME_SHARE = [
    "SELECT g, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS d FROM t GROUP BY g",
    "SELECT g, ROUND(100.0 * n / SUM(n) OVER (), 9) AS d FROM (SELECT g, COUNT(*) AS n FROM t GROUP BY g) AS q",
    "WITH q AS (SELECT g, COUNT(*) AS n FROM t GROUP BY g) SELECT g, 100.0 * n / (SELECT SUM(n) FROM q) AS d FROM q",
    "SELECT g, d FROM (SELECT g, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS d FROM t GROUP BY g) AS q WHERE g > 0",
]


def schema_of(groups: int = 4) -> Schema:
    columns = {"g": whole(1, groups), "x": whole(0, 100), "y": whole(0, 20), "member": plain("boolean")}
    return read_schema(declare("t", 10**6, columns))


def assemble(sql: str, counts: list[int], *, groups: int | None = None, **options: Any) -> Any:
    """Return the answer of noisy numbers at scale 1: every measure of a group is its count."""
    plan = plan_query(sql, schema_of(len(counts) if groups is None else groups), **options)
    noise = Noise.of(plan, Laplace(), 1.0)
    blocks = [
        (known(block.group_keys), [[Fraction(count)] * len(block.measures) for count in counts])
        for block in plan.blocks
    ]
    return assemble_answer(plan, *blocks[0], noise=noise, further=blocks[1:]), plan


@pytest.mark.parametrize("sql", [*(f"SELECT g, {shown}" for shown in NONE), *OUTSIDE])
def test_other_derived_numbers_have_no_error_and_say_so(sql: str) -> None:
    found, plan = assemble(sql, [50, 60, 70, 80])
    assert found.rows
    assert {errors["d"] for errors in found.errors} == {None}
    assert "d has no error: it is computed from several groups." in word_facts(
        list_facts(plan, found, clamp=False, errors=True)
    )


@pytest.mark.parametrize("sql", SAME_SHARE)
def test_a_share_has_one_error_however_it_is_written(sql: str) -> None:
    """The errors of four ways to write it; ROUND adds what it can move."""
    counts = [50, 60, 70, 8000]
    found, plan = assemble(sql, counts)
    first, _ = assemble(SAME_SHARE[0], counts)
    told = [row["d"] for row in found.errors]
    assert told == pytest.approx([row["d"] for row in first.errors], rel=1e-6)
    assert not any("no error" in fact for fact in word_facts(list_facts(plan, found, clamp=False, errors=True)))


def test_thresholded_groups_have_no_derived_errors() -> None:
    schema = read_schema(declare("t", 10**6, {"topic": {"type": "text"}}))
    sql = "SELECT topic, SUM(COUNT(*)) OVER () AS d FROM t GROUP BY topic"
    plan = plan_query(sql, schema, PlanOptions(groups="thresholded", group_delta=1e-6))
    values = [[Fraction(500)] * len(plan.measures)] * 2
    found = assemble_answer(plan, (("a",), ("b",)), values, noise=Noise.of(plan, Laplace(), 1.0))
    assert known(found.errors) == ({"d": None}, {"d": None})


def test_beyond_a_public_size_derived_numbers_have_no_error() -> None:
    sql = "SELECT g, SUM(COUNT(*)) OVER () AS d FROM t GROUP BY g"
    few, _ = assemble(sql, [9] * MOST_DERIVED)
    many, _ = assemble(sql, [9] * (MOST_DERIVED + 1))
    assert few.errors[0]["d"] is not None
    assert many.errors[0]["d"] is None


def test_a_total_by_over_is_as_far_off_as_that_of_rollup() -> None:
    by_over, _ = assemble("SELECT g, SUM(COUNT(*)) OVER () AS d FROM t GROUP BY g", [50, 60, 70, 80])
    by_rollup, _ = assemble("SELECT g, COUNT(*) AS d FROM t GROUP BY ROLLUP (g)", [50, 60, 70, 80])
    total = next(errors["d"] for row, errors in zip(by_rollup.rows, by_rollup.errors, strict=True) if row["g"] is None)
    assert {errors["d"] for errors in by_over.errors} == {total}


def test_a_difference_is_as_far_off_as_two_noises() -> None:
    """Enumerated: the probability that two discrete Laplace noises differ by more than the error is at most 5 %."""
    found, _ = assemble("SELECT g, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY g) AS d FROM t GROUP BY g", [50, 60, 70])
    steps = np.arange(-60, 61)
    chances = np.exp(-np.abs(steps) / 1.0) / np.exp(-np.abs(steps) / 1.0).sum()
    both = np.convolve(chances, chances)
    apart = np.abs(np.arange(-120, 121))
    errors = [row["d"] for row in found.errors]
    assert errors[0] is None
    assert both[apart > errors[1] + 1e-9].sum() <= 0.05
    assert both[apart > errors[1] - 1.5].sum() > 0.05
    assert errors[1] == pytest.approx(errors[2])


def test_a_share_is_told_only_if_its_total_exceeds_its_own_error() -> None:
    """The total of nine groups has √9 times the scale: its error is larger than 9, that of one group is 3."""
    sql = "SELECT g, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS d FROM t GROUP BY g"
    for count, told in ((0, False), (1, False), (2, True)):
        found, _ = assemble(sql, [count] * 9)
        assert [row["d"] is not None for row in found.rows] == [told] * 9
        assert found.has_too_few != told
    ratio = "SELECT g, 1.0 * COUNT(*) / LAG(COUNT(*)) OVER (ORDER BY g) AS d FROM t GROUP BY g"
    found, _ = assemble(ratio, [2, 90, 90])
    assert [row["d"] for row in found.rows] == [None, None, 1.0]


def test_no_private_number_is_needed() -> None:
    """The same released numbers have the same errors, whatever table they come from: two tables one person apart."""
    sql = "SELECT g, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS d, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY g) AS c"
    schema = {"table": "t", "individuals": 9, "unit": "row", "reviewed": True, "columns": {"g": whole(1, 2)}}
    answers = []
    for numbers in ([1, 1, 2, 2, 2], [1, 2, 2, 2]):
        with Dataset.open(pa.table({"g": numbers}), schema=schema) as data:
            plan = data.plan(f"{sql} FROM t GROUP BY g")
            noise = Noise.of(plan, Laplace(), 1.0)
            answers.append(assemble_answer(plan, known(plan.group_keys), [[Fraction(40)], [Fraction(70)]], noise=noise))
    assert answers[0].errors == answers[1].errors
    assert known(answers[0].errors)[1]["c"] is not None


def test_numbers_put_back_into_bounds_are_not_told_by_the_error_of_others() -> None:
    """With clamping, a sum over a count of −5 adds 0: the error is not that of this sum."""
    plan = plan_query("SELECT g, SUM(COUNT(*)) OVER () AS d FROM t GROUP BY g", schema_of(2))
    noise, keys = Noise.of(plan, Laplace(), 1.0), known(plan.group_keys)
    inside = assemble_answer(plan, keys, [[Fraction(5)], [Fraction(9)]], noise=noise, clamp=True)
    outside = assemble_answer(plan, keys, [[Fraction(-5)], [Fraction(9)]], noise=noise, clamp=True)
    assert known(inside.errors)[0]["d"] is not None
    assert [row["d"] for row in outside.rows] == [9, 9]
    assert known(outside.errors)[0]["d"] is None


def test_the_controller_foresees_the_errors_at_the_exact_numbers() -> None:
    sql = "SELECT g, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS d FROM t GROUP BY g"
    found, plan = assemble(sql, [50, 60, 70, 800])
    keys, values = known(plan.group_keys), [[Fraction(count)] for count in (50, 60, 70, 800)]
    ((column,),) = foresee_accuracy(plan, Laplace(), [1.0], [(keys, values)])
    errors = [row["d"] for row in found.errors]
    assert column.worst == pytest.approx(max(errors))
    assert column.typical == pytest.approx(np.median(errors))
    assert (column.groups, column.too_few, column.without) == (4, 0, 0)
    listed = list_group_errors(plan, Laplace(), 1.0, [(keys, values)], 3)
    assert [error for (error,) in listed] == pytest.approx(errors[:3])
    ((unknown,),) = foresee_accuracy(plan, Laplace(), [1.0])
    assert unknown.worst is None


# ---------------------------------------------------------------- from how many rows on


def sums_of(rows: int) -> list[Fraction]:
    """Return COUNT, Σx, Σy, Σxy, Σx² and Σy², centred, of rows whose x and y are spread evenly over their bounds."""
    random = np.random.default_rng(rows)
    x, y = np.linspace(-50.0, 50.0, rows), random.permutation(np.linspace(-10.0, 10.0, rows))
    return [Fraction(round(float(number))) for number in (rows, x.sum(), y.sum(), x @ y, x @ x, y @ y)]


@pytest.mark.parametrize("aggregate", ["CORR(x, y)", "REGR_SLOPE(y, x)"])
@pytest.mark.parametrize("mechanism", [Laplace(), Gaussian(1e-6)])
def test_so_many_evenly_spread_rows_are_enough(aggregate: str, mechanism: Any) -> None:
    """Of made-up rows that are spread evenly, as many as are said to be enough are told, and 10 % fewer are not."""
    plan = plan_query(f"SELECT g, {aggregate} AS c FROM t GROUP BY g", schema_of(2))
    noise = Noise.of(plan, mechanism, mechanism.scale(plan.sensitivity(mechanism.norm), 1.0))
    width = len(plan.measures)

    def release(rows: int) -> Any:
        return assemble_answer(plan, known(plan.group_keys), [sums_of(rows)[:width]] * 2, noise=noise)

    few = release(5)
    ((label, enough),) = few.enough_rows
    assert enough > 20
    facts = word_facts(list_facts(plan, few, clamp=False, errors=True))
    assert any(fact.startswith(f"{label} needs about {enough:,} people in a group to be told") for fact in facts)
    assert release(round(1.02 * enough)).rows[0]["c"] is not None
    assert release(round(0.9 * enough)).rows[0]["c"] is None
    assert release(round(1.02 * enough)).enough_rows == ()


def test_averages_say_nothing_of_it() -> None:
    found, _ = assemble("SELECT g, AVG(x) AS a FROM t GROUP BY g", [1, 1, 1, 1])
    assert found.has_too_few
    assert found.enough_rows == ()


def test_the_controller_reads_how_many_would_be_enough(stays: Dataset) -> None:
    risk = stays.risk("SELECT ward, CORR(nights, cost) AS c FROM stays GROUP BY ward", candidates=[1.0, 40.0])
    lines = sorted(risk.candidates, key=float)
    ordered = risk.list_candidates(lines)
    told = word_all(find_at(risk, ordered, 1.0))
    assert any("to be told at this ε" in sentence for sentence in told)


def test_the_controller_sees_the_exact_derived_numbers_of_each_group() -> None:
    """The page of a decision lists them beside their errors."""
    plan = plan_query("SELECT g, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY g) AS d FROM t GROUP BY g", schema_of(3))
    rows = assemble_groups(plan, known(plan.group_keys), [[Fraction(count)] for count in (50, 60, 40)])
    assert rows == [{"g": 1, "d": None}, {"g": 2, "d": 10}, {"g": 3, "d": -20}]


def test_where_rows_tie_in_the_order_no_error_of_another_number_is_told() -> None:
    """ROWS among ties picks any of them: either the number is the one whose error was found, or it has none."""
    sql = "SELECT g, SUM(COUNT(*)) OVER (ORDER BY g > 0 ROWS UNBOUNDED PRECEDING) AS d FROM t GROUP BY g"
    found, plan = assemble(sql, [50, 60, 70, 80])
    assert {row["d"] is None for row in found.errors} == {False} or "d has no error" in str(
        word_facts(list_facts(plan, found, clamp=False, errors=True))
    )
