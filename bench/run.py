"""Measure the cost of risk relative to the plain query. Takes generated Parquet files; prints a table and writes JSON.

All costs are ratios within one run: the paper's five queries, `risk` + `find` in a warm process against the plain query
in the same engine. Also measured: peak memory at two sizes, one cold command, and recomputing at 10,000 rows.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dosimeter import Dataset

QUERIES = {
    "Q1": "SELECT COUNT(*) FROM adult WHERE income = '>50K' AND education_num = 13 AND age = 25",
    "Q2": "SELECT marital_status, COUNT(*) FROM adult WHERE race = 'Asian-Pac-Islander' AND age BETWEEN 30 AND 40 "
    "GROUP BY marital_status",
    "Q3": "SELECT COUNT(*) FROM adult WHERE native_country <> 'United-States' AND sex = 'Female'",
    "Q4": "SELECT AVG(hours_per_week) FROM adult WHERE workclass IN ('Federal-gov', 'Local-gov', 'State-gov')",
    "Q5": "SELECT SUM(capital_gain) FROM adult",
}
PREFERENCE = "ratio:0.95"


def median_seconds(work: Callable[[], object], runs: int) -> float:
    return median_times(work, runs)[0]


def median_times(work: Callable[[], object], runs: int) -> tuple[float, float]:
    """Return the median seconds on the clock, and of the processor, which other programs disturb less."""
    work()  # warm up
    seconds, computing = [], []
    for _ in range(runs):
        started, computed = time.perf_counter(), time.process_time()
        work()
        seconds.append(time.perf_counter() - started)
        computing.append(time.process_time() - computed)
    return statistics.median(seconds), statistics.median(computing)


def _fetch(connection: Any, sql: str) -> object:
    return connection.sql(sql).fetchall()


def _look(dataset: Dataset, sql: str) -> object:
    return dataset.risk(sql).find(PREFERENCE)


def compare_with_plain(data: Path, runs: int) -> list[dict[str, Any]]:
    """Return for each query the seconds of the plain query and of risk + find, in one process."""
    import duckdb

    from dosimeter import Dataset

    plain = duckdb.connect()
    plain.execute(f"CREATE VIEW adult AS SELECT * FROM read_parquet('{data}')")
    rows = []
    with Dataset.open(data, schema=data.with_suffix(".toml")) as dataset:
        for name, sql in QUERIES.items():
            base, base_computing = median_times(partial(_fetch, plain, sql), runs)
            ours, computing = median_times(partial(_look, dataset, sql), runs)
            row = {"query": name, "plain": base, "risk_and_find": ours, "ratio": ours / base}
            rows.append(row | {"processor_ratio": computing / base_computing})
    return rows


def measure_peak(data: Path) -> float:
    """Return the peak memory in megabytes of a separate process that does risk + find on all five queries."""
    code = subprocess.run(
        [sys.executable, __file__, "--peak", str(data)], check=True, capture_output=True, text=True
    ).stdout
    return float(code)


def print_peak(data: Path) -> None:
    from dosimeter import Dataset

    with Dataset.open(data, schema=data.with_suffix(".toml")) as dataset:
        for sql in QUERIES.values():
            dataset.risk(sql).find(PREFERENCE)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def measure_cold(adult: Path) -> float:
    """Return the seconds of one `dosimeter find` on Adult's CSV, from start to finish: the best of five."""
    command = [sys.executable, "-m", "dosimeter", "find", str(adult), "--table", "adult", QUERIES["Q1"]]
    command += ["--prefer", PREFERENCE, "--json"]
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def compare_with_recompute(folder: Path) -> list[dict[str, Any]]:
    """Compare the closed form with the paper's own way, recomputing, both on 10,000 rows."""
    from dosimeter import Dataset
    from dosimeter_paper.recompute import recompute_risk

    small = generate(folder, 10_000)
    rows = []
    with Dataset.open(small, schema=small.with_suffix(".toml")) as dataset:
        for name, sql in QUERIES.items():
            closed = median_seconds(partial(dataset.risk, sql), 5)
            started = time.perf_counter()
            recompute_risk(dataset, sql)
            slow = time.perf_counter() - started
            rows.append({"query": name, "closed_form": closed, "recompute": slow, "ratio": slow / closed})
    return rows


def generate(folder: Path, rows: int) -> Path:
    target = folder / str(rows) / "adult.parquet"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        script = Path(__file__).with_name("generate.py")
        subprocess.run([sys.executable, str(script), "--rows", str(rows), "-o", str(target)], check=True)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description="What risk costs beside the plain query, on generated tables.")
    parser.add_argument("data", type=Path, nargs="?", metavar="FILE.parquet", help="made by bench/generate.py")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/bench/result.json"))
    parser.add_argument("--peak", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak is not None:
        print_peak(options.peak)
        return
    with tempfile.TemporaryDirectory() as scratch:
        data = options.data or generate(Path(scratch), 10_000_000)
        result: dict[str, Any] = {"data": str(data), "cores": os.cpu_count(), "runs": options.runs}
        result["plain"] = compare_with_plain(data, options.runs)
        for name, ratio in (("geometric_mean", "ratio"), ("geometric_mean_processor", "processor_ratio")):
            result[name] = math.exp(statistics.mean(math.log(row[ratio]) for row in result["plain"]))
        smaller = generate(Path(scratch), 1_000_000)
        result["peak_megabytes"] = {"given": measure_peak(data), "smaller": measure_peak(smaller)}
        result["recompute_10000_rows"] = compare_with_recompute(Path(scratch))
        adult = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult.csv"
        result["cold_find_seconds"] = measure_cold(adult) if adult.exists() else None
    print_table(result)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def print_table(result: dict[str, Any]) -> None:
    print(f"{'query':6}{'plain':>10}{'risk+find':>12}{'ratio':>8}{'processor':>11}")
    for row in result["plain"]:
        times = f"{row['plain']:9.3f}s{row['risk_and_find']:11.3f}s{row['ratio']:8.2f}{row['processor_ratio']:11.2f}"
        print(f"{row['query']:6}{times}")
    mean, processor = result["geometric_mean"], result["geometric_mean_processor"]
    print(f"geometric mean of the ratios: {mean:.2f} ({processor:.2f} by the processor)")
    print("goals: at most 2.5 at 1,000,000 rows, 1.2 at 100,000,000")
    peak = result["peak_megabytes"]
    print(f"peak memory: {peak['given']:.0f} MB; at 1,000,000 rows {peak['smaller']:.0f} MB")
    for row in result["recompute_10000_rows"]:
        slow = f"recompute {row['recompute']:8.2f}s at 10,000 rows"
        print(f"{row['query']:6}{slow}, {row['ratio']:,.0f} x the closed form")
    cold = result["cold_find_seconds"]
    print(
        "one cold find on Adult's CSV: " + (f"{cold:.2f} s (goal: under 1)" if cold else "skipped, no ../shared/data")
    )


if __name__ == "__main__":
    main()
