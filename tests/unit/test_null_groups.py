"""NULL as a declared group (C8): what the schema says, what comes back, and how it is told from a total's NULL."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from dosimeter import Dataset, Ledger, QueryError, SchemaError
from dosimeter.planning import plan_query
from dosimeter.schema.toml import digest_schema, dump_schema, parse_schema, read_schema
from tests.known import known
from tests.schemas import category, declare, plain, whole
from tests.unit.drafts import check, draft

SEXES = ["f", "m", "f", None, None, "m", "f", None, "x"]
FLAGS = [True, None, False, True, None, True, None, False, True]
PENGUINS = pa.table({"sex": SEXES, "ringed": FLAGS, "mass": [3, 4, 5, None, 6, 3, None, 4, 5]})
FACTS: dict[str, Any] = declare(
    "penguins",
    20,
    {"sex": {"type": "category", "values": ["f", "m"], "nulls": True}, "ringed": plain("boolean"), "mass": whole(3, 6)},
)
EXACT: dict[str, Any] = {"epsilon": 200, "policy": "budget:1000000"}  # noise of this ε is 0 but once in e^200


@pytest.fixture
def penguins() -> Any:
    with Dataset.open(PENGUINS, schema=FACTS, table="penguins") as dataset:
        yield dataset


# ---------------------------------------------------------------- the schema


def test_schema_is_read_and_written_and_its_digest_changes_only_where_null_is_declared() -> None:
    """The old digest was computed before the entry existed."""
    schema = read_schema(FACTS)
    assert [name for name, column in schema.columns.items() if column.nulls] == ["sex"]
    assert parse_schema(dump_schema(schema)) == schema
    assert dump_schema(schema).count("nulls = true") == 1
    assert "NULL is a group" in schema._repr_html_()
    without = {name: replace(each, nulls=False) for name, each in schema.columns.items()}
    assert digest_schema(schema) != digest_schema(replace(schema, columns=without)) == OLD_DIGEST


OLD_DIGEST = "63373e7cf18ae4d1fa4b6c8c2d2a6bc04165f4acd50c619e55781b1bf04f4d22"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"columns": {"sex": {"type": "boolean", "nulls": "yes"}}}, "[columns.sex]: nulls must be true or false."),
        (
            {"unit": "sex", "max_rows_per_unit": 1, "columns": {"sex": {"type": "text", "nulls": True}}},
            "nulls = true stands at the unit sex",
        ),
    ],
)
def test_wrong_entries_are_named(facts: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(words)):
        read_schema({"table": "t", **facts})


def test_draft_asks_where_values_are_missing() -> None:
    written = draft(PENGUINS)
    lines = written.text.splitlines()
    for name, missing in (("sex", 3), ("ringed", 3), ("mass", 2)):
        above = " ".join(line.removeprefix("# ") for line in lines[: lines.index(f"[columns.{name}]")])
        assert f"{missing} of 9 rows have no value here (NULL)" in above
    assert parse_schema(written.text) == written.schema
    assert not any(column.nulls for column in written.schema.columns.values()), "it asks, and decides nothing"


def test_check_tells_what_group_by_leaves_out() -> None:
    remarks = {remark.column: remark.remark for remark in check(PENGUINS, read_schema(FACTS)).remarks}
    assert remarks["ringed"].startswith("NULL in 3 rows, which GROUP BY leaves out")
    assert "sex" not in remarks


# ---------------------------------------------------------------- answers


def ask(dataset: Dataset, ledger: Ledger, sql: str) -> list[dict[str, Any]]:
    answer = dataset.release(sql, ledger=ledger, **EXACT)
    return [dict(row) for row in known(answer.answer)]


def test_released_groups_have_null_last(penguins: Dataset, ledger: Ledger) -> None:
    sql = "SELECT sex, COUNT(*) AS n FROM penguins GROUP BY sex"
    expected = [{"sex": "f", "n": 3}, {"sex": "m", "n": 2}, {"sex": None, "n": 3}]
    assert ask(penguins, ledger, sql) == expected
    assert ask(penguins, ledger, sql) == expected  # from the ledger
    assert len(known(ledger.account("penguins")).entries) == 1


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("sex DESC NULLS LAST", ["m", "f", None]),
        ("sex NULLS FIRST", [None, "f", "m"]),
        ("n DESC, sex NULLS FIRST", [None, "f", "m"]),
    ],
)
def test_order_by_places_null(penguins: Dataset, ledger: Ledger, order: str, expected: list[str | None]) -> None:
    rows = ask(penguins, ledger, f"SELECT sex, COUNT(*) AS n FROM penguins GROUP BY sex ORDER BY {order}")
    assert [row["sex"] for row in rows] == expected


def test_a_total_is_told_from_null(penguins: Dataset, ledger: Ledger) -> None:
    rows = ask(penguins, ledger, "SELECT sex, GROUPING(sex) AS t, COUNT(*) AS n FROM penguins GROUP BY ROLLUP (sex)")
    assert [(row["sex"], row["t"], row["n"]) for row in rows] == [("f", 0, 3), ("m", 0, 2), (None, 0, 3), (None, 1, 8)]


def test_only_declared_nulls_are_groups(penguins: Dataset) -> None:
    """NULL of ringed is not declared; beside sex, whose NULL is, it leaves its rows out all the same."""
    assert penguins.risk("SELECT ringed, COUNT(*) FROM penguins GROUP BY ringed").measured().keys == ((False,), (True,))
    both = penguins.risk("SELECT sex, ringed, COUNT(*) FROM penguins GROUP BY sex, ringed").measured()
    assert dict(zip(both.keys, both.values, strict=True)) == {
        (sex, flag): (sum((s, f) == (sex, flag) for s, f in zip(SEXES, FLAGS, strict=True)),)
        for sex in ("f", "m", None)
        for flag in (False, True)
    }


@pytest.mark.parametrize(
    ("expression", "last"),
    [
        ("COALESCE(sex, 'u')", "u"),
        ("CASE WHEN mass > 4 THEN 'big' END", "big"),  # of a column that declares no NULL
        ("CASE WHEN mass > 4 THEN sex END", None),
        ("sex = 'f'", None),
        ("sex IS NULL", True),
        ("LENGTH(sex)", None),
    ],
)
def test_expressions_have_null_where_they_can_be_null(penguins: Dataset, expression: str, last: Any) -> None:
    measured = penguins.risk(f"SELECT {expression} AS g, COUNT(*) FROM penguins GROUP BY g").measured()
    assert measured.keys[-1] == (last,)


def test_values_nobody_declared_are_no_group() -> None:
    schema = read_schema({**FACTS, "columns": {"sex": {"type": "text", "nulls": True}}})
    with pytest.raises(QueryError, match="no declared list"):
        plan_query("SELECT sex, COUNT(*) FROM penguins GROUP BY sex", schema)


# ---------------------------------------------------------------- questions about people


def test_person_stage_passes_null_on() -> None:
    """Somebody with nothing but NULL is in the group NULL of their own MAX; a plain count of theirs is never NULL."""
    table = pa.table({"who": ["a", "a", "b", "c", "c"], "at": [1, 2, 3, 4, 5], "sex": ["f", None, None, "m", "f"]})
    columns = {"who": plain("text"), "at": plain("integer"), "sex": category("f", "m") | {"nulls": True}}
    facts = declare("stays", 5, columns, unit="who", max_rows_per_unit=2, row_key="at")
    with Dataset.open(table, schema=facts, table="stays") as dataset:
        inner = "(SELECT who, MAX(sex) AS s, COUNT(sex) AS n FROM stays GROUP BY who)"
        by_sex = dataset.risk(f"SELECT s, COUNT(*) FROM {inner} p GROUP BY s").measured()
        assert dict(zip(by_sex.keys, by_sex.values, strict=True)) == {("f",): (1,), ("m",): (1,), (None,): (1,)}
        by_count = dataset.risk(f"SELECT n, COUNT(*) FROM {inner} p GROUP BY n").measured()
        assert [key for (key,) in by_count.keys] == [0, 1, 2]
