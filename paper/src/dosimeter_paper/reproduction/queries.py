"""The paper's five queries, the two conventions for measuring them, and what the authors measured.

*authors*: as their code does it, for comparison only. Groups are those observed, bounds are read off the data, AVG is
one number with Δ = (max − min)/n over all n rows, the Gaussian is the classic one (M2). None of it backs a release.
*product*: this package's own defaults. Groups and bounds are declared, AVG goes through a centred sum and a count
(S2), the Gaussian is calibrated through zCDP (M3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dosimeter.dataset import Dataset
from dosimeter_paper.reproduction.data import adult_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dosimeter.assessment import Risk

Convention = Literal["authors", "product"]
MechanismName = Literal["laplace", "gaussian"]
MECHANISMS: tuple[MechanismName, ...] = ("laplace", "gaussian")


@dataclass(frozen=True, slots=True)
class PaperQuery:
    """One of the five queries, as the authors ran it. ``words``: what it asks, in plain words."""

    name: str
    sql: str
    words: str


QUERIES = (
    PaperQuery(
        "Q1",
        "SELECT COUNT(*) FROM adult WHERE income == '>50K' AND education_num == 13 AND age == 25",
        "count of a few",
    ),
    PaperQuery(
        "Q2",
        "SELECT marital_status, COUNT(*) FROM adult WHERE race == 'Asian-Pac-Islander' AND age >= 30 AND age <= 40 "
        "GROUP BY marital_status",
        "counts by marital status",
    ),
    PaperQuery(
        "Q3",
        "SELECT COUNT(*) FROM adult WHERE native_country != 'United-States' AND sex == 'Female'",
        "count of many",
    ),
    PaperQuery(
        "Q4",
        "SELECT AVG(hours_per_week) FROM adult WHERE workclass == 'Federal-gov' OR workclass == 'Local-gov' "
        "OR workclass == 'State-gov'",
        "average of hours",
    ),
    PaperQuery("Q5", "SELECT SUM(capital_gain) FROM adult", "sum of gains"),
)
AVERAGE = "Q4"

RATIOS = (0.95, 0.75, 0.5, 0.25, 0.05)
VARIANCES = (1e-11, 1e-9, 1e-7, 1e-5)
EPSILON_SVT = 1.0

# ε found by the authors' code on the training split, in the order of RATIOS.
AUTHORS_EPSILON: Mapping[MechanismName, Mapping[str, tuple[float, ...]]] = {
    "laplace": {
        "Q1": (0.05, 0.3, 1.0, 3.0, 10.0),
        "Q2": (0.3, 2.0, 6.0, 10.0, 10.0),
        "Q3": (0.05, 0.3, 1.0, 3.0, 10.0),
        "Q4": (0.01, 0.07, 0.2, 0.6, 4.0),
        "Q5": (0.05, 0.3, 1.0, 3.0, 10.0),
    },
    "gaussian": {
        "Q1": (2.0, 5.0, 10.0, 10.0, 10.0),
        "Q2": (5.0, 10.0, 10.0, 10.0, 10.0),
        "Q3": (2.0, 5.0, 10.0, 10.0, 10.0),
        "Q4": (0.4, 1.0, 2.0, 5.0, 10.0),
        "Q5": (2.0, 5.0, 10.0, 10.0, 10.0),
    },
}

# Seconds, the mean of ten runs: 8 processes, 32-core Xeon Gold 6242, data loading excluded. By number of records.
AUTHORS_SECONDS: Mapping[str, Mapping[int, float]] = {
    "Q1": {1_000: 0.38, 10_000: 2.3, 100_000: 23.3, 1_000_000: 288.0},
    "Q2": {1_000: 0.44, 10_000: 2.6, 100_000: 25.3, 1_000_000: 314.0},
    "Q3": {1_000: 0.33, 10_000: 1.5, 100_000: 14.5, 1_000_000: 144.0},
    "Q4": {1_000: 0.36, 10_000: 1.9, 100_000: 18.0, 1_000_000: 210.0},
    "Q5": {1_000: 0.33, 10_000: 1.5, 100_000: 14.4, 1_000_000: 141.0},
}


@dataclass(frozen=True, slots=True)
class Adult:
    """The Adult table, opened twice: by the authors' conventions and by this package's own (``product``).

    ``hand_sensitivity``: the Δ that the authors give to the query with AVG.
    """

    table: pa.Table
    authors: Dataset
    product: Dataset
    hand_sensitivity: float

    def assess(self, query: PaperQuery, mechanism: MechanismName, convention: Convention) -> Risk:
        """Return everybody's risk from one of the five queries, with this noise and under this convention."""
        if convention == "product":
            return self.product.risk(query.sql, mechanism=mechanism)
        return self.authors.risk(
            query.sql,
            mechanism=mechanism,
            calibration="classic" if mechanism == "gaussian" else None,
            groups="observed",
            sensitivity=self.hand_sensitivity if query.name == AVERAGE else None,
        )


@contextmanager
def open_adult(table: pa.Table) -> Iterator[Adult]:
    """Open a table under both conventions; close both when the ``with`` block ends."""
    import pyarrow.compute as pc

    hours = pc.min_max(table.column("hours_per_week")).as_py()
    hand = (hours["max"] - hours["min"]) / table.num_rows  # the authors' Δ of AVG: over all rows, whatever the WHERE
    with (
        Dataset.open(table, table="adult") as authors,
        Dataset.open(table, table="adult", schema=adult_schema(table.num_rows)) as product,
    ):
        yield Adult(table, authors, product, hand)
