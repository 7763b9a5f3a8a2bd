"""Data that change under an open Dataset: every release is about the data as they are, and as they were checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dosimeter import Answer, Dataset, Ledger
from dosimeter.errors import DataError, SchemaError
from tests.schemas import decimal, declare, plain, whole
from tests.unit.release_stays import EXACT, rows_of

ONE_ROW_EACH: dict[str, Any] = declare(
    "visits", 60, {"pid": whole(0, 99), "vid": whole(0, 9999), "cost": decimal(0, 10, 0.5)}
)
TWO_ROWS_EACH = ONE_ROW_EACH | {"unit": "pid", "max_rows_per_unit": 2, "row_key": "vid"}
COUNT = "SELECT COUNT(*) FROM visits"


def write(path: Path, rows: list[tuple[int, int, Any]]) -> Path:
    path.write_text("pid,vid,cost\n" + "".join(f"{pid},{vid},{cost}\n" for pid, vid, cost in rows))
    return path


def release(dataset: Dataset, ledger: Ledger, sql: str = COUNT, **options: Any) -> Answer:
    return dataset.release(sql, ledger=ledger, **{"epsilon": EXACT, "policy": "budget:1e12", **options})


def count(answer: Answer) -> int:
    return int(rows_of(answer)[0]["count"])


FIFTY = [(pid, pid, 1.5) for pid in range(50)]


def test_rows_beyond_the_bound_are_left_out_though_they_came_later(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "visits.csv", FIFTY)
    with Dataset.open(path, schema=TWO_ROWS_EACH) as dataset:
        dataset.risk(COUNT)  # nobody has more than two rows yet
        write(path, [*FIFTY, *((7, 1000 + at, 1.5) for at in range(500))])
        assert count(release(dataset, ledger)) == 51
        write(path, [*FIFTY, *((8, 1000 + at, 1.5) for at in range(900))])
        assert count(release(dataset, ledger, continued=True)) == 51


def test_more_people_than_declared_are_answered(tmp_path: Path, ledger: Ledger) -> None:
    """A total is cut to what 60 declared people can reach; with fewer of them it is what it is."""
    path = write(tmp_path / "visits.csv", FIFTY)
    with Dataset.open(path, schema=ONE_ROW_EACH) as dataset:
        assert count(release(dataset, ledger)) == 50
        write(path, [(pid, pid, 1.5) for pid in range(75)])
        assert count(release(dataset, ledger, continued=True)) == 60
        assert count(release(dataset, ledger, "SELECT COUNT(*) AS count FROM visits WHERE pid < 40")) == 40
        risk = dataset.risk(COUNT)
        assert (risk.n, risk.contributions.n) == (60, 75)
        assert any("75 people and the schema declares 60" in note for note in risk.notes)


def test_an_odd_cell_counts_as_missing(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "visits.csv", FIFTY)
    with Dataset.open(path, schema=ONE_ROW_EACH) as dataset:
        assert count(release(dataset, ledger)) == 50
        write(path, [*FIFTY, (50, 50, "inf"), (51, 51, "many")])
        assert count(release(dataset, ledger, continued=True)) == 52
        assert count(release(dataset, ledger, "SELECT COUNT(cost) AS count FROM visits")) == 50
        assert dataset.engine.count_odd_cells(["pid", "cost"]) == {"pid": 0, "cost": 2}


def test_a_joined_table_is_read_again(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "visits.csv", FIFTY)
    wards = tmp_path / "wards.csv"
    wards.write_text("pid,beds\n" + "".join(f"{pid},2\n" for pid in range(50)))
    beds = {"pid": plain("integer"), "beds": whole(0, 9)}
    tables = {"wards": {"public": True, "source": str(wards), "key": "pid", "columns": beds}}
    sql = "SELECT SUM(beds) AS count FROM visits JOIN wards USING (pid)"
    with Dataset.open(path, schema=TWO_ROWS_EACH | {"tables": tables}) as dataset:
        assert count(release(dataset, ledger, sql)) == 100
        wards.write_text("pid,beds\n" + "".join(f"{pid},3\n" for pid in range(50)))
        assert count(release(dataset, ledger, sql, continued=True)) == 150
        wards.write_text("pid,beds\n" + "".join(f"{pid % 25},3\n" for pid in range(50)))  # no key any more
        with pytest.raises(SchemaError, match="not unique"):  # of a public table: the refusal may say why
            release(dataset, ledger, sql, continued=True)


def test_data_that_change_while_they_are_measured_are_not_released(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "visits.csv", FIFTY)
    with Dataset.open(path, schema=ONE_ROW_EACH) as dataset:
        fetch = dataset.engine.fetch_few

        def fetch_and_change(query: Any) -> Any:
            found = fetch(query)
            write(path, FIFTY[:-1])
            return found

        monkeypatch.setattr(dataset.engine, "fetch_few", fetch_and_change)
        with pytest.raises(DataError, match="changed while it was measured"):
            release(dataset, ledger)
        assert ledger.account("visits") is None
        monkeypatch.undo()
        assert count(release(dataset, ledger)) == 49


def test_a_kept_risk_of_a_join_never_reads_another_table(tmp_path: Path) -> None:
    """Two joined tables of the same shape and opposite weights: who stands out by one does not by the other."""
    path = write(tmp_path / "visits.csv", [(0, 0, 1), (1, 1, 1)])
    tables = {}
    for name, weights in (("r", (1, 9)), ("j", (9, 1))):
        beside = tmp_path / f"{name}.csv"
        beside.write_text(f"pid,w\n0,{weights[0]}\n1,{weights[1]}\n")
        columns = {"pid": plain("integer"), "w": whole(0, 9)}
        tables[name] = {"public": True, "source": str(beside), "key": "pid", "columns": columns}
    with Dataset.open(path, schema=ONE_ROW_EACH | {"tables": tables}) as dataset:
        kept = dataset.risk("SELECT SUM(w) FROM visits JOIN r USING (pid)")
        expected = kept.list_people(1, reveal=True, columns=["pid"])
        assert expected[0].columns == {"pid": 1}
        dataset.renew()
        other = dataset.risk("SELECT SUM(w) FROM visits JOIN j USING (pid)")
        assert kept.list_people(1, reveal=True, columns=["pid"]) == expected
        assert other.list_people(1, reveal=True, columns=["pid"])[0].columns == {"pid": 0}


def test_columns_of_a_csv_that_change_their_places_are_noticed(tmp_path: Path, ledger: Ledger) -> None:
    """A CSV's columns are read by their place: the same content in another order is not the same table."""
    path = write(tmp_path / "visits.csv", FIFTY)
    with Dataset.open(path, schema=ONE_ROW_EACH) as dataset:
        release(dataset, ledger)
        path.write_text("vid,pid,cost\n" + "".join(f"{vid},{pid},{cost}\n" for pid, vid, cost in FIFTY))
        with pytest.raises(DataError, match="no longer has the columns"):
            release(dataset, ledger, continued=True)
    with Dataset.open(path, schema=ONE_ROW_EACH) as dataset:
        assert count(release(dataset, ledger, continued=True)) == 50


