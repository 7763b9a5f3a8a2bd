"""From noisy numbers to the answer that was asked for: quotients, everything after the noise, errors.

Takes a plan and the numbers that left a mechanism; gives rows. Never sees data: what it computes with SQL runs in an
embedded engine that holds these numbers alone.
"""

from dosimeter.postprocess.answers import Assembled, Cell, assemble_answer, assemble_cells
from dosimeter.postprocess.errors import cap_errors, error_95, measure_scales, needs_values
from dosimeter.postprocess.estimates import estimate_group

__all__ = [
    "Assembled",
    "Cell",
    "assemble_answer",
    "assemble_cells",
    "cap_errors",
    "error_95",
    "estimate_group",
    "measure_scales",
    "needs_values",
]
