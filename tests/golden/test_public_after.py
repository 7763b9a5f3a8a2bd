"""Public tables joined to released numbers: without noise the plain engine's answer, and no more rows than before.

The other road: DuckDB runs the analyst's SQL on the private and the public tables themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dosimeter import Dataset, Ledger, QueryError, SchemaError
from dosimeter.engines.duckdb import DuckDBEngine
from dosimeter.planning import plan_query, selects_rows
from dosimeter.postprocess import Noise, answers, assemble_answer, assemble_groups, foresee_accuracy
from dosimeter.schema.toml import parse_schema
from tests.golden.test_after_hostile import fail
from tests.golden.test_analyst_queries import is_same
from tests.shared_duckdb import ask_plain_duckdb

SCHEMA = parse_schema(
    """
table = "stays"
individuals = 60
reviewed = true
[columns]
stay = { type = "integer", identifying = true }
ward = { type = "category", values = ["a", "b", "c", "d"], nulls = true }
day = { type = "date", bounds = [2024-03-01, 2024-03-04] }
urgent = { type = "boolean" }
dose = { type = "decimal", bounds = [0, 0.4], resolution = 0.1 }
hours = { type = "integer", bounds = [0, 20] }
[tables.wards]
public = true
key = "ward"
columns.ward = { type = "text" }
columns.name = { type = "text" }
columns.beds = { type = "integer" }
columns.house = { type = "integer" }
columns.rent = { type = "decimal" }
[tables.houses]
public = true
key = "house"
columns.house = { type = "integer" }
columns.city = { type = "text" }
[tables.days]
public = true
key = "day"
columns.day = { type = "date" }
columns.feast = { type = "boolean" }
[tables.doses]
public = true
key = "dose"
columns.dose = { type = "decimal" }
columns.words = { type = "text" }
[tables.labs]
unit = "stay"
max_rows_per_unit = 2
row_key = "lab"
columns.stay = { type = "integer" }
columns.lab = { type = "integer" }
"""
)
STAYS = pa.table(
    {
        "stay": range(60),
        "ward": ["a"] * 5 + ["b"] * 9 + ["c"] * 12 + ["d"] * 15 + [None] * 19,
        "day": [date(2024, 3, 1 + at % 4) for at in range(60)],
        "urgent": [at % 3 == 0 for at in range(60)],
        "dose": [round(at % 5 / 10, 1) for at in range(60)],
        "hours": [at % 21 for at in range(60)],
    }
)
PUBLIC = {
    "wards": pa.table(  # no d; one row without a key; beds of one are not known
        {
            "ward": ["a", "b", "c", "x", None],
            "name": ["Ännchen", "O'Brien", "", "nowhere", "lost"],
            "beds": [4, 3, None, 2, 1],
            "house": [1, 2, 1, 9, 1],
            "rent": [0.1, 2.5, 1e6, 0.0, 0.0],
        }
    ),
    "houses": pa.table({"house": [1, 2], "city": ["Bonn", None]}),
    "days": pa.table({"day": [date(2024, 3, 1), date(2024, 3, 3)], "feast": [True, False]}),
    "doses": pa.table({"dose": [0.1, 0.3], "words": ["little", "much"]}),
}
BY_WARD = "(SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward)"
QUERIES = [
    f"SELECT w.name, g.n, g.n / w.beds AS per_bed FROM {BY_WARD} g JOIN wards w USING (ward) ORDER BY g.ward",
    f"SELECT g.ward, w.name, g.n * w.rent AS paid, w.ward IS NULL AS unknown FROM {BY_WARD} g "
    "LEFT JOIN wards w ON w.ward = g.ward ORDER BY g.ward",
    f"WITH g AS {BY_WARD} SELECT house, SUM(n) AS n, SUM(n * 1.0) / SUM(beds) AS load FROM g JOIN wards w "
    "ON g.ward = w.ward GROUP BY house HAVING SUM(n) > 1 ORDER BY house",
    f"WITH g AS {BY_WARD} SELECT h.city, w.name, n FROM g JOIN wards w ON g.ward = w.ward LEFT JOIN houses h "
    "ON w.house = h.house ORDER BY n, w.name",
    f"SELECT w.name, n FROM wards w, {BY_WARD} g WHERE w.ward = g.ward AND w.beds >= 3 ORDER BY w.name",
    f"SELECT w.name, g.n FROM wards w INNER JOIN {BY_WARD} g USING (ward) ORDER BY 1",
    f"SELECT * FROM {BY_WARD} g JOIN wards USING (ward) ORDER BY ward",
    "SELECT g.day, feast, n FROM (SELECT day, COUNT(*) AS n FROM stays GROUP BY day) g LEFT JOIN days "
    "ON g.day = days.day ORDER BY g.day",
    "SELECT d.words, g.n FROM (SELECT dose, COUNT(*) AS n FROM stays GROUP BY dose) g JOIN doses d "
    "ON g.dose = d.dose ORDER BY 1",
    "SELECT w.name, g.ward, g.urgent, g.n FROM (SELECT ward, urgent, COUNT(*) AS n FROM stays "
    "GROUP BY ROLLUP (ward, urgent)) g LEFT JOIN wards w USING (ward) ORDER BY 2, 3, 4",
    f"SELECT w.name, g.n FROM {BY_WARD} g JOIN wards w USING (ward) UNION ALL SELECT 'all', COUNT(*) FROM stays "
    "ORDER BY n",
    "SELECT w.name, 1.0 * g.h / t.h AS share FROM (SELECT ward, SUM(hours) AS h FROM stays GROUP BY ward) g "
    "CROSS JOIN (SELECT SUM(hours) AS h FROM stays) t JOIN wards w ON g.ward = w.ward ORDER BY 1",
    f"SELECT name, n, RANK() OVER (PARTITION BY house ORDER BY n DESC) AS r FROM (SELECT w.name, w.house, g.n FROM "
    f"{BY_WARD} g JOIN wards w USING (ward)) t ORDER BY name",
    f"SELECT w.name, g.n, g.n * 100.0 / (SELECT SUM(n * beds) FROM {BY_WARD} v JOIN wards USING (ward)) AS part FROM "
    f"{BY_WARD} g JOIN wards w USING (ward) WHERE UPPER(w.name) <> '' ORDER BY g.n",
    f"SELECT a.name, b.name AS other, g.n FROM {BY_WARD} g JOIN wards a ON g.ward = a.ward JOIN wards b "
    "ON a.ward = b.ward ORDER BY 1",
]


@pytest.fixture
def stays() -> Iterator[Dataset]:
    with Dataset.open(STAYS, schema=SCHEMA, table="stays", tables=PUBLIC) as dataset:
        yield dataset


def ask_plainly(sql: str) -> list[dict[str, Any]]:
    with ask_plain_duckdb(stays=STAYS, **PUBLIC) as plain:
        names = [column[0] for column in plain.execute(sql).description or ()]
        return [dict(zip(names, row, strict=True)) for row in plain.fetchall()]


@pytest.mark.parametrize("sql", QUERIES, ids=lambda sql: sql[:70])
def test_without_noise_the_answer_is_the_plain_engines(stays: Dataset, sql: str) -> None:
    risk = stays.risk(sql)
    measured = risk.measured()
    further = [(block.keys, block.values) for block in measured.further]
    found = assemble_answer(risk.plan, measured.keys, measured.values, further=further)
    rows = found.rows
    if risk.plan.after.traced:
        rows = [row for row, cell in zip(rows, found.released, strict=True) if any(cell.measured)]
    wanted = ask_plainly(sql)
    assert not found.failed
    assert wanted
    assert [list(row) for row in rows] == [list(row) for row in wanted]
    for got, meant in zip(rows, wanted, strict=True):
        assert all(is_same(got[name], meant[name]) for name in meant), (got, meant)
    if risk.plan.after.traced and not further and not risk.plan.sets:  # errors are of what the join gave
        own = dict(zip(measured.keys, assemble_groups(risk.plan, measured.keys, measured.values), strict=True))
        for row, cell in zip(found.rows, found.released, strict=True):
            assert all(is_same(value, row[name]) for name, value in own[cell.key].items())


def test_groups_nobody_declared_pick_public_rows_too(stays: Dataset, tmp_path: Path) -> None:
    sql = (
        "SELECT w.name, g.n, g.n * w.rent AS paid FROM (SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward) g JOIN "
        "wards w USING (ward) ORDER BY g.ward"
    )
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        answer = stays.release(
            sql, ledger=ledger, epsilon=50.0, policy="budget:100", groups="thresholded", group_delta=1e-6
        )
    rows, errors = answer.answer or [], answer.errors or ()
    assert [(row["name"], row["n"]) for row in rows] == [("Ännchen", 5), ("O'Brien", 9), ("", 12)]
    assert all(own["paid"] is not None for own in errors)


def test_arithmetic_with_a_public_number_keeps_its_error(stays: Dataset, tmp_path: Path) -> None:
    """A number that is divided by 4 has a quarter of the error; a name has none, and is no number."""
    sql = (
        "SELECT w.name, g.h, g.h / w.beds AS per_bed, w.rent * g.h AS paid, GREATEST(g.h, w.beds) AS most FROM "
        f"{BY_WARD} g LEFT JOIN wards w USING (ward) ORDER BY g.ward"
    )
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        answer = stays.release(sql, ledger=ledger, epsilon=0.5, policy="budget:100")
    rows, errors = answer.answer or [], answer.errors or ()
    assert [row["name"] for row in rows] == ["Ännchen", "O'Brien", "", None, None]
    for own, beds, rent in zip(errors, (4, 3, None, None, None), (0.1, 2.5, 1e6, None, None), strict=True):
        assert set(own) == {"h", "per_bed", "paid", "most"}
        assert own["h"] is not None
        assert own["h"] > 50.0
        assert own["per_bed"] == (None if beds is None else pytest.approx(own["h"] / beds, rel=0.05))
        assert own["paid"] == (None if rent is None else pytest.approx(own["h"] * rent, rel=0.05))
    assert answer.error_95 is not None
    assert len(answer.error_95) == 4
    risk = stays.risk(sql)
    numbers = [(risk.measured().keys, risk.measured().values)]
    scale = risk.noise_scale(0.5)
    foreseen = {each.column: each for each in foresee_accuracy(risk.plan, risk.mechanism, [scale], numbers)[0]}
    assert foreseen["per_bed"].worst == pytest.approx((errors[0]["h"] or 0.0) / 3, rel=0.05)


@pytest.mark.parametrize(
    "formula",
    ["h / (n + {beds})", "{beds} * h - n / {beds}", "GREATEST(h, 40 * {beds})", "h / (n - {beds})", "{beds} / n"],
)
def test_errors_are_those_of_the_number_written_in_its_place(stays: Dataset, formula: str) -> None:
    public, written = formula.format(beds="w.beds"), formula.format(beds="4.0")
    joined = stays.risk(f"SELECT {public} AS x FROM {BY_WARD} g LEFT JOIN wards w USING (ward) ORDER BY g.ward")
    plain = stays.risk(f"SELECT {written} AS x FROM {BY_WARD} g ORDER BY g.ward")
    answers = []
    for risk, plan in ((joined, joined.plan), (plain, plain.plan)):
        noise = Noise.of(plan, risk.mechanism, risk.noise_scale(3.0))
        answers.append(assemble_answer(plan, risk.measured().keys, risk.measured().values, noise=noise))
    (found, *_), (meant, *_) = (answer.errors or () for answer in answers)
    assert found == pytest.approx(meant)
    assert answers[0].rows[0] == pytest.approx(answers[1].rows[0])


def test_a_public_condition_chooses_no_rows_by_noise() -> None:
    by_name = f"SELECT g.n FROM {BY_WARD} g JOIN wards w USING (ward) WHERE w.beds > 3"
    by_load = f"SELECT g.n FROM {BY_WARD} g JOIN wards w USING (ward) WHERE g.n / w.beds > 3"
    assert not selects_rows(plan_query(by_name, SCHEMA).after.query)
    assert selects_rows(plan_query(by_load, SCHEMA).after.query)


def test_the_plan_names_what_it_reads_and_explain_says_so(stays: Dataset) -> None:
    sql = f"SELECT w.name, g.n FROM {BY_WARD} g JOIN wards w USING (ward)"
    plan = plan_query(sql, SCHEMA)
    assert [(each.table.name, each.columns, each.rows) for each in plan.after.public] == [
        ("wards", ("ward", "name"), None)
    ]
    assert "a join with the public table wards" in stays.explain(sql).stages.after


REFUSED = [
    (f"SELECT n FROM {BY_WARD} g CROSS JOIN wards", "only JOIN and LEFT JOIN can add a public table"),
    (f"SELECT n FROM {BY_WARD} g, wards", "on one column = one column"),
    (f"SELECT n FROM {BY_WARD} g RIGHT JOIN wards USING (ward)", "only JOIN and LEFT JOIN"),
    (f"SELECT n FROM {BY_WARD} g NATURAL JOIN wards", "only JOIN and LEFT JOIN"),
    (f"SELECT n FROM {BY_WARD} g JOIN wards w ON g.ward = w.name", "name is not the key of wards"),
    (f"SELECT n FROM {BY_WARD} g JOIN wards w ON g.n = w.house", "house is not the key of wards"),
    (f"SELECT n FROM {BY_WARD} g JOIN houses ON g.n = houses.house", "neither a column of the GROUP BY"),
    (f"SELECT n FROM {BY_WARD} g JOIN houses ON g.ward = houses.house", "cannot be equal"),
    (f"SELECT n FROM {BY_WARD} g JOIN wards w ON g.ward = w.ward OR w.beds > 0", "on one column = one column"),
    (f"SELECT n FROM {BY_WARD} g JOIN wards w ON g.ward = w.ward AND n > 2", "other conditions stand in WHERE"),
    (f"SELECT n FROM wards LEFT JOIN {BY_WARD} g USING (ward)", "cannot come first"),
    (f"SELECT w.secret FROM {BY_WARD} g JOIN wards w USING (ward)", "no column w.secret"),
    (f"SELECT n FROM {BY_WARD} g JOIN wards AS w(x, y) ON g.ward = w.ward", "not supported"),
    (f"SELECT n FROM {BY_WARD} g JOIN stays USING (ward)", "gives rows beside a grouped query"),
    (f"SELECT n FROM {BY_WARD} g JOIN labs ON g.n = labs.stay", "gives rows beside a grouped query"),
    (f"SELECT n FROM {BY_WARD} g JOIN public0 USING (ward)", "gives rows beside a grouped query"),
    (f"SELECT n FROM {BY_WARD} g JOIN released USING (ward)", "gives rows beside a grouped query"),
    (f"SELECT n FROM {BY_WARD} g JOIN (SELECT * FROM wards) w USING (ward)", "Join the table itself"),
]


@pytest.mark.parametrize(("sql", "words"), REFUSED, ids=lambda text: text[-60:])
def test_joins_that_could_multiply_rows_or_read_people_are_refused(sql: str, words: str) -> None:
    with pytest.raises(QueryError) as refused:
        plan_query(sql, SCHEMA)
    assert words in str(refused.value)


def test_after_the_noise_no_engine_with_data_is_asked(
    stays: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public tables are read before the charge: then every connection that holds data is poisoned."""
    assemble = answers.assemble_answer

    def poisoned(*given: Any, **named: Any) -> Any:
        with monkeypatch.context() as inside:
            for name in ("fetch", "fetch_few", "relation", "joined"):
                inside.setattr(DuckDBEngine, name, fail)
            return assemble(*given, **named)

    monkeypatch.setattr("dosimeter.release.run.assemble_answer", poisoned)
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        answer = stays.release(QUERIES[0], ledger=ledger, epsilon=50.0, policy="budget:100")
    assert [row["name"] for row in answer.answer or ()] == ["Ännchen", "O'Brien", ""]


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        ({"ward": [f"w{at}" for at in range(200_000)], "name": ["x"] * 200_000}, QueryError, "more than 100,000 rows"),
        ({"ward": ["a", "a"], "name": ["x", "y"]}, SchemaError, "not unique"),
        ({"ward": ["a"], "name": ["x" * 1000]}, QueryError, "more than 256 characters"),
    ],
    ids=["large", "repeated", "long"],
)
def test_a_table_that_cannot_be_joined_is_refused_before_the_charge(
    tmp_path: Path, rows: dict[str, list[str]], error: type[Exception], words: str
) -> None:
    nothing = pa.nulls(len(rows["ward"]), pa.int64())
    wards = pa.table({**rows, "beds": nothing, "house": nothing, "rent": nothing.cast(pa.float64())})
    sql = f"SELECT w.name, n FROM {BY_WARD} g JOIN wards w USING (ward)"
    tables = {**PUBLIC, "wards": wards}
    opened = Dataset.open(STAYS, schema=SCHEMA, table="stays", tables=tables)
    with opened as dataset, Ledger.open(tmp_path / "ledger.db") as ledger:
        for ask in (dataset.release, dataset.dry_run):
            with pytest.raises(error, match=words):
                ask(sql, ledger=ledger, epsilon=1.0, policy="budget:1")
        assert ledger.accounts() == ()


