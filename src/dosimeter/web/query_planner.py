"""Plan queries as one dataset is served: by its settings and its schema alone. Never touches the data.

A QueryPlanner holds public facts only and can be sent to another process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dosimeter.errors import QueryError
from dosimeter.options import LookOptions
from dosimeter.release import Fixed, PreparedRelease, ReleaseOrder, Way, prepare_release, read_way
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

    @property
    def find_and_release(self) -> Way:
        """Return the way of setting ε by a noisy test, with ``svt``, ``variance`` and ``violation`` of the settings."""
        given = self.settings
        return read_way(svt=given.svt, variance=given.variance, violation=given.violation)

    def plan_anew(self, sql: str, order: ReleaseOrder | None = None) -> PreparedRelease:
        """Return what the schema alone decides about this release. Raises InputError if the query cannot be released.

        ``order``: how it is to be released; None for any order that the dataset's algorithm takes. Groups that nobody
        declared are thresholded if the settings have a δ for them (H1), otherwise refused.
        """
        order = self._any_order() if order is None else order
        try:
            return prepare_release(self.schema, sql, self.look, order)
        except QueryError as error:
            if not error.undeclared or self.settings.group_delta is None:
                raise
        look = replace(self.look, groups="thresholded", group_delta=self.settings.group_delta, min_rows=None)
        return prepare_release(self.schema, sql, look, order)

    def _any_order(self) -> ReleaseOrder:
        match self.settings.algorithm:
            case "fixed":
                return ReleaseOrder(Fixed(min(self.candidates)))
            case "find":
                return ReleaseOrder(read_way(prefer="ratio:0.95"))
            case "find-and-release":
                return ReleaseOrder(self.find_and_release)
