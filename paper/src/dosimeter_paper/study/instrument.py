"""The study's material: a sample, two queries on it, accuracy for everybody and RDRs for the treatment groups.

Takes the Adult table and a seed; gives an Instrument, computed once and the same for the same data and seed. RDRs are
those of the package itself: ``Dataset.risk`` with the Laplace mechanism and the paper's bound (R3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dosimeter.dataset import Dataset
from dosimeter.errors import DataError
from dosimeter.risk import Candidate, RDRs
from dosimeter.show import format_epsilon, format_range, format_times
from dosimeter_paper.reproduction.data import adult_schema
from dosimeter_paper.study import texts
from dosimeter_paper.study.answers import EPSILONS
from dosimeter_paper.study.generate import QUERY_NAMES, draw_sample
from dosimeter_paper.study.pictures import draw_histograms, draw_ranges

if TYPE_CHECKING:
    import pyarrow as pa

    from dosimeter.assessment import Risk

ROWS = 100
SHOWN = ("age", "education", "race", "sex", "income")
ORDER = EPSILONS[::-1]  # from the least noise to the most, in tables and pictures alike
SQL: Mapping[str, str] = {
    "q1": "SELECT COUNT(*) FROM adult WHERE income = '>50K' AND age < 40",
    # 14 Masters, 15 Prof-school, 16 Doctorate
    "q2": "SELECT race, COUNT(*) FROM adult WHERE education_num >= 14 AND income = '<=50K' GROUP BY race",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose cells are text, ready to be shown."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Stimulus:
    """Everything that is shown with one query. ``words``: what it asks; ``accuracy``: the table that every group sees.

    The rest is for the treatment groups only: ``ranges`` and ``histograms`` as SVG, and the same as tables.
    """

    query: str
    words: str
    accuracy: Table
    ranges: str
    range_table: Table
    histograms: tuple[str, ...]
    histogram_table: Table


@dataclass(frozen=True, slots=True)
class Instrument:
    """The study's material. ``digest`` identifies the sample."""

    sample: Table
    stimuli: Mapping[str, Stimulus]
    digest: str


def build_instrument(adult: pa.Table, *, seed: int) -> Instrument:
    """Draw the sample, measure both queries on it, and draw every picture. The same seed gives the same material.

    Raises DataError if nobody in the sample matches one of the queries.
    """
    import pyarrow as pa

    sample = adult.take(pa.array(draw_sample(adult.num_rows, ROWS, seed=seed)))
    rows = sample.to_pylist()
    with Dataset.open(sample, table="adult", schema=adult_schema(ROWS)) as dataset:
        stimuli: dict[str, Stimulus] = {
            name: _measure(name, dataset.risk(SQL[name], candidates=EPSILONS)) for name in QUERY_NAMES
        }
    shown = Table(SHOWN, tuple(tuple(str(row[name]) for name in SHOWN) for row in rows))
    return Instrument(shown, stimuli, hashlib.sha256(repr(rows).encode()).hexdigest())


def _measure(name: str, risk: Risk) -> Stimulus:
    if float(risk.sensitivities.values[-1]) == 0.0:
        raise DataError(
            f"Nobody in this sample matches query {name}, so there would be nothing to compare. Choose another --seed."
        )
    candidates = list(risk.list_candidates(ORDER))
    rdrs = [risk.rdr(epsilon) for epsilon in ORDER]
    return Stimulus(
        query=name,
        words=texts.QUERY_WORDS[name],
        accuracy=_tabulate_accuracy(risk, candidates),
        ranges=draw_ranges(candidates),
        range_table=Table(texts.RANGE_COLUMNS, tuple(_range_row(candidate) for candidate in candidates)),
        histograms=draw_histograms(candidates, rdrs),
        histogram_table=Table(texts.HISTOGRAM_COLUMNS, tuple(_histogram_row(held) for held in rdrs)),
    )


def _tabulate_accuracy(risk: Risk, candidates: list[Candidate]) -> Table:
    """Return a table of the exact answer and, for each ε, the range that holds 95 % of the released numbers."""
    measured = risk.measured()
    raw = [int(row[0]) for row in measured.values]
    names = [str(key[0]) for key in measured.keys] if risk.plan.groups else ["number of people"]
    rows = [(texts.RAW_ROW, *(str(number) for number in raw))]
    for candidate in candidates:
        (error,) = candidate.error_95
        assert error is not None
        rows.append((f"{candidate.epsilon:.1f}", *(_write_span(number, round(error)) for number in raw)))
    return Table(("ε", *names), tuple(rows))


def _write_span(number: int, error: int) -> str:
    low, high = (str(end).replace("-", "−") for end in (number - error, number + error))
    return low if error == 0 else f"{low} to {high}"


def _range_row(candidate: Candidate) -> tuple[str, ...]:
    least, most = format_range(*candidate.rdr.relative)
    return f"{candidate.epsilon:.1f}", f"{least} ×", f"{most} ×"


def _histogram_row(rdrs: RDRs) -> tuple[str, ...]:
    mean = float(rdrs.values @ rdrs.counts) / rdrs.n
    held = [(value / mean, int(people)) for value, people in zip(rdrs.values, rdrs.counts, strict=True) if people]
    return f"{rdrs.epsilon:.1f}", "; ".join(f"{people} at {format_times(times)} ×" for times, people in held)


@dataclass(frozen=True, slots=True)
class Exposure:
    """What a treatment group is shown besides the accuracy table.

    ``kind``: the group's name, ``range`` or ``histogram``. ``reading``: a text that explains how to read the pictures.
    ``titles``: the pictures' titles, in order. ``table``: the numbers that the pictures show.
    """

    kind: str
    reading: str
    titles: tuple[str, ...]
    table: Table


def describe_group(group: str, stimulus: Stimulus) -> Exposure | None:
    """Return what a participant of this group is shown besides the accuracy table; None for the control group."""
    match group:
        case "range":
            return Exposure(group, texts.RANGE_READING, (texts.RANGE_TITLE,), stimulus.range_table)
        case "histogram":
            titles = tuple(texts.HISTOGRAM_TITLE.format(epsilon=format_epsilon(epsilon)) for epsilon in ORDER)
            return Exposure(group, texts.HISTOGRAM_READING, titles, stimulus.histogram_table)
        case "control":
            return None
        case _:
            raise AssertionError(f"the study has no group {group}")


def find_picture(group: str | None, stimulus: Stimulus, number: int) -> str | None:
    """Return the SVG with this number, from 0; None if there is none or this group may not see it."""
    pictures = {"range": (stimulus.ranges,), "histogram": stimulus.histograms}.get(group or "", ())
    return pictures[number] if 0 <= number < len(pictures) else None
