"""The decision page: everything a controller needs to see before answering one query, and what moves with the slider.

Only controllers get here; that they looked is in the audit log and, for the promise, in the ledger (G1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from itsdangerous import BadSignature
from jinja2 import Environment
from pydantic import BaseModel, ConfigDict

from dosimeter.dataset import Dataset
from dosimeter.errors import DosimeterError, InputError
from dosimeter.ledger import Books
from dosimeter.planning import digest_measured
from dosimeter.release import Prepared
from dosimeter.risk import Choice, Preference, parse_preference
from dosimeter.schema import Schema
from dosimeter.web.conditions import admit_condition
from dosimeter.web.costs import (
    ALGORITHMS,
    count_cost,
    describe_account,
    describe_policy,
    explain_missing,
    find_worst,
    list_choices,
)
from dosimeter.web.deciding import find_earlier, settle_left
from dosimeter.web.exhibit import Exhibit, prepare_exhibit
from dosimeter.web.http import Controller, OfficeOf, Refused, is_own, make_csrf, render
from dosimeter.web.live import Live, OwnThreshold, describe_person, read_live
from dosimeter.web.others import MOST_LOOKED_AT, Squeezed, list_squeezed
from dosimeter.web.public import PHRASES
from dosimeter.web.question import describe_question, preview_answer
from dosimeter.web.state import Desk, Office
from dosimeter.web.store import OPEN, Row, User, count_open, find_query, list_open, mark_looked, note, read_thresholds
from dosimeter.web.wishes import Wish, list_two_way_columns, read_fields, recall_wish, write_preference
from dosimeter.web.worker import Job, Meter, Rank

router = APIRouter()
PATIENCE = 1.2  # seconds a page waits for a computation before it shows progress instead
FEW = 5
STOPPED = "The evaluation of this preference was stopped. Choose it again to begin anew."
MOST_PEOPLE = 8


@dataclass(frozen=True, slots=True)
class Case:
    """A query with everything that is decided without its data."""

    row: Row
    desk: Desk
    prepared: Prepared

    @property
    def open(self) -> bool:
        return self.row["status"] in ("waiting", "interrupted")


def find_case(office: Office, query_id: str) -> Case:
    row = find_query(office.database, query_id) if query_id.isalnum() else None
    desk = None if row is None else office.desk(row["dataset"])
    if row is None:
        raise Refused(404, "not_found", "There is no such query.")
    if desk is None:
        raise Refused(404, "not_found", f"The dataset {row['dataset']} is no longer served.")
    try:
        return Case(settle_left(office, row), desk, desk.prepare(row["sql"]))
    except InputError as error:
        raise Refused(
            409, "not_answerable", f"Under the present schema this query cannot be answered: {error}"
        ) from None


def list_identifying(schema: Schema) -> list[str]:
    """What identifies people: columns that say so, and the one that tells individuals apart."""
    return [c.name for c in schema.columns.values() if c.identifying or c.name == schema.unit]


def needs_consent(case: Case) -> bool:
    """Where the promise depends on not having looked (G0, G1), looking is a step of its own."""
    return case.desk.settings.algorithm != "find" and not case.row["looked"]


def find_exhibit(office: Office, case: Case, *, wait: float = PATIENCE, renew: bool = False) -> Job:
    """The measured risk, computed once per query and state of the data. That it is looked at goes into the ledger
    first. ``renew``: look first whether the data changed since; otherwise what a later look has seen counts."""

    def work(dataset: Dataset, meter: Meter) -> Exhibit:
        measured = digest_measured(case.prepared.plan)
        office.database.ledger.record_view(case.prepared.dataset, measured, "risk", analyst=case.row["analyst"])
        return prepare_exhibit(dataset, case.prepared, meter)

    bench, key = case.desk.bench, ("exhibit", case.row["id"])
    known = bench.peek(key)
    if known is not None and known.state == "done":
        if renew:
            renew_digest(case.desk)
        if known.result.fingerprint != bench.digest:
            bench.forget(known)
    return bench.ask(key, "Measuring how exposed everybody is", work, wait=wait, heavy=True)


def renew_digest(desk: Desk) -> str:
    """The digest of the data as they are now; as they were last seen, where that takes too long to find out."""
    key = ("digest", desk.name)
    before = desk.bench.peek(key)
    if before is not None:
        desk.bench.forget(before)
    desk.bench.ask(key, "Looking whether the data changed", lambda _d, meter: meter.digest, wait=PATIENCE, revive=True)
    return desk.bench.digest


def note_look(office: Office, user: User, case: Case, what: str, detail: str = "") -> None:
    """On record once per session, query and kind of look: not at every step of the slider."""
    if office.is_first(user.session, what, case.row["id"], detail):
        note(
            office.database, user.name, what, dataset=case.desk.name, query_id=case.row["id"], detail=detail
        )  # fmt: skip


# ---------------------------------------------------------------- the page


@router.get("/decide/{query_id}")
def show_page(request: Request, office: OfficeOf, user: Controller, query_id: str) -> Response:
    case = find_case(office, query_id)
    wish, complaint = read_own_fields(request)
    if not case.open and not request.query_params:
        wish = _recall(office, case)
    return show_decision(request, office, user, case, wish, complaint=complaint)


def read_own_fields(request: Request) -> tuple[Wish, str]:
    """The wish in the address, if it was made here: a link from elsewhere does not set a controller's preference."""
    return read_fields(request.query_params if is_own(request) else {})


