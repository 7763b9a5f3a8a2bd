"""Charges, readings and policies (O1-O3), against sums of fractions and by walking every path."""

from __future__ import annotations

import functools
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter.errors import OptionError
from dosimeter.ledger.accounting import (
    Policy,
    RequestCharges,
    admits_charge,
    default_delta_total,
)
from dosimeter.ledger.decimals import Number, exact_decimal, write_decimal
from dosimeter.ledger.readings import Charge, Reading, SumReading
from dosimeter.risk.largest_epsilon import paper_candidates

CANDIDATES = paper_candidates()
PAPER = Policy.parse("paper")

any_double = st.floats(min_value=0.0, allow_nan=False, allow_infinity=False)
small_double = st.floats(min_value=0.0, max_value=1e-3, allow_nan=False)
charges = st.builds(
    lambda epsilon, svt, delta: Charge(exact_decimal(epsilon), exact_decimal(svt), exact_decimal(delta)),
    any_double,
    any_double,
    small_double,
)


def read_odometer(spent: list[Charge], delta_total: float | str | Decimal) -> Reading:
    return functools.reduce(
        lambda reading, charge: reading.after(charge), spent, PAPER.start(exact_decimal(delta_total))
    )


def left_after(
    policy: Policy,
    reading: Reading,
    *,
    epsilon_svt: Number = 0,
    delta: Number = 0,
    max_epsilon: Number | None = None,
) -> tuple[float, ...]:
    cap = None if max_epsilon is None else exact_decimal(max_epsilon)
    charges = RequestCharges(policy, cap, reading, exact_decimal(epsilon_svt), exact_decimal(delta))
    return charges.remaining(CANDIDATES)


@given(st.lists(charges, max_size=30))
def test_the_reading_is_the_exact_sum(spent: list[Charge]) -> None:
    reading = read_odometer(spent, 1)
    assert Fraction(reading.epsilon) == sum((Fraction(c.epsilon) + Fraction(c.epsilon_svt) for c in spent), Fraction(0))
    assert Fraction(reading.delta) == sum((Fraction(c.delta) for c in spent), Fraction(0))


@given(st.lists(charges, max_size=10))
def test_the_reading_does_not_depend_on_the_callers_precision(spent: list[Charge]) -> None:
    expected = read_odometer(spent, 1)
    with localcontext() as context:
        context.prec = 3
        assert read_odometer(spent, 1) == expected


@given(st.lists(small_double, min_size=1, max_size=30), small_double)
def test_the_reading_is_infinite_once_delta_is_overspent(deltas: list[float], total: float) -> None:
    spent = [Charge(Decimal("0.1"), delta=exact_decimal(delta)) for delta in deltas]
    overspent = sum((Fraction(str(delta)) for delta in deltas), Fraction(0)) > Fraction(str(total))
    reading = read_odometer(spent, total)
    assert reading.infinite == overspent
    if overspent:
        assert reading.after(Charge(Decimal(1))).infinite
        for policy in (PAPER, Policy.parse("budget:1000000")):
            assert left_after(policy, reading) == ()
            assert not admits_charge(policy, reading, Charge(Decimal(5), delta=exact_decimal(0)), max_epsilon=None)


@given(st.integers(min_value=1, max_value=10**9))
def test_exactly_so_many_default_deltas_fit(individuals: int) -> None:
    """A hundred of them, or as many as there are people, whichever is less (O5)."""
    each, most = Charge(Decimal(1), delta=exact_decimal(1.0 / individuals**2)), min(100, individuals)
    total = default_delta_total(individuals)
    assert not read_odometer([each] * most, total).infinite
    assert read_odometer([each] * (most + 1), total).infinite
    exact = min(Fraction(100, individuals**2), Fraction(1, individuals))
    assert float(total) == pytest.approx(float(exact), rel=1e-15)
    assert (PAPER.warn(total, individuals) is None) == (individuals > 10)


# ---------------------------------------------------------------- the paper's rule


@given(st.lists(st.integers(min_value=0, max_value=36), max_size=60), st.sampled_from(["0", "0.001", "1"]))
def test_the_papers_rule_leaves_only_larger_candidates(choices: list[int], svt: str) -> None:
    reading = read_odometer([], 0)
    answers = 0
    for choice in choices:
        remaining = left_after(PAPER, reading, epsilon_svt=Decimal(svt))
        assert remaining == tuple(e for e in CANDIDATES if Fraction(str(e)) > Fraction(reading.epsilon))
        if not remaining:
            break
        granted = exact_decimal(remaining[choice % len(remaining)])
        before, reading = reading, reading.after(Charge(granted, Decimal(svt)))
        assert reading.epsilon > 2 * before.epsilon  # an answer more than doubles it
        answers += 1
    assert answers <= 13


def test_thirteen_answers_are_the_most_there_can_be() -> None:
    """Every path of grants, walked in thousandths."""
    steps = [round(candidate * 1000) for candidate in CANDIDATES]

    @functools.cache
    def longest_from(reading: int) -> int:
        return max((1 + longest_from(reading + step) for step in steps if step > reading), default=0)

    assert longest_from(0) == 13

    reading, answers = read_odometer([], 0), 0
    while remaining := left_after(PAPER, reading):
        reading = reading.after(Charge(exact_decimal(min(remaining))))
        answers += 1
    assert (answers, reading.epsilon) == (13, Decimal("15.555"))


