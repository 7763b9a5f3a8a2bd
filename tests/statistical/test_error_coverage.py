"""The stated 95 % errors hold: at least 95 % of released numbers lie within them, at the level ALPHA of each test.

The short run has 100 releases of everything, the long one 2,000.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from dosimeter import Dataset, Ledger
from dosimeter.mechanisms import Gaussian, Laplace, Mechanism
from tests.statistical.coverage_cases import Covered, cover, moments
from tests.unit.release_stays import COLUMNS, WARDS, make_table, schema_of

SIZES = [40, 200, 1000, 20_000]
MOMENTS = [moments(size, 62.0, 7.0, 20.0, 5.0, 0.6) for size in (400, 2000, 30_000)]
QUERIES: dict[str, tuple[str, list[list[float]]]] = {
    "count": ("SELECT g, COUNT(*) AS n FROM t GROUP BY g", [[float(size)] for size in SIZES]),
    "sum": ("SELECT g, SUM(x) AS s FROM t GROUP BY g", [[62.0 * size] for size in SIZES]),
    "avg": ("SELECT g, AVG(x) AS a FROM t GROUP BY g", [[size, (62.0 - 50.0) * size] for size in SIZES]),
    "avg at its bound": ("SELECT g, AVG(x) AS a FROM t GROUP BY g", [[size, 49.0 * size] for size in SIZES]),
    "stddev": (
        "SELECT g, STDDEV_POP(x) AS s FROM t GROUP BY g",
        [[size, 12.0 * size, (144.0 + 400.0) * size] for size in SIZES],
    ),
    "stddev of equal values": (
        "SELECT g, STDDEV_SAMP(x) AS s FROM t GROUP BY g",
        [[size, 30.0 * size, 900.0 * size] for size in SIZES],
    ),
    "corr": ("SELECT g, CORR(x, y) AS c FROM t GROUP BY g", MOMENTS),
    "slope": ("SELECT g, REGR_SLOPE(y, x) AS c FROM t GROUP BY g", [row[:5] for row in MOMENTS]),
    "ratio": (
        "SELECT g, COUNT(*) FILTER (WHERE member) * 1.0 / COUNT(*) AS r FROM t GROUP BY g",
        [[0.3 * size, size] for size in SIZES],
    ),
    "rounded": (
        "SELECT g, ROUND(SUM(x) / COUNT(*), 1) AS r FROM t GROUP BY g",
        [[62.0 * size, size] for size in SIZES],
    ),
    "rough": (
        "SELECT g, GREATEST(AVG(x), 60) AS r FROM t GROUP BY g",
        [[size, 12.0 * size] for size in SIZES],
    ),
}


@pytest.mark.parametrize(
    ("mechanism", "releases"),
    [
        pytest.param(Laplace(), 100, id="100"),
        pytest.param(Laplace(), 2000, id="laplace", marks=pytest.mark.long),
        pytest.param(Gaussian(1e-10), 2000, id="gaussian", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("name", QUERIES)
def test_numbers_lie_within_their_errors(name: str, mechanism: Mechanism, releases: int) -> None:
    sql, exact = QUERIES[name]
    cover(sql, exact, releases=releases, seed=sorted(QUERIES).index(name), mechanism=mechanism).require()


def test_one_person_too_few_is_told_wrongly_with_at_most_5_percent() -> None:
    """Groups so small that most are withheld: a number is stated and too far off in at most 5 of 100 releases."""
    sql, sizes, releases = "SELECT g, AVG(x) AS a FROM t GROUP BY g", [1, 3, 6, 10], 500
    found = cover(sql, [[size, 30.0 * size] for size in sizes], releases=releases, seed=5)
    Covered(releases * len(sizes), releases * len(sizes) - (found.stated - found.within), 0).require()
    assert found.withheld > 0.5 * releases * len(sizes)


def test_released_numbers_lie_within_their_errors(tmp_path: Path) -> None:
    """The whole road of a release, with OpenDP's noise: 30 releases of a count and an average of three wards."""
    sql = "SELECT ward, COUNT(*) AS n, AVG(nights) AS a FROM stays WHERE ward <> 'nobody' GROUP BY ward"
    table = make_table()
    nights = {ward: [n for w, n in zip(COLUMNS["ward"], COLUMNS["nights"], strict=True) if w == ward] for ward in WARDS}
    stated = within = 0
    with Dataset.open(table, schema=schema_of()) as stays, Ledger.open(tmp_path / "ledger.db") as ledger:
        for _ in range(30):
            answer = stays.release(sql, ledger=ledger, epsilon=4.0, policy="budget:1000", again=True)
            assert answer.errors is not None
            for row, errors in zip(answer.answer or [], answer.errors, strict=True):
                own = nights[str(row["ward"])]
                if not own:
                    continue
                for name, exact in (("n", len(own)), ("a", statistics.fmean(own))):
                    if errors[name] is not None:
                        stated += 1
                        within += abs(row[name] - exact) <= errors[name] + 1e-9  # type: ignore[operator]
    assert stated > 150
    Covered(stated, within, 0).require()


GROUPS = 10_000
SELECTING = {
    "limit": ("SELECT g, COUNT(*) AS n FROM t GROUP BY g ORDER BY n DESC LIMIT 10", [[10.0]] * GROUPS),
    "having": ("SELECT g, COUNT(*) AS n FROM t GROUP BY g HAVING COUNT(*) >= 15", [[10.0]] * GROUPS),
    "limit of averages": (
        "SELECT g, AVG(x) AS a FROM t GROUP BY g ORDER BY a DESC LIMIT 10",
        [[200.0, 0.0]] * GROUPS,
    ),
}


@pytest.mark.parametrize(
    ("groups", "releases"), [(1000, 60), pytest.param(GROUPS, 2000, marks=pytest.mark.long)], ids=["short", "long"]
)
@pytest.mark.parametrize("name", SELECTING)
def test_selected_rows_lie_within_their_errors(name: str, groups: int, releases: int) -> None:
    """Answers whose every number lies within its error: 95 % of answers, not of numbers (E2)."""
    sql, exact = SELECTING[name]
    cover(sql, exact[:groups], releases=releases, seed=3, families=True).require()