def _recall(office: Office, case: Case) -> Wish:
    """What a decided query was decided at: there the page starts."""
    entry = office.entry(case.row["entry_id"])
    epsilon = case.row["epsilon"] or (entry.epsilon if entry is not None else None)
    try:
        return recall_wish(case.row["preference"], None if epsilon is None else float(epsilon))
    except DosimeterError:
        return Wish()


def show_decision(
    request: Request,
    office: Office,
    user: User,
    case: Case,
    wish: Wish,
    *,
    complaint: str = "",
    refusal: str = "",
    status: int = 200,
) -> Response:
    """The page at this wish. ``complaint``: a field cannot be used; ``refusal``: why an approval was turned down."""
    books = office.books(case.desk, case.prepared)
    common: dict[str, Any] = {
        "row": case.row,
        "question": describe_question(case.prepared),
        "algorithm": case.desk.settings.algorithm,
        "algorithm_words": ALGORITHMS[case.desk.settings.algorithm],
        "policy": describe_policy(case.desk.settings.policy),
        "refusal": refusal,
        "phrases": PHRASES,
        "wish": wish,
        "percent": wish.percent or read_thresholds(office.database, user)[case.row["priority"]],
        "earlier": find_earlier(office, case.desk, case.row["sql"]) if case.open else None,
        "svt": case.desk.settings.svt,
        "variance": case.desk.settings.variance,
        "entry": office.entry(case.row["entry_id"]),
    }
    if needs_consent(case):
        return render(request, "decide_blind.html", user, status=status, **_unseen(office, case, books), **common)
    job = find_exhibit(office, case, renew=True)
    if job.state != "done":
        share = case.desk.bench.share(job)
        return render(request, "decide_wait.html", user, status=status, job=job, share=share, **common)
    note_look(office, user, case, "viewed risk")
    exhibit: Exhibit = job.result
    live, problem, waiting = _read(office, case, job, user, wish)
    problem = complaint or problem
    if live is None:  # the sentence cannot be used, or is being computed: show the suggested one with it
        plain = Wish(epsilon=wish.epsilon)
        live, _, _ = _read(office, case, job, user, plain)
    assert live is not None
    return render(
        request, "decide.html", user, status=status, live=live, problem=problem, waiting=waiting,
        blocked=bool(problem) or waiting is not None, account=describe_account(books),
        columns=list_two_way_columns(case.desk.schema),
        all_columns=[name for name in case.desk.schema.columns if name not in list_identifying(case.desk.schema)],
        candidates=sorted(case.desk.candidates), preview=_preview(office, case, books, live.selected),
        many=exhibit.many, **common,
    )  # fmt: skip


def _preview(office: Office, case: Case, books: Books, epsilon: float) -> dict[str, Any]:
    """What the analyst will see. Its promise says what the released one will: the ledger knows who looked (G1)."""
    told = case.desk.settings.algorithm != "find" and office.told(case.prepared, case.row["analyst"])
    at = find_worst(case.desk, books) if case.desk.settings.algorithm == "find-and-release" else epsilon
    return preview_answer(case.prepared, at, looked=told)


