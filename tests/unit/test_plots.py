"""Charts, files and pages: the marks carry the numbers of an explicit list of people, and nothing is fetched."""

from __future__ import annotations

import html.parser
import itertools
import json
import math
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter.errors import OptionError
from dosimeter.risk.choose import paper_candidates
from dosimeter.risk.values import Candidate, RDRs, Spread
from dosimeter.show.charts.bins import Bin, bin_people, write_bins
from dosimeter.show.charts.drawing import histogram_chart, range_chart, staircase_chart
from dosimeter.show.charts.pages import chart_page, risk_page, save_chart
from dosimeter.show.charts.specifications import (
    CROSS,
    FAILS_WORDS,
    MEETS_WORDS,
    PAGE,
    TICK,
    Step,
    find_range_axis,
    histogram_spec,
    range_spec,
    staircase_spec,
)

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


def find_rows(chart: Any) -> list[dict[str, Any]]:
    """The rows of the chart's own data."""
    rows: list[dict[str, Any]] = chart.to_dict()["data"]["values"]
    return rows


def draw(chart: Any, path: Path) -> str:
    save_chart(chart, path)
    return path.read_text(encoding="utf-8")


# ---------------------------------------------------------------- ranges


@pytest.mark.parametrize("epsilon", [10.0, 0.3, 0.001])
def test_bars_run_from_least_to_most_exposed_relative_to_the_mean(epsilon: float) -> None:
    (row,) = find_rows(range_chart([describe([0, 0, 1], epsilon)]))
    scale = 1 / epsilon
    mean = (scale + scale + 1 + scale) / 3
    assert row["low"] == pytest.approx(scale / mean, rel=1e-12)
    assert row["high"] == pytest.approx((1 + scale) / mean, rel=1e-12)
    assert row["epsilon"] == str(epsilon).removesuffix(".0")


def test_raw_bars_keep_their_length_under_laplace_and_say_so() -> None:
    chart = range_chart([describe([0, 0, 1], epsilon) for epsilon in (10.0, 1.0, 0.1)], view="raw")
    assert [row["high"] - row["low"] for row in find_rows(chart)] == pytest.approx([1.0, 1.0, 1.0])
    assert any("is 1 at every ε" in line for line in chart.to_dict()["title"]["subtitle"])


def test_raw_note_is_absent_where_the_length_does_change() -> None:
    numbers = Spread(min=1.0, max=2.0, mean=1.5, median=1.5, variance=0.1)
    wider = replace(numbers, max=3.0)
    chart = range_chart([Candidate(1.0, 1.0, (1.0,), numbers), Candidate(2.0, 1.0, (1.0,), wider)], view="raw")
    assert not any("at every ε" in line for line in chart.to_dict()["title"]["subtitle"])


def test_found_and_selected_are_marked(adult_like: list[Candidate]) -> None:
    rows = find_rows(range_chart(adult_like, selected=0.2))
    marks = {row["epsilon"]: row["mark"] for row in rows if row["mark"]}
    # One COUNT with somebody in and somebody out: the ratio is 1/(1 + ε) (R10), at least 0.95 up to 0.0526.
    assert marks == {"0.05": "largest ε that meets it", "0.2": "selected"}
    assert [row["state"] for row in rows].count(MEETS_WORDS) == sum(1 / (1 + e) >= 0.95 for e in paper_candidates())


def test_verdict_has_a_shape_of_its_own_beside_the_colour(adult_like: list[Candidate], tmp_path: Path) -> None:
    svg = draw(range_chart(adult_like), tmp_path / "ranges.svg")
    shapes: dict[str, set[str]] = {}
    for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}path"):
        state = re.search(r"state: ([^;]+)", element.get("aria-label", ""))
        if state is not None and element.get("aria-roledescription") == "point":
            shapes.setdefault(state[1], set()).add(element.get("d", ""))
    assert set(shapes) == {MEETS_WORDS, FAILS_WORDS}
    assert shapes[MEETS_WORDS].isdisjoint(shapes[FAILS_WORDS])
    assert "#0072B2" in svg
    assert "#D55E00" in svg
    spec = json.dumps(range_chart(adult_like).to_dict())
    assert json.dumps(TICK) in spec
    assert json.dumps(CROSS) in spec


