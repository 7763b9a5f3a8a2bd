"""How a controller decides one query: what is measured, shown, costed, approved or sent back, each once.

Takes a stored query, the server's state and the fields of a form; gives the decision page and the outcome. Never draws
noise and never charges an account by itself: ``approve`` hands an order to ``dosimeter.release``.
"""

from dosimeter.web.decision.approve import (
    AlreadyDecided,
    Approval,
    ask_for_changes,
    claim_query,
    deny_query,
    find_earlier,
    reconcile,
    repeat_answer,
    run_release,
    settle_left,
)
from dosimeter.web.decision.case import (
    Case,
    find_case,
    find_exhibit,
    list_identifying,
    needs_consent,
    note_look,
    renew_digest,
    state_preference,
)
from dosimeter.web.decision.conditions import admit_condition
from dosimeter.web.decision.costs import ALGORITHMS, count_cost, describe_policy, explain_refusal, find_worst
from dosimeter.web.decision.displaced import MOST_LOOKED_AT, Squeezed, list_squeezed
from dosimeter.web.decision.form import Wish, read_fields, recall_wish, write_query
from dosimeter.web.decision.measured import Exhibit
from dosimeter.web.decision.page import _preview, _read, read_own_fields, show_decision
from dosimeter.web.decision.view import describe_person, round_down

__all__ = [
    "ALGORITHMS",
    "MOST_LOOKED_AT",
    "AlreadyDecided",
    "Approval",
    "Case",
    "Exhibit",
    "Squeezed",
    "Wish",
    "_preview",
    "_read",
    "admit_condition",
    "ask_for_changes",
    "claim_query",
    "count_cost",
    "deny_query",
    "describe_person",
    "describe_policy",
    "explain_refusal",
    "find_case",
    "find_earlier",
    "find_exhibit",
    "find_worst",
    "list_identifying",
    "list_squeezed",
    "needs_consent",
    "note_look",
    "read_fields",
    "read_own_fields",
    "recall_wish",
    "reconcile",
    "renew_digest",
    "repeat_answer",
    "round_down",
    "run_release",
    "settle_left",
    "show_decision",
    "state_preference",
    "write_query",
]
