"""``dosimeter demo``: from a query to a chosen ε on bundled data, offline, in seconds."""

from __future__ import annotations

import tempfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dosimeter.cli import options as o

if TYPE_CHECKING:
    from rich.console import Console

QUESTION = "SELECT diagnosis, COUNT(*) FROM clinic WHERE district = 'Seal Island' GROUP BY diagnosis"
PREFERENCE = "ratio:0.95"


def demo(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Where the picture goes; default a new folder.")
    ] = None,
) -> int:
    """The paper's three patients, then a clinic: from a query to a chosen ε to a picture. Offline."""
    from dosimeter.cli.printing import make_console

    folder = _make_folder(output)
    console = make_console()
    _tell_three_patients(console)
    _tell_clinic(console, folder)
    return 0


def _make_folder(wanted: Path | None) -> Path:
    try:
        folder = wanted if wanted is not None else Path(tempfile.mkdtemp(prefix="dosimeter-"))
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise o.unwritable(wanted if wanted is not None else Path(tempfile.gettempdir())) from None
    return folder


def _tell_three_patients(console: Console) -> None:
    import pyarrow as pa
    from rich.rule import Rule
    from rich.table import Table

    from dosimeter.dataset import Dataset

    console.print(Rule("Three patients, one of them ill", align="left"))
    patients = pa.table({"p": ["A", "B", "C"], "d": [0, 0, 1]})
    with Dataset.open(patients, table="patients") as dataset:
        risk = dataset.risk("SELECT COUNT(*) FROM patients WHERE d = 1", candidates=[1, 0.1, 0.01])
        table = Table(box=None, pad_edge=False)
        table.add_column("ε", justify="right")
        for name in ("A (healthy)", "B (healthy)", "C (ill)", "least ÷ most"):
            table.add_column(name, justify="right")
        for epsilon in (float("inf"), 1.0, 0.1, 0.01):
            low, high = risk.rdr(epsilon).values
            label = "∞" if epsilon == float("inf") else f"{epsilon:g}"
            table.add_row(label, f"{low:g}", f"{low:g}", f"{high:g}", f"{low / high:.3f}")
        console.print("An analyst asks how many are ill. Each patient's relative disclosure risk (RDR) at each ε:")
        console.print(table)
        choice = risk.find("ratio:0.9")
        console.print(
            "Smaller ε adds noise and makes people look alike. If the least exposed must carry at least 90 % of the "
            f"risk of the most exposed, the largest ε is {choice.epsilon:g}."
        )


def _tell_clinic(console: Console, folder: Path) -> None:
    from rich.rule import Rule
    from rich.text import Text

    from dosimeter.cli.printing import print_choice
    from dosimeter.dataset import Dataset
    from dosimeter.show.charts import range_chart, save_chart

    console.print()
    console.print(Rule("A clinic with 4,000 patients", align="left"))
    bundled = resources.files("dosimeter") / "data"
    with (
        resources.as_file(bundled / "clinic.csv") as data,
        resources.as_file(bundled / "clinic.toml") as schema,
        Dataset.open(data, schema=schema) as dataset,
    ):
        risk = dataset.risk(QUESTION)
        choice = risk.find(PREFERENCE)
        print_choice(risk, choice)
        person = risk.list_people(1, epsilon=choice.epsilon or risk.candidates[-1])[0]
        console.print()
        who = "one person" if person.people == 1 else f"{person.people:,} people with the same record"
        console.print(Text(f"Most exposed: {who}. Without them, {person.why}."))
        picture = folder / "clinic-range.svg"
        save_chart(range_chart(choice.candidates, selected=choice.epsilon), picture)
    console.print(f"The range plot: {picture}")
    console.print('Next: dosimeter risk YOUR.csv "SELECT …", then dosimeter find … --prefer ratio:0.95')
