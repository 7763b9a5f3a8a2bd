"""Per-instance sensitivities: the norm of each row, and classes of people who move the answer alike."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter.risk.sensitivities import summarise_sensitivities
from tests.math.influence_tables import length, list_rows, make_contributions, make_dense, sparse_rows


@given(sparse_rows(), st.sampled_from([1, 2]))
def test_norms_are_those_of_each_row(drawn, norm):
    k, rows = drawn
    rows = [{}, *rows, {}]
    got = make_contributions(rows, k=k).norms(norm)
    assert got == pytest.approx([length(row.values(), norm) for row in rows], rel=1e-13)


@given(sparse_rows(values=st.integers(-3, 3).map(float)), st.sampled_from([1, 2]), st.booleans(), st.data())
def test_classes_are_those_of_people_counted_one_by_one(drawn, norm, keep_vectors, data):
    k, rows = drawn
    people = data.draw(st.lists(st.integers(0, 5), min_size=len(rows), max_size=len(rows)))
    races = data.draw(st.lists(st.sampled_from(["a", "b", None]), min_size=len(rows), max_size=len(rows)))
    flags = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    contributions = make_contributions(rows, k=k, people=people, attributes={"race": races, "flag": flags})
    got = summarise_sensitivities(contributions, norm, keep_vectors=keep_vectors)

    def key(row, race, flag):
        power = sum(abs(int(change)) ** norm for change in row.values())
        vector = frozenset((cell, change) for cell, change in row.items() if change) if keep_vectors else None
        return power, vector, race, flag

    expected: Counter[object] = Counter()
    for row, count, race, flag in zip(rows, people, races, flags, strict=True):
        expected[key(row, race, flag)] += count
    expected = +expected

    vectors = list_rows(got.vectors) if keep_vectors else [{}] * len(got.values)
    found: Counter[object] = Counter()
    for value, vector, race, flag, count in zip(
        got.values, vectors, got.attributes["race"], got.attributes["flag"], got.counts, strict=True
    ):
        power = round(value**norm)
        found[power, frozenset(vector.items()) if keep_vectors else None, race, bool(flag)] += int(count)
    assert found == expected
    assert len(got.values) == len(expected)
    assert np.all(np.diff(got.values) >= 0)
    assert got.n == sum(people)
    assert (got.vectors is None) != keep_vectors
    if got.vectors is not None:
        assert got.vectors.people.tolist() == got.counts.tolist()
        assert got.vectors.norms(norm) == pytest.approx(got.values, rel=1e-13)
        assert got.vectors.attributes["race"].tolist() == got.attributes["race"].tolist()


@given(sparse_rows(values=st.integers(-3, 3).map(lambda v: v / 7)), st.randoms(use_true_random=False))
def test_classes_do_not_depend_on_the_order_of_rows_and_cells(drawn, random):
    k, rows = drawn
    shuffled = [dict(random.sample(list(row.items()), len(row))) for row in random.sample(rows, len(rows))]
    one = summarise_sensitivities(make_contributions(rows, k=k), 1, keep_vectors=True)
    two = summarise_sensitivities(make_contributions(shuffled, k=k), 1, keep_vectors=True)
    assert one.values.tolist() == two.values.tolist()
    assert list_rows(one.vectors) == list_rows(two.vectors)


def test_a_sum_written_differently_by_rounding_is_one_class():
    rows = [{0: 0.1, 1: 0.2, 2: 0.3}, {0: 0.3, 1: 0.2, 2: 0.1}, {0: 0.6}, {1: 0.7}]
    contributions = make_contributions(rows, k=3, people=[2, 3, 5, 7])
    assert len(set(contributions.norms(1).tolist())) > 2  # floats alone would split it
    got = summarise_sensitivities(contributions, 1, keep_vectors=False)
    assert got.values.tolist() == pytest.approx([0.6, 0.7], rel=1e-15)
    assert got.counts.tolist() == [10, 7]


@pytest.mark.parametrize("second", [{0: 2.0**50 + 1}, {0: 2.0**50, 1: 1.0}])
def test_exact_numbers_a_unit_apart_are_never_merged(second):
    rows = [{0: 2.0**50}, second]
    got = summarise_sensitivities(make_contributions(rows, k=2), 1, keep_vectors=False)
    assert got.values.tolist() == [2.0**50, 2.0**50 + 1]


def test_a_long_run_of_close_values_is_data_and_stays_apart():
    rows = [{0: 1.0 + 5e-13 * i, 1: 0.1} for i in range(100)]
    got = summarise_sensitivities(make_contributions(rows, k=2), 1, keep_vectors=False)
    assert len(got.values) == 100


def test_a_million_rows_are_summarised():
    """What compared every row with every other would not end."""
    n = 1_000_000
    changes = (np.arange(n, dtype=np.float64)[:, np.newaxis] * 7919) % 500_000
    got = summarise_sensitivities(make_dense(np.zeros((n, 1), dtype=np.int64), changes, k=1), 1, keep_vectors=False)
    assert got.values.tolist() == list(range(500_000))
    assert set(got.counts.tolist()) == {2}
