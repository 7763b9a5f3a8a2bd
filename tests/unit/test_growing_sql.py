"""Size is bounded by what is public: no query is enormous to plan, to digest or to compute, or so for one person only.

The queries come from growing_sql.py. They are asked of two neighbours: in one, p0 has the longest cells by far. A query
is refused by the SQL alone, or answered for both.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest
from sqlglot import exp

from dosimeter.dataset import Dataset
from dosimeter.errors import QueryError
from dosimeter.influence import measure_exactly
from dosimeter.ledger import Ledger
from dosimeter.planning import (
    QueryPlan,
    digest_measured,
    explain_plan,
    identity,
    knows_earlier_looks,
    person_relation,
    plan_query,
    planner,
)
from dosimeter.planning.people import columns
from dosimeter.planning.people.stage import list_trees
from dosimeter.schema import Schema
from dosimeter.schema.toml import read_schema
from dosimeter.sql import texts, types
from tests.shares import Share
from tests.unit.growing_sql import FACTS, SCHEMA, grow_queries

LONG = "a é 😀 x " * 9_000  # 72,000 letters
OTHERS: list[dict[str, object]] = [
    {
        "pid": f"p{at}",
        "vid": at,
        "hiv": at % 2 == 0,
        "ward": "eyes",
        "cost": at,
        "day": None,
        "note": "x",
        "name": "n",
        "code": "value 1",
    }
    for at in range(1, 8)
]
OWN: list[dict[str, object]] = [
    {**OTHERS[0], "pid": "p0", "vid": 50 + at, "hiv": True, "note": LONG, "name": LONG} for at in range(3)
]
MOST_NODES = 300_000  # of all trees of a plan
MOST_MADE = 400_000  # nodes while a query is planned and explained, also if it is refused
MOST_CHARACTERS = 5_000_000  # of its SQL, and of what is digested
AIMED = (
    "SELECT COUNT(*) FROM (SELECT pid, MAX({n}) AS n FROM (SELECT pid, MAX({n}) AS n FROM (SELECT pid, MAX({note}) AS "
    "n FROM v WHERE pid = '{who}' AND hiv GROUP BY pid) GROUP BY pid) GROUP BY pid) WHERE LENGTH(n) > 5"
)


pytestmark = pytest.mark.usefixtures("shared_duckdb")  # every table in memory is opened in one DuckDB


@pytest.fixture(scope="module")
def neighbours() -> Iterator[tuple[Dataset, Dataset]]:
    """Give a table with p0, whose cells are the longest, and the same without p0."""
    with _open([*OTHERS, *OWN]) as one, _open(OTHERS) as other:
        yield one, other


def _open(rows: list[dict[str, object]], schema: Schema = SCHEMA) -> Dataset:
    return Dataset.open(pa.Table.from_pylist(rows), schema=schema, table="v")


def _measure(dataset: Dataset, sql: str, schema: Schema = SCHEMA) -> list[float]:
    plan = plan_query(sql, schema)
    measured = measure_exactly(plan, dataset.tables, None)
    return [float(number) for row in measured.values for number in row]


# ---------------------------------------------------------------- what grows


@contextmanager
def _count_made() -> Iterator[list[int]]:
    """Count the nodes of trees that are made meanwhile, parsed, copied or written."""
    made, make = [0], exp.Expr.__init__

    def counted(self: exp.Expr, **args: object) -> None:
        made[0] += 1
        make(self, **args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exp.Expr, "__init__", counted)
        yield made


def _nest_after(levels: int) -> str:
    query = "SELECT ward, COUNT(*) AS c FROM v GROUP BY ward"
    for at in range(levels):
        query = f"SELECT ward, CASE WHEN c > {at} THEN c * 2 ELSE c + ROUND(c, 1) END AS c FROM ({query}) AS t{at}"
    return query


def _name_twice(name: str, many: int, first: str, link: str) -> str:
    links = [f"{name}{at} AS ({link.format(f'{name}{at - 1}', f'{name}{max(at - 2, 0)}')})" for at in range(1, many)]
    return f"WITH {', '.join([f'{name}0 AS ({first})', *links])}"


WHERE = "SELECT COUNT(*) FROM v WHERE "
GROWING = {
    "a date for each code": (
        WHERE + f"STRFTIME(day{' + INTERVAL 1 DAY' * 9}, '{'%B' * 25}') = 'x'",
        "nested too deeply",
    ),
    "a name of a month": (WHERE + f"MONTHNAME(day{' + INTERVAL 1 DAY' * 9}) = 'x'", "nested too deeply"),
    "a long pattern": (WHERE + f"STRFTIME(day, '{'%B' * 4_000}') = 'x'", "1 to 100 letters"),
    "a formula of formulas": (_nest_after(9), "too long once"),
    "conditions of a stage": (
        "SELECT COUNT(*) FROM (SELECT pid FROM v GROUP BY pid HAVING "
        + " AND ".join(f"SUM(cost) > {at}" for at in range(1_500))
        + ")",
        None,
    ),
    "a choice of one column": (WHERE + f"UPPER(COALESCE({', '.join(['code'] * 160)})) = 'x'", "10,800 declared values"),
    "an order of many": (
        "SELECT ward, COUNT(*) AS c FROM v GROUP BY ward ORDER BY " + ", ".join(f"c + {at}" for at in range(5_000)),
        "An ORDER BY lists 5,000",
    ),
    "a list of terms": (
        WHERE + f"vid IN ({', '.join(['cost+1'] * 8_000)})",
        "A list has 8,000 terms that are no plain",
    ),
    "a list of numbers": (
        f"SELECT COUNT(*) FROM (SELECT pid FROM v GROUP BY pid HAVING MAX(cost) IN ({str(list(range(9_000)))[1:-1]}))",
        None,
    ),
    "very many terms": (WHERE + " OR ".join(f"cost = {at}" for at in range(2_500)), "at most 1,000 and 12,000"),
    "many tests of members": (
        WHERE + " AND ".join(f"pid IN (SELECT pid FROM v WHERE vid > {at})" for at in range(51)),
        "asks 51 times whether something is in another",
    ),
    "as many tests as there may be": (
        WHERE + " AND ".join(f"pid IN (SELECT pid FROM v WHERE vid > {at})" for at in range(50)),
        None,
    ),
    "tests of members that are named again": (
        "WITH a AS (SELECT * FROM v WHERE " + " AND ".join(["pid IN (SELECT pid FROM v)"] * 26) + ") "
        "SELECT COUNT(*) FROM a WHERE pid IN (SELECT pid FROM a)",
        "asks 79 times",
    ),
    "a chain": (
        _name_twice("a", 250, "SELECT * FROM v", "SELECT * FROM {0}") + " SELECT COUNT(*) FROM a249",
        "nested too deeply",
    ),
    "doubling": (
        _name_twice("a", 12, "SELECT COUNT(*) AS c FROM v", "SELECT c + (SELECT c FROM {0}) AS c FROM {0}")
        + " SELECT c FROM a11",
        "SELECTs and",
    ),
    "doubling that nobody names": (
        _name_twice("a", 36, "SELECT * FROM v", "SELECT * FROM {0} WHERE pid IN (SELECT pid FROM {1})")
        + " SELECT COUNT(*) FROM v",
        "SELECTs and more than a billion terms",
    ),
    "cross joins": (
        _name_twice("a", 39, "SELECT COUNT(*) AS c FROM v", "SELECT x.c FROM {0} AS x CROSS JOIN {0} AS y")
        + " SELECT c FROM a38",
        "more than a billion",
    ),
    "columns": ("SELECT " + ", ".join(f"COUNT(*) AS c{at}" for at in range(1_001)) + " FROM v", "lists 1,001 columns"),
    "averages that might be advised on": (
        "SELECT COUNT(*), " + ", ".join(f"AVG(cost + {at}) AS mean_{at}" for at in range(120)) + " FROM v",
        None,
    ),
    "one CASE of a long subject": (
        f"SELECT SUM(CASE {'+'.join(['cost'] * 40)} {' '.join(f'WHEN {at} THEN 1' for at in range(900))} END) FROM v",
        "nested too deeply",
    ),
}


@pytest.mark.parametrize(("sql", "words"), GROWING.values(), ids=GROWING)
def test_little_is_made_for_what_would_grow(sql: str, words: str | None) -> None:
    with _count_made() as made:
        if words is None:
            explain_plan(plan_query(sql, SCHEMA))
        else:
            with pytest.raises(QueryError, match=words):
                plan_query(sql, SCHEMA)
    assert 0 < made[0] < MOST_MADE


PARTS = [f"{name}(note, '{{}}')" for name in ("CONTAINS", "STARTS_WITH", "ENDS_WITH", "PREFIX", "SUFFIX")]


@pytest.mark.parametrize("test", ["note LIKE '{}'", "note ILIKE '{}'", "note NOT LIKE '%{}'", *PARTS])
def test_what_is_searched_for_is_short(test: str) -> None:
    letters = 999 if "%" in test else 1_000
    plan_query(WHERE + test.format("a" * letters), SCHEMA)  # is supported
    with pytest.raises(QueryError, match=r"1,001 letters are searched for; at most 1,000 are supported\. Search for a"):
        plan_query(WHERE + test.format("a" * (letters + 1)), SCHEMA)


def test_close_values_are_looked_for_to_few_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    search = Mock(return_value=[])
    monkeypatch.setattr(types, "get_close_matches", search)
    unlisted = [f"valeu {at}" for at in range(500)]
    notes = explain_plan(plan_query(f"{WHERE}code IN ({str(unlisted)[1:-1]})", SCHEMA)).notes
    assert [call.args[0] for call in search.call_args_list] == unlisted[:5]
    assert any(note.startswith("495 more texts") for note in notes)


def _ask_both(queries: Iterable[str], neighbours: tuple[Dataset, Dataset], digested: list[int]) -> Share:
    """Ask queries of both neighbours, and return how many were answered. Fails where one of them is not."""
    answered = Share()
    for sql in queries:
        try:
            with _count_made() as made:
                plan = plan_query(sql, SCHEMA)
                explain_plan(plan)
        except QueryError:  # by the SQL alone: there are no data yet
            answered.count(False)
            continue
        finally:
            assert made[0] < MOST_MADE, sql[:300]
        answered.count(True)
        digested[0] = 0
        digest_measured(plan)
        assert digested[0] < MOST_CHARACTERS, sql[:300]
        nodes, characters = _size_of(plan)
        assert nodes < MOST_NODES, sql[:300]
        assert characters < MOST_CHARACTERS, sql[:300]
        for dataset in neighbours:
            measure_exactly(plan, dataset.tables, None)  # raises for nobody
    return answered


def _size_of(plan: QueryPlan) -> tuple[int, int]:
    """Return how many nodes and characters the trees of a plan have, and the SQL of its stages and after the noise."""
    trees = [tree for _, tree in list_trees(plan)]
    for block in plan.blocks:
        trees += [group.tree for group in block.groups]
        trees += [argument.tree for argument in block.arguments]
        trees += [] if block.where is None else [block.where]
    trees += [] if plan.person is None else [person_relation(plan.person, lambda table: exp.table_("rows"))]
    trees += [] if plan.after.query is None else [plan.after.query]
    written = [tree.sql(dialect="duckdb") for tree in trees]
    return sum(1 for tree in trees for _ in tree.walk()), sum(map(len, written))


@pytest.fixture
def digested(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the characters of all forms that a digest writes."""
    count, write = [0], vars(identity)["_write"]

    def counted(form: object) -> str:
        text: str = write(form)
        count[0] += len(text)
        return text

    monkeypatch.setattr(identity, "_write", counted)
    return count


