"""SPLIT_PART, POSITION, regular expressions and JSON over declared values, and WIDTH_BUCKET.

Tables of results are compared with DuckDB's own answer for the text as it was written, cell by cell; intervals with
exact fractions. How much a pattern may cost is counted, not timed.
"""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from dosimeter.dataset import Dataset
from dosimeter.errors import QueryError
from dosimeter.planning import PlanOptions, digest_measured, plan_query
from dosimeter.schema import Schema
from dosimeter.schema.toml import read_schema
from dosimeter.sql import evaluate_row
from tests.schemas import category, decimal, declare, plain, whole
from tests.shared_duckdb import ask_plain_duckdb

CODES = ["A-1", "A-22", "b-1-x", "É|é", "", "-", "no mark", "it's", "back\\slash", "😀-👍🏽", "a.b{2}", "two\nlines"]
FORMS = [
    '{"k": "x", "a.b": "one", "a": {"b": [1, 2.50, "tw\\"o"]}}', '{"k": null, "a": []}', '{"k": {"z": true}}',
    '[{"k": "y"}, null, "é"]', "no json", '{"k": ', '"text"', "17", "",
    '{"k": "{\\"z\\": 1}"}', '{"it\'s": "\\\\", "1": "place", "": "empty"}',
]  # fmt: skip


def make_schema(**columns: dict[str, Any]) -> Schema:
    return read_schema(declare("t", 50, columns))


SCHEMA = make_schema(
    code=category(*CODES),
    form=category(*FORMS),
    note=plain("text"),
    x=whole(-50, 150),
    v=decimal(-2, 3, 0.01),
    wide=decimal(-1e9, 1e9, 0.01),
)


def compute(sql: str, column: str, cells: list[Any]) -> list[Any]:
    """Return the value of an expression for each cell, computed as it is planned for every engine."""
    (group,) = plan_query(f"SELECT {sql} AS g, COUNT(*) FROM t GROUP BY g", SCHEMA).groups
    return [evaluate_row(group.tree, {column: cell}) for cell in cells]


# ---------------------------------------------------------------- texts


OF_CODES = [
    "SPLIT_PART(code, '-', 2)", "SPLIT_PART(code, '-', -1)", "SPLIT_PART(code, '''', 2)", "SPLIT_PART(code, '-', 999)",
    "POSITION('-' IN code)", "STRPOS(code, 'é')", "INSTR(code, '👍')", "POSITION('''s' IN code)",
    "REGEXP_MATCHES(code, 'É', 'i')", "REGEXP_MATCHES(code, 's.l|o.l', 's')", "REGEXP_MATCHES(code, '''')",
    "REGEXP_MATCHES(code, '\\pL{2,3}\\b')", "REGEXP_MATCHES(code, '')", "code ~ 'a\\.b\\{2\\}'", "code !~ '\\d'",
    "code ~* 'B'", "REGEXP_FULL_MATCH(code, '.-.')", "REGEXP_FULL_MATCH(code, '[a-z].*', 'is')",
    "REGEXP_EXTRACT(code, '[a-zé]+')", "REGEXP_EXTRACT(code, '(.)-(.+)', 2)", "REGEXP_EXTRACT(code, 'zz')",
    "UPPER(SPLIT_PART(code, '-', 1)) || POSITION('1' IN code)", "SPLIT_PART(REGEXP_EXTRACT(code, '.*-'), '-', 1)",
    "CASE WHEN code ~ '-' THEN SPLIT_PART(code, '-', 2) ELSE LEFT(code, 2) END", "LENGTH(SPLIT_PART(code, '-', 2))",
]  # fmt: skip
OF_FORMS = [
    "form ->> 'k'", "form ->> 'a.b'", "form ->> '$.a.b'", "form ->> '$.a.b[2]'", "form -> 'a' -> 'b' ->> 0",
    "(form -> 'a') ->> 'b'", "form -> 0 ->> 'k'", "form ->> 0", "form ->> -1", "form ->> '$[0].k'", "form ->> '/a/b/1'",
    "form ->> 'it''s'", "form ->> '1'", "form ->> 2", "form ->> '$'", "form ->> '$.\"a.b\"'",
    "JSON_EXTRACT_STRING(form, '$.k')", "JSON_EXTRACT_STRING(form, 'k')", "JSON_EXTRACT(form, '$.a') ->> '$.b[1]'",
    "UPPER(form ->> 'k') || '!'", "LENGTH(form -> 'a' ->> 'b')", "form ->> 'k' = 'x'", "(form ->> 'k') ->> 'z'",
]  # fmt: skip


