"""The small tables and schemas that recorded commands read, all made here: the same bytes on every run.

``FILES`` write them into the current directory. ``STEPS`` are what happens between two commands of a story.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.cli.small_shop import break_content
from tests.small_tables import (
    PATIENTS,
    PATIENTS_COLUMNS,
    PATIENTS_SCHEMA,
    SHOP_SCHEMA,
    write_csv,
    write_patients,
    write_shop,
)

SOURCES = Path(__file__).parents[2] / "src"
Row = Sequence[object]


def write_text(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")


# ---------------------------------------------------------------- one row for each person


def make_shop(last: int = 49) -> None:
    write_shop(Path(), last)
    write_text("shop.toml", SHOP_SCHEMA)


def make_shop_variants() -> None:
    """Write schemas of the shop that are not reviewed, too narrow, without bounds, or wrong."""
    make_shop()
    write_text("draft.toml", SHOP_SCHEMA.replace("reviewed = true", "reviewed = false"))
    write_text("narrow.toml", SHOP_SCHEMA.replace("[0, 50]", "[5, 20]").replace('"Bern", ', ""))
    write_text("boundless.toml", SHOP_SCHEMA.replace(", bounds = [0, 50]", "").replace(", resolution = 0.1", ""))
    write_text("wrong.toml", SHOP_SCHEMA.replace('type = "integer"', 'type = "whole"'))
    write_text("query.sql", "SELECT COUNT(*) AS n\nFROM shop -- all of them\n")


def make_patients() -> None:
    write_patients(Path())
    write_text("patients.toml", PATIENTS_SCHEMA)


def make_clinic() -> None:
    """Copy the bundled clinic, wherever the package keeps it."""
    for name in ("clinic.csv", "clinic.toml"):
        (found,) = SOURCES.rglob(name)
        shutil.copyfile(found, name)


# ---------------------------------------------------------------- several rows for each person, and joined tables

VISITS = """table = "visits"
individuals = 100
unit = "patient_id"
max_rows_per_unit = 5
row_key = "visit_id"
reviewed = true

[columns]
patient_id = { type = "text", identifying = true }
visit_id = { type = "integer" }
age = { type = "integer", bounds = [0, 120] }
sex = { type = "category", values = ["Female", "Male", "Other"] }
smoker = { type = "boolean" }
cost = { type = "decimal", bounds = [0, 5000], resolution = 0.01 }
born = { type = "date", bounds = [1990-01-01, 1992-12-31] }
arrived = { type = "timestamp", bounds = [2024-01-01T00:00:00, 2024-12-31T23:59:59] }
note = { type = "text" }
clinic_id = { type = "integer", bounds = [1, 20] }

[tables.clinics]
source = "clinics.csv"
public = true
key = "clinic_id"
columns.clinic_id = { type = "integer", bounds = [1, 20] }
columns.region = { type = "category", values = ["north", "south"] }

[tables.labs]
source = "labs.csv"
unit = "patient_id"
max_rows_per_unit = 2
row_key = "lab_id"
columns.patient_id = { type = "text" }
columns.lab_id = { type = "integer" }
columns.score = { type = "integer", bounds = [0, 10] }

[tables.persons]
source = "persons.csv"
unit = "patient_id"
max_rows_per_unit = 1
columns.patient_id = { type = "text" }
columns.blood = { type = "category", values = ["A", "B", "O"] }
columns.height = { type = "integer", bounds = [50, 250] }
"""


def make_visits() -> None:
    """Write 150 visits of 37 patients, some with more than count, and three tables to join."""
    rows = []
    for visit in range(150):
        patient = visit * visit % 61
        rows.append(
            (
                None if visit == 140 else f"p{patient}",
                visit,
                None if visit % 17 == 3 else 15 + patient * 7 % 80,
                None if visit % 23 == 5 else ("Female", "Male", "Other")[patient % 3 if patient % 9 else 2],
                None if visit % 29 == 1 else str(patient % 4 == 0).lower(),
                None if visit % 13 == 2 else f"{visit * 37 % 900}.{visit * 7 % 100:02d}",
                f"199{patient % 3}-{patient % 12 + 1:02d}-{patient % 28 + 1:02d}",
                f"2024-{visit % 12 + 1:02d}-{visit % 28 + 1:02d} {visit % 24:02d}:{visit * 11 % 60:02d}:00",
                None if visit % 5 == 0 else ("asthma", "ox bite", "old asthma", "none")[visit % 4],
                visit % 7 + 1,
            )
        )
    write_csv(Path("visits.csv"), "patient_id,visit_id,age,sex,smoker,cost,born,arrived,note,clinic_id", rows)
    write_csv(Path("clinics.csv"), "clinic_id,region", [(at, "north" if at < 4 else "south") for at in range(1, 7)])
    write_csv(Path("labs.csv"), "patient_id,lab_id,score", [(f"p{at * 3 % 50}", at, at % 11) for at in range(70)])
    write_csv(Path("persons.csv"), "patient_id,blood,height", [(f"p{at}", "ABO"[at % 3], 150 + at) for at in range(61)])
    write_text("visits.toml", VISITS)


# ---------------------------------------------------------------- odd cells, and other kinds of sources

ODD = """table = "odd"
individuals = 12
reviewed = true

