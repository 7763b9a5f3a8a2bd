"""Measure how far leaving out one individual moves each number that a plan measures.

Takes a plan and the tables that a schema declares; gives a Profile, Contributions, the exact numbers that get noise,
and who is most exposed. Never draws noise and never knows the ledger. ``rows`` is for individuals with one row,
``units`` for those with many.
"""

from typing import TYPE_CHECKING

from dosimeter.influence.bounded_rows import count_alike, count_rows_each, find_facts
from dosimeter.influence.contributions import Contributions
from dosimeter.influence.left_out import LeftOut, find_left_out, measure_plain
from dosimeter.influence.measured_rows import DeclaredTables, Rows, require_unique
from dosimeter.influence.measuring import measure_exactly, measure_influence
from dosimeter.influence.observed_keys import order_key
from dosimeter.influence.profiles import ExposedSearch, Profile
from dosimeter.influence.public_rows import read_public_tables
from dosimeter.influence.rows.row_profile import Measured
from dosimeter.late_names import load_late

if TYPE_CHECKING:
    from dosimeter.influence.most_exposed import ExposedRecord, show_cell, take_row
    from dosimeter.influence.moved_number import MovedNumber, find_moved

__getattr__ = load_late(
    __name__,
    {
        "most_exposed": ("ExposedRecord", "show_cell", "take_row"),
        "moved_number": ("MovedNumber", "find_moved"),
    },
)
