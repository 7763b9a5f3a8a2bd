"""``dosimeter demo``: from a query to a chosen ε and a release on bundled data, offline, in seconds."""

from __future__ import annotations

import tempfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dosimeter.cli import options as o
from dosimeter.cli.writing import unwritable

if TYPE_CHECKING:
    from rich.console import Console

    from dosimeter.dataset import Dataset
    from dosimeter.release import Answer

QUESTION = "SELECT diagnosis, COUNT(*) FROM clinic WHERE district = 'Seal Island' GROUP BY diagnosis"
PREFERENCE = "ratio:0.95"
COARSER = "SELECT district, COUNT(*) AS smokers FROM clinic WHERE smoker GROUP BY district"
RELEASED = 0.5


@click.command("demo")
@click.option("-o", "--output", metavar="DIR", type=o.PATH, help="Where the picture goes; default a new folder.")
def demo(output: Path | None) -> int:
    """Show on bundled data how an ε is found and an answer is released. Works offline.

    Two examples: the paper's three patients, then a clinic with 4,000 patients. Writes a picture and a ledger.
    """
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
        raise unwritable(wanted if wanted is not None else Path(tempfile.gettempdir())) from None
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
    from dosimeter.show.charts import draw_altair, range_chart, save_chart

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
        alike = int(risk.sensitivities.counts[-1])
        console.print()
        who = "one person" if alike == 1 else f"{alike:,} people, all alike"
        console.print(Text(f"Most exposed: {who}. For example: without one of them, {person.why}."))
        picture = folder / "clinic-range.svg"
        save_chart(draw_altair(range_chart(choice.candidates, selected=choice.epsilon)), picture)
        console.print(f"The range plot: {picture}")
        _tell_release(console, dataset, folder)


def _tell_release(console: Console, dataset: Dataset, folder: Path) -> None:
    """Release how many people smoke in each district; print the answer, and whether its numbers exceed their errors.

    ``dataset``: the clinic. ``folder``: where the ledger goes.
    """
    from rich.rule import Rule
    from rich.text import Text

    from dosimeter.cli.printing import print_answer
    from dosimeter.ledger import Ledger

    console.print()
    console.print(Rule("A release", align="left"))
    console.print(
        "So the diagnoses on the island are not worth asking for at an ε that protects those who live there. The "
        "analyst asks how many smoke in each district instead, and the controller fixes "
        f"ε = {RELEASED:g} for it without looking at the data:"
    )
    console.print(Text(COARSER, style="bold"))
    with Ledger.open(str(folder / "ledger.db")) as ledger:
        answer = dataset.release(COARSER, epsilon=RELEASED, ledger=ledger, policy="budget:2")
    print_answer(answer, ["smokers"])
    console.print()
    console.print(Text(_compare_with_errors(answer)))
    console.print(f"What was charged: dosimeter ledger {folder / 'ledger.db'}")
    console.print('Next: dosimeter schema YOUR.csv -o schema.toml, then dosimeter risk YOUR.csv "SELECT …"')


def _compare_with_errors(answer: Answer) -> str:
    """Say whether the released numbers are larger than their errors. Uses only what is released."""
    cells = list(zip(answer.answer or (), answer.errors or (), strict=True))
    clear = [row["district"] for row, errors in cells if abs(float(str(row["smokers"]))) > (errors["smokers"] or 0.0)]
    small = [str(row["district"]) for row, _ in cells if row["district"] not in clear]
    kept = f"{len(clear)} of {len(cells)} numbers are larger than their error"
    if not small:
        return f"Is it worth anything? Yes: all {len(cells)} numbers are larger than their errors."
    verdict = "Yes, mostly" if 2 * len(clear) > len(cells) else "Hardly"
    return f"Is it worth anything? {verdict}: {kept}. Of {', '.join(small)} it only says that there are few."
