"""Commands that charge, release, and read the books: release, ledger."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.cli import options as o
from dosimeter.cli.running import run_with_progress
from dosimeter.dataset import Dataset
from dosimeter.errors import DatasetStopped, OptionError
from dosimeter.planning import Look

if TYPE_CHECKING:
    from dosimeter.ledger import Account, Ledger
    from dosimeter.release import Answer

LedgerTarget = Annotated[str, typer.Option("--ledger", metavar="L", help="The ledger: a file, or a postgresql:// URL.")]


def release(
    data: o.Data,
    sql: o.Sql,
    ledger: LedgerTarget,
    epsilon: Annotated[float | None, typer.Option("--epsilon", metavar="E", help="Release at this fixed ε.")] = None,
    prefer: Annotated[
        str | None,
        typer.Option("--prefer", metavar="P", help="Find ε from a preference (algorithm 1); ε stays hidden."),
    ] = None,
    svt: Annotated[
        float | None, typer.Option("--svt", metavar="EPS", help="Find and release ε: the budget of the noisy test.")
    ] = None,
    variance: Annotated[
        float | None,
        typer.Option("--variance", metavar="TAU", help="With --svt: the threshold on the normalised RDR's variance."),
    ] = None,
    selection: Annotated[
        o.SelectionName, typer.Option("--selection", help="With --svt: one noisy number, or the paper's sparse vector.")
    ] = o.SelectionName.SHARP,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="paper|budget:E", help="How a new account may be spent.")
    ] = None,
    delta_total: Annotated[
        float | None, typer.Option("--delta-total", metavar="D", help="A new account's δ_g; default min(100/n², 1/n).")
    ] = None,
    max_epsilon: Annotated[
        float | None, typer.Option("--max-epsilon", metavar="E", help="A new account's cap on the ε of one query.")
    ] = None,
    analyst: Annotated[str | None, typer.Option("--analyst", metavar="NAME", help="Who asks, for the record.")] = None,
    purpose: Annotated[str | None, typer.Option("--purpose", metavar="TEXT", help="What for, for the record.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Controller only: what would happen. Charges and releases nothing.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Answer anew, and charge anew, what was answered before.")
    ] = False,
    continued: Annotated[
        bool, typer.Option("--continue", help="The data changed, the people are the same: the account goes on.")
    ] = False,
    other_people: Annotated[
        bool,
        typer.Option("--other-people", help="A new account: those of version 0.1.0 not used since hold other people."),
    ] = False,
    clamp: Annotated[
        bool, typer.Option("--clamp", help="Post-processing: counts to 0 or more, AVG, MIN, MAX … to their bounds.")
    ] = False,
    schema: o.SchemaFile = None,
    mechanism: o.Mechanism = o.MechanismName.LAPLACE,
    delta: o.Delta = None,
    calibration: o.Calibration = None,
    indicator: o.Indicator = o.IndicatorName.BOUND,
    candidates: o.Candidates = None,
    groups: o.Groups = o.GroupsName.DECLARED,
    method: o.Method = o.MethodName.CLOSED_FORM,
    sensitivity: o.Sensitivity = None,
    min_rows: o.MinRows = None,
    table: o.Table = None,
    engine: o.EngineName = None,
    delimiter: o.Delimiter = None,
    encoding: o.Encoding = None,
    null: o.Null = None,
    json: o.Json = False,
) -> int:
    """Charge the ledger and release an answer. Prints what the analyst may see, and only that."""
    from dosimeter.ledger import Ledger
    from dosimeter.planning import note_singled_out
    from dosimeter.release import ReleaseOrder, Terms, preview_release
    from dosimeter.release import release as release_answer

    look = Look(
        mechanism.value, delta, calibration.value if calibration else None, indicator.value, candidates,
        groups.value, method.value, sensitivity, min_rows,
    )  # fmt: skip
    order = ReleaseOrder(
        epsilon=epsilon, prefer=prefer, svt=svt, variance=variance, selection=selection.value,
        terms=Terms(policy, delta_total, max_epsilon), analyst=analyst, purpose=purpose,
        again=again, continued=continued, other_people=other_people, clamp=clamp,
    )  # fmt: skip
    if schema is None:
        raise OptionError(
            "A release needs a reviewed schema: --schema FILE. Draft one with: dosimeter schema DATA -o FILE"
        )
    query = o.read_sql(sql)
    opened = Dataset.open(
        data, schema=schema, table=table, engine=engine, delimiter=delimiter, encoding=encoding, null=null
    )
    with opened as dataset, Ledger.open(ledger) as books:
        if dry_run:
            document = run_with_progress(
                dataset.engine, "Looking ahead", lambda _: preview_release(dataset, query, look, order, books)
            )
            _print_dry_run(document, json=json)
            return 0 if document["granted"] else 1
        try:
            answer = run_with_progress(
                dataset.engine, "Releasing", lambda _: release_answer(dataset, query, look, order, books)
            )
        except DatasetStopped as stopped:
            return _print_stopped(stopped, json=json)
        plan = dataset.plan(query, look.plan_options())
        columns = [output.name for output in plan.outputs if output.is_aggregate]
    _print_answer(answer, columns, json=json)
    for note in (*answer.notes, *note_singled_out(plan)):
        sys.stderr.write(f"For the controller: {note}\n")
    return 0 if answer.status == "released" else 1


def _print_stopped(stopped: DatasetStopped, *, json: bool) -> int:
    """Print what the analyst may see of a stopped dataset, and tell the controller what to do on standard error."""
    if json:
        o.print_json({"status": "stopped"})
    else:
        typer.echo("Stopped.")
        sys.stderr.write(f"For the controller: {stopped}. --dry-run shows whether it still fails, and why.\n")
    return stopped.exit_code


def _print_answer(answer: Answer, columns: Sequence[str], *, json: bool) -> None:
    if json:
        o.print_json(answer.describe())
        return
    from dosimeter.cli.report import print_answer

    print_answer(answer, columns)
    note = _note_for_controller(answer)
    if note is not None:
        sys.stderr.write(f"For the controller: {note}\n")


def _note_for_controller(answer: Answer) -> str | None:
    """What the books did. Never on standard output: that is the analyst's."""
    if answer.status == "denied":
        return "dosimeter find or --dry-run shows why."
    if answer.repeated:
        return f"this was answered before (entry {answer.entry}). The same numbers again: it cost nothing."
    if answer.earlier is not None:
        return f"this query was answered before with other settings (entry {answer.earlier}). This is a new charge."
    return None


