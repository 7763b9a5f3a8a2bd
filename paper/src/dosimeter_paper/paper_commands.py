"""``dosimeter paper …``: reproduce the paper's example, tables and figures, beside what its authors found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dosimeter.cli import options as o
from dosimeter.cli.writing import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from dosimeter.show import TextTable
    from dosimeter_paper.reproduction.data import Split
    from dosimeter_paper.reproduction.differences import Shown
    from dosimeter_paper.reproduction.variance import Normaliser, ThresholdSource


@click.group("paper", cls=o.CommandGroup, no_args_is_help=False)
def app() -> None:
    """The paper's example, tables and figures again, beside what its authors found."""


ADULT_DATA = click.option(
    "--data", metavar="PATH", type=o.PATH, help="A folder with adult.data, or a CSV of Adult; default: the cache."
)
SPLIT_OPTION = click.option(
    "--split",
    default="train",
    type=click.Choice(("train", "all")),
    help="The training file, as the authors ran it, or with the test file.",
)
FOLDER = click.option(
    "-o", "--output", metavar="DIR", type=o.PATH, help="Also write the picture (.svg, .png) and a .csv here."
)
THRESHOLDS_OPTION = click.option(
    "--thresholds",
    default="label",
    type=click.Choice(("label", "code")),
    help="τ_var as on the figure's labels, or ten times it as in the code.",
)
NORMALISE_OPTION = click.option(
    "--normalise",
    default="ceiling",
    type=click.Choice(("ceiling", "data")),
    help="RDR over RDR* (the text), or over the data's largest RDR (the code).",
)
UP_TO = click.option("--up-to", default=1_000_000, metavar="N", type=int, help="The largest number of records.")
RUNS = click.option("--runs", default=10, metavar="N", type=int, help="How often each is timed.")
LIMIT = click.option(
    "--limit",
    default=120.0,
    metavar="SECONDS",
    type=float,
    help="What recomputing may take per query and size; 0: leave it out.",
)
SEED = click.option("--seed", default=1, metavar="N", type=int, help="The seed of the generated tables.")


@app.command("example")
@o.JSON
def example(json: bool) -> int:
    """Print everybody's RDR at each ε in the paper's first example: three patients, one of them ill."""
    from dosimeter_paper.reproduction.example import SQL, compute_example

    found = compute_example()
    if json:
        print_json(found.document())
        return 0
    console = _open_console()
    console.print(SQL, style="bold", markup=False)
    _print_table(console, found.text_table())
    console.print(found.words, markup=False)
    return 0


@app.command("thresholds")
@ADULT_DATA
@SPLIT_OPTION
@FOLDER
@o.JSON
def thresholds(data: Path | None, split: Split, output: Path | None, json: bool) -> int:
    """Find ε for five ratios, five queries and two mechanisms, and compare with the authors' 50 numbers.

    A ratio of 0.95 demands that the smallest RDR is at least 0.95 times the largest.
    """
    from dosimeter_paper.reproduction.queries import MECHANISMS, open_adult
    from dosimeter_paper.reproduction.thresholds import compare_thresholds

    table = _load(data, split)
    with open_adult(table) as adult, _watch("Finding ε") as progress:
        study = compare_thresholds(adult, progress)
    written = []
    if output is not None:
        from dosimeter_paper.reproduction.figures import draw_thresholds
        from dosimeter_paper.reproduction.report import save_thresholds

        written = save_thresholds(study, draw_thresholds(study), output)
    if json:
        print_json(study.document())
        return 0
    console = _open_console()
    for mechanism in MECHANISMS:
        _print_table(console, study.text_table(mechanism), title=f"ε found, {mechanism.capitalize()}")
    console.print(
        "The authors' ε. ✗: ours under their conventions, where it is another. →: this package's own defaults."
    )
    _tell(console, study.words, written)
    return 0


