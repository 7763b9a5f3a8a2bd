"""``dosimeter dummy``: invented rows that fit a schema, for trying SQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dosimeter.cli import options as o
from dosimeter.cli.writing import Inputs, check_writable, unwritable
from dosimeter.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from dosimeter.schema import Schema


@click.command("dummy")
@o.NEEDED_SCHEMA
@click.option("--rows", metavar="N", type=int, help="How many rows; default 1,000, or as many as the schema allows.")
@click.option("-o", "--output", required=True, metavar="FILE", type=o.PATH, help="The rows: .csv or .parquet.")
@click.option("--force", is_flag=True, help="Replace files that exist.")
def dummy(schema: Path, rows: int | None, output: Path, force: bool) -> int:
    """Invent rows that fit a schema, from the schema alone, for trying SQL. Reads no data.

    Tables that the schema declares for joins are written beside FILE, each in a file of its own name.
    """
    from dosimeter.schema import count_most_rows, load_schema

    facts = load_schema(schema)
    count = min(1_000, count_most_rows(facts)) if rows is None else rows
    files = _name_files(facts, output)
    for path in files.values():
        check_writable(path, (".csv", ".parquet"), "invented rows are written", inputs=Inputs(schema=schema))
        if path.exists() and not force:
            raise OptionError(
                f"{path} exists, and may hold real data. Choose another name or folder, or replace it with --force."
            )
    tables = {path: facts.dummy(count, table=name) for name, path in files.items()}
    for path, table in tables.items():
        _write_table(table, path)
        click.echo(f"Wrote {path}: {table.num_rows:,} invented rows.")
    if not facts.reviewed:
        click.echo(f"· {schema} is not reviewed: its facts may come from the data, and these rows with them.")
    return 0


def _name_files(schema: Schema, output: Path) -> dict[str, Path]:
    """Return the file of each table. Refuse joined tables whose names are no names of files, or that of another."""
    files = {schema.table: output}
    for name in schema.tables:
        path = output.with_name(f"{name}{output.suffix}") if name == Path(name).name else None
        if path is None or path in files.values():
            raise OptionError(
                f"The joined table {name} would be written beside {output.name} under its own name, which cannot be. "
                "Choose another name for FILE, or for the table."
            )
        files[name] = path
    return files


def _write_table(table: pa.Table, path: Path) -> None:
    try:
        if path.suffix.lower() == ".csv":
            from pyarrow import csv

            csv.write_csv(table, path)
        else:
            from pyarrow import parquet

            parquet.write_table(table, path)
    except OSError as error:
        raise unwritable(path, error) from None
