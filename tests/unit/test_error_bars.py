"""The 95 % error of an answer follows from the noisy numbers and the rows that are shown."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.mechanisms import Laplace
from dosimeter.release.noisy_vector import add_noise_to
from tests.earlier_releases import noise_for_quantiles
from tests.unit.release_stays import COLUMNS, ROWS, WARDS, account_of, make_table, preview, rows_of, schema_of

Row = tuple[Fraction, ...]


def give_noisy_numbers(monkeypatch: pytest.MonkeyPatch, disturb: Callable[[int, Row], Row]) -> None:
    """In place of noise: what ``disturb`` makes of each group's number and exact values."""
    from dosimeter.release import run as releasing

    def give(plan: Any, keys: Any, values: Any, noise: Any, *more: Any) -> Any:
        noisy = add_noise_to(plan, keys, values, noise, *more)
        return type(noisy)(noisy.keys, tuple(disturb(at, tuple(row)) for at, row in enumerate(values)))

    monkeypatch.setattr(releasing, "add_noise_to", give)


def test_an_error_bar_follows_from_the_noisy_numbers_alone(
    stays: Dataset, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of an average depends on the noisy count: it is worked out again from what the ledger holds."""
    from dosimeter.postprocess import error_95

    sql = "SELECT ward, AVG(nights) FROM stays GROUP BY ward"
    seen = set()
    for more in (0, 1, 2, 5, 40):
        give_noisy_numbers(monkeypatch, lambda at, row, more=more: (row[0] + at + more, row[1] - more))  # type: ignore[misc]
        answer = stays.release(sql, ledger=ledger, epsilon=2.0, policy="budget:100", again=True)
        entry = account_of(ledger).entries[-1]
        assert entry.measured is not None
        noisy = [[Fraction(text) for text in row] for row in entry.measured]
        plan = stays.plan(sql)
        scale = Laplace().scale(plan.sensitivity(1), 2.0)
        assert answer.error_95 == error_95(plan, Laplace(), scale, noisy)
        seen.add(answer.error_95)
    assert len(seen) == 5


def test_errors_of_averages_and_spreads_by_simulation(stays: Dataset) -> None:
    """The 95th percentile over 200,000 draws, seeded: its own standard error is below 0.4 % of it."""
    from dosimeter.postprocess import error_95
    from dosimeter.postprocess.cell_errors import measure_scales

    plan, laplace = (
        stays.plan("SELECT AVG(nights), VAR_POP(nights), STDDEV_POP(nights) FROM stays"),
        Laplace(),
    )
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
        assert stated is not None
        assert 0.99 * simulated < stated < 1.1 * simulated  # a root is stated by its longer side


def test_other_data_and_the_same_noisy_numbers_give_the_same_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_noisy_numbers(monkeypatch, lambda _at, _row: (Fraction(12), Fraction(-3)))
    answers = []
    for number, nights in enumerate((COLUMNS["nights"], [9] * ROWS)):
        with (
            Dataset.open(make_table(nights=nights), schema=schema_of()) as dataset,
            Ledger.open(tmp_path / f"{number}.db") as ledger,
        ):
            answer = dataset.release("SELECT AVG(nights) FROM stays", ledger=ledger, epsilon=1.0, policy="paper")
            answers.append(answer.describe())
    assert answers[0] == answers[1]


def test_an_error_bar_is_of_the_rows_that_are_shown(
    stays: Dataset, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The average of a group of hardly anybody is far off; where HAVING takes it out, its error does not count."""
    from dosimeter.postprocess import error_95

    counts = [Fraction(11), Fraction(9), Fraction(10), Fraction(1)]  # of wards with 10, 10, 10 and 0 people
    give_noisy_numbers(monkeypatch, lambda at, row: (counts[at], *row[1:]))
    sql = "SELECT ward, AVG(nights) FROM stays GROUP BY ward HAVING COUNT(nights) > 5 LIMIT 2"
    answer = stays.release(sql, ledger=ledger, epsilon=20.0, policy="budget:100")
    assert [row["ward"] for row in rows_of(answer)] == WARDS[:2]
    (entry,) = account_of(ledger).entries
    assert entry.measured is not None
    noisy = [[Fraction(text) for text in row] for row in entry.measured]
    plan, laplace = stays.plan(sql), Laplace()
    scale = laplace.scale(plan.sensitivity(1), 20.0)
    assert answer.error_95 is not None
    assert answer.error_95[0] == max(error_95(plan, laplace, scale, [row])[0] for row in noisy[:2])  # type: ignore[type-var]
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
    free = stays.release(sql, **options).error_95
    clamped = stays.release(sql, clamp=True, **options).error_95
    assert free is not None
    assert clamped is not None
    assert free[:3] == clamped[:3]
    for capped, width in zip(clamped[2:6], (9.0, 9.0, 20.25, 4.5), strict=True):
        assert capped is not None
        assert capped <= width
    assert free[3] is not None
    assert free[3] > 9.0
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
