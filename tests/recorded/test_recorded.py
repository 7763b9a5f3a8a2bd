"""What some 140 commands print is what was recorded, but for wording, noise, times and the like.

``tools/record_commands.py`` writes the recordings again, where a change is intended.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.recorded.recorded_mask import Mask
from tests.recorded.recorded_stories import read_recording, read_stories, tell_story, write_document

STORIES = read_stories()


def split_floats(document: dict[str, Any]) -> tuple[list[str], list[float]]:
    """Return the lines of a recording without its floats, and these: they may differ by rounding, nothing else may."""
    floats: list[float] = []

    def take(text: str) -> str:
        floats.append(float(text))
        return "<float>"

    return write_document(json.loads(json.dumps(document), parse_float=take)).splitlines(), floats


def compare(recorded: dict[str, Any], now: dict[str, Any]) -> None:
    (expected, numbers), (lines, found) = split_floats(recorded), split_floats(now)
    assert lines == expected
    assert found == pytest.approx(numbers, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("name", STORIES)
def test_the_commands_print_what_was_recorded(name: str, tmp_path: Path) -> None:
    compare(read_recording(name), tell_story(STORIES[name], tmp_path))


@pytest.mark.parametrize(
    "change",
    [
        {"status": 1},
        {"error": "OptionError"},
        *({"k": changed} for changed in (2, 1.0, True, None)),
        {"more": 1},
        {"mechanism": "gaussian"},
        {"sensitivity": 100.000001},
        {"notes": []},
    ],
    ids=str,
)
def test_a_change_is_found(change: dict[str, Any]) -> None:
    recorded = read_recording("risk")["sum"]
    now = {**recorded, "out": {**recorded["out"], "sensitivity": 100.00000000001}}  # rounding
    compare(recorded, now)
    changed = {**now, **change} if change.keys() & {"status", "error"} else {**now, "out": {**now["out"], **change}}
    with pytest.raises(AssertionError):
        compare(recorded, changed)
    with pytest.raises(AssertionError):
        compare(recorded, {**now, "out": dict(reversed(now["out"].items()))})


def test_what_is_masked_and_what_is_not() -> None:
    mask, digest = Mask(), "ab" * 32
    document = {
        "seq": 1, "id": "0123456789abcdef", "at": "2026-01-05T10:00:00Z", "digest": digest, "previous": "0" * 64,
        "guarantee": "True.", "notes": ["One.", "Two."], "reason": "budget", "plan_digest": digest, "epsilon": 0.5,
        "salt": "00ff",
        "answer": [{"city": "Rome", "n": 3, "mean": 0.5, "none": None}], "measured": [["3/4"]],
        "again": {"reason": "Nothing is left.", "entry": "0123456789abcdef", "head": digest},
    }  # fmt: skip
    assert mask.apply(document) == {
        "seq": 1, "id": "<entry 1>", "at": "<time>", "digest": "<digest 1>", "previous": "0" * 64,
        "guarantee": "<words>", "notes": ["<words>", "<words>"], "reason": "budget", "plan_digest": digest,
        "epsilon": 0.5, "salt": "<salt>",
        "answer": [{"city": "Rome", "n": "<noisy integer>", "mean": "<noisy float>", "none": "<noisy float>"}],
        "measured": [["<noisy number>"]],
        "again": {"reason": "<words>", "entry": "<entry 1>", "head": "<digest 1>"},
    }  # fmt: skip
    exact = mask.apply(document, exact=True, noisy=frozenset({"epsilon"}))
    assert (exact["answer"], exact["measured"], exact["epsilon"]) == (
        document["answer"], document["measured"], "<noisy float>",
    )  # fmt: skip
    assert mask.resolve("--head=<digest 1>") == f"--head={digest}"
