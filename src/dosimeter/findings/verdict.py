"""The verdict on an approval: a function of the findings, so that it cannot contradict them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from dosimeter.findings import on_account as account
from dosimeter.findings import on_answer as answer
from dosimeter.findings import on_left_out as left
from dosimeter.findings import on_people as people
from dosimeter.findings.finding import Finding, Subject, Weight
from dosimeter.findings.sentences import word, word_all
from dosimeter.schema import PLAIN, Words


class Verdict(Enum):
    """What findings speak for. ``OPEN``: nothing speaks against it, and something is to be looked at."""

    FOR = "for"
    AGAINST = "against"
    OPEN = "open"


def judge(findings: Iterable[Finding]) -> Verdict:
    """Return the verdict: against if anything speaks against it, open if anything warns, otherwise for."""
    weights = {each.weight for each in findings}
    if Weight.AGAINST in weights:
        return Verdict.AGAINST
    return Verdict.OPEN if Weight.WARNING in weights else Verdict.FOR


@dataclass(frozen=True, slots=True, repr=False)
class SummaryLine:
    """One line of the summary. ``name``: what it is about, such as "Risk"."""

    name: str
    verdict: Verdict
    words: str


@dataclass(frozen=True, slots=True, repr=False)
class Summary:
    """A decision in short. ``lines``: risk, answer and, if the account grants it, cost. ``advice``: what to do.

    The advice repeats no sentence of the lines.
    """

    lines: tuple[SummaryLine, ...]
    verdict: Verdict
    advice: str

    @property
    def told(self) -> str:
        """Return the sentences of the lines."""
        return " ".join(line.words for line in self.lines)

    def write(self) -> tuple[str, ...]:
        """Return each line with its mark, and last what to do, as text."""
        lines = (f"{_MARKS[line.verdict]} {line.name}: {line.words}" for line in self.lines)
        return (*lines, self.advice)


_MARKS: Mapping[Verdict, str] = {Verdict.FOR: "✓", Verdict.AGAINST: "✗", Verdict.OPEN: "·"}

_LINES: Mapping[str, tuple[Subject, tuple[type[Finding], ...]]] = {
    "Risk": (
        Subject.PEOPLE,
        (
            people.NobodyTouched,
            people.FewTouched,
            people.FewInGroup,
            people.TestAtWorst,
            people.BeyondStandard,
            people.MetByAll,
            people.NoLimitOnRisk,
            people.MeetsPreference,
            people.FailsByAccuracy,
            people.FailsPreference,
            people.FoundFromData,
            people.RightGuesses,
        ),
    ),
    "Answer": (
        Subject.ANSWER,
        (
            answer.AsExactAsAsked,
            answer.NotAsExactAsAsked,
            answer.WorthLittle,
            answer.AnyValue,
            left.NumbersOff,
            left.BiasUnknown,
            answer.Errors,
            answer.WideBounds,
            left.ManyOutsideGroups,
        ),
    ),
    "Cost": (Subject.COST, (account.Spends, account.AnswersLeft)),
}
"""Each line with what it is about, and the findings that it tells."""

APPROVING: tuple[type[Finding], ...] = (people.MeetsPreference, answer.AsExactAsAsked)

TOLD: tuple[type[Finding], ...] = tuple(kind for _, kinds in _LINES.values() for kind in kinds)
"""The findings that the lines tell."""

_WHAT_TO_DO: Mapping[type[Finding], str] = {
    people.SinglesOut: "Deny it, or ask for changes.",
    people.NobodyTouched: "Deny it, or ask for changes.",
    people.BeyondStandard: "Deny it, or ask for changes; stricter settings would find less.",
    people.FailsPreference: "Choose another, or ask for changes.",
    people.FailsByAccuracy: "Choose another preference, or ask for changes.",
    people.FewTouched: "Ask for changes, unless the purpose is worth exposing them.",
    people.FewInGroup: "Ask for larger groups, unless the purpose is worth exposing them.",
    answer.NotAsExactAsAsked: "Ask whether a larger error would do.",
}
"""What to do about a finding that speaks against an approval."""


def summarize(findings: Sequence[Finding], called: Words = PLAIN) -> Summary:
    """Return the decision in short: a line each on risk, answer and cost, and what to do.

    ``called``: what rows and people are called.
    """
    lines = []
    for name, (about, told) in _LINES.items():
        own = [each for each in findings if each.about is about]
        verdict = judge(own)
        unsaid = _belie(verdict, findings)
        listed = (each for kind in told for each in findings if isinstance(each, kind))
        shown = [each for each in listed if not isinstance(each, unsaid) and not _is_slight(each)]
        if shown:
            against = [each for each in own if each.weight is Weight.AGAINST]
            if not any(isinstance(each, TOLD) for each in against):  # what speaks against it comes first
                shown = [*against[:1], *shown]
            approving = not isinstance(shown[0], (account.Spends, people.FailsByAccuracy))
            if verdict is Verdict.FOR and not approving:
                verdict = Verdict.OPEN  # a cost speaks for nothing, and nor does what fails by accuracy
            lines.append(SummaryLine(name, verdict, " ".join(word_all(shown, called))))
    verdict, said = judge(findings), " ".join(line.words for line in lines)
    advice = _advise(findings, verdict, called)
    return Summary(tuple(lines), verdict, " ".join([each for each in advice if each not in said] or advice))


def _is_slight(found: Finding) -> bool:
    """Return whether what is left out moves the numbers by so little that only a note says it."""
    return isinstance(found, left.NumbersOff) and found.relative < left.SLIGHT


def _belie(verdict: Verdict, findings: Sequence[Finding]) -> tuple[type[Finding], ...]:
    """Return the kinds of findings that a line must not tell, since its mark or another sentence says otherwise."""
    approving = APPROVING if verdict is Verdict.AGAINST else ()
    hidden = any(isinstance(each, people.FoundFromData) for each in findings)  # no limit holds (G2)
    return (*approving, people.RightGuesses) if hidden else approving


def _advise(findings: Sequence[Finding], verdict: Verdict, called: Words) -> list[str]:
    """Return what the findings speak for: about the gravest that speaks against it, or what is left to judge."""
    last = [each for each in findings if isinstance(each, account.TakesAllLeft)]
    if verdict is Verdict.AGAINST:
        first = next(each for each in findings if each.weight is Weight.AGAINST)
        if isinstance(first, (people.FailsByAccuracy, answer.NotAsExactAsAsked)):  # a bias that no ε mends comes first
            first = next((each for each in findings if isinstance(each, left.NumbersFarOff)), first)
        return [*_advise_against(first, findings, called), *word_all(last)]
    if verdict is Verdict.FOR:
        return ["Nothing here speaks against it. Judge the purpose."]
    warned = any(each.weight is Weight.WARNING and each.about is Subject.PEOPLE for each in findings)
    rough = any(isinstance(each, (answer.Rough, answer.WideBounds)) for each in findings)
    told = [*(["Weigh the risk."] if warned else []), *word_all(last)]
    return [*told, word(answer.Rough()) if rough else "Judge the purpose."]


def _find_what_to_do(first: Finding, findings: Sequence[Finding]) -> str:
    """Return what to do about the gravest finding; "" if there is nothing to say."""
    if isinstance(first, left.NumbersFarOff):
        more = [*(["rows"] if first.cut else []), *(["values"] if first.clamped or not first.cut else [])]
        return f"Ask for changes, or let more {' and '.join(more)} count."
    by_groups = any(isinstance(each, answer.Errors) and not each.alone for each in findings)
    if isinstance(first, people.FailsByAccuracy) and first.found is None and by_groups:
        return "Ask for larger groups, or choose another preference."
    return _WHAT_TO_DO.get(type(first), "")


def _advise_against(first: Finding, findings: Sequence[Finding], called: Words) -> list[str]:
    """Return the sentences on the gravest finding, and on what would help."""
    if not isinstance(first, (answer.WorthLittle, answer.AnyValue)):
        fits = isinstance(first, answer.NotAsExactAsAsked) and first.granted and first.meets
        told = [] if isinstance(first, people.SinglesOut) else [word(first, called)]  # that is an alarm by itself
        return [*told, *filter(None, [] if fits else [_find_what_to_do(first, findings)])]
    more = next((each for each in findings if isinstance(each, answer.WorthMoreAt)), None)
    coarser = next((each for each in findings if isinstance(each, answer.CoarserQuery)), None)
    by_groups = any(type(each) is people.AllowedByGroups for each in findings)
    if more is not None and more.meets and not more.few:
        return [word(more)]
    if coarser is not None and not by_groups:
        return ["Ask for changes.", word(coarser)]
    return [*([] if more is None else [word(more)]), "Ask for changes, or deny."]
