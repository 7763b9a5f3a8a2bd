"""Write the sentence on privacy that is true of a released answer (G0–G3)."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

from dosimeter.mechanisms import Mechanism


def promise_fixed(mechanism: Mechanism, epsilon: Decimal, n: int, *, viewed: bool, group_delta: float = 0.0) -> str:
    """Return the sentence for a fixed ε (G0).

    ``n``: how many individuals are declared; the sentence names this number. ``viewed``: whether the controller saw a
    dry run or a risk before. ``group_delta``: the δ of thresholded groups (H1).
    """
    level = _level(epsilon, mechanism, group_delta)
    return (
        f"This answer is {level}-differentially private for each of the {n:,} individuals: "
        "whether or not their rows are in the table changes the chance of any outcome only within that bound. "
        f"It holds if ε and the decision to answer were fixed without looking at the data.{_remark(viewed)}"
    )


def promise_found(
    epsilon: Decimal, epsilon_svt: Decimal, largest: Decimal, mechanism: Mechanism, *, viewed: bool
) -> str:
    """Return the sentence for an ε that the noisy test selected (G1).

    ``largest``: the largest candidate. ``viewed``: whether the controller saw a dry run or a risk before.
    """
    return (
        f"Ex-post, this answer and its ε are {_level(epsilon + epsilon_svt, mechanism)}-differentially private "
        f"(ε = {epsilon:f} for the numbers, {epsilon_svt:f} for finding ε); beforehand the bound was "
        f"{_level(largest + epsilon_svt, mechanism)}. It holds if the threshold, the budget of the test, the "
        f"candidates, the mechanism and the decision to answer were fixed without looking at the data.{_remark(viewed)}"
    )


def promise_violation(violation: float | None, variance: float, n: int) -> str:
    """Return the sentence on how often the noisy test may pass an ε that it should not pass (V7).

    That is an ε at which the exact variance of the normalised RDRs is above the threshold. ``violation``: the promised
    probability; if it is None, nothing is promised and the sentence is empty. ``variance``: the threshold. ``n``: how
    many individuals are declared.
    """
    if violation is None:
        return ""
    return (
        f" Whatever the data, the noisy number by which ε was found lets an ε through at which the variance of the "
        f"normalised RDR, over the {n:,} declared individuals, is above its threshold ({variance:g} here) with a "
        f"chance of at most {violation:g}, in all its uses together."
    )


def promise_chosen() -> str:
    """Return the sentence for an ε that was found from a preference: it says what is not promised (G2)."""
    return (
        "ε was chosen from the data and is withheld. Because the amount of noise depends on the data, this answer is "
        "not differentially private at the chosen ε, nor at any candidate; it hides individuals only as far as the "
        "controller's preference goes."
    )


def _remark(viewed: bool) -> str:
    return " The ledger records that the risk or a dry run of this query was looked at before." if viewed else ""


def _level(epsilon: Decimal, mechanism: Mechanism, group_delta: float = 0.0) -> str:
    if mechanism.pure and not group_delta:
        return f"{epsilon:f}"
    context = Context(prec=3, rounding=ROUND_CEILING)  # never too small a δ
    delta = context.add(Decimal(repr(mechanism.delta)), Decimal(repr(group_delta)))
    return f"({epsilon:f}, {float(delta):g})"
