"""A query: one question about a dataset and how it is measured, the same for looking at its risk and for releasing it.

Takes a Dataset, SQL and options; gives an Explanation, a Risk, a Choice, a DryRun or an Answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dosimeter.errors import OptionError, SchemaError
from dosimeter.options import Calibration, Indicator, LookOptions
from dosimeter.planning import QueryPlan, plan_options

if TYPE_CHECKING:
    from dosimeter.assessment import Risk
    from dosimeter.dataset import Dataset
    from dosimeter.findings import Choice
    from dosimeter.ledger import Ledger, Policy
    from dosimeter.planning import Explanation
    from dosimeter.release import Answer, DryRun, ReleaseOrder, Way
    from dosimeter.risk import PreferenceFunction


@dataclass(frozen=True, slots=True)
class Query:
    """One question about a dataset. ``Dataset.query`` makes it.

    ``look``: how it is measured. ``mentioned``: further text, such as a preference: without a schema, the facts of the
    columns that it names are drafted too.
    """

    dataset: Dataset = field(repr=False)
    sql: str
    look: LookOptions = field(default_factory=LookOptions)
    mentioned: str = ""

    @property
    def plan(self) -> QueryPlan:
        """Return what the query would measure; the dataset remembers it."""
        return self.dataset.plan(self.sql, plan_options(self.look), mentioned=self.mentioned)

    def explain(self) -> Explanation:
        """Return what the query would measure, from the schema alone: nothing of the data is read.

        Raises:
            QueryError: the query cannot be answered; the message names the clause.
            SchemaError: no schema was given, so there are no public facts to go by.
        """
        from dosimeter.postprocess import explain_with_errors

        if self.dataset.drafted:
            raise SchemaError(
                "explain goes by public facts, and this dataset was opened without a schema. Open it with one."
            )
        return explain_with_errors(self.plan)

    def risk(
        self,
        *,
        indicator: Indicator | None = None,
        candidates: str | Sequence[float] | None = None,
        calibration: Calibration | None = None,
        sensitivity: float | None = None,
    ) -> Risk:
        """Return everybody's per-instance sensitivity and RDR. For the controller's eyes only.

        What is given here holds for this look alone, not for a release of the query.

        Args:
            indicator: another indicator than the query's.
            candidates: other ε's than the query's.
            calibration: Gaussian: ``"zcdp"``, the default, or ``"classic"`` as in the paper, for study.
            sensitivity: a Δ given by hand, for study.

        Raises:
            QueryError: the query cannot be analysed; the message names the clause.
        """
        look = self._look(indicator=indicator, candidates=candidates, calibration=calibration, sensitivity=sensitivity)
        return self.dataset.assess_plan(replace(self, look=look).plan, look)

    def find(self, preference: str | PreferenceFunction, **options: Any) -> Choice:
        """Return the largest ε that meets a preference. For the controller's eyes only.

        Args:
            preference: a condition on the RDRs, a short name such as ``"ratio:0.95"``, or a function of the RDRs.
            **options: the keywords of ``Query.risk``.

        Raises:
            PreferenceError: the preference cannot be understood.
        """
        mentioned = preference if isinstance(preference, str) else ""
        return replace(self, mentioned=f"{self.mentioned} {mentioned}").risk(**options).find(preference)

    def release(self, ledger: Ledger, way: Way, **options: Any) -> Answer:
        """Charge the ledger and release one answer, or deny it.

        Args:
            ledger: the open ledger that holds the dataset's account.
            way: how ε is set: ``Fixed``, ``Preferred`` or ``Selected``.
            **options: the fields of ``ReleaseOptions`` but those that set ε; ``indicator`` and ``candidates`` where
                ε is to be found by others than the query's.

        Returns:
            The Answer: its ``describe`` gives what the analyst may see. A denial has no answer and no reason.

        Raises:
            InputError: something that was given cannot be used: the SQL, an option, the schema, or the ledger.
            DatasetStopped: an incident stopped the dataset, now or before.
        """
        from dosimeter.release import release

        return release(*self._order(ledger, way, **options))

    def dry_run(self, ledger: Ledger, way: Way, **options: Any) -> DryRun:
        """Return what ``release`` would do with the same arguments, for the controller's eyes only.

        Nothing is charged and nothing is released; that somebody looked is recorded in the ledger.

        Args:
            ledger: the open ledger that holds the dataset's account.
            way: how ε is set: ``Fixed``, ``Preferred`` or ``Selected``.
            **options: as for ``release``.

        Raises:
            InputError: the release would be refused for the same reason.
        """
        from dosimeter.release import preview_release

        return preview_release(*self._order(ledger, way, **options))

    def _order(
        self,
        ledger: Ledger,
        way: Way,
        *,
        indicator: Indicator | None = None,
        candidates: str | Sequence[float] | None = None,
        policy: Policy | str | None = None,
        delta_total: float | str | None = None,
        max_epsilon: float | str | None = None,
        **recorded: Any,
    ) -> tuple[Query, ReleaseOrder, Ledger]:
        from dosimeter.ledger import Ledger
        from dosimeter.release import ReleaseOrder, Terms, Way

        if not isinstance(ledger, Ledger):
            raise OptionError("ledger must be an open Ledger: with Ledger.open(path) as ledger: …")
        if not isinstance(way, Way):
            raise OptionError(
                "Say how ε is set: Fixed(0.5), Preferred('ratio:0.95') or Selected(svt=0.1, variance=1e-5)."
            )
        order = ReleaseOrder(way, terms=Terms(policy, delta_total, max_epsilon), **recorded)
        return replace(self, look=self._look(indicator=indicator, candidates=candidates)), order, ledger

    def _look(self, **options: Any) -> LookOptions:
        """Return how the query is measured, with what else is given; None leaves it as it is."""
        given = {name: value for name, value in options.items() if value is not None}
        studied = {name: given.pop(name) for name in ("calibration", "sensitivity") if name in given}
        return replace(self.look, study=replace(self.look.study, **studied), **given)
