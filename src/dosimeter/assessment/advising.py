"""Collect what a controller should know before an ε is taken: how accurate the answer is, and the absolute risks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dosimeter.assessment.coarser import find_coarser
from dosimeter.risk import Advice, AnswerAccuracy, CoarserQuery, RiskAndAccuracy, find_safe

if TYPE_CHECKING:
    from dosimeter.assessment.risk import Risk
    from dosimeter.risk import Candidate


def build_advice(
    risk: Risk,
    lines: Sequence[Candidate],
    *,
    epsilon: float | None,
    decides: bool | None,
    by_cell: float | None = None,
) -> Advice:
    """Return the advice on ``epsilon``; if that is None, on the largest candidate that meets the preference.

    If no candidate meets it, the advice is on the largest of all. ``lines``: the candidates. ``decides``: whether the
    preference tells candidates apart (F4); None without a preference. ``by_cell``: the ε that the cell indicator finds,
    if any (R11).
    """
    ordered = sorted(lines, key=lambda line: line.epsilon)
    met = [at for at, line in enumerate(ordered) if line.satisfied]
    place = next((at for at, line in enumerate(ordered) if line.epsilon == epsilon), (met or [len(ordered) - 1])[-1])

    def weigh(at: int) -> RiskAndAccuracy | None:
        if not 0 <= at < len(ordered):
            return None
        line = ordered[at]
        absolute = risk.absolute(line.epsilon) if line.absolute is None else line.absolute
        return RiskAndAccuracy(
            line.epsilon, AnswerAccuracy.of(risk.foresee(line.epsilon, read=True), line.errors), absolute
        )

    here = weigh(place)
    assert here is not None
    safest = find_safe(lines)
    safe = None if safest is None else weigh([line.epsilon for line in ordered].index(safest))
    shown = safe if decides is False else here
    counts, shares = risk.sensitivities.counts, risk.sensitivities.shares
    exposure = risk.sensitivities.values if shares is None else shares
    return Advice(
        columns=tuple(output.name for output in risk.plan.outputs if output.is_aggregate),
        at=here,
        up=weigh(place + 1),
        down=weigh(place - 1),
        decides=decides,
        met=bool(met),
        safe=safe,
        coarser=None if shown is None else _find_coarser(risk, shown),
        exposed=int(counts[exposure >= exposure.max() * (1.0 - 1e-12)].sum()),
        touched=risk.matched,
        by_cell=by_cell,
        cell_differs=epsilon is not None and (by_cell is None or by_cell < epsilon) and decides is not None,
    )


def _find_coarser(risk: Risk, shown: RiskAndAccuracy) -> CoarserQuery | None:
    """Return a query with fewer groups and more accurate numbers; None if there is none, or for a study."""
    return find_coarser(risk.plan, risk.measured(), shown.accuracy) if risk.plan.digest else None
