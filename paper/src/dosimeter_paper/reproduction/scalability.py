"""Running times of the paper's two algorithms on 1,000 to 1,000,000 records (section 6.2), beside the authors' seconds.

*find*: find ε from a preference. *find-and-release*: select ε by a noisy test.
Timed: one call that measures everybody's contributions and then chooses ε, without loading or generating the table.
*closed form*: one profile query. *recompute*: the paper's way, which runs the query again without each distinct record,
in as many processes as there are processors; it stops before a size at which one run would exceed the time limit.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dosimeter.dataset import Dataset
from dosimeter.errors import OptionError
from dosimeter.json_values import JsonObject
from dosimeter.release import select_epsilon
from dosimeter.show import TextTable, format_number
from dosimeter_paper.recompute import recompute_risk
from dosimeter_paper.reproduction.data import adult_schema
from dosimeter_paper.reproduction.generate import generate_adult
from dosimeter_paper.reproduction.queries import AUTHORS_SECONDS, EPSILON_SVT, QUERIES, PaperQuery
from dosimeter_paper.reproduction.variance import state_problem

if TYPE_CHECKING:
    import pyarrow as pa

    from dosimeter.assessment import Risk

Algorithm = Literal["find", "find-and-release"]
Way = Literal["closed form", "recompute"]
Progress = Callable[[int, int], None]

ALGORITHMS: tuple[Algorithm, ...] = ("find", "find-and-release")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
RATIO, VARIANCE = 0.95, 1e-5


@dataclass(frozen=True, slots=True)
class Timing:
    """The running times of one algorithm, by one way of measuring, on one query and one size of the table.

    ``way``: closed form or recompute. ``rows``: the size. ``seconds``: one number per run.
    """

    way: Way
    algorithm: Algorithm
    query: str
    rows: int
    seconds: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.seconds)

    @property
    def deviation(self) -> float:
        return statistics.stdev(self.seconds) if len(self.seconds) > 1 else 0.0

    @property
    def published(self) -> float | None:
        """Return the authors' mean in seconds, the same for both algorithms; None if they published none."""
        return AUTHORS_SECONDS[self.query].get(self.rows)

    @property
    def ratio(self) -> float | None:
        """Return the authors' mean divided by the mean here (above 1: faster here); None if they published none."""
        return None if self.published is None else self.published / self.mean


@dataclass(frozen=True, slots=True)
class Scalability:
    processors: int
    timings: tuple[Timing, ...]

    @property
    def words(self) -> tuple[str, ...]:
        told = []
        for way in ("closed form", "recompute"):
            chosen = [timing for timing in self.timings if timing.way == way]
            if not chosen:
                continue
            rows = max(timing.rows for timing in chosen)
            largest = [timing for timing in chosen if timing.rows == rows]
            ratios = [timing.ratio for timing in largest if timing.ratio is not None]
            text = f"{way.capitalize()}, {rows:,} records: {format_number(min(t.mean for t in largest))} to "
            text += f"{format_number(max(t.mean for t in largest))} s"
            if ratios:
                least, most = format_number(min(ratios), 2), format_number(max(ratios), 2)
                text += f", {least} to {most} times faster than published"
            told.append(text + ".")
        told.append(
            f"Published: 8 processes, 32-core Xeon Gold 6242. Here: {self.processors} processors. Loading excluded in "
            "both."
        )
        return tuple(told)

    def document(self) -> JsonObject:
        return {"processors": self.processors, "timings": self.list_timings()}

    def list_timings(self) -> list[JsonObject]:
        return [
            {
                "method": timing.way,
                "algorithm": timing.algorithm,
                "query": timing.query,
                "rows": timing.rows,
                "runs": len(timing.seconds),
                "mean": timing.mean,
                "deviation": timing.deviation,
                "published": timing.published,
                "ratio": timing.ratio,
            }
            for timing in self.timings
        ]

    def text_table(self, algorithm: Algorithm) -> TextTable:
        columns = ["records", "query", "published, s", "recompute, s", "× faster", "closed form, s", "× faster"]
        found = {(t.way, t.rows, t.query): t for t in self.timings if t.algorithm == algorithm}
        rows = []
        for size in sorted({timing.rows for timing in self.timings}):
            for query in QUERIES:
                slow, fast = found.get(("recompute", size, query.name)), found["closed form", size, query.name]
                published = "–" if fast.published is None else format_number(fast.published)
                rows.append([f"{size:,}", query.name, published, *_write(slow), *_write(fast)])
        return {"columns": columns, "rows": rows}


def _write(timing: Timing | None) -> list[str]:
    if timing is None:
        return ["–", "–"]
    spread = f" ± {format_number(timing.deviation, 2)}" if len(timing.seconds) > 1 else ""
    return [format_number(timing.mean) + spread, "–" if timing.ratio is None else format_number(timing.ratio, 2)]


