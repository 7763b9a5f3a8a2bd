"""``dosimeter find``: the largest ε that meets a preference."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from dosimeter.cli import looks
from dosimeter.cli import options as o
from dosimeter.cli.files import check_picture, save_picture
from dosimeter.cli.progress import run_with_progress
from dosimeter.cli.writing import Inputs, confirm_written, print_json
from dosimeter.options import LookOptions, SourceOptions

if TYPE_CHECKING:
    from pathlib import Path

    from dosimeter.assessment import Risk
    from dosimeter.findings import Choice
    from dosimeter.json_values import JsonObject
    from dosimeter.ledger import AccountSummary

PREFER = click.option("--prefer", required=True, metavar="P", help="The preference: ratio:0.95, or a condition on rdr.")


@click.command("find")
@o.DATA
@o.SQL
@PREFER
@o.PLOT
@o.ALL
@looks.LEDGER_TARGET
@o.SCHEMA_FILE
@o.takes(look=o.STUDIED, source=o.SOURCE)
@o.JSON
def find(
    data: str,
    sql: str,
    prefer: str,
    plot: Path | None,
    show_all: bool,
    ledger: str | None,
    schema: Path | None,
    look: LookOptions,
    source: SourceOptions,
    json: bool,
) -> int:
    """Find the largest ε that meets the preference. Releases nothing."""
    from dosimeter.query import Query
    from dosimeter.risk import parse_preference

    preference = parse_preference(prefer)
    if ledger is not None:
        looks.check_ledger_options(ledger, None, schema)
    if plot is not None:
        check_picture(plot, Inputs(data=data, sql=sql, schema=schema, ledger=ledger))
    text = o.read_sql(sql)
    with o.open_data(data, schema, source) as dataset:

        def work() -> tuple[Risk, Choice, AccountSummary | None]:
            assessed = Query(dataset, text, look, mentioned=prefer).risk()
            account = None if ledger is None else looks.record_look(ledger, dataset, assessed)
            if account is None:
                return assessed, assessed.find(preference), None
            from dosimeter.release import charge_plan, find_refusal

            charges = charge_plan(account, assessed.plan, assessed.mechanism)
            refuse = partial(find_refusal, charges)
            hidden = account.algorithm == "find"
            return (
                assessed,
                assessed.find(preference, available=charges.remaining, refuse=refuse, hidden=hidden),
                account,
            )

        assessed, choice, account = run_with_progress(dataset.engine, "Measuring everybody's influence", work)
        if plot is not None:
            selected = choice.epsilon if choice.decides else None
            save_picture(assessed, choice.candidates, plot, selected=selected, words=choice.words)
        if json:
            document = assessed.head() | {
                "candidates": choice.describe_candidates(judged=True),
                **choice.describe_verdict(),
                "preference": choice.preference.text,
                "preset": choice.preference.preset,
                "epsilon": choice.epsilon,
                "decides": choice.decides,
                "limit": choice.limit,
                "limit_cell": choice.limit_cell,
                "epsilon_cell": choice.epsilon_cell,
                "cost": None if choice.epsilon is None else _describe_cost(assessed, choice.epsilon),
                "conflict": [part.describe() for part in choice.conflict] or None,
                "notes": list(choice.notes),
            }
            print_json(document if ledger is None else document | looks.describe_reading(account, assessed))
        else:
            from dosimeter.cli.printing import print_choice

            print_choice(assessed, choice, show_all=show_all)
            if plot is not None:
                confirm_written(plot)
    return 0 if choice.epsilon is not None else 1


def _describe_cost(assessed: Risk, epsilon: float) -> JsonObject:
    """Return what an answer at this ε would cost, as ε and as ρ: accounts with the policy budget:E@D count ρ."""
    return {"epsilon": epsilon, "rho": assessed.mechanism.rho(epsilon)}
