"""The Adult table: the UCI archive's two files, fetched and checked, or a CSV with the same columns.

Gives an Arrow table with the column names the paper's authors used. The data set (Becker and Kohavi, 1996) is public
and licensed CC BY 4.0; it is not part of this package.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dosimeter.errors import DataError, OptionError
from dosimeter.schema import Schema, read_schema

if TYPE_CHECKING:
    import pyarrow as pa

Split = Literal["train", "all"]

ARCHIVE = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
CITATION = "Becker and Kohavi, Adult, UCI Machine Learning Repository, 1996. CC BY 4.0."
INTEGERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
)  # fmt: skip
_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """One file of the archive, unchanged since 1996."""

    name: str
    size: int
    sha256: str


ARCHIVE_FILES = (
    ArchiveFile("adult.data", 3_974_305, "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
    ArchiveFile("adult.test", 2_003_153, "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
)
TRAINING, TEST = ARCHIVE_FILES


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file of the archive that was checked and lies at ``path``. ``fresh``: it was fetched just now."""

    path: Path
    sha256: str
    fresh: bool


def default_folder() -> Path:
    """Return where the data are cached: ``$XDG_CACHE_HOME/dosimeter/adult``, or below ``~/.cache`` without it."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "dosimeter" / "adult"


# ---------------------------------------------------------------- fetching


def fetch_adult(folder: Path, *, source: str = ARCHIVE, files: Sequence[ArchiveFile] = ARCHIVE_FILES) -> list[Fetched]:
    """Fetch the Adult archive's files into ``folder``; return them in the order of ``files``.

    A file that is already there with the right checksum is not fetched again. ``source``: the address of the folder to
    fetch from. ``files``: the name, size and checksum of each file. Raises DataError for a file that cannot be fetched
    or has a wrong checksum, and OptionError for a ``folder`` or ``source`` that cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"{folder} cannot be made: {error.strerror}. Choose another folder with -o.") from None
    return [_fetch_file(folder / wanted.name, wanted, source) for wanted in files]


def _fetch_file(target: Path, wanted: ArchiveFile, source: str) -> Fetched:
    if target.is_file() and _digest(target.read_bytes()) == wanted.sha256:
        return Fetched(target, wanted.sha256, fresh=False)
    address = source.rstrip("/") + "/" + wanted.name
    content = _read_address(address, wanted)
    found = _digest(content)
    if found != wanted.sha256:
        raise DataError(
            f"{address} is not the file of the archive: SHA-256 {found}, expected {wanted.sha256}. "
            "Nothing was kept. Try again, or name another source with --from."
        )
    part = target.with_name(target.name + ".part")
    try:
        part.write_bytes(content)
        part.replace(target)
    except OSError as error:
        raise OptionError(f"{target} cannot be written: {error.strerror}. Choose another folder with -o.") from None
    return Fetched(target, found, fresh=True)


