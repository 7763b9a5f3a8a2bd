"""From measured numbers, exact or noisy, to the answer that was asked for, with its errors.

Takes a plan and numbers; gives rows. Never sees data: its SQL runs in an embedded engine that holds these numbers and
public tables alone.
"""

from typing import TYPE_CHECKING

from dosimeter.late_names import load_late
from dosimeter.postprocess.accuracy import ColumnAccuracy, error_95, foresee_accuracy, keep_worst, list_group_errors
from dosimeter.postprocess.answers import AssembledAnswer, assemble_answer, assemble_groups, list_released_groups
from dosimeter.postprocess.cell_errors import Noise, measure_scales, needs_values
from dosimeter.postprocess.computed_estimates import estimate_group, find_counts, name_measure
from dosimeter.postprocess.enough_rows import find_enough_rows, name_rows, word_enough_rows
from dosimeter.postprocess.plain_answer import PlainAnswer
from dosimeter.postprocess.quotients import list_estimates
from dosimeter.postprocess.rank_accuracy import count_drawn, find_rank_columns, rank_errors, tell_ranks
from dosimeter.postprocess.released_rows import Keys, Numbers
from dosimeter.postprocess.told_counts import find_told, withhold_errors, word_told

if TYPE_CHECKING:
    from dosimeter.postprocess.about import explain_with_errors, list_facts, note_public_facts, word_facts

__getattr__ = load_late(__name__, {"about": ("explain_with_errors", "list_facts", "note_public_facts", "word_facts")})
