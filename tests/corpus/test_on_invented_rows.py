"""What works on invented rows works on the data: every query that is answered is looked at and released on them.

That is every query of the corpus, on rows of its schema, and every example of docs/guide/sql.md on rows of the guide's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dosimeter import Budget, Dataset, Fixed, Ledger
from dosimeter.schema import Schema, count_most_rows
from tests.corpus.reading import Entry, answered
from tests.corpus.tables import find_schema
from tests.docs.test_sql_guide import ANSWERED, read_schema

GUIDE = "the guide"
ROWS = 100
ASKED = [*answered(), *(Entry(GUIDE, sql) for sql in ANSWERED)]
STUDIED: dict[str, dict[str, Any]] = {
    "noise": {"quantiles": "noise"},
    "hand": {"sensitivity": 2.5},
}  # for a look, and no release
Find = Callable[[str], tuple[Dataset, Ledger]]


def invent(schema: Schema) -> Dataset:
    rows = min(ROWS, count_most_rows(schema))
    others = {name: schema.dummy(rows, table=name) for name in schema.tables}
    return Dataset.open(schema.dummy(rows), schema=replace(schema, reviewed=True), tables=others)


@pytest.fixture(scope="module")
def invented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Find]:
    """Open the invented rows of a schema, with a fresh ledger, once for all queries on them."""
    folder: Path = tmp_path_factory.mktemp("ledgers")
    with ExitStack() as stack:

        @cache
        def find(table: str) -> tuple[Dataset, Ledger]:
            schema = read_schema() if table == GUIDE else find_schema(table)
            return stack.enter_context(invent(schema)), stack.enter_context(Ledger.open(folder / f"{table}.db"))

        yield find


@pytest.mark.parametrize("entry", ASKED, ids=str)
def test_what_is_answered_is_answered_on_invented_rows(entry: Entry, invented: Find) -> None:
    dataset, ledger = invented(entry.table)
    option = entry.facts.get("options", "")
    query = dataset.query(entry.sql, min_rows=99 if option == "floor" else None)
    if option in STUDIED:
        assert dataset.risk(entry.sql, **STUDIED[option]).sensitivity > 0
        return
    assert query.risk().sensitivity > 0
    answer = query.release(ledger, Fixed(1.0), policy=Budget(1_000))
    assert answer.status == "released"
    assert all([*row] == [output.name for output in query.plan.outputs] for row in answer.to_arrow().to_pylist())


def test_there_is_much_to_answer() -> None:
    assert len({entry.table for entry in ASKED}) > 10
    assert len(ASKED) > 500
