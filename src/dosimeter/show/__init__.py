"""How numbers, axes and candidates are shown, the same in the terminal, in pictures and on the web.

Takes values; gives text. Never computes a risk and never reads data.
"""

from dosimeter.show.advice import (
    advise,
    join_names,
    warn_of_noise,
    word_absolute,
    word_advice,
    word_conflict,
    word_drowned,
    word_errors,
    word_gain,
    word_mechanism,
    word_more_guesses,
    word_steps,
    word_undecided,
)
from dosimeter.show.axes import Axis, even_axis, ratio_axis
from dosimeter.show.candidates import (
    FAILS,
    MEETS,
    TextTable,
    count_untold,
    note_accuracy,
    note_untold,
    order_candidates,
)
from dosimeter.show.numbers import (
    count_decimals,
    format_epsilon,
    format_measured,
    format_multiple,
    format_number,
    format_people,
    format_percent,
    format_range,
    format_times,
)

__all__ = [
    "FAILS",
    "MEETS",
    "Axis",
    "TextTable",
    "advise",
    "count_decimals",
    "count_untold",
    "even_axis",
    "format_epsilon",
    "format_measured",
    "format_multiple",
    "format_number",
    "format_people",
    "format_percent",
    "format_range",
    "format_times",
    "join_names",
    "note_accuracy",
    "note_untold",
    "order_candidates",
    "ratio_axis",
    "warn_of_noise",
    "word_absolute",
    "word_advice",
    "word_conflict",
    "word_drowned",
    "word_errors",
    "word_gain",
    "word_mechanism",
    "word_more_guesses",
    "word_steps",
    "word_undecided",
]
