"""Each released number has its own error, from what is public: of cells and columns, and as ε falls (E1, E2)."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dosimeter import Dataset, Ledger
from dosimeter.assessment import Risk
from dosimeter.mechanisms import Gaussian, Laplace
from dosimeter.planning import selects_rows
from dosimeter.postprocess import (
    Noise,
    assemble_answer,
    error_95,
    find_counts,
    foresee_accuracy,
    list_group_errors,
)
from dosimeter.postprocess.cell_errors import count_selectable, measure_scales
from dosimeter.release.noisy_vector import add_noise_to
from tests.earlier_releases import noise_for_quantiles
from tests.known import known
from tests.schemas import declare, whole
from tests.unit.release_stays import WARDS, account_of, preview, rows_of

GROUPED = "SELECT ward, COUNT(*) AS n, SUM(nights) AS s FROM stays GROUP BY ward"


def assemble(stays: Dataset, sql: str, counts: list[int], *, epsilon: float = 1.0) -> Any:
    """Return the answer of noisy numbers: every measure of a ward is its count."""
    plan, laplace = stays.plan(sql), Laplace()
    noise = Noise.of(plan, laplace, laplace.scale(plan.sensitivity(1), epsilon))
    values = [[Fraction(count)] * len(plan.measures) for count in counts]
    return assemble_answer(plan, known(plan.group_keys), values, noise=noise)


def test_an_average_of_one_person_with_a_negative_count_is_not_told(stays: Dataset) -> None:
    found = assemble(stays, "SELECT AVG(nights) AS a FROM stays", [-14], epsilon=0.1)
    assert (found.rows, found.errors, found.has_too_few) == ([{"a": None}], ({"a": None},), True)


@pytest.mark.parametrize(
    ("sql", "least"),
    [
        ("SELECT AVG(nights) AS a FROM stays", 6.0),  # two measures: b = 2, three scales, 95 % error 5 or 6
        ("SELECT STDDEV_POP(nights) AS a FROM stays", 9.0),
        ("SELECT SUM(nights) / COUNT(*) AS a FROM stays", 6.0),
        ("SELECT SUM(nights) / (COUNT(*) + 0) AS a FROM stays", 6.0),
        ("SELECT a FROM (SELECT SUM(nights) / COUNT(*) AS a FROM stays) t", 6.0),
        ("SELECT s / n AS a FROM (SELECT SUM(nights) AS s, COUNT(*) AS n FROM stays) t", 6.0),
    ],
)
def test_a_quotient_is_told_from_three_noise_scales_on(stays: Dataset, sql: str, least: float) -> None:
    for count in range(40):
        (row,) = assemble(stays, sql, [count]).rows
        assert (row["a"] is not None) == (count > least) or math.isclose(count, least, rel_tol=0.1)


def test_a_sum_of_whole_numbers_is_no_count(stays: Dataset) -> None:
    """Bounds may be negative: a sum far below 0 is no noise, and can be divided by."""
    sql = "SELECT SUM(nights - 9) AS s, COUNT(*) / SUM(nights - 9) AS q FROM stays"
    assert assemble(stays, sql, [-5000]).rows == [{"s": -5000, "q": 1.0}]
    assert find_counts(stays.plan(sql)) == ()  # nothing is said of counts below 0
    assert find_counts(stays.plan(GROUPED)) == ("n",)


def test_three_scales_of_gaussian_noise_are_more_than_its_error(stays: Dataset) -> None:
    plan, gaussian = stays.plan("SELECT AVG(nights) AS a FROM stays"), Gaussian(1e-3)
    noise = Noise.of(plan, gaussian, gaussian.scale(plan.sensitivity(2), 1.0))
    deviation = float(noise.scales[0])
    for scales, has_enough in ((2.5, False), (3.5, True)):
        values = [[Fraction(round(scales * deviation)), Fraction(0)]]
        (row,) = assemble_answer(plan, ((),), values, noise=noise).rows
        assert (row["a"] is not None) == has_enough


def test_null_quotients_pass_through_the_sql_after(stays: Dataset) -> None:
    counts = [200, 300, 1, 400]
    sql = "SELECT ward, COALESCE(AVG(nights), -1) AS a, AVG(nights) IS NULL AS few FROM stays GROUP BY ward"
    rows = assemble(stays, sql, counts).rows
    assert [row["few"] for row in rows] == [False, False, True, False]
    assert rows[2]["a"] == -1
    kept = assemble(stays, "SELECT ward FROM stays GROUP BY ward HAVING AVG(nights) >= 0", counts).rows
    assert [row["ward"] for row in kept] == [WARDS[0], WARDS[1], WARDS[3]]
    outer = assemble(stays, f"SELECT COUNT(s / n) AS told FROM ({GROUPED}) t WHERE n > 0", counts)
    assert outer.errors == ({"told": None},)


def test_every_cell_has_its_own_error(stays: Dataset) -> None:
    found = assemble(stays, "SELECT ward, AVG(nights) AS a, COUNT(*) AS n FROM stays GROUP BY ward", [50, 500, 5000, 2])
    errors = [row["a"] for row in found.errors]
    assert errors[3] is None
    assert errors[0] > 5 * errors[1] > 25 * errors[2] > 0
    assert len({row["n"] for row in found.errors}) == 1
    assert found.error_95 == (errors[0], found.errors[0]["n"])


@pytest.mark.parametrize(
    ("clauses", "selects"),
    [
        ("", False),
        (" ORDER BY n DESC", False),
        (" ORDER BY ward LIMIT 2", False),
        (" ORDER BY 1 LIMIT 2", False),
        (" LIMIT 2", False),
        (" HAVING ward <> 'x'", False),
        (" ORDER BY n DESC LIMIT 2", True),
        (" ORDER BY 2 LIMIT 2", True),
        (" ORDER BY n OFFSET 1", True),
        (" HAVING COUNT(*) > 3", True),
        (" QUALIFY RANK() OVER (ORDER BY COUNT(*)) = 1", True),
    ],
)
def test_errors_are_simultaneous_where_rows_are_chosen_by_numbers(stays: Dataset, clauses: str, selects: bool) -> None:
    sql = f"{GROUPED}{clauses}"
    plan, laplace = stays.plan(sql), Laplace()
    assert selects_rows(plan.after.query) == selects
    around = stays.plan(f"SELECT * FROM ({GROUPED}) t WHERE {'n > 3' if selects else 'ward IS NOT NULL'}")
    assert selects_rows(around.after.query) == selects
    assert count_selectable(plan) == len(WARDS) * 2
    noise = Noise.of(plan, laplace, 2.0)
    assert noise.tail == pytest.approx(0.05 / 8 if selects else 0.05)


def test_what_reads_other_groups_has_no_error_and_says_so(stays: Dataset, ledger: Ledger) -> None:
    sql = "SELECT ward, COUNT(*) AS n, MAX(COUNT(*)) OVER () AS most FROM stays GROUP BY ward"
    answer = stays.release(sql, ledger=ledger, epsilon=1.0, policy="budget:2")
    assert all(row["most"] is None and row["n"] is not None for row in known(answer.errors))
    assert any(fact.startswith("most has no error") for fact in answer.about)
    again = stays.release(sql, ledger=ledger, epsilon=1.0)
    assert again.repeated
    assert again.describe() == answer.describe()


def test_the_controller_sees_typical_and_worst_groups_beforehand(stays: Dataset) -> None:
    plan, laplace = stays.plan("SELECT ward, AVG(nights) AS a FROM stays GROUP BY ward"), Laplace()
    values = [[Fraction(count), Fraction(0)] for count in (30, 300, 3000, 0)]
    numbers = [(plan.group_keys, values)]
    ((found,),) = foresee_accuracy(plan, laplace, [laplace.scale(plan.sensitivity(1), 1.0)], numbers)
    assert (found.too_few, found.groups) == (1, 4)
    typical = known(found.typical)
    assert 5 * typical < known(found.worst) <= 4.5  # the bounds are 0 to 9, and every mean is in the middle
    assert found.relative == pytest.approx(typical / 9)  # of the width of the bounds
    ((none,),) = foresee_accuracy(plan, laplace, [1.0])
    assert (none.typical, none.worst, none.too_few) == (None, None, None)


@pytest.mark.parametrize("clamp", [False, True])
@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(nights)", "MEDIAN(nights)"])
def test_a_measure_by_itself_is_as_accurate_as_in_a_formula(stays: Dataset, aggregate: str, clamp: bool) -> None:
    sql = f"SELECT ward, {aggregate} AS a, CAST({aggregate} AS DOUBLE) AS b FROM stays GROUP BY ward"
    plan, laplace = stays.plan(sql), Laplace()
    values = [[Fraction(count)] * len(plan.measures) for count in (-7, 0, 3, 3000)]
    scales = [laplace.scale(plan.sensitivity(1), epsilon) for epsilon in (0.1, 1.0)]
    found = foresee_accuracy(plan, laplace, scales, [(plan.group_keys, values)], clamp=clamp)
    for alone, computed in found:
        assert alone == replace(computed, column="a")
        assert (alone.worst is None) == (aggregate == "MEDIAN(nights)")


def test_what_algorithm_1_withholds_stands_in_no_file(stays: Dataset, ledger: Ledger, tmp_path: Path) -> None:
    answer = stays.release(GROUPED, ledger=ledger, prefer="ratio:0.1", policy="paper")
    answer.save(tmp_path / "answer.csv", ledger=ledger)
    document = json.loads((tmp_path / "answer.json").read_text(encoding="utf-8"))
    assert [document[name] for name in ("epsilon", "epsilon_svt", "error_95", "errors", "delta")] == [None] * 5


# ---------------------------------------------------------------- errors follow from the noisy numbers


Row = tuple[Fraction, ...]


def give_noisy_numbers(monkeypatch: pytest.MonkeyPatch, disturb: Callable[[int, Row], Row]) -> None:
    """In place of noise: what ``disturb`` makes of each group's number and exact values."""
    from dosimeter.release import thresholds

    def give(plan: Any, keys: Any, values: Any, noise: Any, *more: Any) -> Any:
        noisy = add_noise_to(plan, keys, values, noise, *more)
        return type(noisy)(noisy.keys, tuple(disturb(at, tuple(row)) for at, row in enumerate(values)))

    monkeypatch.setattr(thresholds, "add_noise_to", give)


