"""``dosimeter risk``: how exposed everybody is, at one or many ε."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dosimeter.cli import looks
from dosimeter.cli import options as o
from dosimeter.cli.documents import describe_candidate
from dosimeter.cli.files import check_output, check_picture, save_picture, write_distribution
from dosimeter.cli.progress import run_with_progress
from dosimeter.errors import OptionError
from dosimeter.options import check_option

if TYPE_CHECKING:
    from dosimeter.assessment import Risk
    from dosimeter.dataset import Dataset
    from dosimeter.risk import Candidate, ExposedPerson, GroupRisk

Epsilons = Annotated[list[float] | None, typer.Option("--epsilon", metavar="E", help="An ε to look at; repeatable.")]
Top = Annotated[int | None, o.declare("top")]
By = Annotated[str | None, o.declare("by")]
Columns = Annotated[str | None, o.declare("columns")]
Reveal = Annotated[bool, o.declare("reveal")]
Out = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the distribution: .csv or .parquet.")
]


def risk(
    data: o.Data,
    sql: o.Sql,
    epsilon: Epsilons = None,
    top: Top = None,
    by: By = None,
    columns: Columns = None,
    reveal: Reveal = False,
    plot: o.Plot = None,
    output: Out = None,
    show_all: o.All = False,
    ledger: looks.LedgerTarget = None,
    release: looks.ReleaseId = None,
    schema: o.SchemaFile = None,
    mechanism: o.Mechanism = "laplace",
    delta: o.Delta = None,
    calibration: o.Calibration = None,
    indicator: o.Indicator = "bound",
    candidates: o.Candidates = None,
    groups: o.StudiedGroups = "declared",
    sensitivity: o.Sensitivity = None,
    min_rows: o.MinRows = None,
    quantiles: o.Quantiles = "ranks",
    group_delta: o.GroupDelta = None,
    table: o.Table = None,
    engine: o.EngineName = None,
    delimiter: o.Delimiter = None,
    encoding: o.Encoding = None,
    null: o.Null = None,
    decimal: o.Decimal = None,
    date_format: o.DateFormat = None,
    json: o.Json = False,
) -> int:
    """Measure everybody's per-instance sensitivity and RDR at each ε. For the controller's eyes only."""
    from dosimeter.planning import read_look

    if epsilon and candidates:
        raise OptionError("Give --epsilon or --candidates, not both.")
    for value in epsilon or ():
        check_option("epsilon", value)
    check_option("top", top, optional=True)
    looks.check_ledger_options(
        ledger, release, schema, epsilon=epsilon, candidates=candidates, top=top, by=by, plot=plot, output=output
    )
    inputs = o.Inputs(data=data, sql=sql, schema=schema, ledger=ledger)
    check_output(output, inputs)
    check_picture(plot, inputs)
    look, study = read_look(
        groups, calibration, sensitivity, quantiles, mechanism=mechanism, delta=delta, indicator=indicator,
        candidates=epsilon or candidates, min_rows=min_rows, group_delta=group_delta,
    )  # fmt: skip
    shown_columns = o.split_list(columns)
    query = o.read_sql(sql)
    mentioned = " ".join([by or "", *(shown_columns or [])])
    opened = o.open_data(data, schema, table, engine, delimiter, encoding, null, decimal, date_format)
    with opened as dataset:
        if ledger is not None and release is not None:
            return show_ex_post_risk(ledger, release, dataset, query, json=json)

        def work() -> tuple[Risk, list[Candidate], list[ExposedPerson], list[GroupRisk]]:
            found = dataset.assess(query, look, study, mentioned=mentioned)
            lines = list(found.list_candidates())
            at = found.candidates[0]
            people = found.list_people(top, epsilon=at, columns=shown_columns, reveal=reveal) if top else []
            return found, lines, people, found.by(by, epsilon=at, reveal=reveal) if by else []

        found, lines, people, by_group = run_with_progress(dataset.engine, "Measuring everybody's influence", work)
        looks.record_look(ledger, dataset, found)
        write_distribution(found, output)
        save_picture(found, lines, plot)
        if json:
            document = found.head() | {"candidates": [describe_candidate(line, judged=False) for line in lines]}
            if top is not None:
                document["most_exposed"] = [person.describe() for person in people]
            if by is not None:
                groups_found = [group.describe() for group in by_group]
                document["by"] = {"column": by, "epsilon": found.candidates[0], "groups": groups_found}
            o.print_json(document | {"notes": list(found.risk_notes())})
            return 0
        from dosimeter.cli.printing import print_risk

        print_risk(found, lines, people=people, by=by, by_group=by_group, show_all=show_all)
        o.confirm_written(output, plot)
    return 0


def show_ex_post_risk(ledger: str, release: str, dataset: Dataset, query: str, *, json: bool) -> int:
    """Print how one released answer exposed everybody (R1, R2); return the exit status.

    ``release``: the id of the answer's entry in the ledger. Records the look there.
    """
    found = run_with_progress(dataset.engine, "Looking back", lambda: looks.look_back(ledger, release, dataset, query))
    if json:
        o.print_json(found.describe())
        return 0
    from dosimeter.cli.printing import print_ex_post_risk

    print_ex_post_risk(found)
    return 0
