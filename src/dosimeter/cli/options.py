"""Options that several commands share, and the functions that read their texts."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from dosimeter.errors import OptionError
from dosimeter.options import (
    DeclaredOption,
    LookOptions,
    ReleaseOptions,
    ShownOptions,
    SourceOptions,
    Study,
    read_look,
)
from dosimeter.problems import Option

if TYPE_CHECKING:
    from dosimeter.dataset import Dataset
    from dosimeter.ledger import Verification


PATH = click.Path(path_type=Path)

DATA = click.argument(
    "data",
    metavar="DATA",
    help="A .csv, .csv.gz or .parquet path or glob, a DuckDB file, postgresql://…, or spark:TABLE.",
)
SQL = click.argument("sql", metavar="SQL", help="The analyst's query: text, @query.sql, or - for standard input.")
SCHEMA_FILE = click.option("--schema", metavar="FILE", type=PATH, help="The table's public facts (TOML).")
PLOT = click.option("--plot", metavar="FILE", type=PATH, help="Save the picture: .svg, .png or .html.")
ALL = click.option("--all", "show_all", is_flag=True, help="Show every candidate, not a selection.")
JSON = click.option("--json", is_flag=True, help="One JSON document on standard output.")


class CommandGroup(click.Group):
    """A group that lists its commands in the order in which they are defined."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """Options of a command that become one value: ``make`` takes them by name.

    ``kinds``: the dataclasses of ``dosimeter.options`` that declare them as fields. ``only``: the names of those that
    the command takes; empty for all. ``further``: one more choice of an option and what the help
    says of it, by the option's name.
    """

    make: Callable[..., Any]
    kinds: tuple[type, ...]
    only: tuple[str, ...] = ()
    further: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def list_fields(self) -> list[Field[Any]]:
        """Return the fields that declare the options which the command takes."""
        declared = [each for kind in self.kinds for each in fields(kind) if "option" in each.metadata]
        return [each for each in declared if not self.only or each.name in self.only]

    def add_option(self, command: Callable[..., int], declared: Field[Any]) -> Callable[..., int]:
        """Return the command with one option more."""
        option: DeclaredOption = declared.metadata["option"]
        choice, words = self.further.get(declared.name, ("", ""))
        choices = (*option.choices, choice) if choice else option.choices
        return click.option(
            Option(declared.name).flag, declared.name, default=declared.default, metavar=option.metavar,
            type=click.Choice(choices) if choices else option.kind,
            is_flag=option.kind is bool, help=f"{option.help}{words}",
        )(command)  # fmt: skip


SOURCE = OptionGroup(SourceOptions, (SourceOptions,))
LOOK = OptionGroup(LookOptions, (LookOptions,))
STUDIED = OptionGroup(
    read_look, (LookOptions, Study), further={"groups": ("observed", " For study also observed: all of the data.")}
)
RELEASE = OptionGroup(ReleaseOptions, (ReleaseOptions,))
SHOWN = OptionGroup(ShownOptions, (ShownOptions,))


def takes(**groups: OptionGroup) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator of commands: the options of each group become the one parameter of this name."""

    def take(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def run(**given: Any) -> int:
            for name, group in groups.items():
                given[name] = group.make(**{each.name: given.pop(each.name) for each in group.list_fields()})
            return command(**given)

        taking: Callable[..., int] = run
        for group in reversed(groups.values()):
            for each in reversed(group.list_fields()):
                taking = group.add_option(taking, each)
        return taking

    return take


def require_web() -> None:
    """Refuse to go on where the libraries of the web application are not installed."""
    if importlib.util.find_spec("fastapi") is None or importlib.util.find_spec("uvicorn") is None:
        raise OptionError("The web application is an extra: pip install 'dosimeter[web]'.")


def open_data(data: str, schema: Path | None, source: SourceOptions) -> Dataset:
    """Open DATA as the given options say."""
    from dosimeter.cli.progress import say_meanwhile
    from dosimeter.dataset import Dataset

    with say_meanwhile("Opening the data"):
        return Dataset.open(data, schema=schema, **asdict(source))


def read_sql(text: str) -> str:
    """Return the SQL itself: the text, the content of the file after @, or standard input for - and @-.

    Refuses what cannot be read as text.
    """
    if text in ("-", "@-"):
        return _read_standard_input()
    if not text.startswith("@"):
        return text
    path = Path(text[1:])
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise OptionError(f"There is no file {path}. After @ comes the path of a file that holds the SQL.") from None
    except (OSError, ValueError):
        raise OptionError(f"The file {path} cannot be read as UTF-8 text.") from None


def _read_standard_input() -> str:
    try:
        return sys.stdin.read()
    except (OSError, ValueError, AttributeError):  # closed, not text, or missing
        raise OptionError("Standard input cannot be read as text. Give the SQL as an argument or as @FILE.") from None


def split_list(text: str | None) -> list[str] | None:
    """Return the parts of a comma-separated option, or None when it was not given."""
    return None if text is None else [part.strip() for part in text.split(",")]


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
