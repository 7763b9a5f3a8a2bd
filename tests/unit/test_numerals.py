"""Numbers for people, and the axes they are read on."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter.risk.largest_epsilon import paper_candidates
from dosimeter.show.axes import even_axis, ratio_axis
from dosimeter.show.written_numbers import (
    format_epsilon,
    format_measured,
    format_number,
    format_percent,
    format_range,
    format_times,
)

WRITTEN: dict[Callable[[float], str], dict[float, str]] = {
    format_number: {
        0.0: "0", 1.0000000002: "1", 0.30000000000000004: "0.3", 0.0526315789: "0.0526", 999.6: "1,000",
        32522.0: "32,522", -2.5: "-2.5", 1e-12: "1.00e-12", math.inf: "∞", math.nan: "–",
    },
    partial(format_number, down=True): {0.05279: "0.0527", 0.05: "0.05"},  # a limit is never rounded up
    format_times: {1.0: "1", 1.0004: "1.0004", 0.99976: "0.99976", 1.062: "1.06", 680.2: "680"},
    format_percent: {
        0.95238: "95.24 %", 0.999999: "99.99990 %", 1.0: "100.00 %", 0.00070861: "0.071 %", 0.5: "50.00 %",
        1.2e-6: "0.00012 %", 8.3e-144: "< 0.0001 %", 0.0: "0 %",
    },
}  # fmt: skip


@pytest.mark.parametrize("write", WRITTEN)
def test_numbers_are_short_and_multiples_keep_their_difference_from_the_average(write: Callable[[float], str]) -> None:
    assert {value: write(value) for value in WRITTEN[write]} == WRITTEN[write]


@given(st.floats(1e-6, 1e6))
def test_rounding_down_stays_below_and_close(value: float) -> None:
    written = Decimal(format_number(value, 4, down=True).replace(",", ""))
    assert float(written) <= value * (1 + 1e-9)
    assert float(written) >= value * (1 - 1e-3)


def test_candidates_read_as_they_were_written() -> None:
    assert [Decimal(format_epsilon(e)) for e in paper_candidates()] == [Decimal(str(e)) for e in paper_candidates()]
    assert [format_epsilon(e) for e in (10.0, 0.1 + 0.2, 1e-9, 0.001)] == ["10", "0.3", "0.000000001", "0.001"]


@given(st.floats(1e-3, 1e3), st.floats(1.0001, 1e3))
def test_two_ends_of_a_range_never_read_alike(low: float, factor: float) -> None:
    least, most = (float(text.replace(",", "")) for text in format_range(low, low * factor))
    assert least < most
    assert least == pytest.approx(low, rel=0.01)


@given(st.lists(st.floats(1e-5, 1e5), min_size=1, max_size=10), st.integers(2, 12))
def test_ratio_axis_holds_its_values_and_measures_ratios(values: list[float], ticks: int) -> None:
    axis = ratio_axis(values, ticks=ticks)
    assert all(0.0 <= axis.position(value) <= 1.0 for value in values)
    assert len(axis.ticks) <= ticks + 1
    assert all(axis.low <= tick <= axis.high * (1 + 1e-9) for tick in axis.ticks)
    # Equal ratios are equal lengths, wherever they lie.
    middle = math.sqrt(axis.low * axis.high)
    assert axis.position(middle) == pytest.approx(0.5, abs=1e-9)


@given(st.floats(0.0, 1e4), st.floats(0.01, 1e4))
def test_even_axis_holds_its_values_and_measures_differences(low: float, gap: float) -> None:
    axis = even_axis(low, low + gap)
    assert axis.low <= low
    assert low + gap <= axis.high
    assert axis.position((axis.low + axis.high) / 2) == pytest.approx(0.5, abs=1e-6)
    assert 3 <= len(axis.ticks) <= 11


@pytest.mark.parametrize(
    ("value", "error", "label", "text"),
    [
        (1980, None, True, "1980"),  # a year
        (1980, None, False, "1980"),  # without errors it is not known what is a label
        (80331, None, False, "80,331"),
        (1980, 12.0, False, "1,980 ± 12"),
        (12345.678, None, True, "12,345.7"),
        (True, None, True, "True"),
    ],
)
def test_labels_have_no_commas(value: object, error: float | None, label: bool, text: str) -> None:
    assert format_measured(value, error, label=label) == text
