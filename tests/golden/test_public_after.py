"""Public tables joined to released numbers: without noise the plain engine's answer, and no more rows than before.

The other road: DuckDB runs the analyst's SQL on the private and the public tables themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from dosimeter import Dataset, Ledger, QueryError, SchemaError
from dosimeter.planning import plan_query, selects_rows
from dosimeter.postprocess import Noise, assemble_answer, assemble_groups, foresee_accuracy
from tests.corpus.plain_answers import answer_without_noise, is_same
from tests.corpus.reading import answered
from tests.corpus.tables import find_source
from tests.golden.test_after_hostile import poison_engines

SOURCE = find_source("stays")
SCHEMA, STAYS, PUBLIC = SOURCE.schema, SOURCE.rows, SOURCE.others
BY_WARD = "(SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward)"


@pytest.fixture
def stays() -> Iterator[Dataset]:
    with SOURCE.open() as dataset:
        yield dataset


def test_errors_are_of_what_the_join_gave(stays: Dataset) -> None:
    """Each released row carries the numbers of its group, whatever the join did with them."""
    compared = 0
    for entry in answered("stays"):
        risk = stays.risk(entry.sql)
        if risk.plan.after.traced and not risk.plan.further and not risk.plan.sets:
            found, _ = answer_without_noise(risk)
            keys, values = risk.measured().keys, risk.measured().values
            own = dict(zip(keys, assemble_groups(risk.plan, keys, values), strict=True))
            for row, cell in zip(found.rows, found.released, strict=True):
                assert all(is_same(value, row[name]) for name, value in own[cell.key].items() if name in row), entry
            compared += 1
    assert compared > 5


def test_groups_nobody_declared_pick_public_rows_too(stays: Dataset, ledger: Ledger) -> None:
    sql = (
        "SELECT w.name, g.n, g.n * w.rent AS paid FROM (SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward) g JOIN "
        "wards w USING (ward) ORDER BY g.ward"
    )
    answer = stays.release(
        sql, ledger=ledger, epsilon=50.0, policy="budget:100", groups="thresholded", group_delta=1e-6
    )
    rows, errors = answer.answer or [], answer.errors or ()
    assert [(row["name"], row["n"]) for row in rows] == [("Ännchen", 5), ("O'Brien", 9), ("", 12)]
    assert all(own["paid"] is not None for own in errors)


def test_arithmetic_with_a_public_number_keeps_its_error(stays: Dataset, ledger: Ledger) -> None:
    sql = (
        "SELECT w.name, g.h, g.h / w.beds AS per_bed, GREATEST(g.h, w.beds) AS most FROM "
        f"{BY_WARD} g LEFT JOIN wards w USING (ward) ORDER BY g.ward"
    )
    answer = stays.release(sql, ledger=ledger, epsilon=0.5, policy="budget:100")
    errors = answer.errors or ()
    assert [row["name"] for row in answer.answer or []] == ["Ännchen", "O'Brien", "", None, None]
    assert [own["per_bed"] is None for own in errors] == [False, False, True, True, True]
    assert all(set(own) == {"h", "per_bed", "most"} and (own["h"] or 0.0) > 50.0 for own in errors)
    risk = stays.risk(sql)
    numbers = [(risk.measured().keys, risk.measured().values)]
    foreseen = foresee_accuracy(risk.plan, risk.mechanism, [risk.noise_scale(0.5)], numbers)[0]
    assert foreseen[1].worst == pytest.approx((errors[0]["h"] or 0.0) / 3, rel=0.05)


@pytest.mark.parametrize(
    "formula", ["h / {beds}", "h / (n + {beds})", "{beds} * h - n / {beds}", "GREATEST(h, 40 * {beds})", "{beds} / n"]
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


def test_after_the_noise_no_engine_with_data_is_asked(
    stays: Dataset, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public tables are read before the charge: then every connection that holds data is poisoned."""
    poison_engines(monkeypatch)
    answer = stays.release(answered("stays")[0].sql, ledger=ledger, epsilon=50.0, policy="budget:100")
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
    ledger: Ledger, rows: dict[str, list[str]], error: type[Exception], words: str
) -> None:
    nothing = pa.nulls(len(rows["ward"]), pa.int64())
    wards = pa.table({**rows, "beds": nothing, "house": nothing, "rent": nothing.cast(pa.float64())})
    sql = f"SELECT w.name, n FROM {BY_WARD} g JOIN wards w USING (ward)"
    tables = {**PUBLIC, "wards": wards}
    opened = Dataset.open(STAYS, schema=SCHEMA, table="stays", tables=tables)
    with opened as dataset:
        for ask in (dataset.release, dataset.dry_run):
            with pytest.raises(error, match=words):
                ask(sql, ledger=ledger, epsilon=1.0, policy="budget:1")
        assert ledger.accounts() == ()


def test_another_public_table_is_another_request(ledger: Ledger) -> None:
    """The same content is answered from the ledger, another one is a change of the data, and charged anew."""
    sql = f"SELECT w.name, n FROM {BY_WARD} g JOIN wards w USING (ward) ORDER BY n"
    other = PUBLIC["wards"].set_column(1, "name", pa.array(["A", "B", "C", "X", "Y"]))
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
