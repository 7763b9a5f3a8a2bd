"""Read the options of a release as text or keywords give them: the way that sets ε, and everything else."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dosimeter.options import ReleaseOptions
from dosimeter.release.ways.read_way import read_way
from dosimeter.release.ways.way import Way

OF_WAY = ("epsilon", "prefer", "chosen", "svt", "variance", "selection", "violation")


def split_options(options: ReleaseOptions) -> tuple[Way, dict[str, Any]]:
    """Return the way that sets ε, and the other options as keywords of ``Query.release``.

    Raises OptionError if none or several ways are asked for, or if an option is out of range.
    """
    given = {each.name: getattr(options, each.name) for each in fields(options)}
    return read_way(**{name: given.pop(name) for name in OF_WAY}), given
