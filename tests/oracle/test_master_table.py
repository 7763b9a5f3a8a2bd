"""A private table with one row per individual, such as the patients behind visits: it needs no row key.

What is measured is DuckDB's own answer over the rows that count, and what leaving out each individual changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from dosimeter.errors import SchemaError
from dosimeter.schema.toml import dump_schema, parse_schema
from tests.oracle.people_tables import Tables, draw_tables
from tests.oracle.person_queries import PersonQuery
from tests.oracle.test_people_queries import check_exact, check_left

SQL = "SELECT kind, COUNT(*) FROM visits JOIN labs USING (pid) GROUP BY kind"
ASKED = PersonQuery(SQL, SQL, 1)
WAYS = (None, "pid", "kind")


@dataclass(frozen=True)
class Masters(Tables):
    """Tables whose labs have one row of each individual, by this row key or none; visits have none if they do too."""

    way: str | None = None
    most: int = 1

    @property
    def facts(self) -> dict[str, Any]:
        facts = {name: value for name, value in super().facts.items() if name != "row_key" or self.m != 1}
        labs = {name: value for name, value in facts["tables"]["labs"].items() if name != "row_key"}
        labs |= {"max_rows_per_unit": self.most, **({"row_key": self.way} if self.way else {})}
        return {**facts, "tables": {**facts["tables"], "labs": labs}}


FULL = [seed for seed in range(200) if min(len(draw_tables(seed).labs), len(draw_tables(seed).visits) - 2) == 8][:6]


@pytest.mark.parametrize("way", WAYS)
def test_one_row_each_needs_no_row_key(way: str | None) -> None:
    """Of several rows one counts, chosen by that individual's rows alone."""
    for seed in FULL:
        clean, odd = (draw_tables(seed, odd=odd) for odd in (False, True))
        assert len({row["pid"] for row in clean.labs}) < len(clean.labs), "somebody has several rows"
        check_exact(Masters(clean.visits, clean.labs, clean.m, 1, way), ASKED)
        check_left(Masters(odd.visits, odd.labs, odd.m, 1, way), ASKED, "laplace")


@pytest.mark.parametrize("way", WAYS)
def test_written_and_read_again(way: str | None) -> None:
    schema = Masters([], [], 3, 1, way).schema
    assert parse_schema(dump_schema(schema)) == schema


def test_a_row_key_is_not_the_unit() -> None:
    assert Masters([], [], 3, 1, None, 2).schema.tables["labs"].row_key is None
    with pytest.raises(SchemaError, match="another column than unit"):
        _ = Masters([], [], 3, 1, "pid", 2).schema


def test_the_first_table_too() -> None:
    drawn = draw_tables(FULL[0])
    first = Masters(drawn.visits, drawn.labs, 1, 1)
    assert (first.schema.unit, first.schema.row_key) == ("pid", None)
    check_exact(first, ASKED)
