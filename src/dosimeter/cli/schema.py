"""``dosimeter schema``: draft a schema, find one by spending (``schema_search``), or compare one with the data."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dosimeter.cli import options as o
from dosimeter.cli.progress import run_with_progress
from dosimeter.cli.writing import Inputs, check_writable, print_json, write_whole
from dosimeter.errors import OptionError
from dosimeter.json_values import JsonObject
from dosimeter.options import ReleaseOptions, SourceOptions
from dosimeter.problems import Option, Surface

if TYPE_CHECKING:
    from dosimeter.inspection import SchemaCheck


@click.command("schema")
@o.DATA
@click.option("-o", "--output", metavar="FILE", type=o.PATH, help="Write the schema here.")
@click.option("--check", metavar="FILE", type=o.PATH, help="Compare this schema with the data.")
@click.option("--force", is_flag=True, help="Replace FILE even if it was reviewed.")
@click.option("--spend", metavar="E", help="Find the facts by spending this ε; the schema can be used as it is.")
@click.option("--ledger", metavar="L", help=f"With --spend: {o.LEDGER_HELP[0].lower()}{o.LEDGER_HELP[1:]}")
@click.option(
    "--unit",
    metavar="COLUMN|row",
    help="With --spend: whose privacy: the column that says whose a row is, or row, where each is another's.",
)
@click.option("--delta", metavar="D", help="With --spend: the chance that a value of one individual alone is shown.")
@click.option(
    "--keep", metavar="S", type=float, help="With --spend: the share of people of whom all rows count.  [default: 0.95]"
)
@click.option("--columns", metavar="LIST", help="With --spend: the columns to search; the fewer, the more exact.")
@click.option(
    "--schema",
    "declared",
    metavar="FILE",
    type=o.PATH,
    help="With --spend: names, types, words and public facts are here.",
)
@click.option("--yes", "confirmed", is_flag=True, help="With --spend: what is declared is right; ask nothing.")
@click.option("--dry-run", is_flag=True, help="With --spend: what it would cost, and be good for. Charges nothing.")
@o.takes(terms=o.TERMS, source=o.SOURCE)
@o.JSON
def schema(
    data: str,
    output: Path | None,
    check: Path | None,
    force: bool,
    spend: str | None,
    ledger: str | None,
    unit: str | None,
    delta: str | None,
    keep: float | None,
    columns: str | None,
    declared: Path | None,
    confirmed: bool,
    dry_run: bool,
    terms: ReleaseOptions,
    source: SourceOptions,
    json: bool,
) -> int:
    """Draft a schema from the data, find one by spending a little ε, or check one. For the controller."""
    from dosimeter.inspection import check_schema, write_draft
    from dosimeter.schema import load_schema

    if check is not None and output is not None:
        raise OptionError("--check compares and writes nothing. Leave -o out, or draft without --check.")
    given = {
        "--ledger": ledger, "--unit": unit, "--delta": delta, "--keep": keep, "--columns": columns,
        "--schema": declared, "--yes": confirmed or None, "--dry-run": dry_run or None,
    }  # fmt: skip
    unused = [name for name, value in given.items() if value is not None]
    unused += [Option(each.name).flag for each in fields(terms) if getattr(terms, each.name) != each.default]
    if spend is None and unused:
        raise OptionError(f"{unused[0]} goes with --spend E, which finds the facts at the cost of ε.")
    if spend is not None and check is not None:
        raise OptionError("--check compares and --spend finds. Choose one.")
    facts = load_schema(check) if check is not None else None
    if output is not None:
        check_writable(output, inputs=Inputs(data=data, ledger=ledger, schema=declared))
        if not force:
            check_replaceable(output)
    if spend is not None:
        from dosimeter.cli.schema_search import SearchOptions, search_schema

        asked = SearchOptions(
            spend=spend, ledger=ledger, unit=unit, delta=delta, keep=0.95 if keep is None else keep,
            columns=o.split_list(columns), declared=declared, confirmed=confirmed, dry_run=dry_run, terms=terms,
        )  # fmt: skip
        return search_schema(data, asked, output, source, json=json)
    with o.open_data(data, None, source) as dataset:
        if facts is not None:
            found = run_with_progress(dataset.engine, "Checking", lambda: check_schema(dataset.engine, facts))
            if json:
                print_json(_describe_check(found))
            else:
                _print_check(found, check)
            return 0 if found.agrees else 1
        draft = run_with_progress(dataset.engine, "Reading", lambda: write_draft(dataset.engine, Surface.COMMAND_LINE))
    if output is not None:
        write_whole(output, draft.text)
    if json:
        print_json(describe_schema(draft.text))
    elif output is None:
        click.echo(draft.text, nl=False)
    else:
        click.echo(f"Wrote {output}. Replace what came from private data, then set reviewed = true.")
        click.echo("· What nobody knows is found at the price of a little ε by: dosimeter schema --spend E")
        for remark in draft.remarks:
            click.echo(f"· {remark}")
    return 0


def _describe_check(found: SchemaCheck) -> JsonObject:
    return {
        "agrees": found.agrees,
        "findings": [
            {"column": finding.column, "problem": finding.stated.word(Surface.COMMAND_LINE)}
            for finding in found.findings
        ],
        "remarks": [asdict(remark) for remark in found.remarks],
        "odd_cells": dict(found.odd_cells),
    }


def _print_check(found: SchemaCheck, path: Path | None) -> None:
    """Print a line for each finding (something to correct), then a line for each remark (something to know).

    If there is no finding, say that the schema agrees with the data. ``path``: the file of the schema.
    """
    for finding in found.findings:
        words = finding.stated.word(Surface.COMMAND_LINE)
        click.echo(f"{finding.column}: {words}" if finding.column else words)
    if found.agrees:
        click.echo(f"{path} agrees with the data.")
    for remark in found.remarks:
        click.echo(f"· {remark.column}: {remark.remark}." if remark.column else f"· {remark.remark}.")


def describe_schema(text: str) -> JsonObject:
    """Return a schema's TOML as JSON of the same shape, with dates and timestamps in ISO 8601."""
    import tomllib

    return {name: _plain(value) for name, value in tomllib.loads(text).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def check_replaceable(path: Path) -> None:
    """Refuse to replace a file that is not a draft of a schema: a reviewed schema, or any other file."""
    import tomllib

    if not path.exists():
        return
    try:
        reviewed = tomllib.loads(path.read_text(encoding="utf-8")).get("reviewed")
    except (OSError, ValueError):
        raise OptionError(f"{path} exists and is not a schema. Choose another name, or say --force.") from None
    if reviewed is not False:
        raise OptionError(
            f"{path} exists and is not a draft: it does not say reviewed = false. Choose another name, or replace it "
            "with --force."
        )
