"""Queries drawn from a grammar of the accepted SQL: conditions, CASE, arithmetic, date parts, groups, joins, FILTER.

It gives text alone. Most of it is accepted; what the planner refuses is counted by the test that draws.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta

from tests.conformance.odd_cases import Case

FIRST = date(2021, 1, 4)
PARTS = ("YEAR", "QUARTER", "MONTH", "DAY", "ISODOW")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


@dataclass
class Grammar:
    """Draws queries over the odd columns that a case declares, and the table that it joins."""

    chance: random.Random
    case: Case
    joined: bool = field(default=False, init=False)

    def columns(self, *kinds: str) -> tuple[str, ...]:
        """Return the odd columns of these kinds, and small whole numbers beside them."""
        found = [f"t.{column.name}" for column in self.case.declared if column.kind in kinds]
        return (*found, "t.z") if "integer" in kinds else tuple(found)

    def time(self) -> str:
        return self.pick(*self.columns("date", "timestamp"))

    # ------------------------------------------------------------ small draws

    def pick(self, *options: str) -> str:
        return self.chance.choice(options)

    def one_of(self, *options: Callable[[int], str], depth: int) -> str:
        return self.chance.choice(options)(depth)

    def day(self) -> str:
        drawn = FIRST + timedelta(days=self.chance.randrange(-3, 45))
        return f"DATE '{self.chance.choice([drawn.isoformat(), '0001-01-01', '9999-12-31', drawn.isoformat()])}'"

    def moment(self) -> str:
        drawn = FIRST + timedelta(days=self.chance.randrange(-3, 45))
        return f"TIMESTAMP '{drawn.isoformat()} {self.pick('00:00:00', '12:30:00', '23:59:59.999999')}'"

    def number(self) -> str:
        return self.pick("0", "1", "2", "3", "7", "0.25", "1.5", "-1", "-2.5", "100", "1e6")

    # ------------------------------------------------------------ row-wise expressions

    def integer(self, depth: int) -> str:
        """Return a whole number of a row, for // and %."""
        if depth <= 0:
            return self.pick(*self.columns("integer"), "2", "3", "5", *self._joined_integers())
        inner = self.integer
        return self.one_of(
            inner,
            lambda d: f"({inner(d - 1)} {self.pick('+', '-', '*')} {inner(d - 1)})",
            lambda d: f"({inner(d - 1)} {self.pick('//', '%')} {inner(d - 1)})",
            lambda d: f"EXTRACT({self.pick(*PARTS)} FROM {self.time()})",
            lambda d: f"ABS({inner(d - 1)})",
            depth=depth - 1,
        )

    def value(self, depth: int) -> str:
        """Return a number of a row, in arithmetic that only conditions may hold."""
        if depth <= 0:
            return self.pick(*self.columns("integer", "decimal"), self.number(), *self._joined_integers())
        inner = self.value
        return self.one_of(
            inner,
            lambda d: f"({inner(d - 1)} {self.pick('+', '-', '*', '/')} {inner(d - 1)})",
            lambda d: f"{self.pick('ABS', 'FLOOR', 'CEIL')}({inner(d - 1)})",
            lambda d: f"COALESCE({inner(d - 1)}, {inner(d - 1)})",
            lambda d: f"CASE WHEN {self.condition(d - 1)} THEN {inner(d - 1)} ELSE {inner(d - 1)} END",
            lambda d: self.integer(d),
            lambda d: f"EXTRACT(HOUR FROM {self.pick(*self.columns('timestamp'))}) + {inner(d - 1)}",
            depth=depth - 1,
        )

    def condition(self, depth: int) -> str:
        if depth <= 0:
            return self._plain_condition()
        inner = self.condition
        return self.one_of(
            inner,
            inner,
            lambda d: f"NOT ({inner(d - 1)})",
            lambda d: f"({inner(d - 1)} {self.pick('AND', 'OR')} {inner(d - 1)})",
            lambda d: f"{self.value(d)} {self.pick(*COMPARISONS)} {self.value(d)}",
            lambda d: f"{self.value(d)} {self.pick('', 'NOT ')}BETWEEN {self.value(0)} AND {self.value(0)}",
            lambda d: f"({inner(d - 1)}) IS {self.pick('', 'NOT ')}NULL",
            depth=depth - 1,
        )

    def _plain_condition(self) -> str:
        kind = self.pick("integer", "decimal", "date", "timestamp")
        column = self.pick(*self.columns(kind))
        literal = {"date": self.day, "timestamp": self.moment}.get(kind, self.number)
        options: list[Callable[[], str]] = [
            lambda: f"{column} {self.pick(*COMPARISONS)} {literal()}",
            lambda: f"NOT {column} {self.pick(*COMPARISONS)} {literal()}",
            lambda: f"{column} {self.pick('', 'NOT ')}IN ({literal()}, {literal()})",
            lambda: f"{column} {self.pick('', 'NOT ')}BETWEEN {literal()} AND {literal()}",
            lambda: f"{column} IS {self.pick('', 'NOT ')}NULL",
            lambda: f"{column} {self.pick('=', '<>')} {column}",
            lambda: self.flag(),
            lambda: self.pick("t.grp = 'a'", "t.grp <> 'b'", "t.grp IS NULL", "t.who LIKE '%a%'"),
            lambda: (
                f"DATE_TRUNC('{self.pick('year', 'month', 'week', 'day')}', {self.time()}) "
                f"{self.pick(*COMPARISONS)} {self.day()}"
            ),
            lambda: (
                f"EXTRACT({self.pick(*PARTS)} FROM {self.time()}) "
                f"{self.pick(*COMPARISONS)} {self.pick('1', '2', '5', '2021')}"
            ),
        ]
        return self.chance.choice(options)()

    def _joined_integers(self) -> tuple[str, ...]:
        columns = {"sites": "sites.beds", "rates": "rates.tier", "labs": "labs.points"}
        return (columns[self.case.join],) if self.joined else ()

    def flag(self) -> str:
        """Return a condition on truth values, of which CSV files alone hold odd ones."""
        known = self.columns("boolean")
        column = self.pick(*known) if known else "(t.z > 4)"
        return self.pick(column, f"NOT {column}", f"{column} IS NULL", f"{column} = TRUE")

    # ------------------------------------------------------------ aggregates and groups

    def term(self, depth: int) -> str:
        """Return what may stand inside SUM: with bounds, and on a grid."""
        if depth <= 0:
            return self.pick(*self.columns("integer", "decimal"), *self._joined_integers())
        inner = self.term
        return self.one_of(
            inner,
            inner,
            lambda d: f"({inner(d - 1)} {self.pick('+', '-', '*')} {inner(d - 1)})",
            lambda d: f"({inner(d - 1)} {self.pick('+', '*')} {self.pick('2', '0.5')})",
            lambda d: f"ABS({inner(d - 1)})",
            lambda d: f"COALESCE({inner(d - 1)}, {self.pick('0', '1.5')})",
            lambda d: f"CASE WHEN {self.condition(d)} THEN {inner(d - 1)} {self.pick('', 'ELSE 1')} END",
            lambda d: f"EXTRACT({self.pick(*PARTS)} FROM {self.time()})",
            depth=depth - 1,
        )

    def aggregate(self) -> str:
        term, counted = self.term(self.chance.randrange(3)), self.columns("integer", "decimal", "date", "timestamp")
        written = self.pick(
            "COUNT(*)",
            f"COUNT({self.pick(*counted, *self.columns('boolean'), 't.grp')})",
            f"COUNT(DISTINCT {self.pick(*counted, 't.who', 't.z % 3')})",
            *(f"{name}({term})" for name in ("SUM", "SUM", "AVG", "VAR_POP", "STDDEV_POP", "MIN", "MAX", "MEDIAN")),
            f"QUANTILE_CONT({term}, {self.pick('0.1', '0.25', '0.9')})",
        )
        if self.chance.random() < 0.3:
            written += f" FILTER (WHERE {self.condition(1)})"
        return written

    def group(self) -> str:
        whole = self.pick(*self.columns("integer"))
        return self.pick(
            "t.grp",
            *self.columns("boolean"),
            whole,
            f"{whole} {self.pick('//', '%')} {self.pick('2', '3')}",
            f"EXTRACT({self.pick(*PARTS)} FROM {self.time()})",
            f"EXTRACT(HOUR FROM {self.pick(*self.columns('timestamp'))})",
            f"DATE_TRUNC('{self.pick('month', 'week')}', {self.time()})",
            *self.columns("date"),
            f"CASE WHEN {self.condition(0)} THEN 'yes' WHEN {self.condition(0)} THEN 'no' END",
            f"({self.condition(0)})",
            "COALESCE(t.grp, 'none')",
            f"{self.pick(*self.columns('decimal'))} IS NULL",
        )

    # ------------------------------------------------------------ the whole

    def query(self) -> str:
        self.joined = self.case.join != "none" and self.chance.random() < 0.5
        joins = self.case.join_clause(self.pick("JOIN", "LEFT JOIN")) if self.joined else ""
        groups = list(dict.fromkeys(self.group() for _ in range(self.chance.choice([0, 0, 1, 1, 1, 2]))))
        named = [
            f"{sql} AS a{at}" for at, sql in enumerate(self.aggregate() for _ in range(self.chance.choice([1, 1, 2])))
        ]
        where = f" WHERE {self.condition(self.chance.randrange(3))}" if self.chance.random() < 0.75 else ""
        by = f" GROUP BY {', '.join(groups)}" if groups else ""
        after = self.pick("", "", "", " HAVING a0 > 1", " ORDER BY a0 DESC LIMIT 2") if groups else ""
        source = "t"
        if not joins and self.chance.random() < 0.1:
            source = f"(SELECT * FROM t WHERE {self.condition(1)}) AS t"
        return f"SELECT {', '.join([*groups, *named])} FROM {source}{joins}{where}{by}{after}"
