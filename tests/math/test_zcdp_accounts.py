"""Accounts in zCDP (O4): readings against dp-accounting's, and against the best adversary there is."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, reduce
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from dp_accounting.dp_event import ZCDpEvent
from dp_accounting.pld.privacy_loss_distribution import (
    PrivacyLossDistribution,
    from_discrete_gaussian_mechanism,
    from_discrete_laplace_mechanism,
)
from dp_accounting.rdp import RdpAccountant
from mpmath import mp

from dosimeter.errors import OptionError
from dosimeter.ledger.accounting import Policy, RequestCharges, admits_charge
from dosimeter.ledger.decimals import exact_decimal
from dosimeter.ledger.readings import Charge, Price
from dosimeter.ledger.remaining import count_answers
from dosimeter.mechanisms.gaussian import Gaussian
from dosimeter.mechanisms.zcdp import exact_zcdp_epsilon, pure_rho, round_rho, zcdp_epsilon, zcdp_rho
from dosimeter.release.noise import calibrate
from tests.math.test_mechanism import least_epsilon

N = 32_561
DELTA = exact_decimal(1 / N**2)
POLICY = f"budget:10@{100 * DELTA}"


@dataclass(frozen=True)
class Noise:
    """Integer noise on a count: Laplace of a pure ε, or Gaussian of a σ. What is composed is its loss."""

    rho: Decimal
    epsilon: float = 0.0
    sigma: float = 0.0

    def losses(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-ratios of a count's noisy values with and without somebody, and their chances with them."""
        if self.epsilon:
            with_it = 1 / (1 + math.exp(-self.epsilon))
            return np.array([self.epsilon, -self.epsilon]), np.array([with_it, 1 - with_it])
        values = np.arange(-math.ceil(14 * self.sigma), math.ceil(14 * self.sigma) + 1)
        masses = np.exp(-(values**2) / (2 * self.sigma**2))
        return (1 - 2 * values) / (2 * self.sigma**2), masses / masses.sum()

    def loss(self) -> PrivacyLossDistribution:
        """Return the distribution of its privacy loss, estimated from below."""
        low: dict[str, Any] = {"pessimistic_estimate": False, "value_discretization_interval": 1e-4}
        if self.epsilon:
            return from_discrete_laplace_mechanism(self.epsilon, **low)
        return from_discrete_gaussian_mechanism(self.sigma, **low)


def laplace(epsilon: str) -> Noise:
    return Noise(pure_rho(Decimal(epsilon)), epsilon=float(epsilon))


def gaussian(sigma: float) -> Noise:
    return Noise(round_rho(1 / (2 * Fraction(sigma) ** 2)), sigma=sigma)


def least_composed(noises: Sequence[tuple[Noise, int]], delta: float) -> float:
    """Return a lower estimate of ε at δ, by composed privacy losses."""
    composed = [noise.loss().self_compose(times) for noise, times in noises]
    return float(reduce(lambda one, other: one.compose(other), composed).get_epsilon_for_delta(delta))


def convert(rho: float, delta: float) -> float:
    """Return ε at δ of ρ-zCDP, as the best of many Rényi orders around the best one there is."""
    best = 1.0 + math.sqrt(math.log(1.0 / delta) / rho)
    accountant = RdpAccountant(orders=np.linspace(1.0 + 1e-3, 3.0 * best, 20_000))
    return float(accountant.compose(ZCDpEvent(rho)).get_epsilon(delta))


