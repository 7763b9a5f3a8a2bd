"""Measure how far off order statistics by ranks are, beside OpenDP's own quantile and diffprivlib's, on Adult.

The error that is not exceeded with 95 %, at the same data, bounds and ε: ours by the exact chances of what is drawn,
theirs by repeated draws. A line counts as worse if our error is larger and so many of their draws lie within it that
chance explains it in less than one case of a thousand. Where a library is not installed its column says so. With rows,
also the cost of MEDIAN by group relative to the plain query, in one run.

One line is worse, on purpose: 244 people have the largest capital_gain, which is also its bound, but MAX seeks the
value of the 444th from the top at ε = 0.1 (M5: t = 4·ln(candidates)/ε). Seeking the very end does better where people
share the bound itself, and only there: with t = 0 every value beyond the largest is as likely as it, as the lines with
bounds that nobody reaches show.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from run import generate, median_seconds

from dosimeter import Dataset
from dosimeter.influence import measure_exactly
from dosimeter.planning import plan_query

LINES = (  # the aggregate, its column, the fraction that it stands for, and the upper bound (the lower one is 0)
    ("MEDIAN(age)", "age", 0.5, 120),
    ("QUANTILE_CONT(age, 0.75)", "age", 0.75, 120),
    ("QUANTILE_CONT(age, 0.99)", "age", 0.99, 120),
    ("MIN(age)", "age", 0.0, 120),
    ("MAX(age)", "age", 1.0, 120),
    ("MEDIAN(hours_per_week)", "hours_per_week", 0.5, 120),
    ("QUANTILE_CONT(capital_gain, 0.95)", "capital_gain", 0.95, 99_999),
    ("MAX(capital_gain)", "capital_gain", 1.0, 99_999),
    ("MAX(capital_gain)", "capital_gain", 1.0, 200_000),
)
EPSILONS = (1.0, 0.1)
GROUPED = "SELECT marital_status, MEDIAN(age) FROM adult GROUP BY marital_status"
Draw = Callable[[np.ndarray, int, float, float], float]  # values, upper bound, fraction, ε → one draw


def find_error(errors: Sequence[float] | np.ndarray, chances: np.ndarray | None = None) -> float:
    """Return the smallest error that is not exceeded with 95 %."""
    order = np.argsort(errors)
    weights = np.full(len(errors), 1 / len(errors)) if chances is None else chances
    upto = np.cumsum(weights[order])
    place = min(int(np.searchsorted(upto, 0.95 - 1e-12)), len(order) - 1)
    return float(np.asarray(errors)[order][place])


def measure_ours(dataset: Dataset, aggregate: str, exact: float, epsilon: float) -> tuple[float, float]:
    """Return the error that is not exceeded with 95 %, and the chance, at least 95 %, that it is not."""
    plan = plan_query(f"SELECT {aggregate} FROM adult", dataset.schema)
    rank = plan.ranks[0]
    counts = rank.count(measure_exactly(plan, dataset.tables, None).columns[0][0])
    values = rank.candidates * float(rank.unit)
    errors, chances = np.abs(values - exact), rank.chances(counts, epsilon)
    error = find_error(errors, chances)
    return error, float(chances[errors <= error].sum())


def load_opendp() -> Draw | str:
    """Return OpenDP's make_private_quantile over the same candidates."""
    try:
        from opendp import domains, measurements, measures, metrics, mod
    except ImportError:
        return "opendp is not installed"
    mod.enable_features("contrib")

    def draw(values: np.ndarray, upper: int, fraction: float, epsilon: float) -> float:
        step = max(1, math.ceil(upper / (2**16 - 1)))
        candidates = sorted({*range(0, upper + 1, step), upper})
        space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.symmetric_distance()

        def build(scale: float) -> Any:
            return measurements.make_private_quantile(
                *space, measures.max_divergence(), candidates=candidates, alpha=fraction, scale=scale
            )

        unit = build(1.0).map(1)  # its loss is inversely proportional to the scale
        return float(build(unit / epsilon)(values.tolist()))

    return draw


def load_diffprivlib() -> Draw | str:
    try:
        quantile = importlib.import_module("diffprivlib.tools").quantile
    except ImportError as error:
        return f"diffprivlib cannot be loaded ({error.name})"

    def draw(values: np.ndarray, upper: int, fraction: float, epsilon: float) -> float:
        try:
            return float(quantile(values.astype(float), fraction, epsilon=epsilon, bounds=(0.0, float(upper))))
        except RuntimeError:  # it finds no candidate where many values are equal
            return math.inf

    return draw


