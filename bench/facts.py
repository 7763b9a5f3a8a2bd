"""Measure a search for facts (B1) over a wide table, relative to one plain scan of each column, in one run.

A sixth of the columns each: decimals, small whole numbers, heavy tails, dates, texts, large whole numbers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from decimal import Decimal
from pathlib import Path

import duckdb

from dosimeter import Dataset
from dosimeter.release import plan_search
from dosimeter.release.facts.spending import Drawing

GOAL = 3.0
KINDS = (
    ("ROUND(RANDOM() * 1e{0}, 2)", "AVG"),
    ("(RANDOM() * 1{0})::INT", "AVG"),
    ("ROUND(EXP(RANDOM() * 1{0}), 2)", "AVG"),
    ("DATE '1990-01-01' + (RANDOM() * 900{0})::INT", "MAX"),
    ("'v' || (RANDOM() * 1{0})::INT", "MAX"),
    ("(RANDOM() * 1e6)::BIGINT + {0}", "AVG"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=60)
    parser.add_argument("--form", choices=("parquet", "csv"), default="parquet")
    given = parser.parse_args()
    connection = duckdb.connect()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"wide.{given.form}"
        written = [f"{KINDS[at % 6][0].format(at % 7)} AS c{at}" for at in range(given.columns)]
        connection.execute(f"COPY (SELECT {', '.join(written)} FROM RANGE({given.rows})) TO '{path}'")
        begun = time.perf_counter()
        for at in range(given.columns):
            connection.execute(f"SELECT {KINDS[at % 6][1]}(c{at}) FROM '{path}'").fetchall()
        plain = time.perf_counter() - begun
        with Dataset.open(path) as bare:
            declared = bare.declare(unit="row")
        search = plan_search(declared, spend=Decimal(given.columns), delta=1e-9)
        with Dataset.open(path, schema=declared) as dataset:
            begun = time.perf_counter()
            facts = list(Drawing(dataset.engine, search, lambda words: None).list_facts())
            found = time.perf_counter() - begun
    print(json.dumps({
        "rows": given.rows, "columns": given.columns, "form": given.form, "facts": len(facts), "plain_seconds": plain,
        "found_seconds": found, "ratio": found / plain, "goal": GOAL,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
