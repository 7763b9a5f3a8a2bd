"""After a dataset is closed, every use of it says so: on every engine, and through a risk that was kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dosimeter import Dataset, Ledger, Risk
from dosimeter.engines.duckdb import open_duckdb
from dosimeter.engines.engine import ClosableEngine
from dosimeter.errors import DataError, DatasetClosed
from tests.conformance.engine_cases import EVERY_ENGINE
from tests.schemas import declare, plain, whole

SQL = "SELECT SUM(age) FROM people"
FACTS = declare("people", 400, {"id": plain("integer"), "age": whole(0, 120)})
UNITS = FACTS | {"unit": "id", "max_rows_per_unit": 2, "row_key": "age"}


@pytest.fixture(params=EVERY_ENGINE)
def open_people(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], Dataset]:
    """How to open the people in each engine, with a schema."""
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        return lambda facts: Dataset.open(url, table="registry.people", schema=facts)
    if request.param == "spark":
        request.getfixturevalue("spark_session")
    files = f"{request.getfixturevalue('parquet')}/*.parquet"
    return lambda facts: Dataset.open(files, engine=request.param, schema=facts)


@pytest.mark.parametrize("facts", [FACTS, UNITS], ids=["rows", "units"])
def test_a_closed_dataset_says_so(
    open_people: Callable[[dict[str, Any]], Dataset], facts: dict[str, Any], tmp_path: Path
) -> None:
    with open_people(facts) as people:
        kept = people.risk(SQL)
        before = kept.rdr(1.0).counts.sum()
    uses: list[Callable[[], object]] = [
        lambda: people.risk(SQL),
        lambda: people.risk("SELECT COUNT(*) FROM people"),
        lambda: kept.people(2, reveal=True),
        lambda: kept.by("age"),
        lambda: kept.find("AVG(rdr) FILTER (WHERE age > 3) <= AVG(rdr)"),
        people.renew,
        lambda: people.engine.fingerprint(),
        lambda: people.engine.relation(),
    ]
    for use in uses:
        with pytest.raises(DatasetClosed, match="This dataset is closed"):
            use()
    assert kept.rdr(1.0).counts.sum() == before, "what was computed before needs no data"
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        with pytest.raises(DatasetClosed):
            people.release(SQL, epsilon=1.0, ledger=ledger, policy="budget:2")
        assert not ledger.accounts(), "nothing is charged or denied for it"
    people.close()
    assert people.engine.progress() is None
    people.engine.interrupt()


def test_a_closed_dataset_is_no_trouble_with_data() -> None:
    """A DataError while a release is measured would stop the dataset for everybody."""
    assert not issubclass(DatasetClosed, DataError)
    assert DatasetClosed.exit_code == 2


def test_a_risk_over_joined_tables(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,age\n1,30\n2,40\n")
    (tmp_path / "ages.csv").write_text("age,old\n30,false\n40,true\n")
    old = {"age": {"type": "integer"}, "old": {"type": "boolean"}}
    joined = {"ages": {"public": True, "key": "age", "source": str(tmp_path / "ages.csv"), "columns": old}}
    with Dataset.open(tmp_path / "people.csv", schema=FACTS | {"tables": joined}) as people:
        risk: Risk = people.risk("SELECT COUNT(*) FROM people JOIN ages USING (age) WHERE old")
        assert risk.people(1).num_rows == 1
    with pytest.raises(DatasetClosed):
        risk.people(1)


def test_closing_closes_what_lies_behind(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,age\n1,30\n")
    behind = open_duckdb(str(tmp_path / "people.csv"))
    ClosableEngine(behind).close()
    with pytest.raises(DataError):
        behind.count_odd_cells(["id"])
