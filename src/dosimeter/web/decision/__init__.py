"""Help a controller decide one query: measure and show the risk, say what an answer costs, approve, deny or send back.

A query is decided once. Takes a stored query, the server's state and the fields of a form; gives the decision page and
the outcome. Never draws noise and never charges an account by itself: ``approve`` hands an order to
``dosimeter.release``.
"""

from dosimeter.web.decision.accuracy import list_numbers
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
    settle_unfinished,
)
from dosimeter.web.decision.budget import describe_account
from dosimeter.web.decision.case import (
    AskedQuery,
    Case,
    CaseOf,
    Measurement,
    UndecidedCase,
    ask_of_people,
    find_measurement,
    find_shared,
    list_identifying,
    needs_consent,
    note_look,
    read_preference,
    renew_digest,
)
from dosimeter.web.decision.conditions import REVEALED, admit_condition
from dosimeter.web.decision.confirmation import DENY_REASONS, REPEAT_REASONS, describe_confirmation, is_looser
from dosimeter.web.decision.displaced import MOST_LOOKED_AT, list_displaced
from dosimeter.web.decision.form import DecisionForm, read_fields, recall_form, word_condition, write_query
from dosimeter.web.decision.offer import UNEVALUATED, make_offer
from dosimeter.web.decision.page import (
    PARTS,
    MeasuringPage,
    UnseenPage,
    build_page,
    read_own_fields,
    show_decision,
    show_earlier,
)
from dosimeter.web.decision.standard import list_allowed, read_standards
from dosimeter.web.decision.view import round_down
