"""The page on the architecture: one heading per directory, and the layers that the contracts keep."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "src" / "dosimeter"
ARCHITECTURE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")


def list_named_files() -> tuple[set[str], set[str]]:
    """The files and directories that the page names, and those of the package."""
    named = set(re.findall(r"`((?:\w+/)*\w+\.py|(?:\w+/)+)`", ARCHITECTURE)) - {"utils.py"}
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    folders = {f"{parent.as_posix()}/" for name in found for parent in Path(name).parents if parent.name}
    own = {name for name in named if (REPOSITORY / name).exists() and name.startswith(("tests/", "src/", "paper/"))}
    return named - own, found | folders


def test_every_directory_has_its_heading_in_the_architecture() -> None:
    headings = re.findall(r"^### (\w+)/$", ARCHITECTURE, flags=re.MULTILINE)
    directories = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert len(headings) == len(set(headings))
    assert set(headings) == directories


def test_every_module_at_the_root_is_named_in_the_architecture() -> None:
    named, _ = list_named_files()
    assert {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py"} <= named


def test_the_architecture_names_only_what_exists() -> None:
    named, found = list_named_files()
    assert named - found == set()


def test_the_stack_shown_is_the_contract() -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in contracts["contracts"] if contract["name"] == "Imports point down")
    assert "```\n" + "\n".join(layers) + "\n```" in ARCHITECTURE


def test_headings_stand_in_the_order_of_the_layers() -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in contracts["contracts"] if contract["name"] == "Imports point down")
    level = {name: at for at, layer in enumerate(reversed(layers)) for name in layer.split(" | ")}
    headings = [name for name in re.findall(r"^### (\w+)/$", ARCHITECTURE, flags=re.MULTILINE) if name in level]
    assert len(headings) > 10
    assert [level[name] for name in headings] == sorted(level[name] for name in headings)


def test_layers_shown_are_the_contract() -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    names = [contract["name"] for contract in contracts["contracts"]]
    named = [re.sub(r"^The door of \w+$", "The door of …", name) for name in names]
    assert [name for name in named if name not in ARCHITECTURE] == []
