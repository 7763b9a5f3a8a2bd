"""A summary: what is asked of each column, how the answer is read, and what is refused; by public facts alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dosimeter import Answer, Dataset, Fixed, Ledger, OptionError, QueryError, SchemaError, Summary
from dosimeter.schema import Column, ColumnType, read_schema
from dosimeter.summary import HEADINGS, Figure, list_cells, list_notes, write_summary
from tests.known import known
from tests.schemas import category, decimal, declare, plain, whole
from tests.unit.release_stays import EXACT, make_table, schema_of

VISITS: dict[str, Any] = declare(
    "visits",
    4,
    {
        "who": plain("text"),
        "visit": plain("integer"),
        "ward": category("A", "B", "(missing)"),
        "cost": decimal(0, 10, 0.5),
        "day": {"type": "date", "bounds": [date(2024, 1, 1), date(2024, 12, 31)]},
        "ill": plain("boolean"),
        "fixed": whole(3, 3),
        "free": plain("integer"),
        "code": {"type": "category", "values": ["x", "y"], "identifying": True},
        "note": plain("text"),
    },
    unit="who",
    max_rows_per_unit=2,
    row_key="visit",
)
ROWS = [
    ("ann", 1, "A", 1.0, date(2024, 1, 5), True, 3, 70, "x", "a"),
    ("ann", 2, "A", 2.0, date(2024, 1, 5), None, 3, 71, "x", None),
    ("ann", 3, "A", 2.0, date(2024, 1, 5), None, 3, 71, "x", None),  # one of her rows does not count
    ("bob", 4, None, 3.0, date(2024, 3, 1), False, 3, 72, "y", "b"),
    ("cleo", 5, "B", None, None, False, 3, None, "y", "c"),
    ("dan", 6, "Z", 9.5, date(2024, 12, 31), False, None, 73, None, ""),  # Z is not declared
    (None, 7, "B", 9.5, date(2024, 12, 31), True, 3, 74, "x", "d"),  # nobody's row
]
EXPECTED = {  # count, missing, values; ill and note depend on which of Ann's rows count
    "visit": (5, 0, []),
    "ward": (4, 1, [("(missing)", 0), ("A", 2), ("B", 1)]),
    "cost": (4, 1, []),
    "day": (4, 1, []),
    "fixed": (4, 1, []),
    "free": (4, 1, []),
    "code": (4, 1, []),
}
DAYS = [("2024-01-05", "2024-01-05"), ("2024-01-05", "2024-03-01"), ("2024-03-01", "2024-12-31")]


@pytest.fixture
def visits(shared_duckdb: None) -> Iterator[Dataset]:
    table = pa.table({name: [row[at] for row in ROWS] for at, name in enumerate(VISITS["columns"])})
    with Dataset.open(table, schema=VISITS, table="visits") as dataset:
        yield dataset


def test_rows_that_count_are_counted(visits: Dataset, ledger: Ledger) -> None:
    """Two of three of Ann's rows, none without a patient; undeclared values are counted, and are no value."""
    found = visits.summary(ledger, epsilon=EXACT, policy="budget:1e12")
    assert known(found.rows).value == 5
    assert [each.declared.name for each in found.columns] == [name for name in VISITS["columns"] if name != "who"]
    columns = {each.declared.name: each for each in found.columns}
    for name, (count, missing, values) in EXPECTED.items():
        column = columns[name]
        assert (name, column.count.value, column.missing.value) == (name, count, missing)
        assert sorted((text, figure.value) for text, figure in column.values) == values
    assert sorted(text for text, _ in columns["ill"].values) == ["false", "true"]
    assert [name for name, each in columns.items() if each.mean is not None] == ["cost"]
    assert [name for name, each in columns.items() if each.quartiles] == ["cost", "day"]
    days = columns["day"].quartiles  # a quartile is any day between those of two rows
    assert all(low <= str(each.value) <= high for each, (low, high) in zip(days, DAYS, strict=True))
    assert "At most 2 rows of each person count." in list_notes(found)[0]


def test_the_query_is_written_from_the_schema_alone() -> None:
    found = write_summary(read_schema(VISITS), ["cost", "ward", "ill", "note"])
    assert found == (
        "SELECT NULL AS column_name, NULL AS value, COUNT(*) AS n, NULL AS mean, NULL AS q1, NULL AS q2, NULL AS q3 "
        "FROM visits\n"
        "UNION ALL SELECT 'cost', NULL, COUNT(cost), AVG(cost), QUANTILE_DISC(cost, 0.25), QUANTILE_DISC(cost, 0.5), "
        "QUANTILE_DISC(cost, 0.75) FROM visits\n"
        "UNION ALL SELECT 'ward', COALESCE(ward, '((missing))'), COUNT(*), NULL, NULL, NULL, NULL FROM visits "
        "GROUP BY COALESCE(ward, '((missing))')\n"
        "UNION ALL SELECT 'ill', COALESCE(CAST(ill AS TEXT), '(missing)'), COUNT(*), NULL, NULL, NULL, NULL FROM "
        "visits GROUP BY COALESCE(CAST(ill AS TEXT), '(missing)')\n"
        "UNION ALL SELECT 'note', NULL, COUNT(note), NULL, NULL, NULL, NULL FROM visits"
    )


