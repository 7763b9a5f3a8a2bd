"""The stated 95 % errors of derived numbers hold: shares of a total, differences, running totals, averages (E6).

The short run has 60 releases of each, the long one 2,000, where at least 94 % of the numbers lie within their errors.
Numbers of one answer share noise: at the level ALPHA of each test they count as one number.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dosimeter import Dataset, Ledger
from dosimeter.mechanisms import Gaussian, Laplace, Mechanism
from tests.statistical.coverage_cases import Covered, cover
from tests.unit.release_stays import COLUMNS, WARDS, make_table, schema_of

LEAST = 0.94
SIZES = [40, 200, 1000, 20_000, 5, 300]
YEARS = [400, 380, 520, 90, 610, 450, 30, 700]
BEFORE = "LAG(COUNT(*)) OVER (ORDER BY g)"
QUERIES: dict[str, tuple[str, list[int]]] = {
    "percent of the total": ("100.0 * COUNT(*) / SUM(COUNT(*)) OVER ()", SIZES),
    "percent of a part": ("100.0 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY g <= 3)", SIZES),
    "percent of a small total": ("100.0 * COUNT(*) / SUM(COUNT(*)) OVER ()", [3, 4, 9, 2]),
    "percent up to here": ("100.0 * SUM(COUNT(*)) OVER (ORDER BY g) / SUM(COUNT(*)) OVER ()", SIZES),
    "difference": (f"COUNT(*) - {BEFORE}", YEARS),
    "year over year": (f"100.0 * (COUNT(*) - {BEFORE}) / {BEFORE}", YEARS),
    "running total": ("SUM(COUNT(*)) OVER (ORDER BY g)", YEARS),
    "long running total": ("SUM(COUNT(*)) OVER (ORDER BY g)", [50] * 60),
    "moving average": ("AVG(COUNT(*)) OVER (ORDER BY g ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)", YEARS),
    "difference to the first": ("COUNT(*) - FIRST_VALUE(COUNT(*)) OVER (ORDER BY g)", YEARS),
}


def ask(name: str) -> tuple[str, list[list[float]]]:
    """Return the query of this name, and the exact numbers of its cells."""
    shown, sizes = QUERIES[name]
    return f"SELECT g, {shown} AS d FROM t GROUP BY g", [[float(size)] for size in sizes]


@pytest.mark.parametrize(
    ("mechanism", "releases"),
    [
        pytest.param(Laplace(), 60, id="60"),
        pytest.param(Laplace(), 2000, id="laplace", marks=pytest.mark.long),
        pytest.param(Gaussian(1e-10), 2000, id="gaussian", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("name", QUERIES)
def test_derived_numbers_lie_within_their_errors(name: str, mechanism: Mechanism, releases: int) -> None:
    """A number is stated and too far off in at most 5 of 100 releases, however often it is withheld (E1)."""
    sql, exact = ask(name)
    found = cover(sql, exact, releases=releases, seed=sorted(QUERIES).index(name), mechanism=mechanism)
    told = found.stated + found.withheld if name == "percent of a small total" else found.stated
    assert 2 * told >= found.stated + found.withheld
    share = 1.0 - (found.stated - found.within) / told
    Covered(releases, round(share * releases), 0).require()
    assert share >= LEAST or releases < 2000


def test_differences_of_averages_and_of_shares_lie_within_their_errors() -> None:
    averages = "SELECT g, AVG(x) - LAG(AVG(x)) OVER (ORDER BY g) AS d FROM t GROUP BY g"
    found = cover(averages, [[size, 12.0 * size] for size in (200, 400, 900, 20_000)], releases=60, seed=1)
    Covered(60, round(60 * found.share), 0).require()
    shares = (
        "SELECT g, s - LAG(s) OVER (ORDER BY g) AS d FROM "
        "(SELECT g, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS s FROM t GROUP BY g) AS x"
    )
    found = cover(shares, [[float(size)] for size in YEARS], releases=60, seed=2)
    Covered(60, round(60 * found.share), 0).require()


def test_released_derived_numbers_lie_within_their_errors(tmp_path: Path) -> None:
    """The whole road of a release, with OpenDP's noise: 30 releases of four kinds over three wards."""
    sql = (
        "SELECT ward, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS share, SUM(COUNT(*)) OVER (ORDER BY ward) AS so_far, "
        "COUNT(*) - LAG(COUNT(*), 1, 0) OVER (ORDER BY ward) AS change, "
        "AVG(COUNT(*)) OVER (ORDER BY ward ROWS 1 PRECEDING) AS smooth FROM stays GROUP BY ward"
    )
    sizes = [COLUMNS["ward"].count(ward) for ward in WARDS]
    before = [0, *sizes]
    exact: dict[str, list[float]] = {
        "share": [100.0 * size / sum(sizes) for size in sizes],
        "so_far": [sum(sizes[: at + 1]) for at in range(len(sizes))],
        "change": [size - before[at] for at, size in enumerate(sizes)],
        "smooth": [size if at == 0 else (before[at] + size) / 2 for at, size in enumerate(sizes)],
    }
    stated = within = 0
    with Dataset.open(make_table(), schema=schema_of()) as stays, Ledger.open(tmp_path / "ledger.db") as ledger:
        for _ in range(30):
            answer = stays.release(sql, ledger=ledger, epsilon=4.0, policy="budget:1000", again=True)
            assert answer.errors is not None
            for at, (row, errors) in enumerate(zip(answer.answer or [], answer.errors, strict=True)):
                for name, numbers in exact.items():
                    if errors[name] is not None:
                        stated += 1
                        within += abs(row[name] - numbers[at]) <= errors[name] + 1e-9  # type: ignore[operator]
    assert stated > 400
    Covered(stated, within, 0).require()
