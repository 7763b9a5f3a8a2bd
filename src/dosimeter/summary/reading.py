"""Read the answer to a summary's query: from its rows and public scales to one row per column. Never sees data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING

from dosimeter.mechanisms import Mechanism
from dosimeter.planning import QueryPlan
from dosimeter.postprocess import Noise
from dosimeter.schema import Column, ColumnType
from dosimeter.summary.values import ColumnSummary, Figure, Summary, read_count
from dosimeter.summary.written_query import OUTPUTS, Asked, find_asked, find_days, name_missing

if TYPE_CHECKING:
    from dosimeter.json_values import JsonRow
    from dosimeter.release import Answer


def read_summary(plan: QueryPlan, mechanism: Mechanism, answer: Answer) -> Summary:
    """Return the summary that an answer holds.

    Args:
        plan: of the query that ``write_summary`` wrote from the plan's schema.
        mechanism: the noise of the answer.
        answer: released, or a denial.
    """
    schema = plan.table_schema
    if answer.answer is None:
        return Summary(schema.table, answer, words=schema.words)
    reader = _Reader(plan, mechanism, answer)
    most = None if schema.unit == "row" else schema.max_rows_per_unit
    return Summary(schema.table, answer, reader.rows, tuple(reader.read()), schema.words, most)


class _Reader:
    """The rows of an answer by column, and the errors of what is computed from them.

    ``rows``: how many rows the table has. ``_difference``: the 95 % error of the difference of two counts.
    """

    def __init__(self, plan: QueryPlan, mechanism: Mechanism, answer: Answer) -> None:
        assert answer.answer is not None
        self._plan, self._epsilon = plan, answer.epsilon
        errors: Sequence[Mapping[str, float | None]] = answer.errors or [{}] * len(answer.answer)
        self._parts: dict[str, list[tuple[JsonRow, Mapping[str, float | None]]]] = {}
        for row, own in zip(answer.answer, errors, strict=True):
            self._parts.setdefault(str(row["column_name"] or ""), []).append((row, own))
        self.rows = _read_figure(*self._parts.pop("")[0], "n")
        self._difference: float | None = None
        if answer.epsilon is not None:
            scale = mechanism.scale(plan.sensitivity(mechanism.norm), answer.epsilon)
            self._difference = Noise.of(plan, mechanism, scale).error(0, 2)  # every count has the same noise (S5)

    def read(self) -> Iterator[ColumnSummary]:
        """Yield the summary of each column, in the order of the answer."""
        columns = self._plan.table_schema.columns
        for block, (name, part) in zip(self._plan.answered[1:], self._parts.items(), strict=True):
            column = columns[name]
            if find_asked(column) is Asked.VALUES:
                yield self._read_values(column, {str(row["value"]): _read_figure(row, own, "n") for row, own in part})
                continue
            ((row, own),) = part
            count = _read_figure(row, own, "n")
            quartiles = []
            ranks = sorted(block.ranks.values(), key=lambda rank: rank.fraction)
            for output, rank in zip(OUTPUTS[-3:], ranks, strict=False):
                error = None if self._epsilon is None else self._plan.rank_error(rank, self._epsilon)
                quartiles.append(_read_quartile(column, row[output], error, rank.fraction, self._least(count)))
            mean = _read_figure(row, own, "mean") if find_asked(column) is Asked.NUMBERS else None
            yield ColumnSummary(column, count, self._subtract(count), mean, tuple(quartiles))

    def _read_values(self, column: Column, found: dict[str, Figure]) -> ColumnSummary:
        missing = found.pop(name_missing(column))
        ordered = sorted(found.items(), key=lambda each: -read_count(each[1]))
        return ColumnSummary(column, self._subtract(missing), missing, values=tuple(ordered))

    def _least(self, count: Figure) -> float:
        """Return how many rows there surely are, but for the 5 %: of declared individuals there are no more."""
        schema = self._plan.table_schema
        most = (schema.individuals or 1) * schema.max_rows_per_unit
        return min(read_count(count) - (count.error or 0.0), most)

    def _subtract(self, part: Figure) -> Figure:
        """Return how many rows are not among these."""
        return Figure(read_count(self.rows) - read_count(part), self._difference)


def _read_figure(row: JsonRow, errors: Mapping[str, float | None], name: str) -> Figure:
    return Figure(row[name], errors.get(name))


def _read_quartile(column: Column, value: object, error: float | None, fraction: Fraction, rows: float) -> Figure:
    """Return a quartile as the column has it; without a value where its error reaches to the end of ``rows`` rows."""
    if not isinstance(value, (int, float)) or (error is not None and error >= min(fraction, 1 - fraction) * rows):
        return Figure(None, error)
    if find_asked(column) is Asked.DAYS:
        first, _ = find_days(column)
        return Figure(str(date.fromisoformat(first) + timedelta(days=round(value))), error)
    return Figure(round(value) if column.type is ColumnType.INTEGER else value, error)
