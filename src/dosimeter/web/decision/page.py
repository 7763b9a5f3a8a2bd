"""The decision page in its three states: before anybody looked, while the risk is measured, and complete.

``build_page`` makes all of them, for a whole page and for a step of the slider, so that both show the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from fastapi import Request
from fastapi.responses import Response

from dosimeter.errors import DosimeterError
from dosimeter.findings import Choice, Start
from dosimeter.ledger import Entry
from dosimeter.problems import Surface
from dosimeter.risk import PRESETS, Preference, parse_preference
from dosimeter.web.answer_view import view_answer
from dosimeter.web.decision.approve import find_earlier
from dosimeter.web.decision.budget import CostView, describe_account, view_cost
from dosimeter.web.decision.case import (
    Case,
    ask_of_people,
    find_measurement,
    list_identifying,
    needs_consent,
    note_look,
    read_preference,
)
from dosimeter.web.decision.form import DecisionForm, list_two_way_columns, read_fields
from dosimeter.web.decision.measured import MeasuredQuery
from dosimeter.web.decision.offer import Offer, make_offer
from dosimeter.web.decision.standard import Standard, read_standards
from dosimeter.web.decision.unseen import (
    BlindChoice,
    expect_unseen,
    explain_missing,
    find_shown,
    find_unseen_start,
    list_choices,
    list_uncounted,
    word_suspicion,
    word_unattained,
)
from dosimeter.web.decision.view import DecisionView, build_view
from dosimeter.web.expected import find_needed
from dosimeter.web.http import is_own, render
from dosimeter.web.public import AnswerShape, ExpectedErrors, ShownAnswer, show_answer
from dosimeter.web.question import AnswerPreview, preview_answer
from dosimeter.web.released import describe_shape
from dosimeter.web.state import ServerState
from dosimeter.web.store import QueryFilter, QueryStatus, User, page_open
from dosimeter.web.worker import Job

STOPPED = "The evaluation of this preference was stopped. Choose it again to begin anew."


@dataclass(frozen=True, repr=False)
class PageHead:
    """What the decision page shows in each of its three states. ``refusal``: why an approval was refused just now."""

    state: ServerState
    case: Case
    offer: Offer
    form: DecisionForm
    refusal: str

    @property
    def account(self) -> str:
        """Return what the account has spent and what is left, in words."""
        return describe_account(self.offer.charges)

    @cached_property
    def earlier(self) -> Entry | None:
        """Return the entry of an earlier answer to the same query, which can be given again; None if there is none."""
        case = self.case
        return find_earlier(self.state, case.served, case.prepared) if case.query.status.undecided else None

    @property
    def entry(self) -> Entry | None:
        """Return the ledger's entry that the decision led to; None if there is none."""
        return self.state.entry(self.case.query.entry_id)

    @cached_property
    def shown(self) -> ShownAnswer | None:
        """Return the released answer as its analyst sees it; None if there is none."""
        entry = self.entry if self.case.query.status is QueryStatus.RELEASED else None
        return None if entry is None else show_earlier(self.case, entry)

    @cached_property
    def following(self) -> str:
        """Return the id of the most urgent query that waits, once this one is decided; "" if there is none."""
        waiting = page_open(self.state.database, limit=10, only=QueryFilter()).queries
        others = (each.id for each in waiting if each.status is QueryStatus.WAITING and each.id != self.case.query.id)
        return next(others, "")


@dataclass(frozen=True, slots=True, repr=False)
class UnseenPage:
    """What a controller knows without looking at the data: the account, and what query and schema decide.

    ``barred``: why nothing can be approved; "" if something can. ``choices``: the candidates that are offered;
    ``missing``: a sentence on the others. ``expected``: the errors by column. ``facts``: which rows and values do not
    count, by the schema. ``unattained``: why no allowed ε gives the wanted error; "" if one does. ``limit``:
    the largest ε that the controller's ``standard`` allows whatever the data; None if the schema does not tell.
    ``start``: the ε that is selected at first; None if none is. ``first`` and ``shown``: before and after which of the
    choices the others are folded; ``beyond``: how many of the largest the standard does not allow. ``cost``: what an
    approval costs.
    ``risk``: what an attacker could learn, where the noisy test finds ε. ``preview``: the answer as its analyst will
    see it.
    """

    template: ClassVar[str] = "decide_blind.html"

    head: PageHead
    barred: str  # why no ε at all can be approved
    choices: tuple[BlindChoice, ...]
    missing: str
    expected: ExpectedErrors
    facts: tuple[str, ...]
    unattained: str
    limit: float | None
    standard: Standard
    start: Start | None
    first: int
    shown: int
    beyond: int
    cost: CostView
    risk: str
    preview: AnswerPreview


