"""Declare tables in few words: what a schema's TOML says of a table and its columns, as Python values."""

from __future__ import annotations

from typing import Any

Facts = dict[str, Any]


def declare(table: str, individuals: int, columns: dict[str, Facts], **more: Any) -> Facts:
    """Return the reviewed schema of a table; ``more`` are its other entries, such as ``unit``."""
    return {"table": table, "individuals": individuals, "reviewed": True, "columns": columns, **more}


def whole(low: int, high: int) -> Facts:
    """Return a column of whole numbers with bounds."""
    return {"type": "integer", "bounds": [low, high]}


def decimal(low: Any, high: Any, resolution: float) -> Facts:
    """Return a column of numbers on a grid, with bounds."""
    return {"type": "decimal", "bounds": [low, high], "resolution": resolution}


def category(*values: str) -> Facts:
    """Return a column of texts that are all declared."""
    return {"type": "category", "values": list(values)}


def plain(kind: str) -> Facts:
    """Return a column of a type, of which nothing else is declared."""
    return {"type": kind}
