"""Everything a controller looks at for one query, computed once. For the controller's eyes only.

Measured on the dataset's bench; what follows, the slider and most preferences, is arithmetic on distinct values and
may run in any thread. Where there are many distinct values, the picture is drawn from a few thousand classes of them
(its ends stay exact), and what a preference needs is kept per candidate.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

import numpy as np

from dosimeter.assessment import Risk
from dosimeter.choose import Found, Limit, exact_limit, write_notes
from dosimeter.controller import Dataset
from dosimeter.errors import Interrupted
from dosimeter.mechanism import noise_scale
from dosimeter.model import Candidate, Choice, Output, Sensitivities
from dosimeter.plots import Bin, bin_people
from dosimeter.postprocess import assemble_answer
from dosimeter.preference import Preference, Verdict, parse_preference
from dosimeter.preference_terms import is_met
from dosimeter.releasing import Prepared
from dosimeter.risk import compute_rdr, largest_difference, lee_clifton, own_epsilon, posterior_odds
from dosimeter.web.jobs import Meter

MANY = 20_000  # distinct values above which nothing is computed over all of them while somebody waits
CELLS = 4_096
KEPT_EXACT = 200

_RATIO, _VARIANCE = parse_preference("ratio:0.5"), parse_preference("variance:0.5")


@dataclass(frozen=True, slots=True, repr=False)
class Exhibit:
    """A measured risk and what was prepared from it."""

    risk: Risk
    candidates: tuple[Candidate, ...]
    ratios: dict[float, float | None]
    variances: dict[float, float | None]
    drawn: Sensitivities
    difference: tuple[float, bool]
    exact: dict[str, tuple[float, ...]]
    fingerprint: str
    _choices: dict[str, Choice] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __repr__(self) -> str:
        return "Exhibit(redacted)"

    @property
    def many(self) -> bool:
        return len(self.risk.sensitivities.values) > MANY

    def candidate(self, epsilon: float) -> Candidate:
        return next(line for line in self.candidates if line.epsilon == epsilon)

    # ------------------------------------------------------------ preferences

    def is_quick(self, preference: Preference) -> bool:
        """Whether the preference can be evaluated while somebody waits."""
        if preference.filters:
            return preference.text in self._choices
        return not self.many or preference.text in self._choices or self._is_kept(preference)

    def _is_kept(self, preference: Preference) -> bool:
        """Whether the numbers kept per candidate decide the preference, and its exact limit takes no search."""
        plain = self.risk.indicator == "bound" and self.risk.mechanism.kind == "laplace"
        return preference.kind == "ratio" or (preference.kind == "variance" and plain)

    def choose(self, preference: Preference) -> Choice:
        """The preference at every candidate, whatever the odometer leaves. Remembered by its text."""
        with self._guard:
            known = self._choices.get(preference.text)
        if known is not None:
            return known
        choice = self._choose_quickly(preference) if self._is_kept(preference) else self.risk.find(preference)
        with self._guard:
            while len(self._choices) > 200:
                del self._choices[next(iter(self._choices))]
            self._choices[preference.text] = choice
        return choice

    def _choose_quickly(self, preference: Preference) -> Choice:
        """F1 from the kept ratios and variances: what Risk.find would give, without passing over everybody again."""
        assert preference.threshold is not None
        kept, operator = (self.ratios, ">=") if preference.kind == "ratio" else (self.variances, "<=")
        tested = tuple(
            (
                line.epsilon,
                Verdict(kept[line.epsilon], is_met(kept[line.epsilon], operator, preference.threshold), False),
            )
            for line in self.candidates
        )
        found = Found(max((e for e, verdict in tested if verdict.satisfied), default=None), tested)
        risk = self.risk
        grids = risk.plan.grids(risk.mechanism.norm)
        limit: Limit = exact_limit(
            preference, risk.sensitivities, risk.mechanism,
            sensitivity=risk.sensitivity, indicator=risk.indicator, grids=grids,
        )  # fmt: skip
        notes = write_notes(
            risk.sensitivities, risk.mechanism, sensitivity=risk.sensitivity, indicator=risk.indicator, grids=grids,
            measures=[measure.kind for measure in risk.plan.measures], groups=risk.k // len(risk.plan.measures),
            epsilons=risk.candidates, preference=preference, found=found, limit=limit,
        )  # fmt: skip
        lines = tuple(
            Candidate(line.epsilon, line.noise_scale, line.error_95, line.rdr, verdict.value, verdict.satisfied)
            for line, (_, verdict) in zip(self.candidates, tested, strict=True)
        )
        return Choice(preference.text, found.epsilon, limit.value, lines, tuple(dict.fromkeys((*risk.notes, *notes))))

    # ------------------------------------------------------------ one ε

    def bins(self, epsilon: float) -> tuple[Bin, ...]:
        risk = self.risk
        rdrs = compute_rdr(
            self.drawn, risk.mechanism,
            sensitivity=risk.sensitivity, scale=risk.noise_scale(epsilon), epsilon=epsilon, indicator=risk.indicator,
            grids=risk.plan.grids(risk.mechanism.norm),
        )  # fmt: skip
        return bin_people(rdrs)

    def own_guarantee(self, epsilon: float) -> float:
        """P1 of the most exposed."""
        risk = self.risk
        scale = noise_scale(risk.mechanism, risk.sensitivity, epsilon)
        highest = risk.sensitivities.values[-1:]
        own = own_epsilon(highest, risk.mechanism, sensitivity=risk.sensitivity, scale=scale, epsilon=epsilon)
        return float(min(own[0], epsilon))

    def identification(self, epsilon: float) -> float | None:
        """P2, pure differential privacy only."""
        if self.risk.mechanism.kind != "laplace":
            return None
        return lee_clifton(self.risk.n, epsilon, self.risk.sensitivity, self.difference[0])

    def posterior(self, charge: float, prior: float) -> float | None:
        """P3, pure differential privacy only."""
        return posterior_odds(prior, charge) if self.risk.mechanism.kind == "laplace" else None


def prepare_exhibit(dataset: Dataset, prepared: Prepared, meter: Meter) -> Exhibit:
    """Measure, then pass over everybody once per candidate. On the bench."""
    risk = dataset.assess_plan(prepared.plan, prepared.look)
    sensitivities = risk.sensitivities
    exact = _read_exact(risk)
    lines: list[Candidate] = []
    ratios: dict[float, float | None] = {}
    variances: dict[float, float | None] = {}
    for done, epsilon in enumerate(risk.candidates):
        if meter.stopped:
            raise Interrupted("Stopped.")
        rdrs = risk.rdr(epsilon)
        lines.append(risk.candidate(epsilon))
        ratios[epsilon] = _RATIO.evaluate(rdrs).value
        variances[epsilon] = _VARIANCE.evaluate(rdrs).value
        if len(sensitivities.values) > MANY:
            meter(done + 1, len(risk.candidates))
    return Exhibit(
        risk=risk,
        candidates=tuple(lines),
        ratios=ratios,
        variances=variances,
        drawn=compress_classes(sensitivities),
        difference=largest_difference(risk.contributions, risk.mechanism.norm),
        exact=exact,
        fingerprint=dataset.engine.fingerprint(),
    )


def _read_exact(risk: Risk) -> dict[str, tuple[float, ...]]:
    """The exact numbers per column of the answer, to set errors in relation. Never released."""
    measured = risk.measured()
    plain = replace(risk.plan, having=None, order=(), limit=None)
    rows = assemble_answer(plain, measured.keys, measured.values)
    names = [output.name for output in plan_outputs(risk)]
    return {name: tuple(float(row[name]) for row in rows if isinstance(row[name], (int, float))) for name in names}


def plan_outputs(risk: Risk) -> list[Output]:
    return [output for output in risk.plan.outputs if output.is_aggregate]


def compress_classes(sensitivities: Sensitivities) -> Sensitivities:
    """A few thousand classes in place of very many, for a picture: both ends exact, the middle in narrow cells."""
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
