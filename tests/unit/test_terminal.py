"""What stands on a terminal: the right figures, whole, inside the width, in any encoding, and harmless."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from dosimeter.findings import AccountRefuses, Choice, find_in_choice, find_unstated, word
from dosimeter.risk import decides, parse_preference
from dosimeter.risk.choose import paper_candidates
from dosimeter.risk.exposure import Candidate, ExposedPerson, GroupRisk, Sensitivities, Spread
from dosimeter.show.terminal.tables import (
    candidate_table,
    groups_table,
    people_table,
    pick_candidates,
    range_bars,
    say,
)

PEOPLE_CLASSES = Sensitivities(np.array([0.0, 1.0]), np.array([39, 1]), k=1)
NUMBERS: Any = SimpleNamespace(indicator="bound", smallest_group=lambda: None, sensitivities=PEOPLE_CLASSES)
"""Stands for a Risk, where only the candidates matter."""
RATIO = "MIN(rdr) / MAX(rdr) >= 0.95"
SPENT = AccountRefuses(
    "budget", 0.1, 0.0, spent=2.0, after=2.1, budget=2.0, left=0.0,
    delta=0.0, delta_spent=0.0, delta_total=0.0, cap=None, in_zcdp=False,
)  # fmt: skip


def describe(epsilon: float, *, threshold: float | None = None, outputs: int = 1) -> Candidate:
    """Two people with PIS 0 and one with PIS 1 under Laplace noise (R3): the paper's three patients."""
    scale = 1 / epsilon
    mean = (3 * scale + 1) / 3
    ratio = scale / (1 + scale)
    rdr = Spread(min=scale, max=1 + scale, mean=mean, median=scale, variance=2 / 9)
    met = None if threshold is None else ratio >= threshold
    errors = tuple(3.0 * scale * 10**index for index in range(outputs))
    return Candidate(epsilon, scale, errors, rdr, None if met is None else ratio, met)


PAPER = [describe(epsilon, threshold=0.95) for epsilon in paper_candidates()]
PLAIN = [describe(epsilon) for epsilon in (10.0, 1.0, 0.1)]
NAMES = ["count(*)", "avg(hours_per_week)", "sum(capital_gain)"]
PEOPLE = [
    ExposedPerson(
        people=9,
        sensitivity=1.0,
        why="removing them changes Other from 1 to 0",
        columns={"age": 25, "race": "Other", "name": "•••", "native_country": "Trinadad&Tobago", "note": None},
        times_average=1.0623,
        own_epsilon=0.1,
    ),
    ExposedPerson(1, 0.5, "", {"age": 31, "race": "White"}, times_average=1.05, own_epsilon=0.05),
]
GROUPS = [GroupRisk("White", 27816, median=1.0, max=1.05), GroupRisk(None, 3, median=1.04, max=1.05)]


def show(thing: RenderableType, width: int = 80, encoding: str = "utf-8") -> str:
    """As it is piped into a file of this encoding."""
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding=encoding), width=width)
    console.print(thing)
    console.file.flush()
    return raw.getvalue().decode(encoding)


def advise(
    lines: Sequence[Candidate],
    *,
    found: float | None = None,
    limit: float | None = None,
    refusal: AccountRefuses | None = None,
) -> str:
    """Return the first sentence of advice on these candidates, where RATIO is preferred."""
    choice = Choice(parse_preference(RATIO), found, limit, tuple(lines), decides=decides(lines), epsilon_cell=found)
    return word(next(find_in_choice(NUMBERS, choice, refusal)))


EVERYTHING = [
    candidate_table(PAPER, ["count(*)"], found=0.05),
    candidate_table(PAPER, ["count(*)"], found=0.05, show_all=True),
    candidate_table([describe(e, threshold=0.95, outputs=3) for e in (1.0, 0.001)], NAMES, found=None),
    candidate_table([describe(e, outputs=6) for e in (1.0, 0.001)], [*NAMES, "a", "b", "c"], found=None),
    range_bars(PAPER, found=0.05),
    range_bars(PLAIN),
    people_table(PEOPLE, epsilon=0.1),
    groups_table(GROUPS, by="race", epsilon=0.1),
    say(advise(PAPER, found=0.05, limit=1 / 19)),
]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("thing", EVERYTHING)
def test_nothing_is_wider_than_the_terminal_or_cut_off(thing: RenderableType, encoding: str, width: int) -> None:
    text = show(thing, width, encoding)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [80, 120])
