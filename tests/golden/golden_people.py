"""A table of people to plan queries on, and what must hold of every plan."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from sqlglot import exp

from dosimeter.influence.rows.row_queries import PEOPLE, answer_query, people_query, profile_query
from dosimeter.planning.planner import PlanOptions
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.schema.facts import Column, ColumnType, Schema

SEEN = (datetime.fromisoformat("2024-01-01"), datetime.fromisoformat("2024-03-31T12:00:00"))
SCHEMA = Schema(
    table="people",
    individuals=1000,
    columns={
        "age": Column("age", ColumnType.INTEGER, bounds=(Decimal(0), Decimal(100))),
        "visits": Column("visits", ColumnType.INTEGER),
        "pay": Column("pay", ColumnType.DECIMAL, bounds=(Decimal(0), Decimal(250)), resolution=Decimal("0.5")),
        "rate": Column("rate", ColumnType.DECIMAL, bounds=(Decimal(0), Decimal(1))),
        "score": Column("score", ColumnType.DECIMAL),
        "city": Column("city", ColumnType.CATEGORY, values=("Bonn", "Köln")),
        "country": Column("country", ColumnType.CATEGORY),
        "member": Column("member", ColumnType.BOOLEAN),
        "born": Column("born", ColumnType.DATE, bounds=(date(1920, 5, 1), date(1923, 4, 30))),
        "seen": Column("seen", ColumnType.TIMESTAMP, bounds=SEEN),
        "name": Column("name", ColumnType.TEXT, identifying=True),
        "note": Column("note", ColumnType.TEXT),
        "Größe": Column("Größe", ColumnType.INTEGER, bounds=(Decimal(50), Decimal(250))),
        "odd name": Column("odd name", ColumnType.INTEGER, bounds=(Decimal(-1), Decimal(1))),
    },
)


HAND = PlanOptions(sensitivity=2.5)
FLOOR = PlanOptions(min_rows=99)
OURS = {
    "LOG10",
    "LPAD",
    "MAKE_DATE",
    "ROUND_EVEN",
    "TRANSLATE",
}  # functions that engines have and sqlglot has no class for
RELATION = exp.Table(this=exp.to_identifier("the relation", quoted=True))


def expect_harmless(plan: QueryPlan) -> None:
    """Only SELECTs over the one relation, and they can be written out."""
    condition = exp.EQ(this=exp.column("age"), expression=exp.Literal.number(1))
    trees = [
        profile_query(plan, RELATION),
        profile_query(plan, RELATION, {"x0": exp.column("city", quoted=True)}),
        people_query(plan, RELATION, ["age", "odd name"], condition, 10),
    ]
    answer = answer_query(plan, RELATION)
    if answer is not None:
        trees.append(answer)
    for tree in trees:
        tables = list(tree.find_all(exp.Table))
        assert len(tables) == 1
        assert tables[0] == RELATION
        assert not list(tree.find_all(exp.Command, exp.DML, exp.DDL, exp.SetOperation, exp.With))
        assert {node.name for node in tree.find_all(exp.Anonymous)} <= OURS
        sources = [node.this for node in tree.find_all(exp.From)]
        assert all(isinstance(source, (exp.Table, exp.Subquery)) for source in sources)
        columns = {column.lower() for column in SCHEMA.columns} | {PEOPLE}
        assert {
            node.name.lower() for node in tree.find_all(exp.Column) if node.parent_select is innermost(tree)
        } <= columns
        assert tree.sql(dialect="duckdb")


def innermost(tree: exp.Expression) -> exp.Expression:
    return next(select for select in tree.find_all(exp.Select) if isinstance(select.args["from_"].this, exp.Table))
