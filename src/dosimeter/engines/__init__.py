"""Engines run SQL trees where the data are and return Arrow tables: DuckDB, PostgreSQL, Spark.

Takes a source and trees that the planner wrote. Gives Arrow tables, or for results of few rows a ``FewRows``, which
holds lists of Python values; ``read_integers`` and the like read a column of either as an array. Never runs the text of
an analyst, never draws noise. ``base`` is the protocol; each engine has a file, and its helpers are beside it.
"""

from dosimeter.engines.arrow_columns import fetch_rows, read_booleans, read_codes, read_integers, read_values
from dosimeter.engines.cells import FORMS
from dosimeter.engines.engine import ClosableEngine, Engine, FewRows, ReadOptions
from dosimeter.engines.opening import open_engine, read_frames
from dosimeter.engines.own_functions import (
    DAY_NUMBER,
    IN_PART,
    MOMENT_NUMBER,
    ONCE_A_ROW,
    TEXT_NUMBER,
    call_own,
)
from dosimeter.engines.source_files import list_files
