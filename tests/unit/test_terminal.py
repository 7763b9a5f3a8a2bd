"""What stands on a terminal: the right figures, whole, inside the width, in any encoding, and harmless."""

from __future__ import annotations

import io
import math
import re

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from dosimeter.risk.exposure import Candidate, ExposedPerson, GroupRisk, Spread
from dosimeter.risk.largest_epsilon import paper_candidates
from dosimeter.show.terminal.tables import (
    candidate_table,
    groups_table,
    people_table,
    pick_candidates,
    range_bars,
    say,
)


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


EVERYTHING = [
    candidate_table(PAPER, ["count(*)"], found=0.05),
    candidate_table(PAPER, ["count(*)"], found=0.05, show_all=True),
    candidate_table([describe(e, threshold=0.95, outputs=3) for e in (1.0, 0.001)], NAMES, found=None),
    candidate_table([describe(e, outputs=6) for e in (1.0, 0.001)], [*NAMES, "a", "b", "c"], found=None),
    range_bars(PAPER, found=0.05),
    range_bars(PLAIN),
    people_table(PEOPLE, epsilon=0.1),
    groups_table(GROUPS, by="race", epsilon=0.1),
    say("The largest ε that meets it is 0.05 (exact limit 0.0526): the next candidate, 0.06, does not meet it."),
]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_nothing_is_wider_than_the_terminal_or_cut_off(encoding: str, width: int) -> None:
    for thing in EVERYTHING:
        text = show(thing, width, encoding)
        assert max(cell_len(line) for line in text.splitlines()) <= width
        assert not {"…", "\x1b"} & set(text)


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


def test_ascii_terminals_get_words_and_plain_bars() -> None:
    text = show(range_bars(PAPER, found=0.05), encoding="ascii")
    assert "####" in text
    assert re.search(r"^ +10 .* x no *$", text, re.MULTILINE)
    table = show(candidate_table(PAPER, ["count(*)"], found=0.05), encoding="ascii")
    assert "yes < found" in table
    assert "+/- 60" in table
    assert "\\u" not in text + table


HOSTILE = "[red]\x1b[31mbold\x1b]0;owned\x07\u202eevil\r\n[/red]"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_cells_cannot_act_on_the_terminal(encoding: str) -> None:
    people = [ExposedPerson(1, 1.0, HOSTILE, {"name": HOSTILE}, times_average=1.0, own_epsilon=1.0)]
    groups = [GroupRisk(HOSTILE, 9, median=1.0, max=1.0)]
    text = show(people_table(people), 160, encoding) + show(groups_table(groups, by=HOSTILE), 160, encoding)
    assert not set(text) & {"\x1b", "\x07", "\u202e", "\r"}
    assert "[red]" in text
    assert "[/red]" in text
