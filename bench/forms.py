"""Measure the cost of risk for every form of SQL, relative to the same query plainly asked of DuckDB.

Plain query and risk + find take turns in one warm process, and the ratio is the median over these turns: of seconds,
and of the processor's seconds, which other programs on the machine disturb less. One row each: Adult-like rows. Many
rows each: visits of individuals. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines import write_visits
from run import PREFERENCE, generate

from dosimeter import Dataset

GOAL_BY_ROW, GOAL_BY_UNIT = 2.0, 2.5
BY_ROW = {
    "CORR": "SELECT CORR(age, hours_per_week), COUNT(*) FROM adult WHERE sex = 'Female'",
    "ROLLUP": "SELECT sex, race, COUNT(*), SUM(hours_per_week) FROM adult GROUP BY ROLLUP (sex, race)",
    "patterns": "SELECT SPLIT_PART(workclass, '-', 1) AS kind, COUNT(*) FROM adult WHERE workclass ~ '^[A-Z]' "
    "GROUP BY kind",
    "text groups": "SELECT UPPER(LEFT(workclass, 5)) AS kind, COUNT(*) FROM adult GROUP BY kind",
}
BY_UNIT = {
    "per person": "SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id "
    "HAVING COUNT(*) >= 3) p",
    "window": "SELECT COUNT(*) FROM (SELECT minutes, LAG(minutes) OVER (PARTITION BY patient_id ORDER BY visit_id) "
    "AS before FROM visits) v WHERE minutes > before",
    "IN (SELECT unit)": "SELECT ward, COUNT(*) FROM visits WHERE patient_id IN (SELECT patient_id FROM visits "
    "WHERE minutes > 100) GROUP BY ward",
    "COUNT(DISTINCT unit)": "SELECT ward, COUNT(DISTINCT patient_id) FROM visits GROUP BY ward",
    "CORR": "SELECT CORR(n, s) FROM (SELECT patient_id, COUNT(*) AS n, SUM(minutes) AS s FROM visits "
    "GROUP BY patient_id) p",
}


@dataclass(frozen=True)
class Turn:
    """What one run took: seconds on the clock, and of the processor."""

    clock: float
    processor: float

    @classmethod
    def of(cls, work: Callable[[], object]) -> Turn:
        clock, processor = time.perf_counter(), time.process_time()
        work()
        return cls(time.perf_counter() - clock, time.process_time() - processor)


def compare_in_turns(name: str, plain: Callable[[], object], ours: Callable[[], object], runs: int) -> dict[str, Any]:
    """Return the median seconds of both, and the medians of their ratios, turn by turn."""
    plain(), ours()  # warm up
    turns = [(Turn.of(plain), Turn.of(ours)) for _ in range(runs)]
    return {
        "query": name,
        "plain": statistics.median(base.clock for base, _ in turns),
        "risk_and_find": statistics.median(ours.clock for _, ours in turns),
        "ratio": statistics.median(ours.clock / base.clock for base, ours in turns),
        "processor_ratio": statistics.median(ours.processor / base.processor for base, ours in turns),
    }


def measure_forms(data: Path, queries: Mapping[str, str], runs: int) -> list[dict[str, Any]]:
    """Return for each query what the plain query and risk + find took."""
    import duckdb

    rows = []
    with duckdb.connect() as connection, Dataset.open(data, schema=data.with_suffix(".toml")) as dataset:
        connection.execute(f"CREATE VIEW {data.stem} AS SELECT * FROM read_parquet('{data}')")
        for name, sql in queries.items():
            row = compare_in_turns(
                name,
                lambda sql=sql: connection.sql(sql).fetchall(),  # type: ignore[misc]
                lambda sql=sql: dataset.risk(sql).find(PREFERENCE),  # type: ignore[misc]
                runs,
            )
            rows.append(row)
            times = f"{row['plain']:9.3f}s{row['risk_and_find']:11.3f}s"
            print(f"  {name:22}{times}{row['ratio']:8.2f}{row['processor_ratio']:11.2f}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="What risk costs beside the plain query, for every form of SQL.")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rows-each", type=int, default=10, help="visits of one individual, on average")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=Path("out/bench"), help="where tables are kept")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/bench/forms.json"))
    options = parser.parse_args()
    adult = generate(options.folder, options.rows)
    visits = write_visits(options.folder, options.rows, max(options.rows // options.rows_each, 1))
    print(f"  {'query':22}{'plain':>10}{'risk+find':>12}{'ratio':>8}{'processor':>11}")
    print(f"one row each (goal: at most {GOAL_BY_ROW})")
    by_row = measure_forms(adult, BY_ROW, options.runs)
    print(f"many rows each (goal: at most {GOAL_BY_UNIT})")
    by_unit = measure_forms(visits, BY_UNIT, options.runs)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "rows": options.rows,
        "cores": os.cpu_count(),
        "runs": options.runs,
        "by_row": by_row,
        "by_unit": by_unit,
    }
    options.output.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