@app.command("variance")
@ADULT_DATA
@SPLIT_OPTION
@THRESHOLDS_OPTION
@NORMALISE_OPTION
@click.option("--runs", default=50, metavar="N", type=click.IntRange(min=1), help="How often the noisy test is run.")
@FOLDER
@o.JSON
def variance(
    data: Path | None,
    split: Split,
    thresholds: ThresholdSource,
    normalise: Normaliser,
    runs: int,
    output: Path | None,
    json: bool,
) -> int:
    """Find ε by a noisy test, for four limits on the variance of everybody's normalised RDR.

    For runs of the paper's test, prints the median ε and how many runs release an ε that violates the limit. For the
    paper's test and for this package's own test, the sharp selection, prints the exact median, the probability of a
    denial, and the share of released ε's that violate the limit.
    """
    from dosimeter_paper.reproduction.queries import MECHANISMS, open_adult
    from dosimeter_paper.reproduction.variance import study_variance

    table = _load(data, split)
    with open_adult(table) as adult, _watch("Running the noisy test") as progress:
        study = study_variance(adult, thresholds=thresholds, normalise=normalise, runs=runs, progress=progress)
    written = []
    if output is not None:
        from dosimeter_paper.reproduction.figures import draw_variance
        from dosimeter_paper.reproduction.report import save_variance

        written = save_variance(study, draw_variance(study), output)
    if json:
        print_json(study.document())
        return 0
    console = _open_console()
    for mechanism in MECHANISMS:
        _print_table(console, study.text_table(mechanism), title=f"ε found privately, {mechanism.capitalize()}")
    _tell(console, study.words, written)
    return 0


@app.command("scalability")
@ADULT_DATA
@UP_TO
@RUNS
@LIMIT
@SEED
@FOLDER
@o.JSON
def scalability(
    data: Path | None, up_to: int, runs: int, limit: float, seed: int, output: Path | None, json: bool
) -> int:
    """Time the paper's two algorithms on 1,000 to 1,000,000 records, and show the authors' seconds beside.

    The first finds ε from a preference, the second selects ε by a noisy test.
    """
    from dosimeter_paper.reproduction.scalability import ALGORITHMS, list_sizes, measure_scalability

    sizes = list_sizes(up_to)
    table = _load(data, "train")
    with _watch("Timing") as progress:
        study = measure_scalability(table, sizes=sizes, runs=runs, limit=limit, seed=seed, progress=progress)
    written = []
    if output is not None:
        from dosimeter_paper.reproduction.figures import draw_scalability
        from dosimeter_paper.reproduction.report import save_scalability

        written = save_scalability(study, draw_scalability(study), output)
    if json:
        print_json(study.document())
        return 0
    console = _open_console()
    for algorithm in ALGORITHMS:
        _print_table(console, study.text_table(algorithm), title=f"Seconds, {algorithm}")
    _tell(console, study.words, written)
    return 0


@app.command("differences")
@o.JSON
def differences(json: bool) -> int:
    """Show where the paper, its authors' code and sound practice differ, each by a small computation."""
    from dosimeter_paper.reproduction.differences import show_differences

    shown = show_differences()
    if json:
        print_json({"differences": [point.document() for point in shown]})
    else:
        _print_differences(_open_console(), shown)
    return 0


@app.command("data")
@click.option("-o", "--output", metavar="DIR", type=o.PATH, help="Where the files go; default: the user's cache.")
@click.option("--from", "source", metavar="URL", help="Where the files come from; default: the UCI archive.")
@o.JSON
def data(output: Path | None, source: str | None, json: bool) -> int:
    """Fetch the Adult data (6 MB) from the UCI archive and check it."""
    from dosimeter_paper.reproduction.data import ARCHIVE, CITATION, default_folder, fetch_adult

    fetched = fetch_adult(output or default_folder(), source=source or ARCHIVE)
    if json:
        files = [{"path": str(f.path), "sha256": f.sha256, "fetched": f.fresh} for f in fetched]
        print_json({"files": files, "citation": CITATION})
        return 0
    for file in fetched:
        click.echo(
            f"{'Fetched' if file.fresh else 'Already there'}: {file.path} (SHA-256 {file.sha256[:16]}… as expected)"
        )
    click.echo(CITATION)
    return 0


