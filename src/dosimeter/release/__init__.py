"""Release an answer: check, find ε, reserve the charge, draw noise, settle. This order holds even if something crashes.

Takes what can be measured, a plan and a ledger; gives an Answer, or a dry run of one. The package's only randomness,
and its only use of OpenDP, are in ``noise``.
"""

from typing import TYPE_CHECKING

from dosimeter.late_names import load_late
from dosimeter.release.account_terms import agree_on_terms, expect_charges, find_charges, find_people
from dosimeter.release.costs import find_costs, find_objection, find_refusal
from dosimeter.release.noise import add_noise, calibrate, draw_discrete_laplace
from dosimeter.release.options import read_way, split_options
from dosimeter.release.order import Answer, PreparedRelease, ReleaseOrder, Terms
from dosimeter.release.prepare import prepare_release
from dosimeter.release.previews import Cost
from dosimeter.release.prices import charge_plan
from dosimeter.release.run import recall_answer, release
from dosimeter.release.selection import (
    SelectionProblem,
    is_two_valued,
    outcome_distribution,
    select_epsilon,
    split_budget,
    svt_sensitivity,
    violation_share,
)
from dosimeter.release.ways.fixed import Fixed
from dosimeter.release.ways.preferred import Preferred
from dosimeter.release.ways.selected import Selected, SelectedPreview
from dosimeter.release.ways.way import Way

if TYPE_CHECKING:
    from dosimeter.release.dry_run import DryRun, preview_release
    from dosimeter.release.ex_post import ExPostRisk, ex_post_risk, recall_look, recall_plan_options
    from dosimeter.release.facts.declared import declare_facts, plan_search
    from dosimeter.release.facts.entries import FACT_COLUMNS, holds_facts, name_question
    from dosimeter.release.facts.questions import FactSearch
    from dosimeter.release.facts.spending import FoundSchema, expect_search, prepare_search, spend_on_schema
    from dosimeter.release.invented import answer_on_invented_rows
    from dosimeter.release.record_page import write_record
    from dosimeter.release.saved_files import (
        check_target,
        describe_release,
        find_companion,
        save_answer,
        write_files,
    )

__getattr__ = load_late(
    __name__,
    {
        "dry_run": ("DryRun", "preview_release"),
        "ex_post": ("ExPostRisk", "ex_post_risk", "recall_look", "recall_plan_options"),
        "facts.entries": ("FACT_COLUMNS", "holds_facts", "name_question"),
        "facts.declared": ("declare_facts", "plan_search"),
        "facts.questions": ("FactSearch",),
        "facts.spending": ("FoundSchema", "expect_search", "prepare_search", "spend_on_schema"),
        "invented": ("answer_on_invented_rows",),
        "record_page": ("write_record",),
        "saved_files": ("check_target", "describe_release", "find_companion", "save_answer", "write_files"),
    },
)
