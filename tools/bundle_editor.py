"""Bundle the editor of the page Ask from exact versions of CodeMirror's packages, with their licences.

Needs Node and npm. ``tools/editor`` holds the versions, the digest of each package, and what is taken from them. The
same versions give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECIPE = ROOT / "tools" / "editor"
TARGET = ROOT / "src" / "dosimeter" / "web" / "static" / "vendor"
BUNDLE, LICENCE = "codemirror-6.min.js", "codemirror-LICENSE.txt"
# CodeMirror makes its rules an element <style> of the document, which our Content-Security-Policy forbids, and uses a
# constructed style sheet in a shadow root alone. Here it uses one in the document, too, as the policy allows.
STYLES = "node_modules/style-mod/src/style-mod.js"
IN_SHADOW_ALONE, ALWAYS = "if (!root.head && root.adoptedStyleSheets", "if (root.adoptedStyleSheets"
BANNER = f"/* CodeMirror 6 and what it needs, bundled by tools/bundle_editor.py. Licences: {LICENCE} */"
OPTIONS = ["--bundle", "--minify", "--format=esm", "--target=es2022", "--charset=utf8", "--legal-comments=none"]


def bundle(folder: Path, target: Path) -> None:
    """Write the bundle and its licences into ``target``. ``folder``: an empty one, to work in."""
    for path in RECIPE.iterdir():
        shutil.copy(path, folder)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, check=True)
    styles = folder / STYLES
    text = styles.read_text(encoding="utf-8")
    if text.count(IN_SHADOW_ALONE) != 1:
        raise SystemExit(f"{STYLES} has changed: see how it adds its rules now.")
    styles.write_text(text.replace(IN_SHADOW_ALONE, ALWAYS), encoding="utf-8")
    made = ["--metafile=used.json", f"--banner:js={BANNER}", f"--outfile={target / BUNDLE}"]
    subprocess.run(["npx", "--no-install", "esbuild", "library.js", *OPTIONS, *made], cwd=folder, check=True)
    (target / LICENCE).write_text(write_licences(folder), encoding="utf-8")


def write_licences(folder: Path) -> str:
    """Return the licences of all packages that are in the bundle, each text once."""
    (made,) = json.loads((folder / "used.json").read_text(encoding="utf-8"))["outputs"].values()
    used = [name for name, share in made["inputs"].items() if share["bytesInOutput"]]
    packages = {found[0] for name in used if (found := re.match(r"node_modules/(@[^/]+/)?[^/]+", name))}
    texts: dict[str, list[str]] = {}
    for package in sorted(packages):
        facts = json.loads((folder / package / "package.json").read_text(encoding="utf-8"))
        licence = (folder / package / "LICENSE").read_text(encoding="utf-8").strip()
        texts.setdefault(licence, []).append(f"{facts['name']} {facts['version']} ({facts['license']})")
    parts = (f"{chr(10).join(names)}\n\n{licence}\n" for licence, names in texts.items())
    changed = f"{BUNDLE} holds these packages. In style-mod one condition was changed (tools/bundle_editor.py).\n"
    return "\n\n".join([changed, *parts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=TARGET)
    target = parser.parse_args().output.resolve()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        bundle(Path(folder), target)
    print(f"{target / BUNDLE}: {(target / BUNDLE).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
