"""Queries drawn from a grammar of the accepted SQL: conditions, CASE, arithmetic, date parts, groups, joins, FILTER.

It gives text alone. Most of it is accepted; what the planner refuses is counted by the test that draws.
"""

from __future__ import annotations

import random
import re
from datetime import date, timedelta

from tests.conformance.odd_cases import Case

DAYS = tuple((date(2021, 1, 1) + timedelta(days=day)).isoformat() for day in range(48))
JOINED = {"sites": ["sites.beds"], "rates": ["rates.tier"], "labs": ["labs.points"]}
KINDS = ("integer", "decimal", "date", "timestamp", "boolean")

# What each symbol may become. A symbol in braces is drawn in turn, and what nests has also a leaf, where it ends.
FORMS: dict[str, list[str]] = {
    "day": ["DATE '{a day}'", "DATE '{a day}'", "DATE '0001-01-01'", "DATE '9999-12-31'"],
    "a day": [*DAYS],
    "moment": [f"TIMESTAMP '{{a day}} {clock}'" for clock in ("00:00:00", "12:30:00", "23:59:59.999999")],
    "number": ["0", "1", "2", "3", "7", "0.25", "1.5", "-1", "-2.5", "100", "1e6"],
    "not": ["", "NOT "],
    "is": ["=", "<>", "<", "<=", ">", ">="],
    "part": ["YEAR", "QUARTER", "MONTH", "DAY", "ISODOW"],
    "time": ["{date}", "{timestamp}"],
    # A number of a row, in arithmetic that only conditions may hold; for // and % a whole one.
    "whole": [
        "({whole} + {whole})", "({whole} - {whole})", "({whole} * {whole})", "({whole} // {whole})",
        "({whole} % {whole})", "EXTRACT({part} FROM {time})", "ABS({whole})", "{whole}",
    ],
    "whole leaf": ["{integer}", "{integer}", "2", "3", "5"],
    "value": [
        "({value} + {value})", "({value} - {value})", "({value} * {value})", "({value} / {value})", "ABS({value})",
        "FLOOR({value})", "CEIL({value})", "COALESCE({value}, {value})", "{whole}", "{value}",
        "CASE WHEN {condition} THEN {value} ELSE {value} END", "EXTRACT(HOUR FROM {timestamp}) + {value}",
    ],
    "value leaf": ["{integer}", "{decimal}", "{number}"],
    "condition": [
        "{condition}", "NOT ({condition})", "({condition} AND {condition})", "({condition} OR {condition})",
        "{value} {is} {value}", "{value} {not}BETWEEN {value leaf} AND {value leaf}", "({condition}) IS {not}NULL",
    ],
    "condition leaf": [
        *(
            form.format(v=f"{{{column}}}", x=f"{{{literal}}}")
            for column, literal in zip(KINDS[:4], ("number", "number", "day", "moment"), strict=True)
            for form in (
                "{v} {{is}} {x}", "NOT {v} {{is}} {x}", "{v} {{not}}IN ({x}, {x})", "{v} {{not}}BETWEEN {x} AND {x}",
                "{v} IS {{not}}NULL", "{v} = {v}", "{v} <> {v}",
            )
        ),
        "{boolean}", "NOT {boolean}", "{boolean} IS NULL", "{boolean} = TRUE",
        "t.grp = 'a'", "t.grp <> 'b'", "t.grp IS NULL", "t.who LIKE '%a%'",
        *(f"DATE_TRUNC('{unit}', {{time}}) {{is}} {{day}}" for unit in ("year", "month", "week", "day")),
        *(f"EXTRACT({{part}} FROM {{time}}) {{is}} {number}" for number in (1, 2, 5, 2021)),
    ],
    # What may stand inside SUM: with bounds, and on a grid.
    "term": [
        "{term}", "({term} + {term})", "({term} - {term})", "({term} * {term})", "({term} + 0.5)", "({term} * 2)",
        "ABS({term})", "COALESCE({term}, 1.5)", "CASE WHEN {condition} THEN {term} END",
        "CASE WHEN {condition} THEN {term} ELSE 1 END", "EXTRACT({part} FROM {time})",
    ],
    "term leaf": ["{integer}", "{decimal}"],
    "aggregate": [
        "COUNT(*)", "COUNT({any})", "COUNT(DISTINCT {any})", "COUNT(DISTINCT t.z % 3)",
        *(f"{name}({{term}})" for name in ("SUM", "SUM", "AVG", "VAR_POP", "STDDEV_POP", "MIN", "MAX", "MEDIAN")),
        *(f"QUANTILE_CONT({{term}}, {fraction})" for fraction in ("0.1", "0.25", "0.9")),
    ],
    "any": [*(f"{{{kind}}}" for kind in KINDS[:4]), "t.grp", "t.who"],
    "group": [
        "t.grp", "{boolean}", "{integer}", "{integer} // 2", "{integer} % 3", "EXTRACT({part} FROM {time})",
        "EXTRACT(HOUR FROM {timestamp})", "DATE_TRUNC('month', {time})", "DATE_TRUNC('week', {time})", "{date}",
        "CASE WHEN {condition leaf} THEN 'yes' WHEN {condition leaf} THEN 'no' END", "({condition leaf})",
        "COALESCE(t.grp, 'none')", "{decimal} IS NULL",
    ],
}  # fmt: skip


