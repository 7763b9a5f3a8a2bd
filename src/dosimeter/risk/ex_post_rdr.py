"""How exposed everybody is by an answer that was already drawn (R1, R2). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dosimeter.arrays import sum_rows
from dosimeter.influence import Contributions

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray
    from dosimeter.mechanisms import Mechanism


def compute_ex_post(
    contributions: Contributions, residual: FloatArray, mechanism: Mechanism, scale: float
) -> tuple[FloatArray, FloatArray]:
    """Return the RDR for this output (R1) and the privacy loss (R2), each as one number per row of the contributions.

    ``residual``: o − q(x), the noise that was drawn, one number per cell. ``scale``: the noise scale.
    """
    if len(residual) != contributions.k:
        raise ValueError("the residual needs one number per cell")
    rows = contributions.normalise()
    here = residual[rows.cells]
    without = here + rows.changes  # o − q(x₋ᵢ) = residual + c_i
    difference = sum_rows(mechanism.mass_change(here, rows.changes), rows.starts)
    total = _sum_untouched(rows, mechanism.mass(residual)) + sum_rows(mechanism.mass(without), rows.starts)
    output_rdr = mechanism.distance(total)  # R1
    loss = np.zeros_like(difference)
    with np.errstate(divide="ignore"):  # no noise at all: an infinite loss for whoever moved the answer
        np.divide(difference, mechanism.loss_unit(scale), out=loss, where=difference != 0.0)  # R2
    return output_rdr, loss


def _sum_untouched(rows: Contributions, mass: FloatArray) -> FloatArray:
    """Return, for each row, the sum of ``mass`` over the cells that the row does not change, in O(changes + cells).

    ``mass``: one number per cell. The cells before the row's first change, between its changes and after its last are
    added up. Subtracting the changed cells from the total instead would leave a rounding error in proportion to what is
    subtracted.
    """
    before = np.append(0.0, np.cumsum(mass))
    after = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
    previous = np.append(-1, rows.cells[:-1])
    filled = np.flatnonzero(np.diff(rows.starts))
    previous[rows.starts[filled]] = -1
    sums = sum_rows(before[rows.cells] - before[previous + 1], rows.starts)
    last = np.full(len(rows.people), -1)
    last[filled] = rows.cells[rows.starts[filled + 1] - 1]
    sums += after[last + 1]
    return sums
