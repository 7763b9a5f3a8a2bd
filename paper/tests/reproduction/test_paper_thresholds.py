"""The authors' 50 numbers, against this package and against a second computation that shares no code with it."""

from __future__ import annotations

import csv
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest

from dosimeter_paper.reproduction.queries import AUTHORS_EPSILON, MECHANISMS, QUERIES, RATIOS, Adult
from dosimeter_paper.reproduction.thresholds import Cell, Thresholds, compare_thresholds, write_cell
from reproduction.paper_command import Paper

TENTHS = [Fraction(digit, 10**places) for places in (1, 2, 3) for digit in range(9, 0, -1)]
CANDIDATES = [Fraction(whole) for whole in range(10, 0, -1)] + TENTHS

# From the authors' notebooks, typed a second time: mechanism, τ_p, then Q1 … Q5.
PUBLISHED = """
laplace 0.95 0.05 0.3 0.05 0.01 0.05
laplace 0.75 0.3 2 0.3 0.07 0.3
laplace 0.50 1 6 1 0.2 1
laplace 0.25 3 10 3 0.6 3
laplace 0.05 10 10 10 4 10
gaussian 0.95 2 5 2 0.4 2
gaussian 0.75 5 10 5 1 5
gaussian 0.50 10 10 10 2 10
gaussian 0.25 10 10 10 5 10
gaussian 0.05 10 10 10 10 10
"""


@pytest.fixture(scope="module")
def study(opened: Adult) -> Thresholds:
    return compare_thresholds(opened)


def read_published() -> dict[tuple[str, float, str], float]:
    found = {}
    for line in PUBLISHED.split("\n"):
        if line:
            mechanism, ratio, *epsilons = line.split()
            for query, epsilon in zip(("Q1", "Q2", "Q3", "Q4", "Q5"), epsilons, strict=True):
                found[mechanism, float(ratio), query] = float(epsilon)
    return found


def recompute(rows: list[dict[str, str]]) -> dict[tuple[str, float, str], float]:
    """The 50 cells from the formulas, over the raw records: exact fractions, no profile, no closed form of ours."""
    n = len(rows)
    hours = [int(r["hours_per_week"]) for r in rows]
    government = Counter(
        int(r["hours_per_week"]) for r in rows if r["workclass"] in {"Federal-gov", "Local-gov", "State-gov"}
    )
    size, total = sum(government.values()), sum(value * count for value, count in government.items())
    averages = [abs(Fraction(total, size) - Fraction(total - value, size - 1)) for value in government]
    gains = [int(r["capital_gain"]) for r in rows]
    matching = [r for r in rows if r["race"] == "Asian-Pac-Islander" and 30 <= int(r["age"]) <= 40]
    statuses = len({r["marital_status"] for r in matching})
    # smallest PIS, largest PIS, k, Δ. Removing a record from a COUNT moves one cell by 1, or none.
    facts = {
        "Q1": (Fraction(0), Fraction(1), 1, Fraction(1)),
        "Q2": (Fraction(0), Fraction(1), statuses, Fraction(1)),
        "Q3": (Fraction(0), Fraction(1), 1, Fraction(1)),
        "Q4": (Fraction(0), max(averages), 1, Fraction(max(hours) - min(hours), n)),
        "Q5": (Fraction(min(gains)), Fraction(max(gains)), 1, Fraction(max(gains) - min(gains))),
    }
    found = {}
    for query, (low, high, k, delta) in facts.items():
        for ratio in (Fraction(95, 100), Fraction(3, 4), Fraction(1, 2), Fraction(1, 4), Fraction(1, 20)):
            laplace = (e for e in CANDIDATES if (low + k * delta / e) >= ratio * (high + k * delta / e))
            factor = 2.0 * math.log(1.25 * n * n)  # δ = 1/n²
            gaussian = (
                e
                for e in CANDIDATES
                if (low**2 + k * (delta / e) ** 2 * Fraction(factor))
                >= ratio**2 * (high**2 + k * (delta / e) ** 2 * Fraction(factor))
            )
            found["laplace", float(ratio), query] = float(next(laplace))
            found["gaussian", float(ratio), query] = float(next(gaussian))
    return found


def test_all_fifty_cells_are_reproduced(study: Thresholds) -> None:
    published = read_published()
    assert {(c.mechanism, c.ratio, c.query): c.authors for c in study.cells} == published
    assert {(c.mechanism, c.ratio, c.query): c.published for c in study.cells} == published
    assert study.reproduced == len(published) == 50


def test_they_follow_from_the_formulas(adult_train: Path) -> None:
    with adult_train.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert recompute(rows) == read_published()


