"""Groups that nobody declared (H1) on the decision page: which of them an answer would show. For controllers only.

Takes a MeasuredQuery; gives sentences. Computes only with what is measured.
"""

from __future__ import annotations

from dosimeter.show import format_epsilon, format_small
from dosimeter.web.decision.measured import MeasuredQuery


def describe_shown(measured: MeasuredQuery, epsilon: float) -> tuple[str, ...]:
    """Return which groups would be shown at this ε, in sentences; none if the groups are declared."""
    found, line, threshold = measured.shown, measured.shown_at(epsilon), measured.risk.plan.threshold
    if found is None or line is None:
        return ()
    called = measured.risk.plan.words
    hidden = (
        f"{line.hidden_people:,} of {called.count_people(found.people)} are in groups that would hardly ever be shown."
    )
    if threshold is not None and threshold.most > 1:
        hidden = (
            f"Somebody can be in several groups and counts once in each. Of these {found.people:,} places in groups, "
            f"{line.hidden_people:,} are in groups that would hardly ever be shown."
        )
    groups = "1 group" if found.observed == 1 else f"{found.observed:,} groups"
    return (
        f"Nobody declared these groups: the data have {groups}, and an answer at ε = {format_epsilon(line.epsilon)} "
        f"would show about {line.expected:,.1f} of them. A group of {called.count_people(line.threshold)} has an even "
        "chance, a larger one a better one.",
        hidden,
        f"Somebody alone in a group shows up with a chance of at most {format_small(found.group_delta)}: the δ that "
        "each answer is charged.",
    )
