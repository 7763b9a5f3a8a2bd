"""The four stages of a query and what they cost; and advice about less noise, which must be true."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from dosimeter.planning import Change, Explanation, NoiseAdvice, PlanOptions, explain_plan, plan_query
from dosimeter.postprocess import list_facts, word_facts
from dosimeter.schema import Schema, read_schema
from tests.known import known
from tests.schemas import category, decimal, declare, plain, whole

VISITS: dict[str, Any] = declare(
    "visits",
    1000,
    {
        "pid": plain("text"),
        "vid": plain("integer"),
        "sex": category("f", "m", "x"),
        "sick": plain("boolean"),
        "age": whole(0, 120),
        "cost": decimal(-100, 300, 0.5),
        "clinic_id": plain("integer"),
    },
    tables={
        "clinics": {
            "public": True,
            "key": "clinic_id",
            "columns": {"clinic_id": plain("integer"), "region": category("n", "s")},
        }
    },
)
BY_ROW = read_schema(VISITS)
BY_PERSON = read_schema({**VISITS, "unit": "pid", "row_key": "vid", "max_rows_per_unit": 4})


def explain(sql: str, schema: Schema = BY_ROW) -> Explanation:
    return explain_plan(plan_query(sql, schema))


def advised(sql: str, schema: Schema = BY_ROW, **options: Any) -> dict[Change, NoiseAdvice]:
    found = explain_plan(plan_query(sql, schema, PlanOptions(**options))).less_noise
    return {advice.change: advice for advice in known(found).advice}


def test_joined_queries_are_advised_too() -> None:
    """Costs half as far from 0 halve the noise, with and without the names of the clinics' regions."""
    alone = advised("SELECT SUM(cost) FROM visits")
    joined = advised("SELECT SUM(cost) FROM visits JOIN clinics USING (clinic_id) WHERE region = 'n'")
    assert joined[Change.NEARER_ZERO] == alone[Change.NEARER_ZERO]


@pytest.mark.parametrize(("where", "chosen"), [("", False), ("WHERE age > 30", True)])
def test_leaving_null_out_of_thresholded_groups_is_no_where(where: str, chosen: bool) -> None:
    options = PlanOptions(groups="thresholded", group_delta=1e-6)
    plan = plan_query(f"SELECT pid, COUNT(*) FROM visits {where} GROUP BY pid", BY_ROW, options)
    assert plan.where is not None
    assert explain_plan(plan).stages.rows.chosen is chosen


def test_a_query_with_all_four_stages() -> None:
    sql = (
        "SELECT region, AVG(n) AS mean FROM (SELECT pid, MAX(region) AS region, COUNT(*) AS n FROM visits "
        "JOIN clinics USING (clinic_id) GROUP BY pid) WHERE n > 1 GROUP BY region ORDER BY mean"
    )
    stages = explain(sql, BY_PERSON).stages
    assert (stages.rows.table, stages.rows.chosen, stages.rows.rows_each) == ("visits", True, 1)
    people = known(stages.people)
    assert people.unit == "pid"
    assert {column.name: column.bounds for column in people.columns}["n"] == (0.0, 4.0)
    assert [number.share for number in stages.measured] == [0.5, 0.5]
    assert [number.sensitivity["laplace"] for number in stages.measured] == [1.0, 2.0]
    assert [asked.errors for asked in stages.asked] == [None], "the error of a mean depends on the numbers"
    assert "ORDER BY" in " ".join(stages.after)
    assert explain("SELECT COUNT(*) FROM visits", BY_PERSON).stages.people is None


def exceeds(error: int, scale: Fraction) -> float:
    """P(|Z| > error) for whole-numbered noise with P(Z = z) proportional to exp(−|z|/scale), by adding up."""
    weights = [math.exp(-abs(z) / scale) for z in range(-4000, 4001)]
    beyond = [weight for z, weight in zip(range(-4000, 4001), weights, strict=True) if abs(z) > error]
    return math.fsum(beyond) / math.fsum(weights)