def test_a_parquet_file_with_other_columns_is_refused(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "visits.parquet"
    table = pa.table({"pid": range(50), "vid": range(50), "cost": [1.5] * 50})
    pq.write_table(table, path)
    with Dataset.open(path, schema=ONE_ROW_EACH) as dataset:
        release(dataset, ledger)
        pq.write_table(table.rename_columns(["pid", "vid", "price"]), path)
        with pytest.raises(DataError, match="no longer has the columns"):
            release(dataset, ledger, continued=True)
        pq.write_table(table.slice(1), path)
        assert count(release(dataset, ledger, continued=True)) == 49, "and nothing was stopped"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_link_that_was_moved_is_refused(tmp_path: Path, ledger: Ledger, kind: str) -> None:
    first, second, link = (tmp_path / f"{name}.{kind}" for name in ("first", "second", "visits"))
    for path, rows in ((first, FIFTY), (second, FIFTY[:-1])):
        frame = pd.DataFrame(rows, columns=["pid", "vid", "cost"])
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    link.symlink_to(first)
    with Dataset.open(link, schema=ONE_ROW_EACH) as dataset:
        release(dataset, ledger)
        link.unlink()
        link.symlink_to(second)
        with pytest.raises(DataError, match="leads to another file now"):
            release(dataset, ledger, continued=True)
    with Dataset.open(link, schema=ONE_ROW_EACH) as dataset:
        assert count(release(dataset, ledger, continued=True)) == 49, "and nothing was stopped"