def _unseen(office: Office, case: Case, books: Books) -> dict[str, Any]:
    """What a controller can choose by without looking at the data: the account, and what k and Δ decide."""
    remaining = books.remaining(case.desk.candidates)
    at = max(remaining or case.desk.candidates)
    return {
        "account": describe_account(books),
        "choices": list_choices(case.desk, case.prepared, books),
        "missing": explain_missing(case.desk, books),
        "names": [output.name for output in case.prepared.plan.outputs if output.is_aggregate],
        "any_left": bool(remaining),
        "cost": count_cost(case.desk, at, books),
        "preview": _preview(office, case, books, at),
    }


def _read(
    office: Office, case: Case, measured: Job, user: User, wish: Wish, *, revive: bool = False
) -> tuple[Live | None, str, Job | None]:
    """The live part; or why the preference cannot be used; or the scan that a FILTER needs first.

    ``revive``: a scan that was stopped begins again, because somebody chose its preference again.
    """
    exhibit: Exhibit = measured.result
    try:
        preference = state_preference(office, case, user, wish)
        choice = exhibit.recall(preference)
        if choice is None:
            job = case.desk.bench.ask(
                ("preference", measured.id, preference.text), "Evaluating the preference for everybody",
                lambda _d, meter: choose_again(exhibit, preference, meter), wait=PATIENCE, revive=revive,
            )  # fmt: skip
            if job.state == "cancelled":
                return None, STOPPED, None
            if job.state == "failed":
                return None, str(job.error), None
            if job.state != "done":
                return None, "", job
            choice = job.result
        books = office.books(case.desk, case.prepared)
        own = find_own_threshold(office, case, user, exhibit)
        return read_live(case.desk, exhibit, books, preference, wish, case.row["wanted_error"], choice, own), "", None
    except DosimeterError as error:
        return None, str(error), None


def choose_again(exhibit: Exhibit, preference: Preference, meter: Meter) -> Choice:
    """On the bench: the preference evaluated for everybody, on the data that were measured."""
    exhibit.require_data(meter.digest)
    return exhibit.choose(preference)


def find_own_threshold(office: Office, case: Case, user: User, exhibit: Exhibit) -> OwnThreshold | None:
    """What the controller's own table suggests for this priority, to say when a preference is looser."""
    if case.desk.settings.algorithm == "find-and-release":
        return None
    percent = read_thresholds(office.database, user)[case.row["priority"]]
    choice = exhibit.recall(write_preference(Wish(), case.desk.schema, percent))
    return None if choice is None else OwnThreshold(case.row["priority"], percent, choice)


def state_preference(office: Office, case: Case, user: User, wish: Wish) -> Preference:
    """The sentence as a preference. Where a noisy test finds ε, its threshold was fixed beforehand and counts alone.

    Raises PreferenceError where it cannot be used, or names people who were not revealed.
    """
    if case.desk.settings.algorithm == "find-and-release":
        return parse_preference(f"variance:{case.desk.settings.variance!r}")
    suggested = read_thresholds(office.database, user)[case.row["priority"]]
    preference = write_preference(wish, case.desk.schema, suggested)
    admit_condition(office, user, case.row, case.prepared.plan, preference)
    return preference


class LiveReading(BaseModel):
    """What the page exchanges when the slider or the sentence moves. For controllers only."""

    model_config = ConfigDict(extra="forbid")

    problem: str
    job: str | None = None
    share: float | None = None
    selected: str = ""
    index: int = 0
    valuetext: str = ""
    preference: str = ""
    fragments: dict[str, str] = {}
    range: dict[str, Any] | None = None
    histogram: dict[str, Any] | None = None
    bins: list[dict[str, Any]] = []
    digits: int = 4


FRAGMENTS = (
    "line", "accuracy", "raw_note", "range_table", "histogram_table", "absolute", "cost", "preview", "verdict",
)  # fmt: skip


