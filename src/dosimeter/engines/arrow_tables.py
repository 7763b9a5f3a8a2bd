"""Take over a table in memory: copy it, digest it, make its timestamps readable.

Takes Arrow tables; gives Arrow tables and digests. Knows no engine.
"""

from __future__ import annotations

import hashlib
import io
from typing import Any

import pyarrow as pa


def copy_table(table: pa.Table) -> pa.Table:
    """Return the table in memory of its own.

    An Arrow, pandas or Polars column made from a NumPy array shares its memory: a cell written later would be measured
    under the digest of today's cells. Nothing tells such memory from Arrow's own, and memory that is marked read-only
    can be written to through the array that it is a view of.
    """

    def copy(chunk: pa.Array) -> pa.Array:
        if pa.types.is_dictionary(chunk.type):
            return pa.DictionaryArray.from_arrays(
                copy(chunk.indices), copy(chunk.dictionary), ordered=chunk.type.ordered
            )
        return pa.concat_arrays([chunk, chunk.slice(0, 0)])

    columns = [pa.chunked_array([copy(chunk) for chunk in column.chunks], column.type) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def without_zones(table: pa.Table) -> pa.Table:
    """Return the table with the zone taken off its timestamps in seconds or milliseconds, which are then in UTC.

    DuckDB converts timestamps with a zone to microseconds as it reads them, and fails where 64 bits cannot hold them.
    """
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None and field.type.unit in ("s", "ms"):
            kind = pa.timestamp(field.type.unit)
            chunks = [chunk.view(kind) for chunk in table.column(at).chunks]
            table = table.set_column(at, pa.field(field.name, kind), pa.chunked_array(chunks, kind))
    return table


def digest_table(table: pa.Table) -> str:
    """Return a digest of a table as an Arrow stream: its columns' names and types, and its rows as one chunk.

    The dictionaries of dictionary-encoded columns are part of the stream. The table's metadata are not.
    """
    sink = _HashingSink()
    whole = table.replace_schema_metadata(None).combine_chunks().unify_dictionaries()
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), whole.schema) as writer:
        writer.write_table(whole)
    sink.digest.update(str(whole.num_rows).encode())
    return sink.digest.hexdigest()


class _HashingSink(io.RawIOBase):
    """A stream that keeps only the digest of what is written to it."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return len(data)