def test_every_number_has_the_same_share(visits: Dataset) -> None:
    """S5: the rows; ward's histogram; cost's count, its sum (AVG shares the count) and three ranks; note's count."""
    plan = visits.summary_query(columns=["ward", "cost", "note"]).plan
    assert len(plan.all_measures) == 1 + 1 + (1 + 1 + 3) + 1
    assert plan.shares == len(plan.all_measures)


def test_names_of_any_letters_are_summarised(tmp_path: Path) -> None:
    odd = "a \"b\" 'c'"
    schema = declare("my table", 3, {odd: category("it's", "ok"), "select": whole(0, 5)})
    table = pa.table({odd: ["it's", "ok", "ok"], "select": [1, 2, 3]})
    with Dataset.open(table, schema=schema, table="my table") as dataset, Ledger.open(tmp_path / "l.db") as ledger:
        found = dataset.summary(ledger, epsilon=EXACT, policy="budget:1e12")
    assert [(text, figure.value) for text, figure in found.columns[0].values] == [("ok", 2), ("it's", 1)]
    assert [figure.value for figure in found.columns[1].quartiles] == [1, 2, 3]
    assert "<b>" not in found._repr_html_()
    assert "it&#x27;s" in found._repr_html_()


# ---------------------------------------------------------------- errors


