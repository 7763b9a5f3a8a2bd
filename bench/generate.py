"""Generate a table that behaves like Adult. Takes a number of rows; writes a Parquet file and its schema beside it.

All 15 columns, with marginals and the dependences that decide how many people a query matches (bench/marginals.toml).
Written in chunks, each from its own seed, so that memory stays small and the rows are the same every time.
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

Indices = NDArray[np.int64]

ROW_GROUP = 122_880  # rows that DuckDB gives to one thread
CHUNK = 4 * ROW_GROUP
SEED = 1996
BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (10_000, 1_500_000),
    "education_num": (1, 16),
    "capital_gain": (0, 99_999),
    "capital_loss": (0, 5_000),
    "hours_per_week": (1, 99),
}
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship",
    "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
)  # fmt: skip
Marginals = dict[str, dict[str, Any]]


def load_marginals() -> Marginals:
    """Return the tables of counts."""
    return tomllib.loads((Path(__file__).parent / "marginals.toml").read_text(encoding="utf-8"))


def draw_indices(random: Generator, weights: list[Any], given: Indices) -> Indices:
    """Draw an index for each row, with the row of weights that ``given`` names."""
    drawn = np.empty(len(given), dtype=np.int64)
    uniform = random.random(len(given))
    for condition, row in enumerate(weights):
        chosen = given == condition
        steps = np.cumsum(row) / np.sum(row)
        drawn[chosen] = np.searchsorted(steps, uniform[chosen], side="right")
    return drawn


def generate_chunk(marginals: Marginals, chunk: int, rows: int) -> pa.RecordBatch:
    """Return one chunk of rows. It depends only on its number and on how many rows are wanted."""
    random = default_rng([SEED, chunk])
    anybody = np.zeros(rows, dtype=np.int64)

    def draw(column: str, given: Indices | None = None) -> Indices:
        weights = marginals[column]["weights"]
        return draw_indices(random, [weights] if given is None else weights, anybody if given is None else given)

    age = 17 + draw("age")
    race = draw("race")
    workclass = draw("workclass")
    education = draw("education", (age >= 23).astype(np.int64))
    marital = draw("marital_status", np.searchsorted(marginals["marital_status"]["age_limits"], age, side="right"))
    sex = draw("sex", marital)
    index: dict[str, Indices] = {
        "workclass": workclass,
        "education": education,
        "marital_status": marital,
        "relationship": draw("relationship", 2 * marital + sex),
        "race": race,
        "sex": sex,
        "native_country": draw("native_country", race),
        "income": draw_incomes(random, marginals, age, education + 1, marital),
    }
    number: dict[str, Indices] = {
        "age": age,
        "fnlwgt": np.exp(random.normal(11.98, 0.63, rows)).clip(*BOUNDS["fnlwgt"]).astype(np.int64),
        "education_num": education + 1,
        "hours_per_week": np.array(marginals["hours_per_week"]["values"])[draw("hours_per_week")],
    }
    for column in ("capital_gain", "capital_loss"):
        number[column] = np.array(marginals[column]["values"])[draw(column, index["income"])]

    # People who have never worked have no occupation.
    idle = [marginals["workclass"]["values"].index(value) for value in ("?", "Never-worked")]
    index["occupation"] = np.where(np.isin(workclass, idle), 0, 1 + draw("occupation"))
    return pa.record_batch([encode_column(marginals, name, index, number) for name in COLUMNS], names=list(COLUMNS))


def draw_incomes(random: Generator, marginals: Marginals, age: Indices, years: Indices, marital: Indices) -> Indices:
    """Draw 1 for an income of more than 50K, likelier with education, marriage and middle age; otherwise 0."""
    constant, by_years, by_marriage, by_age, by_square = marginals["income"]["odds"]
    names = marginals["marital_status"]["values"]
    married = np.isin(marital, [names.index("Married-civ-spouse"), names.index("Married-AF-spouse")])
    decades = age / 10
    odds = constant + by_years * years + by_marriage * married + by_age * decades + by_square * decades**2
    incomes: Indices = (random.random(len(age)) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    return incomes


def list_values(marginals: Marginals, column: str) -> list[str]:
    """Return the values of a category column, in the order of its indices."""
    values: list[str] = marginals[column]["values"]
    return ["?", *values] if column == "occupation" else values


def encode_column(marginals: Marginals, name: str, index: dict[str, Indices], number: dict[str, Indices]) -> pa.Array:
    """Return a column for Parquet: integers as they are, categories as dictionaries."""
    if name in number:
        return pa.array(number[name].astype(np.int32))
    return pa.DictionaryArray.from_arrays(index[name].astype(np.int8), list_values(marginals, name))


def write_schema(marginals: Marginals, rows: int, target: Path) -> None:
    """Write the schema of the generated table."""
    lines = [f'table = "{target.stem}"', f"individuals = {rows}", 'unit = "row"', "reviewed = true"]
    for name in COLUMNS:
        lines += ["", f"[columns.{name}]"]
        if name in BOUNDS:
            lines += ['type = "integer"', f"bounds = {list(BOUNDS[name])}"]
        else:
            values = ", ".join(f'"{value}"' for value in sorted(list_values(marginals, name)))
            lines += ['type = "category"', f"values = [{values}]"]
    target.with_suffix(".toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_table(rows: int, target: Path) -> None:
    """Write the Parquet file, chunk by chunk, and its schema."""
    marginals = load_marginals()
    target.parent.mkdir(parents=True, exist_ok=True)
    sizes = [CHUNK] * (rows // CHUNK) + [rows % CHUNK] * (rows % CHUNK > 0)
    layout = generate_chunk(marginals, 0, 1).schema
    with pq.ParquetWriter(target, layout, compression="zstd", compression_level=1) as writer:
        for chunk, size in enumerate(sizes):
            writer.write_batch(generate_chunk(marginals, chunk, size), row_group_size=ROW_GROUP)
    write_schema(marginals, rows, target)


def main() -> None:
    """Read the options and write the table."""
    parser = argparse.ArgumentParser(description="Generate a table that behaves like Adult, and its schema.")
    parser.add_argument("--rows", type=int, required=True, metavar="N")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.parquet")
    options = parser.parse_args()
    if options.rows < 1:
        parser.error("--rows must be at least 1")
    write_table(options.rows, options.output)
    print(f"{options.output}: {options.rows:,} rows")


if __name__ == "__main__":
    main()
