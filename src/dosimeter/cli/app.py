"""The application and its exit statuses: 0 done, 1 no, 2 bad input, 3 a bug, 130 interrupted.

1, no: no ε meets the preference, a denial, a stopped dataset, or a check that found a ledger, audit log or schema
wrong.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from dosimeter import __version__
from dosimeter.errors import DosimeterError, OptionError
from dosimeter.problems import Surface

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS: Mapping[str, str] = {
    "demo": "demo:demo",
    "schema": "schema:schema",
    "dummy": "dummy:dummy",
    "explain": "explain:explain",
    "risk": "risk:risk",
    "find": "find:find",
    "release": "release:release",
    "summary": "summary:summary",
    "ledger": "ledger:ledger",
    "record": "record:record",
    "serve": "serve:serve",
    "user": "users:users",
    "audit": "audit:audit",
}
"""Each command, in the order in which help lists them: its module and its function, or its group of commands."""
PAPER_COMMANDS = ("paper", "study")
"""The commands of the package in ``paper/``, which it names as entry points of the group ``dosimeter.commands``."""


class Commands(click.Group):
    """The commands of ``dosimeter``, each loaded when it is called or described."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands that are installed, in the order in which help lists them."""
        return [*COMMANDS, *(name for name in PAPER_COMMANDS if _find_paper_command(name) is not None)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None if there is none of this name.

        Raises OptionError if it is a command of the package in ``paper/``, which is not installed.
        """
        if cmd_name in COMMANDS:
            module, _, attribute = COMMANDS[cmd_name].partition(":")
            return cast(click.Command, getattr(import_module(f"dosimeter.cli.{module}"), attribute))
        if cmd_name not in PAPER_COMMANDS:
            return None
        entry = _find_paper_command(cmd_name)
        if entry is None:
            raise OptionError(
                f"dosimeter {cmd_name} comes with the package in paper/ of Dosimeter's repository: pip install ./paper."
            )
        return cast(click.Command, entry.load())


def _find_paper_command(name: str) -> EntryPoint | None:
    from importlib.metadata import entry_points

    return next(iter(entry_points(group="dosimeter.commands", name=name)), None)


@click.command(cls=Commands, name="dosimeter", context_settings={"show_default": True})
@click.version_option(__version__, message="%(prog)s %(version)s", help="Print the version and stop.")
def commands() -> None:
    """Choose and spend ε knowing whom it exposes: everybody's relative disclosure risk, for data controllers."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. Never print a traceback for a user's mistake."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _never_fail_on_a_character()
        with commands.make_context("dosimeter", words or ["--help"]) as context:
            result = commands.invoke(context)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except DosimeterError as error:
        return _fail(f"dosimeter: {error.word(Surface.COMMAND_LINE)}", error.exit_code)
    except click.ClickException as error:
        return _fail(_describe_misuse(error), 2)
    except (KeyboardInterrupt, click.Abort):
        return _fail("dosimeter: stopped.", 130)
    except click.exceptions.Exit as end:  # --help and --version
        return end.exit_code
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # Rich exits this way when a pipe breaks
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
    """Make standard output write characters that its encoding lacks as escapes."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _stop_writing() -> int:
    """Discard buffered output, because standard output was closed and nobody reads on; return the exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return 0


def _fail(message: str, status: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    sys.stderr.write(message + "\n")
    return status


def _describe_misuse(error: click.ClickException) -> str:
    """Return the command-line library's complaint, and which command explains the options."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "dosimeter"
    complaint = error.format_message().rstrip(". \n")
    return f"dosimeter: {complaint}. See: {command} --help"


def _describe_bug(error: Exception) -> str:
    """Return a line with the type of an error and where it was raised; print the traceback if DOSIMETER_DEBUG is set.

    The error's text is not in the line, because it could quote the data.
    """
    frames = traceback.extract_tb(error.__traceback__)
    ours = [each for each in frames if {"dosimeter", "dosimeter_paper"} & set(Path(each.filename).parts)] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "unknown"
    if os.environ.get("DOSIMETER_DEBUG"):
        traceback.print_exception(error)
    return (
        f"dosimeter: a bug of ours ({type(error).__name__} at {place}, version {__version__}). What was charged and "
        "released, if anything, stands in the ledger. Please report this line and the command; DOSIMETER_DEBUG=1 shows "
        "the traceback, which may quote data."
    )
