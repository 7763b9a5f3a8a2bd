"""Small computations that show where the paper, its authors' code and sound practice differ. None needs the Adult data.

Each gives a Demonstration: the numbers, and a sentence that quotes them. ``differences`` says what each one is about.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

import numpy as np

from dosimeter.dataset import Dataset
from dosimeter.ledger import ZERO, Charge, Paper, Reading, RequestCharges, exact_decimal
from dosimeter.mechanisms import ClassicGaussian, Gaussian, Laplace, Mechanism
from dosimeter.release import SelectionProblem, calibrate, outcome_distribution, svt_sensitivity, violation_share
from dosimeter.risk import paper_candidates
from dosimeter.show import format_percent

LAPLACE = Laplace()
ADULT_ROWS, Q1_MATCHES = 32_561, 19  # all that a demonstration on Q1 needs to know about Adult's training split


@dataclass(frozen=True, slots=True)
class Demonstration:
    """The result of a demonstration. ``numbers`` are plain values, for tests and JSON; ``words`` say the same."""

    numbers: Mapping[str, float | None]
    words: str


def _open(values: Sequence[int], *, bounds: tuple[int, int], slots: int | None = None) -> Dataset:
    """Open a table ``people`` with one number ``v`` for each person.

    ``slots``: how many individuals are declared; None for as many as there are values.
    """
    import pyarrow as pa

    facts = {"v": {"type": "integer", "bounds": list(bounds)}}
    schema = {"table": "people", "individuals": slots or len(values), "reviewed": True, "columns": facts}
    return Dataset.open(pa.table({"v": list(values)}), table="people", schema=schema)


def _count_problem(
    n: int, matches: int, *, threshold: float, mechanism: Mechanism = LAPLACE, candidates: Sequence[float] | None = None
) -> SelectionProblem:
    """Return the input of the noisy test that selects ε, for a COUNT that matches ``matches`` of ``n`` people.

    ``threshold``: the largest variance of normalised RDRs that the test is to allow. ``candidates``: by default the
    paper's. The test itself may spend ε_svt = 1.
    """
    return SelectionProblem(
        n=n,
        k=1,
        sensitivity=1.0,
        mechanism=mechanism,
        values=np.array([0.0, 1.0]),
        counts=np.array([n - matches, matches], dtype=np.int64),
        candidates=paper_candidates() if candidates is None else tuple(candidates),
        threshold=threshold,
        epsilon_svt=1.0,
        two_valued=True,  # a COUNT with one row each
    )


# ---------------------------------------------------------------- section 3: the indicator


def show_bound_and_exact() -> Demonstration:
    """Compare the largest ε that meets one preference for one COUNT, by the bound and by the exact indicator (R7)."""
    with _open([0] * 99 + [1], bounds=(0, 1)) as dataset:
        sql = "SELECT COUNT(*) FROM people WHERE v = 1"
        bound = dataset.risk(sql).find("ratio:0.95")
        exact = dataset.risk(sql, indicator="exact").find("ratio:0.95")
    return Demonstration(
        {"bound_limit": bound.limit, "exact_limit": exact.limit, "bound": bound.epsilon, "exact": exact.epsilon},
        f"One COUNT, ratio ≥ 0.95: the bound allows ε up to {bound.limit:.4f}, the exact expectation up to "
        f"{exact.limit:.3f}.",
    )


def show_raw_variance() -> Demonstration:
    """Compare Var(RDR) under Laplace noise at the largest and at the smallest candidate (R8)."""
    with _open(range(100), bounds=(0, 99)) as dataset:
        risk = dataset.risk("SELECT SUM(v) FROM people")
        widest, narrowest = (risk.candidate(epsilon).rdr.variance for epsilon in (10.0, 0.001))
        ratios = [risk.candidate(epsilon).rdr.ratio for epsilon in (10.0, 0.001)]
    return Demonstration(
        {"at_10": widest, "at_0.001": narrowest, "ratio_at_10": ratios[0], "ratio_at_0.001": ratios[1]},
        f"SUM over 0 … 99: Var(RDR) is {widest:.6g} at ε = 10 and {narrowest:.6g} at ε = 0.001, while the ratio of "
        f"least to most exposed goes from {ratios[0]:.3f} to {ratios[1]:.4f}.",
    )


def show_classic_gaussian() -> Demonstration:
    """Compute which δ Gaussian noise really gives, if the classic formula chose its σ for ε = 10 and δ = 10⁻⁶ (M2).

    The true δ is computed by the exact formula for continuous noise, and is larger.
    """
    epsilon, delta = 10.0, 1e-6
    sigma = ClassicGaussian(delta).scale(1.0, epsilon)
    needed = Gaussian(delta).scale(1.0, epsilon)
    true = gaussian_delta(sigma, epsilon)
    return Demonstration(
        {"sigma": sigma, "claimed_delta": delta, "true_delta": true, "zcdp_sigma": needed},
        f"At ε = {epsilon:g}, δ = {delta:g} the classic formula takes σ = {sigma:.3f} Δ, whose true δ is {true:.2e}: "
        f"{true / delta:.2f} times what is claimed. zCDP takes {needed:.3f} Δ.",
    )


def gaussian_delta(sigma: float, epsilon: float) -> float:
    """Return the smallest δ that continuous Gaussian noise gives at this ε with Δ = 1 (Balle and Wang, 2018)."""

    def normal_below(point: float) -> float:
        return 0.5 * math.erfc(-point / math.sqrt(2.0))

    half, drift = 0.5 / sigma, epsilon * sigma
    return normal_below(half - drift) - math.exp(epsilon) * normal_below(-half - drift)


# ---------------------------------------------------------------- section 4: find ε from RDR


def show_groups_widen() -> Demonstration:
    """Find the largest ε at which the smallest RDR is at least 0.95 times the largest RDR (R10).

    This is done for several numbers of groups.
    """
    import pyarrow as pa

    found: dict[int, float | None] = {}
    for groups in (1, 7, 190):
        values = [f"g{number}" for number in range(groups)]
        facts = {"g": {"type": "category", "values": values}, "v": {"type": "integer", "bounds": [0, 1]}}
        schema = {"table": "people", "individuals": 4, "reviewed": True, "columns": facts}
        table = pa.table({"g": ["g0"] * 4, "v": [0, 0, 0, 1]})
        with Dataset.open(table, table="people", schema=schema) as dataset:
            risk = dataset.risk("SELECT g, COUNT(*) FROM people WHERE v = 1 GROUP BY g")
            found[groups] = risk.find("ratio:0.95").epsilon
    text = "; ".join(f"k = {groups}: ε = {epsilon:g}" for groups, epsilon in found.items())
    return Demonstration(
        {f"groups_{groups}": epsilon for groups, epsilon in found.items()},
        f"The same four people, the same ratio of 0.95, a COUNT by k declared groups. {text}.",
    )


def show_observed_groups() -> Demonstration:
    """Count the rows of an answer that has a row for each group in the data, not for each declared group (C8).

    They are counted with and without a person who is alone in a group.
    """
    import pyarrow as pa

    rows = []
    for cities in (["A", "A", "B"], ["A", "A"]):
        with Dataset.open(pa.table({"city": cities}), table="people") as dataset:
            rows.append(dataset.risk("SELECT city, COUNT(*) FROM people GROUP BY city", groups="observed").k)
    return Demonstration(
        {"with": rows[0], "without": rows[1]},
        f"Three people in two cities, one alone in theirs: with observed groups the answer has {rows[0]} rows with "
        f"that person and {rows[1]} without, whatever the noise.",
    )


def show_bounds_from_data() -> Demonstration:
    """Compute Δ from bounds that are read off the data, with and without one person."""
    import pyarrow as pa

    found = []
    for values in ([*range(1001), 100_000], list(range(1001))):
        with Dataset.open(pa.table({"v": values}), table="people") as dataset:
            found.append(dataset.risk("SELECT SUM(v) FROM people").sensitivity)
    return Demonstration(
        {"with": found[0], "without": found[1]},
        f"SUM over 0 … 1000: with one more person, who holds 100,000, Δ read off the data goes from {found[1]:,.0f} to "
        f"{found[0]:,.0f}, and the noise grows a hundredfold for everybody to see.",
    )


def show_average_sensitivity() -> Demonstration:
    """Compare the largest PIS of an AVG under a WHERE with the authors' Δ for it, (max − min)/n.

    Their n counts all rows of the table, though only the rows inside the WHERE are averaged.
    """
    import pyarrow as pa

    facts = {"v": {"type": "integer", "bounds": [1, 99]}, "w": {"type": "integer", "bounds": [0, 1]}}
    schema = {"table": "people", "individuals": 1000, "reviewed": True, "columns": facts}
    table = pa.table({"v": [1] * 10 + [99] + [40] * 989, "w": [1] * 11 + [0] * 989})
    hand = (99 - 1) / 1000
    with Dataset.open(table, table="people", schema=schema) as dataset:
        risk = dataset.risk("SELECT AVG(v) FROM people WHERE w = 1", sensitivity=hand)
        largest = float(risk.sensitivities.values.max())
        sums = dataset.risk("SELECT AVG(v) FROM people WHERE w = 1")
        own = float(sums.sensitivities.values.max()) / sums.sensitivity
    return Demonstration(
        {"hand_sensitivity": hand, "largest": largest, "excess": largest / hand, "through_sums": own},
        f"Eleven of a thousand rows match. One of them moves the average by {largest:.2f}, {largest / hand:.0f} times "
        f"the Δ = (max − min)/n = {hand:g} that the noise is made for. Through sums nobody exceeds Δ (largest "
        f"{own:.2f} Δ).",
    )


def show_average_spent_twice() -> Demonstration:
    """Compute what the sum and the count of an average cost together: if each takes ε, and if both share one ε."""
    epsilon = 0.5
    alone = calibrate(LAPLACE, sensitivity=1, epsilon=epsilon).certified
    shared = calibrate(LAPLACE, sensitivity=1, epsilon=epsilon, shares=2).certified
    return Demonstration(
        {"asked": epsilon, "each_alone": 2 * alone, "shared": 2 * shared},
        f"A sum and a count at ε = {epsilon:g} each cost {2 * alone:g} together; as one release of ε = {epsilon:g} "
        f"they cost {2 * shared:g}.",
    )


# ---------------------------------------------------------------- section 5: find and release ε


def show_threshold_factor() -> Demonstration:
    """Compare outcomes of the noisy test on the paper's query Q1, at the threshold 10⁻⁵ and at ten times as much.

    The labels of the paper's figure say 10⁻⁵; the authors' code has 10e-5, which is 10⁻⁴.
    """
    written, meant = float("10e-5"), 1e-5
    outcomes = [outcome_distribution(_adult_count(tau), method="paper") for tau in (meant, written)]
    shares = [_chance_of_large(outcome.probabilities) for outcome in outcomes]
    return Demonstration(
        {"written": written, "factor": written / meant, "large_as_meant": shares[0], "large_as_written": shares[1]},
        f"10e-5 is {written:g}, {written / meant:.0f} times 10⁻⁵. On Q1 it lifts the chance that ε ≥ 1 comes out from "
        f"{shares[0]:.1%} to {shares[1]:.1%}.",
    )


def _chance_of_large(probabilities: Sequence[float]) -> float:
    return math.fsum(chance for e, chance in zip(paper_candidates(), probabilities, strict=True) if e >= 1.0)


def _adult_count(threshold: float, mechanism: Mechanism = LAPLACE) -> SelectionProblem:
    return _count_problem(ADULT_ROWS, Q1_MATCHES, threshold=threshold, mechanism=mechanism)


def show_data_normalisation() -> Demonstration:
    """Show how far the variance of RDR/(largest RDR of the data) moves when one person leaves.

    The noise of the paper's test hides moves of at most 1/n; this move is larger. With RDR* in place of the largest
    RDR of the data, the move is smaller than 1/n.
    """
    epsilon, sensitivity, values = 10.0, 1000.0, [0.0] * 500 + [100.0] * 500
    noise = sensitivity / epsilon
    moved = []
    for data_dependent in (True, False):
        spreads = []
        for people in ([*values, 1000.0], [*values, 0.0]):  # the person's slot stays, empty
            rdr = np.array(people) + noise
            spreads.append(float(np.var(rdr / (rdr.max() if data_dependent else sensitivity + noise))))
        moved.append(abs(spreads[0] - spreads[1]))
    hidden = 1.0 / (len(values) + 1)
    return Demonstration(
        {"moved": moved[0], "moved_with_ceiling": moved[1], "hidden": hidden},
        f"500 people hold 0, 500 hold 100 and one holds 1000. When that one leaves, the variance over the data's own "
        f"largest RDR moves by {moved[0]:.4f}; over RDR* by {moved[1]:.6f}. Noise for 1/n hides {hidden:.4f}.",
    )


def show_non_additive() -> Demonstration:
    """Show by a MEDIAN and a COUNT(DISTINCT) that one person can move the variance of risks by more than 1/n (V2).

    The noisy test compares such a variance with its threshold, and its noise is made for moves of at most 1/n.
    """
    median = []
    for zeros in (501, 500):
        with _open([0] * zeros + [1] * 500, bounds=(0, 1), slots=1001) as dataset:
            risk = dataset.risk("SELECT MEDIAN(v) FROM people", sensitivity=1.0)
            slots = risk.contributions.with_empty_slots(1001 - risk.present)
            median.append(_variance(slots.norms(1), slots.people))
    weight = (10.0 / 11.0) ** 2  # w² of one number at ε = 10
    distinct = []
    for values_held in ([0, 0, *range(1, 9)], [0, *range(1, 9)]):
        with _open(values_held, bounds=(0, 9)) as dataset:
            risk = dataset.risk("SELECT COUNT(DISTINCT v) FROM people")
            distinct.append(weight * _variance(risk.sensitivities.values, risk.sensitivities.counts))
    moved_median, moved_distinct = abs(median[0] - median[1]), abs(distinct[0] - distinct[1])
    return Demonstration(
        {"median": moved_median, "median_hidden": 1 / 1001, "distinct": moved_distinct, "distinct_hidden": 1 / 10},
        f"MEDIAN over 501 zeros and 500 ones: the variance of PIS/Δ moves by {moved_median:.4f} when a zero leaves, "
        f"against 1/n = {1 / 1001:.4f}. COUNT(DISTINCT) on a, a and eight other values at ε = 10: {moved_distinct:.3f} "
        "against 0.1.",
    )


def _variance(values: np.ndarray, counts: np.ndarray) -> float:
    mean = float(np.average(values, weights=counts))
    return float(np.average((values - mean) ** 2, weights=counts))


def show_violations() -> Demonstration:
    """Compute which share of the ε's that a noisy test releases violates its threshold (V5).

    At these ε's the variance of normalised RDRs exceeds the threshold, here 10⁻⁵. The exact shares are computed for the
    paper's test and for the sharp selection, with both mechanisms, on the paper's query Q1, with ε_svt = 1.
    """
    gaussian = Gaussian(1.0 / ADULT_ROWS**2)
    shares: dict[str, float] = {}
    for name, mechanism in (("laplace", LAPLACE), ("gaussian", gaussian)):
        problem = _adult_count(1e-5, mechanism)
        shares[f"paper_{name}"] = violation_share(problem, outcome_distribution(problem, method="paper"))
        shares[f"sharp_{name}"] = violation_share(problem, outcome_distribution(problem, method="sharp"))
    return Demonstration(
        shares,
        f"Q1, ε_svt = 1, τ = 10⁻⁵, exact shares of released ε's that violate the preference. Laplace: "
        f"{shares['paper_laplace']:.2%} by the paper's test, {shares['sharp_laplace']:.3%} by the sharp one. Gaussian: "
        f"{shares['paper_gaussian']:.2%} and {shares['sharp_gaussian']:.2%}.",
    )


def show_reruns() -> Demonstration:
    """Compute what 50 runs of the noisy test cost, and the chance that at least one of them gives ε ≥ 1."""
    runs = 50
    problem = _adult_count(1e-5)
    outcome = outcome_distribution(problem, method="paper")
    violating = violation_share(problem, outcome) * math.fsum(outcome.probabilities)
    large = 1.0 - (1.0 - _chance_of_large(outcome.probabilities)) ** runs
    return Demonstration(
        {"charge": runs * 1.0, "one_run_violates": violating, "large_among_runs": large},
        f"Fifty looks at ε_svt = 1 cost {runs:g}, not 1. One run of Q1 releases a violating ε with chance "
        f"{violating:.1%}; among fifty, some ε ≥ 1 comes up with chance {format_percent(large)}, where the largest "
        "that meets the preference is 0.1. The exact chances (V3) need no run.",
    )


def show_uncharged_denials() -> Demonstration:
    """Compute how much better two neighbouring tables can be told apart after 50 denials that cost nothing (O1)."""
    n, asked = 20, 50
    threshold = float(svt_sensitivity(n)) / 2
    problems = [_count_problem(n, matches, threshold=threshold, candidates=(10.0,)) for matches in (1, 0)]
    denials = [outcome_distribution(problem, method="paper").denial for problem in problems]
    ratio = denials[0] / denials[1]
    return Demonstration(
        {"denial_with": denials[0], "denial_without": denials[1], "ratio": ratio, "after_fifty": ratio**asked},
        f"COUNT among {n} people, one candidate: a denial has chance {denials[0]:.3f} with one match and "
        f"{denials[1]:.3f} with none. Fifty denials in a row, charged nothing by the paper's odometer, are "
        f"{ratio**asked:,.0f} times likelier with the person than without.",
    )


def show_doubling() -> Demonstration:
    """Show how few answers the policy ``paper`` grants (O2).

    Find how many there are if each takes the smallest ε possible. Then ask one query by one preference twice.
    """
    candidates = paper_candidates()
    reading = Paper().start(Decimal(1))
    readings: list[Decimal] = []
    while left := _remaining(reading, candidates):
        reading = reading.after(Charge(exact_decimal(min(left))))
        readings.append(reading.epsilon)
    growth = min(float(after / before) for before, after in pairwise(readings))
    first = max(_list_meeting(candidates, 0.95))
    once = Paper().start(Decimal(1)).after(Charge(exact_decimal(first)))
    second = max(_list_meeting(_remaining(once, candidates), 0.95), default=None)
    return Demonstration(
        {"answers": len(readings), "least_growth": growth, "first": first, "second": second},
        f"Granting the smallest candidate each time gives {len(readings)} answers, the reading growing at least "
        f"{growth:.2f}-fold with each. One COUNT with ratio ≥ 0.95 is answered at ε = {first:g}; asked again, no "
        "candidate is left that meets it.",
    )


def _remaining(reading: Reading, candidates: Sequence[float]) -> tuple[float, ...]:
    return RequestCharges(Paper(), None, reading, ZERO, ZERO).remaining(candidates)


def _list_meeting(candidates: Sequence[float], ratio: float) -> list[float]:
    """Return the ε's at which the smallest RDR is at least ``ratio`` times the largest: 1/(1 + ε) ≥ ratio (R10).

    This is for a COUNT that some people match and others do not.
    """
    return [epsilon for epsilon in candidates if 1.0 / (1.0 + epsilon) >= ratio]


# ---------------------------------------------------------------- section 6: the experiments


def show_candidates() -> Demonstration:
    """Compare the candidates as the paper prints them with the list of 37 that it means (F3)."""
    printed = 10 + 9 + 9 + 99  # …, 0.01, then 0.099 … 0.001 in steps of 0.001
    listed = paper_candidates()
    return Demonstration(
        {"printed": printed, "values": len(listed), "smallest": listed[-1]},
        f"Read literally the list ends 0.099, …, 0.001 and has {printed} entries; with 0.009, …, 0.001 it has the "
        f"{len(listed)} that the paper counts.",
    )
