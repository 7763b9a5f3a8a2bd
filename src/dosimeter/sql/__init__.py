"""Row-wise SQL, without data: check an expression, rewrite it so that no row can make it fail, evaluate it.

Takes parsed SQL and a Schema; gives rebuilt trees. Knows no aggregates. What DuckDB makes of declared values is asked
of an embedded one, which sees no data.
"""

from dosimeter.sql.checking import (
    check_condition,
    check_expression,
)
from dosimeter.sql.dates import (
    OF_A_CLOCK,
    PART_NODES,
    PART_VALUES,
    TRUNCATIONS,
    name_to_char,
)
from dosimeter.sql.declared_values import (
    distinct_values,
    evaluate_row,
)
from dosimeter.sql.embedded import (
    EmbeddedError,
    Table,
    Values,
    compute_embedded,
    run_embedded,
)
from dosimeter.sql.functions import (
    NAMED_FUNCTIONS,
    ROW_FUNCTIONS,
    SUPPORTED,
    is_row_wise,
)
from dosimeter.sql.literals import (
    constant_tree,
    read_number,
)
from dosimeter.sql.safe_arithmetic import (
    HalfEven,
    Log10,
    UnitNumber,
    find_date_part,
    make_total,
    round_places,
)
from dosimeter.sql.trees import (
    alias,
    as_bigint,
    as_double,
    as_text,
    case,
    clamp,
    column_tree,
    concatenated,
    conjunction,
    connect,
    flatten_connector,
    is_there,
    listed_text,
    literal,
    same_keys,
    whole_number,
    window,
    wrap,
)
from dosimeter.sql.types import (
    COLUMN_TYPES,
    COMPARISONS,
    MAX_NODES,
    NUMERIC,
    Checked,
    Scope,
    Type,
    clause_of,
    expect_only,
    note_unlisted,
    refusal,
)

__all__ = [
    "COLUMN_TYPES",
    "COMPARISONS",
    "MAX_NODES",
    "NAMED_FUNCTIONS",
    "NUMERIC",
    "OF_A_CLOCK",
    "PART_NODES",
    "PART_VALUES",
    "ROW_FUNCTIONS",
    "SUPPORTED",
    "TRUNCATIONS",
    "Checked",
    "EmbeddedError",
    "HalfEven",
    "Log10",
    "Scope",
    "Table",
    "Type",
    "UnitNumber",
    "Values",
    "alias",
    "as_bigint",
    "as_double",
    "as_text",
    "case",
    "check_condition",
    "check_expression",
    "clamp",
    "clause_of",
    "column_tree",
    "compute_embedded",
    "concatenated",
    "conjunction",
    "connect",
    "constant_tree",
    "distinct_values",
    "evaluate_row",
    "expect_only",
    "find_date_part",
    "flatten_connector",
    "is_row_wise",
    "is_there",
    "listed_text",
    "literal",
    "make_total",
    "name_to_char",
    "note_unlisted",
    "read_number",
    "refusal",
    "round_places",
    "run_embedded",
    "same_keys",
    "whole_number",
    "window",
    "wrap",
]
