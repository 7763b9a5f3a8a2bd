"""Which ε may be approved for one query, and why another may not.

The page, the slider, the confirmation and the approval itself ask here. The ledger decides once more, in its own
transaction. Takes the RequestCharges (the account's policy and reading, and what an answer costs) and the candidates
that meet a preference; gives a refusal for a route to raise, or None.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from dosimeter.findings import Choice, word
from dosimeter.ledger import Algorithm, RequestCharges
from dosimeter.release import PreparedRelease, find_objection, find_refusal
from dosimeter.show import format_epsilon
from dosimeter.web.http import Refused
from dosimeter.web.state import ServedDataset, ServerState
from dosimeter.web.stopped_datasets import REFUSED

UNEVALUATED = "computing"
"""The code of the refusal while the preference is not evaluated."""


@dataclass(frozen=True)
class Offer:
    """The ε's that a controller may approve for one query.

    ``algorithm``: how ε is set: "fixed" by the controller, "find" from a preference, or "find-and-release" by the noisy
    test. ``remaining``: the candidates that the account still grants. ``charges``: the account's policy and reading,
    and what an answer costs. ``stopped``: an incident stopped the dataset. ``choice``: the preference evaluated at
    every candidate; None if it was not evaluated. Only with "find" is an ε refused because of the preference.
    """

    algorithm: Algorithm
    candidates: tuple[float, ...]
    remaining: tuple[float, ...]
    charges: RequestCharges
    stopped: bool
    choice: Choice | None = None

    @property
    def testing(self) -> bool:
        """Return whether ε is found by the noisy test, and not chosen by the controller."""
        return self.algorithm == "find-and-release"

    @cached_property
    def meeting(self) -> frozenset[float]:
        """Return the candidates that meet the preference, whether they remain or not; none if it was not evaluated."""
        return frozenset(() if self.choice is None else self.choice.meeting)

    @cached_property
    def found(self) -> float | None:
        """Return the largest candidate that the account still grants and that meets the preference; None if none.

        Also None if the preference was not evaluated.
        """
        return None if self.choice is None else self.choice.find_granted(self.remaining)

    @property
    def largest(self) -> float:
        """Return the largest ε that the account still grants, which the noisy test may find.

        If none is left: the largest candidate.
        """
        return max(self.remaining or self.candidates)

    def prefer(self, choice: Choice) -> Offer:
        """Return the same offer under this choice's preference."""
        return replace(self, choice=choice)

    def refuse(self, epsilon: float | None) -> Refused | None:
        """Return why this ε may not be approved; None if it may. ``epsilon``: None where the noisy test finds ε."""
        if self.stopped:
            return Refused(409, "stopped", REFUSED)
        if self.testing:
            return self.find_shortage(None)
        if epsilon is None:
            return Refused(422, "unusable", "Choose an ε.")
        if epsilon not in self.candidates:
            return Refused(422, "unusable", "ε must be one of the candidates.")
        shortage = self.find_shortage(epsilon)
        if shortage is not None or self.algorithm == "fixed":
            return shortage
        if self.choice is None:
            words = "The preference was not evaluated yet. Wait for its line, then approve."
            return Refused(409, UNEVALUATED, words)
        objection = find_objection(self.choice, self.charges, epsilon)
        return None if objection is None else Refused(409, "above", word(objection))

    def find_shortage(self, epsilon: float | None) -> Refused | None:
        """Return why the account does not grant this ε; None if it does.

        ``epsilon``: None asks whether the account grants any candidate at all.
        """
        if not self.remaining:
            why = self.explain(min(self.candidates))
            words = f"Nothing can be granted any more, not even the smallest candidate. {why}"
            return Refused(409, "odometer", words)
        if epsilon is None or epsilon in self.remaining:
            return None
        words = f"ε = {format_epsilon(epsilon)} cannot be granted. {self.explain(epsilon)}"
        return Refused(409, "odometer", words)

    def explain(self, epsilon: float) -> str:
        """Say why the account does not grant this ε; "" if it does."""
        refusal = find_refusal(self.charges, (epsilon,))
        return "" if refusal is None else word(refusal)


def make_offer(state: ServerState, served: ServedDataset, prepared: PreparedRelease, *, fresh: bool = False) -> Offer:
    """Return what may be approved for a query, before any preference.

    ``fresh``: read the account now; otherwise a copy that was read within the last second may be used.
    """
    charges = state.charges(served, prepared, fresh=fresh)
    return Offer(
        algorithm=served.settings.algorithm,
        candidates=served.candidates,
        remaining=charges.remaining(served.candidates),
        charges=charges,
        stopped=state.is_stopped(served.name),
    )