@pytest.mark.parametrize(("count", "seed"), [(12, 4), pytest.param(1000, 13, marks=pytest.mark.long)])
def test_random_ledgers_are_read_between_their_losses_and_the_conversion(count: int, seed: int) -> None:
    generator = random.Random(seed)
    tight = 0
    for _ in range(count):
        delta = Decimal(10) ** -generator.randint(4, 10)
        reading = Policy.parse(f"budget:100@{delta}").start(Decimal(0))
        kinds = [laplace(str(generator.choice((0.01, 0.05, 0.1, 0.3, 1.0)))) for _ in range(generator.randint(0, 3))]
        kinds += [gaussian(2.0 ** generator.randint(0, 6)) for _ in range(generator.randint(0 if kinds else 1, 3))]
        noises = [(kind, generator.randint(1, max(1, min(200, int(Decimal("0.7") / kind.rho))))) for kind in kinds]
        for noise, times in noises:
            for _ in range(times):
                reading = reading.after(Charge(Decimal(1), rho=noise.rho))
        total = sum(Fraction(noise.rho) * times for noise, times in noises)
        assert Fraction(reading.rho or 0) == total
        with mp.workdps(30):
            converted = least_epsilon(mp.mpf(total.numerator) / total.denominator, mp.mpf(str(delta)))
        assert 0 <= float(reading.epsilon) - converted < 1e-6
        assert float(reading.epsilon) == pytest.approx(convert(float(total), float(delta)), abs=1e-6)
        composed = least_composed(noises, float(delta))
        assert composed <= reading.epsilon
        tight += composed > 0.6 * float(reading.epsilon)
    assert tight > count / 4  # the estimate is not low because it says nothing


@pytest.mark.parametrize("rho", ["1e-300", "3e-12", "0.00125", "0.5", "12.5", "4e5", "1e30"])
@pytest.mark.parametrize("delta", ["1e-290", "1e-30", "1e-9", "0.01", "0.9"])
def test_the_exact_conversion_is_rounded_up_and_no_more(rho: str, delta: str) -> None:
    with mp.workdps(340):
        reference = least_epsilon(mp.mpf(rho), mp.mpf(delta)) if Decimal(rho) > Decimal("1e-100") else mp.mpf(0)
        exact = mp.mpf(str(exact_zcdp_epsilon(Decimal(rho), Decimal(delta))))
        assert reference * (1 - mp.mpf("1e-18")) <= exact
        assert exact <= max(zcdp_epsilon(float(rho), float(delta)), reference) * (1 + mp.mpf("1e-11"))


# ---------------------------------------------------------------- the numbers that are promised


def gaussian_charge(epsilon: str) -> Charge:
    noise = calibrate(Gaussian(float(DELTA)), sensitivity=1, epsilon=Decimal(epsilon))
    return Charge(Decimal(epsilon), rho=round_rho(1 / (2 * Fraction(noise.scale) ** 2)))


def test_a_hundred_gaussian_answers_read_less_than_one() -> None:
    start = Policy.parse(POLICY).start(Decimal(0))
    assert float(start.after(gaussian_charge("0.1"), 100).epsilon) == pytest.approx(0.933, abs=0.005)
    assert float(start.after(Charge(Decimal("0.1"), rho=pure_rho(Decimal("0.1"))), 20).epsilon) == pytest.approx(
        2.35, abs=0.005
    )


def test_a_budget_of_ten_gives_thousands_of_gaussian_answers() -> None:
    policy, charge = Policy.parse(POLICY), gaussian_charge("0.1")
    start = policy.start(Decimal(0))
    charges = RequestCharges(policy, None, start, Decimal(0), DELTA, find_rho=lambda _: charge.rho or Decimal(0))
    found = count_answers(charges, 0.1)
    assert 7_000 < found < 8_000
    assert start.after(charge, found).epsilon <= 10 < start.after(charge, found + 1).epsilon


def test_the_delta_of_groups_is_set_aside() -> None:
    policy = Policy.parse("budget:2@1e-06")
    price = Price(
        epsilon=Decimal("0.1"), epsilon_svt=Decimal(0), delta=Decimal("3e-7"), group_delta=Decimal("2e-7"),
        rho=Decimal("0.005"),
    )  # fmt: skip
    charge, reading = policy.charge(price), policy.start(Decimal("5e-7"))
    assert charge.delta == Decimal("2e-7")  # that of the noise is part of the conversion
    twice = reading.after(charge, 2)
    assert twice.epsilon == exact_zcdp_epsilon(Decimal("0.01"), Decimal("5e-7"))
    assert admits_charge(policy, reading.after(charge), charge, max_epsilon=None)
    assert not admits_charge(policy, twice, charge, max_epsilon=None)
    assert twice.after(charge).infinite
    with pytest.raises(OptionError, match="smaller"):
        policy.agree_on_delta(Decimal("1e-6"), 1000)


