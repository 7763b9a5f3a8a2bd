"""Write a released answer to files: the table, and beside it what a reader of the table needs. Nothing private.

A file that cannot be written loses no answer: the ledger holds it, and gives it again at no charge.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dosimeter.errors import OptionError
from dosimeter.json_values import JsonObject

if TYPE_CHECKING:
    import pyarrow as pa

    from dosimeter.ledger import Entry, Ledger
    from dosimeter.release.order import Answer

ENDINGS = (".csv", ".parquet")
_KEPT = "The answer is released and stands in the ledger: the same request gives it again at no charge."


def find_companion(path: Path) -> Path:
    """Return the file beside a table that says what its numbers are: answer.csv → answer.json."""
    return path.with_suffix(".json")


def check_target(path: Path, endings: Sequence[str] = ENDINGS) -> None:
    """Refuse, before anything is charged, a path without one of the ``endings``, or in a folder that does not exist."""
    if path.suffix.lower() not in endings:
        raise OptionError(f"{path}: an answer is written as {' or '.join(endings)}. Change the ending.")
    for each in (path, find_companion(path)):
        if each.is_dir() or not each.absolute().parent.is_dir():
            raise OptionError(f"{each} cannot be written. Choose a folder that exists and may be written to.")


def describe_release(answer: Answer, entry: Entry, head: str) -> JsonObject:
    """Return everything that an analyst may see of an answer, for readers of its table.

    ε and δ are None where ε was found from the data (G2). ``head``: the digest of the ledger's last record.
    """
    hidden = entry.hides_epsilon
    request = entry.request
    return {
        "query": request.query,
        "schema_digest": request.schema_digest,
        "mechanism": request.mechanism,
        "calibration": request.calibration,
        "delta": float(entry.request.delta) if not hidden else None,
        "software": request.software,
        **answer.describe(),
        "entry": entry.id,
        "released_at": entry.settled_at,
        "head": head,
    }


def save_answer(answer: Answer, ledger: Ledger, path: Path) -> tuple[Path, Path]:
    """Write the table and its companion; return both paths. Refuse an answer that was denied.

    Names and texts are written to the .csv unchanged, even those that a spreadsheet would take for a formula: the file
    is for programs, which must find the same column names in the query, the .json and a .parquet. Whoever writes the
    file knows the query. A .csv that others download from the web has an apostrophe before such texts.
    """
    check_target(path)
    entry = None if answer.entry is None else ledger.entry(answer.entry)
    table = answer.table
    if entry is None or table is None:
        raise OptionError("Only a released answer is written, with the ledger that holds it.")
    document = describe_release(answer, entry, ledger.head())
    beside = find_companion(path)
    write_files({beside: document, path: table}, entry.id)
    return path, beside


def write_files(contents: Mapping[Path, str | JsonObject | pa.Table], mark: str) -> None:
    """Write files, all of them or none: a text, a document as JSON, or a table as the file's ending says.

    ``mark``: a part of the names that the files have until all are written, such as the id of an entry.
    """
    written = {each: each.with_name(f".{each.name}.{mark}") for each in contents}  # no half of a file
    try:
        for each, content in contents.items():
            _write_file(content, written[each], each.suffix.lower())
        for name, whole in written.items():
            whole.replace(name)
    except OSError as error:
        for whole in written.values():
            with suppress(OSError):
                whole.unlink(missing_ok=True)
        why = "The disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "Check the folder"
        raise OptionError(f"{list(contents)[-1]} cannot be written. {why}. {_KEPT}") from None


def _write_file(content: str | JsonObject | pa.Table, path: Path, ending: str) -> None:
    if isinstance(content, dict):
        content = json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        _write_table(content, path, ending)


def _write_table(table: pa.Table, path: Path, ending: str) -> None:
    if ending == ".csv":
        from pyarrow import csv

        csv.write_csv(table, path)
    else:
        from pyarrow import parquet

        parquet.write_table(table, path)