def test_the_largest_candidate_is_answered_once() -> None:
    reading = read_odometer([Charge(exact_decimal(max(CANDIDATES)))], 0)
    assert left_after(PAPER, reading) == ()


# ---------------------------------------------------------------- a budget


@given(
    st.decimals(min_value="0.001", max_value="20", places=3),
    st.lists(st.tuples(st.integers(0, 36), st.sampled_from(["0", "0.01", "0.3"]), st.booleans()), max_size=40),
)
def test_nothing_is_granted_beyond_a_budget(budget: Decimal, asked: list[tuple[int, str, bool]]) -> None:
    policy = Policy.parse(f"budget:{budget}")
    reading = read_odometer([], 0)
    for choice, svt, answered in asked:
        remaining = left_after(policy, reading, epsilon_svt=Decimal(svt))
        left = Fraction(budget) - Fraction(reading.epsilon)
        assert remaining == tuple(e for e in CANDIDATES if Fraction(str(e)) + Fraction(svt) <= left)
        if not remaining:
            continue
        granted = exact_decimal(remaining[choice % len(remaining)]) if answered else Decimal(0)
        reading = reading.after(Charge(granted, Decimal(svt)))
        assert reading.epsilon <= budget


def test_a_budget_can_be_spent_to_the_last_thousandth() -> None:
    policy = Policy.parse("budget:0.3")
    reading = read_odometer([Charge(exact_decimal(0.1))], 0)
    assert admits_charge(policy, reading, Charge(exact_decimal(0.2)), max_epsilon=None)  # in floats 0.1 + 0.2 > 0.3
    assert not admits_charge(policy, reading, Charge(exact_decimal("0.2000000000000000000001")), max_epsilon=None)
    assert left_after(policy, reading)[0] == 0.2
    assert left_after(policy, reading, epsilon_svt=0.1)[0] == 0.1
    assert left_after(policy, reading, epsilon_svt=0.2) == ()


# ---------------------------------------------------------------- texts


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("budget:10", "budget:10"),
        (" budget:0.50 ", "budget:0.5"),
        ("budget:1e-9", "budget:1E-9"),
    ],
)
def test_policies_have_one_text(text: str, canonical: str) -> None:
    policy = Policy.parse(text)
    assert str(policy) == canonical
    assert Policy.parse(canonical) == policy


@pytest.mark.parametrize(
    "text",
    ["", "Paper", "paper:1", "budget", "budget:", "budget:0", "budget:-1", "budget:nan", "budget:inf", "budget:1e999"],
)
def test_other_policies_are_refused(text: str) -> None:
    with pytest.raises(OptionError):
        Policy.parse(text)


@given(any_double)
def test_decimals_are_written_so_that_they_can_be_read(number: float) -> None:
    exact = exact_decimal(number)
    assert exact_decimal(write_decimal(exact)) == exact == Decimal(str(number))
    assert float(write_decimal(exact)) == number


@pytest.mark.parametrize("bad", [-1, -1e-300, float("nan"), float("inf"), "x", "", "1e400", "1e-999", True])
def test_what_is_no_amount_is_refused(bad: object) -> None:
    with pytest.raises(OptionError):
        exact_decimal(bad)  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        Charge(bad)  # type: ignore[arg-type]


def test_zero_is_no_epsilon() -> None:
    reading = read_odometer([], 0)
    with pytest.raises(OptionError):
        RequestCharges(PAPER, None, reading, Decimal(0), Decimal(0)).remaining([1.0, 0.0])


@given(
    policy=st.sampled_from(["paper", "budget:0.5", "budget:2"]),
    cap=st.sampled_from([None, "0.05", "1"]),
    spent=st.sampled_from(["0", "0.3", "1.5", "20"]),
    delta=st.sampled_from(["0", "1e-4", "1"]),
    svt=st.sampled_from(["0", "0.1"]),
    asked=st.lists(st.sampled_from(CANDIDATES), max_size=5, unique=True),
)
def test_an_obstacle_is_what_would_have_to_go(
    policy: str, cap: str | None, spent: str, delta: str, svt: str, asked: list[float]
) -> None:
    """By the rules one at a time: the rule that is named is broken by every ε that no rule before it has ruled out."""
    reading = SumReading(Decimal(spent), delta_total=Decimal("1e-3"))
    limit = None if cap is None else Decimal(cap)
    charges = RequestCharges(Policy.parse(policy), limit, reading, Decimal(svt), Decimal(delta))
    obstacle = charges.find_obstacle(asked)
    assert (obstacle is None) == (not asked or bool(charges.remaining(asked)))
    if obstacle is None:
        return
    exact = sorted(Fraction(str(epsilon)) for epsilon in asked)
    allowed = [epsilon for epsilon in exact if limit is None or epsilon <= Fraction(limit)]
    closest = Fraction(obstacle.charge.epsilon)
    if Fraction(delta) > Fraction("1e-3"):
        assert obstacle.rule == "delta"
    elif not allowed:
        assert (obstacle.rule, closest) == ("cap", exact[0])
    elif policy == "paper":
        assert (obstacle.rule, closest) == ("reading", allowed[-1])
        assert closest <= Fraction(spent)
    else:
        assert (obstacle.rule, closest) == ("budget", allowed[0])
        budget = Fraction(policy.removeprefix("budget:"))
        assert Fraction(spent) + closest + Fraction(svt) > budget
        assert Fraction(charges.policy.left(reading) or 0) == max(budget - Fraction(spent), 0)
