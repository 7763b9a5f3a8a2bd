"""Charts, files and pages: the marks carry the numbers of an explicit list of people, and nothing is fetched."""

from __future__ import annotations

import html.parser
import itertools
import json
import math
import re
import struct
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dosimeter
from dosimeter.errors import OptionError
from dosimeter.risk.exposure import Candidate, RDRs, Spread
from dosimeter.risk.largest_epsilon import paper_candidates
from dosimeter.risk.two_worlds import Curves, TwoWorlds, WorldBin
from dosimeter.show.axes import even_axis
from dosimeter.show.charts.chart import Bar, Chart, Label, Line, Look, Mark, Point, Rule
from dosimeter.show.charts.histogram import Bin, bin_people, bins_chart, histogram_chart, write_bins
from dosimeter.show.charts.pages import chart_page, risk_page, save_chart
from dosimeter.show.charts.ranges import range_chart
from dosimeter.show.charts.staircase import Step, staircase_chart
from dosimeter.show.charts.svg import write_axis, write_rows, write_svg
from dosimeter.show.charts.vega import CROSS, SIGNS, TICK, draw_altair, write_spec
from dosimeter.show.charts.worlds import worlds_chart

# A COUNT over 32,561 people of whom 39 match, with Laplace noise: RDR = PIS + 1/ε (R3), person by person.
PEOPLE = [0] * 32522 + [1] * 39


