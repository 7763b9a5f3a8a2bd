"""From noisy numbers to the answer that was asked for: quotients, HAVING, ORDER BY, LIMIT, errors.

Takes a plan and the numbers that left a mechanism; gives rows. Never sees data and uses no engine.
"""

from dosimeter.postprocess.answers import (
    assemble_answer,
    cap_errors,
    error_95,
    estimate_group,
    needs_values,
    select_shown,
)

__all__ = ["assemble_answer", "cap_errors", "error_95", "estimate_group", "needs_values", "select_shown"]
