"""Find the rows that a plan measures: those of the table that count, computed and joined as the plan says.

A person stage computes columns from each individual's own rows (Q2). It reads only rows that count: of the table
itself, and of every other private table, at most ``max_rows_per_unit`` rows of each individual. Joins read the same
rows, and the key of a joined public table is checked to be unique. So each row belongs to one individual, and nobody
has more rows than the plan's schema says.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sqlglot import exp

from dosimeter.engines import Engine
from dosimeter.errors import SchemaError
from dosimeter.influence.bounded_rows import UNIT, UnitFacts, bound_relation, drop_unowned, find_facts
from dosimeter.influence.rows.row_queries import PEOPLE, count_query
from dosimeter.planning import CUT, Memberships, PersonStage, QueryPlan, joined_relation, joined_rows, person_relation
from dosimeter.schema import JoinTable, Schema, unit_schema
from dosimeter.sql import column_tree, conjunction, is_not_null, literal, select_from

_Found = TypeVar("_Found")
Cut = Callable[[JoinTable | None], exp.Expression]
"""A function that returns the rows of a table that count, for a FROM clause. Called with None for the first table."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of the data: the engine that runs queries over them, and the relation to copy into a query's FROM.

    Valid until the engine's ``generation`` changes. ``everybody``: the table's own rows, where a person stage has
    computed these from them: it may have left out some individuals. ``flags``: the columns that the stage added, if it
    did nothing else to the rows of ``everybody``.
    """

    engine: Engine
    relation: exp.Expression
    everybody: exp.Expression | None = None
    flags: frozenset[str] | None = None


class DeclaredTables:
    """The table of a schema and those declared beside it, each with the rows that count (N6).

    What was found in the data is remembered until they may have changed.
    """

    def __init__(self, engine: Engine, schema: Schema) -> None:
        self.engine = engine
        self._schema = schema
        self._generation = engine.generation
        self._found: dict[Hashable, Any] = {}

    def remember(self, key: Hashable, find: Callable[[], _Found]) -> _Found:
        """Return what ``find`` returns. It is called once for each key, and again when the data may have changed."""
        if self._generation != self.engine.generation:
            self._generation, self._found = self.engine.generation, {}
        if key not in self._found:
            self._found[key] = find()
        found: _Found = self._found[key]
        return found

    def count_people(self) -> int:
        """Return how many individuals the table holds (N5)."""
        if self._schema.unit == "row":
            return self.remember("people", lambda: count_individuals(self.engine))
        return self._find_facts().individuals

    def count_uncounted(self, table: JoinTable | None) -> tuple[int, int, int]:
        """Return how many rows of a private table do not count because they are cut, or nobody's, and of how many."""
        facts = self._find_facts_of(table)
        return (0, 0, self.count_people()) if facts is None else (facts.beyond, facts.missing, facts.rows)

    def most_rows(self, table: JoinTable | None) -> int:
        """Return the most rows that one individual has in a private table."""
        facts = self._find_facts_of(table)
        return 1 if facts is None else facts.most_rows

    def find_rows(self, plan: QueryPlan, *, whole: bool = False) -> Rows:
        """Return the rows that a plan measures: the table's own, or computed from them, or joined, or both.

        ``whole``: all rows of the tables, not only those that count. Raises SchemaError if the key of a joined public
        table is not unique.
        """
        cut = self._read_whole if whole else self.cut
        rows = Rows(self.engine, cut(None))
        if plan.person is not None:
            rows = compute_rows(rows, plan.person, cut)
        rows = join_rows(rows, plan, cut) if plan.joins else rows
        if whole or plan.told is None or "cut" not in plan.told.measured:
            return rows
        return replace(rows, relation=self._flag_cut(rows.relation, plan.told.within))

    def _flag_cut(self, kept: exp.Expression, within: exp.Expression | None) -> exp.Expression:
        """Return the rows that count, with a column that says whether their individual has a cut row (E5).

        Only rows that meet ``within`` are looked at. Some of an individual's were cut if fewer of them count than there
        are.
        """
        if self._find_facts().most_rows <= self._schema.max_rows_per_unit:
            flag = exp.alias_(exp.Boolean(this=False), CUT)
            return select_from(kept.copy(), exp.Star(), flag).subquery("flagged", copy=False)
        unit = column_tree(self._schema.unit)

        def mark(rows: exp.Expression, sign: int) -> exp.Select:
            where = None if within is None else within.copy()
            return select_from(rows, exp.alias_(unit.copy(), UNIT), exp.alias_(literal(sign), "n"), where=where)

        both = exp.Union(this=mark(self.engine.relation(), 1), expression=mark(kept.copy(), -1), distinct=False)
        missing = exp.GT(this=exp.Sum(this=exp.column("n")), expression=exp.Literal.number(0))
        cut = select_from(
            both.subquery("marked", copy=False), exp.column(UNIT), where=is_not_null(exp.column(UNIT)),
            group=[exp.column(UNIT)], having=missing,
        )  # fmt: skip
        columns = [exp.alias_(column_tree(name, "own"), name, quoted=True) for name in self._schema.columns]
        flag = exp.alias_(is_not_null(exp.column(UNIT, table="cut")), CUT)
        same = exp.EQ(this=column_tree(self._schema.unit, "own"), expression=exp.column(UNIT, table="cut"))
        own = select_from(kept.copy(), exp.Star()).subquery("own", copy=False)
        flagged = select_from(own, *columns, flag)
        flagged = flagged.join(cut.subquery("cut", copy=False), on=same, join_type="left", copy=False)
        return flagged.subquery("flagged", copy=False)

    def _read_whole(self, table: JoinTable | None) -> exp.Expression:
        """Return all rows of a table. Of a public table these are the rows that count."""
        if table is None:
            return self.engine.relation()
        return self.cut(table) if table.public or table.unit is None else self.engine.joined(table)

    def cut(self, table: JoinTable | None) -> exp.Expression:
        """Return the rows of a table that count, for a FROM clause; None stands for the first table.

        Of a private table with a unit column these are at most ``max_rows_per_unit`` of each individual. A public table
        keeps all rows; raises SchemaError if its key is not unique.
        """
        if table is not None:
            return self.remember(("cut", table.name), lambda: self._cut_joined(table)).copy()
        if self._schema.unit == "row":
            return self.engine.relation()
        return self.remember("cut", self._cut_first).copy()

    def _cut_first(self) -> exp.Expression:
        relation, facts = self.engine.relation(), self._find_facts()
        if facts.missing:
            relation = drop_unowned(self._schema, relation)
        return bound_relation(self.engine, self._schema, relation, facts)

    def _find_facts(self) -> UnitFacts:
        return self.remember("facts", lambda: find_facts(self.engine, self._schema, self.engine.relation()))

    def _find_facts_of(self, table: JoinTable | None) -> UnitFacts | None:
        """Return the counts of a private table; None where each of its rows is an individual, or if it is public."""
        if table is None:
            return None if self._schema.unit == "row" else self._find_facts()
        if table.public or table.unit is None:
            return None
        schema = unit_schema(table, table.unit, self._schema)
        return self.remember(("facts", table.name), lambda: find_facts(self.engine, schema, self.engine.joined(table)))

    def _cut_joined(self, table: JoinTable) -> exp.Expression:
        relation, facts = self.engine.joined(table), self._find_facts_of(table)
        if facts is None or table.unit is None:
            require_unique(self.engine, table, relation)
            return relation
        return bound_relation(self.engine, unit_schema(table, table.unit, self._schema), relation, facts)


