"""Time what does not grow with the data: the overhead of one query, a release, a cold command, a long account's page.

    python bench/latency.py FILE.parquet     made by bench/generate.py, with its .toml

Seconds on the clock, and those of them that the processor computed, which other programs disturb less. Prints lines and
writes JSON. Every goal is for a million rows.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from ledgers import grow_ledger
from run import PREFERENCE, QUERIES, generate

from dosimeter import Dataset, Ledger

COUNT = "SELECT COUNT(*) AS n FROM adult WHERE age > {}"
AVERAGE = "SELECT marital_status, AVG(hours_per_week) AS hours FROM adult WHERE age > {} GROUP BY marital_status"
ENTRIES = 5000
PLAIN = """
import duckdb, numpy, sqlglot
connection = duckdb.connect()
connection.execute("CREATE VIEW adult AS SELECT * FROM read_parquet('{data}')")
connection.sql({sql!r}).fetchall()
"""


@dataclass
class Watch:
    """Seconds on the clock and of the processor, of every run."""

    clock: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def time(self, work: Callable[[], Any]) -> Any:
        clock, processor = time.perf_counter(), time.process_time()
        result = work()
        self.clock.append(time.perf_counter() - clock)
        self.processor.append(time.process_time() - processor)
        return result

    def medians(self) -> dict[str, float]:
        return {"clock": statistics.median(self.clock), "processor": statistics.median(self.processor)}


def write_ms(found: dict[str, float]) -> str:
    return f"{1000 * found['clock']:.1f} ms ({1000 * found['processor']:.1f} computing)"


def less(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {name: one[name] - other[name] for name in one}


def open_plain(data: Path) -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW adult AS SELECT * FROM read_parquet('{data}')")
    return connection


def measure_overhead(data: Path, runs: int) -> dict[str, Any]:
    """Return what risk + find take beyond the plain query, the two in turns."""
    connection, result = open_plain(data), {}
    with Dataset.open(data, schema=data.with_suffix(".toml")) as dataset:
        for name, sql in {**QUERIES, "groups": AVERAGE.format(16)}.items():
            plain, ours = Watch(), Watch()
            for _ in range(runs):
                plain.time(lambda sql=sql: connection.sql(sql).fetchall())  # type: ignore[misc]
                ours.time(lambda sql=sql: dataset.risk(sql).find(PREFERENCE))  # type: ignore[misc]
            result[name] = less(ours.medians(), plain.medians())
            print(f"fixed overhead per query, {name}: {write_ms(result[name])} (goal: about 7)", flush=True)
    return result


def measure_release(data: Path, runs: int) -> dict[str, Any]:
    """Return what a release takes beyond the plain query, and what its two commits take of that.

    A query that was never asked before is planned anew each time; one that was looked at before its release, or that is
    asked again at another ε, is planned already.
    """
    connection, result = open_plain(data), {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Dataset.open(data, schema=data.with_suffix(".toml")) as dataset,
        Ledger.open(Path(folder) / "ledger.db") as ledger,
    ):
        commits = Watch()
        dataset.release(COUNT.format(0), ledger=ledger, epsilon=0.001, policy="budget:1000000")
        reserve, settle = ledger.reserve, ledger.settle
        ledger.reserve = lambda *given: commits.time(lambda: reserve(*given))  # type: ignore[method-assign]
        ledger.settle = lambda *given, **named: commits.time(lambda: settle(*given, **named))  # type: ignore[method-assign]
        forms = {"count": COUNT, "groups": AVERAGE, "groups, planned before": AVERAGE.format(16)}
        for name, form in forms.items():
            plain, ours = Watch(), Watch()
            commits.clock.clear()
            commits.processor.clear()
            for number in range(1, runs + 1):
                sql = form.format(number)
                plain.time(lambda sql=sql: connection.sql(sql).fetchall())  # type: ignore[misc]
                at = 0.001 + 1e-6 * number  # else the ledger would answer what was asked before
                ours.time(lambda sql=sql, at=at: dataset.release(sql, ledger=ledger, epsilon=at))  # type: ignore[misc]
            both = {part: 2 * value for part, value in commits.medians().items()}
            beyond = less(less(ours.medians(), plain.medians()), both)
            result[name] = {"release": ours.medians(), "plain": plain.medians(), "commits": both, "beyond": beyond}
            print(
                f"release latency, {name}: {write_ms(ours.medians())}; beyond the plain query and both commits "
                f"{write_ms(beyond)} (goal: 10), both commits {write_ms(both)}",
                flush=True,
            )
    return result


def run_cold(command: list[str]) -> dict[str, float]:
    """Return what a process of its own takes. Modules are compiled once, as after an installation."""
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    clock, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=compiled)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    computed = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"clock": time.perf_counter() - clock, "processor": computed}


def measure_cold(data: Path, runs: int) -> dict[str, Any]:
    """Return what cold commands take, as multiples of a Python that loads the same libraries and runs the query."""
    found: dict[str, list[dict[str, float]]] = {"plain": [], "find": [], "release": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(runs):
            sql = COUNT.format(number)
            given = [str(data), sql, "--schema", str(data.with_suffix(".toml")), "--json"]
            spent = ["--ledger", f"{folder}/ledger.db", "--epsilon", "0.1", "--policy", "budget:1000"]
            ours = [sys.executable, "-m", "dosimeter"]
            found["plain"].append(run_cold([sys.executable, "-c", PLAIN.format(data=data, sql=sql)]))
            found["find"].append(run_cold([*ours, "find", *given, "--prefer", PREFERENCE]))
            found["release"].append(run_cold([*ours, "release", *given, *spent]))
    best = {name: {part: min(run[part] for run in each) for part in each[0]} for name, each in found.items()}
    for name, goal in {"find": 1.5, "release": 2.0}.items():
        clock, processor = (best[name][part] / best["plain"][part] for part in ("clock", "processor"))
        print(
            f"cold {name}: {clock:.2f} × a plain Python ({processor:.2f} computing; goal: at most {goal})", flush=True
        )
    return best


def measure_account_page(entries: int) -> dict[str, float]:
    """Return how large a long account's page is, and how long it takes: the median of nine."""
    from web import prepare, serving, sign_in

    bundled = resources.files("dosimeter") / "data"
    data, schema = str(bundled / "clinic.csv"), str(bundled / "clinic.toml")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        database = str(folder / "web.db")
        settings = (
            f'[datasets.clinic]\ndata = "{data}"\nschema = "{schema}"\npolicy = "budget:1000"\nalgorithm = "fixed"\n'
        )
        prepare(folder, database, settings, analysts=0)
        with Dataset.open(data, schema=schema) as dataset, Ledger.open(database) as ledger:
            answer = dataset.release("SELECT COUNT(*) FROM clinic", ledger=ledger, epsilon=0.001, policy="budget:1000")
            entry = ledger.entry(answer.entry or "")
            assert entry is not None
            grow_ledger(ledger, "clinic", entry.request, entries - 1)
        with serving(folder) as address, closing(sign_in(address)) as carol:
            seconds = []
            for _ in range(9):
                started = time.perf_counter()
                page = carol.get("/accounts/clinic")
                seconds.append(time.perf_counter() - started)
                page.raise_for_status()
    found = {"seconds": statistics.median(seconds), "bytes": float(len(page.content))}
    told = f"{found['seconds']:.2f} s, {found['bytes'] / 1000:.0f} KB (goals: 1 s, 200 KB)"
    print(f"account page at {entries:,} entries: {told}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="What does not grow with the data: overheads and latencies.")
    parser.add_argument("data", type=Path, nargs="?", metavar="FILE.parquet", help="made by bench/generate.py")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--cold", type=int, default=7, help="cold commands of each kind")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/bench/latency.json"))
    options = parser.parse_args()
    data = options.data or generate(Path("out/bench"), 1_000_000)
    result = {
        "overhead": measure_overhead(data, options.runs),
        "release": measure_release(data, options.runs),
        "cold": measure_cold(data, options.cold),
        "account_page": measure_account_page(ENTRIES),
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
