"""``dosimeter release``: answer a query, charge for it, or say beforehand what that would cost."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dosimeter.cli import options as o
from dosimeter.cli.progress import run_with_progress
from dosimeter.cli.writing import Inputs, confirm_written, print_json
from dosimeter.errors import DatasetStopped, OptionError
from dosimeter.options import LookOptions, ReleaseOptions, SourceOptions
from dosimeter.problems import Surface

if TYPE_CHECKING:
    from dosimeter.engines import Engine
    from dosimeter.release import Answer, DryRun


@click.command("release")
@o.DATA
@o.SQL
@o.NEEDED_LEDGER
@o.takes(options=o.RELEASE)
@o.DRY_RUN
@o.SCHEMA_FILE
@o.takes(look=o.LOOK, source=o.SOURCE)
@click.option(
    "-o", "--output", metavar="FILE", type=o.PATH, help="Write the table: .csv or .parquet, and a .json beside it."
)
@o.JSON
def release(
    data: str,
    sql: str,
    ledger: str,
    options: ReleaseOptions,
    dry_run: bool,
    schema: Path | None,
    look: LookOptions,
    source: SourceOptions,
    output: Path | None,
    json: bool,
) -> int:
    """Charge the ledger and release an answer. Prints what the analyst may see, and only that."""
    from dosimeter.findings import find_aimed, word_all
    from dosimeter.ledger import Ledger
    from dosimeter.query import Query
    from dosimeter.release import split_options

    way, others = split_options(options)
    if schema is None:
        raise OptionError(
            "A release needs a reviewed schema: --schema FILE. Draft one with: dosimeter schema DATA -o FILE"
        )
    if output is not None:
        from dosimeter.release import check_target, find_companion, save_answer

        check_target(output)
        inputs = Inputs(data=data, sql=sql, schema=schema, ledger=ledger)
        inputs.check_apart(output, find_companion(output))
    text = o.read_sql(sql)
    with o.open_data(data, schema, source) as dataset, Ledger.open(ledger) as open_ledger:
        query = Query(dataset, text, look)
        if dry_run:
            return show_dry_run(dataset.engine, lambda: query.dry_run(open_ledger, way, **others), json=json)
        try:
            answer = run_with_progress(
                dataset.engine,
                "Releasing",
                lambda: query.release(open_ledger, way, **others),
                tell=tell_outcome,
            )
        except DatasetStopped as stopped:
            return print_stopped(stopped, json=json)
        _print_answer(answer, query.plan.aggregate_names, ledger, json=json)
        if output is not None and answer.status == "released":
            confirm_written(*save_answer(answer, open_ledger, output))
    tell_controller(*answer.notes, *word_all(find_aimed(query.plan), query.plan.words))
    return 0 if answer.status == "released" else 1


def tell_outcome(answer: Answer | None) -> str:
    """Say what a release that was stopped has left in the ledger. None if the answer is not known yet."""
    if answer is None:
        return (
            "The ledger says whether anything was charged; if the data were being measured, they are stopped until a "
            "controller clears them."
        )
    if answer.repeated:
        return f"Nothing was charged: entry {answer.entry} answered this before."
    if answer.status == "denied":
        return f"The request had been denied: entry {answer.entry} of the ledger."
    return f"The answer had been charged: entry {answer.entry} of the ledger, which repeats it at no further charge."


def print_stopped(stopped: DatasetStopped, *, json: bool) -> int:
    """Print what the analyst may see of a stopped dataset; return the exit status.

    Unless ``json`` is set, tell the controller on standard error what to do.
    """
    if json:
        print_json({"status": "stopped"})
    else:
        click.echo("Stopped.")
        words = stopped.word(Surface.COMMAND_LINE)
        tell_controller(f"{words}. --dry-run shows whether it still fails, and why.")
    return stopped.exit_code


def _print_answer(answer: Answer, columns: Sequence[str], ledger: str, *, json: bool) -> None:
    if json:
        print_json(answer.describe())
        return
    from dosimeter.cli.printing import print_answer

    print_answer(answer, columns)
    tell_controller(*note_ledger(answer, ledger))


def tell_controller(*notes: str) -> None:
    """Print sentences for the controller on standard error, because the analyst sees standard output."""
    for note in notes:
        sys.stderr.write(f"For the controller: {note}\n")


def note_ledger(answer: Answer, ledger: str) -> Iterator[str]:
    """Yield a sentence for the controller about a denial, or about an earlier answer to the same query, if any.

    It names where the reason stands, and never the reason: reading the ledger costs nothing and is no look at the data.
    """
    if answer.status == "denied":
        command = f"dosimeter ledger {'LEDGER' if '://' in ledger else shlex.quote(ledger)}"
        # of a first request that opened no account, only the record of its end has the reason
        yield f"{command} shows why." if answer.entry else f"{command} export has the reason in its last record."
    elif answer.repeated:
        yield f"this was answered before (entry {answer.entry}). The same numbers again: it cost nothing."
    elif answer.earlier is not None:
        yield f"this query was answered before with other settings (entry {answer.earlier}). This is a new charge."


def show_dry_run(engine: Engine, look_ahead: Callable[[], DryRun], *, json: bool) -> int:
    """Print what a release would do, with ``json`` as a document; return the exit status: 0 if it would be granted."""
    found = run_with_progress(engine, "Looking ahead", look_ahead)
    reason = None if found.problem is None else found.problem.word(Surface.COMMAND_LINE)
    document = found.describe() | {"reason": reason}
    if json:
        print_json(document)
    else:
        from dosimeter.cli.printing import print_dry_run

        print_dry_run(found)
    return 0 if found.granted else 1