def test_growing_queries_are_small_and_say_nothing_of_one_person(
    neighbours: tuple[Dataset, Dataset], digested: list[int]
) -> None:
    _ask_both(grow_queries(20_261, 72, 3_000), neighbours, digested).require(0.4)


@pytest.mark.long
def test_two_thousand_growing_queries_say_nothing_of_one_person(
    neighbours: tuple[Dataset, Dataset], digested: list[int]
) -> None:
    _ask_both(grow_queries(20_262, 2_000), neighbours, digested).require(0.4)


@pytest.mark.long
def test_two_thousand_growing_queries_are_planned_in_two_seconds_and_half_a_gigabyte_each() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.unit.growing_sql", "20262", "2000"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=True,
        text=True,
    )
    found = json.loads(ran.stdout)
    assert found["seconds"] < 2.0, found["sql"]
    assert found["bytes"] < 512 * 2**20


# ---------------------------------------------------------------- aimed at one person


@pytest.mark.parametrize("times", [2, 26])
def test_a_text_cannot_be_made_to_grow_for_one_person(times: int, tmp_path: Path) -> None:
    """Whoever the query is aimed at, and whether the condition holds for them or not, it ends in the same way."""
    ends = set()
    for at, who in enumerate(("p0", "p1", "p2", "nobody")):
        sql, end = _aim(who, times), ""
        with _open([*OTHERS, *OWN]) as dataset, Ledger.open(tmp_path / f"{at}.db") as ledger:
            try:
                end = dataset.release(sql, ledger=ledger, epsilon=0.001, policy="budget:1").status
            except QueryError as refused:
                end = str(refused)
            assert ledger.stopped("v") is None
            ends.add(end)
    assert len(ends) == 1
    assert ("released" in ends) == (times == 2)


