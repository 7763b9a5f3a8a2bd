"""Groups that nobody declared (H1): (ε, D) by exact summation over outputs, on every pair of small neighbouring tables.

The released answer is a set of (group, noisy numbers). Its distribution is written out here group by group, from the
noise that the release itself is calibrated to and the threshold that it finds; nothing is sampled but in the last test.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dosimeter.errors import OptionError
from dosimeter.influence import Measured
from dosimeter.mechanisms import Gaussian, Laplace, Mechanism
from dosimeter.planning import PlanOptions, QueryPlan, plan_query
from dosimeter.release import noisy_vector, thresholds
from dosimeter.release.noise import Calibrated
from dosimeter.release.noisy_vector import NoisyVector, calibrate_plan
from dosimeter.release.thresholds import draw_shown, find_threshold
from dosimeter.schema import read_schema
from tests.schemas import declare, plain, whole

Groups = dict[str, tuple[int, ...]]  # the exact numbers of each observed group, the number of individuals first


def plan_for(rows: int, *, sums: bool, delta: float) -> QueryPlan:
    columns = {"who": plain("text"), "at": plain("integer"), "topic": plain("text"), "x": whole(0, 1)}
    unit = {} if rows == 1 else {"unit": "who", "max_rows_per_unit": rows, "row_key": "at"}
    schema = read_schema(declare("t", 100_000, columns, **unit))
    counted = "COUNT(*)" if rows == 1 else "COUNT(DISTINCT who)"
    sql = f"SELECT topic, {counted}{', SUM(x)' if sums else ''} FROM t GROUP BY topic"
    return plan_query(sql, schema, PlanOptions(groups="thresholded", group_delta=delta))


# ---------------------------------------------------------------- every small table

Person = tuple[tuple[str, int], ...]  # rows: topic and x


def list_people(rows: int, topics: Sequence[str]) -> list[Person]:
    """Everybody who can be: up to so many rows, each with a topic and an x."""
    cells = list(product(topics, (0, 1)))
    return [person for count in range(1, rows + 1) for person in combinations_with_replacement(cells, count)]


def measure(people: Sequence[Person], *, sums: bool) -> Groups:
    found: dict[str, list[int]] = {}
    for person in people:
        for topic in {topic for topic, _ in person}:
            found.setdefault(topic, [0, 0])[0] += 1
        for topic, x in person:
            found[topic][1] += x
    return {topic: (counted, total)[: 2 if sums else 1] for topic, (counted, total) in found.items()}


def list_neighbours(rows: int, topics: Sequence[str], most: int, *, sums: bool) -> Iterator[tuple[Groups, Groups]]:
    """All tables of up to so many people, and the same without one of them; each pair of vectors once."""
    seen: set[str] = set()
    everybody = list_people(rows, topics)
    for size in range(1, most + 1):
        for people in combinations_with_replacement(everybody, size):
            whole = measure(people, sums=sums)
            for at in range(size):
                without = measure([*people[:at], *people[at + 1 :]], sums=sums)
                text = repr((sorted(whole.items()), sorted(without.items())))
                if text not in seen:
                    seen.add(text)
                    yield whole, without


# ---------------------------------------------------------------- exact distributions


def spread_of(noise: Calibrated, centre: int, reach: int) -> NDArray[np.float64]:
    """P(centre + Z = z) for z from −reach to reach."""
    z = np.arange(-reach, reach + 1, dtype=np.float64) - centre
    if isinstance(noise.mechanism, Laplace):
        q = math.exp(-1.0 / noise.scale)
        shares: NDArray[np.float64] = (1.0 - q) / (1.0 + q) * np.exp(-np.abs(z) / noise.scale)
        return shares
    weights: NDArray[np.float64] = np.exp(-0.5 * (z / noise.scale) ** 2)
    everywhere = np.exp(-0.5 * (np.arange(-40 * reach, 40 * reach + 1) / noise.scale) ** 2)
    return weights / float(everywhere.sum())


def outcomes_of(numbers: tuple[int, ...] | None, noise: Sequence[Calibrated], least: int, reach: int) -> Any:
    """The distribution of one group's part of the output: first that it is not shown, then every noisy vector."""
    size = (2 * reach + 1) ** len(noise)
    if numbers is None:
        return np.concatenate([[1.0], np.zeros(size)])
    counts = spread_of(noise[0], numbers[0], reach)
    counts[np.arange(-reach, reach + 1) < least] = 0.0
    joint = counts
    for number, each in zip(numbers[1:], noise[1:], strict=True):
        joint = np.multiply.outer(joint, spread_of(each, number, reach)).reshape(-1)
    return np.concatenate([[1.0 - counts.sum()], joint])