def test_without_a_preference_everything_is_grey_and_without_signs() -> None:
    spec = json.dumps(range_chart([describe([0, 1], 1.0), describe([0, 1], 0.1)]).to_dict())
    assert "#D55E00" not in spec
    assert json.dumps(TICK) not in spec


def read_axis_labels(svg: str, wanted: Sequence[str]) -> list[str]:
    """The texts that are an ε, from top to bottom."""
    placed: list[tuple[float, str]] = []
    for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        shift = re.match(r"translate\(([-\d.]+),\s*([-\d.]+)\)", element.get("transform", ""))
        text = element.text or ""
        if shift is not None and text in wanted and float(shift[1]) < 0:
            placed.append((float(shift[2]), text))
    return [text for _, text in sorted(placed)]


def test_largest_epsilon_stands_on_top_whatever_the_order_given(adult_like: list[Candidate], tmp_path: Path) -> None:
    names = [str(epsilon).removesuffix(".0") for epsilon in paper_candidates()]
    chart = range_chart(adult_like[::-1], selected=0.2, reading=0.07)
    assert read_axis_labels(draw(chart, tmp_path / "ranges.svg"), names) == names


@pytest.mark.parametrize(("reading", "below", "side"), [(0.05, "0.06", 1), (0.055, "0.06", 1), (12.0, "10", 0)])
def test_reading_stands_below_the_last_larger_candidate(
    adult_like: list[Candidate], reading: float, below: str, side: int
) -> None:
    chart = range_chart(adult_like, reading=reading)
    (rule,) = [layer for layer in chart.to_dict()["layer"] if layer["mark"].get("strokeDash")]
    (row,) = rule["data"]["values"]
    assert row["epsilon"] == below
    assert str(reading).removesuffix(".0") in row["text"]
    assert rule["encoding"]["y"]["bandPosition"] == side


@pytest.mark.parametrize(("least", "most"), [(0.0, 3.0), (1e-9, 1000.0), (1.0, 1.0)])
def test_extreme_spreads_can_be_drawn(least: float, most: float, tmp_path: Path) -> None:
    numbers = Spread(min=least, max=most, mean=1.0, median=1.0, variance=1.0)
    for view in ("relative", "raw"):
        chart = range_chart([Candidate(1.0, 1.0, (None,), numbers)], view=view)
        svg = draw(chart, tmp_path / f"{view}.svg")
        assert "NaN" not in svg
        assert "Infinity" not in svg


def test_equally_exposed_people_get_words_not_bars() -> None:
    chart = range_chart([describe([1, 1, 1], epsilon) for epsilon in (1.0, 0.1)])
    assert chart.to_dict()["title"]["text"].startswith("Everybody is equally exposed")


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
    rows = find_rows(chart)
    assert [row["people"] for row in rows] == [32522, 39]
    mean = sum(pis + 2 for pis in PEOPLE) / len(PEOPLE)
    assert rows[0]["start"] == pytest.approx(2 / mean)
    assert rows[1]["end"] == pytest.approx(3 / mean)
    svg = draw(chart, tmp_path / "histogram.svg")
    assert "39 people at 1.5\xa0×" in svg
    assert "32,522 people at 1\xa0×" in svg


def test_a_million_people_are_few_marks() -> None:
    generous = np.arange(1, 5001, dtype=np.float64)
    chart = histogram_chart(RDRs(1.0, generous, np.full(5000, 200), 1.0), bins=30)
    assert len(find_rows(chart)) <= 30
    assert len(json.dumps(chart.to_dict())) < 30_000


