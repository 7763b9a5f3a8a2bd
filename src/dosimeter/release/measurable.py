"""The protocols of a question and of the data that a release measures: all that releasing uses of Query and Dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dosimeter.assessment import Risk
    from dosimeter.engines import Engine
    from dosimeter.influence import DeclaredTables
    from dosimeter.options import LookOptions
    from dosimeter.planning import PlanOptions, QueryPlan
    from dosimeter.schema import Schema


class Measurable(Protocol):
    """A table with its schema and an engine that queries it, which can assess the Risk of a plan."""

    @property
    def schema(self) -> Schema:
        """Return the public facts of the table."""

    @property
    def engine(self) -> Engine:
        """Return the engine that queries the table."""

    @property
    def tables(self) -> DeclaredTables:
        """Return the rows that count, of the table and of those declared beside it."""

    def renew(self) -> str:
        """Let later reads see the data as they are now, and return their digest."""

    def plan(self, sql: str, options: PlanOptions | None = None) -> QueryPlan:
        """Return the plan of a query over the table."""

    def assess_plan(self, plan: QueryPlan, look: LookOptions) -> Risk:
        """Measure how far everybody moves the plan's numbers, and return the Risk."""


class Question(Protocol):
    """SQL about a table, and how it is measured."""

    @property
    def dataset(self) -> Measurable:
        """Return the table that is asked."""

    @property
    def sql(self) -> str:
        """Return the analyst's query."""

    @property
    def look(self) -> LookOptions:
        """Return how the query is measured."""