def compare_errors(adult: Path, draws: int) -> list[dict[str, Any]]:
    peers = {"opendp": load_opendp(), "diffprivlib": load_diffprivlib()}
    for name, peer in peers.items():
        if isinstance(peer, str):
            print(f"{name}: {peer}, so its column is empty.")
    lines = []
    for aggregate, column, fraction, upper in LINES:
        facts = {column: {"type": "integer", "bounds": [0, upper]}}
        schema = {"table": "adult", "reviewed": True, "columns": facts}
        with Dataset.open(adult, schema=schema, table="adult") as dataset:
            values = read_column(dataset, column)
            exact = float(np.quantile(values, fraction, method="inverted_cdf"))
            for epsilon in EPSILONS:
                ours, chance = measure_ours(dataset, aggregate, exact, epsilon)
                line: dict[str, Any] = {"query": aggregate, "upper": upper, "epsilon": epsilon, "exact": exact}
                line |= {"dosimeter": ours, "worse": False}
                for name, peer in peers.items():
                    if not isinstance(peer, str):
                        drawn = [peer(values, upper, fraction, epsilon) for _ in range(draws)]
                        errors = np.abs(np.array([round_to_grid(each) for each in drawn]) - exact)
                        line[name] = find_error(errors)
                        line["worse"] |= ours > line[name] and is_unlikely(int((errors <= ours).sum()), draws, chance)
                lines.append(line)
    return lines


def is_unlikely(within: int, draws: int, chance: float) -> bool:
    """Return whether so many draws lie within an error with a chance below 1/1000, if each does with this chance."""
    from scipy.stats import binom

    return bool(binom.sf(within - 1, draws, chance) < 0.001)


def read_column(dataset: Dataset, name: str) -> np.ndarray:
    from sqlglot import exp

    found = dataset.engine.fetch(exp.select(exp.column(name)).from_(dataset.engine.relation()))
    return np.asarray(found.column(0).to_numpy(), dtype=np.int64)


def measure_cost(rows: int, runs: int) -> dict[str, float]:
    """Return the seconds of MEDIAN by group, plain and as an exact vector with its counts, in one process."""
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        data = generate(Path(folder), rows)
        with duckdb.connect() as connection, Dataset.open(data, schema=data.with_suffix(".toml")) as dataset:
            plain = GROUPED.replace("FROM adult", f"FROM read_parquet('{data}')")
            plan = dataset.plan(GROUPED)
            seconds = {
                "plain": median_seconds(lambda: connection.sql(plain).fetchall(), runs),
                "measured": median_seconds(lambda: measure_exactly(plan, dataset.tables, None), runs),
                "risk": median_seconds(lambda: dataset.risk(GROUPED).find("ratio:0.95"), runs),
            }
    return {"rows": rows, **seconds}


def round_to_grid(value: float) -> float:
    """Return an answer as the column has it: all of them are whole numbers."""
    return float(round(value)) if math.isfinite(value) else value


def write_error(error: float | None) -> str:
    return "–" if error is None else f"{error:.4g}" if math.isfinite(error) else "fails"


def main() -> None:
    parser = argparse.ArgumentParser(description="Order statistics by ranks, beside other libraries.")
    parser.add_argument("adult", type=Path, nargs="?", metavar="ADULT.csv", help="skipped where it is missing")
    parser.add_argument("--draws", type=int, default=200, help="of each other library, for each line")
    parser.add_argument("--rows", type=int, default=0, help="also measure the cost of MEDIAN by group at so many rows")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/bench/quantiles.json"))
    chosen = parser.parse_args()
    result: dict[str, Any] = {}
    if chosen.adult is None or not chosen.adult.exists():
        print("Adult's CSV is not there: no errors are compared.")
    else:
        result["errors"] = compare_errors(chosen.adult, chosen.draws)
        columns = f"{'bounds':>12}{'ε':>6}{'exact':>9}{'dosimeter':>12}{'opendp':>12}{'diffprivlib':>13}"
        print(f"{'95 % error of':36}{columns}")
        for line in result["errors"]:
            cells = [write_error(line.get(name)) for name in ("dosimeter", "opendp", "diffprivlib")]
            asked = f"{line['query']:36}{'0 … ' + str(line['upper']):>12}{line['epsilon']:>6g}{line['exact']:>9g}"
            print(f"{asked}{cells[0]:>12}{cells[1]:>12}{cells[2]:>13}")
        worse = [f"{line['query']} at ε = {line['epsilon']:g}" for line in result["errors"] if line["worse"]]
        print(f"Worse on {len(worse)} of {len(result['errors'])} lines{': ' + ', '.join(worse) if worse else ''}.")
    if chosen.rows:
        cost = result["cost"] = measure_cost(chosen.rows, chosen.runs)
        print(
            f"MEDIAN by group at {cost['rows']:,} rows: {cost['measured'] / cost['plain']:.2f} × the plain query to "
            f"release, {cost['risk'] / cost['plain']:.2f} × for risk and find."
        )
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    chosen.output.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
