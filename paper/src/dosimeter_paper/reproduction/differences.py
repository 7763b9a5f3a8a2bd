"""The points where the paper, its authors' code and sound practice differ, each with a demonstration that runs.

The points are in the order of the paper's sections. ``docs/paper.md`` explains the same at more length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dosimeter.json_values import JsonObject
from dosimeter_paper.reproduction import demonstrations as d
from dosimeter_paper.reproduction.attacks import Attack, attack_count, attack_sum
from dosimeter_paper.reproduction.demonstrations import Demonstration


@dataclass(frozen=True, slots=True)
class Difference:
    """One point of difference. ``theirs``: what the paper or its code does; ``here``: what this package does instead.

    ``section``: the section of the paper. ``demonstrate``: computes the numbers that show it.
    """

    key: str
    section: str
    title: str
    theirs: str
    here: str
    demonstrate: Callable[[], Demonstration]


@dataclass(frozen=True, slots=True)
class Shown:
    """A difference between the paper and this tool, with the result of the computation that demonstrates it."""

    difference: Difference
    shown: Demonstration

    def document(self) -> JsonObject:
        point = self.difference
        return {
            "key": point.key,
            "section": point.section,
            "title": point.title,
            "theirs": point.theirs,
            "here": point.here,
            "numbers": dict(self.shown.numbers),
            "words": self.shown.words,
        }


def _show_count_attack() -> Demonstration:
    return _show_attack(attack_count())


def _show_sum_attack() -> Demonstration:
    return _show_attack(attack_sum())


def _show_attack(attack: Attack) -> Demonstration:
    numbers: dict[str, float | None] = {
        "epsilon_with": attack.present.epsilon,
        "epsilon_without": attack.absent.epsilon,
        "hits_with": attack.present.hits,
        "hits_without": attack.absent.hits,
        "releases": attack.releases,
        "exact_ratio": attack.exact,
        "proven_ratio": attack.proven,
        "allowed": attack.allowed,
    }
    return Demonstration(numbers, attack.words)


DIFFERENCES = (
    Difference(
        "indicator", "3.3", "An upper bound stands for the indicator",
        "The RDR is an expectation; the paper computes an upper bound and calls it RDR from then on.",
        "The bound is the default, as in the paper; --indicator exact gives the expectation; which was used is said "
        "wherever an ε is shown (R5–R7).",
        d.show_bound_and_exact,
    ),
    Difference(
        "classic-gaussian", "3.2", "The classic Gaussian above ε = 1",
        "σ² = 2Δ² ln(1.25/δ)/ε², proven for ε ≤ 1 only, with candidates up to 10.",
        "Calibrated through zCDP (M3); classic exists for comparison and never backs a release (M2).",
        d.show_classic_gaussian,
    ),
    Difference(
        "raw-variance", "4.2", "A preference that does not depend on ε",
        "Var(RDR) ≤ τ is offered as a preference function.",
        "Under Laplace, with the bound, noise adds the same to everybody, so the raw variance never changes: the "
        "controller is told (R8), and variance:τ means the variance of the normalised RDR.",
        d.show_raw_variance,
    ),
    Difference(
        "groups", "4.2", "More groups allow a larger ε",
        "Noise in every cell counts in everybody's RDR (k in the lemmas).",
        "Followed, with a note, the person's own guarantee beside it (P1), and an optional cap per query (R10).",
        d.show_groups_widen,
    ),
    Difference(
        "observed-groups", "code", "Which groups exist is private",
        "The code takes the groups that occur in the data.",
        "Groups are declared in the schema; observed ones are for comparison and never back a release (C8).",
        d.show_observed_groups,
    ),
    Difference(
        "bounds-from-data", "code", "Bounds read off the data",
        "The code takes Δ from the smallest and largest value in the data.",
        "Bounds are declared; a drafted schema says reviewed = false and cannot back a release.",
        d.show_bounds_from_data,
    ),
    Difference(
        "average-sensitivity", "code", "AVG's sensitivity under a WHERE",
        "The code takes Δ = (max − min)/n over all n rows, also when few of them match.",
        "AVG goes through a centred sum and a count, or through a public lower bound on the matching rows (S2).",
        d.show_average_sensitivity,
    ),
    Difference(
        "average-spent-twice", "code", "An average that spends ε twice",
        "AVG is calibrated as one query and then released by a library that spends ε on the sum and on the count.",
        "Measures of one query share its ε (S5), and the risk is computed on exactly what gets noise (S6).",
        d.show_average_spent_twice,
    ),
    Difference(
        "data-dependent-count", "4.2", "An ε chosen from the data tells (COUNT)",
        "The algorithm is said to be (ε, δ)-DP because ε itself is not released.",
        "The noise scale tells ε, and ε tells the data. Offered as the paper has it, with that sentence beside it; the "
        "odometer theorem does not cover it (G2, O3). A fixed ε or find-and-release is recommended.",
        _show_count_attack,
    ),
    Difference(
        "data-dependent-sum", "4.2", "An ε chosen from the data tells (SUM)",
        "As above.",
        "As above: the released number alone is enough, and a single release is.",
        _show_sum_attack,
    ),
    Difference(
        "non-additive", "5.1", "1/n does not hold for every query",
        "The variance of normalised RDRs is said to have sensitivity 1/n since each lies in [0, 1].",
        "That needs a PIS that depends on one's own rows only; then (n − 1)/n² holds. Others are refused (V2).",
        d.show_non_additive,
    ),
    Difference(
        "data-normalisation", "code", "Normalising by the data's own largest RDR",
        "The text divides by the data-independent RDR*; the code by the largest RDR found.",
        "RDR* (R9).",
        d.show_data_normalisation,
    ),
    Difference(
        "threshold-factor", "code", "Thresholds ten times their label",
        "The figure's labels say 10⁻⁵ … 10⁻¹¹; the code has 10e-5 … 10e-11.",
        "Both can be run: paper variance --thresholds label or code.",
        d.show_threshold_factor,
    ),
    Difference(
        "violations", "5.1", "Most released ε's violate the preference",
        "The noisy test is run at thresholds far below the reach of its noise.",
        "--selection sharp draws one noisy number for all candidates, at the same cost (V5, V6); --violation promises "
        "how often it errs (V7).",
        d.show_violations,
    ),
    Difference(
        "reruns", "6.3", "Rerun it and decide which ε to release",
        "Controllers may rerun the noisy test, with other τ and ε_svt, and pick.",
        "Each run is charged; the exact chances of every outcome are shown beforehand, without a run (V3). A dry run "
        "is recorded in the ledger (G1).",
        d.show_reruns,
    ),
    Difference(
        "uncharged-denials", "5.3", "Denials are not charged",
        "The odometer sums the ε's of answered queries.",
        "Once the noisy test has run, ε_svt is charged whatever came of it (O1).",
        d.show_uncharged_denials,
    ),
    Difference(
        "doubling", "5.2", "A reading that at least doubles",
        "Only candidates larger than what has been spent may be granted.",
        "Policy paper follows it and shows what an approval costs; policy budget:E sums against a budget (O2).",
        d.show_doubling,
    ),
    Difference(
        "candidates", "6.2", "The list of candidates",
        "Printed as … 0.01, 0.099, …, 0.001, 37 values in total.",
        "10 … 1, 0.9 … 0.1, 0.09 … 0.01, 0.009 … 0.001 (F3).",
        d.show_candidates,
    ),
)  # fmt: skip


def show_differences() -> tuple[Shown, ...]:
    """Run the demonstration of every difference. Takes a few seconds: two of them draw 40,000 real releases each."""
    return tuple(Shown(difference, difference.demonstrate()) for difference in DIFFERENCES)
