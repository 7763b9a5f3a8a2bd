"""The decision page in its three states: before anybody looked, while the risk is measured, and complete."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import Response

from dosimeter.errors import DosimeterError
from dosimeter.ledger import Books
from dosimeter.problems import Surface
from dosimeter.risk import Choice, Preference
from dosimeter.web.decision.approve import find_earlier
from dosimeter.web.decision.case import (
    Case,
    find_measurement,
    list_identifying,
    needs_consent,
    note_look,
    read_preference,
)
from dosimeter.web.decision.costs import (
    ALGORITHMS,
    count_cost,
    describe_account,
    describe_policy,
    explain_missing,
    find_worst,
    list_choices,
)
from dosimeter.web.decision.form import DecisionForm, list_two_way_columns, read_fields, write_preference
from dosimeter.web.decision.measured import MeasuredQuery
from dosimeter.web.decision.view import DecisionView, OwnThreshold, build_view
from dosimeter.web.http import is_own, render
from dosimeter.web.public import PHRASES
from dosimeter.web.question import describe_question, preview_answer
from dosimeter.web.state import ServerState
from dosimeter.web.store import User, read_thresholds
from dosimeter.web.worker import PATIENCE, Job, Meter

STOPPED = "The evaluation of this preference was stopped. Choose it again to begin anew."


def read_own_fields(request: Request) -> tuple[DecisionForm, str]:
    """Return the form in the URL, if our own page made it: a link from elsewhere sets no controller's preference."""
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
    """Show the page with this form. ``complaint``: a field is unusable; ``refusal``: why an approval was refused."""
    books = state.books(case.served, case.prepared)
    common: dict[str, Any] = {
        "row": case.row,
        "question": describe_question(case.prepared),
        "algorithm": case.served.settings.algorithm,
        "algorithm_words": ALGORITHMS[case.served.settings.algorithm],
        "policy": describe_policy(case.served.settings.policy),
        "refusal": refusal,
        "phrases": PHRASES,
        "form": form,
        "percent": form.percent or read_thresholds(state.database, user)[case.row["priority"]],
        "earlier": find_earlier(state, case.served, case.row["sql"]) if case.open else None,
        "svt": case.served.settings.svt,
        "variance": case.served.settings.variance,
        "entry": state.entry(case.row["entry_id"]),
    }
    if needs_consent(case):
        return render(
            request, "decide_blind.html", user, status=status, **_describe_unseen(state, case, books), **common
        )
    job = find_measurement(state, case, renew=True)
    if job.state != "done":
        share = case.served.worker.share(job)
        return render(request, "decide_wait.html", user, status=status, job=job, share=share, **common)
    note_look(state, user, case, "viewed risk")
    measured: MeasuredQuery = job.result
    view, problem, waiting = read_view(state, case, job, user, form)
    problem = complaint or problem
    if view is None:  # the preference cannot be used, or is being computed: show the suggested one meanwhile
        plain = DecisionForm(epsilon=form.epsilon)
        view, _, _ = read_view(state, case, job, user, plain)
    assert view is not None
    return render(
        request, "decide.html", user, status=status, view=view, problem=problem, waiting=waiting,
        blocked=bool(problem) or waiting is not None, account=describe_account(books),
        columns=list_two_way_columns(case.served.schema),
        all_columns=[name for name in case.served.schema.columns if name not in list_identifying(case.served.schema)],
        candidates=sorted(case.served.candidates), preview=preview_for_analyst(state, case, books, view.selected),
        many=measured.many, **common,
    )  # fmt: skip


def preview_for_analyst(state: ServerState, case: Case, books: Books, epsilon: float) -> dict[str, Any]:
    """Return what the analyst will see. Its promise is that of the release: the ledger knows who looked (G1)."""
    told = case.served.settings.algorithm != "find" and state.told(case.prepared, case.row["analyst"])
    at = find_worst(case.served, books) if case.served.settings.algorithm == "find-and-release" else epsilon
    return preview_answer(case.prepared, at, looked=told)


def _describe_unseen(state: ServerState, case: Case, books: Books) -> dict[str, Any]:
    """Return what a controller can choose by without looking at the data: the account, and what k and Δ decide."""
    remaining = books.remaining(case.served.candidates)
    at = max(remaining or case.served.candidates)
    return {
        "account": describe_account(books),
        "choices": list_choices(case.served, case.prepared, books),
        "missing": explain_missing(case.served, books),
        "names": [output.name for output in case.prepared.plan.outputs if output.is_aggregate],
        "any_left": bool(remaining),
        "cost": count_cost(case.served, at, books),
        "preview": preview_for_analyst(state, case, books, at),
    }


def read_view(
    state: ServerState, case: Case, measurement: Job, user: User, form: DecisionForm, *, revive: bool = False
) -> tuple[DecisionView | None, str, Job | None]:
    """Return what follows the slider; or why the preference cannot be used; or the job that a FILTER needs first.

    ``revive``: a job that was stopped begins again, because somebody chose its preference again.
    """
    measured: MeasuredQuery = measurement.result
    try:
        preference = read_preference(state, case, user, form)
        choice = measured.recall(preference)
        if choice is None:
            job = case.served.worker.ask(
                ("preference", measurement.id, preference.text), "Evaluating the preference for everybody",
                lambda _d, meter: choose_again(measured, preference, meter), wait=PATIENCE, revive=revive,
            )  # fmt: skip
            if job.state == "cancelled":
                return None, STOPPED, None
            if job.state == "failed":
                return None, job.problem, None
            if job.state != "done":
                return None, "", job
            choice = job.result
        books = state.books(case.served, case.prepared)
        own = find_own_threshold(state, case, user, measured)
        view = build_view(case.served, measured, books, preference, form, case.row["wanted_error"], choice, own)
        return view, "", None
    except DosimeterError as error:
        return None, error.word(Surface.WEB), None


def choose_again(measured: MeasuredQuery, preference: Preference, meter: Meter) -> Choice:
    """Evaluate the preference for everybody, on the data that were measured. Runs on the dataset's worker."""
    measured.require_data(meter.digest)
    return measured.choose(preference)


def find_own_threshold(state: ServerState, case: Case, user: User, measured: MeasuredQuery) -> OwnThreshold | None:
    """Return what the controller's own thresholds suggest for this priority, to warn of a looser preference."""
    if case.served.settings.algorithm == "find-and-release":
        return None
    percent = read_thresholds(state.database, user)[case.row["priority"]]
    choice = measured.recall(write_preference(DecisionForm(), case.served.schema, percent))
    return None if choice is None else OwnThreshold(case.row["priority"], percent, choice)
