"""Answer a query on invented rows, with noise as a release draws it, so that its shape can be seen. Nothing is charged.

Takes a prepared release and its schema; gives an Answer. It invents the rows itself and can be handed no data: what
needs no ledger must never meet any.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from dosimeter.engines import ClosableEngine, ReadOptions, open_engine
from dosimeter.errors import OptionError
from dosimeter.influence import DeclaredTables, measure_exactly, read_public_tables
from dosimeter.ledger import exact_decimal
from dosimeter.release.noisy_vector import calibrate_plan
from dosimeter.release.order import Answer, PreparedRelease
from dosimeter.release.run import assemble_noisy, detail_answer
from dosimeter.release.thresholds import draw_numbers
from dosimeter.schema import Schema


def answer_on_invented_rows(prepared: PreparedRelease, schema: Schema, rows: int) -> Answer:
    """Return an answer from so many invented rows of the schema. ``prepared``: of a query by this schema, at a fixed ε.

    One thread does the work, so that whoever limits a process limits this. Raises OptionError if ε is not fixed.
    """
    if prepared.order.way.named_epsilon is None:
        raise OptionError("Invented rows are answered at a fixed ε.")
    epsilon = exact_decimal(prepared.order.way.named_epsilon)
    tables = {name: schema.dummy(rows, table=name) for name in schema.tables}
    options = ReadOptions(schema.table, tables=tables, one_row_each=schema.unit == "row", threads=1)
    with closing(ClosableEngine(open_engine(schema.dummy(rows), "duckdb", options))) as engine:
        engine.impose(schema)
        declared = DeclaredTables(engine, schema)
        asked = replace(prepared, plan=read_public_tables(prepared.plan, declared))
        noise = calibrate_plan(asked.plan, asked.mechanism, epsilon)
        noisy = draw_numbers(asked.plan, measure_exactly(asked.plan, declared, None, late=True), noise)
    found = assemble_noisy(asked, epsilon, [(block.keys, block.values) for block in noisy])
    details = detail_answer(asked, found, epsilon)
    return Answer(
        status="released",
        answer=found.rows,
        epsilon=float(epsilon),
        error_95=found.error_95,
        errors=None if details.errors is None else tuple(details.errors),
        about=tuple(details.about or ()),
        rank_errors=details.rank_errors,
        cut=details.cut,
        clamped=details.clamped,
    )
