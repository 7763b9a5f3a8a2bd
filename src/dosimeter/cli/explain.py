"""``dosimeter explain``: what a query measures and how much noise it gets, from public facts alone."""

from __future__ import annotations

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
    """What a query would measure, without touching data: Δ, k, groups, grid, or why it is refused."""
    from dosimeter.cli.printing import print_explanation
    from dosimeter.planning import PlanOptions, explain_plan, plan_query
    from dosimeter.schema import load_schema

    options = PlanOptions(groups=groups, min_rows=min_rows, group_delta=group_delta)
    plan = plan_query(o.read_sql(sql), load_schema(schema), options)
    explanation = explain_plan(plan)
    if json:
        o.print_json(explanation.describe())
    else:
        print_explanation(explanation)
    return 0