def test_one_person_alone_is_a_person() -> None:
    chart = histogram_chart(RDRs(1.0, np.array([1.0, 4.0]), np.array([3, 1]), 1.0))
    assert "the most exposed are 1 person at 2.29\xa0×" in chart.to_dict()["description"]


# ---------------------------------------------------------------- the staircase


def test_staircase_steps_from_reading_to_reading() -> None:
    rows = find_rows(staircase_chart([("a", 0.05), ("b", 0.05), ('it\'s "c"', 0.35)]))
    assert [(row["before"], row["reading"]) for row in rows] == [(0.0, 0.05), (0.05, 0.05), (0.05, 0.35)]


def test_infinite_reading_is_drawn(tmp_path: Path) -> None:
    svg = draw(staircase_chart([("a", 0.05), ("b", math.inf)]), tmp_path / "stairs.svg")
    assert "∞" in svg
    assert "NaN" not in svg


def test_budget_is_drawn_unless_it_is_far_above() -> None:
    assert "budget 2" in json.dumps(staircase_spec([Step(1, "a", 0.5)], PAGE, budget=2.0))
    assert "budget 2000" in json.dumps(staircase_spec([Step(1, "a", 0.5)], PAGE, budget=2000.0)).replace(",", "")
    assert "budget" not in json.dumps(staircase_spec([Step(1, "a", 0.5)], PAGE))


@pytest.mark.parametrize("by_time", [False, True])
def test_a_long_staircase_stays_legible(by_time: bool, tmp_path: Path) -> None:
    """A few hundred steps, the last one labelled, the budget drawn, and the whole way from the first to the last."""
    moments = [f"2026-01-{1 + place // 500:02d}T{place % 24:02d}:00:00Z" for place in range(5000)]
    entries = [(at, 0.001 * place) for place, at in enumerate(sorted(moments), start=1)]
    chart = staircase_chart(entries, budget=20.0, by_time=by_time)
    rows = find_rows(chart)
    assert len(rows) <= 200
    assert [rows[0]["place"], rows[-1]["place"]] == [1, 5000]
    assert [row["text"] for row in rows if row["text"]] == ["5"]
    assert all(before["reading"] <= after["reading"] for before, after in pairwise(rows))
    svg = draw(chart, tmp_path / "stairs.svg")
    assert "budget 20" in svg
    assert ("time (UTC)" in svg) == by_time


def test_at_most_twenty_steps_have_labels() -> None:
    for count, labels in ((20, 20), (21, 1), (60, 1), (199, 1)):
        steps = [Step(place, "a", float(place)) for place in range(1, count + 1)]
        rows = staircase_spec(steps, PAGE)["data"]["values"]
        assert sum(row["text"] != "" for row in rows) == labels


def test_the_step_to_infinity_is_drawn() -> None:
    steps = [Step(place, "a", math.inf if place > 777 else float(place)) for place in range(1, 1001)]
    rows = staircase_spec(steps, PAGE)["data"]["values"]
    assert min(row["place"] for row in rows if row["after"] == "∞") == 778


# ---------------------------------------------------------------- labels and axes


def test_labels_of_the_histogram_do_not_meet() -> None:
    near = (Bin(1.0, 1.05, 900, 1.0, 1.05), Bin(1.05, 1.1, 950, 1.05, 1.1), Bin(1.1, 1.15, 10, 1.1, 1.15))
    rows = histogram_spec(near)["data"]["values"]
    assert [row["label"] != "" for row in rows] == [False, True, True]
    assert rows[2]["height"] == 950  # raised above its taller neighbour
    assert rows[2]["lift"] == 15  # and one line above its words
    apart = (Bin(1.0, 1.03, 3997, 1.0, 1.0), Bin(1.97, 2.0, 3, 2.0, 2.0))
    rows = histogram_spec(apart)["data"]["values"]
    assert [row["label"] for row in rows] == ["3,997 people at 1\xa0×", "3 people at 2\xa0×"]
    assert [row["lift"] for row in rows] == [0, 0]
    assert write_bins(near)[0] == "900 people from 1 to 1.05\xa0×"


