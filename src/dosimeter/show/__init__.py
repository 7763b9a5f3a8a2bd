"""How numbers, axes and candidates are shown, the same in the terminal, in pictures and on the web.

Takes values; gives text. Never computes a risk and never reads data.
"""

from dosimeter.show.axes import Axis, even_axis, range_axis, ratio_axis, row_axis
from dosimeter.show.candidates import (
    FAILS,
    MEETS,
    TextTable,
    count_untold,
    format_error,
    order_candidates,
    word_mechanism,
)
from dosimeter.show.written_numbers import (
    count_decimals,
    format_about,
    format_apart,
    format_epsilon,
    format_measured,
    format_multiple,
    format_number,
    format_percent,
    format_range,
    format_small,
    format_times,
    join_names,
)