def _aim(who: str, times: int) -> str:
    return AIMED.format(who=who, n=" || ".join(["n"] * times), note=" || ".join(["note"] * times))


def test_without_the_limits_a_text_does_grow_for_one_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that the tests here would see it: p0's text alone becomes longer than any may be."""
    sql = _aim("p0", 26).replace("> 5", "> 65536")
    with _open([*OTHERS, {**OWN[0], "note": "x" * 100}]) as dataset:
        with pytest.raises(QueryError, match="could become a text of 69,632 letters"):
            _measure(dataset, sql)
        for module in (texts, columns):
            monkeypatch.setattr(module, "require_short", lambda tree, schema, node: tree)
            monkeypatch.setattr(module, "limit_text", lambda tree, schema: tree)
        monkeypatch.setattr(planner, "_require_few_letters", lambda plan: None)
        assert _measure(dataset, sql) == [1.0]
        assert _measure(dataset, sql.replace("'p0'", "'p2'")) == [0.0]


# ---------------------------------------------------------------- how texts are cut

READ = [
    ("LENGTH(note) = 72000", 3),
    ("note LIKE '% x ' AND LENGTH(note) > 70000", 3),
    ("LENGTH(note || 'x') = 4097", 3),
    ("LENGTH(note || 'x') = 72001", 0),
    ("LENGTH(CONCAT(note, name, 'x')) = 4127", 3),  # name has max_length = 30
    ("name || '' = 'a é 😀 x a é 😀 x a é 😀 x a é 😀'", 0),
    ("RIGHT(name || '.', 5) = 'a é .'", 0),
    ("LEFT(name || '.', 8) = 'a é 😀 x '", 3),
    ("RIGHT(note, 3) || '.' = ' x .'", 3),  # its own letters are counted: the whole cell is read
    ("SUBSTR(note, 70000, 2) || '' <> ''", 3),
    ("LENGTH(UPPER(note) || '') = 4096", 3),
    ("LENGTH(TRIM(note)) = 4096", 0),  # the last of the first 4,096 letters is a blank
    ("LENGTH(REPLACE(note, 'é', 'e')) = 4096", 3),
    ("note ILIKE 'A%'", 3),
    ("REPLACE(note, ' ', '-') ILIKE '% %'", 0),
    ("CASE WHEN LENGTH(note) > 70000 THEN note ELSE 'a' END || '' = 'a'", 7),
    ("LENGTH(CASE WHEN LENGTH(note) > 70000 THEN note ELSE 'a' END || '') = 4096", 3),
    ("LENGTH(COALESCE(NULLIF(note, 'x'), 'y') || ward) = 4100", 3),
    ("ward || '.' = 'eyes.'", 10),
]


