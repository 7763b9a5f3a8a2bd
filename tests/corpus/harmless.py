"""What must hold of every plan over a table of rows."""

from __future__ import annotations

from sqlglot import exp

from dosimeter.influence.rows.row_queries import PEOPLE, answer_query, people_query, profile_query
from dosimeter.planning import QueryPlan

# Functions that engines have and sqlglot has no class for.
OURS = {"LOG10", "LPAD", "MAKE_DATE", "ROUND_EVEN", "TRANSLATE"}
RELATION = exp.Table(this=exp.to_identifier("the relation", quoted=True))


def expect_harmless(plan: QueryPlan) -> None:
    """Only SELECTs over the one relation and its columns, and they can be written out."""
    first, *_, last = plan.schema.columns
    condition = exp.EQ(this=exp.column(first, quoted=True), expression=exp.Literal.number(1))
    trees = [
        profile_query(plan, RELATION),
        profile_query(plan, RELATION, {"x0": exp.column(last, quoted=True)}),
        people_query(plan, RELATION, [first, last], condition, 10),
    ]
    answer = answer_query(plan, RELATION)
    known = {column.lower() for column in plan.schema.columns} | {PEOPLE}
    for tree in trees if answer is None else [*trees, answer]:
        assert list(tree.find_all(exp.Table)) == [RELATION]
        assert not list(tree.find_all(exp.Command, exp.DML, exp.DDL, exp.SetOperation, exp.With))
        assert {node.name for node in tree.find_all(exp.Anonymous)} <= OURS
        assert all(isinstance(node.this, (exp.Table, exp.Subquery)) for node in tree.find_all(exp.From))
        inner = next(each for each in tree.find_all(exp.Select) if isinstance(each.args["from_"].this, exp.Table))
        assert {node.name.lower() for node in tree.find_all(exp.Column) if node.parent_select is inner} <= known
        assert tree.sql(dialect="duckdb")