def hockey_stick(epsilon: float, p: Sequence[Any], q: Sequence[Any]) -> float:
    """sup over S of P(S) − e^ε Q(S), for outputs that are independent over groups: Σ max(0, P − e^ε Q)."""
    left, right = p[0], q[0]
    for a, b in zip(p[1:], q[1:], strict=True):
        left = np.multiply.outer(left, a).reshape(-1)
        right = np.multiply.outer(right, b).reshape(-1)
    return float(np.maximum(left - math.exp(epsilon) * right, 0.0).sum())


def worst_delta(
    plan: QueryPlan,
    mechanism: Mechanism,
    epsilon: str,
    pairs: Sequence[tuple[Groups, Groups]],
    reach: int,
    lowered: int = 0,
) -> float:
    noise = [each for each in calibrate_plan(plan, mechanism, Decimal(epsilon)) if isinstance(each, Calibrated)]
    assert plan.threshold is not None
    assert plan.threshold.people == 0
    least = find_threshold(plan.threshold, noise) - lowered
    worst = 0.0
    for table, without in pairs:
        changed = [topic for topic in table if table[topic] != without.get(topic)]  # the others cancel
        p, q = (
            [outcomes_of(side.get(topic), noise, least, reach) for topic in changed] or [np.ones(1)]
            for side in (table, without)
        )
        worst = max(worst, hockey_stick(float(epsilon), p, q), hockey_stick(float(epsilon), q, p))
    return worst


@pytest.mark.parametrize(
    ("rows", "sums", "epsilon", "delta"),
    [
        (1, False, "1", 0.01),
        (1, False, "0.5", 0.1),
        (1, True, "2", 0.03),
        (1, True, "4", 0.2),
        (2, False, "2", 0.02),
        (2, False, "1", 0.2),
    ],
)
def test_every_neighbour_stays_within_the_promise(rows: int, sums: bool, epsilon: str, delta: float) -> None:
    """ε, D by exact summation; and D is used: with one row, a person alone in a group comes close to it."""
    plan = plan_for(rows, sums=sums, delta=delta)
    pairs = list(list_neighbours(rows, ("a", "b"), 3, sums=sums))
    assert len(pairs) > 10
    reach = 60 if sums else 160
    cut = 1e-6  # outputs beyond the window that is summed
    worst = worst_delta(plan, Laplace(), epsilon, pairs, reach)
    assert worst <= delta * (1 + 1e-9) + cut
    assert worst > delta / (20 * rows), "somebody alone in a group is what D is for"


def test_a_lower_threshold_would_break_the_promise() -> None:
    plan = plan_for(1, sums=False, delta=0.01)
    pairs = list(list_neighbours(1, ("a", "b"), 2, sums=False))
    assert worst_delta(plan, Laplace(), "1", pairs, 160, lowered=1) > 0.01


@pytest.mark.parametrize(("rows", "epsilon", "delta"), [(1, "1", 0.01), (2, "2", 0.05)])
def test_gaussian_noise_adds_its_own_delta(rows: int, epsilon: str, delta: float) -> None:
    mechanism = Gaussian(0.01)
    plan = plan_for(rows, sums=False, delta=delta)
    worst = worst_delta(plan, mechanism, epsilon, list(list_neighbours(rows, ("a", "b"), 3, sums=False)), 120)
    assert worst <= delta + mechanism.delta


# ---------------------------------------------------------------- the threshold itself


def tail(noise: Calibrated, steps: int) -> float:
    """P(Z ≥ steps), by adding up the noise."""
    reach = 60 * math.ceil(noise.scale) + steps
    return float(spread_of(noise, 0, reach)[reach + steps :].sum())


@pytest.mark.parametrize("mechanism", [Laplace(), Gaussian(1e-5)])
@pytest.mark.parametrize(("rows", "epsilon"), [(1, "1"), (1, "0.3"), (1, "5"), (3, "1")])
@pytest.mark.parametrize("delta", [0.05, 1e-3, 1e-6, 1e-10])
def test_threshold_is_the_least_for_somebody_alone(mechanism: Mechanism, rows: int, epsilon: str, delta: float) -> None:
    """P(1 + Z ≥ T) ≤ D/ℓ₀ and, for Laplace noise, T − 1 would not do."""
    plan = plan_for(rows, sums=False, delta=delta)
    assert plan.threshold is not None
    noise = [each for each in calibrate_plan(plan, mechanism, Decimal(epsilon)) if isinstance(each, Calibrated)]
    try:
        least = find_threshold(plan.threshold, noise)
    except OptionError:
        assert delta * mechanism.loss_unit(noise[0].scale) > rows * (1 - delta)
        return
    assert tail(noise[0], least - 1) <= delta / rows * (1 + 1e-9)
    if mechanism.pure:
        assert tail(noise[0], least - 2) > delta / rows
    else:
        assert tail(noise[0], least - 2 - math.ceil(noise[0].scale)) > delta / rows, "the bound is not far off"


