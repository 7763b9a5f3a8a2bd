"""What the decision page and its actions share: find the query, measure its risk, record looks, read the preference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dosimeter.dataset import Dataset
from dosimeter.errors import InputError
from dosimeter.ledger import SharedPeople
from dosimeter.planning import digest_measured
from dosimeter.problems import Surface
from dosimeter.release import PreparedRelease, find_people
from dosimeter.risk import Preference, parse_preference
from dosimeter.schema import Schema
from dosimeter.web.decision.approve import settle_unfinished
from dosimeter.web.decision.conditions import admit_condition
from dosimeter.web.decision.form import DecisionForm, write_preference
from dosimeter.web.decision.measured import MeasuredQuery, find_measured, measure_query, name_job
from dosimeter.web.http import Refused
from dosimeter.web.question import QueryInWords, describe_question
from dosimeter.web.state import ServedDataset, ServerState
from dosimeter.web.store import StoredQuery, User, find_query, note, read_thresholds
from dosimeter.web.worker import PATIENCE, Job, JobMeter


@dataclass(frozen=True)
class Case:
    """A query, its dataset, and everything about its release that is known without reading the data."""

    query: StoredQuery
    served: ServedDataset
    prepared: PreparedRelease

    @cached_property
    def question(self) -> QueryInWords:
        """Return the query in words."""
        return describe_question(self.prepared)


def find_asked(state: ServerState, query_id: str) -> StoredQuery:
    """Return a stored query without planning it, so that even one that can no longer be answered can be denied.

    Raises Refused if there is no query of this id.
    """
    query = find_query(state.database, query_id) if query_id.isalnum() else None
    if query is None:
        raise Refused(404, "not_found", "There is no such query.")
    return settle_unfinished(state, query)


def find_case(state: ServerState, query_id: str) -> Case:
    query = find_asked(state, query_id)
    served = state.datasets.get(query.dataset)
    if served is None:
        raise Refused(404, "not_found", f"The dataset {query.dataset} is no longer served.")
    try:
        return Case(query, served, served.prepare(query.sql))
    except InputError as error:
        raise Refused(
            409, "not_answerable", f"Under the present schema this query cannot be answered: {error.word(Surface.WEB)}"
        ) from None


def list_identifying(schema: Schema) -> list[str]:
    """Return the columns that identify people: those declared as identifying, and the unit."""
    return [c.name for c in schema.columns.values() if c.identifying or c.name == schema.unit]


def needs_consent(case: Case) -> bool:
    """Return whether the controller must click before the risk is shown, because a look weakens the answer's promise.

    False where ε is found from a preference, and once somebody has looked at this query (G0, G1).
    """
    return case.served.settings.algorithm != "find" and not case.query.looked


def find_measurement(
    state: ServerState, case: Case, *, wait: float = PATIENCE, renew: bool = False
) -> Job[MeasuredQuery]:
    """Return the job that measures the risk, after starting it if need be. The job records the look in the ledger.

    It runs once per query and state of the data. ``wait``: how many seconds to wait for it at most. ``renew``: find out
    first whether the data changed; otherwise they are taken to be as the latest job saw them.
    """

    def work(dataset: Dataset, meter: JobMeter) -> MeasuredQuery:
        measured = digest_measured(case.prepared.plan)
        state.database.ledger.record_view(case.prepared.dataset, measured, "risk", analyst=case.query.analyst)
        return measure_query(dataset, case.prepared, meter)

    worker = case.served.worker
    known = find_measured(worker, case.query.id)
    if known is not None and known.state == "done":
        if renew:
            renew_digest(case.served)
        if known.result.fingerprint != worker.digest:
            worker.forget(known)
    return worker.ask(name_job(case.query.id), "Measuring how exposed everybody is", work, wait=wait, heavy=True)


def recall_measured(case: Case) -> MeasuredQuery | None:
    """Return the measured risk if there is one already; None otherwise."""
    job = find_measured(case.served.worker, case.query.id)
    return None if job is None or job.state != "done" else job.result


def renew_digest(served: ServedDataset) -> str:
    """Return the digest of the data as they are now; if reading it takes too long, as the latest job saw them."""
    key = ("digest", served.name)
    before = served.worker.peek(key)
    if before is not None:
        served.worker.forget(before)
    served.worker.ask(
        key, "Looking whether the data changed", lambda _d, meter: meter.digest, wait=PATIENCE, revive=True
    )
    return served.worker.digest


def find_shared(state: ServerState, served: ServedDataset) -> tuple[SharedPeople, ...]:
    """Return the other accounts that have individuals with the same keys as these data; for the controller.

    Empty also if comparing takes too long: then the release itself compares, and refuses.
    """
    if served.schema.unit == "row":
        return ()
    key, ledger = ("people", served.name), state.database.ledger
    before = served.worker.peek(key)
    if before is not None:
        served.worker.forget(before)
    job = served.worker.ask(
        key, "Comparing the individuals with those of other accounts",
        lambda dataset, _meter: find_people(ledger, dataset.engine, dataset.schema, dataset.schema.account_name)[1],
        wait=PATIENCE, revive=True,
    )  # fmt: skip
    return job.result if job.state == "done" else ()


def note_look(state: ServerState, user: User, case: Case, what: str, detail: str = "") -> None:
    """Record a look in the audit log, once per session, query, kind of look (``what``) and ``detail``."""
    if state.remember_first(user.session, what, case.query.id, detail):
        note(
            state.database, user.name, what, dataset=case.served.name, query_id=case.query.id, detail=detail
        )  # fmt: skip


def read_preference(state: ServerState, case: Case, user: User, form: DecisionForm) -> Preference:
    """Return the preference that the form stands for.

    With the noisy test the form is ignored: the preference is the limit on the variance from the dataset's settings.
    Raises PreferenceError if the preference cannot be used, or names people who were not revealed.
    """
    if case.served.settings.algorithm == "find-and-release":
        return parse_preference(f"variance:{case.served.settings.variance!r}")
    usual = read_thresholds(state.database, user)["normal"]  # whatever priority the analyst gave
    preference = write_preference(form, case.served.schema, usual)
    admit_condition(state, user, case.query, case.prepared.plan, preference)
    return preference
