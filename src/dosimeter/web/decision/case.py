"""One query and what must hold before it is decided: who may look, on which data, by which preference."""

from __future__ import annotations

from dataclasses import dataclass

from dosimeter.dataset import Dataset
from dosimeter.errors import InputError
from dosimeter.planning import digest_measured
from dosimeter.release import Prepared
from dosimeter.risk import Preference, parse_preference
from dosimeter.schema import Schema
from dosimeter.web.decision.approve import settle_left
from dosimeter.web.decision.conditions import admit_condition
from dosimeter.web.decision.form import Wish, write_preference
from dosimeter.web.decision.measured import Exhibit, prepare_exhibit
from dosimeter.web.http import Refused
from dosimeter.web.state import Desk, Office
from dosimeter.web.store import Row, User, find_query, note, read_thresholds
from dosimeter.web.worker import PATIENCE, Job, Meter


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
