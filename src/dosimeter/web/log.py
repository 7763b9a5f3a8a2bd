"""Reports of bugs: the kind of error and where it was raised, never its text, which could quote the data."""

from __future__ import annotations

import logging
import os
import traceback
from pathlib import Path

LOG = logging.getLogger("dosimeter.web")


def report_bug(where: str, error: BaseException) -> None:
    """Log a bug in one line; with DOSIMETER_DEBUG=1 also its traceback, which may quote data.

    ``where``: what failed, such as the method and path of a request.
    """
    debugging = bool(os.environ.get("DOSIMETER_DEBUG"))
    LOG.error("%s failed: %s", where, describe_bug(error), exc_info=error if debugging else None)


def describe_bug(error: BaseException) -> str:
    """Return the kind of an error and where it was raised, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}dosimeter{os.sep}" in frame.filename] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "unknown"
    return f"{type(error).__name__} at {place}"