@pytest.mark.parametrize("scale", [0.05, 0.5, 1.0, 17.3, 1e4, 1e9])
@pytest.mark.parametrize("probability", [Fraction(9, 10), Fraction(1, 2), Fraction(1, 10**6), Fraction(1, 10**30)])
def test_laplace_tail_is_solved_exactly(scale: float, probability: Fraction) -> None:
    """Against rational bounds on e^(−t/b): the series of the exponential, cut off on either side."""
    found = Laplace().find_excess(scale, probability)
    for steps, holds in ((found, True), (found - 1, False)):
        if steps < 0:
            continue
        log_tail = -Decimal(steps) / Decimal(scale) - (1 + (-1 / Decimal(scale)).exp()).ln()
        wanted = (Decimal(probability.numerator) / Decimal(probability.denominator)).ln()
        assert (log_tail <= wanted) is holds


def test_reach_is_the_tail() -> None:
    noise = Calibrated(Laplace(), 3.7, 1, 1 / 3.7)
    steps = np.arange(-20, 30).astype(np.float64)
    expected = [tail(noise, int(step)) if step > 0 else 1.0 - tail(noise, 1 - int(step)) for step in steps]
    assert np.allclose(Laplace().exceed(3.7, steps), expected, rtol=1e-12)


@pytest.mark.parametrize("mechanism", [Laplace(), Gaussian(0.01)])
def test_too_large_a_delta_is_refused(mechanism: Mechanism) -> None:
    """Beyond D/(1 − D) = loss of one count the proof does not hold, whether or not the promise still would."""
    plan = plan_for(1, sums=False, delta=0.5)
    assert plan.threshold is not None
    with pytest.raises(OptionError, match="too large beside an ε"):
        find_threshold(plan.threshold, calibrate_plan(plan, mechanism, Decimal("0.1")))


# ---------------------------------------------------------------- drawn


@pytest.mark.parametrize(("mechanism", "rows"), [(Laplace(), 1), (Laplace(), 2), (Gaussian(1e-3), 1)])
def test_somebody_alone_shows_up_no_more_often_than_promised(mechanism: Mechanism, rows: int) -> None:
    """20,000 groups of one person, drawn by the release's own noise. Fails by chance once in a million (Hoeffding)."""
    delta, alone = 0.02, 20_000
    plan = plan_for(rows, sums=True, delta=delta)
    noise = calibrate_plan(plan, mechanism, Decimal(1))
    keys = tuple((str(at),) for at in range(alone))
    assert plan.threshold is not None
    shown = draw_shown(plan, plan.threshold, Measured(keys, ((Fraction(1), Fraction(1)),) * alone), noise)
    margin = math.sqrt(math.log(1e6) / (2 * alone))
    assert len(shown.keys) / alone <= delta / rows + margin
    many = Measured(keys[:50], ((Fraction(10_000), Fraction(1)),) * 50)
    assert draw_shown(plan, plan.threshold, many, noise).keys == tuple(sorted(keys[:50])), "large groups are all shown"
    assert draw_shown(plan, plan.threshold, Measured((), ()), noise) == NoisyVector((), ())


@pytest.mark.parametrize("at_once", [1, 7, 1000])
@pytest.mark.parametrize("most", [3, 40, 10_000])
def test_however_many_get_noise_at_once_the_same_groups_are_shown(
    monkeypatch: pytest.MonkeyPatch, at_once: int, most: int
) -> None:
    """Noise of nothing but 0 shows what is kept: the largest groups, equal ones by their values, in whatever order."""
    monkeypatch.setattr(thresholds, "AT_ONCE", at_once)
    monkeypatch.setattr(thresholds, "MOST_ROWS", most)
    monkeypatch.setattr(noisy_vector, "add_noise", lambda totals, _: list(totals))
    plan = plan_for(1, sums=True, delta=1e-6)
    assert plan.threshold is not None
    assert plan.threshold.people == 0
    noise = calibrate_plan(plan, Laplace(), Decimal(1))
    least = find_threshold(plan.threshold, noise)
    groups = [((f"{at:03}",), (Fraction(least + at % 9 - 4), Fraction(at))) for at in range(200)]
    enough = [(key, row) for key, row in groups if row[0] >= least]
    expected = sorted(sorted(enough, key=lambda group: (-group[1][0], group[0]))[:most])
    for seed in range(5):
        random.Random(seed).shuffle(groups)
        measured = Measured(tuple(key for key, _ in groups), tuple(row for _, row in groups))
        shown = draw_shown(plan, plan.threshold, measured, noise)
        assert list(zip(shown.keys, shown.values, strict=True)) == expected
