"""After a release: how exposed everybody is by the answer that was released. For the controller's eyes only.

Takes what can be measured and a released Entry of its ledger; gives the RDR for this output (R1) and the privacy loss
(R2) of each class of people with equal contributions. The ledger keeps the noisy numbers that an answer was made of, so
this also works for an AVG, or where HAVING and LIMIT left groups out. Charges nothing and releases nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.errors import LedgerError
from dosimeter.json_values import JsonObject
from dosimeter.ledger import Entry, MeasuredTexts, exact_decimal
from dosimeter.mechanisms import Mechanism
from dosimeter.options import LookOptions, Study
from dosimeter.planning import PlanOptions, QueryPlan, plan_options
from dosimeter.release.facts.entries import holds_facts
from dosimeter.risk import RDRs, compute_ex_post, summarise_rdr

if TYPE_CHECKING:
    from dosimeter.influence import Measured
    from dosimeter.release.measurable import Measurable

MOST_CLASSES = 10_000


@dataclass(frozen=True, slots=True, repr=False)
class ExPostRisk:
    """Everybody's risk after one answer: arrays over classes of people with equal contributions. Private.

    The class with the largest loss is first. ``counts``: how many people are in each class. ``sensitivities``: their
    per-instance sensitivity (N1). ``rdr``: their RDR for this output (R1). ``losses``: the privacy loss by the noisy
    numbers alone (R2), in ε; if ε was selected by a noisy test, this test cost everybody up to ``epsilon_svt`` more.
    ``k``: how many noisy numbers there are. ``declared``: how many individuals the schema declares.
    """

    entry: str
    query: str
    mechanism: Mechanism
    epsilon: float
    epsilon_svt: float | None
    noise_scale: float
    k: int
    sensitivities: FloatArray
    rdr: FloatArray
    losses: FloatArray
    counts: IntArray
    declared: int

    @property
    def n(self) -> int:
        """Return how many people are in the table (N5). Means and other summaries are taken over these."""
        return int(self.counts.sum())

    @property
    def mean_loss(self) -> float:
        return float(np.average(self.losses, weights=self.counts))

    def describe(self) -> JsonObject:
        """Return the JSON form. ``classes`` is null if there are more than 10,000."""
        listed = None
        if len(self.counts) <= MOST_CLASSES:
            rows = zip(self.counts, self.sensitivities, self.rdr, self.losses, strict=True)
            listed = [
                {"people": int(people), "sensitivity": float(pis), "rdr": float(rdr), "loss": float(loss)}
                for people, pis, rdr, loss in rows
            ]
        return {
            "release": self.entry,
            "query": self.query,
            "mechanism": self.mechanism.name,
            "calibration": self.mechanism.calibration,
            "delta": self.mechanism.delta,
            "epsilon": self.epsilon,
            "epsilon_svt": self.epsilon_svt,
            "noise_scale": self.noise_scale,
            "n": self.declared,
            "people": self.n,
            "k": self.k,
            "rdr": summarise_rdr(RDRs(self.epsilon, self.rdr, self.counts, float(self.rdr.max()))).describe(),
            "loss": {
                "min": float(self.losses.min()),
                "max": float(self.losses.max()),
                "mean": self.mean_loss,
            },
            "classes": listed,
        }

    def __repr__(self) -> str:
        return f"ExPostRisk(n={self.n}, redacted)"


def ex_post_risk(dataset: Measurable, entry: Entry, sql: str | None = None) -> ExPostRisk:
    """Return everybody's RDR (R1) and loss (R2) by a released answer. The data must be as when it was released.

    ``sql``: if given, the entry must be the answer to this query. Raises LedgerError if the entry is no such answer, or
    if its groups were thresholded or a number was drawn by rank.
    """
    request = entry.request
    if entry.status != "released":
        raise LedgerError(f"Entry {entry.id} is {entry.status}: it gave no answer that could expose anybody.")
    if holds_facts(entry):
        raise LedgerError(
            f"Entry {entry.id} found the facts of a schema, by many questions that depend on one another: what "
            "everybody is guaranteed is its ε."
        )
    if entry.measured is None or entry.epsilon is None:
        raise LedgerError(
            f"Entry {entry.id} was settled before the ledger kept noisy numbers: there are none to look at."
        )
    if entry.keys is not None:
        raise LedgerError(
            f"Entry {entry.id} shows groups that nobody declared. Which groups it does not show tells something too, "
            "so its losses are no function of the numbers alone: look at the risk before a release instead."
        )
    plan = dataset.plan(request.query if sql is None else sql, recall_plan_options(entry))
    if plan.ranks:
        labels = " and ".join(rank.label for rank in plan.ranks.values())
        raise LedgerError(
            f"{labels}: drawn by rank, so there is no noise to look at afterwards. What everybody is guaranteed "
            "is their own guarantee, which the risk of the query shows."
        )
    if plan.digest != request.plan_digest:
        raise LedgerError(f"Entry {entry.id} answers another query, or one under another schema: {request.query}")
    if not dataset.engine.is_still(request.source_digest):
        raise LedgerError(f"Entry {entry.id} was released from other data: give the data as they were then.")
    risk = dataset.assess_plan(plan, recall_look(entry))
    epsilon = float(entry.epsilon)
    scale = risk.noise_scale(epsilon)
    residual = _find_residual(plan, risk.measured(), entry.blocks, risk.mechanism)
    rdr, losses = compute_ex_post(risk.contributions, residual, risk.mechanism, scale)
    sensitivities = risk.contributions.norms(risk.mechanism.norm)
    inhabited = np.flatnonzero(risk.contributions.people > 0)
    order = inhabited[np.lexsort((-sensitivities[inhabited], -losses[inhabited]))]
    return ExPostRisk(
        entry=entry.id,
        query=request.query,
        mechanism=risk.mechanism,
        epsilon=epsilon,
        epsilon_svt=None if entry.epsilon_svt is None else float(entry.epsilon_svt),
        noise_scale=scale,
        k=risk.k,
        sensitivities=sensitivities[order],
        rdr=rdr[order],
        losses=losses[order],
        counts=risk.contributions.people[order],
        declared=risk.n,
    )


def recall_look(entry: Entry) -> LookOptions:
    """Return the options under which the entry's query was measured when it was released."""
    request, given = entry.request, entry.request.settings
    floor, shown, told = given.get("min_rows"), given.get("group_delta"), given.get("tell_cut")
    noise = request.delta if shown is None else request.delta - exact_decimal(shown)  # the entry's δ is their sum (H1)
    return LookOptions(
        mechanism=cast(Any, request.mechanism),  # a text of the ledger, which LookOptions checks
        delta=float(noise),
        indicator=cast(Any, given.get("indicator") or "bound"),
        candidates=cast(Any, given.get("candidates")),
        groups="declared" if shown is None else "thresholded",
        min_rows=None if floor is None else int(floor),
        group_delta=None if shown is None else float(shown),
        tell_cut=None if told is None else float(told),
    )


def recall_plan_options(entry: Entry) -> PlanOptions:
    """Return the options by which the entry's query was planned. MIN, MEDIAN … may have got noise in earlier versions.

    Entries that do not say how these were drawn had none by rank.
    """
    drawn = entry.request.settings.get("quantiles") or "noise"
    return plan_options(replace(recall_look(entry), study=Study(quantiles=cast(Any, drawn))))


def _find_residual(
    plan: QueryPlan, exact: Measured, released: Sequence[MeasuredTexts], mechanism: Mechanism
) -> FloatArray:
    """Return o − q(x), the released numbers minus the exact ones: the noise that was drawn in every cell.

    It is scaled by ``plan.weights``, as contributions are (S5).
    """
    found = []
    for block, texts, whole in zip(plan.blocks, released, exact.blocks, strict=True):
        rows = zip(texts, whole.values, strict=True)
        differences = [[float(Fraction(o) - q) for o, q in zip(noisy, true, strict=True)] for noisy, true in rows]
        found.append((np.array(differences, dtype=np.float64) * block.weights(mechanism.norm)).ravel())
    return np.concatenate(found)
