"""The questions by which a schema's facts are found (B1): ordinary ones, planned on what is declared. Knows no data.

One row of each individual is read, so that everybody counts once in every question but the one about rows. What a later
question asks may depend on what an earlier one released, and on nothing else of the data.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction

from dosimeter.measures import SEARCH_MARGIN
from dosimeter.mechanisms import Laplace
from dosimeter.planning import POWERS, PlanOptions, QueryPlan, plan_query
from dosimeter.release.facts.entries import HEADING
from dosimeter.release.facts.grids import (
    EVEN,
    FIRST_DAY,
    LAST_DAY,
    YEARS,
    Ends,
    bound_days,
    find_step,
    is_of_days,
    read_day,
    round_down,
    round_up,
)
from dosimeter.release.noise import Calibrated, CalibratedSelection
from dosimeter.release.noisy_vector import calibrate_plan
from dosimeter.release.thresholds import find_threshold
from dosimeter.schema import Column, ColumnType, Schema, digest_schema
from dosimeter.sql import quote_name

MECHANISM = Laplace()
"""Counts get its noise; everything else is drawn by rank."""
TEXTS = (ColumnType.CATEGORY, ColumnType.TEXT)
"""The types of columns whose values are searched for."""
MOST_DOUBLINGS = 20
"""The most rows of one individual that are looked for, as a power of two."""
_OF_PEOPLE, _OF_ROWS = Decimal("0.05"), Decimal("0.05")  # shares of ε; the columns have the rest, equally
_OF_COUNT, _OF_FIRST, _OF_SECOND = Decimal("0.1"), Decimal("0.36"), Decimal("0.54")
"""Shares of a column's ε: how many have a value, and both searches. What the second leaves out adds to the first's."""
_SURE = 0.999  # the level of the error that is added to the number of individuals
_PLACES = Decimal("1e-12")
_TWELVE = Context(prec=12, rounding=ROUND_DOWN)
_TWICE = "-- MIN and MAX are sought among powers of ten or years, and once more between what was found."


@dataclass(frozen=True, slots=True)
class FactQuestion:
    """One question of a search: its SQL, the schema and options that it is planned by, and its share of ε."""

    sql: str
    schema: Schema
    epsilon: Decimal
    options: PlanOptions = field(default_factory=PlanOptions)

    @property
    def plan(self) -> QueryPlan:
        return plan_query(self.sql, self.schema, self.options)

    def calibrate(self, plan: QueryPlan) -> tuple[Calibrated | CalibratedSelection, ...]:
        """Return how each measure of its ``plan`` is drawn."""
        return calibrate_plan(plan, MECHANISM, self.epsilon)

    @property
    def error(self) -> int:
        """Return the 99.9 % error of a number of individuals."""
        return math.ceil(MECHANISM.error(MECHANISM.scale(1.0, float(self.epsilon)), 1.0, _SURE))

    @property
    def least(self) -> int:
        """Return T: a value is shown if its noisy number of individuals is at least this (H1)."""
        plan = self.plan
        assert plan.threshold is not None, "values are searched for in thresholded groups"
        return find_threshold(plan.threshold, self.calibrate(plan))


@dataclass(frozen=True, slots=True)
class Worth:
    """What a fact costs and is worth, by what is declared alone. ``column`` is None for a fact of the table.

    ``within``: by how much a number of individuals can be too large. ``beyond``: about how many individuals lie beyond
    either bound. ``needs``: how many individuals it takes, of those with a value, for something to be found.
    """

    fact: str
    epsilon: float
    column: str | None = None
    type: str | None = None
    within: int | None = None
    beyond: int | None = None
    needs: int | None = None

    def word(self, people: str) -> str:
        """Return what it is worth in words. ``people``: what individuals are called."""
        match self.fact:
            case "individuals":
                return f"an upper limit, at most {self.within:,} too large"
            case "rows each":
                return "1, 2, 4, 8 …: how many rows of each count"
            case "bounds":
                return f"more than {self.needs:,} {people}; about {self.beyond:,} lie beyond each bound"
            case _:
                return f"values that about {self.needs:,} {people} have, or more"


@dataclass(frozen=True, slots=True)
class FactSearch:
    """What is to be found of a table, and what it may cost.

    ``declared``: names, types, resolutions, the unit and what else the controller declares, without what is to be
    found. ``spend``: the ε of everything together. ``delta``: the δ of the values of all categories together, 0 if
    there are none. ``keep``: the share of individuals of whom all rows are to count. ``columns``: those to search.
    """

    declared: Schema
    spend: Decimal
    delta: Decimal
    keep: Fraction
    columns: tuple[Column, ...]

    @property
    def numbers(self) -> tuple[Column, ...]:
        """Return the columns whose bounds are searched for."""
        return tuple(column for column in self.columns if column.type not in TEXTS)

    @property
    def texts(self) -> tuple[Column, ...]:
        """Return the columns whose values are searched for."""
        return tuple(column for column in self.columns if column.type in TEXTS)

    @property
    def finds_rows(self) -> bool:
        return self.declared.unit != "row"

    @property
    def digest(self) -> str:
        """Return a digest of all that decides the questions and their shares of ε and δ."""
        numbers = [str(number.normalize()) for number in (self.spend, self.delta)]
        names = [column.name for column in self.columns]
        content = ["facts 1", digest_schema(self.declared), names, *numbers, str(self.keep)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @property
    def text(self) -> str:
        """Return the questions as SQL, for the record."""
        asked = [f"{each.sql};" for each in self.list_first()]
        return HEADING + "\n".join([*asked, *([_TWICE] if self.numbers else [])])

    # ------------------------------------------------------------ the questions

    def list_first(self) -> Iterator[FactQuestion]:
        """Yield the questions that are asked whatever the others release."""
        yield self.people()
        if self.finds_rows:
            yield self.rows_each()
        if self.numbers:
            yield self.counts()
        for column in self.numbers:
            yield self.first(column)
        for column in self.texts:
            yield self.values(column, None)

    def people(self) -> FactQuestion:
        """Return the question for the number of individuals."""
        counted = f"DISTINCT {quote_name(self.declared.unit)}" if self.finds_rows else "*"
        return self._ask(f"COUNT({counted}) AS people", self.declared, self.spend * _OF_PEOPLE)

    def rows_each(self) -> FactQuestion:
        """Return the question for the power of two up to which most individuals' numbers of rows go."""
        powers = " ".join(f"WHEN COUNT(*) <= {2**power} THEN {power}" for power in range(MOST_DOUBLINGS))
        unit, share = quote_name(self.declared.unit), f"{float(self.keep):.6f}"
        name = "power" if self.declared.unit.lower() != "power" else "exponent"
        rows = f"SELECT {unit}, CASE {powers} ELSE {MOST_DOUBLINGS} END AS {name} FROM {self._table} GROUP BY {unit}"
        sql = f"SELECT QUANTILE_CONT({name}, {share}) AS {name} FROM ({rows}) AS people"
        every = replace(self.declared, max_rows_per_unit=2**MOST_DOUBLINGS)
        return FactQuestion(sql, every, _round(self.spend * _OF_ROWS))

    def counts(self) -> FactQuestion:
        """Return the question for how many individuals have a value in each column whose bounds are searched for."""
        counted = ", ".join(f"COUNT({quote_name(column.name)}) AS c{at}" for at, column in enumerate(self.numbers))
        return self._ask(counted, self.declared, self._of_column * _OF_COUNT * len(self.numbers))

    def first(self, column: Column) -> FactQuestion:
        """Return the first search for a column's bounds: numbers among powers of ten, dates among years."""
        if is_of_days(column):
            number = f"EXTRACT(YEAR FROM CAST({quote_name(column.name)} AS DATE))"
            every = replace(column, bounds=bound_days(column, (FIRST_DAY, LAST_DAY)))
            return self._search(number, every, YEARS, _OF_FIRST)
        return self._search(quote_name(column.name), replace(column, bounds=None, resolution=None), EVEN, _OF_FIRST)

    def second(self, column: Column, ends: Ends) -> FactQuestion:
        """Return the second search for a column's bounds, on an even grid between the ends that the first one found."""
        if is_of_days(column):
            start = read_day(ends[0]).isoformat()
            number = f"DATE_DIFF('day', DATE '{start}', CAST({quote_name(column.name)} AS DATE))"
            return self._search(number, replace(column, bounds=bound_days(column, ends)), EVEN, _OF_SECOND)
        step = find_step(column, ends)
        bounds = round_down(ends[0], step), round_up(ends[1], step)
        within = replace(column, bounds=bounds)
        if column.type is ColumnType.DECIMAL or step > 1:
            within = replace(within, type=ColumnType.DECIMAL, resolution=step)
        return self._search(quote_name(column.name), within, EVEN, _OF_SECOND)

    def values(self, column: Column, people: int | None) -> FactQuestion:
        """Return the question for a column's values, and how many individuals have each.

        ``people``: how many there are at most; None before that is known.
        """
        name, chance = quote_name(column.name), float(_TWELVE.divide(self.delta, len(self.texts)))
        schema = replace(self._with(replace(column, type=ColumnType.TEXT, values=None)), individuals=people)
        sql = f"SELECT {name}, COUNT(*) AS people FROM {self._table} GROUP BY {name}"
        options = PlanOptions(groups="thresholded", group_delta=chance)
        return FactQuestion(sql, schema, _round(self._of_column), options)

    def _search(self, number: str, column: Column, candidates: int, share: Decimal) -> FactQuestion:
        wanted = f"MIN({number}) AS low, MAX({number}) AS high"
        asked = self._ask(wanted, self._with(column), self._of_column * share)
        return replace(asked, options=PlanOptions(search=candidates))

    def _ask(self, wanted: str, schema: Schema, epsilon: Decimal) -> FactQuestion:
        return FactQuestion(f"SELECT {wanted} FROM {self._table}", schema, _round(epsilon))

    def _with(self, column: Column) -> Schema:
        return replace(self.declared, columns={**self.declared.columns, column.name: column})

    @property
    def _of_column(self) -> Decimal:
        taken = _OF_PEOPLE + (_OF_ROWS if self.finds_rows else 0)
        return self.spend * (1 - taken) / max(1, len(self.columns))

    @property
    def of_second(self) -> Decimal:
        """Return the ε of a column's second search."""
        return _round(self._of_column * _OF_SECOND)

    @property
    def _table(self) -> str:
        return quote_name(self.declared.table)

    # ------------------------------------------------------------ before anything is charged

    def find_beyond(self, column: Column) -> int:
        """Return t: about how many individuals lie beyond either bound that is found of a column (M5, B2)."""
        first = math.log(YEARS if is_of_days(column) else len(POWERS)) / float(self.first(column).epsilon / 2)
        second = math.log(EVEN) / float(self.of_second / 2)
        return math.ceil(SEARCH_MARGIN * max(first, second))

    def list_worth(self) -> Iterator[Worth]:
        """Yield, for each fact that is to be found, what it costs and what it is worth, by what is declared alone."""
        people = self.people()
        yield Worth("individuals", float(people.epsilon), within=2 * people.error)
        if self.finds_rows:
            yield Worth("rows each", float(self.rows_each().epsilon))
        cost = float(_round(self._of_column))
        for column in self.numbers:
            beyond = self.find_beyond(column)
            yield Worth("bounds", cost, column.name, column.type, beyond=beyond, needs=2 * beyond)
        least = self.values(self.texts[0], None).least if self.texts else None  # all have the same share of ε and δ
        for column in self.texts:
            yield Worth("values", cost, column.name, column.type, needs=least)

    def check(self) -> None:
        """Refuse what cannot be asked, by what is declared alone, so that nothing is refused after the charge."""
        for question in self.list_first():
            question.calibrate(question.plan)
        for column in self.texts[:1]:
            self.values(column, None).least  # noqa: B018 - it refuses a δ that is too large


def _round(epsilon: Decimal) -> Decimal:
    """Return ε rounded down, so that no sum of shares exceeds what is charged."""
    return epsilon.quantize(_PLACES, rounding=ROUND_DOWN)
