"""Find the files that DuckDB is to read, and how. Takes a path or glob and the options; gives the SQL that reads them.

How a CSV is written is found out once, when it is opened. DuckDB's messages can quote cells, so none is passed on.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
from sqlglot import exp

from dosimeter.engines.engine import ReadOptions
from dosimeter.engines.source_files import Files, find_kind, list_files, say_how
from dosimeter.errors import DataError, OptionError
from dosimeter.options import check_option
from dosimeter.problems import CHECK_SCHEMA, Option

# The encodings that DuckDB reads without an extension, by Python's name, which all aliases lead to.
# cp1252 is read as latin-1: DuckDB refuses the bytes in which they differ, and explain_error says so.
_ENCODINGS = {
    "utf-8": "utf-8",
    "utf-8-sig": "utf-8",
    "ascii": "utf-8",
    "iso8859-1": "latin-1",
    "cp1252": "latin-1",
    "utf-16": "utf-16",
}


def is_database(source: str) -> bool:
    """Return whether a path names a DuckDB file: by its ending .duckdb, or by how the file begins."""
    if source.lower().endswith(".duckdb"):
        return True
    path = Path(source)
    try:
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            return stream.read(12)[8:] == b"DUCK"
    except (OSError, ValueError):  # it cannot be read, or its name holds a NUL
        return False


def find_files(source: str) -> Files:
    kind = find_kind(
        source,
        "a .csv, .csv.gz or .parquet file or glob, a DuckDB file, or a database URL: postgresql://user@host/database",
    )
    files = list_files(source)
    if not files:
        raise DataError(f"There is no file {source}.")
    return Files(kind, files)


def quote_text(text: str) -> str:
    return exp.Literal.string(text).sql(dialect="duckdb")


def quote_path(path: str) -> str:
    """Return a file's name as an SQL literal, with pattern characters escaped, since DuckDB reads names as patterns."""
    return quote_text(re.sub(r"([*?\[])", r"[\1]", path))


def quote_identifier(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect="duckdb")


def write_parquet_reader(files: Files) -> str:
    return f"read_parquet([{', '.join(quote_path(path) for path in files.paths)}], union_by_name = true)"


@dataclass(frozen=True, slots=True)
class CsvForm:
    """The form in which a CSV is written. It is found out once, when the CSV is opened, and not guessed again.

    ``columns``: DuckDB's type of each column. ``skipped``: whether DuckDB's sniffer skipped the first lines because
    they do not fit the rest.
    """

    delimiter: str
    columns: Mapping[str, str]
    skipped: bool = False  # whether the first lines do not fit the rest


def sniff_csv(connection: duckdb.DuckDBPyConnection, files: Files, options: ReadOptions) -> CsvForm:
    """Return how the first file is written: its delimiter and columns.

    Columns of further files are matched by position. So a DataError is raised unless every file has the same columns in
    the same order.
    """
    settings = _csv_settings(options) | {"sample_size": "-1"}
    if options.delimiter is not None:
        settings["delim"] = quote_text(options.delimiter)
    form = _sniff_first(connection, files.paths[0], settings, options)
    if len(form.columns) == 1:
        form = _split_header(form, options, files.paths[0])
    settings |= {"delim": quote_text(form.delimiter), "sample_size": "1"}
    for path in files.paths[1:]:
        if list(_sniff_file(connection, path, settings).columns) != list(form.columns):
            raise DataError(f"{path} does not have the same columns, in the same order, as {files.paths[0]}.")
    return form


def _sniff_first(
    connection: duckdb.DuckDBPyConnection, path: str, settings: Mapping[str, str], options: ReadOptions
) -> CsvForm:
    """Return how the first file is written, as DuckDB's sniffer finds it.

    A malformed row can make the sniffer skip lines, or fail although a delimiter was given. Then the columns are those
    that the file's first line names, and the error is left to be raised when the file is read: it names the row's line.
    If the sniffer fails and no delimiter was given, the sniffer's error is raised.
    """
    try:
        form = _sniff_file(connection, path, settings)
    except duckdb.InvalidInputException:
        if options.delimiter is None:
            raise
        return _trust_first_line(path, options.delimiter, options)
    if not form.skipped:
        return form
    return _trust_first_line(path, form.delimiter, options)  # otherwise cells would be names


def _trust_first_line(path: str, delimiter: str, options: ReadOptions) -> CsvForm:
    """Return a form with the columns that the file's first line names, all of them text.

    Raises DataError if the file cannot be read, or if the line names nothing.
    """
    known = _read_encoding(options.encoding or "utf-8")
    opening = gzip.open if path.lower().endswith(".gz") else open
    try:
        with opening(path, "rt", encoding="utf-8-sig" if known == "utf-8" else known, errors="replace") as text:
            names = next(csv.reader(text, delimiter=delimiter), [])
    except (OSError, EOFError, ValueError, csv.Error):
        names = []
    if not names:
        raise DataError(f"{path} cannot be read as CSV. Its first line must name the columns.")
    return CsvForm(delimiter, dict.fromkeys(names, "VARCHAR"))


