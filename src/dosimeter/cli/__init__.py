"""The command line: one file per kind of command. ``main`` turns every error into a message and an exit status."""

from dosimeter.cli.app import build_app, main

__all__ = ["build_app", "main"]
