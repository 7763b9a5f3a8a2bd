"""Studies, which no plan covers, against deletion in plain Python; and what they refuse."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest

from dosimeter.arrays import FloatArray
from dosimeter.errors import OptionError, QueryError
from dosimeter.influence.recompute.run import recompute_study
from dosimeter.planning.native import plan_study
from tests.oracle.recompute_tables import STUDY_SCHEMA, Rows, assert_same, open_rows
from tests.whole_tables import whole_table


def moments(values: Sequence[float]) -> tuple[int, float, float, float]:
    n, mean = len(values), statistics.fmean(values)
    second, third, fourth = (sum((v - mean) ** power for v in values) / n for power in (2, 3, 4))
    return n, second, third, fourth


def skewness(rows: Rows) -> float | None:
    if len(rows) < 3:
        return None
    n, second, third, _ = moments([x for _, x, _ in rows])
    return math.sqrt(n * (n - 1)) / (n - 2) * third / second**1.5 if second else None


def kurtosis(rows: Rows) -> float | None:
    if len(rows) < 4:
        return None
    n, second, _, fourth = moments([x for _, x, _ in rows])
    return (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * (fourth / second**2 - 3) + 6) if second else None


def covariance(rows: Rows, less: int) -> float | None:
    if len(rows) <= less:
        return None
    return (
        statistics.covariance([x for _, x, _ in rows], [y for _, _, y in rows]) * (len(rows) - 1) / (len(rows) - less)
    )


def correlation(rows: Rows) -> float | None:
    if len(rows) < 2 or len({x for _, x, _ in rows}) == 1 or len({y for _, _, y in rows}) == 1:
        return None
    return statistics.correlation([x for _, x, _ in rows], [y for _, _, y in rows])


def slope(rows: Rows) -> float | None:
    """Of x on y: REGR_SLOPE takes the dependent variable first."""
    if len(rows) < 2 or len({y for _, _, y in rows}) == 1:
        return None
    return statistics.linear_regression([y for _, _, y in rows], [x for _, x, _ in rows]).slope


def ratio(rows: Rows) -> float | None:
    positive = sum(y for _, _, y in rows if y > 0)
    return abs(-sum(x for _, x, _ in rows)) / positive + 1 if positive else None


def lower_quantile(rows: Rows) -> float | None:
    ordered = sorted(x for _, x, _ in rows)
    return ordered[max(0, math.ceil(len(ordered) * 0.25) - 1)] if ordered else None


STUDIES: list[tuple[str, Callable[[Rows], float | None]]] = [
    ("CORR(x, y)", correlation),
    ("COVAR_POP(x, y)", lambda rows: covariance(rows, 0) if len(rows) > 1 else (0.0 if rows else None)),
    ("COVAR_SAMP(x, y)", lambda rows: covariance(rows, 1)),
    ("REGR_SLOPE(x, y)", slope),
    ("VAR_SAMP(x)", lambda rows: statistics.variance([x for _, x, _ in rows]) if len(rows) > 1 else None),
    ("STDDEV_SAMP(x)", lambda rows: statistics.stdev([x for _, x, _ in rows]) if len(rows) > 1 else None),
    ("STDDEV(y) * 2", lambda rows: 2 * statistics.stdev([y for _, _, y in rows]) if len(rows) > 1 else None),
    ("SKEWNESS(x)", skewness),
    ("KURTOSIS(x)", kurtosis),
    ("AVG(x * y)", lambda rows: statistics.fmean([x * y for _, x, y in rows]) if rows else None),
    ("MEDIAN(x)", lambda rows: statistics.median([x for _, x, _ in rows]) if rows else None),
    ("QUANTILE_DISC(x, 0.25)", lower_quantile),
    ("PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY x)", lower_quantile),
    ("ABS(-SUM(x)) / SUM(y) FILTER (WHERE y > 0) + 1", ratio),
    ("COUNT(DISTINCT x) - COUNT(*)", lambda rows: len({x for _, x, _ in rows}) - len(rows)),
]


def draw_rows(seed: int, count: int) -> Rows:
    random = Random(seed)
    rows: Rows = [
        (random.choice("pqr"), random.choice([0.5, 1.75, 2.25, 8.5, -3.0]), random.randrange(-4, 5))
        for _ in range(count)
    ]
    return [*rows, ("alone", 6.5, 2)]


def delete_each(rows: Rows, functions: Sequence[Callable[[Rows], float | None]]) -> FloatArray:
    """q(x) − q(x₋ᵢ) over the observed groups, NULL as 0, by deleting each person from a list."""
    groups = sorted({g for g, _, _ in rows})

    def answer(kept: Rows) -> list[float]:
        return [function([row for row in kept if row[0] == group]) or 0.0 for group in groups for function in functions]

    whole = np.array(answer(rows))
    moves = np.array([whole - np.array(answer(rows[:at] + rows[at + 1 :])) for at in range(len(rows))])
    return moves[np.lexsort(np.round(moves, 6).T)]


@pytest.mark.parametrize("seed", range(3))
def test_study_equals_deletion_in_python(seed: int) -> None:
    rows = draw_rows(seed, 24)
    engine = open_rows(rows)
    for text, function in STUDIES:
        study = plan_study(f"SELECT g, {text} AS value FROM t GROUP BY g", STUDY_SCHEMA, 1.0)
        found = recompute_study(study, whole_table(engine), len(rows), 1, processes=1)
        assert found.k == len({g for g, _, _ in rows}), text
        assert_same(found, delete_each(rows, [function]))


def test_study_of_several_outputs_in_processes() -> None:
    rows = draw_rows(11, 20)
    listed = ", ".join(text for text, _ in STUDIES)
    study = plan_study(f"SELECT {listed}, g FROM t AS u WHERE u.x < 100 GROUP BY u.g", STUDY_SCHEMA, 3.0)
    found = recompute_study(study, whole_table(open_rows(rows)), len(rows), 2, processes=2)
    assert found.k == len(STUDIES) * len({g for g, _, _ in rows})
    assert_same(found, delete_each(rows, [function for _, function in STUDIES]))
    assert study.sensitivity(1) == study.sensitivity(2) == 3.0
    assert any("counts as 0" in note for note in study.notes)


def test_study_without_groups_and_with_empty_slots() -> None:
    rows = [("p", x, y) for _, x, y in draw_rows(5, 12)]
    study = plan_study("SELECT CORR(x, y) FROM t", STUDY_SCHEMA, 1.0)
    found = recompute_study(study, whole_table(open_rows(rows)), len(rows) + 3, 1, processes=1)
    assert found.k == 1
    moves = np.vstack([delete_each(rows, [correlation]), np.zeros((3, 1))])
    assert_same(found, moves[np.lexsort(np.round(moves, 6).T)])


def test_study_groups_by_position_alias_and_expression() -> None:
    rows = draw_rows(8, 15)
    texts = ["1", "positive", "CASE WHEN y > 0 THEN 1 ELSE 0 END"]
    found = [
        recompute_study(
            plan_study(
                f"SELECT CASE WHEN y > 0 THEN 1 ELSE 0 END AS positive, VAR_SAMP(x) FROM t GROUP BY {text}",
                STUDY_SCHEMA,
                1.0,
            ),
            whole_table(open_rows(rows)),
            len(rows),
            1,
            processes=1,
        )
        for text in texts
    ]
    relabelled = [(str(int(y > 0)), x, y) for _, x, y in rows]
    variance = dict(STUDIES)["VAR_SAMP(x)"]
    for contributions in found:
        assert_same(contributions, delete_each(relabelled, [variance]))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x FROM t",
        "SELECT * FROM t",
        "SELECT COUNT() FROM t",
        "SELECT g FROM t GROUP BY g",
        "SELECT 1 FROM t",
        "SELECT x, AVG(y) FROM t GROUP BY g",
        "SELECT AVG(g) FROM t",
        "SELECT CORR(x) FROM t",
        "SELECT CORR(x, g) FROM t",
        "SELECT MAX(x, 3) FROM t",
        "SELECT SUM(DISTINCT x) FROM t",
        "SELECT COUNT(DISTINCT x, y) FROM t",
        "SELECT MODE(x) FROM t",
        "SELECT FIRST(x) FROM t",
        "SELECT ANY_VALUE(x) FROM t",
        "SELECT ARG_MAX(x, y) FROM t",
        "SELECT STRING_AGG(g, ',') FROM t",
        "SELECT LIST(x) FROM t",
        "SELECT APPROX_COUNT_DISTINCT(x) FROM t",
        "SELECT APPROX_QUANTILE(x, 0.5) FROM t",
        "SELECT RESERVOIR_QUANTILE(x, 0.5) FROM t",
        "SELECT QUANTILE_CONT(x, 1.5) FROM t",
        "SELECT QUANTILE_CONT(x, [0.1, 0.2]) FROM t",
        "SELECT QUANTILE_CONT(x, y) FROM t",
        "SELECT PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY x DESC) FROM t",
        "SELECT AVG(x) OVER () FROM t",
        "SELECT AVG(AVG(x)) FROM t",
        "SELECT AVG((SELECT MAX(x) FROM t)) FROM t",
        "SELECT AVG(x) + (SELECT MAX(x) FROM t) FROM t",
        "SELECT AVG(x) FROM (SELECT * FROM t)",
        "SELECT AVG(x) FROM t WHERE x IN (SELECT x FROM t)",
        "SELECT AVG(x) FROM t WHERE EXISTS (SELECT 1)",
        "SELECT AVG(x) FROM read_csv('secret.csv')",
        "SELECT AVG(x) FROM 'secret.csv'",
        "SELECT AVG(x) FROM range(10)",
        "SELECT AVG(x) FROM t, t AS u",
        "SELECT AVG(x) FROM t JOIN t AS u ON true",
        "SELECT AVG(x) FROM other",
        "SELECT AVG(unknown) FROM t",
        "SELECT AVG(x) FROM t USING SAMPLE 10",
        "SELECT DISTINCT AVG(x) FROM t",
        "SELECT AVG(x) FROM t UNION SELECT AVG(y) FROM t",
        "WITH u AS (SELECT 1) SELECT AVG(x) FROM t",
        "SELECT AVG(x) FROM t GROUP BY ROLLUP (g)",
        "SELECT g, AVG(x) FROM t GROUP BY ALL",
        "SELECT g, AVG(x) FROM t GROUP BY 5",
        "SELECT g, AVG(x) FROM t GROUP BY g HAVING COUNT(*) > 3",
        "SELECT g, AVG(x) FROM t GROUP BY g ORDER BY 2",
        "SELECT g, AVG(x) FROM t GROUP BY g LIMIT 3",
        "SELECT AVG(x ORDER BY y) FROM t",
        "SELECT AVG(x) FILTER (WHERE AVG(x) > 1) FROM t",
        "SELECT AVG(x) FILTER (WHERE x) FROM t",
        "SELECT AVG(random()) FROM t",
        "SELECT AVG(x) + random() FROM t",
        "SELECT SQRT(AVG(x)) FROM t",
        "SELECT AVG(getenv('HOME')) FROM t",
        "SELECT AVG(CAST(g AS DOUBLE)) FROM t",
        "SELECT AVG(x); DROP TABLE t",
        "COPY t TO 'out.csv'",
    ],
)  # fmt: skip
def test_study_refuses(sql: str) -> None:
    with pytest.raises(QueryError):
        plan_study(sql, STUDY_SCHEMA, 1.0)


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, math.inf, math.nan])
def test_study_needs_a_positive_sensitivity(sensitivity: float) -> None:
    with pytest.raises(OptionError):
        plan_study("SELECT CORR(x, y) FROM t", STUDY_SCHEMA, sensitivity)
