"""Options that several commands share, and the functions that read their texts."""

from __future__ import annotations

import importlib.util
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.errors import OptionError

if TYPE_CHECKING:
    from dosimeter.ledger import Verification


class MechanismName(StrEnum):
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


class CalibrationName(StrEnum):
    ZCDP = "zcdp"
    CLASSIC = "classic"


class IndicatorName(StrEnum):
    BOUND = "bound"
    EXACT = "exact"


class GroupsName(StrEnum):
    DECLARED = "declared"
    OBSERVED = "observed"


class SelectionName(StrEnum):
    SHARP = "sharp"
    PAPER = "paper"


class LedgerAction(StrEnum):
    SHOW = "show"
    VERIFY = "verify"
    EXPORT = "export"
    ANSWERS = "answers"
    CLEAR = "clear"


class MethodName(StrEnum):
    CLOSED_FORM = "closed-form"
    RECOMPUTE = "recompute"


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A .csv, .csv.gz or .parquet path or glob, duckdb:PATH, postgresql://…, or spark:TABLE.",
    ),
]
Sql = Annotated[
    str, typer.Argument(metavar="SQL", help="The analyst's query: text, @query.sql, or - for standard input.")
]
SchemaFile = Annotated[Path | None, typer.Option("--schema", metavar="FILE", help="The table's public facts (TOML).")]
Mechanism = Annotated[MechanismName, typer.Option("--mechanism", help="Which noise.")]
Delta = Annotated[str | None, typer.Option("--delta", metavar="D", help="δ of the Gaussian mechanism; default 1/n^2.")]
Calibration = Annotated[
    CalibrationName | None, typer.Option("--calibration", help="Gaussian: zcdp (default), or classic as in the paper.")
]
Indicator = Annotated[
    IndicatorName, typer.Option("--indicator", help="RDR by the paper's bound, or its exact expectation.")
]
Candidates = Annotated[
    str | None, typer.Option("--candidates", metavar="LIST", help="Candidate ε's: paper (37 values), or 1,0.5,0.1.")
]
Groups = Annotated[GroupsName, typer.Option("--groups", help="Declared groups, or observed ones (study only).")]
Method = Annotated[
    MethodName, typer.Option("--method", help="Closed form, or really leaving out each distinct record.")
]
Sensitivity = Annotated[
    float | None,
    typer.Option("--sensitivity", metavar="X", help="A Δ given by hand (study only; never backs a release)."),
]
MinRows = Annotated[
    int | None, typer.Option("--min-rows", metavar="R", help="A public lower bound on the rows an AVG matches.")
]
EngineName = Annotated[str | None, typer.Option("--engine", help="The engine that reads DATA; default duckdb.")]
Table = Annotated[str | None, typer.Option("--table", help="The table in a database, or what to call a file's table.")]
Delimiter = Annotated[str | None, typer.Option("--delimiter", help="CSV: the character between columns.")]
Encoding = Annotated[str | None, typer.Option("--encoding", help="CSV: the encoding, such as latin-1.")]
Null = Annotated[str | None, typer.Option("--null", help="CSV: how a missing value is written; default empty.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Save the picture: .svg, .png or .html.")]
Prefer = Annotated[
    str, typer.Option("--prefer", metavar="P", help="The preference: ratio:0.95, or a condition on rdr.")
]
All = Annotated[bool, typer.Option("--all", help="Show every candidate, not a selection.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def require_web() -> None:
    """Refuse to go on where the libraries of the web application are not installed."""
    if importlib.util.find_spec("fastapi") is None or importlib.util.find_spec("uvicorn") is None:
        raise OptionError("The web application is an extra: pip install 'dosimeter[web]'.")


def read_sql(text: str) -> str:
    """Return the SQL itself, from the text, @FILE or standard input."""
    if text == "-":
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


def check_writable(path: Path | None, kinds: tuple[str, ...] = (), what: str = "") -> None:
    """Refuse, before any work, a path with another ending than these (none: any), or without a folder to write into."""
    if path is None:
        return
    if kinds and path.suffix.lower() not in kinds:
        raise OptionError(f"{path}: {what} as {' or '.join(kinds)}. Change the ending.")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise unwritable(path)


def confirm_written(*paths: Path | None) -> None:
    """Say on standard error which files were written."""
    for path in paths:
        if path is not None:
            typer.echo(f"Wrote {path}.", err=True)


def unwritable(path: Path) -> OptionError:
    return OptionError(f"{path} cannot be written. Choose a folder that exists and may be written to.")


def report_verification(result: Verification, *, as_json: bool) -> int:
    """Print whether a chain of records is intact; return the exit status."""
    if as_json:
        print_json(result.describe())
    elif result.first_bad is None:
        typer.echo(f"Intact: {result.records} records. Head {result.head}")
    else:
        typer.echo(f"Not intact: record {result.first_bad[0]}: {result.first_bad[1]}")
    return 0 if result.intact else 1


def print_json(document: Any) -> None:
    """Print one line on standard output; in ASCII where the terminal's encoding, or a broken character, needs it."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, allow_nan=False)
    sys.stdout.write(text + "\n")
