"""A shop's table, its schema and its ledger in one directory, and the command line over them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dosimeter.cli import main
from dosimeter.ledger import Ledger

SCHEMA = """
table = "shop"
individuals = 30
reviewed = true
[columns.city]
type = "category"
values = ["Bern", "Rome", "Ulm"]
[columns.paid]
type = "integer"
bounds = [0, 50]
[columns.weight]
type = "decimal"
bounds = [0, 10]
resolution = 0.1
"""
CITIES = ["Bern", "Rome"]
COUNT = "SELECT COUNT(*) AS n FROM shop WHERE paid > 20"
FIXED = ("--epsilon", "0.5", "--policy", "paper")
Result = tuple[int, str, str]


class Shop:
    """A table, its schema and a ledger in one directory, and the command line over them."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str] | None) -> None:
        self.directory = directory
        self.data, self.schema = directory / "shop.csv", directory / "shop.toml"
        self.ledger = directory / "ledger.db"
        self._capsys = capsys
        self.write_data()
        self.schema.write_text(SCHEMA, encoding="utf-8")

    def write_data(self, last: str = "49", weight: str = "9.9") -> None:
        rows = [f"{CITIES[row % 2]},{row},{row % 10}.5" for row in range(24)]
        self.data.write_text("\n".join(["city,paid,weight", *rows, f"Rome,{last},{weight}"]) + "\n", encoding="utf-8")

    def words(self, sql: str, *options: str) -> list[str]:
        return ["release", str(self.data), sql, "--schema", str(self.schema), "--ledger", str(self.ledger), *options]

    def run(self, *words: str) -> Result:
        assert self._capsys is not None
        self._capsys.readouterr()
        status = main(list(words))
        captured = self._capsys.readouterr()
        return status, captured.out, captured.err

    def release(self, sql: str, *options: str) -> Result:
        return self.run(*self.words(sql, *options))

    def accounts(self) -> list[dict[str, Any]]:
        with Ledger.open(self.ledger, create=False) as ledger:
            assert ledger.verify().intact
            document: dict[str, Any] = ledger.describe()
            return list(document["datasets"])


def break_content(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DROP TRIGGER dosimeter_ledger_no_update")
        raw.execute("""UPDATE dosimeter_ledger SET payload = replace(payload, '"0.5"', '"0.1"')""")
        raw.commit()
