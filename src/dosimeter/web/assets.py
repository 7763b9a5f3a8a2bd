"""Files for the browser, all served from here, compressed once, under addresses that change with their content.

A browser may keep what it has under such an address for good. vl-convert makes the Vega bundle once per version; it is
cached between starts.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import os
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

STATIC = Path(__file__).parent / "static"
VEGA = "vega.js"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file for the browser. ``packed``: its content compressed; None if compressing makes it no smaller."""

    content: bytes
    packed: bytes | None
    media_type: str


class Assets:
    """The files below ``static``, read once, and the Vega bundle, made or read at its first use.

    Scripts import each other by relative addresses, so one digest over all files stands in the path before their names.
    The bundle has an address of its own, by its version: it is large, and need not be loaded again when another file
    changes.
    """

    def __init__(self, folder: Path = STATIC) -> None:
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        self._files: Mapping[str, Asset] = {name: _pack((folder / name).read_bytes(), name) for name in names}
        digest = hashlib.sha256()
        for name, asset in self._files.items():
            digest.update(f"{name}\0{len(asset.content)}\0".encode() + asset.content)
        self.version = digest.hexdigest()[:16]
        self._vega = VegaBundle()

    def address(self, name: str) -> str:
        """Return the address of a file, which changes whenever its content does."""
        if name == VEGA:
            return f"/static/{self._vega.version}/{VEGA}"
        if name not in self._files:
            raise KeyError(f"there is no file {name} below static/")
        return f"/static/{self.version}/{name}"

    def find(self, path: str) -> tuple[Asset, bool] | None:
        """Return a file by its path below ``/static/``, and whether the path holds its version; None if there is none.

        A path without a version is accepted too: for bookmarks, and for pages of a server that was replaced.
        """
        version, _, name = path.partition("/")
        if name == VEGA or path == VEGA:
            return self._vega.read(), version == self._vega.version
        if version == self.version and name in self._files:
            return self._files[name], True
        named = self._files.get(path) or self._files.get(name)
        return None if named is None else (named, False)

    def prepare(self) -> None:
        """Begin to make the Vega bundle, so that the first page need not wait for it."""
        threading.Thread(target=self._vega.read, daemon=True).start()


def _pack(content: bytes, name: str) -> Asset:
    packed = gzip.compress(content, 9, mtime=0)
    kind = _TYPES.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Asset(content, packed if len(packed) < len(content) else None, kind)


class VegaBundle:
    """The JavaScript that draws charts: about 0.9 MB, made at the first start and then read from the user's cache."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._asset: Asset | None = None
        self.version = _name_version()

    def read(self) -> Asset:
        with self._guard:
            if self._asset is None:
                self._asset = _pack(_find_cached() or _make_bundle(), VEGA)
            return self._asset


def _name_version() -> str:
    return f"vega-{metadata.version('vl-convert-python')}-{_vega_lite_version()}"


def _cache_file() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    folder = Path(base) if base else Path.home() / ".cache"
    return folder / "dosimeter" / f"{_name_version()}.js"


def _vega_lite_version() -> str:
    """Return the newest Vega-Lite 6 that vl-convert contains."""
    import vl_convert

    versions: list[str] = [v.removeprefix("v").replace("_", ".") for v in vl_convert.get_vegalite_versions()]
    return max((v for v in versions if v.startswith("6.")), key=lambda v: [int(part) for part in v.split(".")])


def _find_cached() -> bytes | None:
    try:
        file = _cache_file()
        if file.stat().st_uid != os.getuid():
            return None
        return file.read_bytes() or None
    except OSError:
        return None


def _make_bundle() -> bytes:
    import vl_convert

    text: str = vl_convert.javascript_bundle(vl_version=_vega_lite_version())  # type: ignore[call-arg]  # the stub lacks a default
    content = text.encode()
    try:
        file = _cache_file()
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as stream:
            stream.write(content)
        Path(stream.name).replace(file)
    except OSError:
        return content  # if the cache cannot be written, the bundle is made again at the next start
    return content
