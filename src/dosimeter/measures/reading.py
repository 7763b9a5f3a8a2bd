"""What the reader of an aggregate is given, and by which it turns the aggregate into measures and an estimate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.measures.argument import Argument
from dosimeter.measures.estimates import Estimate
from dosimeter.measures.measure import Measure
from dosimeter.measures.noise_grid import Facts
from dosimeter.problems import for_controller


@dataclass(frozen=True, slots=True)
class Call:
    """One aggregate as the analyst wrote it, without its FILTER: ``condition`` is the FILTER's, checked.

    ``label``: the aggregate as messages and answers name it.
    """

    node: exp.Expression
    condition: exp.Expression | None
    label: str


@dataclass(frozen=True, slots=True)
class Source:
    """What an aggregate reads of every row. Equal sources have one ``key``.

    Its argument is final only once all aggregates are read: COUNT(pay) reads what SUM(pay) profiles.
    """

    key: str
    argument: Argument


@dataclass(frozen=True, slots=True)
class Distinct:
    """What COUNT(DISTINCT x) reads. ``individuals``: x is the unit. ``values``: how many there can be, if known."""

    source: Source
    individuals: bool = False
    values: int | None = None


class Collector(Protocol):
    """The aggregates of one query as they are met; equal sources and measures are shared.

    ``facts``: the public facts that sensitivities depend on, besides the bounds. ``by_hand``: whether a sensitivity is
    given by hand, so that an aggregate is measured as one number (S7). ``min_rows``: the floor on an AVG's rows (S2).
    ``by_ranks``: whether order statistics are drawn by rank (M4).
    """

    @property
    def facts(self) -> Facts: ...
    @property
    def by_hand(self) -> bool: ...
    @property
    def min_rows(self) -> int | None: ...
    @property
    def by_ranks(self) -> bool: ...

    def take(self, call: Call, node: exp.Expression | None, *, distinct: bool = False) -> Source:
        """Return the source of an aggregate that reads whether a value is there, or which values differ."""
        ...

    def take_distinct(self, call: Call, node: exp.Expression) -> Distinct:
        """Return the source of COUNT(DISTINCT x)."""
        ...

    def take_condition(self, call: Call, node: exp.Expression | None) -> Source:
        """Return the source of an aggregate that reads whether a condition holds."""
        ...

    def take_value(self, call: Call) -> Source:
        """Return the source of an aggregate over values, with the values on their grid."""
        ...

    def take_candidates(self, call: Call) -> tuple[Source, int]:
        """Return the source of an order statistic by ranks, its values rounded to candidates, and their step (M4)."""
        ...

    def take_pair(self, call: Call) -> tuple[Source, Source, Source]:
        """Return the sources of both values of an aggregate over two, and of their product, where both are there."""
        ...

    def measure(self, measure: Measure, source: Source | None = None) -> int:
        """Return the number of a measure; the same one over the same source is added once."""
        ...


Reader = Callable[[Collector, Call], Estimate]


def take_spread(collector: Collector, call: Call) -> Source:
    """Return the source of an aggregate over values. Refuse it if its values cannot differ."""
    source = collector.take_value(call)
    if source.argument.width == 0:
        raise refuse_constant(call)
    return source


def refuse_constant(call: Call) -> QueryError:
    """Return the refusal of an aggregate whose bounds leave it one value."""
    return QueryError(
        f"{call.label} cannot change: its bounds leave it no room.",
        for_controller("Correct the bounds of its columns in the schema."),
        clause=call.label,
    )
