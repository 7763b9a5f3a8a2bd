"""Influences for the tests of formulas over them: written as one {cell: change} per row, or drawn."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from dosimeter.influence.contributions import Contributions
from dosimeter.mechanisms import Gaussian, Laplace
from dosimeter.risk.exposure import Sensitivities
from dosimeter.risk.rdr import compute_rdr

LAPLACE = Laplace()
GAUSSIAN = Gaussian(1e-6)


def make_contributions(rows, *, k, people=None, attributes=None):
    """From a list of {cell: change}."""
    people = [1] * len(rows) if people is None else people
    return Contributions(
        k=k,
        people=np.array(people, dtype=np.int64),
        starts=np.array([0, *itertools.accumulate(len(row) for row in rows)], dtype=np.int64),
        cells=np.array([cell for row in rows for cell in row], dtype=np.int64),
        changes=np.array([change for row in rows for change in row.values()], dtype=np.float64),
        attributes={name: np.array(column) for name, column in (attributes or {}).items()},
    )


def make_dense(cells, changes, *, k):
    """From arrays with one row per person, each of as many cells."""
    n, width = cells.shape
    starts = np.arange(0, n * width + 1, width)
    return Contributions(k, np.ones(n, dtype=np.int64), starts, cells.ravel(), changes.ravel())


def list_rows(contributions):
    bounds = itertools.pairwise(contributions.starts.tolist())
    cells, changes = contributions.cells.tolist(), contributions.changes.tolist()
    return [dict(zip(cells[low:high], changes[low:high], strict=True)) for low, high in bounds]


def make_sensitivities(values, *, k, counts=None, vectors=None):
    counts = [1] * len(values) if counts is None else counts
    return Sensitivities(np.array(values, dtype=np.float64), np.array(counts, dtype=np.int64), k, vectors)


def rdr(sensitivities, mechanism, *, scale, indicator, grids=(1.0,), sensitivity=1.0, epsilon=1.0):
    return compute_rdr(
        sensitivities,
        mechanism,
        sensitivity=sensitivity,
        scale=scale,
        epsilon=epsilon,
        indicator=indicator,
        grids=np.array(grids, dtype=np.float64),
    )


def length(vector, norm):
    return math.fsum(map(abs, vector)) if norm == 1 else math.sqrt(math.fsum(v * v for v in vector))


numbers = st.one_of(st.integers(-20, 20).map(float), st.floats(-50, 50).filter(lambda v: v == 0 or abs(v) > 1e-6))


@st.composite
def sparse_rows(draw, max_k=6, max_rows=12, values=numbers, max_cells=6):
    k = draw(st.integers(1, max_k))
    row = st.dictionaries(st.integers(0, k - 1), values, max_size=max_cells)
    return k, draw(st.lists(row, min_size=1, max_size=max_rows))