@pytest.mark.parametrize(("condition", "count"), READ)
def test_joined_texts_read_the_first_letters_and_tests_the_whole_cell(
    neighbours: tuple[Dataset, Dataset], condition: str, count: int
) -> None:
    assert _measure(neighbours[0], f"SELECT COUNT(*) FROM v WHERE {condition}") == [count]


@pytest.mark.parametrize(
    "stage",
    [
        "SELECT pid, MAX(note) AS t FROM v GROUP BY pid",
        "SELECT pid, note AS t FROM v GROUP BY pid, note",
        "SELECT DISTINCT pid, note AS t FROM v",
        "SELECT pid, FIRST_VALUE(note) OVER (PARTITION BY pid ORDER BY vid) AS t FROM v",
        "SELECT t, pid FROM (SELECT pid, MIN(note) AS t FROM v GROUP BY pid)",
    ],
)
def test_a_stage_hands_on_the_first_letters(neighbours: tuple[Dataset, Dataset], stage: str) -> None:
    long = "SELECT COUNT(*) FROM ({}) AS s WHERE pid = 'p0' AND LENGTH(t) {}"
    assert _measure(neighbours[0], long.format(stage, "= 4096"))[0] >= 1
    assert _measure(neighbours[0], long.format(stage, "> 4096")) == [0]
    columns = {**FACTS["columns"], "note": {"type": "text", "max_length": 50_000}}
    schema = read_schema({**FACTS, "columns": columns})
    with _open([*OTHERS, *OWN], schema) as dataset:
        assert _measure(dataset, long.format(stage, "= 50000"), schema)[0] >= 1


