"""Count the code of the wheel, and trace how far a command or a page walks through it.

    python tools/measure_code.py count [FOLDER …]   lines of code; docstrings, comments and blank lines do not count
    python tools/measure_code.py walks              modules, functions and calls of a few common walks

Only the package's own functions are traced, in every thread; a comprehension counts as a part of its function. A
command is traced from a cold start, with what is called while modules are loaded.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import os
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "dosimeter"
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def count_code(text: str) -> int:
    """Return how many lines of a module hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        for child in getattr(node, "body", ()) if isinstance(getattr(node, "body", None), list) else ():
            said = child.value if isinstance(child, ast.Expr) else None
            if isinstance(said, ast.Constant) and isinstance(said.value, str):
                lines -= set(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    return len(lines)


def count_folder(folder: Path) -> Counter[str]:
    """Return the lines of code by the first directory below ``folder``; "." for modules that lie in it."""
    found: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        found[parts[0] if len(parts) > 1 else "."] += count_code(path.read_text(encoding="utf-8"))
    return found


class Walk:
    """The calls of the package's functions that were seen, by module and name."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()

    def see(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(PACKAGE)) or not code.co_filename.endswith(".py"):
            return
        if code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<"):  # no module, no class
            self.calls[os.path.relpath(code.co_filename, PACKAGE), code.co_qualname] += 1

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Trace every thread that starts meanwhile, and this one."""
        threading.setprofile(self.see)
        sys.setprofile(self.see)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def describe(self) -> str:
        modules = {module for module, _ in self.calls}
        return f"{len(modules):>8,}{len(self.calls):>12,}{self.calls.total():>10,}"

    def clear(self) -> None:
        self.calls.clear()


def walk_command(*arguments: str) -> str:
    """Return the description of the walk of one command of the command line, in a process of its own."""
    command = [sys.executable, __file__, "command", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip("\n")


def run_command(arguments: list[str]) -> None:
    """Run one command here, and print the description of its walk alone."""
    walk = Walk()
    with contextlib.redirect_stdout(io.StringIO()), walk.watch():
        from dosimeter.cli import main

        main(arguments)
    print(walk.describe())


def walk_pages(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the description of each walk through the decision page."""
    sys.path.insert(0, str(ROOT))
    from tests.web.web_site import Site, add_users, make_settings

    walk = Walk()
    with walk.watch():
        database = str(folder / "site.db")
        site = Site.start(make_settings(database), add_users(database))
        try:
            with site.guest("anna") as anna, site.guest("carol") as carol:
                query = anna.ask()
                carol.get(f"/decide/{query}")
                steps: dict[str, Callable[[], Any]] = {
                    "decision page": lambda: carol.get(f"/decide/{query}"),
                    "slider step": lambda: carol.get(f"/decide/{query}/live?epsilon=0.04"),
                    "approve": lambda: carol.approve(query),
                }
                for name, step in steps.items():
                    walk.clear()
                    step()
                    yield name, walk.describe()
        finally:
            site.stop()


def main() -> None:
    action, *folders = sys.argv[1:] or ["count"]
    if action == "command":
        run_command(folders)
        return
    if action == "count":
        for chosen in map(Path, folders or [str(PACKAGE)]):
            found = count_folder(chosen)
            print(f"{found.total():>8,}  {chosen}")
            for name, lines in found.most_common():
                print(f"{lines:>8,}    {name}")
        return
    print(f"{'':<16}{'modules':>8}{'functions':>12}{'calls':>10}")
    clinic = PACKAGE / "data"
    sql, common = "SELECT COUNT(*) FROM clinic", (str(clinic / "clinic.csv"),)
    schema = ("--schema", str(clinic / "clinic.toml"))
    with tempfile.TemporaryDirectory() as folder:
        ledger = ("--ledger", str(Path(folder) / "ledger.db"), "--policy", "budget:2")
        print(f"{'find':<16}{walk_command('find', *common, sql, '--prefer', 'ratio:0.95')}")
        print(f"{'release':<16}{walk_command('release', *common, sql, '--epsilon', '0.1', *schema, *ledger)}")
        for name, described in walk_pages(Path(folder)):
            print(f"{name:<16}{described}")


if __name__ == "__main__":
    main()
