"""``dosimeter ledger``: show, verify, export, answers, clear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dosimeter.cli import options as o
from dosimeter.cli.files import check_picture
from dosimeter.cli.writing import Inputs, check_writable, print_json, report_verification, write_to
from dosimeter.errors import OptionError

if TYPE_CHECKING:
    from dosimeter.ledger import AccountSummary, Entry, Ledger


@click.command("ledger")
@click.argument("target", metavar="L", help=o.LEDGER_HELP)
@click.argument(
    "action",
    default="show",
    type=click.Choice(("show", "verify", "export", "answers", "clear")),
    help="show, verify, export, answers or clear.",
)
@click.argument(
    "name",
    required=False,
    metavar="[DATASET]",
    help="answers, clear: which account; clear: it may answer releases again.",
)
@click.option(
    "--head",
    metavar="DIGEST",
    help="verify: the head that it printed earlier, to find out whether later records were cut off.",
)
@click.option("--dataset", metavar="NAME", help="show: only the account of this dataset.")
@click.option(
    "--plot", metavar="FILE", type=o.PATH, help="show: save the readings as a staircase, .svg, .png or .html."
)
@click.option("--by-time", is_flag=True, help="show --plot: draw the readings over time instead of by entry.")
@click.option(
    "--last",
    default=50,
    metavar="N",
    type=click.IntRange(min=1),
    help="show: how many entries of each account to print.",
)
@click.option("--before", metavar="ENTRY", help="show --dataset: print the entries before this one.")
@click.option("-o", "--output", metavar="FILE", type=o.PATH, help="export: write to a file instead of the screen.")
@click.option("--by", metavar="NAME", help="clear: who decided it, for the record.")
@click.option("--reason", metavar="TEXT", help="clear: why it may go on, for the record.")
@o.JSON
def ledger(
    target: str,
    action: str,
    name: str | None,
    head: str | None,
    dataset: str | None,
    plot: Path | None,
    by_time: bool,
    last: int,
    before: str | None,
    output: Path | None,
    by: str | None,
    reason: str | None,
    json: bool,
) -> int:
    """Show accounts with their readings and entries; or verify, export, list answers, clear a stopped dataset.

    verify tells whether a record was altered. export writes all records as JSON Lines. answers prints the released
    answers of a dataset, which every analyst may see. clear lets a stopped dataset answer releases again. Everything
    but answers is for the controller.
    """
    from dosimeter.ledger import Ledger

    if head is not None and action != "verify":
        raise OptionError("--head goes with verify.")
    if plot is not None and action != "show":
        raise OptionError("--plot goes with show.")
    if dataset is not None and action != "show":
        raise OptionError("--dataset goes with show.")
    if by_time and plot is None:
        raise OptionError("--by-time goes with --plot.")
    if before is not None and (dataset is None or action != "show"):
        raise OptionError("--before goes with show and --dataset.")
    if output is not None and action != "export":
        raise OptionError("-o goes with export.")
    if action != "clear" and (by is not None or reason is not None):
        raise OptionError("--by and --reason go with clear.")
    if name is not None and action not in ("clear", "answers"):
        raise OptionError(f"{action} takes no dataset here. To show one account only, use --dataset {name}.")
    inputs = Inputs(ledger=target)
    if plot is not None:
        check_picture(plot, inputs)
    if output is not None:
        check_writable(output, inputs=inputs)
    with Ledger.open(target, create=False) as open_ledger:
        match action:
            case "verify":
                return report_verification(open_ledger.verify(head), as_json=json)
            case "export":
                write_to(output, open_ledger.export)
            case "answers":
                _print_answers(open_ledger, name, json=json)
            case "clear":
                _clear(open_ledger, name, by, reason, json=json)
            case "show":
                _show(open_ledger, dataset, _Shown(plot, by_time, last, before), json=json)
    return 0


def _print_answers(open_ledger: Ledger, dataset: str | None, *, json: bool) -> None:
    """Print the released answers of a dataset as every analyst may see them: no names, no purposes."""
    if dataset is None:
        raise OptionError("answers needs the dataset: dosimeter ledger L answers DATASET")
    account = open_ledger.account(dataset)
    if account is None:
        raise _unknown(open_ledger, dataset)
    if json:
        print_json({"dataset": dataset, "answers": [answer.describe() for answer in account.released_answers()]})
        return
    from dosimeter.cli.printing import print_answers

    print_answers(account.released_answers())


def _unknown(open_ledger: Ledger, dataset: str) -> OptionError:
    known = ", ".join(open_ledger.datasets()) or "none yet"
    return OptionError(f"The ledger has no account of {dataset!r}. Its accounts: {known}.")


def _clear(open_ledger: Ledger, dataset: str | None, by: str | None, reason: str | None, *, json: bool) -> None:
    if dataset is None or by is None or reason is None:
        raise OptionError(
            "clear needs the dataset, who clears it, and why: dosimeter ledger L clear DATASET --by NAME --reason TEXT"
        )
    incident = open_ledger.clear(dataset, by=by, reason=reason)
    if json:
        print_json({"dataset": dataset, "stopped": None, "cleared": incident.describe()})
        return
    click.echo(f"{dataset} answers releases again. It was stopped at {incident.at}: {incident.words}.")


@dataclass(frozen=True, slots=True)
class _Shown:
    """The values of four options of ``ledger show``.

    ``plot``: where to save a staircase; None: nowhere. ``by_time``: draw the staircase over time, not entry by
    entry. ``last``: how many entries of each account to print. ``before``: print only entries before this one.
    """

    plot: Path | None
    by_time: bool
    last: int
    before: str | None


def _show(open_ledger: Ledger, dataset: str | None, shown: _Shown, *, json: bool) -> None:
    accounts, stops = open_ledger.summaries(), open_ledger.stopped_datasets()
    if dataset is not None:
        accounts = tuple(account for account in accounts if account.dataset == dataset)
        stops = tuple(incident for incident in stops if incident.dataset == dataset)
        if not accounts and not stops:
            raise _unknown(open_ledger, dataset)
    if shown.plot is not None:
        _save_staircase(open_ledger, accounts, shown.plot, by_time=shown.by_time)
    if json:
        print_json(open_ledger.describe(dataset))
        return
    from dosimeter.cli.printing import print_ledger, print_stops

    print_stops(stops)
    if accounts or not stops:
        print_ledger([(account, *_list_entries(open_ledger, account, shown)) for account in accounts])


def _list_entries(open_ledger: Ledger, account: AccountSummary, shown: _Shown) -> tuple[Sequence[Entry], bool]:
    """Return the entries of an account to be printed, oldest first, and whether earlier ones exist.

    Refuses ``shown.before`` if it is no entry of this account.
    """
    if shown.before is not None and getattr(open_ledger.entry(shown.before), "dataset", None) != account.dataset:
        raise OptionError(f"The account of {account.dataset} has no entry {shown.before}.")
    found = open_ledger.entries(account.dataset, shown.last + 1, before=shown.before)
    return found[: shown.last][::-1], len(found) > shown.last


def _save_staircase(open_ledger: Ledger, accounts: Sequence[AccountSummary], path: Path, *, by_time: bool) -> None:
    from dosimeter.show.charts import Step, draw_altair, save_chart, staircase_chart

    if len(accounts) > 1:
        names = ", ".join(account.dataset for account in accounts)
        raise OptionError(f"A staircase shows one account, and there are several. Choose with --dataset: {names}.")
    account = next((open_ledger.account(account.dataset) for account in accounts), None)
    entries = () if account is None else account.entries
    steps = [Step(place, entry.at, float(entry.reading)) for place, entry in enumerate(entries, start=1)]
    budget = None if account is None or account.policy.budget is None else float(account.policy.budget)
    save_chart(draw_altair(staircase_chart(steps, budget=budget, by_time=by_time)), path)
