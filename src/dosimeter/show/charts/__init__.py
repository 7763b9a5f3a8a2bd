"""Pictures of risks: ranges over the candidates, everybody at one ε, the odometer.

Takes values; gives charts, SVG and pages that need no network. Altair is used only here and in ``research``.
"""

from dosimeter.show.charts.drawing import (
    FAINT,
    INK,
    NEUTRAL,
    Bin,
    bin_people,
    histogram_chart,
    range_chart,
    staircase_chart,
)
from dosimeter.show.charts.pages import draw_svg, risk_page, save_chart, write_page

__all__ = [
    "FAINT",
    "INK",
    "NEUTRAL",
    "Bin",
    "bin_people",
    "draw_svg",
    "histogram_chart",
    "range_chart",
    "risk_page",
    "save_chart",
    "staircase_chart",
    "write_page",
]
