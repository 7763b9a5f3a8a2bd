"""Plan queries as one dataset is served: by its settings and its schema alone. Never touches the data.

A QueryPlanner holds public facts only and can be sent to another process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal

from dosimeter.errors import QueryError
from dosimeter.options import LookOptions
from dosimeter.planning import can_tell
from dosimeter.release import PreparedRelease, ReleaseOrder, Way, prepare_release, read_way
from dosimeter.risk import parse_candidates
from dosimeter.schema import Schema
from dosimeter.web.settings import DatasetSettings

TOO_LARGE = (
    "This query takes too long to check, or too much memory. Write it with fewer parts that refer to one another, or "
    "split it into several queries."
)


@dataclass(frozen=True, slots=True)
class QueryPlanner:
    """The settings and the schema of one dataset: all that decides how a query on it is planned."""

    settings: DatasetSettings
    schema: Schema

    @property
    def look(self) -> LookOptions:
        return LookOptions(
            mechanism=self.settings.mechanism,
            candidates=self.settings.candidates,
            min_rows=self.settings.min_rows,
        )

    @property
    def candidates(self) -> tuple[float, ...]:
        return parse_candidates(self.settings.candidates)

    def find_test_cost(self, left: Decimal | None) -> float:
        """Return what the noisy test costs: as the settings say, otherwise a tenth of what is left, to one digit.

        ``left``: in the account; None without a budget: then a tenth of ε = 1. Rounded down, but not to 0: where
        nothing is left, the account refuses the test.
        """
        if self.settings.svt is not None:
            return self.settings.svt
        tenth = 0.1 if left is None else max(float(left) / 10.0, min(self.candidates))
        power = math.floor(math.log10(tenth) + 1e-9)
        return float(f"{math.floor(tenth / 10.0**power + 1e-9)}e{power}")

    def choose_way(self, epsilon: float | None, preference: str | None, svt: float | None = None) -> Way:
        """Return how ε is set: fixed, found from a preference, or by the noisy test, as the settings say.

        ``epsilon`` is the fixed ε, or the one chosen under the preference. ``svt``: what the noisy test costs; by
        default what it costs while nothing is spent. The test uses nothing else but the settings.
        """
        given = self.settings
        match given.algorithm:
            case "fixed":
                return read_way(epsilon=epsilon)
            case "find":
                return read_way(prefer=preference, chosen=epsilon)
            case "find-and-release":
                cost = self.find_test_cost(given.budget) if svt is None else svt
                return read_way(svt=cost, variance=given.variance, violation=given.violation)

    def plan_anew(self, sql: str, order: ReleaseOrder | None = None) -> PreparedRelease:
        """Return what the schema alone decides about this release. Raises InputError if the query cannot be released.

        ``order``: how it is to be released; None for any order that the dataset's algorithm takes. Groups that nobody
        declared are thresholded if the settings have a δ for them (H1), otherwise refused. Where the settings have a
        share for it, and SQL and schema allow it, the answer also tells how many people were cut (E5).
        """
        order = self._any_order() if order is None else order
        try:
            prepared = prepare_release(self.schema, sql, self.look, order)
            if self.settings.tell_cut is None or not can_tell(prepared.plan):
                return prepared
            return prepare_release(self.schema, sql, replace(self.look, tell_cut=self.settings.tell_cut), order)
        except QueryError as error:
            if not error.undeclared or self.settings.group_delta is None:
                raise
        look = replace(self.look, groups="thresholded", group_delta=self.settings.group_delta, min_rows=None)
        return prepare_release(self.schema, sql, look, order)

    def _any_order(self) -> ReleaseOrder:
        epsilon = min(self.candidates) if self.settings.algorithm == "fixed" else None
        return ReleaseOrder(self.choose_way(epsilon, "ratio:0.95"))
