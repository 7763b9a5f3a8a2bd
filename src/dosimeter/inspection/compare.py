"""Compare a schema with the data it is to describe: counts of what disagrees, never cells. For the controller.

A *finding* is something to correct in the schema or the data. A *remark* is something to know: the schema may be right
all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from dosimeter.engines import Engine
from dosimeter.errors import DataError, SchemaError
from dosimeter.influence import count_alike, count_rows_each, find_facts, require_unique
from dosimeter.inspection.draft import count_each, describe_odd_cells, is_rounded
from dosimeter.inspection.row_owners import find_overlooked_owner, warn_of_owner, word_cut
from dosimeter.problems import Problem, Surface
from dosimeter.schema import Column, ColumnType, JoinTable, Schema, unit_schema
from dosimeter.sql import column_tree, literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which data and schema disagree: something to correct. Private; holds counts, never cells.

    ``column``: the name of the column; None if it is not about a single one. ``stated``: the disagreement, to be worded
    for the terminal, Python or the web.
    """

    column: str | None
    stated: Problem

    @property
    def problem(self) -> str:
        """Return what disagrees, worded for Python."""
        return self.stated.word(Surface.PYTHON)


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about the data that a controller should know and that need not be wrong. Holds counts, never cells.

    ``column``: the name of the column; None if it is not about a single one.
    """

    column: str | None
    remark: str


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """What the comparison of a schema with the data found.

    ``findings``: things to correct. ``remarks``: things to know. ``odd_cells``: the number of cells that count as NULL
    (N4), by column, for columns that have any.
    """

    findings: tuple[Finding, ...]
    remarks: tuple[Remark, ...]
    odd_cells: Mapping[str, int]

    @property
    def agrees(self) -> bool:
        """Return whether there is no finding: nothing has to be corrected."""
        return not self.findings


@dataclass(slots=True)
class _Found:
    """The findings, remarks and odd cells so far, while the tables are compared one after the other."""

    findings: list[Finding] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    odd_cells: dict[str, int] = field(default_factory=dict)

    def remark(self, words: str, column: str | None = None) -> None:
        self.remarks.append(Remark(column, words))


def check_schema(engine: Engine, schema: Schema) -> SchemaCheck:
    """Compare the schema with the data: bounds and lists, individuals and their rows, odd cells, and joined tables.

    From then on the engine reads by this schema. Raises DataError where the data cannot be read by it at all.
    """
    engine.impose(schema)
    relation = engine.relation()
    found = _Found()
    rows, findings = _compare_columns(engine, relation, schema.columns, "")
    if schema.unit == "row":
        found.findings += _compare_people(rows, schema.individuals)
        owner = find_overlooked_owner(engine, schema)
        if owner is not None:
            found.remark(warn_of_owner(owner).removesuffix("."))
    else:
        _compare_units(engine, schema, relation, found)
    found.findings += findings
    _count_odd_cells(engine, schema.columns, None, found)
    _count_missing(engine, relation, schema, found)
    for table in schema.tables.values():
        _check_joined(engine, schema, table, found)
    return SchemaCheck(tuple(found.findings), tuple(found.remarks), found.odd_cells)


def _check_joined(engine: Engine, schema: Schema, table: JoinTable, found: _Found) -> None:
    try:
        relation = engine.joined(table)
        found.findings += _compare_columns(engine, relation, table.columns, f"{table.name}.")[1]
        if table.public or table.unit is None:
            require_unique(engine, table, relation)
        else:
            _compare_units(engine, unit_schema(table, table.unit, schema), relation, found)
        _count_odd_cells(engine, table.columns, table, found)
    except (DataError, SchemaError) as error:
        found.findings.append(Finding(None, error.problem))


def _count_odd_cells(engine: Engine, columns: Mapping[str, Column], table: JoinTable | None, found: _Found) -> None:
    """Add the number of odd cells of each column to ``found``, and a remark: they count as NULL, which may be right.

    ``table``: the joined table that holds the columns; None for the main table.
    """
    prefix = "" if table is None else f"{table.name}."
    for name, count in engine.count_odd_cells(list(columns), table).items():
        if count:
            found.odd_cells[f"{prefix}{name}"] = count
            found.remark(describe_odd_cells(columns[name].type, count), f"{prefix}{name}")


def _count_missing(engine: Engine, relation: exp.Expression, schema: Schema, found: _Found) -> None:
    """Add a remark for each category or TRUE/FALSE column that holds NULL: GROUP BY leaves such rows out (C8).

    Add none for columns that identify people, or for which the schema declares NULL as a group.
    """
    grouped = (ColumnType.CATEGORY, ColumnType.BOOLEAN)
    names = [
        name for name, each in schema.columns.items() if each.type in grouped and not (each.nulls or each.identifying)
    ]
    missing = count_each(engine, relation, [exp.Is(this=column_tree(name), expression=exp.Null()) for name in names])
    for name, count in zip(names, missing, strict=True):
        if count:
            found.remark(f"NULL in {count:,} rows, which GROUP BY leaves out; nulls = true makes NULL a group", name)


def _compare_columns(
    engine: Engine, relation: exp.Expression, columns: Mapping[str, Column], prefix: str
) -> tuple[int, list[Finding]]:
    """Return the number of rows, and a finding for each column with values that its declaration excludes.

    ``prefix``: what stands before the columns' names in findings, such as the name of a joined table.
    """
    tests = [(column.name, problem, test) for column in columns.values() for problem, test in _tests(column)]
    rows, *counts = count_each(engine, relation, [exp.true(), *(test for _, _, test in tests)])
    findings = [
        Finding(f"{prefix}{name}", Problem(f"{problem}: {count:,}"))
        for (name, problem, _), count in zip(tests, counts, strict=True)
        if count
    ]
    return rows, findings


def _compare_units(engine: Engine, schema: Schema, relation: exp.Expression, found: _Found) -> None:
    """Add to ``found`` how individuals differ from the schema, for a table in which one can have several rows.

    Add a finding if there are more individuals than declared. Add remarks on rows beyond the declared number of rows
    per individual, on rows whose unit is NULL, and on row keys that are NULL or repeated.
    """
    facts = find_facts(engine, schema, relation)
    found.findings += _compare_people(facts.individuals, schema.individuals)
    kept = schema.max_rows_per_unit
    if facts.most_rows > kept:
        cut = word_cut(count_rows_each(engine, schema.unit, relation), kept)
        found.remark(
            f"{schema.table}: individuals have up to {facts.most_rows:,} rows, and max_rows_per_unit keeps "
            f"{kept:,} of each: {cut} do not count"
        )
    if facts.missing:
        found.remark(
            f"{schema.table}: the unit {schema.unit} is NULL in {facts.missing:,} rows: they are nobody's, and do "
            "not count"
        )
    alike = 0 if schema.row_key in (None, schema.unit) else count_alike(engine, schema, relation)
    if alike:
        found.remark(
            f"{schema.table}: the row key {schema.row_key} is NULL or repeated within an individual in {alike:,} "
            "places: such rows are told apart by all their cells"
        )


def _compare_people(counted: int, declared: int | None) -> Iterator[Finding]:
    if declared is not None and counted > declared:
        yield Finding(None, Problem(f"the data holds {counted:,} individuals and the schema declares {declared:,}"))


def _tests(column: Column) -> list[tuple[str, exp.Expression]]:
    value = column_tree(column.name)
    tests: list[tuple[str, exp.Expression]] = []
    if column.bounds is not None:
        low, high = (literal(bound) for bound in column.bounds)
        tests.append(("values below the lower bound", exp.LT(this=value.copy(), expression=low)))
        tests.append(("values above the upper bound", exp.GT(this=value.copy(), expression=high)))
    rounded = is_rounded(column)
    if rounded is not None:
        tests.append(("values that are no multiple of its resolution, and would be rounded", rounded))
    if column.values is not None:
        listed = exp.In(this=value.copy(), expressions=[exp.Literal.string(text) for text in column.values])
        tests.append(("values that are not in its list", exp.Not(this=listed)))
    return tests
