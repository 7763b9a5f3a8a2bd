"""Queries about five people who can be counted by hand, and the shape of the JSON that tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SUM = "SELECT SUM(age) FROM patients"
EAST = "SELECT COUNT(*) FROM patients WHERE ward = 'east'"
WARDS = "SELECT ward, COUNT(*) AS people FROM patients GROUP BY ward"
AGES = [30, 40, 40, 0, 90]  # Dan's is NULL; one of the six declared slots is empty, and nobody is counted for it (N5)

HEAD = {
    "query": str,
    "mechanism": str,
    "calibration": (str, type(None)),
    "delta": float,
    "indicator": str,
    "n": int,
    "people": int,
    "matched": (int, type(None)),
    "k": int,
    "sensitivity": float,
    "method": str,
    "odd_cells": (dict, type(None)),
    "sensitivities": dict,
    "candidates": list,
    "notes": list,
}
SENSITIVITIES = {"min": float, "max": float, "mean": float, "variance": float, "distinct": int, "histogram": list}
CANDIDATE = {
    "epsilon": float, "noise_scale": float, "error_95": list, "accuracy": list, "rdr": dict, "absolute": dict,
}  # fmt: skip
NONE = type(None)
ABSOLUTE = {"own_epsilon": float, "advantage": float, "picked_out": (float, NONE), "posterior": (dict, NONE)}
FOUND = {
    "preference": str, "preset": (str, NONE), "epsilon": (float, NONE), "decides": bool, "limit": (float, NONE),
    "limit_cell": (float, NONE), "epsilon_cell": (float, NONE), "cost": (dict, NONE), "conflict": (list, NONE),
}  # fmt: skip
RDR = dict.fromkeys(("min", "max", "mean", "median", "variance", "ratio"), float)


def check_shape(document: Mapping[str, Any], shape: Mapping[str, Any]) -> None:
    assert set(document) == set(shape)
    for name, kind in shape.items():
        assert isinstance(document[name], kind), name
        assert kind is not int or not isinstance(document[name], bool), name


def check_document(document: Mapping[str, Any], *, judged: bool, more: Mapping[str, Any] | None = None) -> None:
    """The contract's JSON, to the letter."""
    check_shape(document, {**HEAD, **(more or {})})
    check_shape(document["sensitivities"], SENSITIVITIES)
    listed = document["sensitivities"]["histogram"]
    for bar in listed:
        check_shape(bar, {"value": float, "count": int})
    assert [bar["value"] for bar in listed] == sorted({bar["value"] for bar in listed})
    assert sum(bar["count"] for bar in listed) == document["people"]
    for line in document["candidates"]:
        check_shape(line, CANDIDATE | ({"value": (float, type(None)), "satisfied": bool} if judged else {}))
        check_shape(line["rdr"], RDR)
        check_shape(line["absolute"], ABSOLUTE)
        assert all(error is None or isinstance(error, float) for error in line["error_95"])
    epsilons = [line["epsilon"] for line in document["candidates"]]
    assert epsilons == sorted(set(epsilons), reverse=True)
    assert all(isinstance(note, str) and note for note in document["notes"])
