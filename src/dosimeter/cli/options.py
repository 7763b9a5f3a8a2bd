"""Options that several commands share, and the functions that read their texts."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import Field, asdict, dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


PATH = click.Path(path_type=Path)

DATA = click.argument(
    "data",
    metavar="DATA",
    help="A .csv, .csv.gz or .parquet path or glob, a DuckDB file, postgresql://…, or spark:TABLE.",
)
SQL = click.argument("sql", metavar="SQL", help="The analyst's query: text, @query.sql, or - for standard input.")
_SCHEMA: Mapping[str, Any] = {"metavar": "FILE", "type": PATH, "help": "The table's public facts (TOML)."}
SCHEMA_FILE = click.option("--schema", **_SCHEMA)
NEEDED_SCHEMA = click.option("--schema", required=True, **_SCHEMA)
_CONFIG: Mapping[str, Any] = {"metavar": "FILE", "type": PATH, "help": "The server's configuration, dosimeter.toml."}
CONFIG = click.option("--config", **_CONFIG)
NEEDED_CONFIG = click.option("--config", required=True, **_CONFIG)
LEDGER_HELP = "The ledger: a file, or a postgresql:// URL."
NEEDED_LEDGER = click.option("--ledger", required=True, metavar="L", help=LEDGER_HELP)
PLOT = click.option("--plot", metavar="FILE", type=PATH, help="Save the picture: .svg, .png or .html.")
ALL = click.option(
    "--all", "show_all", is_flag=True, help="Show every candidate and every absolute risk, not a selection."
)
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Controller only: what would happen. Charges and releases nothing."
)
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
TERMS = OptionGroup(  # for a command that has an ε of its own
    ReleaseOptions, (ReleaseOptions,),
    only=("policy", "delta_total", "max_epsilon", "analyst", "purpose", "again", "continued", "other_people"),
)  # fmt: skip
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