def describe(people: Sequence[int], epsilon: float, threshold: Fraction | None = None) -> Candidate:
    """A candidate from an explicit list of people's PIS, in fractions."""
    scale = 1 / Fraction(str(epsilon))
    rdrs = [pis + scale for pis in sorted(people)]
    mean = sum(rdrs) / len(rdrs)
    ratio = rdrs[0] / rdrs[-1]
    variance = sum((rdr - mean) ** 2 for rdr in rdrs) / len(rdrs)
    summary = {"min": rdrs[0], "max": rdrs[-1], "mean": mean, "median": rdrs[len(rdrs) // 2]}
    numbers = Spread(**{name: float(value) for name, value in (summary | {"variance": variance}).items()})
    value, satisfied = (None, None) if threshold is None else (float(ratio), ratio >= threshold)
    return Candidate(epsilon, float(scale), (float(3 * scale),), numbers, value, satisfied)


@pytest.fixture(scope="module")
def adult_like() -> list[Candidate]:
    people = [0] * 834 + [1]  # in Adult's proportion, and few enough for fractions
    return [describe(people, epsilon, Fraction(95, 100)) for epsilon in paper_candidates()]


def find_labels(chart: Chart) -> list[str]:
    """The texts above points, from left to right."""
    return [text for _, text in sorted((mark.x, mark.text) for mark in chart.marks if isinstance(mark, Label))]


def find_rules(chart: Chart) -> dict[Look, Rule]:
    return {mark.look: mark for mark in chart.marks if isinstance(mark, Rule)}


def make_steps(*readings: float) -> list[Step]:
    return [Step(place, f"no. {place}", reading) for place, reading in enumerate(readings, start=1)]


def draw(chart: Chart, path: Path) -> str:
    save_chart(draw_altair(chart), path)
    return path.read_text(encoding="utf-8")


# ---------------------------------------------------------------- ranges


@pytest.mark.parametrize("epsilon", [10.0, 0.3, 0.001])
def test_bars_run_from_least_to_most_exposed_relative_to_the_mean(epsilon: float) -> None:
    chart = range_chart([describe([0, 0, 1], epsilon)])
    (bar,) = chart.bars
    scale = 1 / epsilon
    mean = (scale + scale + 1 + scale) / 3
    assert bar.x == pytest.approx(scale / mean, rel=1e-12)
    assert bar.x2 == pytest.approx((1 + scale) / mean, rel=1e-12)
    assert chart.y.labels == (str(epsilon).removesuffix(".0"),)


def test_raw_bars_keep_their_length_under_laplace_and_say_so() -> None:
    chart = range_chart([describe([0, 0, 1], epsilon) for epsilon in (10.0, 1.0, 0.1)], view="raw")
    assert [bar.x2 - bar.x for bar in chart.bars] == pytest.approx([1.0, 1.0, 1.0])
    assert any("is 1 at every ε" in line for line in chart.notes)


def test_found_and_selected_are_marked(adult_like: list[Candidate]) -> None:
    chart = range_chart(adult_like, selected=0.2)
    marks = {name: row.mark for name, row in zip(chart.y.labels, chart.rows, strict=True) if row.mark}
    # One COUNT with somebody in and somebody out: the ratio is 1/(1 + ε) (R10), at least 0.95 up to 0.0526.
    assert marks == {"0.05": "largest ε that meets it", "0.2": "selected"}
    meeting = [bar for bar in chart.bars if bar.look is Look.MEETS]
    assert len(meeting) == sum(1 / (1 + e) >= 0.95 for e in paper_candidates())
    assert [bar.look for bar in chart.bars] == [row.look for row in chart.rows]


def test_verdict_has_a_shape_of_its_own_beside_the_colour(adult_like: list[Candidate]) -> None:
    spec = json.dumps(write_spec(range_chart(adult_like)))
    for sign in (TICK, CROSS, "#0072B2", "#D55E00"):
        assert json.dumps(sign) in spec
    assert len({shape for _, shape in SIGNS.values()}) == len(SIGNS)


@pytest.mark.parametrize(("reading", "above"), [(0.05, "0.06"), (0.055, "0.06"), (12.0, None)])
def test_reading_stands_below_the_last_larger_candidate(
    adult_like: list[Candidate], reading: float, above: str | None
) -> None:
    chart = range_chart(adult_like[::-1], reading=reading)
    rule = find_rules(chart)[Look.LIMIT]
    names = chart.y.labels  # the row of the first lies from 0 to 1
    assert tuple(float(name) for name in names) == paper_candidates()
    assert rule.y == (0 if above is None else names.index(above) + 1)
    assert str(reading).removesuffix(".0") in rule.text


def test_nothing_to_draw_is_refused(adult_like: list[Candidate]) -> None:
    with pytest.raises(OptionError, match="no candidate"):
        range_chart([])
    with pytest.raises(OptionError, match=r"0\.25 is not among the candidates"):
        range_chart(adult_like, selected=0.25)
    with pytest.raises(OptionError, match="no entries"):
        staircase_chart([])
    with pytest.raises(OptionError, match="nobody"):
        histogram_chart(RDRs(1.0, np.array([]), np.array([], dtype=np.int64), 1.0))


# ---------------------------------------------------------------- histograms


@given(
    st.lists(st.tuples(st.floats(0.01, 1e4), st.integers(0, 50)), min_size=1, max_size=60),
    st.integers(min_value=1, max_value=40),
)
def test_everybody_is_in_exactly_one_bin(classes: list[tuple[float, int]], bins: int) -> None:
    people = sorted(value for value, count in classes for _ in range(count))
    if not people:
        return
    values, counts = np.array([v for v, _ in classes]), np.array([c for _, c in classes])
    binned = bin_people(RDRs(1.0, values, counts, 1.0), bins)
    mean = math.fsum(people) / len(people)
    assert len(binned) <= bins
    assert sum(b.people for b in binned) == len(people)
    assert all(before.end <= after.start * (1 + 1e-9) for before, after in itertools.pairwise(binned))
    position = 0
    for held in binned:  # the people in order fill the bins in order
        inside = [value / mean for value in people[position : position + held.people]]
        position += held.people
        assert (held.least, held.most) == pytest.approx((inside[0], inside[-1]), rel=1e-9)
        assert held.start * (1 - 1e-9) <= inside[0] <= inside[-1] <= held.end * (1 + 1e-9)


@pytest.mark.parametrize("log_counts", [True, False])
def test_histogram_weighs_by_counts_and_names_the_tail(log_counts: bool, tmp_path: Path) -> None:
    rdrs = RDRs(0.5, np.array([2.0, 3.0]), np.array([32522, 39]), 3.0)
    chart = histogram_chart(rdrs, log_counts=log_counts)
    assert [(bar.y, bar.y2) for bar in chart.bars] == [(0, 32522), (0, 39)]
    assert find_labels(chart) == ["32,522", "39"]
    mean = sum(pis + 2 for pis in PEOPLE) / len(PEOPLE)
    assert chart.bars[0].x == pytest.approx(2 / mean)
    assert chart.bars[1].x2 == pytest.approx(3 / mean)
    svg = draw(chart, tmp_path / "histogram.svg")
    assert "39 people at 1.5\xa0×" in svg
    assert "32,522 people at 1\xa0×" in svg


# ---------------------------------------------------------------- the staircase


def test_staircase_steps_from_reading_to_reading() -> None:
    chart = staircase_chart(make_steps(0.05, 0.05, 0.35))
    (line,) = [mark for mark in chart.marks if isinstance(mark, Line)]
    climbs = [(low[1], high[1]) for low, high in pairwise(line.points) if low[0] == high[0]]
    assert climbs == [(0.0, 0.05), (0.05, 0.05), (0.05, 0.35)]
    assert [(bar.x, bar.x2, bar.y2) for bar in chart.bars] == [(0.5, 1.5, 0.05), (1.5, 2.5, 0.05), (2.5, 3.5, 0.35)]


@pytest.mark.parametrize("by_time", [False, True])
def test_a_long_staircase_stays_legible(by_time: bool) -> None:
    """A few hundred steps, the last one labelled, the budget drawn, and the whole way from the first to the last."""
    moments = [f"2026-01-{1 + place // 500:02d}T{place % 24:02d}:00:00Z" for place in range(5000)]
    steps = [Step(place, at, 0.001 * place) for place, at in enumerate(sorted(moments), start=1)]
    chart = staircase_chart(steps, budget=20.0, by_time=by_time)
    assert len(chart.bars) <= 200
    assert [chart.bars[0].y2, chart.bars[-1].y2] == pytest.approx([0.001, 5.0])
    assert find_labels(chart) == ["5"]
    assert all(before.y2 <= after.y2 and before.x2 == after.x for before, after in pairwise(chart.bars))
    assert 3 <= len(chart.x.ticks) <= 21
    assert all(chart.x.low <= tick <= chart.x.high for tick in chart.x.ticks)
    assert find_rules(chart)[Look.LIMIT].text == "budget 20"


def test_the_step_to_infinity_is_drawn() -> None:
    chart = staircase_chart(make_steps(*(math.inf if place > 777 else float(place) for place in range(1, 1001))))
    assert next(bar.words for bar in chart.bars if "∞" in bar.words) == "Entry 778, no. 778: ∞ spent afterwards"
    assert find_labels(chart) == ["∞"]


def test_times_along_the_axis_are_utc_and_round() -> None:
    for moments, names in (
        (("2026-11-01T10:00:00Z", "2026-11-06T10:00:00Z"), [f"2026-11-0{day}" for day in range(2, 7)]),
        (("2026-11-01T10:00:03Z", "2026-11-01T10:00:26Z"), [f"10:00:{second:02d}" for second in range(5, 30, 5)]),
        (
            ("2026-11-01T22:00:00Z", "2026-11-02T02:00:00Z"),
            ["11-01 22:00", "11-01 23:00", *(f"11-02 0{h}:00" for h in range(3))],
        ),
        (("2026-11-01T10:00:00Z",) * 2, ["10:00:00", "10:00:01"]),
    ):
        steps = [Step(place, at, float(place)) for place, at in enumerate(moments, start=1)]
        assert list(staircase_chart(steps, by_time=True).x.labels) == names


# ---------------------------------------------------------------- labels and axes


def test_labels_of_the_histogram_do_not_meet() -> None:
    wide = (Bin(1.0, 1.05, 900, 1.0, 1.05), Bin(1.05, 1.1, 950, 1.05, 1.1), Bin(1.1, 1.15, 10, 1.1, 1.15))
    assert find_labels(bins_chart(wide, 1.0)) == ["900", "950", "10"]
    assert write_bins(wide)[0] == "900 people from 1 to 1.05\xa0×"
    near = (
        *(Bin(at, at + 0.01, 123_456 + round(at), at, at) for at in (0.0, 1.0)),
        Bin(1.01, 1.02, 99_999, 1.01, 1.01),
    )
    assert find_labels(bins_chart(near, 1.0)) == ["123,456", "99,999"]  # the last bar matters more than its neighbour
    many = [Bin(at / 10, at / 10 + 0.1, 5 + at % 7, at / 10, at / 10) for at in range(30)]
    assert find_labels(bins_chart(many, 1.0)) == ["11", "6"]  # the tallest and the last


# ---------------------------------------------------------------- SVG for the web


def test_svg_has_a_bar_per_bin_drawn_to_scale() -> None:
    chart = histogram_chart(RDRs(0.5, np.array([2.0, 3.0]), np.array([30, 10]), 3.0), log_counts=False)
    picture = ET.fromstring(write_svg(chart, "how <many>"))
    assert (picture.get("role"), picture.get("aria-label")) == ("img", "how <many>")
    first, second = (each for each in picture.iter("rect") if "bar" in each.get("class", ""))
    assert float(first.get("height", "0")) == pytest.approx(3 * float(second.get("height", "0")), abs=0.2)
    ground = [float(each.get("y", "0")) + float(each.get("height", "0")) for each in (first, second)]
    assert ground == pytest.approx([chart.height] * 2, abs=0.2)
    assert [each.findtext("title") for each in (first, second)] == [bar.words for bar in chart.bars]
    texts = {each.text for each in picture.iter("text")}
    assert {"30", "10", "people", "× the average person", "1.2\xa0×"} <= texts


def test_svg_of_a_staircase_has_one_line_and_its_budget() -> None:
    chart = staircase_chart([Step(1, "<b>", 0.5), Step(2, "c", 1.0)], budget=2.0)
    picture = ET.fromstring(write_svg(chart, "spent"))
    (path,) = picture.iter("path")
    heights = [float(pair.split(",")[1]) for pair in path.get("d", "").lstrip("M").split("L")]
    assert heights[0] == chart.height
    assert chart.height - heights[-1] == pytest.approx(2 * (chart.height - heights[1]), abs=0.2)
    assert [each.get("class") for each in picture.iter("line") if "rule" in each.get("class", "")] == ["rule limit"]
    assert "budget 2" in {each.text for each in picture.iter("text")}
    assert "Entry 1, <b>: 0.5 spent afterwards" in {each.text for each in picture.iter("title")}


def test_each_row_of_ranges_has_its_own_bar(adult_like: list[Candidate]) -> None:
    chart = range_chart(adult_like)
    rows = [ET.fromstring(row) for row in write_rows(chart)]
    for row, bar in zip(rows, chart.bars, strict=True):
        (drawn,) = row.iter("rect")
        assert drawn.get("class") == f"bar {bar.look}"
        left, width = (float(drawn.get(name, "").removesuffix("%")) for name in ("x", "width"))
        assert left == pytest.approx(3 + 94 * chart.x.position(bar.x), abs=0.01)
        assert left + width == pytest.approx(3 + 94 * chart.x.position(bar.x2), abs=0.31)  # never thinner than 0.3
        assert row.get("aria-hidden") is None
    numbers = [text.text for text in ET.fromstring(write_axis(chart.x)).iter("text")]
    assert set(numbers) <= set(chart.x.labels)
    assert len(numbers) >= 3


NAMES = {"point": "symbol"}  # what Vega calls a kind of mark


def test_every_kind_of_mark_is_drawn_by_every_renderer(tmp_path: Path) -> None:
    """A new kind of mark needs a place here and in each renderer."""
    axis = even_axis(0.0, 10.0)
    marks: dict[type[Mark], Mark] = {
        Bar: Bar(1.0, 2.0, 0.0, 3.0, Look.PLAIN, "a bar"),
        Line: Line(((1.0, 1.0), (2.0, 2.0)), Look.SPENT),
        Rule: Rule(Look.LIMIT, y=4.0, text="a rule"),
        Point: Point(5.0, 5.0, Look.DROWNED),
        Label: Label(6.0, 6.0, "a label"),
    }
    assert set(marks) == set(get_args(Mark))
    for mark in marks.values():
        chart = Chart(axis, axis, (mark,), title="One mark")
        assert len(write_svg(chart, "")) > len(write_svg(replace(chart, marks=()), ""))
        (kind, *_) = (layer["mark"]["type"] for layer in write_spec(chart)["layer"])
        assert f'aria-roledescription="{NAMES.get(kind, kind)} mark container"' in draw(chart, tmp_path / "mark.svg")


# ---------------------------------------------------------------- files and pages


class Reader(html.parser.HTMLParser):
    """What a page would load, and its tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [f"{tag} {name}" for name, _ in attrs if name in {"src", "href", "srcset", "data", "action"}]


def test_page_fetches_nothing_and_runs_nothing_it_was_given(adult_like: list[Candidate]) -> None:
    rdrs = RDRs(0.05, np.array([20.0, 21.0]), np.array([32522, 39]), 21.0)
    query = "SELECT COUNT(*) FROM t WHERE a < 3 </script><img src=x>"
    page = risk_page(adult_like, rdrs, query=query, notes=["<b>bound</b> indicator"], reading=0.01)
    seen = Reader(page)
    assert seen.loaded == []
    assert not {"link", "img", "iframe", "object", "b"} & set(seen.tags)
    assert seen.tags.count("script") == 2
    assert "default-src 'none'" in page
    assert not re.search(r"@import|url\(\s*['\"]?https?:", page)


def test_specification_cannot_close_its_script(adult_like: list[Candidate]) -> None:
    chart = staircase_chart([Step(1, "</script><script>alert(1)</script>", 0.1)])
    seen = Reader(chart_page([draw_altair(chart)], "<script>alert(2)</script>"))
    assert seen.tags.count("script") == 2


def test_files_are_what_their_ending_says_and_the_same_each_time(adult_like: list[Candidate], tmp_path: Path) -> None:
    for ending in ("svg", "png", "html"):
        first, second = tmp_path / f"first.{ending}", tmp_path / f"second.{ending}"
        save_chart(draw_altair(range_chart(adult_like)), first)
        save_chart(draw_altair(range_chart(adult_like)), str(second))
        assert first.read_bytes() == second.read_bytes()
    vector = ET.fromstring((tmp_path / "first.svg").read_text(encoding="utf-8"))
    assert vector.tag == "{http://www.w3.org/2000/svg}svg"
    assert not [e for e in vector.iter() if e.tag.endswith(("}image", "}script")) or "href" in " ".join(e.keys())]
    picture = (tmp_path / "first.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", picture[16:24])
    assert width == pytest.approx(2 * float(vector.get("width", "0")), abs=2)  # twice the size
    assert height == pytest.approx(2 * float(vector.get("height", "0")), abs=2)
    seen = Reader((tmp_path / "first.html").read_text(encoding="utf-8"))
    assert seen.loaded == []
    assert seen.tags.count("table") == 1


@pytest.mark.parametrize("name", ["chart.pdf", "chart", "missing/chart.svg", "chart.jpg"])
def test_other_endings_and_places_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"\.svg|folder"):
        save_chart(draw_altair(staircase_chart(make_steps(0.1))), tmp_path / name)


# ---------------------------------------------------------------- two worlds


def make_worlds(
    *, step: float = 1.0, width: int = 1, count: int = 5, exact: tuple[float, float] = (3.0, 2.0)
) -> TwoWorlds:
    """Flat curves, each over all numbers but one end: with the person the last ones, without the first."""
    bins = tuple(
        WorldBin(
            at * width * step,
            (at * width + width - 1) * step,
            (at > 0) * 0.9 / (count - 1),
            (at < count - 1) * 0.9 / (count - 1),
        )
        for at in range(count)
    )
    return TwoWorlds(0.5, "n", (), "Other", exact, step, Curves(bins, (0.1, 0.1)))


def find_lines(chart: Chart) -> dict[Look, Line]:
    return {mark.look: mark for mark in chart.marks if isinstance(mark, Line)}


def test_two_worlds_draw_each_chance_and_shade_what_they_share() -> None:
    chart = worlds_chart(make_worlds(), "If 4 is released, the person is in.")
    lines = find_lines(chart)
    assert lines[Look.WITH].points == tuple((x, y) for x, y in zip(
        (-0.5, 0.5, 0.5, 1.5, 1.5, 2.5, 2.5, 3.5, 3.5, 4.5), (0, 0, *[22.5] * 8), strict=True
    ))  # fmt: skip
    assert [y for _, y in lines[Look.WITHOUT].points] == [*[22.5] * 8, 0, 0]
    assert lines[Look.OVERLAP].points[0] == (-0.5, 0.0)
    assert [y for _, y in lines[Look.OVERLAP].points[1:-1]] == [0, 0, *[22.5] * 6, 0, 0]
    assert chart.x.ticks == (0.0, 1.0, 2.0, 3.0, 4.0)
    assert chart.x.title == "released n of Other"
    assert find_labels(chart) == ["- - without: 2", "— with them: 3"]  # the larger number on the right
    assert find_labels(worlds_chart(make_worlds(exact=(1.0, 2.0)), "")) == ["— with them: 1", "- - without: 2"]
    assert "about 78 %" in chart.notes[1]  # 3 of 4 numbers of 0.9, and what is not drawn
    assert "Controller only" in chart.notes[-1]
    rows = chart.table["rows"]
    assert rows[0] == ["0", "0 %", "22.50 %", "0"]
    assert rows[1] == ["1", "22.50 %", "22.50 %", "1"]
    assert rows[4] == ["4", "22.50 %", "0 %", "∞"]
    assert rows[5] == ["any other", "10.00 %", "10.00 %", ""]


def test_many_numbers_are_a_line_through_the_middles() -> None:
    worlds = make_worlds(step=0.5, width=3, count=120)
    chart = worlds_chart(worlds, "")
    assert [x for x, _ in find_lines(chart)[Look.WITH].points] == [0.5 + 1.5 * at for at in range(120)]
    assert chart.table["rows"][2][0] == "3 to 4"


def test_the_two_curves_differ_in_more_than_colour() -> None:
    chart = worlds_chart(make_worlds(), "Words.")
    layers = {str(layer["mark"].get("color")): layer["mark"] for layer in write_spec(chart)["layer"]}
    assert "strokeDash" in layers["#0072B2"]
    assert "strokeDash" not in layers["#D55E00"]
    drawn = write_svg(chart, "Two worlds")
    assert {"line with", "line without", "line overlap"} <= set(re.findall(r'class="([^"]+)"', drawn))
    style = (Path(dosimeter.__file__).parent / "web" / "static" / "style.css").read_text()
    assert re.search(r"\.line\.without \{[^}]*stroke-dasharray", style)
    assert not re.search(r"\.line\.with \{[^}]*stroke-dasharray", style)
