"""Identify stored data, however a table is read or named. Takes files, or sums over rows; gives short texts.

A fingerprint changes when anything changes, including how a file is read. An identity depends on the stored rows alone:
two accounts whose tables share an identity hold data of the same people. Identities are digests, and never hold a cell.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence

from dosimeter.engines.engine import unreadable
from dosimeter.engines.file_digests import digest_bytes


def identify_files(paths: Iterable[str]) -> frozenset[str]:
    """Return one identity per file: the digest of its bytes, wherever it is and whatever it is called.

    A gzipped file also has the identity of its unpacked bytes. An empty file has none: it holds nobody's data. Raises
    SourceUnreachable for a file that cannot be read.
    """
    found = set()
    for path in paths:
        try:
            found.add(_name_bytes(digest_bytes(path).hex()))
            if path.lower().endswith(".gz"):
                found |= _identify_packed(path)
        except OSError:
            raise unreadable(path) from None
    return frozenset(found - {_name_bytes(hashlib.sha256(b"").hexdigest())})


def _identify_packed(path: str) -> set[str]:
    """Return a set of one identity, of a gzipped file's unpacked bytes; an empty set if the file cannot be unpacked.

    No engine can read a file that cannot be unpacked.
    """
    digest = hashlib.sha256()
    try:
        with gzip.open(path, "rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return set()
    return {_name_bytes(digest.hexdigest())}


def name_digests(digests: Iterable[str]) -> frozenset[str]:
    """Return the identities of files with these SHA-256 digests. An empty file has none."""
    return frozenset(map(_name_bytes, digests)) - {_name_bytes(hashlib.sha256(b"").hexdigest())}


def _name_bytes(digest: str) -> str:
    return f"bytes:{digest}"


def identify_rows(columns: Sequence[str], rows: int, sums: Sequence[object]) -> frozenset[str]:
    """Return a set of one identity, of a table's content; an empty set for a table without rows.

    ``rows``: how many there are. ``sums``: sums over a hash of each row. Neither the table's name nor the order of its
    rows and columns changes the identity.
    """
    if rows == 0:
        return frozenset()
    content = [sorted(name.lower() for name in columns), rows, [str(value) for value in sums]]
    return frozenset({f"rows:{hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()}"})
