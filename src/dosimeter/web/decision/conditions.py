"""Conditions that a controller writes: record each, and refuse one that names people before people are revealed.

A condition on `name = 'Yusuf Demir'` tells whether he is in the answer. So does *Reveal*, which shows the identifying
columns of the most exposed people: a controller must choose it before such a condition.
"""

from __future__ import annotations

from dosimeter.errors import PreferenceError, QueryError
from dosimeter.planning import QueryPlan, list_identifying, name_columns
from dosimeter.risk import Preference
from dosimeter.web.decision.form import find_preset
from dosimeter.web.state import ServerState
from dosimeter.web.store import StoredQuery, User

REVEALED = "revealed"  # the identifying columns of the people whom a query exposes most were shown to a session


def admit_condition(
    state: ServerState, user: User, query: StoredQuery, plan: QueryPlan, preference: Preference
) -> None:
    """Record a preference that a controller wrote, and refuse it if it names people who were not revealed.

    Raises PreferenceError if it mentions a column that identifies people and this session has not revealed the people
    of this query, or if its FILTER cannot be used. The attempt is recorded all the same, once per session, query and
    text. Preferences that cannot name anybody are admitted without a record: a preset, a limit on least ÷ most exposed
    of all people, and one on the variance of their RDRs.
    """
    if preference.kind in ("ratio", "variance") or find_preset(preference):
        return
    state.note_once(user, "tried a condition", dataset=query.dataset, query_id=query.id, detail=preference.text)
    try:
        named = sorted(name_columns(plan, preference.filters.values()) & list_identifying(plan))
    except QueryError as error:
        raise PreferenceError(*error.problem.pieces) from None
    if named and not state.is_noted(REVEALED, user.session, query.id):
        raise PreferenceError(
            f"A condition on {', '.join(named)} tells who is in the answer. Choose Reveal under Most exposed first; "
            "that and the condition are in the audit log under your name."
        )
