"""A shop's table, its schema and its ledger in one directory, and the command line over them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from dosimeter.ledger import Ledger
from tests.cli.command_line import Outcome, run_command
from tests.small_tables import SHOP_SCHEMA as SCHEMA
from tests.small_tables import write_shop

COUNT = "SELECT COUNT(*) AS n FROM shop WHERE paid > 20"
FIXED = ("--epsilon", "0.5", "--policy", "paper")


class Shop:
    """A table, its schema and a ledger in one directory, and the command line over them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data, self.schema = directory / "shop.csv", directory / "shop.toml"
        self.ledger = directory / "ledger.db"
        self.write_data()
        self.schema.write_text(SCHEMA, encoding="utf-8")

    def write_data(self, last: str = "49") -> None:
        write_shop(self.directory, last)

    def words(self, sql: str, *options: str) -> list[str]:
        return ["release", str(self.data), sql, "--schema", str(self.schema), "--ledger", str(self.ledger), *options]

    def run(self, *words: object) -> Outcome:
        return run_command(*words)

    def release(self, sql: str, *options: str) -> Outcome:
        return self.run(*self.words(sql, *options))

    def accounts(self) -> list[dict[str, Any]]:
        with Ledger.open(self.ledger, create=False) as ledger:
            assert ledger.verify().intact
            document: dict[str, Any] = ledger.describe()
            return list(document["datasets"])


def read_output(outcome: Outcome) -> str:
    """What a command printed that did what it was asked, and complained of nothing."""
    status, out, err = outcome
    assert (status, err.count("Traceback")) == (0, 0), err
    return out


def break_content(path: Path) -> None:
    """Change a charge in a ledger, as somebody could who has the file."""
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DROP TRIGGER dosimeter_ledger_no_update")
        raw.execute("""UPDATE dosimeter_ledger SET payload = replace(payload, '"0.5"', '"0.1"')""")
        raw.commit()
