"""SQL of one row, without data: check an expression, rewrite it so that no row can make it fail, evaluate it.

Takes parsed SQL and a Schema; gives trees of our own making. Never knows aggregates and never opens a connection.
"""

from dosimeter.sql.evaluation import compile_tree, evaluate
from dosimeter.sql.expressions import (
    COLUMN_TYPES,
    COMPARISONS,
    DATE_PART_NODES,
    DATE_PARTS,
    MAX_NODES,
    NUMERIC,
    Checked,
    Scope,
    Type,
    align_types,
    as_bigint,
    as_double,
    check_condition,
    check_expression,
    clause_of,
    column_tree,
    conjunction,
    disjunction,
    expect_only,
    flatten_connector,
    note_unlisted,
    read_number,
    refusal,
    wrap,
)
from dosimeter.sql.safe_arithmetic import make_total

__all__ = [
    "COLUMN_TYPES",
    "COMPARISONS",
    "DATE_PARTS",
    "DATE_PART_NODES",
    "MAX_NODES",
    "NUMERIC",
    "Checked",
    "Scope",
    "Type",
    "align_types",
    "as_bigint",
    "as_double",
    "check_condition",
    "check_expression",
    "clause_of",
    "column_tree",
    "compile_tree",
    "conjunction",
    "disjunction",
    "evaluate",
    "expect_only",
    "flatten_connector",
    "make_total",
    "note_unlisted",
    "read_number",
    "refusal",
    "wrap",
]