def _print_dry_run(document: dict[str, Any], *, json: bool) -> None:
    if json:
        o.print_json(document)
        return
    from dosimeter.cli.report import print_dry_run

    print_dry_run(document)


# ---------------------------------------------------------------- the ledger


def ledger(
    target: Annotated[str, typer.Argument(metavar="L", help="The ledger: a file, or a postgresql:// URL.")],
    action: Annotated[
        o.LedgerAction, typer.Argument(help="show, verify, export, answers or clear.")
    ] = o.LedgerAction.SHOW,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[DATASET]", help="answers, clear: which account; clear: it may answer releases again."),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option("--head", metavar="DIGEST", help="verify: a head noted earlier, to find a cut-off tail."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", metavar="NAME", help="show: only the account of this dataset.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="show: save the readings as a staircase, .svg, .png or .html."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="export: write to a file instead of the screen."),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="clear: who decided it, for the record.")
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="clear: why it may go on, for the record.")
    ] = None,
    json: o.Json = False,
) -> int:
    """Readings and entries; whether anything was altered; all records as JSON Lines; the end of a stop.

    For the controller, but for what answers prints: every analyst may see that.
    """
    from dosimeter.ledger import Ledger

    if head is not None and action is not o.LedgerAction.VERIFY:
        raise OptionError("--head goes with verify.")
    if plot is not None and action is not o.LedgerAction.SHOW:
        raise OptionError("--plot goes with show.")
    if dataset is not None and action is not o.LedgerAction.SHOW:
        raise OptionError("--dataset goes with show.")
    if output is not None and action is not o.LedgerAction.EXPORT:
        raise OptionError("-o goes with export.")
    if action is not o.LedgerAction.CLEAR and (by is not None or reason is not None):
        raise OptionError("--by and --reason go with clear.")
    if name is not None and action not in (o.LedgerAction.CLEAR, o.LedgerAction.ANSWERS):
        raise OptionError(f"{action.value} takes no dataset here. To show one account only, use --dataset {name}.")
    o.check_writable(plot, (".svg", ".png", ".html"), "a picture is saved")
    o.check_writable(output)
    with Ledger.open(target, create=False) as books:
        match action:
            case o.LedgerAction.VERIFY:
                return _verify(books, head, json=json)
            case o.LedgerAction.EXPORT:
                _export(books, output)
            case o.LedgerAction.ANSWERS:
                _print_answers(books, name, json=json)
            case o.LedgerAction.CLEAR:
                _clear(books, name, by, reason, json=json)
            case _:
                _show(books, dataset, plot, json=json)
    return 0


