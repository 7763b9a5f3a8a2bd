"""Write what a command gives: JSON on standard output, and files, whole or not at all and over nothing it reads."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from dosimeter.errors import OptionError

if TYPE_CHECKING:
    from dosimeter.ledger import Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a command reads, as it was given, so that it writes over none of it. ``others``: further files, with names.

    A database that is reached by a URL is no file.
    """

    data: str | None = None
    sql: str = ""
    schema: Path | None = None
    ledger: str | None = None
    others: Sequence[tuple[str, str | Path]] = ()

    def check_apart(self, *paths: Path) -> None:
        """Refuse to write over a file that is read, whatever it is called: by a link or by another path too."""
        for what, given in self._list_files():
            for path in paths:
                if path.samefile(given) if path.exists() and given.exists() else path.resolve() == given.resolve():
                    raise OptionError(
                        f"{path} is {what}, which would be overwritten. Choose another name for what is written."
                    )

    def _list_files(self) -> Iterator[tuple[str, Path]]:
        from dosimeter.engines import list_files
        from dosimeter.schema import load_schema

        tables = () if self.schema is None else load_schema(self.schema).tables.values()
        sources = [(f"the table {table.name}", table.source) for table in tables]
        for what, source in (("the data", self.data), *sources):
            yield from ((what, Path(path)) for path in list_files(re.sub(r"^(duckdb:|file:(//)?)", "", source or "")))
        query = self.sql[1:] if self.sql.startswith("@") else None
        single = (("the schema", self.schema), ("the ledger", self.ledger), ("the query", query), *self.others)
        yield from ((what, Path(path)) for what, path in single if path and "://" not in str(path))


def check_writable(path: Path, kinds: tuple[str, ...] = (), what: str = "", *, inputs: Inputs) -> None:
    """Refuse a folder, a path in a folder that does not exist, and an ending that is not among ``kinds`` (empty: any).

    Refuse one of ``inputs`` too. ``what``: how the message about the ending begins, such as "a
    picture is saved".
    """
    if kinds and path.suffix.lower() not in kinds:
        raise OptionError(f"{path}: {what} as {' or '.join(kinds)}. Change the ending.")
    if path.is_dir():
        raise OptionError(f"{path} is a folder. Name a file in it.")
    if not path.absolute().parent.is_dir():
        raise OptionError(f"{path} cannot be written: there is no folder {path.parent}. Make it, or choose another.")
    inputs.check_apart(path)


def confirm_written(*paths: Path | None) -> None:
    """Say on standard error which files were written. A path that is None was not written."""
    for path in paths:
        if path is not None:
            click.echo(f"Wrote {path}.", err=True)


def unwritable(path: Path, error: OSError | None = None) -> OptionError:
    """Return what to say of a file that cannot be written, by the system's reason: a full disk, or another."""
    if error is not None and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return OptionError(f"{path} cannot be written: the disk is full. Make room, or choose another disk.")
    return OptionError(f"{path} cannot be written. Choose a folder that exists and may be written to.")


def write_to(output: Path | None, write: Callable[[TextIO], object]) -> None:
    """Call ``write`` with a stream that becomes the file ``output``, or with standard output if that is None.

    A file is written wholly or not at all: where that fails, a file of this name stays as it was. Refuses a path that
    cannot be written.
    """
    if output is None:
        write(sys.stdout)
        return
    if output.exists() and not output.is_file():  # a pipe or a device, which nothing can take the place of
        beside = output
    else:
        beside = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        with beside.open("w", encoding="utf-8") as stream:
            if beside is not output and output.exists():
                shutil.copymode(output, beside)
            write(stream)
        if beside is not output:
            beside.replace(output.resolve())
    except BaseException as error:
        if beside is not output:
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise unwritable(output, error) from None
        raise


def write_whole(path: Path, text: str) -> None:
    """Write a text file wholly or not at all: where that fails, a file of this name stays as it was."""
    write_to(path, lambda stream: stream.write(text))


def report_verification(result: Verification, *, as_json: bool) -> int:
    """Print whether a chain of records is intact; return the exit status: 0 if it is, otherwise 1."""
    if as_json:
        print_json(result.describe())
    elif result.first_bad is None:
        click.echo(f"Intact: {result.records} records. Head {result.head}")
    else:
        click.echo(f"Not intact: record {result.first_bad[0]}: {result.first_bad[1]}")
    return 0 if result.intact else 1


def print_json(document: Any) -> None:
    """Print a JSON document as one line on standard output, in ASCII if the terminal's encoding cannot write it."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, allow_nan=False)
    sys.stdout.write(text + "\n")
