"""Take what is written plainly as it is. Typer reads each value through an adapter that pydantic builds for it.

To load pydantic and build adapters, for options nobody gave too, took a sixth of a short command. A value that is not
plainly one of its type is left to Typer, and so is every complaint.
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
    """A command whose plain values are taken without an adapter."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, the one for help among them."""
        return [_take_plainly(param) for param in super().get_params(ctx)]


class PlainGroup(TyperGroup):
    """A group of commands whose plain values are taken without an adapter."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, the one for help among them."""
        return [_take_plainly(param) for param in super().get_params(ctx)]


def _take_plainly(param: Any) -> Any:
    """Let a parameter try without Typer's ``get_runtime_param``, which builds the adapter, before it is called."""
    name = "get_runtime_param"
    if hasattr(param, name) and name not in vars(param):
        built = getattr(param, name)
        setattr(param, name, lambda: _PlainFirst(built))
    return param


class _PlainFirst:
    """What Typer asks to read a value: this, and its own adapter where this is not enough."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value in its type. Raise what Typer raises."""
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
    """Return a value in its type; None where it is not plainly of it."""
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