@router.get("/decide/{query_id}/live")
def show_live(request: Request, office: OfficeOf, user: Controller, query_id: str) -> LiveReading:
    case = find_case(office, query_id)
    if needs_consent(case):
        raise Refused(403, "not_looked", "Choose to look at the risk first.")
    wish, complaint = read_fields(request.query_params)
    if complaint:
        return LiveReading(problem=complaint)
    job = find_exhibit(office, case)
    if job.state != "done":
        return LiveReading(problem=str(job.error or ""), job=job.id, share=case.desk.bench.share(job))
    note_look(office, user, case, "viewed risk")
    exhibit: Exhibit = job.result
    live, problem, waiting = _read(office, case, job, user, wish, revive=True)
    if live is None:
        running = None if waiting is None else waiting.id
        return LiveReading(
            problem=problem, job=running, share=None if waiting is None else case.desk.bench.share(waiting)
        )
    environment: Environment = request.app.state.templates
    books = office.books(case.desk, case.prepared)
    context = {
        "live": live, "row": case.row, "algorithm": case.desk.settings.algorithm, "csrf": make_csrf(office, user),
        "preview": _preview(office, case, books, live.selected), "many": exhibit.many, "blocked": False,
    }  # fmt: skip
    return LiveReading(
        problem="",
        selected=f"{live.selected:.12g}",
        index=live.index,
        valuetext=live.valuetext,
        preference=live.preference.text,
        fragments={name: environment.get_template(f"decide/{name}.html").render(context) for name in FRAGMENTS},
        range=dict(live.range_spec),
        histogram=dict(live.histogram_spec),
        bins=[dict(row) for row in live.bins],
        digits=live.digits,
    )


@router.post("/decide/{query_id}/look")
def look(office: OfficeOf, user: Controller, query_id: str) -> Response:
    """Looking at the risk of a query whose promise depends on not having looked: said, and recorded."""
    case = find_case(office, query_id)
    mark_looked(office.database, query_id)
    note(office.database, user.name, "chose to look", dataset=case.desk.name, query_id=query_id)
    return RedirectResponse(f"/decide/{query_id}", status_code=303)


# ---------------------------------------------------------------- parts that need the engine


def _require_exhibit(office: Office, case: Case) -> Job:
    """The finished measurement."""
    if needs_consent(case):
        raise Refused(403, "not_looked", "Choose to look at the risk first.")
    job = find_exhibit(office, case)
    if job.state != "done":
        raise Refused(503, "computing", "The risk is still being computed. Try again in a moment.")
    return job


Epsilon = Annotated[float, Query(gt=0, lt=1e300, allow_inf_nan=False)]
Revealed = Annotated[str, Query(max_length=400)]


@router.get("/decide/{query_id}/people")
def show_people(
    request: Request, office: OfficeOf, user: Controller, query_id: str, epsilon: Epsilon, revealed: Revealed = ""
) -> Response:
    """The most exposed records, identical ones grouped; what identifies people is masked until it is revealed."""
    return _people(request, office, user, query_id, epsilon, reveal=_was_revealed(office, user, query_id, revealed))


def _was_revealed(office: Office, user: User, query_id: str, mark: str) -> bool:
    """Whether this session revealed this query's people: that is on record, and the slider need not ask again."""
    try:
        return bool(mark) and office.signer("reveal").loads(mark) == [user.session, query_id]
    except BadSignature:
        return False


class RevealForm(BaseModel):
    epsilon: float


@router.post("/decide/{query_id}/reveal")
def reveal(
    request: Request, office: OfficeOf, user: Controller, query_id: str, form: Annotated[RevealForm, Form()]
) -> Response:
    """Show what identifies people, on purpose and on record."""
    case = find_case(office, query_id)
    _require_exhibit(office, case)
    columns = ", ".join(list_identifying(case.desk.schema))
    office.mark_revealed(user.session, query_id)
    note(
        office.database, user.name, "revealed identities", dataset=case.desk.name, query_id=query_id, detail=columns
    )  # fmt: skip
    return _people(request, office, user, query_id, form.epsilon, reveal=True)