def test_table_holds_whole_figures(width: int) -> None:
    text = show(candidate_table(PAPER, ["count(*)"], found=0.05), width)
    found = next(line for line in text.splitlines() if line.split()[:1] == ["0.05"])
    assert found.split() == ["0.05", "20", "±", "60", "95.24", "%", "✓", "◀", "found"]
    missed = next(line for line in text.splitlines() if line.split()[:1] == ["0.06"])
    assert missed.split() == ["0.06", "16.7", "±", "50", "94.34", "%", "✗"]


def test_numbers_stand_side_by_side_where_there_is_room_and_else_one_under_the_other() -> None:
    table = candidate_table([describe(0.001, outputs=3)], NAMES, found=None)
    wide, narrow = show(table, 120).splitlines(), show(table, 62).splitlines()
    assert any(re.search(r"± 3,000 +± 30,000 +± 300,000 ", line) for line in wide)
    for piece in ("count(*) ± 3,000", "avg(hours_per_week) ± 30,000", "sum(capital_gain) ± 300,000"):
        assert sum(piece in line for line in narrow) == 1


def test_a_value_that_is_not_the_ratio_has_its_own_column() -> None:
    candidate = describe(1.0, threshold=0.1)
    other = Candidate(1.0, 1.0, (None,), candidate.rdr, 1.23456e-5, True)
    text = show(candidate_table([other], ["avg(x)"], found=1.0))
    assert "0.00001235" in text
    assert "no bound" in text
    assert "preference value" not in show(candidate_table([candidate], ["avg(x)"], found=1.0))


def test_thirty_seven_candidates_are_thinned_out_and_said_so() -> None:
    shown = [c.epsilon for c in pick_candidates(PAPER, 0.03)]
    decades = [10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001]
    assert shown == sorted({*decades, 0.04, 0.03}, reverse=True)
    note = f"(37 candidates, {len(shown)} shown; --all shows every one)"
    assert note in show(candidate_table(PAPER, ["n"], found=0.03))
    bars = show(range_bars(PAPER, found=0.03)).splitlines()
    assert sum("×" in line and ("✓" in line or "✗" in line) for line in bars) == len(shown)
    complete = show(candidate_table(PAPER, ["n"], found=0.03, show_all=True))
    assert "shown" not in complete
    assert sum("%" in line and ("✓" in line or "✗" in line) for line in complete.splitlines()) == 37


def test_other_lists_are_thinned_out_evenly() -> None:
    many = [describe(0.0137 * place) for place in range(1, 101)]
    shown = {c.epsilon for c in pick_candidates(many, many[40].epsilon)}
    assert 10 <= len(shown) <= 18
    assert {many[place].epsilon for place in (0, -1, 39, 40, 41)} <= shown


BLOCKS = {"█": 8} | {glyph: eighth for eighth, glyph in enumerate("▏▎▍▌▋▊▉", start=1)}


def measure(line: str) -> tuple[int, int]:
    """Where the bar of a line starts, and its length in eighths."""
    bar = [(place, BLOCKS[glyph]) for place, glyph in enumerate(line) if glyph in BLOCKS]
    return bar[0][0], sum(length for _, length in bar)


@pytest.mark.parametrize("width", [80, 120])
def test_bar_lengths_are_logarithms_of_the_ratio(width: int) -> None:
    lines = [line for line in show(range_bars(PLAIN, width=width), width).splitlines() if "█" in line]
    lengths = [measure(line)[1] for line in lines]
    expected = [-math.log(c.rdr.ratio) for c in PLAIN]
    unit = lengths[0] / expected[0]
    assert lengths == pytest.approx([unit * length for length in expected], abs=1.01)
    starts = [measure(line)[0] for line in lines]
    shift = [math.log(c.rdr.min / c.rdr.mean) for c in PLAIN]
    assert starts[1] - starts[0] == pytest.approx(unit / 8 * (shift[1] - shift[0]), abs=1.01)


def test_bars_carry_their_figures_and_signs() -> None:
    text = show(range_bars(PAPER, found=0.05))
    ten = next(line for line in text.splitlines() if line.split()[:1] == ["10"])
    # b = 0.1, mean 0.1 + 1/3: least 0.1 / 0.43333, most 1.1 / 0.43333.
    assert ten.endswith("0.231 – 2.54 × ✗")
    assert next(line for line in text.splitlines() if line.split()[:1] == ["0.05"]).endswith("✓")


