"""One table about every column of a dataset, as one query with one charge.

Takes a schema, and the answer to the query that it writes from it; gives a Summary. Never plans, measures or charges by
itself: the query is an ordinary one.
"""

from typing import TYPE_CHECKING

from dosimeter.late_names import load_late
from dosimeter.summary.layout import HEADINGS, NUMERIC, list_cells, list_notes
from dosimeter.summary.reading import read_summary
from dosimeter.summary.values import ColumnSummary, Figure, Summary
from dosimeter.summary.written_query import is_summary, write_summary

if TYPE_CHECKING:
    from dosimeter.summary.saving import ENDINGS, save_summary

__getattr__ = load_late(__name__, {"saving": ("ENDINGS", "save_summary")})
