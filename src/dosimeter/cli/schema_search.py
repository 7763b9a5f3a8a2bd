"""``dosimeter schema --spend``: say what it costs to find a schema's facts, confirm, spend, and write the file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dosimeter.cli import options as o
from dosimeter.cli.progress import run_with_progress
from dosimeter.cli.writing import print_json, write_whole
from dosimeter.errors import OptionError
from dosimeter.options import ReleaseOptions, SourceOptions

if TYPE_CHECKING:
    from dosimeter.ledger import RequestCharges
    from dosimeter.release import FactSearch, FoundSchema, ReleaseOrder


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What ``dosimeter schema --spend`` was asked to do. ``declared``: a file whose names and types to take."""

    spend: str
    ledger: str | None
    unit: str | None
    delta: str | None
    keep: float
    columns: Sequence[str] | None
    declared: Path | None
    confirmed: bool
    dry_run: bool
    terms: ReleaseOptions


def search_schema(data: str, asked: SearchOptions, output: Path | None, source: SourceOptions, *, json: bool) -> int:
    """Find a schema's facts by spending ε, and write them to ``output``; or, for a dry run, say what would happen."""
    from dosimeter.dataset import Dataset
    from dosimeter.ledger import Ledger
    from dosimeter.release import Fixed, ReleaseOrder, Terms, plan_search, spend_on_schema

    if asked.ledger is None and not asked.dry_run:
        raise OptionError("--spend charges an account: --ledger L.")
    if asked.unit is None:
        raise OptionError(
            "Say whose privacy is protected: --unit COLUMN, the column that says whose a row is, or --unit row, where "
            "every row is another individual. It is never guessed."
        )
    with o.open_data(data, asked.declared, source) as bare:
        declared = run_with_progress(bare.engine, "Reading types", lambda: bare.declare(unit=str(asked.unit)))
    search = plan_search(declared, spend=asked.spend, delta=asked.delta, keep=asked.keep, columns=asked.columns)
    terms = asked.terms
    order = ReleaseOrder(
        Fixed(float(search.spend)), terms=Terms(terms.policy, terms.delta_total, terms.max_epsilon),
        purpose=terms.purpose, analyst=terms.analyst,
        again=terms.again, continued=terms.continued, other_people=terms.other_people,
    )  # fmt: skip
    if asked.dry_run:
        return _look_ahead(search, order, asked.ledger, json=json)
    if not _confirm(search, confirmed=asked.confirmed, json=json):
        click.echo("Nothing was charged. What is wrong can be put right in a file: --schema FILE.", err=True)
        return 1
    said = ["Opening the data"]
    with Dataset.open(data, schema=declared, **asdict(source)) as dataset, Ledger.open(str(asked.ledger)) as ledger:
        found = run_with_progress(
            dataset.engine,
            lambda: said[-1],
            lambda: spend_on_schema(dataset, search, order, ledger, said.append),
            tell=_tell_outcome,
        )
        account = ledger.summary(search.declared.account_name)
    if account is not None and account.entry_count == 1 and not found.repeated:
        total = f"the new account's δ in all is {float(account.delta_total):g}, and stays so (--delta-total)."
        for note in (total, *account.notes):
            sys.stderr.write(f"For the controller: {note}\n")
    if found.schema is None:
        click.echo(f"Denied: the account does not allow it. dosimeter ledger {asked.ledger} shows why.", err=True)
        return 1
    if output is not None:
        write_whole(output, found.text)
    if json:
        from dosimeter.cli.schema import describe_schema

        print_json(describe_schema(found.text))
    elif output is None:
        click.echo(found.text, nl=False)
    else:
        _print_found(found, output)
    return 0


def _tell_outcome(found: FoundSchema | None) -> str:
    if found is None:
        return "The ledger says whether anything was charged; the same command takes it up at no further charge."
    return f"The facts had been charged: entry {found.entry} of the ledger. The same command gives them at no charge."


def _look_ahead(search: FactSearch, order: ReleaseOrder, path: str | None, *, json: bool) -> int:
    """Print what the search would cost, and what each fact would be worth. Reads no data and charges nothing."""
    from dosimeter.ledger import Ledger
    from dosimeter.release import expect_search, find_refusal, prepare_search

    prepared = prepare_search(search, order)
    if path is None or ("://" not in path and not Path(path).exists()):
        charges = expect_search(None, prepared)
    else:
        with Ledger.open(path, create=False) as ledger:
            charges = expect_search(ledger, prepared)
    refused = None if charges is None else find_refusal(charges, (float(search.spend),))
    if json:
        print_json({
            "epsilon": float(search.spend), "delta": float(search.delta), "granted": refused is None,
            "facts": [asdict(line) for line in search.list_worth()],
        })  # fmt: skip
    else:
        _print_worth(search, charges)
        if refused is not None:
            click.echo("The account would refuse it: its budget, or its δ, does not allow as much.")
    return 0 if refused is None else 1


def _confirm(search: FactSearch, *, confirmed: bool, json: bool) -> bool:
    """Show what is declared, ask, and return whether the answer is yes. Refuses where nobody can be asked."""
    if confirmed:
        return True
    if json or not sys.stdin.isatty():
        raise OptionError(
            "What is declared has to be confirmed: names, types and the unit. Look with --dry-run, then say --yes."
        )
    _print_worth(search, None)
    return click.confirm(f"Is what is declared right, and may ε = {search.spend:f} be charged?", err=True)


def _print_worth(search: FactSearch, charges: RequestCharges | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from dosimeter.cli.printing import make_console

    console, words = make_console(), search.declared.words
    unit = (
        f"every row is another {words.individual}"
        if not search.finds_rows
        else f"{search.declared.unit} says whose a row is"
    )
    console.print(
        Text(f"{search.declared.table}: {unit}. Declared are names and types; what is found costs:", style="bold")
    )
    delta = f", δ = {float(search.delta):g}" if search.delta else ""
    console.print(f"ε = {search.spend:f}{delta}, all together")
    table = Table(box=None, pad_edge=False)
    for name in ("column", "type", "to be found", "ε"):
        table.add_column(name, overflow="fold", justify="right" if name == "ε" else "left")
    table.add_column("good for", overflow="fold")
    for line in search.list_worth():
        table.add_row(
            line.column or "", line.type or "", line.fact, f"{line.epsilon:.3g}", Text(line.word(words.people))
        )
    console.print(table)
    others = [column for column in search.declared.columns.values() if column not in search.columns]
    if others:
        named = (f"{each.name} ({each.type}{', identifies people' if each.identifying else ''})" for each in others)
        console.print(Text(f"Not searched: {', '.join(named)}."))
    if charges is not None:
        console.print(f"The account has spent ε = {float(charges.reading.epsilon):g} so far.")


def _print_found(found: FoundSchema, output: Path) -> None:
    again = "It cost nothing: the ledger had it" if found.repeated else f"ε = {found.epsilon:g} was charged"
    click.echo(f"Wrote {output}. {again} (entry {found.entry}). Releases can use it as it is.")
    for remark in found.remarks:
        click.echo(f"· {remark}")
