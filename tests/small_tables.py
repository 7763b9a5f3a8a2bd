"""Two small tables that can be counted by hand, with their schemas, for whatever reads files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

SHOP_SCHEMA = """table = "shop"
individuals = 30
reviewed = true

[columns]
city = { type = "category", values = ["Bern", "Rome", "Ulm"] }
paid = { type = "integer", bounds = [0, 50] }
weight = { type = "decimal", bounds = [0, 10], resolution = 0.1 }
"""
PATIENTS_SCHEMA = """table = "patients"
individuals = 6
reviewed = true

[columns]
name = { type = "text", identifying = true }
age = { type = "integer", bounds = [0, 100] }
ward = { type = "category", values = ["east", "north", "west"] }
pay = { type = "decimal", bounds = [0, 100], resolution = 0.25 }
ill = { type = "boolean" }
since = { type = "date", bounds = [2020-01-01, 2021-12-31] }
"""
PATIENTS_COLUMNS = "name,age,ward,pay,ill,since"
PATIENTS = [
    ("Ann", 30, "east", "10.50", "true", "2020-01-01"),
    ("Bob", 40, "east", "20.25", "false", "2020-06-01"),
    ("Cleo", 40, "west", "30.00", "true", "2021-01-01"),
    ("Dan", None, "west", None, "false", None),
    ("Zara", 90, "north", "99.75", "true", "2021-12-31"),
]


def write_csv(
    path: Path, header: str, rows: Iterable[Sequence[object]], *, delimiter: str = ",", encoding: str = "utf-8"
) -> Path:
    """None is an empty cell. No cell needs quotes."""
    lines = [delimiter.join("" if cell is None else str(cell) for cell in row) for row in rows]
    path.write_text("\n".join([header, *lines]) + "\n", encoding=encoding)
    return path


def write_patients(folder: Path) -> Path:
    """Write five people of six declared, with dates, decimals, truth values and a row of unknowns."""
    return write_csv(folder / "patients.csv", PATIENTS_COLUMNS, PATIENTS)


def write_shop(folder: Path, last: object = 49) -> Path:
    """Write 25 customers of 30 declared, of whom the last one stands out."""
    rows = [(("Bern", "Rome")[at % 2], at, f"{at % 10}.5") for at in range(24)]
    return write_csv(folder / "shop.csv", "city,paid,weight", [*rows, ("Rome", last, "9.9")])
