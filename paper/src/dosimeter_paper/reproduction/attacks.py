"""Tell two neighbouring tables apart by real releases, where ε was chosen from the data (G2).

Takes a query and two tables that differ by one person. For each table, finds ε from a preference (the paper's algorithm
1), draws releases at that ε from ``dosimeter.release``, and counts how often a simple test says "the person is there".
(ε, 0)-DP would bound the ratio of the two frequencies by e^ε. The ratio claimed is a lower confidence bound, so that it
does not rest on luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dosimeter.dataset import Dataset
from dosimeter.json_values import JsonObject
from dosimeter.mechanisms import Laplace
from dosimeter.release import add_noise, calibrate

CONFIDENCE = 0.999
RELEASES = 20_000
_PREFERENCE = "ratio:0.95"


@dataclass(frozen=True, slots=True)
class Side:
    """The releases from one of an attack's two tables: the one with the person, or the one without.

    ``epsilon``: the ε that is found from a preference for this table. ``scale``: the scale of the Laplace noise.
    ``hits``: in how many releases the test says that the person is there.
    """

    epsilon: float
    scale: float
    hits: int


@dataclass(frozen=True, slots=True)
class Attack:
    """A test that tells from one release whether a person is in the table, and how it did with and without this person.

    ``test``: the test in words. ``releases``: how many were drawn from each table, ``present`` with the person and
    ``absent`` without. ``exact``: by formula, the probability that the test says yes to a release with the person,
    divided by the probability that it says yes to one without. ``proven``: a lower bound on this ratio from the counts,
    with 99.8 % confidence.
    """

    query: str
    test: str
    releases: int
    present: Side
    absent: Side
    exact: float
    proven: float

    @property
    def allowed(self) -> float:
        """Return the largest ratio ``exact`` that ε-DP allows: e^ε, at the larger of the two tables' ε's."""
        return math.exp(max(self.present.epsilon, self.absent.epsilon))

    @property
    def words(self) -> str:
        return (
            f"With the person algorithm 1 chooses ε = {self.present.epsilon:g}, without ε = {self.absent.epsilon:g}. "
            f"{self.test} holds in {self.present.hits:,} of {self.releases:,} releases with the person and in "
            f"{self.absent.hits:,} without: more than {self.proven:,.0f} times as often (99.8 % confidence; exactly "
            f"{_round(self.exact)} times), where e^ε allows {math.exp(self.present.epsilon):.3g} at the ε chosen with "
            f"the person, and {self.allowed:,.0f} at the one without."
        )

    def document(self) -> JsonObject:
        return {
            "query": self.query,
            "test": self.test,
            "releases": self.releases,
            "epsilon": [self.present.epsilon, self.absent.epsilon],
            "scale": [self.present.scale, self.absent.scale],
            "hits": [self.present.hits, self.absent.hits],
            "exact_ratio": self.exact,
            "proven_ratio": self.proven,
            "allowed": self.allowed,
        }


def _round(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio < 1e6 else f"{ratio:.1e}"


def attack_count(releases: int = RELEASES) -> Attack:
    """Attack a COUNT that matches one person of a thousand, against the same table without this person."""
    present, absent = [1] + [0] * 999, [0] * 999
    return _attack("SELECT COUNT(*) FROM people WHERE v = 1", "|answer| ≥ 2", (present, absent), (0, 1), 1, 2, releases)


def attack_sum(releases: int = RELEASES) -> Attack:
    """Attack a SUM over people with values from 0 to 1000, with and without one person whose value is 100,000."""
    absent = list(range(1001))
    total = sum(absent)
    return _attack(
        "SELECT SUM(v) FROM people",
        f"|answer − {total:,}| ≥ 400,000",
        ([*absent, 100_000], absent),
        (0, 100_000),
        100_000,
        400_000,
        releases,
    )


def _attack(
    query: str,
    test: str,
    tables: tuple[list[int], list[int]],
    bounds: tuple[int, int],
    sensitivity: int,
    reach: int,
    releases: int,
) -> Attack:
    """Run one attack. Its test says yes if the answer is at least ``reach`` away from the total without the person.

    ``test``: this test in words. ``tables``: everybody's values with the person, then without. ``bounds``: the lowest
    and the highest value that the schema allows. ``sensitivity``: Δ of the query.
    """
    people = max(map(len, tables))
    absent_total = sum(tables[1])
    sides, chances = [], []
    for values in tables:
        total = sum(values)
        epsilon = _find_epsilon(query, values, bounds, people)
        calibrated = calibrate(Laplace(), sensitivity=sensitivity, epsilon=epsilon)
        answers = add_noise([total] * releases, calibrated)
        hits = sum(abs(answer - absent_total) >= reach for answer in answers)
        sides.append(Side(epsilon, calibrated.scale, hits))
        chances.append(_chance_beyond(reach, total - absent_total, calibrated.scale))
    lower, upper = _clopper_pearson(releases)
    proven = lower(sides[0].hits) / upper(sides[1].hits)
    return Attack(query, test, releases, sides[0], sides[1], chances[0] / chances[1], proven)


def _find_epsilon(query: str, values: list[int], bounds: tuple[int, int], people: int) -> float:
    import pyarrow as pa

    facts = {"v": {"type": "integer", "bounds": list(bounds)}}
    schema = {"table": "people", "individuals": people, "reviewed": True, "columns": facts}
    with Dataset.open(pa.table({"v": values}), table="people", schema=schema) as dataset:
        return max(line.epsilon for line in dataset.risk(query).find(_PREFERENCE).candidates if line.satisfied)


def _chance_beyond(reach: int, shift: int, scale: float) -> float:
    """Return the probability that the test of ``_attack`` says yes: P(|shift + Z| ≥ reach) for integer Laplace noise Z.

    ``shift``: how much larger the table's total is than the total without the person; from 0 to below ``reach``.
    """
    decay = math.exp(-1.0 / scale)
    return (decay ** (reach - shift) + decay ** (reach + shift)) / (1.0 + decay)


def _clopper_pearson(trials: int) -> tuple[Callable[[int], float], Callable[[int], float]]:
    """Return two functions of the number of hits in ``trials``: a lower and an upper bound on a hit's probability.

    Each bound holds with 99.9 % confidence.
    """
    from scipy.special import betaincinv

    alpha = 1.0 - CONFIDENCE

    def lower(hits: int) -> float:
        return 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, alpha))

    def upper(hits: int) -> float:
        return 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1.0 - alpha))

    return lower, upper
