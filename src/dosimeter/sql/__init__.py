"""Row-wise SQL, without data: check an expression, rewrite it so that no row can make it fail, evaluate it.

Takes parsed SQL and a Schema; gives rebuilt trees. Knows no aggregates. Where a column's values are declared, an
embedded DuckDB, which sees no data, computes an expression for each of them.
"""

from dosimeter.sql.checking import (
    check_condition,
    check_expression,
    check_total,
)
from dosimeter.sql.dates import (
    OF_A_CLOCK,
    PART_NODES,
    PART_VALUES,
    TRUNCATIONS,
    name_to_char,
)
from dosimeter.sql.declared_tests import (
    are_consecutive,
    equals,
    is_declared,
    without_null,
)
from dosimeter.sql.declared_values import (
    distinct_values,
    evaluate_row,
    gives_null,
)
from dosimeter.sql.embedded import (
    MOST_CHARACTERS,
    MOST_ROWS,
    EmbeddedError,
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
    literal,
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
from dosimeter.sql.text_lengths import (
    count_letters,
    drop_cuts,
    is_cut,
    limit_text,
    longest_cell,
    measure_text,
    require_short,
)
from dosimeter.sql.texts import lower_ascii
from dosimeter.sql.trees import (
    alias,
    as_bigint,
    as_double,
    as_text,
    by_truth,
    case,
    clamp,
    column_tree,
    concatenated,
    conjunction,
    connect,
    double,
    flatten_connector,
    group_by_first,
    is_not_null,
    is_null,
    list_conditions,
    listed_text,
    plain_quotient,
    quotient,
    same_keys,
    select_from,
    window,
    wrap,
    write_name,
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
    count_nodes,
    expect_only,
    limit_written,
    note_unlisted,
    refusal,
)