@pytest.mark.parametrize("sql", [*OF_CODES, *OF_FORMS])
def test_a_table_holds_what_duckdb_gives(sql: str) -> None:
    column, declared = ("code", CODES) if sql in OF_CODES else ("form", FORMS)
    with ask_plain_duckdb(t=pa.table({column: pa.array([*declared, None])})) as plain:
        expected = [row[0] for row in plain.execute(f"SELECT TRY({sql}) FROM t").fetchall()]
    found = compute(sql, column, [*declared, None])
    assert [str(value) for value in found] == [str(value) for value in expected]
    assert compute(sql, column, ["nobody declared this"]) == [None]


def test_paths_that_differ_are_different_queries() -> None:
    queries = [f"SELECT COUNT(*) FROM t WHERE form ->> {path} = 'x'" for path in ("'a.b'", "'$.a.b'", "1", "'1'")]
    assert len({plan_query(sql, SCHEMA).digest for sql in queries}) == 4
    same = [f"SELECT COUNT(*) FROM t WHERE {each} = 'x'" for each in ("form ->> 'k'", "JSON_EXTRACT_STRING(form, 'k')")]
    assert len({digest_measured(plan_query(sql, SCHEMA)) for sql in same}) == 1


# ---------------------------------------------------------------- how much a pattern may cost


def many_values(number: int, letters: int) -> Schema:
    return make_schema(code={"type": "category", "values": [f"{at:0{letters}}" for at in range(number)]})


@pytest.mark.parametrize(
    ("pattern", "number", "letters"),
    [
        ("(.?){1000}(.?){1000}", 5, 5),
        ("(((.?){10}){10}){10}" * 2, 5, 5),
        (r"[\pL]{300}", 5, 5),
        ("(.?){100}x", 2_000, 30),
        ("a" * 1_000, 2_000, 30),
    ],
)
def test_what_would_take_long_is_refused_before_it_is_tried(
    pattern: str, number: int, letters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, refuse = many_values(number, letters), Mock(side_effect=AssertionError("DuckDB was asked"))
    if number < 100:
        monkeypatch.setattr("dosimeter.sql.patterns.find_failure", refuse)
    monkeypatch.setattr("dosimeter.sql.texts.evaluate_each", refuse)
    with pytest.raises(QueryError, match="would take too long over the declared values"):
        plan_query(f"SELECT COUNT(*) FROM t WHERE code ~ '{pattern}'", schema)


@pytest.mark.parametrize(
    "pattern", [r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}$", r"^[A-Z]{3}[0-9]{2,4}(\.[0-9]{1,2})?$", "(x+x+)+y", r"\pL+"]
)
def test_patterns_that_people_write_are_not_too_long(pattern: str) -> None:
    assert plan_query(f"SELECT COUNT(*) FROM t WHERE code ~ '{pattern}'", many_values(500, 20)).measures


def test_many_patterns_of_one_query_count_together() -> None:
    tests = [f"code ~ '(.?){{100}}{at}'" for at in range(200)]
    with pytest.raises(QueryError, match="too long once its expressions are written"):
        plan_query(f"SELECT COUNT(*) FROM t WHERE {' OR '.join(tests)}", many_values(10, 30))
    keys = [f"code ->> 'k{at}' IS NULL" for at in range(30)]  # NULL is written nowhere, and counts all the same
    with pytest.raises(QueryError, match="too long once its expressions are written"):
        plan_query(f"SELECT COUNT(*) FROM t WHERE {' OR '.join(keys)}", many_values(2_000, 4))


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("REGEXP_MATCHES(code, 'a\0b')", "without NUL"),
        (f"code ~ '{'a' * 1_001}'", "at most 1,000 letters"),
        ("form ->> 'k' = 'a'", "a NUL character"),
    ],
)
def test_patterns_and_texts_are_short_and_without_nul(sql: str, words: str) -> None:
    schema = make_schema(code=category(*CODES), form=category('{"k": "a\\u0000b"}'))
    with pytest.raises(QueryError, match=words):
        plan_query(f"SELECT COUNT(*) FROM t WHERE {sql}", schema)


# ---------------------------------------------------------------- intervals


def find_bucket(value: Fraction, low: Fraction, high: Fraction, count: int) -> int:
    """Return PostgreSQL's width_bucket of exact numbers, by its definition."""
    share = (value - low) / (high - low)
    return 0 if share < 0 else count + 1 if share >= 1 else int(share * count) + 1


