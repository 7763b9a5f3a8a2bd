"""Tables and bars for a terminal, made with Rich.

Takes values; gives what a console prints.
"""

from dosimeter.show.terminal.tables import (
    candidate_table,
    groups_table,
    people_table,
    pick_candidates,
    range_bars,
    say,
    shown_groups_table,
)
