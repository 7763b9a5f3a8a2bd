"""Plan queries: from SQL and a Schema to a QueryPlan, or a refusal that names the clause.

Takes text and public facts; gives the plan, its explanation, and a digest of what it measures. Never opens a
connection.
"""

from typing import TYPE_CHECKING

from dosimeter.late_names import load_late
from dosimeter.planning.after.blocks import name_released, try_after
from dosimeter.planning.after.measuring_select import CELL, RELEASED
from dosimeter.planning.after.public_tables import limit_public_text
from dosimeter.planning.after.row_choice import selects_rows
from dosimeter.planning.identity import digest_measured, knows_earlier_looks
from dosimeter.planning.measured.telling import CUT, can_tell
from dosimeter.planning.measured.thresholding import (
    find_chances,
    find_even_chance,
    read_where,
    require_few_observed,
    require_lookable,
)
from dosimeter.planning.options import PlanOptions, build_mechanism, plan_options, require_drawable
from dosimeter.planning.people.stage import (
    Memberships,
    PersonStage,
    joined_rows,
    list_stages,
    list_trees,
    person_relation,
)
from dosimeter.planning.planner import plan_query
from dosimeter.planning.query_notes import list_columns, list_cut, note_counted_groups, note_values
from dosimeter.planning.query_plan import (
    Group,
    Lookup,
    Output,
    PublicRows,
    PublicTable,
    QueryPlan,
    Threshold,
)
from dosimeter.planning.rows.declared_groups import expect_share
from dosimeter.planning.rows.joins import (
    find_column,
    joined_relation,
    list_identifying,
    list_unit_columns,
    name_columns,
    scope_of,
)
from dosimeter.planning.rows.parsing import write_plainly
from dosimeter.planning.rows.powers import POWERS
from dosimeter.planning.rows.steps import list_read

if TYPE_CHECKING:
    from dosimeter.planning.explain import Explanation, Stages, explain_plan
    from dosimeter.planning.function_names import list_functions
    from dosimeter.planning.less_noise import Change, LessNoise, NoiseAdvice

__getattr__ = load_late(
    __name__,
    {
        "explain": ("Explanation", "Stages", "explain_plan"),
        "function_names": ("list_functions",),
        "less_noise": ("Change", "LessNoise", "NoiseAdvice"),
    },
)
