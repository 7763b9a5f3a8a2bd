"""Groups that nobody declared (H1) on the decision page: which of them an answer would show. For controllers only.

Takes a MeasuredQuery; gives rows for a table and sentences. Computes only with what is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from dosimeter.risk import ShownAt, ShownGroups
from dosimeter.show import format_epsilon, format_people, format_small
from dosimeter.web.decision.measured import MeasuredQuery


@dataclass(frozen=True, slots=True, repr=False)
class GroupsRow:
    """How many groups an answer at one ε would show, as text. ``groups``: how many are expected.

    ``people``: with how many people a group has an even chance to be shown. ``hidden``: how many people are in groups
    that are hardly ever shown; somebody in several groups counts once in each. ``selected``: whether the slider is at
    this ε.
    """

    epsilon: str
    selected: bool
    groups: str
    people: str
    hidden: str


@dataclass(frozen=True, slots=True, repr=False)
class GroupsView:
    """Which groups an answer would show: in words at the selected ε, and in a row for each ε."""

    sentences: tuple[str, ...]
    rows: tuple[GroupsRow, ...]


def view_groups(measured: MeasuredQuery, epsilon: float) -> GroupsView | None:
    """Return which groups would be shown at this ε and at the others; None if the groups are declared."""
    found, line = measured.shown, measured.shown_at(epsilon)
    if found is None or line is None:
        return None
    rows = [_write_row(found, each, epsilon) for each in sorted(found.lines, key=lambda each: -each.epsilon)]
    threshold = measured.risk.plan.threshold
    return GroupsView(_say_which(found, line, several=threshold is not None and threshold.most > 1), tuple(rows))


def _say_which(found: ShownGroups, line: ShownAt, *, several: bool) -> tuple[str, ...]:
    """Return which groups would be shown, in sentences. ``several``: whether somebody can be in several groups."""
    hidden = f"{line.hidden_people:,} of {format_people(found.people)} are in groups that would hardly ever be shown."
    if several:
        hidden = (
            f"Somebody can be in several groups and counts once in each. Of these {found.people:,} places in groups, "
            f"{line.hidden_people:,} are in groups that would hardly ever be shown."
        )
    groups = "1 group" if found.observed == 1 else f"{found.observed:,} groups"
    return (
        f"Nobody declared these groups: the data have {groups}, and an answer at ε = {format_epsilon(line.epsilon)} "
        f"would show about {line.expected:,.1f} of them. A group of {format_people(line.threshold)} has an even "
        "chance, a larger one a better one.",
        hidden,
        f"Somebody alone in a group shows up with a chance of at most {format_small(found.group_delta)}: the δ that "
        "each answer is charged.",
    )


def _write_row(found: ShownGroups, line: ShownAt, selected: float) -> GroupsRow:
    return GroupsRow(
        epsilon=format_epsilon(line.epsilon),
        selected=line.epsilon == selected,
        groups=f"{line.expected:,.1f} of {found.observed:,}",
        people=format_people(line.threshold),
        hidden=f"{line.hidden_people:,} of {found.people:,}",
    )
