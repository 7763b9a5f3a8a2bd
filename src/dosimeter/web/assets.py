"""Files for the browser, all served from here, compressed once, under addresses that change with their content.

A browser may keep what it has under such an address for good.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

STATIC = Path(__file__).parent / "static"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file for the browser. ``packed``: its content compressed; None if compressing makes it no smaller."""

    content: bytes
    packed: bytes | None
    media_type: str


class Assets:
    """The files below ``static``, read once.

    Scripts import each other by relative addresses, so one digest over all files stands in the path before their names.
    """

    def __init__(self, folder: Path = STATIC) -> None:
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        self._files: Mapping[str, Asset] = {name: _pack((folder / name).read_bytes(), name) for name in names}
        digest = hashlib.sha256()
        for name, asset in self._files.items():
            digest.update(f"{name}\0{len(asset.content)}\0".encode() + asset.content)
        self.version = digest.hexdigest()[:16]

    def address(self, name: str) -> str:
        """Return the address of a file, which changes whenever its content does."""
        if name not in self._files:
            raise KeyError(f"there is no file {name} below static/")
        return f"/static/{self.version}/{name}"

    def find(self, path: str) -> tuple[Asset, bool] | None:
        """Return a file by its path below ``/static/``, and whether the path holds its version; None if there is none.

        A path without a version is accepted too: for bookmarks, and for pages of a server that was replaced.
        """
        version, _, name = path.partition("/")
        if version == self.version and name in self._files:
            return self._files[name], True
        named = self._files.get(path) or self._files.get(name)
        return None if named is None else (named, False)


def _pack(content: bytes, name: str) -> Asset:
    packed = gzip.compress(content, 9, mtime=0)
    kind = _TYPES.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Asset(content, packed if len(packed) < len(content) else None, kind)
