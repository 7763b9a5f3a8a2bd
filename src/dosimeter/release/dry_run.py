"""A dry run: what a release would do, for the controller's eyes only. Charges nothing, releases nothing.

Gives the exact probability of every outcome (V3), what the answer would cost, and the shape of what the analyst would
see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dosimeter.errors import DataError, SourceUnreachable
from dosimeter.findings import CAUTIONS, Finding, Finds, find_aimed, find_few, pick, summarize, word_all
from dosimeter.html import write_paragraphs, write_table
from dosimeter.influence import read_public_tables
from dosimeter.json_values import JsonObject, JsonValue
from dosimeter.ledger import Algorithm, Entry, Incident, Ledger, RequestCharges
from dosimeter.planning import digest_measured
from dosimeter.problems import Command, Problem, Surface
from dosimeter.release.account_terms import (
    check_account,
    digest_request,
    find_charges,
    recall_number,
    recognise_data,
)
from dosimeter.release.order import PreparedRelease, ReleaseOrder
from dosimeter.release.prepare import prepare_release
from dosimeter.release.previews import STOPPED, Cost, Preview
from dosimeter.release.run import repeat_answer
from dosimeter.risk import ShownGroups
from dosimeter.schema import PLAIN, Words
from dosimeter.show import format_epsilon, format_error, join_names

if TYPE_CHECKING:
    from dosimeter.findings import Choice
    from dosimeter.influence import LeftOut
    from dosimeter.release.measurable import Measurable, Question


@dataclass(frozen=True, slots=True, repr=False)
class DryRun:
    """What a release would do. For the controller's eyes only.

    ``repeated``: the same request was answered before, and would be answered from the ledger at no charge. ``stopped``:
    the incident that has already stopped the dataset. ``found``: the ε, the cost, why a denial would be certain, and
    what the analyst would see. ``shown``: how many thresholded groups would be shown; None for declared groups (H1).
    ``warnings``: what to read first: whom the query is about, and what limits the word of a preference. ``left_out``
    and ``choice``: what is cut, clamped or left out, and the verdict on each ε; None where nothing was measured.
    ``called``: what rows and people are called.
    """

    query: str
    algorithm: Algorithm
    repeated: bool
    stopped: Incident | None
    found: Preview
    shown: ShownGroups | None = None
    warnings: tuple[Finding, ...] = ()
    left_out: LeftOut | None = None
    choice: Choice | None = None
    called: Words = PLAIN

    @property
    def reason(self) -> str | None:
        """Return why the release would be denied for certain, or would stop the dataset; None if neither."""
        return None if self.problem is None else self.problem.word(Surface.PYTHON)

    @property
    def problem(self) -> Problem | None:
        """Return ``reason`` as a Problem, to be worded for the terminal, Python or the web; None without a reason."""
        return self.found.reason

    @property
    def granted(self) -> bool:
        """Return whether an answer would be released or, if noise decides, could be released."""
        return self.problem is None

    @property
    def analyst_sees(self) -> Mapping[str, JsonValue]:
        """Return what the analyst would get, with placeholders for numbers that are not drawn yet."""
        return self.found.sees

    def describe(self) -> JsonObject:
        """Return the dry run as ``dosimeter release --dry-run --json`` prints it."""
        return {
            "dry_run": True,
            "query": self.query,
            "algorithm": self.algorithm,
            "repeated": self.repeated,
            "granted": self.granted,
            "stopped": None if self.stopped is None else self.stopped.describe(),
            **self.found.describe(),
            **({} if self.left_out is None else self.left_out.describe()),
            **({} if self.choice is None else self.choice.describe_verdict(self.found.epsilon)),
            **({} if self.choice is None else {"candidates": self.found.describe_candidates(self.choice)}),
            **({} if self.shown is None else {"thresholded": self.shown.describe()}),
        }

    def tell(self) -> tuple[str, ...]:
        """Return in sentences what to read first, and the verdict on an answer that may be released."""
        warnings, at = word_all(self.warnings, self.called), self.found.likely
        if self.choice is None or not self.granted or at is None:
            return warnings
        judged = self.choice.judge(at)[1]
        preset = self.choice.preference.preset
        by = f"Judged by {preset} at ε = {format_epsilon(at)}:"
        short = summarize(judged, self.called).write()
        return (*([] if preset is None else [by]), *short, *(w for w in warnings if not any(w in s for s in short)))

    def tell_seen(self) -> tuple[str, ...]:
        """Return in sentences what the analyst would see: columns, what is told of ε and errors, and public facts."""
        sees: Mapping[str, Any] = self.found.sees
        if sees["status"] != "released":
            return (f"The analyst would see: {sees['status'].capitalize()}.",)
        epsilon, errors = sees["epsilon"], sees["error_95"]
        told = f"ε = {format_epsilon(epsilon)}" if isinstance(epsilon, float) else "ε" if epsilon else "no ε"
        known = ", ".join(format_error(error) for error in errors or () if isinstance(error, float))
        beside = f"95 % errors of {known}" if known else "95 % errors" if errors else "no error"
        columns = join_names(list(sees["answer"][0])) if sees["answer"] else "no group"
        return (f"The analyst would see: {columns}, with {told} and {beside}.", *sees["about"])

    def __repr__(self) -> str:
        about = f"query={self.query!r}, algorithm={self.algorithm!r}, repeated={self.repeated}"
        return f"DryRun({about}; ε, cost and outcome are private: describe() gives them)"

    def _repr_html_(self) -> str:
        """Show the dry run in a notebook. It is private: whoever shares the notebook shares it."""
        told = [(name, value) for name, value in self.describe().items() if not isinstance(value, (Mapping, list))]
        facts = [(name.replace("_", " "), value) for name, value in told if value is not None]
        head = ["For the controller only: nothing is charged or released.", *self.tell()]
        return write_paragraphs(head) + write_table((), facts) + write_paragraphs(self.tell_seen())


def preview_release(query: Question, order: ReleaseOrder, ledger: Ledger) -> DryRun:
    """Return what the controller should know before a release. Refuse what the release itself would refuse.

    The look is recorded before anything is shown (G1). A dry run causes no incident: it tells the controller what would
    stop the dataset (N4).
    """
    dataset = query.dataset
    prepared = prepare_release(dataset.schema, query.sql, query.look, order, dataset.plan)
    begun = ledger.summary(prepared.dataset)
    source = recognise_data(dataset, begun)
    prepared = replace(prepared, plan=read_public_tables(prepared.plan, dataset.tables))
    account, agreement = check_account(ledger, prepared, source, dataset.engine, begun)
    ledger.record_view(prepared.dataset, digest_measured(prepared.plan), "dry-run", analyst=order.analyst)
    earlier = None
    if account is not None and not order.again:
        earlier = ledger.find_answer(prepared.dataset, digest_request(prepared, source))
        prepared = prepared if earlier else recall_number(ledger, prepared, source)
    charges = find_charges(agreement.terms, prepared)
    plan, repeated = prepared.plan, earlier is not None
    run = DryRun(plan.sql, order.way.algorithm, repeated, None, Preview(sees={}), called=plan.words)
    if earlier:
        run = replace(run, found=_preview_repeat(prepared, earlier, charges))
    else:
        run = _preview_new(run, dataset, prepared, charges)
    stopped = ledger.stopped(prepared.dataset)
    if stopped is None:
        return run
    found = replace(run.found, reason=run.found.reason or _explain_stop(stopped), cost=None, sees=STOPPED)
    return replace(run, stopped=stopped, found=found)


def _explain_stop(incident: Incident) -> Problem:
    return Problem(
        f"The dataset is stopped since {incident.at}: {incident.words}. Nothing fails now. When it may go on: ",
        Command("ledger LEDGER clear", call="Ledger.clear"),
        ".",
    )


def _preview_repeat(prepared: PreparedRelease, earlier: Entry, charges: RequestCharges) -> Preview:
    return Preview(
        epsilon=None if earlier.epsilon is None else float(earlier.epsilon),
        cost=Cost.nothing(charges),
        sees=repeat_answer(earlier, prepared).describe(),
    )


def _preview_new(run: DryRun, dataset: Measurable, prepared: PreparedRelease, charges: RequestCharges) -> DryRun:
    """Return the dry run of a request that was not answered before.

    No groups are shown if they are declared, if no ε is known beforehand, or if measuring fails.
    """
    way = prepared.order.way
    try:
        risk = dataset.assess_plan(prepared.plan, prepared.look)
    except SourceUnreachable:
        raise
    except DataError as error:  # the release would stop the dataset without saying why
        return replace(run, found=Preview(reason=error.problem, epsilon=way.named_epsilon, sees=STOPPED))
    found = way.preview(prepared, risk, charges)
    capped = [each for each in found.findings if isinstance(each, Finds) and each.meets]  # by the account
    about = (*find_aimed(risk.plan, risk.matched), *find_few(risk))
    shown = None
    if prepared.plan.threshold is not None and found.epsilon is not None:
        shown = risk.foresee_groups((found.epsilon,))
    return replace(
        run,
        found=found,
        shown=shown,
        warnings=(*capped, *about, *pick(found.findings, CAUTIONS)),
        left_out=risk.left_out,
        choice=found.judge(risk, charges),
    )
