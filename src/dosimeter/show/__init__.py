"""How numbers, axes and candidates are shown, the same in the terminal, in pictures and on the web.

Takes values; gives text. Never computes a risk and never reads data.
"""

from dosimeter.show.axes import Axis, even_axis, ratio_axis
from dosimeter.show.candidates import (
    FAILS,
    MEETS,
    TextTable,
    candidate_rows,
    format_errors,
    order_candidates,
    relative_range,
)
from dosimeter.show.numbers import format_epsilon, format_number, format_percent, format_range, format_times
from dosimeter.show.terminal import advise, candidate_table, groups_table, people_table, range_bars, say

__all__ = [
    "FAILS",
    "MEETS",
    "Axis",
    "TextTable",
    "advise",
    "candidate_rows",
    "candidate_table",
    "even_axis",
    "format_epsilon",
    "format_errors",
    "format_number",
    "format_percent",
    "format_range",
    "format_times",
    "groups_table",
    "order_candidates",
    "people_table",
    "range_bars",
    "ratio_axis",
    "relative_range",
    "say",
]