@pytest.mark.parametrize(
    ("sql", "schema", "scale"),
    [
        ("SELECT COUNT(*) FROM visits", BY_ROW, 1),
        ("SELECT COUNT(*) FROM visits", BY_PERSON, 4),
        ("SELECT COUNT(*), COUNT(age), SUM(age) FROM visits", BY_ROW, 3),
        ("SELECT sex, COUNT(DISTINCT pid), COUNT(*) FROM visits GROUP BY sex", BY_PERSON, 6),
    ],
)
def test_errors_are_those_of_the_noise_that_is_added(sql: str, schema: Schema, scale: int) -> None:
    """The least whole number that the noise stays within, 95 times of 100."""
    stages = explain(sql, schema).stages
    for epsilon, error in zip(stages.epsilons, stages.measured[0].errors["laplace"], strict=True):
        each = Fraction(scale) / Fraction(str(epsilon))
        assert exceeds(int(error), each) <= 0.05 + 1e-9
        assert error == 0 or exceeds(int(error) - 1, each) > 0.05 - 1e-9


def test_totals_say_how_far_off_they_are() -> None:
    (asked,) = explain("SELECT sex, sick, COUNT(*) FROM visits GROUP BY ROLLUP (sex, sick)").stages.asked
    assert asked.terms == 6
    for cell, total in zip(known(asked.errors)["laplace"][:2], known(asked.total_errors)["laplace"][:2], strict=True):
        assert math.sqrt(6) * 0.7 * cell < total < 6 * cell


def test_a_count_that_a_mean_measures_already() -> None:
    sql = "SELECT sex, COUNT(*), AVG(age) FROM visits GROUP BY sex"
    advice = advised(sql)[Change.COUNT_KNOWN]
    assert (advice.given, advice.instead) == ("COUNT(*)", "COUNT(age)")
    assert advice.factors == {"COUNT(age)": pytest.approx(2 / 3), "centred sum of age": pytest.approx(2 / 3)}
    followed = explain(sql.replace("COUNT(*)", "COUNT(age)"))
    assert len(followed.measures) == 2
    assert Change.COUNT_KNOWN not in advised(followed.query)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM visits",
        "SELECT COUNT(*), SUM(age) FROM visits",  # a sum measures no count
        "SELECT COUNT(*) FILTER (WHERE sick), AVG(age) FROM visits",  # not the same rows
        "SELECT COUNT(*), AVG(age) FILTER (WHERE sick) FROM visits",
    ],
)
def test_no_count_is_exchanged_where_that_saves_nothing(sql: str) -> None:
    assert Change.COUNT_KNOWN not in advised(sql)


def test_what_alone_costs_most_is_named() -> None:
    advice = advised("SELECT SUM(age), STDDEV(cost), AVG(cost) FROM visits")[Change.LEAVE_OUT]
    assert advice.given in {"SUM(age)", "STDDEV(cost)"}
    assert list(advice.factors.values()) == [pytest.approx(3 / 4)] * 3, "one of four noisy numbers is saved"


def test_bounds_half_as_wide_or_half_as_far_from_zero() -> None:
    """A sum's noise goes by the value farthest from 0, an average's by the width: wherever the narrower bounds lie."""
    total = advised("SELECT SUM(cost) FROM visits")
    assert Change.NARROWER_BOUNDS not in total, "from 100 to 300 a sum has as much noise as from -100 to 300"
    assert total[Change.NEARER_ZERO].factors == {"SUM(cost)": pytest.approx(1 / 2)}
    mean = advised("SELECT AVG(cost) FROM visits")
    assert mean[Change.NARROWER_BOUNDS].factors["centred sum of cost"] == pytest.approx(1 / 2)
    assert Change.NEARER_ZERO not in mean or mean[Change.NEARER_ZERO].factors["centred sum of cost"] < 1 / 2
    assert not {Change.NARROWER_BOUNDS, Change.NEARER_ZERO} & set(
        advised("SELECT COUNT(cost) FROM visits WHERE age > 5")
    )


