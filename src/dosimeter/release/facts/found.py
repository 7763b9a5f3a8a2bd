"""What a search found: facts as rows of the ledger's answer, the schema that they make, and what they are worth.

The schema is made of the ledger's rows and of what was declared alone, the first time as on every later one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from dosimeter.inspection import draft_decimal
from dosimeter.json_values import JsonRow
from dosimeter.release.facts.entries import FACT_COLUMNS
from dosimeter.release.facts.grids import Ends, bound_days, is_of_days, read_day
from dosimeter.release.facts.questions import FactSearch
from dosimeter.schema import MAX_VALUES, Column, ColumnType, Schema

COMMENT = """Found by spending ε. What is marked with an entry of the ledger was released under differential privacy and
may be shown to anybody; names, types and the unit were declared."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact of a table or of a ``column``, with its ``value`` as text.

    ``kind``: individuals, rows each, low, high, value, or not found.

    ``people``: of an end of the bounds, about how many individuals lie beyond it; of a value, the noisy number of
    individuals who have it; of a column of which nothing was found, how many it would take.
    """

    column: str | None
    kind: str
    value: str | None = None
    people: int | None = None

    def describe(self) -> JsonRow:
        """Return the row of the ledger's answer."""
        return dict(zip(FACT_COLUMNS, (self.column, self.kind, self.value, self.people), strict=True))

    @classmethod
    def read(cls, row: Mapping[str, object]) -> Fact:
        """Return the fact that ``describe`` wrote."""
        column, kind, value, people = (row[name] for name in FACT_COLUMNS)
        return cls(
            None if column is None else str(column),
            str(kind),
            None if value is None else str(value),
            people if isinstance(people, int) else None,
        )


def list_bounds(column: Column, ends: Ends, beyond: int) -> Iterator[Fact]:
    """Yield the two ends of a column's bounds. ``beyond``: about how many individuals lie beyond each."""
    low, high = (read_day(end).isoformat() if is_of_days(column) else format(end, "f") for end in ends)
    yield Fact(column.name, "low", low, beyond)
    yield Fact(column.name, "high", high, beyond)


def list_values(column: Column, shown: Mapping[str, int], people: int, least: int) -> Iterator[Fact]:
    """Yield a category's values; or that nothing was found, if too few have one of them, or if they are too many.

    ``shown``: the noisy number of individuals with each. ``people``: the noisy number of all. ``least``: the fewest
    with which a value is shown.
    """
    if not shown or 2 * sum(shown.values()) < people or len(shown) > MAX_VALUES:
        yield Fact(column.name, "not found", people=least)
        return
    for value, counted in shown.items():
        yield Fact(column.name, "value", value, counted)


def make_schema(search: FactSearch, facts: Sequence[Fact], entry: str) -> Schema:
    """Return the schema of what was declared and what was found. ``entry``: of the ledger, which holds the facts."""
    of_table = {fact.kind: fact.value for fact in facts if fact.column is None}
    columns = {name: _fill(column, facts, entry) for name, column in search.declared.columns.items()}
    rows = of_table.get("rows each")
    return replace(
        search.declared,
        columns=columns,
        individuals=int(of_table["individuals"] or 0),
        max_rows_per_unit=1 if rows is None else int(rows),
        reviewed="released",
        found=entry,
    )


def _fill(column: Column, facts: Sequence[Fact], entry: str) -> Column:
    own = [fact for fact in facts if fact.column == column.name]
    values = tuple(sorted(fact.value for fact in own if fact.kind == "value" and fact.value is not None))
    if values:
        return replace(column, type=ColumnType.CATEGORY, values=values, found=entry)
    ends = {fact.kind: fact.value or "" for fact in own}
    if "low" not in ends:
        as_text = column.type is ColumnType.CATEGORY and column.values is None
        return replace(column, type=ColumnType.TEXT) if as_text else column
    low, high = ends["low"], ends["high"]
    match column.type:
        case ColumnType.DATE | ColumnType.TIMESTAMP:
            days = [Decimal(date.fromisoformat(day).toordinal()) for day in (low, high)]
            return replace(column, bounds=bound_days(column, (days[0], days[1])), found=entry)
        case ColumnType.DECIMAL if column.resolution is None:
            fine = draft_decimal(column.name, float(low), float(high), None)
            return replace(column, bounds=fine.bounds, resolution=fine.resolution, found=entry)
        case _:
            return replace(column, bounds=(Decimal(low), Decimal(high)), found=entry)


def list_remarks(search: FactSearch, facts: Sequence[Fact]) -> list[str]:
    """Return what each fact is worth, in sentences. All of it is public."""
    people = search.declared.words.people
    of_table = {fact.kind: fact.value for fact in facts if fact.column is None}
    remarks = [f"{int(of_table['individuals'] or 0):,} {people} is an upper limit: there are likely fewer."]
    if "rows each" in of_table:
        share, most = f"{100 * float(search.keep):g} %", int(of_table["rows each"] or 0)
        rows, counts = search.declared.words.count_rows(most), "counts" if most == 1 else "count"
        remarks.append(f"About {share} of the {people} have at most {rows}; of each of the others, {rows} {counts}.")
    bounded = [fact for fact in facts if fact.kind == "low"]
    for beyond in dict.fromkeys(fact.people for fact in bounded):
        names = [fact.column for fact in bounded if fact.people == beyond]
        remarks.append(f"{_list(names)}: at most about {beyond:,} {people} lie beyond each bound.")
    missing = [fact for fact in facts if fact.kind == "not found"]
    return [*remarks, *(_tell_missing(search, fact) for fact in missing)]


def _tell_missing(search: FactSearch, fact: Fact) -> str:
    people = search.declared.words.people
    if any(column.name == fact.column for column in search.texts):
        return (
            f"{fact.column}: stays text. Fewer than half of the {people} have a value that about {fact.people:,} or "
            "more of them have."
        )
    return (
        f"{fact.column}: no bounds were found: it takes more than {fact.people:,} {people} with a value, or a larger ε."
    )


def _list(names: Sequence[str | None], most: int = 8) -> str:
    return ", ".join(str(name) for name in names[:most]) + (" …" if len(names) > most else "")


def write_comment(remarks: Sequence[str]) -> str:
    """Return the lines at the top of the file of a schema that was found."""
    return "\n".join([COMMENT, *(f"- {remark}" for remark in remarks)])
