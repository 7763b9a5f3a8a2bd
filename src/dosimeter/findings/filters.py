"""Filters of the list of findings: which kinds each place of a page shows, in the order of the list."""

from __future__ import annotations

from collections.abc import Iterable

from dosimeter.findings import on_answer as answer
from dosimeter.findings import on_people as people
from dosimeter.findings.finding import Finding

Kinds = tuple[type[Finding], ...]

CAUTIONS: Kinds = (
    people.SinglesOut,
    people.NobodyTouched,
    people.FewTouched,
    people.FewInGroup,
    people.DecidesNothing,
    people.NobodyMoves,
    people.AllowedByGroups,
)
"""What a controller must read first."""

GIVEN: Kinds = (
    answer.Finds,
    answer.AllMeet,
    answer.NoneMeets,
    answer.NoValue,
    answer.MetButNotGranted,
    people.EquallyExposed,
)
"""Which ε the preference gives, or why none."""

STATES: Kinds = (answer.Conflict, people.Cautious, people.NoneCautious, people.LooserThanOwn)
"""What is unusual about the preference here."""

NEXT: Kinds = (answer.StepTo,)
"""What the next candidates would change."""

ON_DEMAND: Kinds = (people.Suspicion, people.GuessedFact, people.PickedOut)
"""What is told on demand: more about the most exposed than the verdict and the presets use."""

BY_VERDICT: Kinds = (people.Cautious, answer.WorthLittle)
"""What the verdict on the ε to start from, and why it is that, say already."""


def pick(findings: Iterable[Finding], kinds: Kinds) -> list[Finding]:
    """Return the findings of these kinds."""
    return [each for each in findings if isinstance(each, kinds)]