def test_an_error_bar_follows_from_the_noisy_numbers_alone(
    stays: Dataset, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of an average depends on the noisy count: it is worked out again from what the ledger holds."""
    sql = "SELECT ward, AVG(nights) FROM stays GROUP BY ward"
    seen = set()
    for more in (0, 1, 2, 5, 40):
        give_noisy_numbers(monkeypatch, lambda at, row, more=more: (row[0] + at + more, row[1] - more))  # type: ignore[misc]
        answer = stays.release(sql, ledger=ledger, epsilon=2.0, policy="budget:100", again=True)
        entry = account_of(ledger).entries[-1]
        noisy = [[Fraction(text) for text in row] for row in known(entry.measured)]
        plan = stays.plan(sql)
        scale = Laplace().scale(plan.sensitivity(1), 2.0)
        assert answer.error_95 == error_95(plan, Laplace(), scale, noisy)
        seen.add(answer.error_95)
    assert len(seen) == 5


def test_errors_of_averages_and_spreads_by_simulation(stays: Dataset) -> None:
    """The 95th percentile over 200,000 draws, seeded: its own standard error is below 0.4 % of it."""
    plan, laplace = stays.plan("SELECT AVG(nights), VAR_POP(nights), STDDEV_POP(nights) FROM stays"), Laplace()
    values = [Fraction(400), Fraction(1200), Fraction(5000)]  # a mean 3 above the middle, a variance of 3.5
    scale = laplace.scale(plan.sensitivity(1), 2.0)
    draw = np.random.default_rng(3)
    scales = measure_scales(plan, laplace, scale)
    count, total, squares = (float(v) + draw.laplace(0, s, 200_000) for v, s in zip(values, scales, strict=True))
    mean = total / count
    variance = np.maximum(squares / count - mean * mean, 0.0)
    off = [np.abs(mean - 3.0), np.abs(variance - 3.5), np.abs(np.sqrt(variance) - math.sqrt(3.5))]
    expected = [float(np.quantile(each, 0.95)) for each in off]
    found = error_95(plan, laplace, scale, [values])
    for stated, simulated in zip(found, expected, strict=True):
        assert 0.99 * simulated < known(stated) < 1.1 * simulated  # a root is stated by its longer side


def test_an_error_bar_is_of_the_rows_that_are_shown(
    stays: Dataset, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The average of a group of hardly anybody is far off; where HAVING takes it out, its error does not count."""
    counts = [Fraction(11), Fraction(9), Fraction(10), Fraction(1)]  # of wards with 10, 10, 10 and 0 people
    give_noisy_numbers(monkeypatch, lambda at, row: (counts[at], *row[1:]))
    sql = "SELECT ward, AVG(nights) FROM stays GROUP BY ward HAVING COUNT(nights) > 5 LIMIT 2"
    answer = stays.release(sql, ledger=ledger, epsilon=20.0, policy="budget:100")
    assert [row["ward"] for row in rows_of(answer)] == WARDS[:2]
    (entry,) = account_of(ledger).entries
    noisy = [[Fraction(text) for text in row] for row in known(entry.measured)]
    plan, laplace = stays.plan(sql), Laplace()
    scale = laplace.scale(plan.sensitivity(1), 20.0)
    assert known(answer.error_95)[0] == max(error_95(plan, laplace, scale, [row])[0] for row in noisy[:2])  # type: ignore[type-var]
    assert answer.error_95 != error_95(plan, laplace, scale, noisy)
    none_left = stays.release(f"{sql.split(' HAVING')[0]} HAVING COUNT(*) > 1000", ledger=ledger, epsilon=20.0)
    assert (none_left.answer, none_left.error_95) == ([], (None,))


@noise_for_quantiles()
def test_a_clamped_error_is_at_most_its_range(stays: Dataset, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """AVG is in its range of 9 whatever is asked for; COUNT and SUM have none; MAX has 9, a variance 4.5², …."""
    sql = (
        "SELECT COUNT(*), SUM(nights), AVG(nights), MAX(nights), VAR_POP(nights), STDDEV_POP(nights), 2 * AVG(nights) "
        "FROM stays"
    )
    give_noisy_numbers(monkeypatch, lambda _at, row: tuple(Fraction(1900) for _ in row))  # above a count's error
    options: dict[str, Any] = {"ledger": ledger, "epsilon": 0.01, "policy": "budget:1"}
    free, clamped = (known(stays.release(sql, clamp=clamp, **options).error_95) for clamp in (False, True))
    assert free[:3] == clamped[:3]
    for capped, width in zip(clamped[2:6], (9.0, 9.0, 20.25, 4.5), strict=True):
        assert known(capped) <= width
    assert known(free[3]) > 9.0
    seen = preview(stays, ledger, sql, epsilon=0.02, clamp=True)["analyst_sees"]
    assert seen["error_95"][3] <= 9.0


def test_a_total_is_as_far_off_as_the_cells_that_it_adds_up(stays: Dataset, ledger: Ledger) -> None:
    """Four wards and the total of them: before and after a release, the error is that of a sum of four noises."""
    sql = "SELECT ward, COUNT(*) AS n FROM stays GROUP BY ROLLUP (ward)"
    answer = stays.release(sql, ledger=ledger, epsilon=0.5, policy="budget:1")
    rows = rows_of(answer)
    assert rows[-1]["n"] == sum(int(row["n"]) for row in rows[:-1])
    laplace = Laplace()
    expected = laplace.error_of_sum(laplace.scale(1.0, 0.5), 1.0, len(WARDS))
    assert answer.error_95 == (expected,)
    assert expected > laplace.error(laplace.scale(1.0, 0.5), 1.0)
    assert stays.risk(sql, candidates="0.5").candidate(0.5).error_95 == (expected,)


# ---------------------------------------------------------------- the largest error of a column, as ε falls


LETTERS = "abcdefgh"
FLIGHTS: dict[str, Any] = declare(
    "flights",
    4000,
    {"carrier": {"type": "category", "values": list(LETTERS)}, "delay": whole(-60, 600), "far": whole(0, 5000)},
    unit="row",
)
QUERIES = [
    "SELECT carrier, AVG(delay) AS d FROM flights GROUP BY carrier",
    "SELECT carrier, STDDEV_POP(delay) AS d, COUNT(*) AS n FROM flights GROUP BY carrier",
    "SELECT carrier, SUM(delay) / COUNT(far) AS d FROM flights GROUP BY carrier",
    "SELECT carrier, CORR(delay, far) AS d FROM flights GROUP BY carrier",
]
HARD = (2, 5, 20, 60, 200, 500, 900, 1500)
_SIZES = st.lists(st.sampled_from([0, 1, 2, 5, 12, 30, 80, 200, 700]), min_size=8, max_size=8)


pytestmark = pytest.mark.usefixtures("shared_duckdb")  # every table in memory is opened in one DuckDB


def open_flights(sizes: tuple[int, ...] | list[int]) -> Dataset:
    carriers = [letter for letter, size in zip(LETTERS, sizes, strict=True) for _ in range(size)]
    table = {
        "carrier": carriers,
        "delay": [(7 * at) % 300 - 40 for at in range(len(carriers))],
        "far": [(311 * at) % 4900 + 1 for at in range(len(carriers))],
    }
    return Dataset.open(pa.table(table), schema=FLIGHTS, table="flights")


def as_size(error: float | None) -> float:
    """A number that nobody can tell has no limit to its error."""
    return math.inf if error is None else error


def list_told(risk: Risk, epsilon: float) -> list[list[float]]:
    """Return, for each column, the errors of the groups that can be told at one ε, computed group by group."""
    (numbers,) = [(block.keys, block.values) for block in risk.measured().blocks]
    found = list_group_errors(risk.plan, risk.mechanism, risk.noise_scale(epsilon), [numbers], 10_000)
    return [[error for error in column if error is not None] for column in zip(*found, strict=True)]


@pytest.mark.parametrize(("sql", "mechanism"), [*((sql, "laplace") for sql in QUERIES), (QUERIES[0], "gaussian")])
@settings(deadline=None, max_examples=2)
@given(sizes=_SIZES)
@example(sizes=list(HARD))
def test_the_largest_error_never_shrinks_as_epsilon_falls(sql: str, mechanism: Any, sizes: list[int]) -> None:
    assume(sum(sizes) > 0)
    with open_flights(sizes) as flights:
        risk = flights.risk(sql, mechanism=mechanism)
        lines = sorted(risk.list_candidates(), key=lambda line: -line.epsilon)
        assert len(lines) == 37
        so_far = [[0.0]] * len(lines[0].error_95)
        for larger, smaller in itertools.pairwise(lines):
            for before, after in zip(larger.accuracy, smaller.accuracy, strict=True):
                assert as_size(after.worst) >= as_size(before.worst)
                assert as_size(after.largest_relative) >= as_size(before.largest_relative)
        for line in lines:
            now = list_told(risk, line.epsilon)
            so_far = [earlier + told for earlier, told in zip(so_far, now, strict=True)]
            assert line.error_95 == tuple(
                pytest.approx(max(errors)) if told else None for errors, told in zip(so_far, now, strict=True)
            )


@pytest.mark.parametrize("most", [200, 400, 500])
def test_a_preference_over_errors_is_not_met_again_below(most: int) -> None:
    with open_flights(HARD) as flights:
        choice = flights.risk(QUERIES[0]).find(f"error:{most}")
        met = [line.satisfied for line in sorted(choice.candidates, key=lambda line: -line.epsilon)]
        assert met == sorted(met, key=lambda each: not each), "met at large ε's, and at none below the first failure"
        assert 0 < sum(map(bool, met)) < len(met)