def _read_address(address: str, wanted: ArchiveFile) -> bytes:
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    if not re.match(r"(?:https?|file)://", address):
        raise OptionError("--from must start with https://, http:// or file://.")
    try:
        with urlopen(address, timeout=_TIMEOUT) as reply:
            content: bytes = reply.read(wanted.size + 1)  # a file that is longer is wrong, and is not read to its end
            return content
    except HTTPError as error:
        reason = f"the server answered {error.code}"
    except URLError as error:
        absent = isinstance(error.reason, FileNotFoundError)
        reason = "there is no such file" if absent else "there is no connection"
    except (OSError, HTTPException):
        reason = "the connection broke off"
    raise DataError(
        f"{address} could not be fetched: {reason}. Without a network, bring {wanted.name} over by other means and "
        "name its folder with --data, or use a CSV of Adult with a header line."
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# ---------------------------------------------------------------- reading


def load_adult(data: Path | None = None, *, split: Split = "train") -> pa.Table:
    """Read the Adult table from ``data``: a folder with the archive's files, or one file; by default the cache.

    ``split``: which of the archive's files to read. ``train``: the training file alone, as the authors did; ``all``:
    also the test file, as the paper's text says. It does not matter for a single file. Refuses data that are not there
    or lack a column.
    """
    folder = default_folder() if data is None else data
    if folder.is_file():
        return _read_files([folder])
    names = [TRAINING.name] if split == "train" else [TRAINING.name, TEST.name]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        where = "" if data is None else f" in {data}"
        raise DataError(
            f"The Adult data ({', '.join(missing)}) is not there{where}. Fetch it with: dosimeter paper data. "
            "Or name a folder with the archive's files, or a CSV, with --data."
        )
    return _read_files([folder / name for name in names])


def _read_files(paths: Sequence[Path]) -> pa.Table:
    import pyarrow as pa

    rows: list[list[str]] = []
    for path in paths:
        try:
            with path.open(newline="", encoding="utf-8") as lines:
                rows.extend(_read_rows(lines, path))
        except (OSError, UnicodeDecodeError, csv.Error):
            raise DataError(f"{path} cannot be read as a CSV file in UTF-8.") from None
    if not rows:
        raise DataError(f"{paths[0]} holds no records.")
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    arrays = {name: pa.array(_whole_numbers(name, columns[name])) for name in INTEGERS}
    arrays["income"] = pa.array([label.removesuffix(".") for label in columns["income"]])  # the test file writes >50K.
    return pa.table({name: arrays.get(name, columns[name]) for name in COLUMNS})


def _read_rows(lines: Iterable[str], path: Path) -> Iterator[list[str]]:
    """Yield the cells of each row in the order of COLUMNS.

    A file whose first cell is a number has no header, as in the archive.
    """
    reader = csv.reader(lines, skipinitialspace=True)
    order: list[int] | None = None
    for row in reader:
        if not row or row[0].startswith("|"):  # the archive ends its files with an empty line; |1x3 opens the test file
            continue
        if order is None:
            order = list(range(len(COLUMNS)))
            if not row[0].strip().isdigit():
                order = _read_header(row, path)
                continue
        if len(row) < len(COLUMNS):
            raise DataError(f"{path}, line {reader.line_num}: {len(COLUMNS)} columns were expected.")
        yield [row[place].strip() for place in order]


def _read_header(row: Sequence[str], path: Path) -> list[int]:
    names = [re.sub(r"[-. ]", "_", name.strip().lower()) for name in row]
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise DataError(f"{path} lacks the columns {', '.join(missing)}. Adult has: {', '.join(COLUMNS)}.")
    return [names.index(name) for name in COLUMNS]


def _whole_numbers(name: str, cells: Sequence[str]) -> list[int]:
    try:
        return [int(cell) for cell in cells]
    except ValueError:
        raise DataError(f"The column {name} holds something that is not a whole number.") from None


# ---------------------------------------------------------------- the public facts


def adult_schema(individuals: int) -> Schema:
    """Return the schema that a controller could declare for Adult without seeing the records.

    The archive's description lists the categories, but no bounds. The bounds here are the survey's own: the limits of
    its questions, and the values at which it caps larger ones, such as 99,999 for a capital gain.
    """
    category, integer = "category", "integer"
    work = ["Federal-gov", "Local-gov", "Never-worked", "Private", "Self-emp-inc", "Self-emp-not-inc", "State-gov"]
    marital = ["Divorced", "Married-AF-spouse", "Married-civ-spouse", "Married-spouse-absent", "Never-married"]
    facts = {
        "age": {"type": integer, "bounds": [17, 90]},
        "workclass": {"type": category, "values": [*work, "Without-pay", "?"]},
        "fnlwgt": {"type": integer, "bounds": [0, 1_500_000]},
        "education": {"type": "text"},
        "education_num": {"type": integer, "bounds": [1, 16]},
        "marital_status": {"type": category, "values": [*marital, "Separated", "Widowed"]},
        "occupation": {"type": "text"},
        "relationship": {"type": "text"},
        "race": {"type": category, "values": ["Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White"]},
        "sex": {"type": category, "values": ["Female", "Male"]},
        "capital_gain": {"type": integer, "bounds": [0, 99_999]},
        "capital_loss": {"type": integer, "bounds": [0, 4_500]},
        "hours_per_week": {"type": integer, "bounds": [1, 99]},
        "native_country": {"type": "text"},
        "income": {"type": category, "values": ["<=50K", ">50K"]},
    }
    return read_schema({"table": "adult", "individuals": individuals, "reviewed": True, "columns": facts})