@pytest.mark.parametrize("bounds", [[-4, 5], [2000, 2019], [0, 100], [1, 2]])
def test_no_bounds_are_proposed(bounds: list[int]) -> None:
    """Bounds that somebody took from advice would cut values off: only the declared ones are written."""
    column = {"type": "decimal", "bounds": bounds, "resolution": 0.001}
    schema = read_schema({"table": "t", "unit": "row", "individuals": 10, "columns": {"x": column}})
    found = [
        advice
        for sql in ("SELECT AVG(x) FROM t", "SELECT SUM(x) FROM t", "SELECT STDDEV(x), SUM(x) FROM t")
        for advice in advised(sql, schema).values()
        if advice.column == "x"
    ]
    assert len(found) >= 2
    for advice in found:
        assert (advice.given, advice.instead) == (f"{bounds[0]} to {bounds[1]}", None)
    far = [advice for advice in advised("SELECT SUM(x) FROM t", schema).values() if advice.column == "x"]
    assert bool(far) is (bounds[1] > 2 * bounds[0]), "no year of 2000 to 2019 is half as far from 0"


def test_queries_are_compared_under_the_same_options() -> None:
    """A MEDIAN with the paper's noise would seem to gain much from one that is drawn by rank."""
    noisy = advised("SELECT MEDIAN(age), COUNT(*) FROM visits", quantiles="noise")
    assert noisy[Change.NARROWER_BOUNDS].factors == {"MEDIAN(age)": pytest.approx(1 / 2), "COUNT(*)": 1.0}
    assert noisy[Change.LEAVE_OUT].factors in ({"COUNT(*)": 0.5}, {"MEDIAN(age)": 0.5})
    by_pid = "SELECT pid, COUNT(*), SUM(age) FROM visits GROUP BY pid"
    thresholded = advised(by_pid, groups="thresholded", group_delta=1e-6)
    assert thresholded[Change.LEAVE_OUT].factors["COUNT(*)"] == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("sql", "schema", "matter"),
    [
        ("SELECT sex, COUNT(*), SUM(age) FROM visits GROUP BY sex", BY_ROW, False),
        ("SELECT sex, COUNT(*) FROM visits GROUP BY sex", BY_PERSON, False),
        ("SELECT sex, COUNT(DISTINCT pid) FROM visits GROUP BY sex", BY_PERSON, True),
        ("SELECT COUNT(*) FROM visits", BY_ROW, None),
        ("SELECT sex, COUNT(*) FROM visits GROUP BY ROLLUP (sex)", BY_ROW, None),
    ],
)
def test_whether_groups_matter(sql: str, schema: Schema, matter: bool | None) -> None:
    found = explain(sql, schema).less_noise
    assert known(found).groups_matter is matter
    assert (Change.FEWER_GROUPS in advised(sql, schema)) is bool(matter)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT decade, AVG(n) FROM ({}) AS d GROUP BY decade", True),
        ("SELECT decade, sex, n, AVG(n) OVER () AS a FROM ({})", True),
        ("SELECT sex, COUNT(*) FROM visits GROUP BY sex ORDER BY 2 LIMIT 1", False),
        ("SELECT SUM(n) FROM ({})", False),
        ("SELECT sex, COUNT(*), RANK() OVER (ORDER BY COUNT(*)) FROM visits GROUP BY sex", False),
        ("SELECT AVG(age) FROM visits", False),
    ],
)
def test_what_is_computed_over_groups_counts_all_declared_ones(sql: str, told: bool) -> None:
    plan = plan_query(sql.format("SELECT age // 10 AS decade, sex, COUNT(*) AS n FROM visits GROUP BY 1, 2"), BY_ROW)
    notes = [note for note in explain_plan(plan).notes if "computed over groups" in note]
    about = word_facts(list_facts(plan, None, clamp=False, errors=True))
    assert [each for each in about if each in notes] == notes
    assert ["counts all 39 declared ones (decade: 13, sex: 3)" in note for note in notes] == [True] * told