def _sniff_file(connection: duckdb.DuckDBPyConnection, path: str, settings: Mapping[str, str]) -> CsvForm:
    listed = ", ".join(f"{name} = {value}" for name, value in settings.items())
    found = connection.sql(f"SELECT Delimiter, Columns, SkipRows FROM sniff_csv({quote_path(path)}, {listed})")
    delimiter, columns, skipped = found.fetchall()[0]
    names = {str(column["name"]): str(column["type"]) for column in columns}
    return CsvForm(str(delimiter), names, skipped=bool(skipped))


def _split_header(form: CsvForm, options: ReadOptions, path: str) -> CsvForm:
    """Return a form with the columns that the header line names, where DuckDB's sniffer saw a single one.

    The sniffer sees a single column because of a malformed row, which is then found when the file is read. The form is
    returned unchanged if the header line names just one. Raises OptionError if a delimiter was given and the header
    line shows another.
    """
    (header,) = form.columns
    delimiter = max(",;\t|", key=header.count)
    try:
        names = next(csv.reader([header], delimiter=delimiter), [])
    except csv.Error:  # a line break within the name: it is one name
        return form
    if options.delimiter not in (None, delimiter) and len(names) > 1:
        shown = "tabs" if delimiter == "\t" else repr(delimiter)
        raise OptionError(
            f"{path}, line 1: the columns are separated by {shown}, not by the ",
            Option("delimiter"),
            f" {options.delimiter!r} that was given. Change it, or leave it out.",
        )
    return CsvForm(delimiter, dict.fromkeys(names, "VARCHAR")) if len(names) > 1 else form


def _csv_settings(options: ReadOptions) -> dict[str, str]:
    settings = {"header": "true", "nullstr": quote_text(options.null or ""), "strict_mode": "true"}
    settings |= {"quote": quote_text('"'), "escape": quote_text('"'), "dateformat": quote_text("%Y-%m-%d")}
    check_option("delimiter", options.delimiter, optional=True)
    if options.encoding is not None:
        settings["encoding"] = quote_text(_read_encoding(options.encoding))
    return settings


def _read_encoding(name: str) -> str:
    """Return DuckDB's name for an encoding, given by any of its aliases. Refuse one that DuckDB does not read."""
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError):  # not a name, or one with a NUL
        known = ""
    if known not in _ENCODINGS:
        raise OptionError(
            Option("encoding", name),
            " is not supported: utf-8, latin-1, cp1252 and utf-16 are. Convert the file to UTF-8, as iconv does.",
        )
    return _ENCODINGS[known]


def write_csv_reader(files: Files, options: ReadOptions, form: CsvForm, kinds: Mapping[str, str]) -> str:
    settings = _csv_settings(options) | {
        "auto_detect": "false",
        "delim": quote_text(form.delimiter),
        "columns": "{" + ", ".join(f"{quote_text(a)}: {quote_text(b)}" for a, b in kinds.items()) + "}",
    }
    listed = ", ".join(quote_path(path) for path in files.paths)
    return f"read_csv([{listed}], {', '.join(f'{name} = {value}' for name, value in settings.items())})"


def explain_error(error: duckdb.Error, path: str, kind: str) -> DataError:
    """Return a DataError for an error of DuckDB, in words of our own: DuckDB's message can quote cells.

    The words depend on the error's class, its line and column, and known phrases. ``kind``: csv, parquet, duckdb or
    table.
    """
    text = str(error)
    line = re.search(r"CSV Error on Line: (\d+)", text)
    if "File is not latin-1 encoded" in text:
        return DataError(
            f"{path} holds letters of Windows (such as € or a long dash) that are not in latin-1. Convert it to UTF-8 "
            "first: iconv -f cp1252 -t utf-8 FILE > NEW."
        )
    column = re.search(r'Error when converting column "([^"\n]{1,64})"', text)
    fields = re.search(r"^Expected Number of Columns: (\d+) Found: (\d+)$", text, flags=re.MULTILINE)
    if line:
        what = "the row is malformed"
        if column:
            what = f"column {column.group(1)} does not have its declared type"
        elif "This file is not utf-8 encoded" in text:
            return DataError(
                f"{path}, line {line.group(1)}: the text is not UTF-8. If the file comes from Windows or from Excel, "
                "read it as ",
                Option("encoding", "cp1252"),
                "; otherwise convert it to UTF-8.",
            )
        elif fields:
            fewer = int(fields.group(2)) < int(fields.group(1))
            what = f"the row has {'fewer' if fewer else 'more'} fields than the header, which has {fields.group(1)}"
        elif "unterminated quote" in text:
            what = "a quote is not closed"
        return DataError(
            f"{path}, line {line.group(1)}: {what}. Correct the file, or the type in the schema.", say_how("Or")
        )
    match error:
        case duckdb.ConversionException() | duckdb.OutOfRangeException():
            return DataError(f"{path}: a value does not have its declared type or range.", CHECK_SCHEMA)
        case duckdb.OutOfMemoryException():
            return DataError(
                f"{path}: not enough memory for this query. Group by fewer values or use a larger machine."
            )
        case duckdb.IOException() | duckdb.PermissionException():
            return DataError(f"{path} cannot be read. Does it exist, and may this user read it?")
        case _:
            named = {"csv": "CSV", "parquet": "Parquet"}.get(kind, "data")
            hints = [say_how("If so,")] if kind == "csv" else []
            return DataError(f"{path} cannot be read as {named}. Is the file what its name says?", *hints)