def count_individuals(engine: Engine) -> int:
    """Return how many rows an engine's table has, where each row is an individual."""
    return int(engine.fetch_few(count_query(engine.relation())).column(PEOPLE)[0])


def compute_rows(rows: Rows, stage: PersonStage, cut: Cut) -> Rows:
    """Return the rows that a person stage computes. ``rows``: the table's own."""
    step, read = stage.step, stage.rows
    flags = None
    if isinstance(step, Memberships) and read.table is None and read.stage is None and not read.joins:
        flags = frozenset(name for name, _, _ in step.flags)
    return Rows(rows.engine, person_relation(stage, cut), everybody=rows.relation, flags=flags)


def join_rows(rows: Rows, plan: QueryPlan, cut: Cut) -> Rows:
    """Return the rows joined with the tables of the plan's joins."""
    others = {join.table.name: joined_rows(join.table, cut) for join in plan.joins}
    return Rows(rows.engine, joined_relation(plan.joins, rows.relation, plan.schema, others), rows.everybody)


def keep_everybody(plan: QueryPlan) -> QueryPlan:
    """Return a plan that measures the same with left joins only.

    Rows that an inner join would drop are dropped by the WHERE instead. So everybody has a row to read attributes off:
    a preference's FILTER and ``--by`` are about everybody, whether or not the query reads their rows.
    """
    found = [is_not_null(column_tree(f"{join.table.name}.{join.pairs[0][1]}")) for join in plan.joins if not join.left]

    def only_found(where: exp.Expression | None) -> exp.Expression | None:
        return conjunction([*([] if where is None else [where.copy()]), *(test.copy() for test in found)])

    return replace(
        plan,
        where=only_found(plan.where),
        joins=tuple(replace(join, left=True) for join in plan.joins),
        further=tuple(replace(block, where=only_found(block.where)) for block in plan.further),
    )


def require_unique(engine: Engine, table: JoinTable, relation: exp.Expression) -> None:
    key = column_tree(str(table.key))
    query = exp.select(
        exp.alias_(exp.Count(this=key), "rows_with_key"),
        exp.alias_(exp.Count(this=exp.Distinct(expressions=[key.copy()])), "keys"),
    ).from_(relation.copy(), copy=False)
    row = engine.fetch(query).to_pylist()[0]
    if row["rows_with_key"] != row["keys"]:
        raise not_unique(table)


def not_unique(table: JoinTable) -> SchemaError:
    """Return the error for a public table whose key is not unique. Since it is public, the message reveals nobody."""
    return SchemaError(
        f"[tables.{table.name}] key {table.key} is not unique in its table, so that a join could multiply an "
        "individual's rows. Correct the table or name another key."
    )
