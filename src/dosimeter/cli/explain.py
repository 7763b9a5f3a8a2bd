"""``dosimeter explain``: what a query measures and how much noise it gets, from public facts alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dosimeter.cli import options as o


def explain(
    sql: o.Sql,
    schema: Annotated[Path, typer.Option("--schema", metavar="FILE", help="The table's public facts (TOML).")],
    groups: o.Groups = "declared",
    min_rows: o.MinRows = None,
    group_delta: o.GroupDelta = None,
    json: o.Json = False,
) -> int:
    """Explain what a query would measure, or why it is refused, from the schema alone. Reads no data.

    Prints four stages: which rows are read, what is computed per person, which numbers get noise (with sensitivity and
    95 % error), and what is computed from the noisy numbers.
    """
    from dosimeter.cli.explained import print_explanation
    from dosimeter.planning import LookOptions, explain_plan, plan_query
    from dosimeter.postprocess import note_errors
    from dosimeter.schema import load_schema

    look = LookOptions(groups=groups, min_rows=min_rows, group_delta=group_delta)
    plan = plan_query(o.read_sql(sql), load_schema(schema), look.plan_options())
    explanation = explain_plan(plan)
    explanation = replace(explanation, notes=(*explanation.notes, *note_errors(plan)))
    if json:
        o.print_json(explanation.describe())
    else:
        print_explanation(explanation)
    return 0
