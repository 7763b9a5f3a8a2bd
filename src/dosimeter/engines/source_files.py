"""Find the files that a source names. Takes a path, glob or URI; gives the kind of data and the files on this machine.

A source that looks like a database URL is refused here and never quoted: it can hold a password.
"""

from __future__ import annotations

import contextlib
import glob
import gzip
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from dosimeter.errors import OptionError
from dosimeter.problems import Hint, Option, for_controller

_CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
_PARQUET_ENDINGS = (".parquet", ".pq")
_POSTGRES = re.compile(r"postgres(ql)?(\+\w+)?:", re.IGNORECASE)
_PASSWORD = re.compile(r":(?!//)[^@]*@")  # abfss://container@account is an address without a password
_LONGEST_HEADER = 1_000_000  # bytes
_SECRET = re.compile(r"(?i)(^jdbc:|\b(ssl)?(password|passwd|pwd)\s*=)")


@dataclass(frozen=True, slots=True)
class Files:
    """The files to read. ``kind``: csv, parquet or duckdb.

    ``paths``: their paths, or one name that Spark is to look up. ``local``: whether the paths are files of this
    machine, whose bytes can be digested.
    """

    kind: str
    paths: tuple[str, ...]
    local: bool = True


def refuse_database_url(source: str) -> None:
    """Refuse a source that looks like a database URL, or that seems to hold a password and is not a file."""
    named = _POSTGRES.match(source)
    if _SECRET.search(source) is not None and not Path(source).exists():
        raise OptionError(
            "This looks like a connection string. Write it as a database URL: postgresql://user@host/database."
        )
    if named is None and (_PASSWORD.search(source) is None or Path(source).exists()):
        return
    if named is not None and source[named.end() :].startswith("//"):
        raise OptionError(
            "A database URL cannot be named here: the tables that a query joins are in one place. Name a table of the "
            "same database, or a file beside a file."
        )
    raise OptionError(
        "This looks like a database URL. One starts with postgresql://, as in postgresql://user@host/database. No "
        "other source has a password in it."
    )


def find_kind(source: str, readable: str) -> str:
    """Return ``csv`` or ``parquet``, by the source's ending; refuse others.

    ``readable``: the sources that can be read, for the message.
    """
    refuse_database_url(source)
    lowered = source.lower().rstrip("/")
    if lowered.endswith(_PARQUET_ENDINGS):
        return "parquet"
    if lowered.endswith(_CSV_ENDINGS):
        return "csv"
    raise OptionError(f"{source}: the kind of data is unknown. Give {readable}.")


def list_files(source: str) -> tuple[str, ...]:
    """Return the existing files on this machine that a path or glob names, spelled as given."""
    is_pattern = any(mark in source for mark in "*?[") and not Path(source).exists()
    paths = sorted(glob.glob(source, recursive=True)) if is_pattern else [source]  # noqa: PTH207 (absolute patterns)
    return tuple(path for path in paths if Path(path).is_file())


def name_table(path: str) -> str:
    """Return the name for the table of a file: the file's name without its folder and ending."""
    stem = re.split(r"[/\\]", path.rstrip("/"))[-1]
    return re.sub(r"\.(csv|tsv|txt|parquet|pq)(\.gz)?$", "", stem, flags=re.IGNORECASE)


def read_first_line(path: str) -> bytes:
    """Return the first line's bytes; no bytes for a missing or broken file, which raises an error when it is read."""
    opening = gzip.open if path.lower().endswith(".gz") else open
    with contextlib.suppress(OSError, EOFError, zlib.error), opening(path, "rb") as stream:
        return bytes(stream.readline(_LONGEST_HEADER))
    return b""


def find_delimiter(header: str) -> str:
    """Return the most frequent of , ; tab and | in the header, outside quotes."""
    bare = re.sub(r'"[^"]*"', "", header)
    return max(",;\t|", key=bare.count)


def say_how(start: str) -> Hint:
    """Return the hint that there are options to say how a CSV file is written. ``start``: the hint's first words."""
    options = (Option("delimiter"), ", ", Option("encoding"), ", ", Option("decimal"), " and ", Option("null"))
    return for_controller(f"{start} say how it is written with ", *options, ".")