[columns]
code = { type = "category", values = ["a", "b"] }
size = { type = "integer", bounds = [0, 10] }
price = { type = "decimal", bounds = [0, 5], resolution = 0.5 }
open = { type = "boolean" }
day = { type = "date", bounds = [2024-01-01, 2024-12-31] }
moment = { type = "timestamp", bounds = [2024-01-01T00:00:00, 2024-12-31T23:59:59] }
"""
ODD_ROWS = [
    ("a", "1", "1.5", "true", "2024-01-31", "2024-01-31 12:00:00"),
    ("b", "007", ".5", "no", "2024-2-5", "2024-02-05"),
    ("c", "12.5", "nan", "maybe", "20222-01-01", "2024-02-05 12:00:00+02:00"),
    ("a", "1e3", "inf", "2", "31.12.2024", "2024-12-31 24:00:00"),
    ("", "-7", "1_0.5", "on", "", ""),
    ("b", "99", "-2e-1", "Y", "2019-01-01", "2030-01-01 00:00:00"),
    ("a", "5.0", "1.26", "t", "2024-12-31", "2024-12-31T23:59:59.5Z"),
    ("B", "1_000", "0x1p3", "0", "2024-12-31 00:00", "yesterday"),
]


def make_odd() -> None:
    """Write cells of every kind that is read, and of every kind that is not."""
    write_csv(Path("odd.csv"), "code,size,price,open,day,moment", ODD_ROWS)
    write_text("odd.toml", ODD)


def make_sources() -> None:
    """Write the patients again in several files, in other letters, and in a database."""
    make_patients()
    header = PATIENTS_COLUMNS
    rows = [["-" if cell is None else "Zoë" if cell == "Zara" else cell for cell in row] for row in PATIENTS]
    write_csv(Path("german.csv"), header.replace(",", ";"), rows, delimiter=";", encoding="latin-1")
    for number, part in enumerate((PATIENTS[:2], PATIENTS[2:])):
        write_csv(Path(f"part-{number}.csv"), header, part)
    for name in ("german", "parts", "copy"):
        write_text(f"{name}.toml", PATIENTS_SCHEMA.replace('"patients"', f'"{name}"'))
    with closing(duckdb.connect("patients.db")) as database:
        database.execute(
            "CREATE TABLE copy (name VARCHAR, age INTEGER, ward VARCHAR, pay DECIMAL(6, 2), ill BOOLEAN, since DATE)"
        )
        database.executemany("INSERT INTO copy VALUES (?, ?, ?, ?, ?, ?)", PATIENTS)


def write_bad_bytes(path: Path) -> Path:
    """Write a Parquet file whose third name is not UTF-8: only a query that reads names stumbles over it."""
    raw = pa.array([b"Ann", b"Bob", b"\xff\xfe", b"Eve"], pa.binary())
    names = pa.StringArray.from_buffers(4, raw.buffers()[1], raw.buffers()[2])
    pq.write_table(pa.table({"x": [1, 2, 3, 4], "name": names}), path)
    return path


def make_bad_bytes() -> None:
    write_bad_bytes(Path("damaged.parquet"))
    write_text(
        "damaged.toml",
        'table = "damaged"\nindividuals = 10\nreviewed = true\n\n[columns]\n'
        'x = { type = "integer", bounds = [0, 5] }\nname = { type = "text" }\n',
    )


def make_server() -> None:
    write_text(
        "dosimeter.toml",
        'database = "web.db"\nsecret_file = "secret"\n\n[datasets.shop]\ndata = "shop.csv"\nschema = "shop.toml"\n'
        'policy = "budget:1"\nalgorithm = "fixed"\n',
    )


# ---------------------------------------------------------------- between two commands


def tamper_with_audit() -> None:
    with closing(sqlite3.connect("web.db")) as raw:
        names = [name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
        for name in names:
            raw.execute(f'DROP TRIGGER "{name}"')
        raw.execute("UPDATE web_audit SET detail = 'nobody' WHERE id = 2")
        raw.commit()


FILES: dict[str, Callable[[], None]] = {
    "bad bytes": make_bad_bytes,
    "clinic": make_clinic,
    "odd": make_odd,
    "patients": make_patients,
    "server": make_server,
    "shop": make_shop,
    "shop variants": make_shop_variants,
    "sources": make_sources,
    "visits": make_visits,
}
STEPS: dict[str, Callable[[], None]] = {
    "another customer pays": lambda: make_shop(last=12),
    "somebody changes the ledger": lambda: break_content(Path("ledger.db")),
    "somebody changes the audit log": tamper_with_audit,
    "the damaged file is mended": lambda: pq.write_table(
        pa.table({"x": [1, 2, 3, 4], "name": ["Ann", "Bob", "Cleo", "Eve"]}), "damaged.parquet"
    ),
    "the shop is copied": lambda: (shutil.copyfile("shop.csv", "store.csv"), None)[1],
    "the copy gets a schema": lambda: write_text("store.toml", SHOP_SCHEMA.replace('"shop"', '"store"')),
}
