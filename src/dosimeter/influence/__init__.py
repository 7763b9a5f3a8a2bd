"""Measure how far leaving out one individual moves each number that a plan measures.

Takes a plan and an engine; gives Contributions, the exact numbers that get noise, and who is most exposed. Never draws
noise and never knows the ledger. ``rows`` is for individuals with one row, ``units`` for those with many.
"""

from typing import TYPE_CHECKING

from dosimeter.influence.bounded_rows import count_alike, count_rows_each, find_facts
from dosimeter.influence.contributions import Contributions, no_attributes
from dosimeter.influence.joined_rows import require_unique
from dosimeter.influence.joint_profile import JointProfile
from dosimeter.influence.observed_keys import order_key
from dosimeter.influence.profiles import (
    AnyProfile,
    bound_rows,
    count_people,
    join_tables,
    measure_exactly,
    measure_influence,
)
from dosimeter.influence.public_rows import PublicReader
from dosimeter.influence.rows.profile import Measured, Profile, find_contributions, measure_profile
from dosimeter.influence.units.profile import UnitProfile
from dosimeter.late_names import load_late

__all__ = [
    "AnyProfile",
    "Contributions",
    "ExposedRecord",
    "JointProfile",
    "Measured",
    "Profile",
    "PublicReader",
    "UnitProfile",
    "bound_rows",
    "count_alike",
    "count_people",
    "count_rows_each",
    "find_contributions",
    "find_facts",
    "find_people",
    "find_units",
    "join_tables",
    "measure_exactly",
    "measure_influence",
    "measure_profile",
    "no_attributes",
    "order_key",
    "require_unique",
    "show_cell",
    "take_row",
]

if TYPE_CHECKING:
    from dosimeter.influence.most_exposed import ExposedRecord, find_people, find_units, show_cell, take_row

__getattr__ = load_late(
    __name__,
    dict.fromkeys(("ExposedRecord", "find_people", "find_units", "show_cell", "take_row"), "most_exposed"),
)
