"""Commands that look and release nothing: schema, explain, risk, find."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.cli import books
from dosimeter.cli import options as o
from dosimeter.cli.running import Meter, run_with_progress
from dosimeter.dataset import Dataset
from dosimeter.errors import OptionError
from dosimeter.planning import Look
from dosimeter.risk import Candidate, Choice, parse_preference

if TYPE_CHECKING:
    from dosimeter.assessment import Risk
    from dosimeter.inspection import SchemaCheck
    from dosimeter.ledger import Account

Epsilons = Annotated[list[float] | None, typer.Option("--epsilon", metavar="E", help="An ε to look at; repeatable.")]
Top = Annotated[int | None, typer.Option("--top", metavar="N", help="Also show the N most exposed records.")]
By = Annotated[str | None, typer.Option("--by", metavar="COLUMN", help="Also median and largest RDR per group.")]
Columns = Annotated[str | None, typer.Option("--columns", metavar="LIST", help="Which columns --top shows.")]
Reveal = Annotated[bool, typer.Option("--reveal", help="Show identifying columns, in --top and --by.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Save the picture: .svg, .png or .html.")]
Out = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the distribution: .csv or .parquet.")
]
Prefer = Annotated[
    str, typer.Option("--prefer", metavar="P", help="The preference: ratio:0.95, or a condition on rdr.")
]
All = Annotated[bool, typer.Option("--all", help="Show every candidate, not a selection.")]


def schema(
    data: o.Data,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the draft here.")] = None,
    check: Annotated[
        Path | None, typer.Option("--check", metavar="FILE", help="Compare this schema with the data.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE even if it was reviewed.")] = False,
    table: o.Table = None,
    engine: o.EngineName = None,
    delimiter: o.Delimiter = None,
    encoding: o.Encoding = None,
    null: o.Null = None,
    json: o.Json = False,
) -> int:
    """Draft a schema from the data, or check one against it. For the controller."""
    from dosimeter.inspection import check_schema, write_draft
    from dosimeter.schema import load_schema

    if check is not None and output is not None:
        raise OptionError("--check compares and writes nothing. Leave -o out, or draft without --check.")
    facts = load_schema(check) if check is not None else None
    o.check_writable(output)
    if output is not None and not force:
        check_replaceable(output)
    with Dataset.open(data, table=table, engine=engine, delimiter=delimiter, encoding=encoding, null=null) as dataset:
        if facts is not None:
            found = run_with_progress(dataset.engine, "Checking", lambda _: check_schema(dataset.engine, facts))
            if json:
                o.print_json({"agrees": found.agrees, **asdict(found)})
            else:
                _print_check(found, check)
            return 0 if found.agrees else 1
        draft = run_with_progress(dataset.engine, "Reading", lambda _: write_draft(dataset.engine))
    if output is not None:
        try:
            output.write_text(draft.text, encoding="utf-8")
        except OSError:
            raise o.unwritable(output) from None
    if json:
        o.print_json(describe_schema(draft.text))
    elif output is None:
        typer.echo(draft.text, nl=False)
    else:
        typer.echo(f"Wrote {output}. Replace what came from private data, then set reviewed = true.")
        for remark in draft.remarks:
            typer.echo(f"· {remark}")
    return 0


def _print_check(found: SchemaCheck, path: Path | None) -> None:
    """Say what disagrees, a line each, and below it what else there is to know."""
    for finding in found.findings:
        typer.echo(f"{finding.column}: {finding.problem}" if finding.column else finding.problem)
    if found.agrees:
        typer.echo(f"{path} agrees with the data.")
    for remark in found.remarks:
        typer.echo(f"· {remark.column}: {remark.remark}." if remark.column else f"· {remark.remark}.")


def explain(
    sql: o.Sql,
    schema: Annotated[Path, typer.Option("--schema", metavar="FILE", help="The table's public facts (TOML).")],
    groups: o.Groups = o.GroupsName.DECLARED,
    min_rows: o.MinRows = None,
    json: o.Json = False,
) -> int:
    """What a query would measure, without touching data: Δ, k, groups, grid, or why it is refused."""
    from dosimeter.cli.report import print_explanation
    from dosimeter.planning import PlanOptions, explain_plan, plan_query
    from dosimeter.schema import load_schema

    plan = plan_query(o.read_sql(sql), load_schema(schema), PlanOptions(groups=groups.value, min_rows=min_rows))
    explanation = explain_plan(plan)
    if json:
        o.print_json(explanation)
    else:
        print_explanation(explanation)
    return 0


def risk(
    data: o.Data,
    sql: o.Sql,
    epsilon: Epsilons = None,
    top: Top = None,
    by: By = None,
    columns: Columns = None,
    reveal: Reveal = False,
    plot: Plot = None,
    output: Out = None,
    show_all: All = False,
    ledger: books.LedgerTarget = None,
    release: books.ReleaseId = None,
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
    """Everyone's per-instance sensitivity and RDR at each ε. For the controller's eyes only."""
    if epsilon and candidates:
        raise OptionError("Give --epsilon or --candidates, not both.")
    if any(not 0.0 < value < math.inf for value in epsilon or ()):
        raise OptionError("--epsilon must be a positive number.")
    if top is not None and top < 1:
        raise OptionError("--top must be at least 1.")
    if method is o.MethodName.RECOMPUTE and (top is not None or by is not None):
        raise OptionError("--top and --by need the closed form. Leave --method recompute out.")
    books.check_books(
        ledger, release, schema, epsilon=epsilon, candidates=candidates, top=top, by=by, plot=plot, output=output
    )
    check_output(output)
    check_picture(plot)
    look = Look(
        mechanism.value, delta, calibration.value if calibration else None, indicator.value, epsilon or candidates,
        groups.value, method.value, sensitivity, min_rows,
    )  # fmt: skip
    shown_columns = o.split_list(columns)
    query = o.read_sql(sql)
    mentioned = " ".join([by or "", *(shown_columns or [])])
    opened = Dataset.open(
        data, schema=schema, table=table, engine=engine, delimiter=delimiter, encoding=encoding, null=null
    )
    with opened as dataset:
        if ledger is not None and release is not None:
            return show_aftermath(ledger, release, dataset, query, json=json)

        def work(meter: Meter) -> tuple[Risk, list[Candidate], list[dict[str, Any]], list[dict[str, Any]]]:
            found = dataset.assess(query, look, progress=meter.steps, mentioned=mentioned)
            lines = [found.candidate(value) for value in found.candidates]
            at = found.candidates[0]
            people = found.people_rows(top, epsilon=at, columns=shown_columns, reveal=reveal) if top else []
            return found, lines, people, found.by(by, epsilon=at, reveal=reveal) if by else []

        found, lines, people, by_group = run_with_progress(dataset.engine, "Measuring everybody's influence", work)
        books.record_look(ledger, dataset, found)
        write_distribution(found, output)
        save_picture(found, lines, plot)
        if json:
            document = found.head() | {"candidates": [describe_candidate(line, judged=False) for line in lines]}
            if top is not None:
                document["people"] = [flatten_person(person) for person in people]
            if by is not None:
                document["by"] = {"column": by, "epsilon": found.candidates[0], "groups": by_group}
            o.print_json(document | {"notes": list(found.risk_notes())})
            return 0
        from dosimeter.cli.report import print_risk

        print_risk(found, lines, people=people, by=by, by_group=by_group, show_all=show_all)
        o.confirm_written(output, plot)
    return 0


def find(
    data: o.Data,
    sql: o.Sql,
    prefer: Prefer,
    plot: Plot = None,
    show_all: All = False,
    ledger: books.LedgerTarget = None,
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
    """The largest ε that meets the preference (find-ε-from-RDR), without releasing anything."""
    preference = parse_preference(prefer)
    if method is o.MethodName.RECOMPUTE and preference.filters:
        raise OptionError("A preference with FILTER needs the closed form. Leave --method recompute out.")
    books.check_books(ledger, None, schema)
    check_picture(plot)
    look = Look(
        mechanism.value, delta, calibration.value if calibration else None, indicator.value, candidates,
        groups.value, method.value, sensitivity, min_rows,
    )  # fmt: skip
    query = o.read_sql(sql)
    opened = Dataset.open(
        data, schema=schema, table=table, engine=engine, delimiter=delimiter, encoding=encoding, null=null
    )
    with opened as dataset:

        def work(meter: Meter) -> tuple[Risk, Choice, Account | None]:
            assessed = dataset.assess(query, look, progress=meter.steps, mentioned=prefer)
            account = books.record_look(ledger, dataset, assessed)
            return assessed, assessed.find(preference, available=books.leave_remaining(account, assessed)), account

        assessed, choice, account = run_with_progress(dataset.engine, "Measuring everybody's influence", work)
        save_picture(assessed, choice.candidates, plot, selected=choice.epsilon)
        if json:
            document = assessed.head() | {
                "candidates": [describe_candidate(line, judged=True) for line in choice.candidates],
                "preference": choice.preference,
                "epsilon": choice.epsilon,
                "limit": choice.limit,
                "notes": list(choice.notes),
            }
            o.print_json(document if ledger is None else document | books.describe_reading(account, assessed))
        else:
            from dosimeter.cli.report import print_choice

            reading = None if account is None else float(account.reading.epsilon)
            print_choice(assessed, choice, show_all=show_all, reading=reading)
            o.confirm_written(plot)
    return 0 if choice.epsilon is not None else 1


def show_aftermath(ledger: str, release: str, dataset: Dataset, query: str, *, json: bool) -> int:
    """What one released answer did to everybody (R1, R2)."""
    found = run_with_progress(
        dataset.engine, "Looking back", lambda _: books.look_back(ledger, release, dataset, query)
    )
    if json:
        o.print_json(found.describe())
        return 0
    from dosimeter.cli.report import print_aftermath

    print_aftermath(found)
    return 0


# ---------------------------------------------------------------- what is written


def describe_candidate(line: Candidate, *, judged: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "epsilon": line.epsilon,
        "noise_scale": line.noise_scale,
        "error_95": list(line.error_95),
        "rdr": dict(line.rdr),
    }
    return document | {"value": line.value, "satisfied": line.satisfied} if judged else document


def flatten_person(person: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in person.items() if name != "columns"} | {"record": person["columns"]}


def describe_schema(text: str) -> dict[str, Any]:
    """A schema's TOML as JSON of the same shape; days and moments in ISO 8601."""
    import tomllib

    return {name: _plain(value) for name, value in tomllib.loads(text).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def check_replaceable(path: Path) -> None:
    """A draft may replace an older draft. A reviewed schema is somebody's work, and so may be anything else."""
    import tomllib

    if not path.exists():
        return
    try:
        reviewed = tomllib.loads(path.read_text(encoding="utf-8")).get("reviewed")
    except (OSError, ValueError):
        raise OptionError(f"{path} exists and is not a schema. Choose another name, or say --force.") from None
    if reviewed is not False:
        raise OptionError(
            f"{path} exists and is not a draft (reviewed = true). Choose another name, or replace it with --force."
        )


def check_output(path: Path | None) -> None:
    o.check_writable(path, (".csv", ".parquet"), "the distribution is written")


def check_picture(path: Path | None) -> None:
    o.check_writable(path, (".svg", ".png", ".html"), "a picture is saved")


def write_distribution(found: Risk, path: Path | None) -> None:
    if path is None:
        return
    table = found.distribution(found.candidates)
    try:
        if path.suffix.lower() == ".csv":
            from pyarrow import csv

            csv.write_csv(table, path)
        else:
            from pyarrow import parquet

            parquet.write_table(table, path)
    except OSError:
        raise o.unwritable(path) from None


def save_picture(found: Risk, lines: Sequence[Candidate], path: Path | None, *, selected: float | None = None) -> None:
    if path is None:
        return
    from dosimeter.show.charts import range_chart, risk_page, save_chart, write_page

    if path.suffix.lower() == ".html":
        at = selected if selected is not None else lines[0].epsilon
        page = risk_page(lines, found.rdr(at), query=found.plan.sql, notes=found.risk_notes(), selected=selected)
        write_page(page, path)
    else:
        save_chart(range_chart(lines, selected=selected), path)