# ---------------------------------------------------------------- ε chosen from past answers


def best_adversary(noises: Sequence[Noise], budget: Decimal, epsilon: float, *, step: float, unit: Decimal) -> float:
    """Return the largest δ at ε that anybody reaches who chooses each noise from the answers before, by recursion.

    Losses are whole steps and costs whole units, so nothing is rounded. What is best from here depends on past answers
    only through the loss so far and the rest of the budget.
    """
    moves = []
    for noise in noises:
        losses, chances = noise.losses()
        whole = np.rint(losses / step).astype(int)
        assert np.allclose(whole * step, losses, atol=1e-12)
        assert noise.rho % unit == 0
        kept = chances > 1e-12
        moves.append((int(noise.rho / unit), whole[kept].tolist(), chances[kept].tolist()))

    @cache
    def reach(left: int, loss: int) -> float:
        best = max(0.0, -math.expm1(epsilon - loss * step))
        for cost, losses, chances in moves:
            if cost <= left:
                value = sum(p * reach(left - cost, loss + change) for change, p in zip(losses, chances, strict=True))
                best = max(best, value)
        return best

    return reach(int(budget / unit), 0)


def largest_budget(policy: Policy, unit: Decimal) -> Decimal:
    """Return the largest ρ, in whole units, that the account grants."""
    charge, reading, units = Charge(Decimal(1), rho=unit), policy.start(Decimal(0)), 0
    while admits_charge(policy, reading.after(charge, units) if units else reading, charge, max_epsilon=None):
        units += 1
    return units * unit


@pytest.mark.parametrize("policy", ["budget:1@0.01", "budget:1@0.1", "budget:2@0.001", "budget:0.5@0.05"])
def test_the_best_adaptive_adversary_stays_within_the_promise(policy: str) -> None:
    terms, unit = Policy.parse(policy), Decimal("0.005")
    exact = Noise(Decimal("0.1"), sigma=math.sqrt(5.0))  # 1/2σ² is no rounded number here
    noises = [laplace("0.1"), laplace("0.2"), laplace("0.4"), exact]
    budget = largest_budget(terms, unit)
    assert budget >= 4 * unit
    assert terms.budget is not None
    reached = best_adversary(noises, budget, float(terms.budget), step=0.1, unit=unit)
    assert 0 < reached <= float(terms.delta or 0)
    beyond = best_adversary(noises, 2 * budget, float(terms.budget), step=0.1, unit=unit)
    assert beyond > float(terms.delta or 0)  # the recursion does see what is too much


def test_a_running_sum_of_deltas_would_not_be_a_filter() -> None:
    """Why δ is set aside: converting at D less the sum so far, an adversary reaches 1.19 D by choosing what to spend.

    First half of ρ. If the loss came out high, the other half of ρ; otherwise all of δ on a group of one.
    """
    epsilon, delta, normal = 1.0, 1e-6, NormalDist()
    half = zcdp_rho(epsilon, delta) / 2
    shift = math.sqrt(2 * half)
    rest = delta - math.exp(
        min(
            (a - 1) * (a * half - epsilon) - math.log(a - 1) + a * math.log1p(-1 / a)
            for a in np.linspace(2, 60, 2000).tolist()
        )
    )

    def exceeds(above: float) -> float:
        return normal.cdf(shift / 2 - above / shift) - math.exp(above) * normal.cdf(-shift / 2 - above / shift)

    def reach(bound: float) -> float:
        losses = np.linspace(bound, shift**2 / 2 + 12 * shift, 2001)
        densities = np.exp(-((losses - shift**2 / 2) ** 2) / (2 * shift**2)) / (shift * math.sqrt(2 * math.pi))
        high = np.trapezoid(densities * [exceeds(epsilon - loss) for loss in losses.tolist()], losses)
        return float(high) + normal.cdf((bound - shift**2 / 2) / shift) * rest

    assert max(reach(shift**2 / 2 + steps * shift) for steps in (1.5, 2.0, 2.5, 3.0)) > 1.1 * delta
