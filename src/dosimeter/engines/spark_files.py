"""Find the files that Spark is to read, and how: CSV cells as text, Parquet typed. Takes a path, glob or URI.

CSV is read so that it means the same as in DuckDB's engine: quotes are doubled inside quotes, a cell may hold line
breaks, a row with too few or too many cells is an error, and no type is guessed while reading.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import re
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast
from urllib.parse import unquote, urlsplit

from dosimeter.engines.engine import ReadOptions
from dosimeter.engines.identities import identify_files, name_digests
from dosimeter.engines.source_files import Files, find_delimiter, find_kind, list_files, say_how
from dosimeter.errors import DataError, OptionError
from dosimeter.options import check_option
from dosimeter.problems import Option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ENCODINGS = {
    "utf-8": "UTF-8",
    "utf-8-sig": "UTF-8",
    "ascii": "US-ASCII",
    "iso8859-1": "ISO-8859-1",
    "cp1252": "windows-1252",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16LE",
    "utf-16-be": "UTF-16BE",
    "utf-32": "UTF-32",
}


def find_files(source: str) -> Files:
    """Return the files of this machine that a source names; if there are none, the source's name for Spark to look up.

    A URI, such as s3://… or hdfs://…, is never looked up on this machine.
    """
    kind = find_kind(source, "Spark a .csv, .csv.gz or .parquet path, glob or URI, or spark:TABLE")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", source):
        return Files(kind, (source,), local=False)
    files = list_files(source)
    return Files(kind, files) if files else Files(kind, (source,), local=False)


def is_remote(session: SparkSession) -> bool:
    """Return whether this is a session of Spark Connect, whose driver runs elsewhere."""
    return ".connect." in type(session).__module__


def read_parquet(session: SparkSession, files: Files) -> DataFrame:
    return session.read.option("mergeSchema", "true").parquet(*_spark_paths(session, files))


def read_csv(session: SparkSession, files: Files, options: ReadOptions) -> DataFrame:
    """Read a CSV with every cell as text. An empty cell becomes NULL, quoted or not."""
    check_option("delimiter", options.delimiter, optional=True)
    paths = _spark_paths(session, files)
    settings: dict[str, bool | str] = {
        "header": True,
        "inferSchema": False,
        "encoding": _spark_encoding(options.encoding),
        "quote": '"',
        "escape": '"',
        "nullValue": "",
        "emptyValue": "",
        "multiLine": True,
        "mode": "FAILFAST",
        "enforceSchema": False,  # every file's header is compared with the first one's
        "columnPruning": False,  # otherwise a malformed row goes unnoticed when its last columns are not asked for
    }
    reader = session.read.options(**settings)
    if files.local and not is_remote(session):
        # Read here, because Spark takes the file's name for a pattern while it looks for the header.
        delimiter, names = _read_first_line(files.paths[0], options)
        schema = ", ".join(f"`{name.replace('`', '``')}` STRING" for name in names)
        return reader.option("sep", delimiter).schema(schema).csv(paths)
    lines = session.read.text(paths).head(1)
    return reader.option("sep", options.delimiter or find_delimiter(str(lines[0][0]) if lines else "")).csv(paths)


def _spark_paths(session: SparkSession, files: Files) -> list[str]:
    """Return local paths as file: URIs, with glob characters escaped for Hadoop; other paths are unchanged.

    Over Connect all paths are unchanged.
    """
    if not files.local or is_remote(session):
        return list(files.paths)
    return ["file://" + _escape(str(Path(path).absolute())) for path in files.paths]


def _escape(name: str) -> str:
    """Return a name that Hadoop takes literally, and not as a pattern."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", name)


def identify_input(session: SparkSession, frame: DataFrame) -> frozenset[str]:
    """Return the identities of every file that a DataFrame reads; none where it reads no files.

    Files of this machine are digested here, all others where Spark reads them.
    """
    here: list[str] = []
    elsewhere: list[str] = []
    for uri in frame.inputFiles():
        path = urlsplit(uri)
        local = path.scheme in ("", "file") and not is_remote(session) and Path(unquote(path.path)).is_file()
        (here if local else elsewhere).append(unquote(path.path) if local else unquote(uri))
    found = identify_files(here)
    if elsewhere:
        names = [_escape(name) for name in elsewhere]
        rows = session.read.format("binaryFile").load(names).selectExpr("sha2(content, 256) AS digest").toArrow()
        found |= name_digests(str(value) for value in rows.column("digest").to_pylist())
    return found


def _spark_encoding(encoding: str | None) -> str:
    if encoding is None:
        return "UTF-8"
    try:
        known = codecs.lookup(encoding).name
    except (LookupError, ValueError):  # not a name, or one with a NUL
        raise OptionError(f"There is no encoding {encoding}. Common ones: utf-8, latin-1, utf-16.") from None
    if known not in _ENCODINGS:
        raise OptionError(
            f"Spark does not read {encoding}. Convert the file to UTF-8, or leave ", Option("engine", "spark"), " out."
        )
    return _ENCODINGS[known]


def _read_first_line(path: str, options: ReadOptions) -> tuple[str, list[str]]:
    encoding = codecs.lookup(options.encoding or "utf-8").name
    try:
        with Path(path).open("rb") as raw:
            packed = path.lower().endswith(".gz")
            stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if packed else raw
            text = io.TextIOWrapper(stream, encoding="utf-8-sig" if encoding == "utf-8" else encoding, newline="")
            first = text.readline()
            delimiter = options.delimiter or find_delimiter(first)
            names = next(csv.reader(itertools.chain([first], text), delimiter=delimiter), [])
    except (OSError, EOFError, UnicodeError, csv.Error):
        raise DataError(f"{path} cannot be read as CSV. Is it what its name says?", say_how("If so,")) from None
    lowered = [name.lower() for name in names]
    if not names or not all(lowered) or len(set(lowered)) != len(lowered):
        raise DataError(f"{path}: the first line must name every column, and no two alike.")
    return delimiter, names
