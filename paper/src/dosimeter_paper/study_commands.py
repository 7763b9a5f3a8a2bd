"""``dosimeter study …``: run the paper's study with people again, and analyse its answers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dosimeter.cli import options as o
from dosimeter.cli.stopping import raise_on_control_c
from dosimeter.cli.writing import Inputs, check_writable, print_json
from dosimeter.errors import OptionError

if TYPE_CHECKING:
    from dosimeter_paper.study.analysis import Analysis


@click.group("study", cls=o.CommandGroup, no_args_is_help=False)
def app() -> None:
    """The paper's study with people: serve it again, export its answers, analyse them."""


STORE_FILE = click.option(
    "--store", required=True, metavar="FILE", type=o.PATH, help="Where the answers are kept (SQLite)."
)


@app.command("serve")
@click.option("--data", required=True, metavar="PATH", type=o.PATH, help="A CSV of Adult; 100 of its rows are shown.")
@STORE_FILE
@click.option(
    "--seed",
    default=1,
    metavar="N",
    type=click.IntRange(min=0),
    help="Decides the sample, the groups and the order of queries.",
)
@click.option(
    "--groups", default="control,range,histogram", metavar="LIST", help="Who is compared: control, range, histogram."
)
@click.option(
    "--approval", default="", metavar="TEXT", help="The ethics approval and whom to contact; without it: a try-out."
)
@click.option("--secure", is_flag=True, help="The pages are reached over HTTPS only, through a proxy.")
@click.option("--host", default="127.0.0.1", help="Listen here.")
@click.option(
    "--port", default=8766, type=click.IntRange(min=0, max=65535), help="Listen on this port; 0 takes a free one."
)
def serve(data: Path, store: Path, seed: int, groups: str, approval: str, secure: bool, host: str, port: int) -> int:
    """Serve the study to participants. Only answers are kept: no addresses, no times but the day."""
    from dosimeter_paper.reproduction.data import load_adult
    from dosimeter_paper.study.answers import GROUPS
    from dosimeter_paper.study.instrument import build_instrument
    from dosimeter_paper.study.server import make_app
    from dosimeter_paper.study.server import serve as run
    from dosimeter_paper.study.store import StudySettings, StudyStore

    chosen = o.split_list(groups) or []
    if not chosen or not set(chosen) <= set(GROUPS) or len(set(chosen)) < len(chosen):
        raise OptionError(f"--groups takes some of {', '.join(GROUPS)}, each once.")
    ordered = tuple(group for group in GROUPS if group in chosen)
    check_writable(store, inputs=Inputs())
    instrument = build_instrument(load_adult(data, split="all"), seed=seed)
    opened = StudyStore(store)
    try:
        name = opened.begin_study(StudySettings(seed, ordered, instrument.digest))
        pages = make_app(instrument, opened, name=name, approval=approval.strip(), secure=secure)
        raise_on_control_c()

        def announce(address: str) -> None:
            click.echo(f"The study is on {address}")
            if not approval.strip():
                click.echo("A try-out: a study with people needs an ethics approval (--approval).")
            sys.stdout.flush()

        run(pages, host=host, port=port, announce=announce)
    finally:
        opened.close()
    return 0


@app.command("export")
@STORE_FILE
@click.option("-o", "--output", metavar="FILE", type=o.PATH, help="Write the CSV here; default standard output.")
def export(store: Path, output: Path | None) -> int:
    """Write the answers as a CSV, one line per participant."""
    from dosimeter.show.charts import write_page
    from dosimeter_paper.study.answers import write_answers
    from dosimeter_paper.study.store import StudyStore

    if output is not None:
        inputs = Inputs(others=[("the store of the study", store)])
        check_writable(output, (".csv",), "Answers are written", inputs=inputs)
    opened = StudyStore(store, existing=True)
    try:
        text = write_answers(opened.list_answers())
    finally:
        opened.close()
    if output is None:
        sys.stdout.write(text)
    else:
        write_page(text, output)
        count = text.count("\n") - 1
        click.echo(f"Wrote {count} participant{'' if count == 1 else 's'} to {output}")
    return 0


@app.command("analyse")
@click.argument("answers", metavar="FILE", type=o.PATH, help="The CSV that study export wrote.")
@click.option(
    "-o", "--output", metavar="DIR", type=o.PATH, help="Also write the swarm plots (.svg, .png) and a .json here."
)
@o.JSON
def analyse(answers: Path, output: Path | None, json: bool) -> int:
    """Count how often each ε was chosen, and test whether the groups chose differently.

    The Mann–Whitney test compares where the groups' ε's lie, the Brown–Forsythe test how far they spread.
    """
    from dosimeter_paper.study.analysis import analyse_answers
    from dosimeter_paper.study.answers import read_answers

    found = analyse_answers(read_answers(answers))
    written = [] if output is None else _write_files(found, output)
    if json:
        print_json(found.document())
    else:
        _print_analysis(found, written)
    return 0


def _write_files(found: Analysis, folder: Path) -> list[Path]:
    import json

    from dosimeter.show.charts import write_page
    from dosimeter_paper.study.figures import save_swarms

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"{folder} cannot be made: {error.strerror}. Choose another folder with -o.") from None
    document = folder / "analysis.json"
    write_page(json.dumps(found.document(), ensure_ascii=False, indent=2) + "\n", document)
    return [*save_swarms(found, folder), document]


def _print_analysis(found: Analysis, written: list[Path]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from dosimeter.cli.printing import make_console
    from dosimeter_paper.study.analysis import KNOWLEDGE

    console = make_console()
    shown = [("Who is analysed", found.size_table())]
    for known, words in KNOWLEDGE.items():
        of_whom = "" if known == "all" else f", those who {words}"
        shown.append((f"ε chosen{of_whom}", found.choice_table(known)))
        shown.append((f"Groups compared{of_whom}", found.comparison_table(known)))
    for title, table in shown:
        drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left", title_style="bold")
        for place, name in enumerate(table["columns"]):
            drawn.add_column(Text(str(name)), justify="left" if place < 2 and name != "analysed" else "right")
        for row in table["rows"]:
            drawn.add_row(*(Text(str(cell)) for cell in row))
        if table["rows"]:
            console.print(drawn)
    for sentence in found.words:
        console.print(Text(f"· {sentence}"))
    for path in written:
        console.print(Text(f"Wrote {path}", style="dim"))
