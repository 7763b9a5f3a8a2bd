"""What the decision page and its actions share: find the query, measure its risk, record looks, read the preference."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from fastapi import Depends

from dosimeter.dataset import Dataset
from dosimeter.errors import InputError, PreferenceError
from dosimeter.ledger import SharedPeople
from dosimeter.planning import digest_measured
from dosimeter.problems import Surface
from dosimeter.release import PreparedRelease, find_people
from dosimeter.risk import Preference, parse_preference
from dosimeter.schema import Schema
from dosimeter.web.decision.approve import LONGEST_PREFERENCE, AlreadyDecided, settle_unfinished
from dosimeter.web.decision.conditions import admit_condition
from dosimeter.web.decision.form import DecisionForm, word_closeness, write_preference
from dosimeter.web.decision.measured import MeasuredQuery, measure_query, name_job
from dosimeter.web.decision.standard import read_standards
from dosimeter.web.http import Controller, Refused, StateOf, require_found
from dosimeter.web.question import QueryInWords, describe_question
from dosimeter.web.state import ServedDataset, ServerState
from dosimeter.web.store import StoredQuery, User, find_query
from dosimeter.web.worker import PATIENCE, Job, JobMeter, Result, Work


@dataclass(frozen=True)
class Case:
    """A query, its dataset, and everything about its release that is known without reading the data."""

    query: StoredQuery
    served: ServedDataset
    prepared: PreparedRelease

    @property
    def test_cost(self) -> float:
        """Return the ε that the noisy test costs; 0 where there is none."""
        return float(self.prepared.order.way.epsilon_svt)

    @property
    def closeness(self) -> str:
        """Return the threshold of the noisy test in words."""
        return word_closeness(self.served.settings.variance)

    @cached_property
    def question(self) -> QueryInWords:
        """Return the query in words."""
        return describe_question(self.prepared)


def find_asked(user: Controller, state: StateOf, query_id: str) -> StoredQuery:
    """Return the stored query that a controller's request names.

    It is not planned, so that even one that can no longer be answered can be denied. Raises Refused if there is none.
    """
    query = find_query(state.database, query_id) if query_id.isalnum() else None
    return settle_unfinished(state, require_found(query, "There is no such query."))


AskedQuery = Annotated[StoredQuery, Depends(find_asked)]


def find_case(state: StateOf, query: AskedQuery) -> Case:
    served = require_found(state.datasets.get(query.dataset), f"The dataset {query.dataset} is no longer served.")
    try:
        return Case(query, served, state.prepare(served, query.sql))
    except InputError as error:
        raise Refused(
            409, "not_answerable", f"Under the present schema this query cannot be answered: {error.word(Surface.WEB)}"
        ) from None


def require_undecided(case: CaseOf) -> Case:
    """Return the case of a query that can be decided now. Raises AlreadyDecided for any other."""
    if not case.query.status.undecided:
        raise AlreadyDecided(case.query)
    return case


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

    worker, key = case.served.worker, name_job(case.query.id)
    known = worker.peek(key)
    if renew and known is not None and known.state == "done":
        renew_digest(case.served)
    return worker.ask(key, "Measuring how exposed everybody is", work, wait=wait, heavy=True, current=True)


def require_measurement(state: StateOf, case: CaseOf) -> Job[MeasuredQuery]:
    """Return the finished job that measured the risk.

    Refuses if a controller must first choose to look (``needs_consent``), or if the job is not done.
    """
    if needs_consent(case):
        raise Refused(403, "not_looked", "Choose to look at the risk first.")
    job = find_measurement(state, case)
    if job.state != "done":
        raise Refused(503, "computing", "The risk is still being computed. Try again in a moment.")
    return job


CaseOf = Annotated[Case, Depends(find_case)]
UndecidedCase = Annotated[Case, Depends(require_undecided)]
Measurement = Annotated[Job[MeasuredQuery], Depends(require_measurement)]


def ask_of_people(
    case: Case,
    measurement: Job[MeasuredQuery],
    key: tuple[Hashable, ...],
    title: str,
    compute: Callable[[MeasuredQuery], Result],
    *,
    revive: bool = False,
) -> Job[Result]:
    """Return the job that goes over everybody once more. It refuses if the data changed since they were measured.

    ``key``: what is computed; ``revive``: begin it again if somebody stopped it.
    """

    def work(_dataset: Dataset, meter: JobMeter) -> Result:
        measurement.result.require_data(meter.digest)
        return compute(measurement.result)

    return case.served.worker.ask((*key, measurement.id), title, work, wait=PATIENCE, revive=revive)


def renew_digest(served: ServedDataset) -> str:
    """Return the digest of the data as they are now; if reading it takes too long, as the latest job saw them."""
    _ask_anew(served, "digest", "Looking whether the data changed", lambda _d, meter: meter.digest)
    return served.worker.digest


def _ask_anew(served: ServedDataset, kind: str, title: str, work: Work[Result]) -> Job[Result]:
    """Return the job of this kind, begun again if it ended before."""
    key = (kind, served.name)
    before = served.worker.peek(key)
    if before is not None:
        served.worker.forget(before)
    return served.worker.ask(key, title, work, wait=PATIENCE, revive=True)


def find_shared(state: ServerState, served: ServedDataset) -> tuple[SharedPeople, ...]:
    """Return the other accounts that have individuals with the same keys as these data; for the controller.

    Empty also if comparing takes too long: then the release itself compares, and refuses.
    """
    if served.schema.unit == "row":
        return ()
    ledger = state.database.ledger
    job = _ask_anew(
        served, "people", "Comparing the individuals with those of other accounts",
        lambda dataset, _: find_people(ledger, dataset.engine, dataset.schema, dataset.schema.account_name)[1],
    )  # fmt: skip
    return job.result if job.state == "done" else ()


def note_look(state: ServerState, user: User, case: Case, what: str, detail: str = "") -> None:
    """Record a look in the audit log, once per session, query, kind of look (``what``) and ``detail``."""
    state.note_once(user, what, dataset=case.served.name, query_id=case.query.id, detail=detail)


def read_preference(state: ServerState, case: Case, user: User, form: DecisionForm) -> Preference:
    """Return the preference that the form stands for.

    With the noisy test the form is ignored: the preference is the limit on the variance from the dataset's settings.
    Raises PreferenceError if the preference cannot be used, or names people who were not revealed.
    """
    if case.served.settings.algorithm == "find-and-release":
        return parse_preference(f"variance:{case.served.settings.variance!r}")
    standard = read_standards(state, user)
    form = standard.settle(form)
    preference = write_preference(form, case.served.schema, standard.percents["normal"])  # whatever the priority
    if len(preference.text) > LONGEST_PREFERENCE:  # short names are written out
        raise PreferenceError(f"Written out, the preference has more than {LONGEST_PREFERENCE:,} letters. Shorten it.")
    admit_condition(state, user, case.query, case.prepared.plan, preference)
    return preference
