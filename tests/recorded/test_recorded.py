"""What some 140 commands print is what was recorded, but for wording, noise, times and the like.

``tools/record_commands.py`` writes the recordings again, where a change is intended.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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
