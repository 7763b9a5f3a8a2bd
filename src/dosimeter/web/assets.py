"""Files for the browser, all served from here. vl-convert makes the Vega bundle once per version; it is cached."""

from __future__ import annotations

import os
import tempfile
import threading
from importlib import metadata
from pathlib import Path

STATIC = Path(__file__).parent / "static"


class VegaBundle:
    """The JavaScript that draws charts: about 0.9 MB, made at the first start and then read from the user's cache."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._content: bytes | None = None

    def prepare(self) -> None:
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> bytes:
        with self._guard:
            if self._content is None:
                self._content = _find_cached() or _make_bundle()
            return self._content


def _cache_file() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    folder = Path(base) if base else Path.home() / ".cache"
    return folder / "dosimeter" / f"vega-{metadata.version('vl-convert-python')}-{_vega_lite_version()}.js"


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
