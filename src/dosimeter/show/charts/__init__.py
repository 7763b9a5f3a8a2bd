"""Pictures: a bar of RDRs per candidate, a histogram of everybody at one ε, an account's reading as a staircase.

Each picture is specified once. Takes values; gives charts, SVG and pages that need no network, and the staircase's
specification for the web. Altair is used only here and by the package in ``paper/``.
"""

from dosimeter.show.charts.bins import Bin, bin_people, bin_rows, write_bins
from dosimeter.show.charts.drawing import histogram_chart, range_chart, staircase_chart
from dosimeter.show.charts.pages import draw_svg, risk_page, save_chart, write_page
from dosimeter.show.charts.specifications import (
    FAINT,
    INK,
    MOST_STEPS,
    NEUTRAL,
    PAGE,
    Step,
    find_range_axis,
    staircase_spec,
)

__all__ = [
    "FAINT",
    "INK",
    "MOST_STEPS",
    "NEUTRAL",
    "PAGE",
    "Bin",
    "Step",
    "bin_people",
    "bin_rows",
    "draw_svg",
    "find_range_axis",
    "histogram_chart",
    "range_chart",
    "risk_page",
    "save_chart",
    "staircase_chart",
    "staircase_spec",
    "write_bins",
    "write_page",
]
