"""Describe candidates as JSON documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dosimeter.json_values import JsonObject

if TYPE_CHECKING:
    from dosimeter.risk import Candidate


def describe_candidate(line: Candidate, *, judged: bool) -> JsonObject:
    document: JsonObject = {
        "epsilon": line.epsilon,
        "noise_scale": line.noise_scale,
        "error_95": list(line.error_95),
        "accuracy": [each.describe() for each in line.accuracy],
        "rdr": line.rdr.describe(),
        "absolute": None if line.absolute is None else line.absolute.describe(),
    }
    return document | {"value": line.value, "satisfied": line.satisfied} if judged else document
