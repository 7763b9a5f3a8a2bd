"""P4: no test tells better whether somebody is in than the membership advantage says, by enumerating the best test."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import DiscreteGaussianPrivacyLoss, DiscreteLaplacePrivacyLoss

from dosimeter.arrays import FloatArray
from dosimeter.mechanisms import Mechanism
from dosimeter.mechanisms.gaussian import Gaussian, _unit_shift, _upper_tails
from dosimeter.mechanisms.laplace import Laplace
from dosimeter.risk import advantage, own_epsilon

GAUSSIAN = Gaussian(1e-6)


def noise(mechanism: Mechanism, steps: float, reach: int) -> FloatArray:
    """The probabilities of −reach … reach for noise of so many steps, written from the definition."""
    places = np.arange(-reach, reach + 1) / steps
    masses = np.exp(-np.abs(places)) if isinstance(mechanism, Laplace) else np.exp(-0.5 * places**2)
    return np.asarray(masses / masses.sum())


def best_test(mechanism: Mechanism, steps: float, shifts: tuple[int, ...]) -> float:
    """The advantage of the best test: half the sum of |P − Q| over all outcomes of all cells."""
    reach = math.ceil((36 if isinstance(mechanism, Laplace) else 9) * steps) + 2 * max(shifts) + 4
    whole = noise(mechanism, steps, reach)
    without, inside = np.ones(1), np.ones(1)
    for shift in shifts:
        moved = np.concatenate([np.zeros(shift), whole[: len(whole) - shift]])
        without, inside = np.multiply.outer(without, whole).ravel(), np.multiply.outer(inside, moved).ravel()
    return 0.5 * float(np.abs(without - inside).sum())


def promised(mechanism: Mechanism, steps: float, shifts: tuple[int, ...]) -> float:
    """The advantage that the program gives, for noise of so many steps on a grid of 1."""
    norm = float(np.linalg.norm(shifts, ord=mechanism.norm))
    sensitivity, epsilon = 1.0, 1.0 / steps  # b = Δ/ε
    found = advantage(
        np.array([norm]), mechanism, sensitivity=sensitivity, scale=steps, epsilon=epsilon,
        grids=np.array([1.0]), cells=sum(1 for shift in shifts if shift),
    )  # fmt: skip
    return float(found[0])


@pytest.mark.parametrize("steps", [0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 7.9, 8.0, 9.0, 20.0])
@pytest.mark.parametrize("mechanism", [Laplace(), GAUSSIAN], ids=["laplace", "gaussian"])
def test_never_below_the_best_test_of_one_number(mechanism: Mechanism, steps: float) -> None:
    for shift in (1, 2, 3, 4, 5, 8, 13):
        best, found = best_test(mechanism, steps, (shift,)), promised(mechanism, steps, (shift,))
        assert best <= found * (1.0 + 1e-12) <= 1.0 + 1e-12
        if isinstance(mechanism, Gaussian) and steps < 8.0:
            assert found == pytest.approx(best, abs=1e-12)  # the exact sum
        elif isinstance(mechanism, Gaussian):
            assert found <= best * (1.0 + 1.0 / (7.0 * steps**2)) + 1e-12
        elif shift == 1:
            assert found == pytest.approx(best, abs=1e-12)  # one step: the best there is


@pytest.mark.parametrize("steps", [0.3, 0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("mechanism", [Laplace(), GAUSSIAN], ids=["laplace", "gaussian"])
def test_never_below_the_best_test_of_several_numbers(mechanism: Mechanism, steps: float) -> None:
    most = 1 if steps > 2.0 and isinstance(mechanism, Laplace) else 4
    for shifts in itertools.combinations_with_replacement(range(1, most + 1), 2):
        assert best_test(mechanism, steps, shifts) <= promised(mechanism, steps, shifts) * (1.0 + 1e-12)
    if steps <= 1.0:
        for three in [(1, 1, 1), (1, 2, 2), (1, 1, 3)]:
            assert best_test(mechanism, steps, three) <= promised(mechanism, steps, three) * (1.0 + 1e-12)


@pytest.mark.parametrize("shift", [1, 2, 3, 7])
def test_as_dp_accounting_has_it(shift: int) -> None:
    """The advantage of the best test is δ at ε = 0."""
    for steps in (0.5, 1.0, 2.0, 7.5, 8.0, 20.0, 100.0):
        theirs = DiscreteGaussianPrivacyLoss(steps, sensitivity=shift).get_delta_for_epsilon(0.0)
        ours = promised(GAUSSIAN, steps, (shift,))
        assert theirs * (1.0 - 1e-9) <= ours <= theirs * (1.0 + (1e-9 if steps < 8.0 else 1.0 / (7.0 * steps**2)))
    for epsilon in (0.05, 0.5, 1.0, 3.0):
        theirs = DiscreteLaplacePrivacyLoss(epsilon, sensitivity=shift).get_delta_for_epsilon(0.0)
        ours = promised(Laplace(), 1.0 / epsilon, (shift,))
        assert ours >= theirs * (1.0 - 1e-9)
        if shift == 1:
            assert ours == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("steps", [0.1, 0.2, 0.5, 1.0, 3.0, 7.9, 8.0, 30.0])
def test_one_step_is_worth_most_beside_zero(steps: float) -> None:
    """The proof of P4: between neighbouring thresholds, the normal quantile of a tail grows most beside 0."""
    tails = _upper_tails(steps)
    quantiles = [-NormalDist().inv_cdf(tail) for tail in tails[1:].tolist() if tail > 1e-300]
    growth = [2.0 * quantiles[0], *np.diff(quantiles).tolist()]
    assert max(growth) <= growth[0] * (1.0 + 1e-9)
    if steps >= 8.0:
        largest = math.erf(growth[0] / math.sqrt(8.0))  # by the definition, P(Z = 0)
        assert largest <= math.erf(1.0 / (steps * math.sqrt(8.0))) / (1.0 - 1.0 / (24.0 * steps**2))


@pytest.mark.parametrize("steps", [0.7, 3.0, 12.0])
@pytest.mark.parametrize("mechanism", [Laplace(), GAUSSIAN], ids=["laplace", "gaussian"])
def test_guessing_as_well_as_one_can(mechanism: Mechanism, steps: float) -> None:
    """Coins are tossed, noise is drawn, and the likelier answer is guessed: no more right guesses than promised."""
    shift, rounds = 2, 400_000
    draws = np.random.default_rng(20_240_601)
    reach = math.ceil(40 * steps) + shift
    inside = draws.random(rounds) < 0.5
    whole = noise(mechanism, steps, reach)
    seen = np.searchsorted(np.cumsum(whole), draws.random(rounds)) - reach + shift * inside
    guessed = np.where(seen == shift / 2, draws.random(rounds) < 0.5, seen > shift / 2)
    more = 2.0 * float((guessed == inside).mean()) - 1.0
    noise_of_the_count = 4.0 / math.sqrt(rounds)
    assert more <= promised(mechanism, steps, (shift,)) + noise_of_the_count
    assert more >= best_test(mechanism, steps, (shift,)) - noise_of_the_count


@pytest.mark.parametrize("mechanism", [Laplace(), GAUSSIAN], ids=["laplace", "gaussian"])
def test_what_finding_epsilon_cost_counts_too(mechanism: Mechanism) -> None:
    """A coin that tells with e^ε_svt to 1 beside the noisy number: the two together, enumerated."""
    spent, steps, reach = 0.7, 2.0, 100
    whole = noise(mechanism, steps, reach)
    moved = np.concatenate([[0.0], whole[:-1]])
    honest = math.exp(spent) / (1.0 + math.exp(spent))
    without, inside = np.array([honest, 1.0 - honest]), np.array([1.0 - honest, honest])
    best = 0.5 * float(np.abs(np.outer(without, whole) - np.outer(inside, moved)).sum())
    found = advantage(
        np.array([0.0, 1.0]), mechanism, sensitivity=1.0, scale=steps, epsilon=1.0 / steps,
        grids=np.array([1.0]), cells=1, epsilon_svt=spent,
    )  # fmt: skip
    assert best <= found[1] <= 1.0
    assert found[0] == pytest.approx(math.tanh(spent / 2.0))


def test_the_ends() -> None:
    arguments: dict[str, Any] = {"sensitivity": 1.0, "epsilon": 1.0, "cells": 3}
    for grids in (np.zeros(1), np.array([1e-6]), np.array([1.0])):
        nobody = advantage(np.zeros(2), GAUSSIAN, scale=1.0, grids=grids, **arguments)
        assert nobody.tolist() == [0.0, 0.0]
        rising = advantage(np.linspace(0.0, 60.0, 30), GAUSSIAN, scale=1.0, grids=grids, **arguments)
        assert np.all(np.diff(rising) >= 0.0)
        assert rising[-1] == 1.0
    assert advantage(np.ones(1), GAUSSIAN, scale=0.0, grids=np.ones(1), **arguments).tolist() == [1.0]
    tiny = advantage(np.ones(1), GAUSSIAN, scale=0.01, grids=np.ones(1), **arguments)
    assert tiny.tolist() == [1.0]
    own = own_epsilon(np.array([0.4]), Laplace(), sensitivity=1.0, scale=1.0, epsilon=1.0)
    assert advantage(np.array([0.4]), Laplace(), scale=1.0, grids=np.ones(1), **arguments) == np.tanh(own / 2)


def test_a_fine_grid_beside_a_coarse_one_costs_nothing() -> None:
    """One step of fine noise is worth what summing gives, and no array as long as the grid is fine is needed."""
    for steps in (8.0, 11.5, 40.0, 300.0):
        tails = np.exp(-0.5 * np.square(np.arange(-int(40 * steps), int(40 * steps) + 1) / steps))
        beyond = float((1.0 - 1.0 / tails.sum()) / 2.0)
        assert _unit_shift(steps) == pytest.approx(-2.0 * NormalDist().inv_cdf(beyond), rel=1e-9)
    mechanism = GAUSSIAN
    found = mechanism.advantage(
        np.array([0.5]), sensitivity=1.0, scale=2.0, epsilon=1.0, grids=np.array([1.0, 1e-12]), cells=2
    )
    coarse = mechanism.advantage(
        np.array([0.5]), sensitivity=1.0, scale=2.0, epsilon=1.0, grids=np.array([1.0, 1.0]), cells=2
    )
    assert found[0] == coarse[0]
