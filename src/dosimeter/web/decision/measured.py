"""Everything a controller looks at for one query, computed once. For controllers only.

The query is measured on the dataset's worker. After that, the slider and most preferences (``recall``) read no data:
they compute with the distinct sensitivities, in any thread. Other preferences (``choose``) go over everybody again, on
the worker. Where there are many distinct sensitivities, pictures are drawn from a few thousand classes of people, in
which only the smallest and the largest sensitivities stay exact. A preference over least ÷ most exposed needs no more
than what every candidate already has.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from dosimeter.assessment import Risk, choose
from dosimeter.dataset import Dataset
from dosimeter.errors import DataError, DosimeterError, Interrupted
from dosimeter.findings import Choice, Finding, find_accuracy, find_at
from dosimeter.influence import Measured
from dosimeter.planning import QueryPlan, find_chances
from dosimeter.postprocess import assemble_groups, list_group_errors
from dosimeter.release import PreparedRelease
from dosimeter.risk import (
    AnswerAccuracy,
    Candidate,
    Preference,
    Sensitivities,
    ShownAt,
    ShownGroups,
    TwoWorlds,
)
from dosimeter.show.charts import Bin, bin_people
from dosimeter.web.recent import Recent
from dosimeter.web.worker import DatasetWorker, Job, JobMeter

Value = TypeVar("Value")
MANY = 20_000  # above so many distinct values, nothing is computed over all of them while somebody waits
CELLS = 4_096
KEPT_EXACT = 200
MOST_CHOICES = 200
CHANGED = "The data changed since they were measured for this page. Load the page again."


@dataclass(frozen=True, slots=True, repr=False)
class MeasuredQuery:
    """The measured risk of a query, and what was computed from it for the pages.

    ``drawn``: the classes of people that pictures are drawn from. ``exact``: by column of the answer, its exact
    numbers. ``groups``: the answer's row of each group, with exact numbers. ``answers``: by ε, how good the answer
    is. ``fingerprint``: the digest of the measured data. ``shown``: how many groups would be shown, where nobody
    declared them (H1).
    """

    risk: Risk
    candidates: tuple[Candidate, ...]
    drawn: Sensitivities
    exact: dict[str, tuple[float, ...]]
    groups: tuple[Mapping[str, Any], ...]
    answers: dict[float, AnswerAccuracy]
    fingerprint: str
    shown: ShownGroups | None = None
    _thread: int = field(default_factory=threading.get_ident)  # measured the query, and alone may read the data
    _choices: Recent[str, Choice] = field(default_factory=lambda: Recent(MOST_CHOICES))
    _known: Recent[Hashable, Any] = field(default_factory=Recent)

    def __repr__(self) -> str:
        return "MeasuredQuery(redacted)"

    @property
    def many(self) -> bool:
        return len(self.risk.sensitivities.values) > MANY

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the answer's columns that carry noise or are drawn by rank."""
        return tuple(output.name for output in self.risk.plan.outputs if output.is_aggregate)

    def candidate(self, epsilon: float) -> Candidate:
        return next(line for line in self.candidates if line.epsilon == epsilon)

    def recall(self, preference: Preference) -> Choice | None:
        """Return the preference evaluated at every candidate; None if that would read data or take too long for a page.

        What was evaluated before is always returned.
        """
        hard = preference.filters or (self.many and preference.kind != "ratio")
        return None if hard and preference.text not in self._choices else self.choose(preference)

    def choose(self, preference: Preference) -> Choice:
        """Return the preference evaluated at every candidate, even at those that the account no longer grants.

        The result is remembered by the preference's text. A preference with FILTER reads the data, so it is refused in
        any thread but the dataset's own, unless it is remembered.
        """

        def evaluate() -> Choice:
            if preference.filters and threading.get_ident() != self._thread:
                raise DosimeterError("A preference with FILTER reads the data, and only the dataset's own thread may.")
            return choose(self.risk, preference)

        return self._choices.read(preference.text, evaluate)

    def once(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return what is computed from this measurement alone, and remembered under this key from then on."""
        value: Value = self._known.read(key, compute)
        return value

    def require_data(self, digest: str) -> None:
        """Refuse to go on if the data with this digest are not the data that were measured."""
        if digest != self.fingerprint:
            raise DataError(CHANGED)

    def find_at(self, epsilon: float) -> tuple[Finding, ...]:
        """Return what a controller should know before taking this ε, whatever the preference is. Remembered by ε."""
        ordered = sorted(self.candidates, key=lambda line: line.epsilon)
        return self.once(("findings", epsilon), lambda: tuple(find_at(self.risk, ordered, epsilon)))

    def bins(self, epsilon: float) -> tuple[Bin, ...]:
        return self.once(("bins", epsilon), lambda: bin_people(self.risk.rdr_of(self.drawn, epsilon)))

    def worlds(self, epsilon: float) -> TwoWorlds | None:
        """Return what may be released at this ε with the most exposed person and without. Remembered by ε."""
        return self.once(("worlds", epsilon), lambda: self.risk.worlds(epsilon))

    def shown_at(self, epsilon: float) -> ShownAt | None:
        """Return how many thresholded groups would be shown at this ε; None if the groups are declared."""
        lines = () if self.shown is None else self.shown.lines
        return next((line for line in lines if line.epsilon == epsilon), None)

    def chances(self, epsilon: float) -> list[float] | None:
        """Return each group's probability of being shown, in the order of ``groups``; None if they are declared."""
        risk, threshold = self.risk, self.risk.plan.threshold
        if threshold is None:
            return None
        sizes = [int(row[threshold.people]) for row in risk.measured().values]
        return find_chances(risk.plan, risk.mechanism, risk.noise_scale(epsilon), sizes)

    def group_errors(self, epsilon: float, most: int) -> list[tuple[float | None, ...]]:
        """Return the 95 % errors of each of the first ``most`` groups, one per column, in the order of ``groups``."""
        risk, scale = self.risk, self.risk.noise_scale(epsilon)
        shown = risk.plan.after.rows_of if risk.plan.is_united else None
        numbers = [(each.keys, each.values) for each in risk.measured().blocks]
        found = list_group_errors(risk.plan, risk.mechanism, scale, numbers, most, shown)
        return found[: min(most, len(self.groups))]


def name_job(query_id: str) -> tuple[str, str]:
    """Return the key under which the worker keeps the job that measures this query."""
    return "measured", query_id


def recall_measured(worker: DatasetWorker, query_id: str) -> MeasuredQuery | None:
    """Return the measured risk of this query if there is one already; None otherwise."""
    job: Job[MeasuredQuery] | None = worker.peek(name_job(query_id))
    return None if job is None or job.state != "done" else job.result


def measure_query(dataset: Dataset, prepared: PreparedRelease, meter: JobMeter) -> MeasuredQuery:
    """Measure the risk of a query, and compute what the pages show of every candidate. On the dataset's worker.

    Raises Interrupted if the job was stopped, and DataError if the data changed meanwhile.
    """
    risk = dataset.assess_plan(prepared.plan, prepared.look)
    sensitivities = risk.sensitivities
    exact, groups = _read_exact(risk)
    risk.moved_number  # noqa: B018  # now: it can read the data
    shown = None if prepared.plan.threshold is None else risk.foresee_groups()
    lines = risk.list_candidates()
    answers: dict[float, AnswerAccuracy] = {}
    for done, line in enumerate(lines):
        if meter.stopped:
            raise Interrupted("Stopped.")
        answers[line.epsilon] = find_accuracy(risk, line)  # now: a step of the slider reads no data
        if len(sensitivities.values) > MANY:
            meter(done + 1, len(risk.candidates))
    return MeasuredQuery(
        risk=risk,
        candidates=lines,
        drawn=compress_classes(sensitivities),
        exact=exact,
        groups=groups,
        answers=answers,
        fingerprint=_require_same(dataset, meter.digest),
        shown=shown,
    )


def _require_same(dataset: Dataset, digest: str) -> str:
    """Return the digest of the measured data. Raises DataError if the data changed since ``digest`` was read.

    ``digest``: read before the measurement; if it is "", the digest is read now.
    """
    if not digest:
        return dataset.engine.fingerprint()
    if not dataset.engine.is_still(digest):
        raise DataError("The data changed while they were measured. Load the page again.")
    return digest


def _read_exact(risk: Risk) -> tuple[dict[str, tuple[float, ...]], tuple[Mapping[str, Any], ...]]:
    """Return the exact numbers by column of the answer, and the answer's rows with exact numbers, one per group.

    Without groups there are no rows. Private: for errors relative to the numbers, and never released.
    """
    rows = [row for block, numbers in _list_shown(risk) for row in assemble_groups(block, numbers.keys, numbers.values)]
    names = [output.name for output in risk.plan.outputs if output.is_aggregate]
    exact = {
        name: tuple(float(cell) for row in rows if isinstance(cell := row.get(name), int | float)) for name in names
    }
    return exact, tuple(rows) if risk.plan.groups or risk.plan.is_united else ()


def _list_shown(risk: Risk) -> list[tuple[QueryPlan, Measured]]:
    """Return the blocks (SELECTs) of the plan whose groups become rows of the answer, with their exact numbers.

    A block that is a subquery with one number is left out. The only block of a plan is always returned.
    """
    parts = list(zip(risk.plan.blocks, risk.measured().blocks, strict=True))
    return parts if len(parts) == 1 else [parts[at] for at in risk.plan.after.rows_of]


def compress_classes(sensitivities: Sensitivities) -> Sensitivities:
    """Return a few thousand classes of people in place of very many, for a picture.

    The smallest and the largest sensitivities stay exact. The range between is cut into equally wide intervals, of
    which each becomes one class, with the average sensitivity of its people. Up to 20,000 classes (``MANY``) are
    returned unchanged, and so are classes with attributes or vectors of contributions.
    """
    values, counts = sensitivities.values, sensitivities.counts
    if len(values) <= MANY or sensitivities.vectors is not None or sensitivities.attributes:
        return sensitivities
    order = np.argsort(values, kind="stable")
    values, counts = values[order], counts[order]
    middle = slice(KEPT_EXACT, len(values) - KEPT_EXACT)
    edges = np.linspace(values[middle][0], values[middle][-1], CELLS + 1)
    cell = np.clip(np.searchsorted(edges, values[middle], side="right") - 1, 0, CELLS - 1)
    people = np.bincount(cell, weights=counts[middle], minlength=CELLS)
    total = np.bincount(cell, weights=values[middle] * counts[middle], minlength=CELLS)
    held = people > 0
    return Sensitivities(
        values=np.concatenate([values[:KEPT_EXACT], total[held] / people[held], values[-KEPT_EXACT:]]),
        counts=np.concatenate([counts[:KEPT_EXACT], people[held].astype(np.int64), counts[-KEPT_EXACT:]]),
        k=sensitivities.k,
    )
