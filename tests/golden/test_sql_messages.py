"""SQL that looks like a mistake with quotes; what does not parse is in tests/corpus/messages.sql."""

from __future__ import annotations

import pytest

from dosimeter.errors import QueryError
from dosimeter.planning import plan_query
from tests.corpus.tables import find_schema

SCHEMA = find_schema("messages")


@pytest.mark.parametrize("condition", ["y = 'Grippe'", 'alter_ = 3 OR "alter" = years'])
def test_a_wrong_column_is_not_taken_for_a_text(condition: str) -> None:
    with pytest.raises(QueryError, match="There is no column") as refused:
        plan_query(f"SELECT COUNT(*) FROM t WHERE {condition}", SCHEMA)
    assert "quotes" not in str(refused.value)


def test_the_advice_works() -> None:
    assert plan_query("SELECT AVG(\"alter\") FROM t WHERE x = 'Grippe'", SCHEMA).columns == ("x", "alter")
