"""``dosimeter summary``: one table about every column, released as one answer with one charge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dosimeter.cli import options as o
from dosimeter.cli.progress import run_with_progress
from dosimeter.cli.release import note_ledger, print_stopped, show_dry_run, tell_controller, tell_outcome
from dosimeter.cli.writing import Inputs, confirm_written, print_json
from dosimeter.errors import DatasetStopped
from dosimeter.options import ReleaseOptions, SourceOptions

if TYPE_CHECKING:
    from dosimeter.summary import Summary


@click.command("summary")
@o.DATA
@o.NEEDED_SCHEMA
@o.NEEDED_LEDGER
@click.option(
    "--epsilon", type=float, required=True, metavar="E", help="ε of the whole table; all its numbers share it."
)
@click.option("--columns", metavar="LIST", help="Only these columns, separated by commas.")
@o.DRY_RUN
@o.takes(options=o.TERMS, source=o.SOURCE)
@click.option(
    "-o", "--output", metavar="FILE", type=o.PATH,
    help="Write the table: .html, a page to read; .csv or .parquet, and a .json beside it.",
)  # fmt: skip
@o.JSON
def summary(
    data: str,
    schema: Path,
    ledger: str,
    epsilon: float,
    columns: str | None,
    dry_run: bool,
    options: ReleaseOptions,
    source: SourceOptions,
    output: Path | None,
    json: bool,
) -> int:
    """Release one table about every column, charged once: how many values, mean, quartiles, most frequent values.

    What it asks is written from the schema alone, as one SQL query; --dry-run shows everybody's risk and the cost.
    """
    from dosimeter.ledger import Ledger
    from dosimeter.release import split_options
    from dosimeter.summary import save_summary

    way, others = split_options(replace(options, epsilon=epsilon))
    if output is not None:
        _check_output(output, Inputs(data=data, schema=schema, ledger=ledger))
    with o.open_data(data, schema, source) as dataset, Ledger.open(ledger) as open_ledger:
        names = o.split_list(columns)
        if dry_run:
            query = dataset.summary_query(columns=names)
            return show_dry_run(dataset.engine, lambda: query.dry_run(open_ledger, way, **others), json=json)
        try:
            released = run_with_progress(
                dataset.engine,
                "Releasing",
                lambda: dataset.summary(open_ledger, epsilon=epsilon, columns=names, **others),
                tell=lambda found: tell_outcome(None if found is None else found.answer),
            )
        except DatasetStopped as stopped:
            return print_stopped(stopped, json=json)
        _print_summary(released, ledger, json=json)
        if output is not None and released.answer.status == "released":
            confirm_written(*save_summary(released, open_ledger, output))
    tell_controller(*released.answer.notes)
    return 0 if released.answer.status == "released" else 1


def _check_output(output: Path, inputs: Inputs) -> None:
    from dosimeter.release import check_target, find_companion
    from dosimeter.summary import ENDINGS

    check_target(output, ENDINGS)
    inputs.check_apart(output, *([] if output.suffix.lower() == ".html" else [find_companion(output)]))


def _print_summary(released: Summary, ledger: str, *, json: bool) -> None:
    if json:
        print_json(released.describe())
        return
    from dosimeter.cli.printing import print_summary

    print_summary(released)
    tell_controller(*note_ledger(released.answer, ledger))
