"""The command line: one file per kind of command. ``main`` turns every error into a message and an exit status."""

from typing import TYPE_CHECKING

from dosimeter.late_names import load_late

__all__ = ["build_app", "main"]

if TYPE_CHECKING:
    from dosimeter.cli.app import build_app, main

__getattr__ = load_late(__name__, {"app": ("build_app", "main")})
