"""What is refused, and with what advice. Nothing but QueryError may escape."""

from __future__ import annotations

import pytest

from dosimeter.errors import QueryError
from dosimeter.planning import plan_query
from tests.corpus.reading import Entry, read_corpus, refused
from tests.corpus.tables import find_schema

INSIDE = ("class", "keyword", "sqlglot", "token", "\x1b")  # words of the parser, not of the analyst


@pytest.mark.parametrize("entry", refused(), ids=str)
def test_refused(entry: Entry) -> None:
    with pytest.raises(QueryError) as refusal:
        plan_query(entry.sql, find_schema(entry.table))
    message = str(refusal.value)
    assert entry.refused is not None
    assert entry.refused in message
    assert 10 < len(message) < 900
    assert "\x1b" not in message
    if entry.table == "messages":
        assert not any(word in message for word in INSIDE)


def test_no_query_stands_there_twice() -> None:
    asked = [(entry.table, entry.sql, entry.facts.get("options")) for entry in read_corpus()]
    assert len(set(asked)) == len(asked) > 600
