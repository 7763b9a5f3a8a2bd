"""Recognise the entries of a ledger that found facts of a schema (B1): several questions, whose answer are facts.

Whoever shows or counts entries reads such a text as it is: it is not one query, and cannot be planned as one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dosimeter.ledger import Entry

HEADING = "-- Facts for a schema\n"
FACT_COLUMNS = ("column", "fact", "value", "people")
_NAME = '"(?:[^"]|"")*"'
_FIRST = re.compile(rf"{HEADING}SELECT COUNT\((?:\*|DISTINCT {_NAME})\) AS people FROM {_NAME};")


def holds_facts(entry: Entry) -> bool:
    """Return whether an entry is a search for the facts of a schema.

    An analyst may write the same comment and the same columns. But a search begins with a whole question, which has one
    column alone, and a query is one statement. One that has no answer is taken for a search, which is counted as if it
    moved everybody.
    """
    columns = tuple(entry.columns or FACT_COLUMNS)
    return _FIRST.match(entry.query) is not None and columns == FACT_COLUMNS


def name_question(entry: Entry) -> str:
    """Return what an entry asked, for a list: its SQL, or how many questions found facts."""
    if not holds_facts(entry):
        return entry.query.strip()
    asked = entry.query.count(";\n") + entry.query.endswith(";")
    return f"Facts for a schema: {asked:,} questions"