@dataclass(frozen=True, slots=True, repr=False)
class MeasuringPage:
    """What is shown while the risk is measured, or if that failed."""

    template: ClassVar[str] = "decide_wait.html"

    head: PageHead
    job: Job[MeasuredQuery]


@dataclass(frozen=True, slots=True, repr=False)
class DecisionPage:
    """The complete page. Moving the slider renews only those of its parts that ``PARTS`` lists.

    ``problem``: what is wrong in the form, or why its preference cannot be used; "" if nothing is. ``waiting``: the job
    that still evaluates the preference; None if there is none. While there is a problem or a job, nothing can be
    approved. While the preference has no result, ``view`` shows the default one: least ÷ most exposed is at least the
    controller's percentage for normal priority. ``thresholds``: the controller's percentages, by priority.
    """

    template: ClassVar[str] = "decide.html"

    presets: ClassVar[Mapping[str, Preference]] = {name: parse_preference(name) for name in PRESETS}

    head: PageHead
    view: DecisionView
    preview: AnswerPreview
    problem: str
    waiting: Job[Choice] | None
    thresholds: Mapping[str, float]

    @property
    def two_way_columns(self) -> dict[str, list[str]]:
        """Return the columns by which a preference can compare two groups, with their values."""
        return list_two_way_columns(self.head.case.served.schema)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns by which people can be grouped."""
        schema = self.head.case.served.schema
        return tuple(name for name in schema.columns if name not in list_identifying(schema))

    @property
    def candidates(self) -> tuple[float, ...]:
        """Return the candidates from the smallest, as they stand on the slider."""
        return tuple(sorted(self.view.offer.candidates))


PARTS = (
    "cautions",
    "line",
    "scale",
    "start",
    "tradeoff",
    "shown",
    "measures",
    "histogram",
    "worlds",
    "accuracy",
    "cost",
    "charge",
    "preview",
    "verdict",
)
"""The parts of the page that follow the slider: templates in decide/, each in an element called part-…"""


def read_own_fields(request: Request) -> tuple[DecisionForm, str]:
    """Return the form in the URL and a complaint about it; the default form if the request comes from another site."""
    return read_fields(request.query_params if is_own(request) else {})


def show_decision(
    request: Request,
    state: ServerState,
    user: User,
    case: Case,
    form: DecisionForm,
    *,
    complaint: str = "",
    refusal: str = "",
    status: int = 200,
) -> Response:
    """Return the page with this form. ``complaint``: what is wrong in it; ``refusal``: why an approval was refused."""
    page = build_page(state, user, case, form, complaint=complaint, refusal=refusal, renew=True)
    return render(request, page.template, user, status=status, page=page)


def build_page(
    state: ServerState,
    user: User,
    case: Case,
    form: DecisionForm,
    *,
    complaint: str = "",
    refusal: str = "",
    renew: bool = False,
    revive: bool = False,
) -> UnseenPage | MeasuringPage | DecisionPage:
    """Return the page with this form, in the state that the measurement of the risk allows. Records the look.

    ``complaint``: what is wrong in the form. ``refusal``: why an approval was refused. ``renew``: find out first
    whether the data changed. ``revive``: if somebody stopped the evaluation of the form's preference, begin it again.
    """
    offer, standard = make_offer(state, case.served, case.prepared), read_standards(state, user)
    form = standard.settle(form)
    head = PageHead(state, case, offer, form, refusal)
    if needs_consent(case):
        return _describe_unseen(state, case, offer, head, standard)
    job = find_measurement(state, case, renew=renew)
    if job.state != "done":
        return MeasuringPage(head, job)
    note_look(state, user, case, "viewed risk")
    view, problem, waiting = read_view(state, case, job, user, form, offer, revive=revive)
    if view is None:  # the preference cannot be used, or is being computed: show the suggested one meanwhile
        view, _, _ = read_view(state, case, job, user, DecisionForm(preset="ratio", epsilon=form.epsilon), offer)
    assert view is not None
    preview = preview_for_analyst(state, case, offer, view.selected)
    return DecisionPage(head, view, preview, complaint or problem, waiting, standard.percents)


def show_earlier(case: Case, entry: Entry) -> ShownAnswer | None:
    """Return the answer of an entry with its first rows, written as its analyst reads them; None if it has none."""
    answer, shape = show_answer(entry), describe_shape(case.served, case.query.sql)
    return None if answer is None else view_answer(answer, shape or AnswerShape())


def _describe_unseen(state: ServerState, case: Case, offer: Offer, head: PageHead, standard: Standard) -> UnseenPage:
    refused, choices = offer.refuse(offer.largest), tuple(list_choices(offer, case.prepared))
    wanted, limit = case.query.wanted_error, standard.find_limit(case.prepared, offer.remaining)
    needed = None if wanted is None else find_needed(case.prepared, wanted, offer.candidates, most=None)
    start = None if offer.testing else find_unseen_start(case.prepared, offer.remaining, limit, wanted, needed)
    begun = None if start is None else start.epsilon
    matter = [each for each in (head.form.epsilon, begun) if each is not None]
    beyond = 0 if limit is None or offer.testing else sum(each.epsilon > limit for each in choices)
    first, shown = find_shown(choices, beyond, matter)
    return UnseenPage(
        head=head,
        barred="" if refused is None else refused.message,
        choices=choices,
        missing=explain_missing(offer),
        expected=expect_unseen(case.prepared, [choice.epsilon for choice in choices]),
        facts=list_uncounted(case.prepared.plan),
        unattained="" if offer.testing else word_unattained(offer, wanted, needed, limit),
        limit=limit,
        standard=standard,
        start=start,
        first=first,
        shown=shown,
        beyond=beyond,
        cost=view_cost(offer, offer.largest),
        risk=word_suspicion(offer, case.prepared, None) if offer.testing else "",
        preview=preview_for_analyst(state, case, offer, head.form.epsilon or begun or offer.largest, chosen=False),
    )


def preview_for_analyst(
    state: ServerState, case: Case, offer: Offer, epsilon: float, *, chosen: bool = True
) -> AnswerPreview:
    """Return what the analyst will see, with the promise that the release will make. Looks can weaken it (G1).

    ``chosen``: False where ``epsilon`` is only an example. With the noisy test, ``epsilon`` is ignored, and the largest
    ε that the test can find is shown.
    """
    mentions_look = offer.algorithm != "find" and state.mentions_look(case.prepared, case.query.analyst)
    at = offer.largest if offer.testing else epsilon
    return preview_answer(case.prepared, at, looked=mentions_look, chosen=chosen)


def read_view(
    state: ServerState,
    case: Case,
    measurement: Job[MeasuredQuery],
    user: User,
    form: DecisionForm,
    offer: Offer,
    *,
    revive: bool = False,
) -> tuple[DecisionView | None, str, Job[Choice] | None]:
    """Return three values: the view for this form; why there is none; the job that evaluates the preference first.

    Only one of them is given: the others are None or "".
    ``revive``: if somebody stopped the job, begin it again.
    """
    measured = measurement.result
    try:
        preference = read_preference(state, case, user, form)
        choice = measured.recall(preference)
        if choice is None:
            job = ask_of_people(
                case, measurement, ("preference", preference.text), "Evaluating the preference for everybody",
                lambda found: found.choose(preference), revive=revive,
            )  # fmt: skip
            if job.state == "cancelled":
                return None, STOPPED, None
            if job.state == "failed":
                return None, job.problem, None
            if job.state != "done":
                return None, "", job
            choice = job.result
        own = find_own_threshold(state, case, user, measured)
        view = build_view(measured, offer, form, case.query.wanted_error, choice, own)
        return view, "", None
    except DosimeterError as error:
        return None, error.word(Surface.WEB), None


def find_own_threshold(state: ServerState, case: Case, user: User, measured: MeasuredQuery) -> Choice | None:
    """Return the controller's own standard, evaluated at every candidate: what is looser, or beyond it, is told.

    None where evaluating the standard at every candidate would take long.
    """
    return measured.recall(read_standards(state, user).prefer(case.served.schema, case.query.priority))
