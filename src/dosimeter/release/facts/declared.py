"""What is declared before a search for facts, and which facts are searched for (B1). Knows no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from dosimeter.errors import OptionError
from dosimeter.inspection import UNIT_TYPES
from dosimeter.ledger import ZERO, exact_decimal
from dosimeter.measures import MOST_PARTS
from dosimeter.problems import Option
from dosimeter.release.facts.questions import TEXTS, FactSearch
from dosimeter.schema import ColumnType, Schema

MOST_SPENT = 10**9


def declare_facts(schema: Schema, *, unit: str) -> Schema:
    """Return what is declared of a table: everything but what a search is to find.

    ``schema``: of the table's columns and types, or a schema's file. Of one that the controller reviewed, or that was
    found by spending, bounds and values are public and stay; of a draft they came from the data and are left out.
    ``unit``: the column that says whose each row is, or "row".
    """
    if schema.tables and not schema.reviewed:
        raise OptionError(
            f"Facts of joined tables ({', '.join(schema.tables)}) are not searched for, and this schema is a draft. "
            "Replace what came from private data and set reviewed = true; or leave these tables out."
        )
    stays = schema.reviewed is not False
    columns = {
        name: column if stays else replace(column, bounds=None, values=None) for name, column in schema.columns.items()
    }
    if unit != "row":
        if unit not in columns:
            raise OptionError(
                Option("unit", unit), " names no column. It is row, or the column that says whose a row is."
            )
        if columns[unit].type not in UNIT_TYPES:
            raise OptionError(Option("unit", unit), f" is a {columns[unit].type}: it must be an integer or a text.")
        kind = ColumnType.TEXT if columns[unit].type is ColumnType.CATEGORY else columns[unit].type
        columns[unit] = replace(columns[unit], type=kind, bounds=None, values=None, identifying=True)
    row_key = None if unit != schema.unit else schema.row_key
    return replace(
        schema, columns=columns, unit=unit, row_key=row_key, individuals=None, max_rows_per_unit=1, reviewed=True
    )


def plan_search(
    declared: Schema,
    *,
    spend: Decimal | float | str,
    delta: Decimal | float | str | None = None,
    keep: float = 0.95,
    columns: Sequence[str] | None = None,
) -> FactSearch:
    """Return the search for what a schema does not declare yet. Refuses what names no column, or costs δ without any.

    ``spend``, ``delta`` and ``keep``: as in FactSearch. ``columns``: the names of those to search; None for all that
    can be searched: those that declare neither bounds nor values, do not identify people, and are neither the unit nor
    the row key.
    """
    epsilon = exact_decimal(float(exact_decimal(spend, name=Option("spend"))))  # what can be charged as a float
    chance = None if delta is None else exact_decimal(delta, name=Option("delta"))
    if not 0 < epsilon <= MOST_SPENT:
        raise OptionError(Option("spend"), f" must be a positive number, at most {MOST_SPENT:,}.")
    if chance is not None and not 0 < chance < 1:
        raise OptionError(Option("delta"), " must be a number strictly between 0 and 1.")
    if not 0 < keep < 1:
        raise OptionError(Option("keep"), " must be a number strictly between 0 and 1.")
    taken = {declared.unit, declared.row_key}
    possible = {
        name: column
        for name, column in declared.columns.items()
        if name not in taken
        and not column.identifying
        and column.bounds is None
        and column.values is None
        and column.type is not ColumnType.BOOLEAN
    }
    for name in columns or ():
        if name not in possible:
            known = ", ".join(list(possible)[:20]) + (" …" if len(possible) > 20 else "")
            said = (
                f"There is no column {name!r}. "
                if name not in declared.columns
                else f"Nothing is to be found of {name}: it identifies people or says whose a row is, its facts are "
                "declared, or it is true or false. "
            )
            raise OptionError(said, Option("columns"), f" takes: {known}." if known else " has nothing to name.")
    searched = tuple(possible[name] for name in dict.fromkeys(possible if columns is None else columns))
    texts = [column.name for column in searched if column.type in TEXTS]
    if texts and chance is None:
        raise OptionError(
            f"Finding the values of {', '.join(texts[:5])}{' …' if len(texts) > 5 else ''} takes a δ: the chance that "
            "a value which one individual alone has is shown. Give one far below 1/n: ", Option("delta", 1e-9),
            "; or leave these columns out: ", Option("columns", text="LIST"), ".",
        )  # fmt: skip
    kept = Fraction(str(keep)).limit_denominator(MOST_PARTS)
    search = FactSearch(declared, epsilon, chance if texts and chance is not None else ZERO, kept, searched)
    search.check()
    return search