def test_a_difference_of_counts_has_the_error_of_two_noises(stays: Dataset, ledger: Ledger) -> None:
    """E1, by adding up the chances of two discrete Laplace noises: at most 5 % beyond the error, and no step lost."""
    found = stays.summary(ledger, epsilon=1.0, policy="budget:2")
    scale = len(stays.summary_query().plan.all_measures)
    steps = np.arange(-60 * scale, 60 * scale + 1)
    chances = np.exp(-np.abs(steps) / scale)
    chances /= chances.sum()
    both = np.convolve(chances, chances)
    sizes = np.abs(np.arange(len(both)) - len(both) // 2)
    numbers = next(each for each in found.columns if each.declared.name == "nights")
    values = next(each for each in found.columns if each.declared.name == "ward")
    for figure in (numbers.missing, values.count):
        error = known(figure.error)
        assert both[sizes > error].sum() <= 0.05 < both[sizes > 0.98 * error - 1].sum()
    for figure in (numbers.count, values.missing, known(found.rows)):
        assert chances[np.abs(steps) > known(figure.error)].sum() <= 0.05


def test_errors_of_quartiles_are_those_of_the_plain_query(stays: Dataset, ledger: Ledger) -> None:
    """E3: the same three quantiles at the ε that their share is."""
    found = stays.summary(ledger, epsilon=1000.0, policy="budget:2000")
    shares = len(stays.summary_query().plan.all_measures)
    nights = next(each for each in found.columns if each.declared.name == "nights")
    for share, figure in zip(("0.25", "0.5", "0.75"), nights.quartiles, strict=True):
        query = stays.query(f"SELECT QUANTILE_DISC(nights, {share}) AS q FROM stays")
        alone: dict[str, Any] = query.explain().describe()
        assert alone["stages"]["epsilons"][1] == 1.0
        at_one = alone["stages"]["measured"]["numbers"][0]["errors"]["laplace"][1]
        assert figure.error == pytest.approx(at_one * shares / 1000.0, rel=1e-6)


def test_too_few_people_are_said_in_words(stays: Dataset, ledger: Ledger) -> None:
    """30 stays at ε = 0.1: no quartile tells anything, however large the noisy count is."""
    found = stays.summary(ledger, epsilon=0.1, policy="budget:2")
    cells = {column.declared.name: list_cells(found, column) for column in found.columns}
    assert all(len(row) == len(HEADINGS) for row in cells.values())
    assert cells["nights"][4:7] == ("too few to tell",) * 3
    described = found.describe()
    assert described["columns"][1]["quartiles"] == [None] * 3  # type: ignore[index, call-overload]
    small = Summary("t", Answer("released", epsilon=1.0), Figure(9, 90.0), (replace(found.columns[0], values=()),))
    assert list_cells(small, small.columns[0])[-1] == "too few to tell"


@pytest.mark.parametrize(
    ("value", "error", "written"),
    [
        (32_564, 120.0, "32,560"),
        (32_564, 9.0, "32,564"),
        (-3, 120.0, "at most 120"),
        (44, 120.0, "at most 170"),
        (7, 0.0, "7"),
        (0, 1.0, "at most 1"),
        (7, None, "7"),
    ],
)
def test_a_count_has_the_digits_that_its_error_allows(value: int, error: float | None, written: str) -> None:
    from dosimeter.summary.layout import write_count

    assert write_count(Figure(value, error)) == written


# ---------------------------------------------------------------- JSON, tables, repeats


def test_json_is_pinned(stays: Dataset, ledger: Ledger) -> None:
    found = stays.summary(ledger, epsilon=EXACT, columns=["nights", "ward", "day"], policy="budget:1e12")
    document = found.describe()
    about, guarantee = document.pop("about"), document.pop("guarantee")
    assert isinstance(about, list)
    assert str(guarantee).startswith("This answer is ")
    columns = document.pop("columns")
    assert isinstance(columns, list)
    nights, ward, day = columns
    assert document == {"status": "released", "table": "stays", "rows": 30, "rows_error": 0.0, "epsilon": EXACT}
    assert nights["quartile_rank_errors"] == [pytest.approx(0, abs=1e-6)] * 3
    assert nights == {
        "column": "nights", "type": "integer", "count": 30, "count_error": 0.0, "missing": 0, "missing_error": 1.0,
        "mean": pytest.approx(4.5), "mean_error": pytest.approx(0, abs=1e-3), "quartiles": nights["quartiles"],
        "quartile_rank_errors": nights["quartile_rank_errors"], "values": None,
    }  # fmt: skip
    assert nights["quartiles"][0] == 2
    assert nights["quartiles"][1] in (4, 5)
    assert nights["quartiles"][2] == 7
    assert ward["mean"] is ward["quartiles"] is ward["mean_error"] is ward["quartile_rank_errors"] is None
    assert ward["values"][0] == {"value": "burns", "count": 10, "error": 0.0}
    assert ward["values"][3] == {"value": "nobody", "count": 0, "error": 0.0}
    assert day["quartiles"][0] == "2026-01-01"
    assert day["quartiles"][2] == "2026-01-02"


def test_the_table_has_a_row_for_each_column(stays: Dataset, ledger: Ledger) -> None:
    found = stays.summary(ledger, epsilon=EXACT, policy="budget:1e12")
    table = found.to_arrow()
    assert table.num_rows == 5
    rows = {row["column"]: row for row in table.to_pylist()}
    assert rows["day"]["q3_day"] == date(2026, 1, 2)
    assert rows["day"]["q3"] is None
    assert rows["ward"]["most_frequent_count"] == 10
    assert found.to_pandas().shape == (5, table.num_columns)
    assert found.to_polars().columns == table.column_names
    assert table.schema == found.to_arrow().schema


def test_it_is_one_entry_and_repeated_for_nothing(stays: Dataset, ledger: Ledger) -> None:
    first = stays.summary(ledger, epsilon=0.5, policy="budget:1")
    again = stays.summary(ledger, epsilon=0.5)
    assert again.describe() == first.describe()
    assert again.answer.repeated
    account = known(ledger.account("stays"))
    assert len(account.entries) == 1
    assert float(account.entries[0].charge) == 0.5
    denied = stays.summary(ledger, epsilon=0.6)
    assert denied.describe() == {"status": "denied"}
    assert denied.columns == ()
    assert denied._repr_html_() == "<p>Denied.</p>"
    with pytest.raises(OptionError, match="was denied"):
        denied.to_arrow()
    with pytest.raises(OptionError, match="Only a released summary"):
        denied.save("x.csv", ledger=ledger)


def test_its_query_is_looked_at_like_any_other(stays: Dataset, ledger: Ledger) -> None:
    query = stays.summary_query()
    risk = query.risk()
    assert risk.sensitivities.counts.sum() == 30
    assert risk.rdr(1.0).values.max() > 0
    run = query.dry_run(ledger, Fixed(1.0), policy="budget:2").describe()
    assert (run["granted"], run["epsilon"]) == (True, 1.0)
    assert ledger.account("stays") is None


def test_without_epsilon_errors_are_withheld(stays: Dataset, ledger: Ledger) -> None:
    """An account of algorithm 1 answers a summary, too: its numbers have no errors."""
    from dosimeter import Preferred
    from dosimeter.planning import build_mechanism
    from dosimeter.summary import read_summary

    query = stays.summary_query()
    answer = query.release(ledger, Preferred("ratio:0.01"), policy="paper")
    found = read_summary(query.plan, build_mechanism(query.look, stays.n), answer)
    assert answer.status == "released"
    assert known(found.rows).error is None
    assert all(column.count.error is None and column.missing.error is None for column in found.columns)
    assert "How far off the numbers are is withheld: it would tell ε." in list_notes(found)
    assert [list_cells(found, column)[0] for column in found.columns] == [*schema_of()["columns"]]


def test_a_small_group_elsewhere_makes_no_median_worthless(shared_duckdb: None, ledger: Ledger) -> None:
    """200 people in 100 categories: a median is over all of them, and at ε = 1 off by 56 rows at most."""
    columns = {"kind": category(*[f"k{at}" for at in range(100)]), "x": whole(0, 9)}
    table = pa.table({"kind": [f"k{at % 100}" for at in range(200)], "x": [at % 10 for at in range(200)]})
    with Dataset.open(table, schema=declare("t", 200, columns), table="t") as dataset:
        run = {each: dataset.summary_query().dry_run(ledger, Fixed(each), policy="budget:9") for each in (1.0, 0.1)}
    told: dict[float, Any] = {each: found.describe()["findings"] for each, found in run.items()}
    kinds = {each: {found["kind"] for found in findings} for each, findings in told.items()}
    assert "any_value" not in kinds[1.0]
    assert "any_value" in kinds[0.1]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["nights", "wards"], "has no column wards"),
        ([""], r"has no column \(empty\)"),
        (["ward", "ward"], "names a column twice"),
        ([], "no column to summarise"),
    ],
)
def test_columns_that_cannot_be_chosen_are_refused(stays: Dataset, columns: list[str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        stays.summary_query(columns=columns)


def test_too_many_columns_are_refused_by_public_facts() -> None:
    schema = read_schema(declare("wide", 9, {f"c{at}": plain("text") for at in range(256)}))
    with pytest.raises(OptionError, match=r"at most 255 columns; wide has 256. Choose some: columns=a,b"):
        write_summary(schema)
    assert write_summary(schema, [f"c{at}" for at in range(255)]).count("SELECT") == 256


def test_what_has_no_room_names_the_way_out() -> None:
    schema = declare("t", 9, {"large": whole(0, 2**62 - 1)})
    with (
        Dataset.open(pa.table({"large": [1, 2]}), schema=schema, table="t") as dataset,
        pytest.raises(
            QueryError, match=r"too large to count exactly.*Or leave columns out of the summary: columns=a,b\."
        ),
    ):
        dataset.summary_query()


def test_a_summary_needs_a_reviewed_schema(stays: Dataset, ledger: Ledger) -> None:
    with Dataset.open(make_table()) as drafted, pytest.raises(SchemaError, match="Open it with one"):
        drafted.summary(ledger, epsilon=1.0, policy="budget:2")
    with Dataset.open(make_table(), schema=schema_of(reviewed=False), table="stays") as unsure:
        assert unsure.summary_query().risk().sensitivities.counts.sum() == 30
        with pytest.raises(SchemaError, match="reviewed"):
            unsure.summary(ledger, epsilon=1.0, policy="budget:2")


def test_two_hundred_columns_are_one_answer(shared_duckdb: None, ledger: Ledger) -> None:
    """Numbers, categories and texts; every count is the table's own."""
    kinds = [whole(0, 9), category("a", "b", "c"), plain("text"), decimal(0, 1, 0.1)]
    columns = {f"c{at}": kinds[at % 4] for at in range(200)}
    cells: list[list[Any]] = [[at % 10 for at in range(40)], ["a", "b"] * 20, ["x", None] * 20, [0.5] * 40]
    table = pa.table({f"c{at}": cells[at % 4] for at in range(200)})
    with Dataset.open(table, schema=declare("wide", 40, columns), table="wide") as dataset:
        found = dataset.summary(ledger, epsilon=EXACT, policy="budget:1e12")
    counts = [(each.count.value, each.missing.value) for each in found.columns]
    assert counts == [(40, 0), (40, 0), (20, 20), (40, 0)] * 50
    assert [figure.value for _, figure in found.columns[1].values] == [20, 20, 0]
    assert known(found.columns[3].mean).value == pytest.approx(0.5)
    assert len(known(ledger.account("wide")).entries) == 1


def test_a_number_without_a_row_shows_as_untold() -> None:
    from dosimeter.summary import ColumnSummary

    column = Column("x", ColumnType.INTEGER, bounds=(known(1), known(9)))  # type: ignore[arg-type]
    figures = tuple(Figure(None, 9.0) for _ in range(3))
    told = ColumnSummary(column, Figure(3, 9.0), Figure(0, 9.0), Figure(None, None), figures)
    summary = Summary("t", Answer("released", epsilon=1.0), Figure(3, 9.0), (told,))
    assert list_cells(summary, told)[3:7] == ("too few to tell",) * 4
    assert replace(summary, columns=()).columns == ()
