"""Write the files that ``risk`` and ``find`` offer: a table of everybody's RDRs, and a picture of the candidates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dosimeter.cli.writing import Inputs, check_writable, unwritable
from dosimeter.findings import word_all

if TYPE_CHECKING:
    from dosimeter.assessment import Risk
    from dosimeter.options import View
    from dosimeter.risk import Candidate


def check_output(path: Path, inputs: Inputs) -> None:
    check_writable(path, (".csv", ".parquet"), "the distribution is written", inputs=inputs)


def check_picture(path: Path, inputs: Inputs) -> None:
    check_writable(path, (".svg", ".png", ".html"), "a picture is saved", inputs=inputs)


def write_distribution(found: Risk, path: Path) -> None:
    table = found.distribution(found.candidates)
    try:
        if path.suffix.lower() == ".csv":
            from pyarrow import csv

            csv.write_csv(table, path)
        else:
            from pyarrow import parquet

            parquet.write_table(table, path)
    except OSError:
        raise unwritable(path) from None


def save_picture(
    found: Risk,
    lines: Sequence[Candidate],
    path: Path,
    *,
    selected: float | None = None,
    words: Sequence[str] | None = None,
) -> None:
    """Save a picture with one bar per candidate of ``lines``, from the least to the most exposed person.

    If ``path`` ends in .html, save a page with this picture, a histogram of everybody's RDR at one ε, the SQL, advice
    and the notes on the risk ``found``. ``selected``: the ε to highlight, at which the histogram is drawn; without it,
    the histogram is drawn at the first of ``lines``. ``words``: the sentences of advice; by default the advice that is
    given without a preference.
    """
    from dosimeter.assessment import advise
    from dosimeter.show.charts import draw_altair, range_chart, risk_page, save_chart, write_page

    if path.suffix.lower() == ".html":
        at = selected if selected is not None else lines[0].epsilon
        findings = found.list_findings(lines)
        called = found.plan.words
        told = advise(found, lines) if words is None else words
        notes = dict.fromkeys((*told, *word_all((each for each in findings if each.is_note), called)))
        page = risk_page(
            lines, found.rdr(at), query=found.plan.sql, notes=tuple(notes), selected=selected, called=called
        )
        write_page(page, path)
    else:
        save_chart(draw_altair(range_chart(lines, selected=selected, called=found.plan.words)), path)


def save_view(found: Risk, view: View, epsilon: float | None, path: Path) -> None:
    """Save one view of the risk ``found``, as ``Risk.plot`` draws it; a page (.html) has its SQL too.

    ``epsilon``: the ε of two worlds; None for the largest candidate.
    """
    from dosimeter.show.charts import save_chart

    epsilons = None if view != "worlds" or epsilon is None else [epsilon]
    save_chart(found.plot(view, epsilons=epsilons), path, query=found.plan.sql)
