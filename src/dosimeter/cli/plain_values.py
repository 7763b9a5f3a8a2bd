"""Read the plain values of options without pydantic, which takes long to load.

Typer reads each value through an adapter of pydantic's, and builds one even for an option that nobody gave: a sixth of
the time of a short command went into that. A value that is not plainly of its option's type is left to Typer, and so is
every complaint.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from typer.core import TyperCommand, TyperGroup

_WHOLE = re.compile(r"[0-9]{1,15}")
_DECIMAL = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")


class PlainCommand(TyperCommand):
    """A Typer command that reads simply written values, 0.1 but not 1e-1, without pydantic, which loads slowly.

    Typer still reads every other value, and every parameter that has several values, bounds or a parser of its own.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the command's parameters, ``--help`` included, each changed by ``_take_plainly``."""
        return [_take_plainly(param) for param in super().get_params(ctx)]


class PlainGroup(TyperGroup):
    """A group of Typer commands that reads its own parameters as PlainCommand does."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the group's parameters, ``--help`` included, each changed by ``_take_plainly``."""
        return [_take_plainly(param) for param in super().get_params(ctx)]


def _take_plainly(param: Any) -> Any:
    """Make ``param``, a Typer parameter, read its value by ``read_plainly`` first; return the same ``param``.

    Typer's own adapter is built only if ``read_plainly`` fails.
    """
    name = "get_runtime_param"
    if hasattr(param, name) and name not in vars(param):
        built = getattr(param, name)
        setattr(param, name, lambda: _PlainFirst(built))
    return param


class _PlainFirst:
    """What Typer calls to read the value of a parameter: ``read_plainly``, then Typer's adapter if that fails.

    ``build``: makes Typer's adapter.
    """

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value converted to the parameter's type. Raise what Typer's adapter raises for an unusable one."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        info = param.type_descriptor.parameter_info
        if param.nargs == 1 and not several and (info.parser, info.min, info.max) == (None, None, None):
            found = read_plainly(param.type_descriptor.annotation, value)
            if found is not None:
                return found
        return self._build().coerce(value, param=param, ctx=ctx)


def read_plainly(kind: Any, value: Any) -> Any:
    """Return the value in the type ``kind``; None if it is not written plainly: 0.1 is, 1e-1 is not."""
    if type(value) is not str:
        return value if type(value) is kind and kind in (int, float) else None
    if kind is str or (get_origin(kind) is Literal and value in get_args(kind)):
        return value
    if kind is Path and "\0" not in value:
        return Path(value) if os.access(value, os.R_OK) or not os.path.lexists(value) else None
    if kind is float and _DECIMAL.fullmatch(value):
        return float(value)
    if kind is int and _WHOLE.fullmatch(value):
        return int(value)
    return None