def test_values_that_are_told_apart_are_cut() -> None:
    """COUNT(DISTINCT …) would have an engine hold as much of somebody's cells as there are, for every aggregate."""
    alike = [{**OWN[0], "note": LONG + end} for end in "abc"]
    with _open([*OTHERS, *alike]) as dataset:
        assert _measure(dataset, "SELECT COUNT(DISTINCT note) FROM v") == [2]
        assert _measure(dataset, "SELECT COUNT(DISTINCT ward) FROM v") == [1]
    many = ", ".join(f"COUNT(DISTINCT note) FILTER (WHERE cost > {at})" for at in range(257))
    with pytest.raises(QueryError, match="letters of text for one row"):
        plan_query(f"SELECT {many} FROM v", SCHEMA)


def test_a_cell_that_was_not_declared_stays_different_from_declared_ones() -> None:
    with _open([{**OTHERS[0], "ward": "hands and feet"}, {**OTHERS[1], "ward": "hands and feet and more"}]) as dataset:
        grouped = "SELECT ward || '.' AS w, COUNT(*) FROM v GROUP BY w"
        plan = plan_query(grouped, SCHEMA)
        assert [group.values for group in plan.groups] == [("burns.", "eyes.", "hands and feet.")]
        assert _measure(dataset, grouped) == [0, 0, 1]


@pytest.mark.parametrize("wider", ["note", "SUBSTR(note, 1, 9000)", "UPPER(note)", "TRIM(note)"])
def test_what_can_be_too_long_is_refused_by_name(wider: str) -> None:
    longest = " || ".join([wider] * 16)  # 65,536 letters
    plan_query(f"SELECT COUNT(*) FROM v WHERE {longest} = 'x'", SCHEMA)  # is supported
    for sql in (
        f"SELECT COUNT(*) FROM v WHERE {longest} || 'x' = 'x'",
        f"SELECT COUNT(*) FROM (SELECT {longest} AS t, hiv FROM v) WHERE CONCAT(t, 'x') = 'x'",
        f"SELECT COUNT(*) FROM (SELECT pid, MAX({longest}) AS t FROM v GROUP BY pid) WHERE t || 'x' = 'x'",
        f"SELECT COUNT(*) FROM (SELECT *, LAG({longest}) OVER (PARTITION BY pid ORDER BY vid) AS t FROM v) AS s "
        "WHERE CASE WHEN hiv THEN t ELSE '' END || 'x' = 'x'",
    ):
        with pytest.raises(
            QueryError, match=r"could become a text of 65,537 letters; at most 65,536 .* LEFT\(x, 100\)"
        ):
            plan_query(sql, SCHEMA)


