"""Locks that show whether a process still lives: files beside a ledger, locked while their process runs.

The system releases a process's locks when it ends, however it ends. Takes a path; gives a lock, or None where another
process or thread holds it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from dosimeter.errors import LedgerError


class FileLock:
    """An exclusive lock on a file. Another thread, by a file descriptor of its own, cannot hold it at the same time."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path

    def release(self, *, forget: bool) -> None:
        """Release the lock. ``forget``: nobody will ask for it again, so that its file can be deleted."""
        if forget:
            self._path.unlink(missing_ok=True)  # while it is held: nobody can hold it by the same name meanwhile
        os.close(self._descriptor)


def take_file_lock(path: Path, ledger: Path) -> FileLock | None:
    """Take the lock of this path; return None if somebody holds it. ``ledger``: whose owner and mode the file gets.

    Raises OSError if the file cannot be created or locked.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        _share_as(ledger, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return FileLock(descriptor, path)


def is_file_locked(path: Path) -> bool:
    """Return whether somebody holds the lock of this path. Without its file, nobody does."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        raise LedgerError(
            f"{path} cannot be read, so nobody can tell whether a measurement still runs. Let this user read it."
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two who look do not see each other
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _share_as(ledger: Path, descriptor: int) -> None:
    """Let those read and write the file who may read and write the ledger, as SQLite does for its journal."""
    wanted, own = ledger.stat(), os.fstat(descriptor)
    if own.st_uid not in (wanted.st_uid, os.geteuid()):
        return  # another user's: only its owner can change it
    if os.geteuid() == 0 and (own.st_uid, own.st_gid) != (wanted.st_uid, wanted.st_gid):
        os.fchown(descriptor, wanted.st_uid, wanted.st_gid)
    if own.st_mode & 0o777 != wanted.st_mode & 0o666:
        os.fchmod(descriptor, wanted.st_mode & 0o666)


def is_out_of_space(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