def test_the_largest_influence_on_the_average_is_4_47_times_their_sensitivity(opened: Adult) -> None:
    risk = opened.assess(QUERIES[3], "laplace", "authors")
    assert risk.sensitivities.values.max() / risk.sensitivity == pytest.approx(4.47, abs=0.005)
    product = opened.assess(QUERIES[3], "laplace", "product")
    assert product.sensitivities.values.max() <= product.sensitivity * (1 + 1e-12)


def test_own_defaults_follow_from_theirs(study: Thresholds) -> None:
    """Laplace: ε* = kΔ(1 − τ)/(τ·PIS_max) with k = 7 for Q2, and k = 2, Δ = PIS_max = 2 for Q4."""
    for cell in study.cells:
        if cell.mechanism == "laplace":
            k = {"Q2": 7, "Q4": 2}.get(cell.query, 1)
            ratio = Fraction(str(cell.ratio))
            assert cell.product == float(next(e for e in CANDIDATES if e <= k * (1 - ratio) / ratio))


def test_gaussian_defaults_by_high_precision(study: Thresholds, opened: Adult) -> None:
    """Q1: √(σ²/(1 + σ²)) ≥ τ with the σ that M3 gives, minimised by mpmath."""
    delta = mpmath.mpf(1) / opened.table.num_rows**2

    def fits(sigma: mpmath.mpf, epsilon: Fraction) -> bool:
        rho, at = 1 / (2 * sigma**2), mpmath.mpf(epsilon.numerator) / epsilon.denominator
        orders = [1 + mpmath.mpf(10) ** (mpmath.mpf(step) / 40) for step in range(-40, 121)]
        bound = min(mpmath.exp((a - 1) * (a * rho - at)) / (a - 1) * (1 - 1 / a) ** a for a in orders)
        return bool(bound <= delta)

    for cell in study.cells:
        if cell.mechanism != "gaussian" or cell.query != "Q1":
            continue
        assert cell.product is not None
        largest = mpmath.sqrt(mpmath.mpf(cell.ratio) ** 2 / (1 - mpmath.mpf(cell.ratio) ** 2))
        place = CANDIDATES.index(Fraction(str(cell.product)))
        # The largest σ that still breaks the ratio gives too little privacy at ε …, too much at the next larger ε.
        assert not fits(largest * mpmath.mpf("0.995"), CANDIDATES[place])
        if place:
            assert fits(largest * mpmath.mpf("1.005"), CANDIDATES[place - 1])


def test_every_difference_has_words(study: Thresholds) -> None:
    assert len(study.differing) == 13
    assert study.document()["cells"] == study.list_cells()
    for cell, described in zip(study.cells, study.list_cells(), strict=True):
        assert bool(described["why"]) == cell.differs
    told = " ".join(study.words)
    assert all(word in told for word in ("declared groups", "centred sum", "4.47 times", "zCDP"))


def test_a_cell_that_is_not_reproduced_is_marked() -> None:
    base = {"mechanism": "laplace", "ratio": 0.95, "query": "Q1", "published": 0.05}
    limits = {"authors_limit": None, "product_limit": None}
    assert write_cell(Cell(**base, authors=0.05, product=0.05, **limits)) == "0.05"  # type: ignore[arg-type]
    assert write_cell(Cell(**base, authors=0.05, product=0.1, **limits)) == "0.05 → 0.1"  # type: ignore[arg-type]
    assert write_cell(Cell(**base, authors=0.04, product=None, **limits)) == "0.05 ✗ 0.04 → none"  # type: ignore[arg-type]


def test_the_tables_have_every_cell(study: Thresholds) -> None:
    for mechanism in MECHANISMS:
        table = study.text_table(mechanism)
        assert [row[0] for row in table["rows"]] == [f"{ratio:g}" for ratio in RATIOS]
        first = [row[1].split(" →")[0] for row in table["rows"]]
        assert first == [f"{epsilon:g}" for epsilon in AUTHORS_EPSILON[mechanism]["Q1"]]


def test_command_writes_table_and_pictures(paper: Paper, adult_train: Path, tmp_path: Path) -> None:
    ended = paper("thresholds", "--data", adult_train, "-o", tmp_path / "out", "--json")
    assert ended.status == 0
    assert ended.document["reproduced"] == 50
    assert ended.document["rows"] == 32_561
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "thresholds.csv",
        "thresholds.svg",
        "thresholds.png",
    }
    with (tmp_path / "out" / "thresholds.csv").open(encoding="utf-8", newline="") as lines:
        assert len(list(csv.DictReader(lines))) == 50
    assert (tmp_path / "out" / "thresholds.png").read_bytes().startswith(b"\x89PNG")
    shown = paper("thresholds", "--data", adult_train)
    assert "50 of 50 cells" in shown.out
