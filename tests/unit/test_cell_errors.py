"""Each released cell has its own error, and a quotient by too few people is NULL wherever it stands (E1, E2)."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dosimeter import Dataset, Ledger, OptionError
from dosimeter.mechanisms import Gaussian, Laplace
from dosimeter.planning import selects_rows
from dosimeter.postprocess import Noise, assemble_answer, find_counts, foresee_accuracy, list_facts, word_facts
from dosimeter.postprocess.cell_errors import count_selectable
from tests.unit.release_stays import WARDS, account_of, rows_of

GROUPED = "SELECT ward, COUNT(*) AS n, SUM(nights) AS s FROM stays GROUP BY ward"


def assemble(stays: Dataset, sql: str, counts: list[int], *, epsilon: float = 1.0) -> Any:
    """Return the answer of noisy numbers: every measure of a ward is its count."""
    plan, laplace = stays.plan(sql), Laplace()
    assert plan.group_keys is not None
    noise = Noise.of(plan, laplace, laplace.scale(plan.sensitivity(1), epsilon))
    values = [[Fraction(count)] * len(plan.measures) for count in counts]
    return assemble_answer(plan, plan.group_keys, values, noise=noise)


def test_an_average_of_one_person_with_a_negative_count_is_not_told(stays: Dataset) -> None:
    found = assemble(stays, "SELECT AVG(nights) AS a FROM stays", [-14], epsilon=0.1)
    assert (found.rows, found.errors, found.has_too_few) == ([{"a": None}], ({"a": None},), True)


@pytest.mark.parametrize(
    ("sql", "least"),
    [
        ("SELECT AVG(nights) AS a FROM stays", 6.0),  # two measures: b = 2, three scales, 95 % error 5 or 6
        ("SELECT STDDEV_POP(nights) AS a FROM stays", 9.0),
        ("SELECT SUM(nights) / COUNT(*) AS a FROM stays", 6.0),
        ("SELECT SUM(nights) / (COUNT(*) + 0) AS a FROM stays", 6.0),
        ("SELECT a FROM (SELECT SUM(nights) / COUNT(*) AS a FROM stays) t", 6.0),
        ("SELECT s / n AS a FROM (SELECT SUM(nights) AS s, COUNT(*) AS n FROM stays) t", 6.0),
    ],
)
def test_a_quotient_is_told_from_three_noise_scales_on(stays: Dataset, sql: str, least: float) -> None:
    for count in range(40):
        (row,) = assemble(stays, sql, [count]).rows
        assert (row["a"] is not None) == (count > least) or math.isclose(count, least, rel_tol=0.1)


def test_a_sum_of_whole_numbers_is_no_count(stays: Dataset) -> None:
    """Bounds may be negative: a sum far below 0 is no noise, and can be divided by."""
    sql = "SELECT SUM(nights - 9) AS s, COUNT(*) / SUM(nights - 9) AS q FROM stays"
    plan = stays.plan(sql)
    found = assemble(stays, sql, [-5000])
    (row,) = found.rows
    assert row == {"s": -5000, "q": 1.0}
    assert find_counts(plan) == ()
    assert find_counts(stays.plan(GROUPED)) == ("n",)
    assert "A count below 0 is noise on a small number." not in word_facts(
        list_facts(plan, found, clamp=False, errors=True)
    )


def test_three_scales_of_gaussian_noise_are_more_than_its_error(stays: Dataset) -> None:
    plan, gaussian = stays.plan("SELECT AVG(nights) AS a FROM stays"), Gaussian(1e-3)
    noise = Noise.of(plan, gaussian, gaussian.scale(plan.sensitivity(2), 1.0))
    deviation = float(noise.scales[0])
    for scales, has_enough in ((2.5, False), (3.5, True)):
        values = [[Fraction(round(scales * deviation)), Fraction(0)]]
        (row,) = assemble_answer(plan, ((),), values, noise=noise).rows
        assert (row["a"] is not None) == has_enough


def test_null_quotients_pass_through_the_sql_after(stays: Dataset) -> None:
    counts = [200, 300, 1, 400]
    sql = "SELECT ward, COALESCE(AVG(nights), -1) AS a, AVG(nights) IS NULL AS few FROM stays GROUP BY ward"
    rows = assemble(stays, sql, counts).rows
    assert [row["few"] for row in rows] == [False, False, True, False]
    assert rows[2]["a"] == -1
    kept = assemble(stays, "SELECT ward FROM stays GROUP BY ward HAVING AVG(nights) >= 0", counts).rows
    assert [row["ward"] for row in kept] == [WARDS[0], WARDS[1], WARDS[3]]
    outer = assemble(stays, f"SELECT COUNT(s / n) AS told FROM ({GROUPED}) t WHERE n > 0", counts)
    assert outer.errors == ({"told": None},)


def test_every_cell_has_its_own_error(stays: Dataset) -> None:
    found = assemble(stays, "SELECT ward, AVG(nights) AS a, COUNT(*) AS n FROM stays GROUP BY ward", [50, 500, 5000, 2])
    errors = [row["a"] for row in found.errors]
    assert errors[3] is None
    assert errors[0] > 5 * errors[1] > 25 * errors[2] > 0
    assert len({row["n"] for row in found.errors}) == 1
    assert found.error_95 == (errors[0], found.errors[0]["n"])


@pytest.mark.parametrize(
    ("clauses", "selects"),
    [
        ("", False),
        (" ORDER BY n DESC", False),
        (" ORDER BY ward LIMIT 2", False),
        (" ORDER BY 1 LIMIT 2", False),
        (" LIMIT 2", False),
        (" HAVING ward <> 'x'", False),
        (" ORDER BY n DESC LIMIT 2", True),
        (" ORDER BY 2 LIMIT 2", True),
        (" ORDER BY n OFFSET 1", True),
        (" HAVING COUNT(*) > 3", True),
        (" QUALIFY RANK() OVER (ORDER BY COUNT(*)) = 1", True),
    ],
)
def test_errors_are_simultaneous_where_rows_are_chosen_by_numbers(stays: Dataset, clauses: str, selects: bool) -> None:
    sql = f"{GROUPED}{clauses}"
    plan, laplace = stays.plan(sql), Laplace()
    assert selects_rows(plan.after.query) == selects
    around = stays.plan(f"SELECT * FROM ({GROUPED}) t WHERE {'n > 3' if selects else 'ward IS NOT NULL'}")
    assert selects_rows(around.after.query) == selects
    assert count_selectable(plan) == len(WARDS) * 2
    noise = Noise.of(plan, laplace, 2.0)
    assert noise.tail == pytest.approx(0.05 / 8 if selects else 0.05)


def test_what_reads_other_groups_has_no_error_and_says_so(stays: Dataset, ledger: Ledger) -> None:
    sql = "SELECT ward, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS total FROM stays GROUP BY ward"
    answer = stays.release(sql, ledger=ledger, epsilon=1.0, policy="budget:2")
    assert answer.errors is not None
    assert all(row["total"] is None and row["n"] is not None for row in answer.errors)
    assert "total has no error: it is computed from several groups." in answer.about
    again = stays.release(sql, ledger=ledger, epsilon=1.0)
    assert again.repeated
    assert again.describe() == answer.describe()


def test_the_controller_sees_typical_and_worst_groups_beforehand(stays: Dataset) -> None:
    plan, laplace = stays.plan("SELECT ward, AVG(nights) AS a FROM stays GROUP BY ward"), Laplace()
    values = [[Fraction(count), Fraction(0)] for count in (30, 300, 3000, 0)]
    numbers = [(plan.group_keys, values)]
    ((found,),) = foresee_accuracy(plan, laplace, [laplace.scale(plan.sensitivity(1), 1.0)], numbers)
    assert (found.too_few, found.groups) == (1, 4)
    assert found.typical is not None
    assert found.worst is not None
    assert 5 * found.typical < found.worst <= 4.5  # the bounds are 0 to 9, and every mean is in the middle
    assert found.relative == pytest.approx(found.typical / 4.5)
    ((none,),) = foresee_accuracy(plan, laplace, [1.0])
    assert (none.typical, none.worst, none.too_few) == (None, None, None)


# ---------------------------------------------------------------- Adult


@pytest.fixture(scope="module")
def adult(adult_train: Path) -> Iterator[Dataset]:
    with adult_train.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    columns: dict[str, Any] = {
        name: {"type": "category", "values": sorted({row[name] for row in rows})}
        for name in ("marital_status", "native_country")
    }
    columns |= {
        "hours_per_week": {"type": "integer", "bounds": [1, 99]},
        "age": {"type": "integer", "bounds": [0, 120]},
    }
    schema = {"table": "adult", "individuals": len(rows), "reviewed": True, "columns": columns}
    with Dataset.open(adult_train, schema=schema, table="adult") as dataset:
        yield dataset


def test_averages_of_adult_by_marital_status(adult: Dataset, ledger: Ledger) -> None:
    """4,443 divorced people: ± 0.07, whatever the 23 people of another group have."""
    sql = "SELECT marital_status, AVG(hours_per_week) AS hours FROM adult GROUP BY marital_status"
    answer = adult.release(sql, ledger=ledger, epsilon=1.0, policy="budget:2")
    assert answer.errors is not None
    divorced = rows_of(answer).index(next(row for row in rows_of(answer) if row["marital_status"] == "Divorced"))
    error = answer.errors[divorced]["hours"]
    assert error is not None
    assert round(error, 2) == 0.07


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_answer_is_written_with_what_its_reader_needs(
    stays: Dataset, ledger: Ledger, tmp_path: Path, ending: str
) -> None:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    answer = stays.release(GROUPED, ledger=ledger, epsilon=1.0, policy="budget:2")
    path = tmp_path / f"answer.{ending}"
    answer.save(path, ledger=ledger)
    table: pa.Table = arrow_csv.read_csv(path) if ending == "csv" else parquet.read_table(path)
    assert table.to_pylist() == answer.answer
    document = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert document["errors"] == answer.describe()["errors"]
    assert document["about"] == list(answer.about)
    assert (document["query"], document["epsilon"], document["delta"]) == (GROUPED, 1.0, 0.0)
    assert (document["entry"], document["head"]) == (answer.entry, ledger.verify().head)
    assert document["schema_digest"] == account_of(ledger).entries[0].request.schema_digest
    assert "source_digest" not in document


def test_what_algorithm_1_withholds_stands_in_no_file(stays: Dataset, ledger: Ledger, tmp_path: Path) -> None:
    answer = stays.release(GROUPED, ledger=ledger, prefer="ratio:0.1", policy="paper")
    answer.save(tmp_path / "answer.csv", ledger=ledger)
    document = json.loads((tmp_path / "answer.json").read_text(encoding="utf-8"))
    assert [document[name] for name in ("epsilon", "epsilon_svt", "error_95", "errors", "delta")] == [None] * 5


def test_a_file_that_cannot_be_written_loses_no_answer(stays: Dataset, ledger: Ledger, tmp_path: Path) -> None:
    answer = stays.release(GROUPED, ledger=ledger, epsilon=1.0, policy="budget:1")
    (tmp_path / "answer.json").mkdir()
    with pytest.raises(OptionError, match="cannot be written"):
        answer.save(tmp_path / "answer.csv", ledger=ledger)
    with pytest.raises(OptionError, match="Change the ending"):
        answer.save(tmp_path / "answer.txt", ledger=ledger)
    assert stays.release(GROUPED, ledger=ledger, epsilon=1.0).answer == answer.answer
