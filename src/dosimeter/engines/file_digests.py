"""Digest a file's bytes, once per state of the file in a process. Takes a path; gives SHA-256.

A state has five parts: the file's device, inode and size, and the times at which its content and its inode last
changed. Ordinary calls that write to a file change the inode's time, which no call can set. The change shows only if
the clock has moved on since the state was read. So a digest is kept only of a file that was last changed some time
before it was read, and that did not change while it was read. A file that is mapped into memory can change without its
state changing: do not write that way to data in use.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

State = tuple[int, int, int, int, int]

SETTLED_NS = 2_000_000_000
"""How long ago a file must have changed: longer than the coarsest clock of a file system in use (2 seconds, FAT)."""
MOST_KEPT = 1024

_kept: OrderedDict[State, bytes] = OrderedDict()
_guard = threading.Lock()


def digest_bytes(path: str) -> bytes:
    """Return the SHA-256 digest of a file's bytes, from an earlier call if the file has not changed since."""
    with Path(path).open("rb") as stream:
        before = read_state(stream.fileno())
        with _guard:
            known = _kept.get(before)
            if known is not None:
                _kept.move_to_end(before)
                return known
        began = time.time_ns()
        digest = hashlib.file_digest(stream, "sha256").digest()
        if read_state(stream.fileno()) == before and max(before[3:]) < began - SETTLED_NS:
            with _guard:
                _kept[before] = digest
                while len(_kept) > MOST_KEPT:
                    _kept.popitem(last=False)
    return digest


def read_states(paths: Sequence[str]) -> tuple[State, ...] | None:
    """Return the state of each file; None if one is missing, or changed so lately that another change may not show."""
    began = time.time_ns()
    try:
        states = tuple(read_state(path) for path in paths)
    except OSError:
        return None
    return states if all(max(state[3:]) < began - SETTLED_NS for state in states) else None


def read_state(file: int | str) -> State:
    """Return the state of one file, given by its path or by the descriptor of an open file."""
    found = os.fstat(file) if isinstance(file, int) else Path(file).stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
