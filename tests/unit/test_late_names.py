"""What a package loads when it is first used: each name is where the package says, and nothing heavy comes early."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dosimeter

PACKAGES = ["", ".influence", ".inspection", ".planning", ".postprocess", ".release"]
HEAVY = {"scipy", "altair", "vl_convert", "polars", "pyspark", "psycopg", "pandas", "numpy.ma", "numpy.polynomial"} | {
    "rich", "sqlalchemy", "fastapi", "pyarrow.compute", "opendp.prelude", "dosimeter_paper",
}  # fmt: skip
OF_RELEASES = {"opendp", "sqlite3", "dosimeter.ledger", "dosimeter.cli.release"}
LATE = {f"dosimeter.{name}" for name in ("planning.explain", "influence.most_exposed", "postprocess.about")}


def run(script: str, folder: Path) -> list[str]:
    """Run Python in a process of its own; return the words that it prints at last."""
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=folder, env=os.environ
    )
    return finished.stderr.split()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_there_and_no_other(package: str) -> None:
    module = importlib.import_module(f"dosimeter{package}")
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))  # with what is imported for types alone
    offered = [each.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for each in node.names]
    assert len(offered) > 10
    for name in (*offered, *getattr(module, "__all__", ())):
        getattr(module, name)
    with pytest.raises(AttributeError, match=rf"module 'dosimeter{package}' has no attribute 'nothing'"):
        _ = module.nothing


def test_the_package_exports_nothing_else(tmp_path: Path) -> None:
    script = "import sys, dosimeter; sys.stderr.write(' '.join(name for name in vars(dosimeter) if name[0] != '_'))"
    own = {"TYPE_CHECKING", "annotations", "errors", "late_names", "problems", "version"}
    assert set(run(script, tmp_path)) - set(dosimeter.__all__) <= own


@pytest.mark.parametrize(
    ("module", "late"),
    [
        ("dosimeter.dataset", {*LATE, "dosimeter.inspection.draft", "dosimeter.release", "dosimeter.ledger"}),
        ("dosimeter.release.noise", {"scipy", "opendp"}),
        ("dosimeter.show.charts", {"altair", "vl_convert"}),
    ],
)
def test_a_module_loads_little(module: str, late: set[str], tmp_path: Path) -> None:
    loaded = set(run(f"import sys, {module}; sys.stderr.write(' '.join(sys.modules))", tmp_path))
    assert module in loaded
    assert not late & loaded


def test_a_command_loads_no_heavy_library(clinic: Path, tmp_path: Path) -> None:
    """Errors of several numbers, own guarantees and advantages included: none of it needs SciPy.

    A ledger in a file needs no SQLAlchemy, and only a release needs OpenDP.
    """
    script = f"""
import sys
from dosimeter.cli import main
sql = "SELECT sex, AVG(visits), COUNT(*) FROM clinic WHERE age > 30 GROUP BY sex"
asked = [{str(clinic)!r}, sql, "--json", "--schema", {str(clinic.with_suffix(".toml"))!r}]
assert main(["risk", *asked]) == 0
assert main(["find", *asked, "--prefer", "ratio:0.9"]) == 0
assert main(["find", *asked, "--prefer", "advantage:0.5,error:1000", "--mechanism", "gaussian"]) == 0
early = {HEAVY | OF_RELEASES!r} & set(sys.modules)
assert main(["release", *asked, "--ledger", "ledger.db", "--epsilon", "0.1", "--policy", "budget:1"]) == 0
sys.stderr.write(" ".join(early | {HEAVY!r} & set(sys.modules)))
"""
    assert run(script, tmp_path) == []