def test_another_public_table_is_another_request(tmp_path: Path) -> None:
    """The same content is answered from the ledger, another one is a change of the data, and charged anew."""
    sql = f"SELECT w.name, n FROM {BY_WARD} g JOIN wards w USING (ward) ORDER BY n"
    other = PUBLIC["wards"].set_column(1, "name", pa.array(["A", "B", "C", "X", "Y"]))
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        with Dataset.open(STAYS, schema=SCHEMA, table="stays", tables=PUBLIC) as dataset:
            first = dataset.release(sql, ledger=ledger, epsilon=1.0, policy="budget:10")
            again = dataset.release(sql, ledger=ledger, epsilon=1.0)
            clamped = dataset.release(sql, ledger=ledger, epsilon=1.0, clamp=True)
            assert dataset.dry_run(sql, ledger=ledger, epsilon=1.0).repeated
        with Dataset.open(STAYS, schema=SCHEMA, table="stays", tables={**PUBLIC, "wards": other}) as dataset:
            changed = dataset.release(sql, ledger=ledger, epsilon=1.0, continued=True)
    assert again.repeated
    assert clamped.repeated
    assert again.answer == first.answer
    names = [row["name"] for row in first.answer or ()]
    assert [row["name"] for row in clamped.answer or ()] == names
    assert not changed.repeated
    assert {row["name"] for row in changed.answer or ()} == {"A", "B", "C"}