def test_axis_says_whether_it_is_logarithmic() -> None:
    numbers = Spread(min=0.1, max=1.1, mean=0.5, median=0.5, variance=0.1)
    far = Candidate(0.001, 1.0, (1.0,), replace(numbers, min=1000.0, max=1001.0))
    near = Candidate(1.0, 1.0, (1.0,), numbers)
    for lines, title in (([near, far], "RDR (log scale)"), ([near], "RDR")):
        bars = next(layer for layer in range_spec(lines, raw=True)["layer"] if layer["mark"]["type"] == "bar")
        assert bars["encoding"]["x"]["axis"]["title"] == title
        assert find_range_axis(lines, raw=True).logarithmic == ("log" in title)


# ---------------------------------------------------------------- files and pages


class Reader(html.parser.HTMLParser):
    """What a page would load, and the texts of its table cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [f"{tag} {name}" for name, _ in attrs if name in {"src", "href", "srcset", "data", "action"}]
        if tag in {"td", "th"}:
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] in {"td", "th"} and self.cells and not self.cells[-1]:
            self.cells[-1] = data


@pytest.fixture(scope="module")
def page(adult_like: list[Candidate]) -> str:
    rdrs = RDRs(0.05, np.array([20.0, 21.0]), np.array([32522, 39]), 21.0)
    query = "SELECT COUNT(*) FROM t WHERE a < 3 </script><img src=x>"
    return risk_page(adult_like, rdrs, query=query, notes=["<b>bound</b> indicator"], reading=0.01)


def test_page_holds_two_charts_with_their_tables_and_a_badge(page: str) -> None:
    seen = Reader(page)
    assert page.index("From the least to the most exposed") < page.index("How people compare")
    assert seen.tags.count("figure") == seen.tags.count("table") == 2
    assert '<span class="badge">Controller only</span>' in page
    assert {"ε", "0.05", "95.24 %", "✓ yes", "✗ no", "32,522", "39"} <= set(seen.cells)
    assert seen.cells.count("✗ no") + seen.cells.count("✓ yes") == 37


def test_page_fetches_nothing_and_runs_nothing_it_was_given(page: str) -> None:
    seen = Reader(page)
    assert seen.loaded == []
    assert not {"link", "img", "iframe", "object", "b"} & set(seen.tags)
    assert seen.tags.count("script") == 2
    assert "default-src 'none'" in page
    assert not re.search(r"@import|url\(\s*['\"]?https?:", page)


def test_specification_cannot_close_its_script(adult_like: list[Candidate]) -> None:
    chart = staircase_chart([("</script><script>alert(1)</script>", 0.1)])
    seen = Reader(chart_page([chart], "<script>alert(2)</script>"))
    assert seen.tags.count("script") == 2


def test_files_are_what_their_ending_says_and_the_same_each_time(adult_like: list[Candidate], tmp_path: Path) -> None:
    for ending in ("svg", "png", "html"):
        first, second = tmp_path / f"first.{ending}", tmp_path / f"second.{ending}"
        save_chart(range_chart(adult_like), first)
        save_chart(range_chart(adult_like), str(second))
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
        save_chart(staircase_chart([("a", 0.1)]), tmp_path / name)


def test_every_chart_has_words_and_a_table(adult_like: list[Candidate]) -> None:
    charts = [
        range_chart(adult_like),
        range_chart(adult_like, view="raw"),
        histogram_chart(RDRs(1.0, np.array([1.0, 2.0]), np.array([3, 1]), 2.0)),
        staircase_chart([("a", 0.1), ("b", 0.3)]),
    ]
    for chart in charts:
        spec = chart.to_dict()
        assert len(spec["description"]) > 40
        table = spec["usermeta"]["table"]
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
        assert "Controller only" in " ".join(spec["title"]["subtitle"])


def test_drawing_libraries_are_loaded_late() -> None:
    program = "import sys, dosimeter.show.charts; sys.exit('altair' in sys.modules or 'vl_convert' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
