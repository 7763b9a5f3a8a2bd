"""Draft a schema of a source that is opened for it, and compare a schema with one."""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa

from dosimeter.engines import ReadOptions
from dosimeter.engines.duckdb import open_duckdb
from dosimeter.inspection import SchemaCheck, check_schema, write_draft
from dosimeter.inspection.written_draft import WrittenDraft
from dosimeter.problems import Surface
from dosimeter.schema import Schema


def draft(
    source: str | pa.Table, options: ReadOptions | None = None, surface: Surface = Surface.PYTHON
) -> WrittenDraft:
    with closing(open_duckdb(source, options)) as engine:
        return write_draft(engine, surface)


def check(source: str | pa.Table, schema: Schema, options: ReadOptions | None = None) -> SchemaCheck:
    with closing(open_duckdb(source, options)) as engine:
        return check_schema(engine, schema)
