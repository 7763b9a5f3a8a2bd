"""RDR and loss once the output is known, against the noise's own probabilities in high precision."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter.risk.absolute import own_epsilon
from dosimeter.risk.ex_post_rdr import compute_ex_post
from tests.math.influence_tables import GAUSSIAN, LAPLACE, length, make_contributions, numbers, sparse_rows


def log_pmf(mechanism, z, scale):
    """Of the discrete noise on the integers, with its own normalisation, 50 digits."""
    power = 1 if mechanism.name == "laplace" else 2
    unit = mp.mpf(scale) if power == 1 else 2 * mp.mpf(scale) ** 2
    total = mp.fsum(mp.exp(-(mp.mpf(abs(y)) ** power) / unit) for y in range(-400, 401))
    return -(mp.mpf(abs(z)) ** power) / unit - mp.log(total)


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN])
def test_loss_is_the_log_of_the_ratio_of_probabilities(mechanism):
    k, scale = 4, 1.7
    exact, output = [5, 0, -2, 9], [7, -1, -2, 4]
    rows = [{}, {0: 1.0}, {2: -3.0}, {0: 2.0, 1: 1.0}, {3: -5.0, 0: -2.0}, dict.fromkeys(range(k), 1.0)]
    residual = np.array(output, dtype=np.float64) - np.array(exact)
    output_rdr, loss = compute_ex_post(make_contributions(rows, k=k), residual, mechanism, scale)
    with mp.workdps(50):
        for row, got_rdr, got_loss in zip(rows, output_rdr, loss, strict=True):
            without = [value - int(row.get(cell, 0)) for cell, value in enumerate(exact)]
            expected = mp.fsum(
                log_pmf(mechanism, o - q, scale) - log_pmf(mechanism, o - w, scale)
                for o, q, w in zip(output, exact, without, strict=True)
            )
            assert got_loss == pytest.approx(float(expected), rel=1e-13, abs=1e-15)
            distance = length([o - w for o, w in zip(output, without, strict=True)], mechanism.norm)
            assert got_rdr == pytest.approx(distance, rel=1e-14)


@given(sparse_rows(), st.sampled_from([LAPLACE, GAUSSIAN]), st.data())
def test_output_rdr_is_the_length_of_the_whole_vector(drawn, mechanism, data):
    k, rows = drawn
    residual = data.draw(st.lists(numbers, min_size=k, max_size=k))
    output_rdr, loss = compute_ex_post(make_contributions(rows, k=k), np.array(residual), mechanism, 2.0)
    power = mechanism.norm
    unit = 2.0 if power == 1 else 8.0
    for row, got_rdr, got_loss in zip(rows, output_rdr, loss, strict=True):
        exact_residual = [Fraction(value) for value in residual]
        without = [value + Fraction(row.get(cell, 0.0)) for cell, value in enumerate(exact_residual)]
        moved, stayed = (sum(abs(value) ** power for value in vector) for vector in (without, exact_residual))
        assert got_rdr == pytest.approx(float(moved) ** (1 / power), rel=1e-7, abs=1e-6)
        assert got_loss == pytest.approx(float(moved - stayed) / unit, rel=1e-10, abs=1e-10)


def test_an_output_that_fits_the_dataset_without_a_person_keeps_its_digits():
    """Noise of 1e8 in the cells of one group and 1e-3 elsewhere: total − touched would be off by its whole size."""
    residual = np.array([1e-3, 1e8, -3e8, 1e-3])
    output_rdr, _ = compute_ex_post(make_contributions([{1: -1e8, 2: 3e8}], k=4), residual, GAUSSIAN, 1.0)
    assert output_rdr[0] == pytest.approx(math.sqrt(2) * 1e-3, rel=1e-12)


def test_loss_never_exceeds_the_own_guarantee_under_laplace():
    rng = np.random.default_rng(4)
    rows = [{cell: float(rng.integers(-4, 5)) for cell in rng.choice(5, 2, replace=False)} for _ in range(50)]
    contributions = make_contributions(rows, k=5)
    _, loss = compute_ex_post(contributions, rng.integers(-9, 9, 5).astype(float), LAPLACE, 8.0)
    own = own_epsilon(contributions.norms(1), LAPLACE, sensitivity=8.0, scale=8.0, epsilon=1.0)
    assert np.all(np.abs(loss) <= own)


def test_without_noise_the_loss_is_infinite_for_whoever_moved_the_answer():
    output_rdr, loss = compute_ex_post(make_contributions([{}, {0: -2.0}], k=2), np.zeros(2), LAPLACE, 0.0)
    assert output_rdr.tolist() == [0.0, 2.0]
    assert loss.tolist() == [0.0, math.inf]


def test_a_residual_needs_every_cell():
    with pytest.raises(ValueError, match="per cell"):
        compute_ex_post(make_contributions([{0: 1.0}], k=2), np.zeros(1), LAPLACE, 1.0)
