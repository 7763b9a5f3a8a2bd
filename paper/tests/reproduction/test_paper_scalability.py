"""The timing harness on small tables: every cell is there, both ways agree on what they time, limits are kept."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from dosimeter.dataset import Dataset
from dosimeter.errors import OptionError
from dosimeter_paper.recompute import recompute_risk
from dosimeter_paper.reproduction.data import adult_schema, load_adult
from dosimeter_paper.reproduction.generate import generate_adult
from dosimeter_paper.reproduction.queries import AUTHORS_SECONDS, QUERIES
from dosimeter_paper.reproduction.scalability import ALGORITHMS, Scalability, Timing, list_sizes, measure_scalability
from reproduction.paper_command import Paper


def test_every_query_algorithm_and_way_is_timed(adult_train: Path) -> None:
    study = measure_scalability(load_adult(adult_train), sizes=(200, 1000), runs=2, limit=600.0)
    found = {(t.way, t.algorithm, t.query, t.rows): t for t in study.timings}
    assert set(found) == {
        (way, algorithm, query.name, rows)
        for way in ("closed form", "recompute")
        for algorithm in ALGORITHMS
        for query in QUERIES
        for rows in (200, 1000)
    }
    assert all(len(t.seconds) == 2 and min(t.seconds) > 0.0 for t in study.timings)
    assert found["closed form", "find", "Q2", 1000].published == 0.44
    assert found["closed form", "find", "Q2", 200].ratio is None
    table = study.text_table("find")
    assert len(table["rows"]) == 10


def test_both_ways_measure_the_same(adult_train: Path) -> None:
    """What is timed is the same result: everybody's PIS by one profile, and by leaving out each distinct record."""
    table = generate_adult(load_adult(adult_train), 400)
    with Dataset.open(table, table="adult", schema=adult_schema(400)) as dataset:
        for query in QUERIES:
            fast, slow = dataset.risk(query.sql), recompute_risk(dataset, query.sql)
            assert slow.sensitivities.values == pytest.approx(fast.sensitivities.values, rel=1e-9)
            assert slow.sensitivities.counts.tolist() == fast.sensitivities.counts.tolist()


def test_recomputing_stops_where_it_would_take_too_long(adult_train: Path) -> None:
    """With next to no time allowed there is one run at the first size, and none at the second."""
    study = measure_scalability(load_adult(adult_train), sizes=(100, 200), runs=3, limit=1e-9)
    slow = [t for t in study.timings if t.way == "recompute"]
    assert {(t.rows, len(t.seconds)) for t in slow} == {(100, 1)}
    none = measure_scalability(load_adult(adult_train), sizes=(100,), runs=1, limit=0.0)
    assert {t.way for t in none.timings} == {"closed form"}
    assert "–" in none.text_table("find")["rows"][0]


def test_statistics_of_a_timing() -> None:
    timing = Timing("closed form", "find", "Q1", 1_000_000, (1.0, 2.0, 3.0))
    assert (timing.mean, timing.deviation, timing.ratio) == (2.0, 1.0, 144.0)
    assert math.isclose(AUTHORS_SECONDS["Q1"][1_000_000] / 2.0, 144.0)
    words = Scalability(2, (timing,)).words
    assert "144 to 144 times faster" in words[0]


@pytest.mark.parametrize(
    ("up_to", "sizes"), [(500, (500,)), (1000, (1000,)), (50_000, (1000, 10_000, 50_000)), (10**6, None)]
)
def test_sizes(up_to: int, sizes: tuple[int, ...] | None) -> None:
    assert list_sizes(up_to) == (sizes or (1000, 10_000, 100_000, 1_000_000))


def test_nonsense_is_refused(paper: Paper, adult_train: Path) -> None:
    with pytest.raises(OptionError, match="--up-to"):
        list_sizes(0)
    ended = paper("scalability", "--data", adult_train, "--runs", 0)
    assert (ended.status, ended.err) == (2, "--runs must be at least 1.")


@pytest.mark.long
def test_a_million_records_in_a_second(adult_train: Path) -> None:
    """The closed form, one run per query: below a second each, far below the authors' minutes."""
    study = measure_scalability(load_adult(adult_train), sizes=(1_000_000,), runs=1, limit=0.0)
    assert max(t.mean for t in study.timings) < 5.0
    assert min(t.ratio or 0.0 for t in study.timings) > 20.0
