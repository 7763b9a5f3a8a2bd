"""What some 140 commands print is what was recorded, but for wording, noise, times and the like.

``tools/record_commands.py`` writes the recordings again, where a change is intended.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.recorded.recorded_compare import find_differences
from tests.recorded.recorded_mask import Mask
from tests.recorded.recorded_stories import read_recording, read_stories, tell_story

STORIES = read_stories()


@pytest.mark.parametrize("name", STORIES)
def test_the_commands_print_what_was_recorded(name: str, tmp_path: Path) -> None:
    found = find_differences(read_recording(name), tell_story(STORIES[name], tmp_path))
    assert not found, "\n".join(found)


# ---------------------------------------------------------------- that a change would be found

RISK = ("risk", "sum")
Change = Callable[[dict[str, Any]], object]


def recorded(name: str, command: str) -> dict[str, Any]:
    return dict(read_recording(name)[command])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda outcome: outcome.update(status=1), [".status: was 0, is 1"]),
        (lambda outcome: outcome["out"].pop("k"), [".out.k: is missing"]),
        (lambda outcome: outcome["out"].update(more=1), [".out.more: is new"]),
        (lambda outcome: outcome["out"].update(k=2), [".out.k: was 1, is 2"]),
        (lambda outcome: outcome["out"].update(k=1.0), [".out.k: was 1, is 1.0"]),
        (lambda outcome: outcome["out"].update(k=True), [".out.k: was 1, is True"]),
        (lambda outcome: outcome["out"].update(n=outcome["out"].pop("n")), [".out: its keys are in another order"]),
        (lambda outcome: outcome["out"]["notes"].append("<words>"), [".out.notes: had 3 items, has 4"]),
        (lambda outcome: outcome["out"].update(mechanism="gaussian"), [".out.mechanism: was 'laplace', is 'gaussian'"]),
        (
            lambda outcome: outcome["out"].update(sensitivity=100.000001),
            [".out.sensitivity: was 100.0, is 100.000001"],
        ),
        (
            lambda outcome: outcome["out"]["candidates"][1].update(error_95=None),
            [".out.candidates[1].error_95: was [300.0], is None"],
        ),
        (lambda outcome: outcome.update(error="OptionError"), [".error: is new"]),
        (lambda outcome: outcome["out"].update(sensitivity=100.00000000001), []),  # rounding
    ],
)
def test_a_change_is_found(change: Change, found: list[str]) -> None:
    before, after = recorded(*RISK), recorded(*RISK)
    assert find_differences(before, after) == []
    change(after)
    assert find_differences(before, after) == found


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
