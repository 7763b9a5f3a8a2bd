"""Random sequences of releases, and books that add up: readings, policies, budgets and δ, against plain fractions."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter import Dataset, Ledger
from dosimeter.ledger import Account, Entry
from dosimeter.risk.largest_epsilon import paper_candidates
from tests.schemas import category, declare, whole

PEOPLE = 6
SCHEMA: dict[str, Any] = declare("tiny", PEOPLE, {"x": whole(0, 3), "y": category("a", "b")})
TABLE = pa.table({"x": [0, 1, 2, 3, 3], "y": ["a", "b", "a", "b", "a"]})
QUERIES = [
    "SELECT COUNT(*) FROM tiny WHERE x > 1",
    "SELECT y, SUM(x) FROM tiny GROUP BY y",
    "SELECT AVG(x) FROM tiny",
]


@pytest.fixture(scope="module")
def tiny() -> Iterator[Dataset]:
    with Dataset.open(TABLE, schema=SCHEMA) as dataset:
        yield dataset


# ---------------------------------------------------------------- what is asked, and what must come of it


@dataclass(frozen=True)
class Terms:
    """An account's terms; ``budget`` None is the paper's rule."""

    budget: Fraction | None
    delta_total: Fraction
    cap: Fraction | None

    @property
    def options(self) -> dict[str, Any]:
        return {
            "policy": "paper" if self.budget is None else f"budget:{float(self.budget)}",
            "delta_total": float(self.delta_total),
            "max_epsilon": None if self.cap is None else float(self.cap),
        }

    def admits(
        self, reading: Fraction, spent_delta: Fraction, epsilon: Fraction, svt: Fraction, delta: Fraction
    ) -> bool:
        """O2, written again."""
        if spent_delta + delta > self.delta_total or (self.cap is not None and epsilon > self.cap):
            return False
        return epsilon > reading if self.budget is None else reading + epsilon + svt <= self.budget


exact_terms = st.builds(
    Terms,
    budget=st.sampled_from([None, None, Fraction(1, 2), Fraction(2), Fraction(12)]),
    delta_total=st.sampled_from([Fraction(1, 10), Fraction("0.0025")]),
    cap=st.sampled_from([None, None, Fraction(1, 2), Fraction(3)]),
)
noises = st.sampled_from([{}, {}, {"mechanism": "gaussian", "delta": 0.001}])
ways = {
    "fixed": st.builds(lambda epsilon: {"epsilon": epsilon}, st.sampled_from(paper_candidates())),
    "find": st.builds(lambda ratio: {"prefer": f"ratio:{ratio}"}, st.sampled_from([0.05, 0.3, 0.7, 0.95, 0.9999])),
    "find-and-release": st.builds(
        lambda svt, variance, selection: {"svt": svt, "variance": variance, "selection": selection},
        st.sampled_from([0.1, 0.5]),
        st.sampled_from([1e-4, 0.02, 0.5]),
        st.sampled_from(["sharp", "paper"]),
    ),
}


@st.composite
def sequences(draw: st.DrawFn) -> tuple[str, Terms, list[dict[str, Any]]]:
    algorithm = draw(st.sampled_from(sorted(ways)))
    request = st.tuples(st.sampled_from(QUERIES), ways[algorithm], noises, st.booleans())
    asked = draw(st.lists(request, min_size=1, max_size=7))
    return algorithm, draw(exact_terms), [{"sql": q, "again": again, **way, **noise} for q, way, noise, again in asked]


def exact(number: Decimal | float) -> Fraction:
    return Fraction(str(number))


def name_number(request: dict[str, Any]) -> tuple[Any, ...]:
    """What a noisy number is of (V8): with one COUNT it serves both mechanisms."""
    alike = "COUNT(*)" in request["sql"] and "SUM" not in request["sql"]
    return request["sql"], request["svt"], None if alike else request.get("mechanism")


def check_entry(
    entry: Entry, terms: Terms, before: Fraction, spent_delta: Fraction, request: dict[str, Any], paid: set[Any]
) -> None:
    """One new entry, against the reading before it. ``paid``: the noisy numbers that earlier entries paid for."""
    svt = exact(request.get("svt", 0))
    keeps = request.get("selection") == "sharp"
    if keeps and not request["again"] and name_number(request) in paid:
        svt = Fraction(0)
    delta = exact(request.get("delta", 0))
    left = [e for e in paper_candidates() if terms.admits(before, spent_delta, exact(e), svt, delta)]
    assert exact(entry.reading) == before + exact(entry.charge)
    if keeps and left:
        paid.add(name_number(request))
    assert (entry.kept is not None) == bool(keeps and left)
    if entry.status == "released":
        assert entry.epsilon is not None
        assert float(entry.epsilon) in left  # larger than the reading, or within the budget; under the cap; δ fits
        assert exact(entry.charge) == exact(entry.epsilon) + svt
        assert exact(entry.delta) == delta
        if "epsilon" in request:
            assert exact(entry.epsilon) == exact(request["epsilon"])
        return
    assert entry.status == "denied"
    assert (entry.epsilon, entry.delta, entry.answer, entry.measured) == (None, 0, None, None)
    if "svt" in request and left:
        assert exact(entry.charge) == svt  # O1: the noisy test was run
    else:
        assert entry.charge == 0  # O2: nothing was run
    if "epsilon" in request:
        assert request["epsilon"] not in left


def replay(dataset: Dataset, algorithm: str, terms: Terms, requests: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as directory, Ledger.open(Path(directory) / "ledger.db") as ledger:
        reading, spent_delta, entries = Fraction(0), Fraction(0), 0
        answered: dict[str, dict[str, Any]] = {}
        paid: set[Any] = set()
        for request in requests:
            options = {name: value for name, value in request.items() if name != "sql"}
            answer = dataset.release(request["sql"], ledger=ledger, **options, **terms.options)
            account = ledger.account("tiny")
            if account is None:  # a first request that is denied opens no account, unless it paid for the noisy test
                assert (answer.status, answer.entry, entries) == ("denied", None, 0)
                svt, delta = exact(request.get("svt", 0)), exact(request.get("delta", 0))
                fit = [e for e in paper_candidates() if terms.admits(Fraction(0), Fraction(0), exact(e), svt, delta)]
                assert request.get("epsilon") not in fit
                assert not (fit and "svt" in request)
                continue
            identity = repr(sorted((name, value) for name, value in request.items() if name != "again"))
            if answer.repeated:
                assert not request["again"]
                assert answer.describe() == answered[identity]
                assert len(account.entries) == entries
            else:
                assert request["again"] or identity not in answered
                assert len(account.entries) == entries + 1
                check_entry(account.entries[-1], terms, reading, spent_delta, request, paid)
                if answer.status == "released":
                    answered[identity] = answer.describe()
            entries = len(account.entries)
            reading, spent_delta = exact(account.reading.epsilon), exact(account.reading.delta)
            check_ledger_options(account, terms)
        assert ledger.verify().intact
        if account is None:
            return
        mixed = terms.options["policy"] != "paper" and algorithm != "find"  # O3
        assert account.algorithm == ("mixed" if mixed else algorithm)


def check_ledger_options(account: Account, terms: Terms) -> None:
    entries = account.entries
    assert exact(account.reading.epsilon) == sum((exact(entry.charge) for entry in entries), Fraction(0))
    assert exact(account.reading.delta) == sum((exact(entry.delta) for entry in entries), Fraction(0))
    assert exact(account.reading.delta) <= terms.delta_total
    if terms.budget is not None:
        assert exact(account.reading.epsilon) <= terms.budget
    assert all(entry.status in ("released", "denied") for entry in entries)


@given(sequences())
@settings(max_examples=25)
def test_the_books_add_up(tiny: Dataset, sequence: tuple[str, Terms, list[dict[str, Any]]]) -> None:
    replay(tiny, *sequence)


@pytest.mark.long
@given(sequences())
@settings(max_examples=500)
def test_the_books_always_add_up(tiny: Dataset, sequence: tuple[str, Terms, list[dict[str, Any]]]) -> None:
    replay(tiny, *sequence)
