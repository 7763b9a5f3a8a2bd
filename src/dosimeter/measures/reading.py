"""What the readers of aggregates are given. A reader turns one aggregate into measures and an estimate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.measures.argument import Argument
from dosimeter.measures.estimates import Estimate
from dosimeter.measures.measure import Measure
from dosimeter.measures.noise_grid import SensitivityFacts
from dosimeter.problems import for_controller


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate as the analyst wrote it, without its FILTER.

    ``node``: the aggregate in the tree of the SQL. ``condition``: the condition of the FILTER, already checked; None
    without one. ``label``: the aggregate as messages and answers name it.
    """

    node: exp.Expression
    condition: exp.Expression | None
    label: str


@dataclass(frozen=True, slots=True)
class Source:
    """What an aggregate reads of every row. Equal sources have the same ``key``.

    The argument can change until all aggregates of the query are read: COUNT(pay) needs only to know where pay is NULL,
    but where SUM(pay) is asked for, too, both read one column of values.
    """

    key: str
    argument: Argument


@dataclass(frozen=True, slots=True)
class Distinct:
    """What COUNT(DISTINCT x) reads.

    ``individuals``: whether x is the unit. ``values``: how many different values x can have; None if that is not known,
    or not fewer than the rows that one individual can have.
    """

    source: Source
    individuals: bool = False
    values: int | None = None


class Collector(Protocol):
    """A collector of the sources and measures of one query while its aggregates are read. Equal ones are kept once.

    ``facts``: the public facts that sensitivities depend on, besides the bounds. ``by_hand``: whether a sensitivity is
    given by hand, so that each aggregate is measured directly, as a single number (S7). ``min_rows``: the floor on an
    AVG's rows (S2). ``by_ranks``: whether order statistics are drawn by rank (M4). ``search``: where MIN and MAX are to
    find bounds, the most candidates of each (B1).
    """

    @property
    def facts(self) -> SensitivityFacts: ...
    @property
    def by_hand(self) -> bool: ...
    @property
    def min_rows(self) -> int | None: ...
    @property
    def by_ranks(self) -> bool: ...
    @property
    def search(self) -> int | None: ...

    def take(self, call: AggregateCall, node: exp.Expression | None, *, distinct: bool = False) -> Source:
        """Return the source of an aggregate that reads only whether ``node`` is NULL.

        With ``distinct``, the aggregate reads the raw value of ``node`` instead. Refuse a ``node`` that is None: the
        aggregate has no argument.
        """

    def take_distinct(self, call: AggregateCall, node: exp.Expression) -> Distinct:
        """Return what COUNT(DISTINCT node) reads."""

    def take_condition(self, call: AggregateCall, node: exp.Expression | None) -> Source:
        """Return the source of an aggregate that reads whether the condition ``node`` holds."""

    def take_value(self, call: AggregateCall) -> Source:
        """Return the source of an aggregate that reads its argument's values, in whole grid steps."""

    def take_rounded_value(self, call: AggregateCall) -> tuple[Source, int]:
        """Return the source of an order statistic that is drawn by rank: its argument's values, rounded to candidates.

        Also return how many grid steps apart the candidates lie (M4).
        """

    def take_pair(self, call: AggregateCall) -> tuple[Source, Source, Source]:
        """Return the sources of x, of y and of their product, over the rows where neither x nor y is NULL."""

    def measure(self, measure: Measure, source: Source | None = None) -> int:
        """Add a measure to the query and return its index. An equal one over the same source is added only once."""


Reader = Callable[[Collector, AggregateCall], Estimate]


def take_spread(collector: Collector, call: AggregateCall) -> Source:
    """Return the source of an aggregate that reads values. Refuse the aggregate if its bounds allow only one value."""
    source = collector.take_value(call)
    if source.argument.width == 0:
        raise refuse_constant(call)
    return source


def refuse_constant(call: AggregateCall) -> QueryError:
    """Return the error for an aggregate whose bounds allow it a single value only."""
    return QueryError(
        f"{call.label} cannot change: its bounds leave it no room.",
        for_controller("Correct the bounds of its columns in the schema."),
        clause=call.label,
    )
