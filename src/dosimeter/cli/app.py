"""The application and its exit statuses: 0 done, 1 nothing suitable, 2 bad input, 3 a bug, 130 interrupted."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from dosimeter import __version__
from dosimeter.cli import paper, study
from dosimeter.cli.audit import audit
from dosimeter.cli.demo import demo
from dosimeter.cli.explain import explain
from dosimeter.cli.find import find
from dosimeter.cli.ledger import ledger
from dosimeter.cli.release import release
from dosimeter.cli.risk import risk
from dosimeter.cli.schema import schema
from dosimeter.cli.serve import serve
from dosimeter.cli.users import users
from dosimeter.errors import DosimeterError, Interrupted
from dosimeter.problems import Surface

app = typer.Typer(
    name="dosimeter",
    help="Choose and spend ε knowing whom it exposes: everybody's relative disclosure risk, for data controllers.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dosimeter {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


app.command("demo")(demo)
app.command("schema")(schema)
app.command("explain")(explain)
app.command("risk")(risk)
app.command("find")(find)
app.command("release")(release)
app.command("ledger")(ledger)
app.command("serve")(serve)
app.add_typer(users, name="user")
app.add_typer(audit, name="audit")
app.add_typer(paper.app, name="paper")
app.add_typer(study.app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. Never print a traceback for a user's mistake."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _never_fail_on_a_character()
        result = app(args=words or ["--help"], prog_name="dosimeter", standalone_mode=False)
        sys.stdout.flush()
        if result == Interrupted.exit_code:  # Ctrl-C was caught by Typer
            return _fail("dosimeter: stopped.", result)
        return result if isinstance(result, int) else 0
    except DosimeterError as error:
        return _fail(f"dosimeter: {error.word(Surface.COMMAND_LINE)}", error.exit_code)
    except TyperException as error:
        return _fail(_describe_misuse(error), 2)
    except (KeyboardInterrupt, Abort):
        return _fail("dosimeter: stopped.", 130)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # Typer exits this way when a pipe breaks
            return _stop_writing()
        return error.code if isinstance(error.code, int) else 0
    except BrokenPipeError:
        return _stop_writing()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            return _fail(_describe_bug(error), 3)
        return _fail("dosimeter: the output cannot be written; is the disk full? The ledger has what was released.", 2)
    except Exception as error:  # noqa: BLE001 - the outermost frame: whatever it is, the user gets one line
        return _fail(_describe_bug(error), 3)


def _never_fail_on_a_character() -> None:
    """Write characters that the terminal's encoding lacks as escapes."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _stop_writing() -> int:
    """Discard what is still in the buffer: standard output was closed, and nobody reads on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return 0


def _fail(message: str, status: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    sys.stderr.write(message + "\n")
    return status


def _describe_misuse(error: TyperException) -> str:
    """Return the complaint of the command-line library, and where the options are explained."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "dosimeter"
    complaint = error.format_message().replace("Value error, ", "").rstrip(". \n")
    return f"dosimeter: {complaint}. See: {command} --help"


def _describe_bug(error: Exception) -> str:
    """Return the kind of an error and where it happened. Its text is left out: it could quote the data."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}dosimeter{os.sep}" in frame.filename] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "unknown"
    if os.environ.get("DOSIMETER_DEBUG"):
        traceback.print_exception(error)
    return (
        f"dosimeter: a bug of ours ({type(error).__name__} at {place}, version {__version__}). What was charged and "
        "released, if anything, stands in the ledger. Please report this line and the command; DOSIMETER_DEBUG=1 shows "
        "the traceback, which may quote data."
    )
