"""Thirty stays in a hospital, their schema, and short ways to release, preview and read the books over them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dosimeter import Answer, Dataset, Ledger
from dosimeter.ledger import Account
from tests.known import known
from tests.schemas import category, decimal, declare, plain, whole

WARDS = ["burns", "eyes", "hands", "nobody"]
SCHEMA: dict[str, Any] = declare(
    "stays",
    40,
    {
        "ward": category(*WARDS),
        "nights": whole(0, 9),
        "cost": decimal(0, 100, 0.5),
        "day": {"type": "date", "bounds": ["2026-01-01", "2026-01-03"]},
        "urgent": plain("boolean"),
    },
)
ROWS = 30
COLUMNS: dict[str, list[Any]] = {
    "ward": [WARDS[row % 3] for row in range(ROWS)],
    "nights": [row * 7 % 10 for row in range(ROWS)],
    "cost": [(row * 13 % 201) / 2 for row in range(ROWS)],
    "day": [f"2026-01-0{row % 2 + 1}" for row in range(ROWS)],
    "urgent": [row % 10 == 0 for row in range(ROWS)],
}
EXACT = 1e9  # noise of a whole step has a probability below e⁻⁹⁰⁰⁰⁰
WAYS: list[dict[str, Any]] = [
    {"epsilon": 0.5},
    {"prefer": "ratio:0.1"},
    {"svt": 1.0, "variance": 0.9},
]


def make_table(**changes: list[Any]) -> pa.Table:
    columns = {**COLUMNS, **changes}
    table = pa.table(columns)
    return table.set_column(table.column_names.index("day"), "day", table["day"].cast(pa.date32()))


def schema_of(**changes: Any) -> dict[str, Any]:
    from datetime import date

    columns = {**SCHEMA["columns"], "day": {"type": "date", "bounds": [date(2026, 1, 1), date(2026, 1, 3)]}}
    return {**SCHEMA, "columns": columns, **changes}


def account_of(ledger: Ledger) -> Account:
    return known(ledger.account("stays"))


def rows_of(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == "released"
    return known(answer.answer)


def ask(dataset: Dataset, ledger: Ledger, sql: str, **options: Any) -> list[dict[str, Any]]:
    """The exact answer, by the road of a release."""
    return rows_of(dataset.release(sql, ledger=ledger, **{"epsilon": EXACT, "policy": "budget:1e12", **options}))


def preview(dataset: Dataset, ledger: Ledger, sql: str, **options: Any) -> dict[str, Any]:
    return dataset.dry_run(sql, ledger=ledger, **options).describe()
