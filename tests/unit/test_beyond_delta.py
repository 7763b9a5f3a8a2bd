"""What would make an individual move the answer by more than Δ is refused, before risk and before release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import DataError, SchemaError
from dosimeter.influence import measure_influence
from dosimeter.influence.contributions import Contributions
from dosimeter_paper.recompute import recompute_risk
from tests.schemas import declare, plain, whole

VISITS: dict[str, Any] = declare(
    "visits",
    5,
    {"pid": plain("text"), "rk": plain("integer"), "clinic": plain("text"), "x": whole(0, 50)},
    unit="pid",
    max_rows_per_unit=2,
    row_key="rk",
)
CLINICS = {"public": True, "key": "clinic", "columns": {"clinic": plain("text"), "beds": whole(0, 9)}}


@pytest.fixture
def database(tmp_path: Path) -> str:
    """Clinics that are one to the collation of visits, and four by their bytes. Three people with two visits each."""
    path = tmp_path / "clinics.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            """
            CREATE TABLE visits(pid VARCHAR COLLATE NOCASE, rk BIGINT, clinic VARCHAR COLLATE NOCASE, x BIGINT);
            INSERT INTO visits SELECT substr('abA', 1 + CAST(i % 3 AS INT), 1), i, 'north', i FROM range(6) AS n(i);
            CREATE TABLE clinics(clinic VARCHAR, beds BIGINT);
            INSERT INTO clinics VALUES ('north', 1), ('North', 2), ('NORTH', 3), ('noRTH', 4);
            """
        )
    return f"duckdb:{path}"


JOINED = "SELECT COUNT(*) AS n FROM visits JOIN clinics USING (clinic)"


def test_a_collation_does_not_make_two_keys_one(database: str, ledger: Ledger) -> None:
    with Dataset.open(database, schema=VISITS | {"tables": {"clinics": CLINICS}}, table="visits") as visits:
        assert visits.count() == 3  # a and A are two people
        risk = visits.risk(JOINED)
        assert risk.sensitivity == 2.0
        assert risk.sensitivities.values.tolist() == [2.0]  # all three people have two rows
        assert risk.measured().values == ((6,),)
        answer = visits.release(JOINED, ledger=ledger, epsilon=1e9, policy="budget:1e12")
        assert answer.answer == [{"n": 6}]
    with Dataset.open(database, table="visits") as visits:  # also where no schema is given
        assert visits.risk("SELECT COUNT(*) FROM visits WHERE pid = 'A'").measured().values == ((2,),)


def test_a_public_table_is_not_the_private_one(tmp_path: Path, database: str) -> None:
    path, linked = tmp_path / "visits.csv", tmp_path / "other.csv"
    path.write_text("pid,rk,clinic,x\na,1,north,5\n")
    linked.symlink_to(path)
    for source, beside in ((database, "visits"), (database, "main.Visits"), (path, str(linked))):
        itself = CLINICS | {"columns": {"clinic": plain("text")}, "source": beside}
        opened = Dataset.open(source, schema=VISITS | {"tables": {"w": itself}}, table="visits")
        with opened as visits, pytest.raises(SchemaError, match="is the private table itself"):
            visits.risk("SELECT COUNT(*) FROM visits JOIN w USING (clinic)")


def test_more_than_delta_is_noticed_by_risk(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key check that says unique where it is not: risk finds too large a contribution."""
    monkeypatch.setattr("dosimeter.influence.measured_rows.require_unique", lambda *_: None)
    with duckdb.connect(database.removeprefix("duckdb:")) as connection:
        connection.execute("INSERT INTO clinics VALUES ('north', 5)")
    with (
        Dataset.open(database, schema=VISITS | {"tables": {"clinics": CLINICS}}, table="visits") as visits,
        pytest.raises(DataError, match="moves the answer by more than the schema allows"),
    ):
        visits.risk(JOINED)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x // 10 AS d, MEDIAN(x) FROM visits GROUP BY x // 10",
        "SELECT x % 3, COUNT(DISTINCT rk) FROM visits GROUP BY x % 3",
        "SELECT ABS(x - 20), MEDIAN(x) FROM visits GROUP BY ABS(x - 20)",
        "SELECT x + 1, COUNT(*), SUM(x) FROM visits GROUP BY x + 1",
    ],
)
def test_groups_that_are_computed(database: str, sql: str) -> None:
    """Closed form against really deleting each of the three."""
    with Dataset.open(database, schema=VISITS, table="visits") as visits:
        plan = visits.plan(sql)
        found, deleted = visits.risk(sql).contributions, recompute_risk(visits, sql).contributions
        assert vectors(found) == vectors(deleted)
        assert measure_influence(plan, visits.tables, 5, 1)[1].people.sum() == 5


def vectors(rows: Contributions) -> dict[tuple[tuple[int, float], ...], int]:
    """How many people have each contribution."""
    counts: dict[tuple[tuple[int, float], ...], int] = {}
    for row, people in enumerate(rows.people.tolist()):
        part = slice(rows.starts[row], rows.starts[row + 1])
        pairs = zip(rows.cells[part].tolist(), np.round(rows.changes[part], 9).tolist(), strict=True)
        key = tuple(sorted((cell, change) for cell, change in pairs if change))
        counts[key] = counts.get(key, 0) + people
    assert rows.norms(1).max() > 0
    return {key: people for key, people in counts.items() if people}
