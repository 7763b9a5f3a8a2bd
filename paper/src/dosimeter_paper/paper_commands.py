"""``dosimeter paper …``: reproduce the paper's example, tables and figures, beside what its authors found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.cli import options as o

if TYPE_CHECKING:
    from rich.console import Console

    from dosimeter.show import TextTable
    from dosimeter_paper.reproduction.differences import Shown

app = typer.Typer(
    name="paper",
    help="The paper's example, tables and figures again, beside what its authors found.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class SplitName(StrEnum):
    TRAIN = "train"
    ALL = "all"


class ThresholdsName(StrEnum):
    LABEL = "label"
    CODE = "code"


class NormaliseName(StrEnum):
    CEILING = "ceiling"
    DATA = "data"


AdultData = Annotated[
    Path | None,
    typer.Option("--data", metavar="PATH", help="A folder with adult.data, or a CSV of Adult; default: the cache."),
]
SplitOption = Annotated[
    SplitName, typer.Option("--split", help="The training file, as the authors ran it, or with the test file.")
]
Folder = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help="Also write the picture (.svg, .png) and a .csv here."),
]
ThresholdsOption = Annotated[
    ThresholdsName,
    typer.Option("--thresholds", help="τ_var as on the figure's labels, or ten times it as in the code."),
]
NormaliseOption = Annotated[
    NormaliseName,
    typer.Option("--normalise", help="RDR over RDR* (the text), or over the data's largest RDR (the code)."),
]
UpTo = Annotated[int, typer.Option("--up-to", metavar="N", help="The largest number of records.")]
Runs = Annotated[int, typer.Option("--runs", metavar="N", help="How often each is timed.")]
Limit = Annotated[
    float,
    typer.Option("--limit", metavar="SECONDS", help="What recomputing may take per query and size; 0: leave it out."),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="The seed of the generated tables.")]


@app.command("example")
def example(json: o.Json = False) -> int:
    """Print everybody's RDR at each ε in the paper's first example: three patients, one of them ill."""
    from dosimeter_paper.reproduction.example import SQL, compute_example

    found = compute_example()
    if json:
        o.print_json(found.document())
        return 0
    console = _open_console()
    console.print(SQL, style="bold", markup=False)
    _print_table(console, found.text_table())
    console.print(found.words, markup=False)
    return 0


@app.command("thresholds")
def thresholds(
    data: AdultData = None, split: SplitOption = SplitName.TRAIN, output: Folder = None, json: o.Json = False
) -> int:
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
        o.print_json(study.document())
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
def variance(
    data: AdultData = None,
    split: SplitOption = SplitName.TRAIN,
    thresholds: ThresholdsOption = ThresholdsName.LABEL,
    normalise: NormaliseOption = NormaliseName.CEILING,
    runs: Annotated[int, typer.Option("--runs", metavar="N", min=1, help="How often the noisy test is run.")] = 50,
    output: Folder = None,
    json: o.Json = False,
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
        study = study_variance(
            adult, thresholds=thresholds.value, normalise=normalise.value, runs=runs, progress=progress
        )
    written = []
    if output is not None:
        from dosimeter_paper.reproduction.figures import draw_variance
        from dosimeter_paper.reproduction.report import save_variance

        written = save_variance(study, draw_variance(study), output)
    if json:
        o.print_json(study.document())
        return 0
    console = _open_console()
    for mechanism in MECHANISMS:
        _print_table(console, study.text_table(mechanism), title=f"ε found privately, {mechanism.capitalize()}")
    _tell(console, study.words, written)
    return 0


@app.command("scalability")
def scalability(
    data: AdultData = None,
    up_to: UpTo = 1_000_000,
    runs: Runs = 10,
    limit: Limit = 120.0,
    seed: Seed = 1,
    output: Folder = None,
    json: o.Json = False,
) -> int:
    """Time the paper's two algorithms on 1,000 to 1,000,000 records, and show the authors' seconds beside.

    The first finds ε from a preference, the second selects ε by a noisy test.
    """
    from dosimeter_paper.reproduction.scalability import ALGORITHMS, list_sizes, measure_scalability

    sizes = list_sizes(up_to)
    table = _load(data, SplitName.TRAIN)
    with _watch("Timing") as progress:
        study = measure_scalability(table, sizes=sizes, runs=runs, limit=limit, seed=seed, progress=progress)
    written = []
    if output is not None:
        from dosimeter_paper.reproduction.figures import draw_scalability
        from dosimeter_paper.reproduction.report import save_scalability

        written = save_scalability(study, draw_scalability(study), output)
    if json:
        o.print_json(study.document())
        return 0
    console = _open_console()
    for algorithm in ALGORITHMS:
        _print_table(console, study.text_table(algorithm), title=f"Seconds, {algorithm}")
    _tell(console, study.words, written)
    return 0


@app.command("differences")
def differences(json: o.Json = False) -> int:
    """Show where the paper, its authors' code and sound practice differ, each by a small computation."""
    from dosimeter_paper.reproduction.differences import show_differences

    shown = show_differences()
    if json:
        o.print_json({"differences": [point.document() for point in shown]})
    else:
        _print_differences(_open_console(), shown)
    return 0


@app.command("data")
def data(
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Where the files go; default: the user's cache."),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="Where the files come from; default: the UCI archive.")
    ] = None,
    json: o.Json = False,
) -> int:
    """Fetch the Adult data (6 MB) from the UCI archive and check it."""
    from dosimeter_paper.reproduction.data import ARCHIVE, CITATION, default_folder, fetch_adult

    fetched = fetch_adult(output or default_folder(), source=source or ARCHIVE)
    if json:
        files = [{"path": str(f.path), "sha256": f.sha256, "fetched": f.fresh} for f in fetched]
        o.print_json({"files": files, "citation": CITATION})
        return 0
    for file in fetched:
        typer.echo(
            f"{'Fetched' if file.fresh else 'Already there'}: {file.path} (SHA-256 {file.sha256[:16]}… as expected)"
        )
    typer.echo(CITATION)
    return 0


@app.command("all")
def everything(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where pictures, tables and the page go.")
    ],
    data: AdultData = None,
    split: SplitOption = SplitName.TRAIN,
    up_to: UpTo = 1_000_000,
    runs: Runs = 10,
    limit: Limit = 120.0,
    seed: Seed = 1,
    json: o.Json = False,
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
    training = table if split is SplitName.TRAIN else _load(data, SplitName.TRAIN)
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
        o.print_json(studies.document())
        return 0
    console = _open_console()
    _tell(console, [found.words[0], *noisy.words[1:-1], *timed.words], written)
    return 0


def _load(data: Path | None, split: SplitName) -> Any:
    from dosimeter_paper.reproduction.data import load_adult

    return load_adult(data, split=split.value)


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
