"""Names that a package loads when they are first used: each is where the package says, and no other is."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ["", ".influence", ".inspection", ".planning", ".postprocess", ".release"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_there(package: str) -> None:
    module = importlib.import_module(f"dosimeter{package}")
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))  # with what is imported for types alone
    offered = [each.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for each in node.names]
    assert len(offered) > 10
    for name in (*offered, *getattr(module, "__all__", ())):
        getattr(module, name)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_other_name_is(package: str) -> None:
    module = importlib.import_module(f"dosimeter{package}")
    with pytest.raises(AttributeError, match=rf"module 'dosimeter{package}' has no attribute 'nothing'"):
        _ = module.nothing


def test_looking_loads_neither_explanations_nor_drafts_nor_releases() -> None:
    loaded = (
        "import sys, dosimeter.dataset; print(*sorted(each for each in sys.modules if each.startswith('dosimeter')))"
    )
    found = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    late = {"planning.explain", "influence.most_exposed", "postprocess.about", "inspection.draft"}
    assert "dosimeter.assessment.risk" in found
    assert not {f"dosimeter.{each}" for each in late} & set(found)
    assert not [each for each in found if each.startswith(("dosimeter.release", "dosimeter.ledger"))]
