"""``dosimeter explain``: what a query measures and how much noise it gets, from public facts alone."""

from __future__ import annotations

from pathlib import Path

import click

from dosimeter.cli import options as o
from dosimeter.cli.writing import print_json
from dosimeter.options import LookOptions


@click.command("explain")
@o.SQL
@o.NEEDED_SCHEMA
@o.takes(look=o.OptionGroup(LookOptions, (LookOptions,), only=("groups", "min_rows", "group_delta", "tell_cut")))
@o.JSON
def explain(sql: str, schema: Path, look: LookOptions, json: bool) -> int:
    """Explain what a query would measure, or why it is refused, from the schema alone. Reads no data.

    Prints four stages: which rows are read, what is computed per person, which numbers get noise (with sensitivity and
    95 % error), and what is computed from the noisy numbers.
    """
    from dosimeter.cli.explained import print_explanation
    from dosimeter.planning import plan_options, plan_query
    from dosimeter.postprocess import explain_with_errors
    from dosimeter.schema import load_schema

    explanation = explain_with_errors(plan_query(o.read_sql(sql), load_schema(schema), plan_options(look)))
    if json:
        print_json(explanation.describe())
    else:
        print_explanation(explanation)
    return 0