def list_sizes(up_to: int) -> tuple[int, ...]:
    """Return the paper's sizes, in records, that are below ``up_to``, and ``up_to`` itself."""
    if up_to < 1:
        raise OptionError("--up-to must be at least 1.")
    return tuple(sorted({size for size in SIZES if size <= up_to} | {up_to}))


def measure_scalability(
    adult: pa.Table,
    *,
    sizes: Sequence[int] = SIZES,
    runs: int = 10,
    limit: float = 120.0,
    seed: int = 1,
    progress: Progress | None = None,
) -> Scalability:
    """Time the paper's two algorithms, each by the closed form and by recomputing, on every query and size.

    Each is run ``runs`` times.

    ``limit``: the seconds that recomputing may take on one query and size: no run is started that is expected to end
    later. 0 leaves recomputing out. ``seed``: decides the generated tables. ``progress``: called with (done, total).
    """
    if runs < 1:
        raise OptionError("--runs must be at least 1.")
    _warm_up(adult)
    timings: list[Timing] = []
    expected: dict[str, float] = {}
    steps = len(sizes) * len(QUERIES) * 2
    done = 0
    for rows in sizes:
        table = generate_adult(adult, rows, seed=seed)
        with Dataset.open(table, table="adult", schema=adult_schema(rows)) as dataset:
            for query in QUERIES:
                timings += _time_closed_form(dataset, query, rows, runs)
                done += 1
                if progress is not None:
                    progress(done, steps)
                if limit > 0.0 and expected.get(query.name, 0.0) <= limit:
                    slow = _time_recompute(dataset, query, rows, runs, limit)
                    timings += slow
                    expected[query.name] = _expect_next(slow[0].mean, rows, sizes)
                done += 1
                if progress is not None:
                    progress(done, steps)
    return Scalability(os.cpu_count() or 1, tuple(timings))


def _warm_up(adult: pa.Table) -> None:
    """Run both algorithms once on a small table, so that late imports and the first noise are not timed."""
    table = generate_adult(adult, min(100, adult.num_rows))
    with Dataset.open(table, table="adult", schema=adult_schema(table.num_rows)) as dataset:
        for choose in _CHOICES.values():
            choose(dataset.risk(QUERIES[0].sql))


def _find(risk: Risk) -> None:
    risk.find(f"ratio:{RATIO}")


def _find_and_release(risk: Risk) -> None:
    """Select ε by the noisy test that the paper prints (V1): variance of RDRs at most 10⁻⁵, the test spends 1."""
    select_epsilon(state_problem(risk, VARIANCE, EPSILON_SVT), method="paper")


_CHOICES: dict[Algorithm, Callable[[Risk], None]] = {"find": _find, "find-and-release": _find_and_release}


def _time_closed_form(dataset: Dataset, query: PaperQuery, rows: int, runs: int) -> list[Timing]:
    timings = []
    for algorithm, choose in _CHOICES.items():
        seconds = []
        for _ in range(runs):
            start = time.perf_counter()
            choose(dataset.risk(query.sql))
            seconds.append(time.perf_counter() - start)
        timings.append(Timing("closed form", algorithm, query.name, rows, tuple(seconds)))
    return timings


def _time_recompute(dataset: Dataset, query: PaperQuery, rows: int, runs: int, limit: float) -> list[Timing]:
    """Time both algorithms where everybody's contributions are measured by recomputing; return a Timing for each.

    A run measures the contributions once; the seconds of this count for both algorithms.
    After the first run, none is started that is expected to end more than ``limit`` seconds after the beginning.
    """
    spent: dict[Algorithm, list[float]] = {algorithm: [] for algorithm in _CHOICES}
    begun = time.perf_counter()
    for _ in range(runs):
        start = time.perf_counter()
        risk = recompute_risk(dataset, query.sql)
        measured = time.perf_counter() - start
        for algorithm, choose in _CHOICES.items():
            start = time.perf_counter()
            choose(risk)
            spent[algorithm].append(measured + time.perf_counter() - start)
        if time.perf_counter() - begun + measured > limit:
            break
    return [Timing("recompute", algorithm, query.name, rows, tuple(seconds)) for algorithm, seconds in spent.items()]


def _expect_next(seconds: float, rows: int, sizes: Sequence[int]) -> float:
    """Return an estimate of the seconds of one run at the next larger size; infinite if there is none.

    ``seconds``: the mean of the runs at the size ``rows``. The time is taken to grow like the size to the power of 1.5.
    It is not the square of the size, because the number of distinct records grows more slowly than the number of all.
    """
    larger = [size for size in sizes if size > rows]
    return seconds * (min(larger) / rows) ** 1.5 if larger else math.inf
