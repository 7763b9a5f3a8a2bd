"""Tell findings in sentences: which ε is found, where to start, the verdict there in short, and what else is said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dosimeter.findings import on_answer as answer
from dosimeter.findings import on_people as people
from dosimeter.findings.filters import BY_VERDICT, ON_DEMAND
from dosimeter.findings.finding import Finding
from dosimeter.findings.sentences import word_all
from dosimeter.findings.starting import Start, word_start
from dosimeter.findings.verdict import TOLD, summarize
from dosimeter.schema import Words


def tell(
    findings: Iterable[Finding],
    start: Start,
    judged: Sequence[Finding],
    called: Words,
    *,
    by: str | None = None,
    aside: bool = True,
) -> tuple[str, ...]:
    """Return the advice among ``findings`` in sentences, each thing said once.

    ``judged``: what the verdict at the start follows from. ``by``: the preset that gives the start, where none was
    asked for. ``aside``: also what a page shows on demand only.
    """
    advice = [each for each in findings if each.is_advice and (aside or not isinstance(each, ON_DEMAND))]
    first, further = word_all(advice[:1], called), advice[1:]
    short: tuple[str, ...] = ()
    if any(isinstance(each, answer.AllMeet) for each in advice[:1]):  # which says it already
        judged = [each for each in judged if not isinstance(each, people.MetByAll)]
    if start.epsilon is not None:
        short = summarize(judged, called).write()
        further = [each for each in further if not isinstance(each, (*TOLD, *BY_VERDICT))]
        if not aside and any(isinstance(each, people.AllowedEitherWay) for each in judged):
            further = [each for each in further if not isinstance(each, people.AllowedByGroups)]
    told = [each for each in word_all(further, called) if not any(each in line for line in short)]
    return (*first, word_start(start, by), *short, *told)
