"""The command line: one file per kind of command. ``main`` turns every error into a message and an exit status."""

from dosimeter.cli.app import app, main

__all__ = ["app", "main"]