def _people(request: Request, office: Office, user: User, query_id: str, epsilon: float, *, reveal: bool) -> Response:
    case = find_case(office, query_id)
    measured = _require_exhibit(office, case)
    exhibit: Exhibit = measured.result
    at = min(case.desk.candidates, key=lambda candidate: abs(candidate - epsilon))
    identifying = list_identifying(case.desk.schema)

    def work(_dataset: Dataset, meter: Meter) -> list[dict[str, Any]]:
        exhibit.require_data(meter.digest)
        return exhibit.risk.people_rows(MOST_PEOPLE, epsilon=at, reveal=reveal)

    note_look(office, user, case, "viewed the most exposed")
    key = ("people", measured.id, at, reveal)
    job = case.desk.bench.ask(key, "Looking up the most exposed", work, wait=PATIENCE)
    mark = str(office.signer("reveal").dumps([user.session, query_id])) if reveal else ""
    again = f"/decide/{query_id}/people?epsilon={at:.12g}&revealed={mark}"
    if job.state != "done":
        return _progress(request, case, user, job, again)
    people = [describe_person(row) for row in job.result]
    return render(
        request, "fragments/people.html", user,
        people=people, row=case.row, revealed=reveal, mark=mark, identifying=identifying, epsilon=at,
    )  # fmt: skip


@router.get("/decide/{query_id}/groups")
def show_groups(
    request: Request, office: OfficeOf, user: Controller, query_id: str, column: str, epsilon: Epsilon
) -> Response:
    case = find_case(office, query_id)
    measured = _require_exhibit(office, case)
    exhibit: Exhibit = measured.result
    if column not in case.desk.schema.columns or column in list_identifying(case.desk.schema):
        raise Refused(422, "unusable", "Choose a column that does not identify people.")
    at = min(case.desk.candidates, key=lambda candidate: abs(candidate - epsilon))

    def work(_dataset: Dataset, meter: Meter) -> list[dict[str, Any]]:
        exhibit.require_data(meter.digest)
        return exhibit.risk.by(column, epsilon=at)

    note_look(office, user, case, "viewed groups", column)
    key = ("groups", measured.id, column, at)
    job = case.desk.bench.ask(key, f"Comparing by {column}", work, wait=PATIENCE)
    if job.state != "done":
        again = f"/decide/{query_id}/groups?{urlencode({'column': column, 'epsilon': f'{at:.12g}'})}"
        return _progress(request, case, user, job, again)
    return render(
        request, "fragments/groups.html", user, groups=job.result[:200], total=len(job.result), column=column, few=FEW
    )


def _progress(request: Request, case: Case, user: User, job: Job, again: str) -> Response:
    if job.state == "failed":
        raise Refused(409, "failed", str(job.error))
    return render(request, "fragments/progress.html", user, job=job, share=case.desk.bench.share(job), again=again)


@router.get("/decide/{query_id}/others")
def show_others(request: Request, office: OfficeOf, user: Controller, query_id: str, epsilon: Epsilon) -> Response:
    """Which other waiting queries could be answered now, and no longer once this one is."""
    case = find_case(office, query_id)
    at = min(case.desk.candidates, key=lambda candidate: abs(candidate - epsilon))
    thresholds = read_thresholds(office.database, user)
    first = list_open(office.database, case.desk.name, limit=MOST_LOOKED_AT + 1)
    waiting = [row for row in first if row["id"] != query_id][:MOST_LOOKED_AT]
    total = count_open(office.database, case.desk.name) - int(case.row["status"] in OPEN)
    key = ("others", query_id, at, tuple(row["id"] for row in waiting), tuple(sorted(thresholds.items())))
    books = office.books(case.desk, case.prepared)
    note_look(office, user, case, "viewed what others would lose")
    job = case.desk.bench.ask(
        (*key, str(books.reading.epsilon)), "Looking at the other waiting queries",
        lambda dataset, meter: list_squeezed(case.desk, books, at, waiting, thresholds, dataset, meter),
        wait=PATIENCE, rank=Rank.ASIDE,
    )  # fmt: skip
    if job.state != "done":
        return _progress(request, case, user, job, f"/decide/{query_id}/others?epsilon={at:.12g}")
    found: Squeezed = job.result
    return render(
        request, "fragments/others.html", user, squeezed=found.rows, looked=found.looked, total=total
    )  # fmt: skip