class Grammar:
    """Draws queries over the odd columns that a case declares, and the table that it joins."""

    def __init__(self, chance: random.Random, case: Case) -> None:
        self.chance, self.case = chance, case
        self.columns = {kind: [f"t.{each.name}" for each in case.declared if each.kind == kind] for kind in KINDS}
        self.columns["integer"].append("t.z")
        self.columns["boolean"] = self.columns["boolean"] or ["(t.z > 4)"]  # files of text alone hold odd ones

    def draw(self, symbol: str, depth: int, more: tuple[str, ...] = ()) -> str:
        """Draw a form of a symbol, and of what it holds, nested so deeply; ``more``: columns of a joined table."""
        if f"{symbol} leaf" in FORMS and depth <= 0:
            symbol += " leaf"
        known = [*self.columns[symbol], *(more if symbol == "integer" else ())] if symbol in self.columns else None
        form = self.chance.choice(known or FORMS[symbol])
        return re.sub(r"\{([a-z ]+)\}", lambda found: self.draw(found[1], depth - 1, more), form)

    def query(self) -> str:
        chance = self.chance
        joined = self.case.join != "none" and chance.random() < 0.5
        source = f"t{self.case.join_clause(chance.choice(['JOIN', 'LEFT JOIN']))}" if joined else "t"
        more = tuple(JOINED[self.case.join]) if joined else ()
        groups = list(dict.fromkeys(self.draw("group", 1) for _ in range(chance.choice([0, 0, 1, 1, 1, 2]))))
        named = []
        for at in range(chance.choice([1, 1, 2])):
            tested = f" FILTER (WHERE {self.draw('condition', 1, more)})" if chance.random() < 0.3 else ""
            named.append(f"{self.draw('aggregate', 1 + chance.randrange(3), more)}{tested} AS a{at}")
        where = f" WHERE {self.draw('condition', chance.randrange(3), more)}" if chance.random() < 0.75 else ""
        by = f" GROUP BY {', '.join(groups)}" if groups else ""
        after = chance.choice(["", "", "", " HAVING a0 > 1", " ORDER BY a0 DESC LIMIT 2"]) if groups else ""
        if not joined and chance.random() < 0.1:
            source = f"(SELECT * FROM t WHERE {self.draw('condition', 1)}) AS t"
        return f"SELECT {', '.join([*groups, *named])} FROM {source}{where}{by}{after}"