def test_ascii_terminals_get_words_and_plain_bars() -> None:
    text = show(range_bars(PAPER, found=0.05), encoding="ascii")
    assert "####" in text
    assert re.search(r"^ +10 .* x no *$", text, re.MULTILINE)
    table = show(candidate_table(PAPER, ["count(*)"], found=0.05), encoding="ascii")
    assert "yes < found" in table
    assert "+/- 60" in table
    assert "\\u" not in text + table


def test_no_color_leaves_the_signs() -> None:
    stream = io.StringIO()
    Console(file=stream, width=80, force_terminal=True, no_color=True).print(
        candidate_table(PAPER, ["count(*)"], found=0.05)
    )
    assert not re.search(r"\x1b\[[\d;]*[34]8;", stream.getvalue())
    assert "✓" in stream.getvalue()
    coloured = io.StringIO()
    Console(file=coloured, width=80, force_terminal=True, color_system="truecolor", no_color=False).print(
        candidate_table(PAPER, ["count(*)"], found=0.05)
    )
    assert "38;2;0;114;178" in coloured.getvalue()  # #0072B2


def test_people_are_shown_with_reason_and_record() -> None:
    flat = re.sub(r"\s+", " ", show(people_table(PEOPLE, epsilon=0.1), 200))
    for piece in (
        "at ε = 0.1",
        "9 1.06 0.1 removing them changes Other from 1 to 0 age = 25, race = Other, name = •••",
    ):
        assert piece in flat
    assert "note = NULL" in flat


def test_groups_say_when_they_are_small() -> None:
    lines = show(groups_table(GROUPS, by="race")).splitlines()
    assert any(line.split() == ["White", "27,816", "1", "1.05"] for line in lines)
    assert any(line.split()[:4] == ["NULL", "3", "1.04", "1.05"] and "fewer than 5 people" in line for line in lines)


HOSTILE = "[red]\x1b[31mbold\x1b]0;owned\x07\u202eevil\r\n[/red]"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_cells_cannot_act_on_the_terminal(encoding: str) -> None:
    people = [ExposedPerson(1, 1.0, HOSTILE, {"name": HOSTILE}, times_average=1.0, own_epsilon=1.0)]
    groups = [GroupRisk(HOSTILE, 9, median=1.0, max=1.0)]
    text = show(people_table(people), 160, encoding) + show(groups_table(groups, by=HOSTILE), 160, encoding)
    assert not set(text) & {"\x1b", "\x07", "\u202e", "\r"}
    assert "[red]" in text
    assert "[/red]" in text


def test_letters_the_encoding_lacks_are_spelled_out() -> None:
    group = [GroupRisk("café", 9, median=1.0, max=1.0)]
    assert "caf\\xe9" in show(groups_table(group, by="place"), encoding="ascii")
    assert "café" in show(groups_table(group, by="place"))


def states(*met: bool | None) -> Sequence[Candidate]:
    return [
        Candidate(c.epsilon, c.noise_scale, c.error_95, c.rdr, c.rdr.ratio, state)
        for c, state in zip(PLAIN, met, strict=True)
    ]


@pytest.mark.parametrize(
    ("sentence", "pieces"),
    [
        (
            advise(PAPER, found=0.05, limit=1 / 19),
            ["0.05 (exact limit 0.0526)", "the next candidate, 0.06, does not meet it", "0.9434"],
        ),
        (
            advise(states(True, True, True), found=10.0),
            ["Every candidate meets", "decides nothing", "no ε was found"],
        ),
        (advise(states(True, False, True), found=10.0), ["it is the largest candidate"]),
        (advise(states(False, False, False)), ["No candidate meets", "ε = 0.1, gives 0.9091", "1 person prevents it"]),
        (
            advise(states(False, False, True), refusal=SPENT),
            [f"Stopped by the account, not by {RATIO}", "2 of the budget of 2 is spent"],
        ),
        (advise(states(False, False, True)), ["none of them is available"]),
        (word(next(find_unstated(NUMBERS, PLAIN))), ["2.54 × the average at ε = 10", "--prefer"]),
        (advise(states(True, True, False), found=1.0), ["meets it too but is not available"]),
    ],
)
def test_advice_fits_the_state(sentence: str, pieces: list[str]) -> None:
    assert all(piece in sentence for piece in pieces)
    assert sentence.endswith(".")


def test_advice_for_equally_exposed_people() -> None:
    equal = Spread(min=2.0, max=2.0, mean=2.0, median=2.0, variance=0.0)
    assert "equally exposed" in advise([Candidate(1.0, 1.0, (1.0,), equal, satisfied=True)], found=1.0)