@app.command("all")
@click.option(
    "-o", "--output", required=True, metavar="DIR", type=o.PATH, help="Where pictures, tables and the page go."
)
@ADULT_DATA
@SPLIT_OPTION
@UP_TO
@RUNS
@LIMIT
@SEED
@o.JSON
def everything(
    output: Path, data: Path | None, split: Split, up_to: int, runs: int, limit: float, seed: int, json: bool
) -> int:
    """Run example, thresholds, variance, scalability and differences, and write one HTML page about all of them.

    The page is self-contained, and also tells versions, machine and time. Pictures and tables are written beside it.
    """
    from dosimeter_paper.reproduction import figures, report
    from dosimeter_paper.reproduction.differences import show_differences
    from dosimeter_paper.reproduction.example import compute_example
    from dosimeter_paper.reproduction.queries import open_adult
    from dosimeter_paper.reproduction.scalability import list_sizes, measure_scalability
    from dosimeter_paper.reproduction.thresholds import compare_thresholds
    from dosimeter_paper.reproduction.variance import study_variance

    sizes = list_sizes(up_to)
    begun = datetime.now(UTC)
    table = _load(data, split)
    training = table if split == "train" else _load(data, "train")
    example = compute_example()
    figures.write_file(
        output / "example.csv", report.write_csv(example.list_lines())
    )  # checks that the folder is writable
    with open_adult(table) as adult:
        with _watch("Finding ε") as progress:
            found = compare_thresholds(adult, progress)
        with _watch("Running the noisy test") as progress:
            noisy = study_variance(adult, progress=progress)
    with _watch("Timing") as progress:
        timed = measure_scalability(training, sizes=sizes, runs=runs, limit=limit, seed=seed, progress=progress)
    studies = report.PaperResults(example, found, noisy, timed, show_differences(), begun, datetime.now(UTC))
    pictures = {
        "thresholds": figures.draw_thresholds(found),
        "variance": figures.draw_variance(noisy),
        "scalability": figures.draw_scalability(timed),
    }
    written = [
        *report.save_thresholds(found, pictures["thresholds"], output),
        *report.save_variance(noisy, pictures["variance"], output),
        *report.save_scalability(timed, pictures["scalability"], output),
        figures.write_file(output / "report.html", report.write_report(studies, pictures).encode()),
    ]
    if json:
        print_json(studies.document())
        return 0
    console = _open_console()
    _tell(console, [found.words[0], *noisy.words[1:-1], *timed.words], written)
    return 0


def _load(data: Path | None, split: Split) -> Any:
    from dosimeter_paper.reproduction.data import load_adult

    return load_adult(data, split=split)


@contextmanager
def _watch(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error, where that is a terminal.

    Yields the function that moves the bar: it takes how many steps are done, and how many there are.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=None)

        def step(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield step


def _open_console() -> Console:
    from dosimeter.cli.printing import make_console

    return make_console()


def _print_table(console: Console, table: TextTable, *, title: str = "") -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title or None, title_justify="left", title_style="bold")
    for place, name in enumerate(table["columns"]):
        shown.add_column(Text(str(name)), justify="left" if place == 0 else "right", overflow="fold")
    for row in table["rows"]:
        shown.add_row(*(Text(str(cell)) for cell in row))
    console.print(shown)


def _print_differences(console: Console, shown: Sequence[Shown]) -> None:
    from rich.text import Text

    for point in shown:
        section = "code" if point.difference.section == "code" else f"section {point.difference.section}"
        console.print(Text(f"{point.difference.title} ({section})", style="bold"))
        console.print(Text(f"  There: {point.difference.theirs}"))
        console.print(Text(f"  Here:  {point.difference.here}"))
        console.print(Text(f"  Shown: {point.shown.words}"))
        console.print()


def _tell(console: Console, words: Sequence[str], written: Sequence[Path]) -> None:
    from rich.text import Text

    console.print()
    for sentence in words:
        console.print(Text(f"· {sentence}"))
    for path in written:
        console.print(Text(f"Wrote {path}", style="dim"))