def _print_answers(books: Ledger, dataset: str | None, *, json: bool) -> None:
    """Print the released answers of a dataset as every analyst may see them: no names, no purposes."""
    if dataset is None:
        raise OptionError("answers needs the dataset: dosimeter ledger L answers DATASET")
    account = books.account(dataset)
    if account is None:
        known = ", ".join(books.datasets()) or "none yet"
        raise OptionError(f"The ledger has no account of {dataset!r}. Its accounts: {known}.")
    if json:
        o.print_json({"dataset": dataset, "answers": list(account.released_answers())})
        return
    from dosimeter.cli.report import print_answers

    print_answers(account.released_answers())


def _clear(books: Ledger, dataset: str | None, by: str | None, reason: str | None, *, json: bool) -> None:
    if dataset is None or by is None or reason is None:
        raise OptionError(
            "clear needs the dataset, who clears it, and why: dosimeter ledger L clear DATASET --by NAME --reason TEXT"
        )
    incident = books.clear(dataset, by=by, reason=reason)
    if json:
        o.print_json({"dataset": dataset, "stopped": None, "cleared": incident.describe()})
        return
    typer.echo(f"{dataset} answers releases again. It was stopped at {incident.at}: {incident.words}.")


def _show(books: Ledger, dataset: str | None, plot: Path | None, *, json: bool) -> None:
    accounts, stops = books.accounts(), books.stopped_datasets()
    if dataset is not None:
        accounts = tuple(account for account in accounts if account.dataset == dataset)
        stops = tuple(incident for incident in stops if incident.dataset == dataset)
        if not accounts and not stops:
            known = ", ".join(books.datasets()) or "none yet"
            raise OptionError(f"The ledger has no account of {dataset!r}. Its accounts: {known}.")
    if plot is not None:
        _save_staircase(accounts, plot)
    if json:
        o.print_json(books.describe(dataset))
        return
    from dosimeter.cli.report import print_ledger, print_stops

    print_stops(stops)
    if accounts or not stops:
        print_ledger(accounts)


def _save_staircase(accounts: Sequence[Account], path: Path) -> None:
    from dosimeter.show.charts import save_chart, staircase_chart

    if len(accounts) > 1:
        names = ", ".join(account.dataset for account in accounts)
        raise OptionError(f"A staircase shows one account, and there are several. Choose with --dataset: {names}.")
    steps = [(entry.at, float(entry.reading)) for account in accounts for entry in account.entries]
    save_chart(staircase_chart(steps), path)


def _verify(books: Ledger, head: str | None, *, json: bool) -> int:
    result = books.verify(head)
    if json:
        o.print_json(result.describe())
    elif result.intact:
        typer.echo(f"Intact: {result.records} records. Head {result.head}")
    else:
        assert result.first_bad is not None
        typer.echo(f"Not intact: record {result.first_bad[0]}: {result.first_bad[1]}")
    return 0 if result.intact else 1


def _export(books: Ledger, output: Path | None) -> None:
    if output is None:
        books.export(sys.stdout)
        return
    try:
        with output.open("w", encoding="utf-8") as stream:
            books.export(stream)
    except OSError:
        raise o.unwritable(output) from None