@pytest.mark.parametrize("seed", range(6))
def test_intervals_are_exact(seed: int) -> None:
    """Cells with two decimals, on the ends of intervals and beside them, whichever end is the larger one."""
    chance = random.Random(seed)
    low, high = (Decimal(each) / 100 for each in chance.sample(range(-150, 250), 2))
    count = chance.choice([1, 2, 3, 7, 10, 100, abs(int((high - low) * 100))])
    ends = [low + (high - low) * at / count for at in range(count + 1)]
    cells = [round(end, 2) + shift for end in chance.sample(ends, min(9, len(ends)))
             for shift in (Decimal("-0.01"), Decimal(0), Decimal("0.01"))]  # fmt: skip
    found = compute(f"WIDTH_BUCKET(v, {low}, {high}, {count})", "v", [float(cell) for cell in [*cells, low, high]])
    assert found == [find_bucket(Fraction(cell), Fraction(low), Fraction(high), count) for cell in [*cells, low, high]]
    assert compute(f"WIDTH_BUCKET(v, {low}, {high}, {count})", "v", [None]) == [None]


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("WIDTH_BUCKET(x, 0, 100, 5)", (0, 1, 2, 3, 4, 5, 6)),
        ("WIDTH_BUCKET(x, 200, 100, 2)", (2, 3)),  # 150 is the upper end of the second
        ("WIDTH_BUCKET(x, 200, 99, 2)", (1, 2, 3)),
        ("WIDTH_BUCKET(wide, 0, 1, 3)", (0, 1, 2, 3, 4)),
        ("WIDTH_BUCKET(wide * 2, 0, 1, 3) * 10", (0, 10, 20, 30, 40)),
    ],
)
def test_groups_are_those_that_the_bounds_allow(sql: str, values: tuple[int, ...]) -> None:
    (group,) = plan_query(f"SELECT {sql} AS b, COUNT(*) FROM t GROUP BY b", SCHEMA).groups
    assert group.values == values


def test_bounds_are_carried() -> None:
    plan = plan_query("SELECT SUM(WIDTH_BUCKET(wide, 0, 1, 9)) FROM t", SCHEMA)
    assert plan.sensitivity(1) == 10


# ---------------------------------------------------------------- SELECT DISTINCT


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("SELECT DISTINCT code FROM t", "SELECT code FROM t GROUP BY code HAVING COUNT(*) > 0"),
        (
            "SELECT DISTINCT code ~ '-' AS m, x // 50 FROM t WHERE v > 1 ORDER BY m LIMIT 3",
            "SELECT code ~ '-' AS m, x // 50 FROM t WHERE v > 1 GROUP BY code ~ '-', x // 50 HAVING COUNT(*) > 0 "
            "ORDER BY m LIMIT 3",
        ),
        (
            "WITH some AS (SELECT code AS c FROM t WHERE x > 3) SELECT DISTINCT c FROM some",
            "WITH some AS (SELECT code AS c FROM t WHERE x > 3) SELECT c FROM some GROUP BY c HAVING COUNT(*) > 0",
        ),
    ],
)
def test_select_distinct_is_short_for_noisy_counts(short: str, long: str) -> None:
    found, meant = plan_query(short, SCHEMA), plan_query(long, SCHEMA)
    assert found.measures  # so that noise decides what is shown
    assert found.digest == meant.digest
    assert digest_measured(found) == digest_measured(meant)
    assert found.after.steps == meant.after.steps
    assert "HAVING" in found.after.steps


# ---------------------------------------------------------------- texts that nobody declared, as groups


@pytest.mark.parametrize(
    ("key", "tree"),
    [
        ("note", 'LEFT("note", 4096)'),
        ("SUBSTRING(note, 1, 3)", 'SUBSTRING("note", 1, 3)'),
        ("SUBSTR(note, 3)", 'SUBSTRING(LEFT("note", 4096), 3)'),
        ("RIGHT(note, 5)", 'RIGHT("note", 5)'),
        ("LEFT(code, 1)", None),
    ],
)
def test_keys_of_thresholded_groups_have_a_maximal_length(key: str, tree: str | None) -> None:
    options = PlanOptions(groups="thresholded", group_delta=1e-6)
    for sql in (f"SELECT {key} AS k, COUNT(*) FROM t GROUP BY 1", f"SELECT COUNT(*), {key} FROM t GROUP BY {key}"):
        plan = plan_query(sql, SCHEMA, options)
        assert tree is None or plan.groups[0].tree.sql(dialect="duckdb") == tree
    assert plan.outputs[1].name == ("note" if key == "note" else "group1")


def test_cells_that_differ_beyond_the_maximal_length_share_a_group() -> None:
    same = "é" * 4_096
    cells = [same, same + "a", same + "b" * 100_000, "é", None]
    schema = make_schema(note=plain("text"))
    with Dataset.open(pa.table({"note": pa.array(cells)}), schema=schema, table="t") as dataset:
        measured = dataset.risk(
            "SELECT note, COUNT(*) FROM t GROUP BY note", groups="thresholded", group_delta=1e-3
        ).measured()
    assert {key: float(row[0]) for (key,), row in zip(measured.keys, measured.values, strict=True)} == {"é": 1, same: 3}
