"""Everything that changes when the slider or the preference moves: words, tables, pictures. For controllers only.

Takes a MeasuredQuery, an Offer, a DecisionForm and the Choice made by it; gives a DecisionView for the templates.
Computes only with what is already measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dosimeter.findings import (
    GIVEN,
    NEXT,
    STATES,
    Choice,
    Finding,
    Summary,
    Weight,
    count_exposed,
    find_accuracy_notes,
    find_enough,
    find_start,
    find_worlds,
    pick,
    summarize,
    word,
    word_all,
)
from dosimeter.findings import on_people as people
from dosimeter.risk import find_safe, is_alike
from dosimeter.schema import Words
from dosimeter.show import (
    count_decimals,
    format_epsilon,
    format_multiple,
    range_axis,
)
from dosimeter.show.charts import Chart, bins_chart, worlds_chart
from dosimeter.web.decision.accuracy import (
    MOST_COLUMNS,
    ColumnError,
    show_errors,
    write_errors,
    write_wanted,
)
from dosimeter.web.decision.budget import CostView, view_cost
from dosimeter.web.decision.form import DecisionForm
from dosimeter.web.decision.measured import MeasuredQuery
from dosimeter.web.decision.offer import Offer
from dosimeter.web.decision.proposal import ASIDE, find_for_approval, list_cautions
from dosimeter.web.decision.tradeoff import (
    CAUTIOUS,
    ENOUGH,
    FOUND,
    SliderScale,
    TradeOff,
    draw_scale,
    draw_tradeoff,
)
from dosimeter.web.decision.undeclared import describe_shown
from dosimeter.web.http import Refused

MOST_NOTES = 4


@dataclass(frozen=True, slots=True)
class SliderStart:
    """The ε at which the slider starts, and a sentence on why."""

    epsilon: float
    why: str


@dataclass(frozen=True, slots=True)
class RiskSentence:
    """One absolute risk as a sentence, or a remark on them. ``icon``: the name of its picture; "note" for a remark.

    ``share``: the chance, or the number of guesses, that the sentence gives, out of 100; 0 if it gives none. ``aside``:
    the page shows it on demand only.
    """

    icon: str
    words: str
    share: float = 0.0
    aside: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class DecisionView:
    """Everything on the decision page that depends on the preference and on ε.

    - The preference, evaluated at every candidate (``choice``). ``line``: why it finds no ε. ``states``: what is
      unusual about it. ``notes``: which ε it finds, and other remarks on its evaluation.
    - The ε at which the slider is (``selected``). ``valuetext``: this ε, whether it meets the preference, and the
      errors, in words. ``refusal``: why this ε may not be approved; None if it may. ``instead``: another ε that may be
      approved; None if none may.
      ``advice``: what to do; "" where ``refusal`` says it all.
    - The answer at this ε. ``steps``: what the next candidates would change. ``wanted``: which ε gives the error that
      the analyst wants. ``column``: the column whose errors are drawn. ``errors``: by ε, of this
      column or of all columns, if these are few.
    - People. ``tail``: how many are most exposed. ``measures``: the absolute risks.
    """

    measured: MeasuredQuery
    offer: Offer
    choice: Choice
    cautions: Sequence[Finding]
    advice: str
    line: str
    states: tuple[str, ...]
    notes: tuple[str, ...]
    selected: float
    valuetext: str
    start: SliderStart
    scale: SliderScale
    refusal: Refused | None
    instead: float | None
    tradeoff: TradeOff
    column: str
    errors: Mapping[str, Mapping[float, ColumnError]]
    accuracy_notes: tuple[str, ...]
    histogram: Chart
    tail: str
    worlds: Chart | None  # None if there is nothing to draw
    worlds_words: str
    measures: tuple[RiskSentence, ...]
    summary: Summary
    steps: tuple[str, ...]
    cost: CostView
    wanted: str
    shown: tuple[str, ...]  # which groups, where nobody declared them

    @property
    def undecided(self) -> bool:
        """Return whether every candidate meets the preference, so that it finds no ε (F4)."""
        return self.choice.undecided

    def __repr__(self) -> str:
        return "DecisionView(redacted)"


def build_view(
    measured: MeasuredQuery,
    offer: Offer,
    form: DecisionForm,
    wanted_error: float | None,
    choice: Choice,
    own: Choice | None = None,
) -> DecisionView:
    """Return everything that depends on the preference and on ε.

    ``wanted_error``: the error that the analyst would like. ``choice``: the preference evaluated at every candidate.
    ``own``: the controller's own threshold, to warn of a preference that is looser; None: no warning.
    """
    offer = offer.prefer(choice)
    enough = find_enough(measured.answers, wanted_error)
    start = find_slider_start(measured, offer, choice, wanted_error)
    selected = start.epsilon if form.epsilon is None else round_down(form.epsilon, offer.candidates)
    bins, cost, columns = measured.bins(selected), view_cost(offer, selected), measured.columns
    column = form.measure if form.measure in columns else columns[0]
    tabled = columns if len(columns) <= MOST_COLUMNS else (column,)
    errors = {name: show_errors(measured, columns.index(name)) for name in tabled}
    drawn = errors[column]
    axis = measured.once(("axis", form.raw), lambda: range_axis(measured.candidates, raw=form.raw))
    worlds = measured.worlds(selected)
    found = find_for_approval(measured, offer, selected, cost.findings, wanted=wanted_error, own=own)
    called = measured.risk.plan.words
    told, refusal, summary = pick(found, (*GIVEN, *STATES)), offer.refuse(selected), summarize(found, called)
    advice = summary.advice if refusal is None else ""
    cautions = list_cautions(found, f"{summary.told} {advice}", called)
    if refusal is not None and refusal.message in summary.told and not cautions:
        advice = summary.advice
    against = [each for each in pick(told, GIVEN) if each.weight is Weight.AGAINST]
    line = word_all(against, called)  # why nothing is found
    states = word_all((each for each in pick(told, STATES) if each.weight is Weight.WARNING), called)
    remarks = [*word_all((*told, *pick(found, ASIDE)), called), *choice.notes]
    return DecisionView(
        measured=measured,
        offer=offer,
        choice=choice,
        cautions=cautions,
        advice=advice,
        line=" ".join(line),
        states=states,
        notes=tuple(note for note in dict.fromkeys(remarks) if note not in (*line, *states)),
        selected=selected,
        valuetext=write_valuetext(selected, offer, choice, write_errors(measured, selected)),
        start=start,
        scale=draw_scale(offer, _list_marks(offer, choice)),
        refusal=refusal,
        instead=None if refusal is None else _find_instead(offer, selected, start.epsilon),
        tradeoff=draw_tradeoff(
            choice.candidates, axis, offer, form, drawn, selected=selected, marks=_mark_rows(offer, choice, enough),
            wanted=None if drawn[selected].in_rows else wanted_error,
        ),
        column=column,
        errors=errors,
        accuracy_notes=word_all(find_accuracy_notes(measured.candidate(selected)), called)[:MOST_NOTES],
        histogram=bins_chart(bins, selected, log_counts=not form.linear, called=called),
        worlds=None if worlds is None or worlds.hidden else worlds_chart(worlds, word(find_worlds(worlds), called)),
        worlds_words=word(find_worlds(worlds), called),
        tail=write_tail(measured, selected),
        measures=tuple(_list_measures(offer, found, called)),
        summary=summary,
        steps=word_all(pick(found, NEXT), called),
        cost=cost,
        wanted=write_wanted(measured, wanted_error, enough),
        shown=describe_shown(measured, selected),
    )  # fmt: skip


def _list_measures(offer: Offer, found: Sequence[Finding], called: Words) -> Iterator[RiskSentence]:
    """Yield the absolute risks of the most exposed; with the noisy test, at the largest ε that it can find."""
    for each in found:
        match each:
            case people.OwnGuarantee():
                yield RiskSentence("shield", word(each, called))
            case people.RightGuesses():  # also in the line on risk
                yield RiskSentence("guesses", word(each, called), 50.0 * each.advantage, aside=True)
            case people.Suspicion():
                yield RiskSentence("suspicion", word(each, called), 100.0 * each.posterior, aside=True)
            case people.GuessedFact():
                yield RiskSentence("fact", word(each, called), 100.0 * each.guess)
            case people.PickedOut():
                yield RiskSentence("picked", word(each, called), 100.0 * each.chance, aside=True)
            case people.TestAtWorst():
                yield RiskSentence("note", "What follows is for the largest ε that the test can find.")
            case people.LimitsHold() if offer.algorithm == "find":
                yield RiskSentence(
                    "note", "These limits hold for an ε that was fixed beforehand, which this one is not."
                )


def _find_instead(offer: Offer, selected: float, start: float) -> float | None:
    """Return the ε to go to where the selected one may not be approved: the next smaller one that may.

    If that is above ``start``, where the slider starts, return ``start``. If none is smaller, return the next larger
    one. None if no ε may be approved.
    """
    allowed = [each for each in sorted(offer.candidates) if offer.refuse(each) is None]
    below = [each for each in allowed if each < selected]
    if not below:
        return min(allowed, default=None)
    return min(start, max(below)) if start in allowed else max(below)


def find_slider_start(measured: MeasuredQuery, offer: Offer, choice: Choice, wanted_error: float | None) -> SliderStart:
    """Return where the slider starts: at the ε that ``find_start`` gives, or that the noisy test likely finds.

    Where there is none, the slider stands at the largest ε that meets the preference's conditions on people, if there
    is one, otherwise at the smallest.
    """
    if offer.testing and offer.found is not None:
        return SliderStart(offer.found, "Starts here: the ε that the noisy test likely finds.")
    start = find_start(choice, measured.answers, offer.remaining, wanted_error)
    if start.epsilon is not None:
        return SliderStart(start.epsilon, f"Starts here: {start.why}.")
    limited = [each for each in choice.meeting_people if each in offer.remaining]
    return SliderStart(
        max(limited, default=min(offer.remaining or offer.candidates)),
        "No ε is proposed." if start.reason == "unmet" else f"No ε is proposed: {start.why}.",
    )


def round_down(wanted: float, candidates: Sequence[float]) -> float:
    """Return the largest candidate that is not above ``wanted``; the smallest candidate if all are above."""
    below = [e for e in candidates if e <= wanted * (1 + 1e-9)]
    return max(below) if below else min(candidates)


def _list_marks(offer: Offer, choice: Choice) -> list[tuple[float, str]]:
    """Return the marks above the slider, as ε and words: the ε that was found, and the largest that is granted."""
    marks = []
    found = None if choice.undecided else max(offer.meeting, default=None)
    if found is not None:
        marks.append((found, f"found {format_epsilon(found)}"))
    if offer.remaining and max(offer.remaining) < max(offer.candidates):
        most = max(offer.remaining)
        marks.append((most, f"account allows {format_epsilon(most)}"))
    return sorted(marks)


def _mark_rows(offer: Offer, choice: Choice, enough: float | None) -> dict[float, tuple[str, ...]]:
    """Return the words beside candidates of the picture, by ε.

    "found": the ε that the preference finds. "at most 12.5 guesses": the largest ε with a small membership advantage,
    where the preference decides nothing (F4). "as exact as asked": the smallest ε with the wanted error, ``enough``;
    None if there is none.
    """
    marks: dict[float, tuple[str, ...]] = {}
    found = offer.found if offer.testing else None if choice.undecided else max(offer.meeting, default=None)
    safe = find_safe(choice.candidates) if choice.undecided and not offer.testing else None
    for epsilon, mark in ((found, FOUND), (safe, CAUTIOUS), (enough, ENOUGH)):
        if epsilon is not None:
            marks[epsilon] = (*marks.get(epsilon, ()), mark)
    return marks


def write_valuetext(epsilon: float, offer: Offer, choice: Choice, errors: str) -> str:
    """Say where the slider stands: at which ε, whether that meets the preference, and the ``errors``, given in words.

    An ε that the account does not grant is called "not available".
    """
    words = "meets the preference" if epsilon in offer.meeting else "does not meet the preference"
    if choice.undecided:
        words = "meets the preference, as every ε does"
    left = "" if epsilon in offer.remaining else "; not available"
    return f"ε = {format_epsilon(epsilon)}, {words}, 95 % error {errors}{left}"


def write_tail(measured: MeasuredQuery, epsilon: float) -> str:
    """Say how many people have the largest RDR; these may be fewer than the people in the histogram's last bar."""
    if is_alike([measured.candidate(epsilon)]):
        return "Everybody is equally exposed."
    spread = measured.candidate(epsilon).rdr
    exposed, times = count_exposed(measured.risk.sensitivities), spread.relative[1]
    decimals = count_decimals(spread.relative[0], times) if spread.mean > 0.0 else 2
    who = measured.risk.plan.words.count_people(exposed)
    return f"The most exposed: {who} at {format_multiple(times, decimals)} × the average."
