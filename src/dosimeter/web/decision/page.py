"""The decision page as it is shown: before anybody looked, while it is measured, and with everything on it."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import Response

from dosimeter.errors import DosimeterError
from dosimeter.ledger import Books
from dosimeter.risk import Choice, Preference
from dosimeter.web.decision.approve import find_earlier
from dosimeter.web.decision.case import Case, find_exhibit, list_identifying, needs_consent, note_look, state_preference
from dosimeter.web.decision.costs import (
    ALGORITHMS,
    count_cost,
    describe_account,
    describe_policy,
    explain_missing,
    find_worst,
    list_choices,
)
from dosimeter.web.decision.form import Wish, list_two_way_columns, read_fields, write_preference
from dosimeter.web.decision.measured import Exhibit
from dosimeter.web.decision.view import Live, OwnThreshold, read_live
from dosimeter.web.http import is_own, render
from dosimeter.web.public import PHRASES
from dosimeter.web.question import describe_question, preview_answer
from dosimeter.web.state import Office
from dosimeter.web.store import User, read_thresholds
from dosimeter.web.worker import PATIENCE, Job, Meter

STOPPED = "The evaluation of this preference was stopped. Choose it again to begin anew."


def read_own_fields(request: Request) -> tuple[Wish, str]:
    """The wish in the address, if it was made here: a link from elsewhere does not set a controller's preference."""
    return read_fields(request.query_params if is_own(request) else {})


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
