"""A Choice: the ε that a preference finds, the candidates it was found among, and what is worth saying about it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property

from dosimeter.findings.finding import Finding
from dosimeter.findings.sentences import word, word_all
from dosimeter.findings.starting import Start
from dosimeter.findings.telling import tell
from dosimeter.findings.verdict import Verdict, judge
from dosimeter.html import Private, write_paragraphs, write_table
from dosimeter.json_values import JsonObject
from dosimeter.risk import NO_ERROR, Candidate, ConditionRange, Preference, find_safe
from dosimeter.schema import Words


@dataclass(frozen=True, repr=False)
class Choice(Private):
    """The result of finding ε from a preference. ``epsilon``: the largest candidate that meets it; None if none does.

    ``preference``: as it was understood, its text and its preset among it. ``limit``: the exact largest ε, if there is
    such a number (F2). ``candidates``: each ε that was tested, with its risks and accuracy. ``empty_filters``: the
    FILTERs of the preference that match nobody: their aggregates are NULL, and a comparison with NULL is not met.
    ``decides``: whether some candidate meets the preference and another does not (F4). ``limit_cell`` and
    ``epsilon_cell``: the exact limit and the ε by the cell indicator (R11). ``conflict``: conditions of the preference
    that no candidate meets together, if it has several and no candidate meets them all. ``meeting_people``: where some
    of its conditions read errors of the answer, the candidates that meet all others; none if there are no others.
    ``called``: what rows and people are called.
    """

    preference: Preference
    epsilon: float | None
    limit: float | None
    candidates: tuple[Candidate, ...]
    empty_filters: tuple[str, ...]
    decides: bool
    limit_cell: float | None
    epsilon_cell: float | None
    conflict: tuple[ConditionRange, ...]
    meeting_people: tuple[float, ...]
    called: Words
    _look: Callable[[Choice], tuple[Finding, ...]] = field(compare=False)
    _begin: Callable[[Choice], Start] = field(compare=False)
    _judge: Callable[[Choice, float], tuple[Finding, ...]] = field(compare=False)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Return everything that is worth saying about this choice, in the order in which it is told."""
        return self._look(self)

    @cached_property
    def start(self) -> Start:
        """Return the ε to start from, and why; its ε is None if no candidate may be taken."""
        return self._begin(self)

    def judge(self, epsilon: float | None) -> tuple[Verdict, tuple[Finding, ...]]:
        """Return the verdict on taking a candidate, and the findings that it follows from.

        ``epsilon``: None where no candidate may be taken: then the verdict is against.
        """
        if epsilon is None:
            return Verdict.AGAINST, self.findings
        found = self._judge(self, epsilon)
        return judge(found), found

    def describe_verdict(self, given: float | None = None) -> JsonObject:
        """Return the start, and the verdict and the findings there, as JSON has them.

        ``given``: one of the candidates to start from, where the ε was given.
        """
        start = self.start if given is None else Start(given, "given")
        verdict, found = self.judge(start.epsilon)
        listed = [{**each.describe(), "text": word(each, self.called)} for each in found]
        return {"start": start.describe(), "verdict": verdict.value, "findings": listed}

    def describe_candidates(self, *, judged: bool) -> list[JsonObject]:
        """Return every candidate as JSON has it, with its verdict. ``judged``: also whether it meets the preference."""
        lines = ((line, self.judge(line.epsilon)[0]) for line in self.candidates)
        return [line.describe(judged=judged) | {"verdict": verdict.value} for line, verdict in lines]

    @property
    def words(self) -> tuple[str, ...]:
        """Return the advice, in sentences: which ε is found, where to start, the verdict there, what else is told."""
        return self.tell()

    def tell(self, *, aside: bool = True) -> tuple[str, ...]:
        """Return the advice, in sentences. ``aside``: also what a page shows on demand only."""
        return tell(self.findings, self.start, self.judge(self.start.epsilon)[1], self.called, aside=aside)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what else a controller should know, in sentences."""
        return word_all((each for each in self.findings if each.is_note), self.called)

    @cached_property
    def meeting(self) -> tuple[float, ...]:
        """Return the candidates that meet the preference, whether the account allows them or not."""
        return tuple(line.epsilon for line in self.candidates if line.satisfied)

    @property
    def undecided(self) -> bool:
        """Return whether every candidate meets the preference, so that it finds no ε (F4)."""
        return not self.decides and bool(self.meeting)

    @cached_property
    def unlimited(self) -> bool:
        """Return whether the preference limits no risk: every candidate meets all of it that is not about errors."""
        asked = self.preference
        if self.undecided or not asked.about_errors or not self.meeting:
            return self.undecided
        by_people = len(self.meeting_people) == len(self.candidates)
        return not asked.limits_risk or (by_people and not asked.limits_absolute)

    @property
    def is_cautious(self) -> bool:
        """Return whether absolute risks are limited, and nobody's membership advantage exceeds 0.25 at any candidate.

        So it can be where few candidates are looked at: that all of them meet the preference is no fault of it then.
        """
        largest = max(line.epsilon for line in self.candidates)
        return self.preference.limits_absolute and find_safe(self.candidates) == largest

    def find_granted(self, granted: Collection[float]) -> float | None:
        """Return the largest candidate that meets the preference, of those that are granted; None if there is none."""
        return max((epsilon for epsilon in self.meeting if epsilon in granted), default=None)

    @property
    def asked(self) -> str:
        """Return the preference's text; for a preset, its name and its condition."""
        text, preset = self.preference.text, self.preference.preset
        return text if preset is None else f"{preset} ({text})"

    def _repr_html_(self) -> str:
        """Show the choice in a notebook. It is private: whoever shares the notebook shares it."""
        columns = ["ε", "noise scale", "95 % error", "least ÷ most exposed", "advantage", "meets it"]
        rows = [
            (
                line.epsilon,
                "none" if line.noise_scale is None else line.noise_scale,
                ", ".join(
                    NO_ERROR if error is None else f"± {error:.4g}{f' {self.called.rows}' * in_rows}"
                    for error, in_rows in line.errors
                ),
                line.rdr.ratio,
                None if line.absolute is None else line.absolute.advantage,
                {True: "yes", False: "no", None: None}[line.satisfied],
            )
            for line in self.candidates
        ]
        return write_paragraphs([self.asked, *self.words]) + write_table(columns, rows) + write_paragraphs(self.notes)
