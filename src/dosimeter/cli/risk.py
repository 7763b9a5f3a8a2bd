"""``dosimeter risk``: how exposed everybody is, at one or many ε."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dosimeter.cli import looks
from dosimeter.cli import options as o
from dosimeter.cli.files import check_output, check_picture, save_picture, save_view, write_distribution
from dosimeter.cli.progress import run_with_progress
from dosimeter.cli.writing import Inputs, confirm_written, print_json
from dosimeter.errors import OptionError
from dosimeter.options import LookOptions, ShownOptions, SourceOptions, check_option
from dosimeter.problems import Option

if TYPE_CHECKING:
    from dosimeter.assessment import Risk
    from dosimeter.dataset import Dataset
    from dosimeter.risk import Candidate, ExposedPerson, GroupRisk

EPSILONS = click.option("--epsilon", metavar="E", type=float, multiple=True, help="An ε to look at; repeatable.")
OUT = click.option("-o", "--output", metavar="FILE", type=o.PATH, help="Write the distribution: .csv or .parquet.")


@click.command("risk")
@o.DATA
@o.SQL
@EPSILONS
@o.takes(shown=o.SHOWN)
@o.PLOT
@OUT
@o.ALL
@looks.LEDGER_TARGET
@looks.RELEASE_ID
@o.SCHEMA_FILE
@o.takes(look=o.STUDIED, source=o.SOURCE)
@o.JSON
def risk(
    data: str,
    sql: str,
    epsilon: tuple[float, ...],
    shown: ShownOptions,
    plot: Path | None,
    output: Path | None,
    show_all: bool,
    ledger: str | None,
    release: str | None,
    schema: Path | None,
    look: LookOptions,
    source: SourceOptions,
    json: bool,
) -> int:
    """Measure everybody's per-instance sensitivity and RDR at each ε. For the controller's eyes only."""
    from dosimeter.query import Query
    from dosimeter.risk import USUAL_PRESET

    if epsilon and look.candidates:
        raise OptionError("Give --epsilon or --candidates, not both.")
    for value in epsilon or ():
        check_option("epsilon", value)
    top, by = shown.top, shown.by
    check_option("top", top, optional=True)
    looks.check_ledger_options(
        ledger, release, schema, epsilon=epsilon, candidates=look.candidates, top=top, by=by, plot=plot, output=output
    )
    inputs = Inputs(data=data, sql=sql, schema=schema, ledger=ledger)
    if output is not None:
        check_output(output, inputs)
    if plot is not None:
        check_picture(plot, inputs)
    elif shown.view is not None:
        raise OptionError(Option("view"), " is for ", Option("plot"), ".")
    look = replace(look, candidates=epsilon or look.candidates)
    shown_columns = o.split_list(shown.columns)
    text = o.read_sql(sql)
    mentioned = " ".join([by or "", *(shown_columns or [])])
    with o.open_data(data, schema, source) as dataset:
        if ledger is not None and release is not None:
            return show_ex_post_risk(ledger, release, dataset, text, json=json)

        def work() -> tuple[Risk, list[Candidate], list[ExposedPerson], list[GroupRisk]]:
            found = Query(dataset, text, look, mentioned).risk()
            lines = list(found.list_candidates())
            at, reveal = found.candidates[0], shown.reveal
            people = found.list_people(top, epsilon=at, columns=shown_columns, reveal=reveal) if top else []
            return found, lines, people, found.by(by, epsilon=at, reveal=reveal) if by else []

        found, lines, people, by_group = run_with_progress(dataset.engine, "Measuring everybody's influence", work)
        if ledger is not None:
            looks.record_look(ledger, dataset, found)
        if output is not None:
            write_distribution(found, output)
        if plot is not None:
            if shown.view in (None, "relative"):
                save_picture(found, lines, plot)
            else:
                save_view(found, shown.view, epsilon[0] if epsilon else None, plot)
        if json:
            usual = found.find(USUAL_PRESET)
            document = found.head() | {"candidates": usual.describe_candidates(judged=False)} | usual.describe_verdict()
            if top is not None:
                document["most_exposed"] = [person.describe() for person in people]
            if by is not None:
                groups_found = [group.describe() for group in by_group]
                document["by"] = {"column": by, "epsilon": found.candidates[0], "groups": groups_found}
            print_json(document | {"notes": list(found.risk_notes())})
            return 0
        from dosimeter.cli.printing import print_risk

        print_risk(found, lines, people=people, by=by, by_group=by_group, show_all=show_all)
        confirm_written(output, plot)
    return 0


def show_ex_post_risk(ledger: str, release: str, dataset: Dataset, query: str, *, json: bool) -> int:
    """Print how one released answer exposed everybody (R1, R2); return the exit status.

    ``release``: the id of the answer's entry in the ledger. Records the look there.
    """
    found = run_with_progress(dataset.engine, "Looking back", lambda: looks.look_back(ledger, release, dataset, query))
    if json:
        print_json(found.describe())
        return 0
    from dosimeter.cli.printing import print_ex_post_risk

    print_ex_post_risk(found)
    return 0
