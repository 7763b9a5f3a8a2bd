"""Read off what is told beside an answer: how many individuals were cut, and how many clamped (E5).

Takes a plan and noisy numbers; gives counts with their errors, and sentences. Never touches data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dosimeter.planning import QueryPlan
from dosimeter.postprocess.cell_errors import TAIL, Noise
from dosimeter.postprocess.computed_estimates import estimate_group
from dosimeter.postprocess.released_rows import Numbers

Told = Mapping[str, Mapping[str, float | None]]
"""By "cut" and "clamped": how many "individuals", and the 95 % "error"; None for an error that is withheld."""

_WORDS = {
    "cut": "have rows that would matter and do not count, because only {rows:,} of each do",
    "clamped": "have values that count as the bound which they exceed",
}
_NEVER = {
    "cut": "No row is cut: each row is an individual.",
    "clamped": "No value is clamped: no aggregate reads values with bounds.",
}


def find_told(plan: QueryPlan, noise: Noise, numbers: Numbers, *, clamp: bool) -> Told:
    """Return what is told beside the answer; nothing if that was not asked for.

    ``numbers``: the noisy numbers of the plan's last block. ``clamp``: whether numbers below 0 become 0. What public
    facts make 0 is 0, without an error.
    """
    if plan.told is None:
        return {}
    found: dict[str, dict[str, float | None]] = {name: {"individuals": 0, "error": 0.0} for name in _WORDS}
    if plan.told.measured:
        own = replace(noise.split(plan)[-1], tail=TAIL)  # nothing is chosen by these numbers (E2)
        counts = estimate_group(plan.blocks[-1], numbers[0], clamp=clamp)
        for at, name in enumerate(plan.told.measured):
            found[name] = {"individuals": int(counts[at]), "error": own.error(at, 1)}
    return found


def withhold_errors(told: Told) -> Told:
    """Return the same counts without errors, which would tell an ε that was found from the data (G2)."""
    return {name: {**each, "error": None} for name, each in told.items()}


def word_told(plan: QueryPlan, told: Told) -> tuple[str, ...]:
    """Return sentences on what is told beside the answer."""
    found = []
    for name, each in told.items():
        words = _WORDS[name].format(rows=plan.schema.max_rows_per_unit)
        if plan.told is None or name not in plan.told.measured:
            found.append(_NEVER[name])
            continue
        error = "" if each["error"] is None else f" (± {each['error']:,.0f})"
        found.append(f"About {each['individuals']:,.0f}{error} individuals {words}.")
    return tuple(found)
