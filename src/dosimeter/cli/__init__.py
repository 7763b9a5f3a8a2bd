"""The command line: one file per kind of command. ``main`` turns every error into a message and an exit status."""

from typing import TYPE_CHECKING

from dosimeter.late_names import load_late

__all__ = ["commands", "main"]

if TYPE_CHECKING:
    from dosimeter.cli.app import commands, main

__getattr__ = load_late(__name__, {"app": ("commands", "main")})