def test_all_texts_that_one_individual_can_make_are_limited() -> None:
    """300 texts of 4,096 letters are many for one row, and 60 are for somebody with a thousand rows."""
    windows = ", ".join(f"LAG(note, {at + 1}) OVER (PARTITION BY pid ORDER BY vid) AS t{at}" for at in range(300))
    sql = "SELECT COUNT(*) FROM (SELECT *, {} FROM v) AS s WHERE t0 = 'x'"
    with pytest.raises(QueryError, match=r"could make 1,228,800 letters of text for one row.*at most 1,048,576"):
        plan_query(sql.format(windows), SCHEMA)
    few = sql.format(", ".join(windows.split(", LAG")[0:1] + [f"LAG{each}" for each in windows.split(", LAG")[1:70]]))
    plan_query(few, SCHEMA)  # is supported
    with pytest.raises(QueryError, match="at most 67,108 are supported here"):
        plan_query(few, read_schema({**FACTS, "max_rows_per_unit": 1_000}))


# ---------------------------------------------------------------- digests


def _stages(levels: int, times: int, name: str = "n") -> str:
    query = f"SELECT pid, MAX(CONCAT({', '.join(['LEFT(note, 2)'] * times)})) AS {name} FROM v GROUP BY pid"
    for _ in range(levels):
        query = (
            f"SELECT pid, MAX(CONCAT({', '.join([f'LEFT({name}, 2)'] * times)})) AS {name} FROM ({query}) GROUP BY pid"
        )
    return f"SELECT COUNT(*) FROM ({query}) WHERE LENGTH({name}) > 5"


def test_a_digest_of_stages_is_not_written_out(digested: list[int]) -> None:
    """Thirty copies to the power of five levels were 24 million; names still do not count, and each level does."""
    plan = plan_query(_stages(4, 30), SCHEMA)
    assert not knows_earlier_looks(plan)
    first = digest_measured(plan)
    assert digested[0] < MOST_CHARACTERS
    assert digest_measured(plan_query(_stages(4, 30, "other"), SCHEMA)) == first
    for sql in (_stages(4, 29), _stages(3, 30), _stages(4, 30).replace("note, 2", "note, 1")):
        assert digest_measured(plan_query(sql, SCHEMA)) != first


def test_windows_over_windows_have_a_digest(digested: list[int]) -> None:
    query = "SELECT *, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY vid) AS r0 FROM v"
    for at in range(1, 10):
        query = f"SELECT *, SUM(r{at - 1}) OVER (PARTITION BY pid ORDER BY vid) AS r{at} FROM ({query}) AS t"
    digest_measured(plan_query(f"SELECT COUNT(*) FROM ({query}) AS t WHERE r9 > 1", SCHEMA))
    assert digested[0] < MOST_CHARACTERS


def test_a_query_whose_earlier_looks_cannot_be_found_counts_as_looked_at(ledger: Ledger) -> None:
    with _open(OTHERS) as dataset:
        for sql, looked in ((_stages(1, 3), False), (_stages(4, 30), True)):
            answer = dataset.release(sql, ledger=ledger, epsilon=0.1, policy="budget:1")
            assert ("was looked at before" in str(answer.guarantee)) is looked
            repeated = dataset.release(sql, ledger=ledger, epsilon=0.1)
            assert (repeated.entry, repeated.answer) == (answer.entry, answer.answer)
