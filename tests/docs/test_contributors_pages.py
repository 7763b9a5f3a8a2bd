"""The pages for contributors: short, and true in every path and name that they give."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "src" / "dosimeter"
DECISIONS = sorted((REPOSITORY / "docs" / "decisions").glob("*.md"))
PAGES = {
    "CONTRIBUTING.md": (60, 140),
    "docs/architecture.md": (120, 140),
    "docs/glossary.md": (40, 140),
    **{path.relative_to(REPOSITORY).as_posix(): (39, 120) for path in DECISIONS},
}
"""The pages, and how many lines each has at most and how long a line is."""
ARCHITECTURE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
# In backticks: a path; a name such as FixedEpsilon, fixed_epsilon or Fixed.epsilon; a table, and the file that has it.
A_PATH = re.compile(r"`((?:\.?[\w-]+/)*(?:[\w-]+\.(?:py|md|toml)|[\w-]+/))`")
A_NAME = re.compile(r"`([A-Za-z]+(?:_\w+|[a-z][A-Z]\w*|\w*\.\w+))(?:\(\))?`")
A_TABLE = re.compile(r"((?:`[A-Z_]+`(?:, | or )?)+) in `([\w/]+\.py)`")
ABSENT = {"utils.py", "dosimeter.toml"}
"""Files that pages name although the project has none: a forbidden one, and an operator's."""


@cache
def read_page(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


@cache
def list_words() -> set[str]:
    """Every word in the project's own code and settings."""
    files = [path for part in ("src", "paper", "tests", "tools", "bench") for path in (REPOSITORY / part).rglob("*.py")]
    others = [REPOSITORY / "conftest.py", REPOSITORY / "pyproject.toml"]
    texts = (path.read_text(encoding="utf-8") for path in [*files, *others])
    return {word for text in texts for word in re.findall(r"\w+", text)}


def is_there(path: str) -> bool:
    return any((root / path).exists() for root in (REPOSITORY, PACKAGE, REPOSITORY / "docs"))


def read_layers() -> list[str]:
    contracts = tomllib.loads(read_page("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    layers: list[str] = next(contract["layers"] for contract in contracts if contract["name"] == "Imports point down")
    return layers


@pytest.mark.parametrize("name", PAGES)
def test_contributors_pages_are_short(name: str) -> None:
    lines = read_page(name).splitlines()
    most, longest = PAGES[name]
    assert len(lines) <= most
    assert [line for line in lines if len(line) > longest and not line.startswith("|")] == []


@pytest.mark.parametrize("name", PAGES)
def test_contributors_pages_name_only_what_exists(name: str) -> None:
    page = re.sub(r"^```.*?^```", "", read_page(name), flags=re.MULTILINE | re.DOTALL)
    assert {path for path in A_PATH.findall(page) if not is_there(path)} - ABSENT == set()
    names = {found for found in A_NAME.findall(page) if not is_there(found)}
    assert {name for name in names if not list_words().issuperset(name.split("."))} == set()


def test_names_and_paths_would_be_found() -> None:
    text = "`a/b.py`, `sql/`, `.ci/x.toml`, `SomeName`, `find_it()`, `Query.plan`, `MIN(rdr)`, `AND 1 = 1`, `cell`"
    assert A_PATH.findall(text) == ["a/b.py", "sql/", ".ci/x.toml"]
    assert A_NAME.findall(text) == ["SomeName", "find_it", "Query.plan"]


def test_tables_of_variants_stand_where_the_architecture_says() -> None:
    tables = [(name, file) for names, file in A_TABLE.findall(ARCHITECTURE) for name in re.findall(r"[A-Z_]+", names)]
    assert len(tables) > 10
    for name, file in tables:
        assert re.search(rf"^{name}\b.* = ", read_page(f"src/dosimeter/{file}"), re.MULTILINE), f"{name} in {file}"


def test_every_directory_has_its_heading_in_the_architecture() -> None:
    headings = re.findall(r"^### (\w+)/$", ARCHITECTURE, flags=re.MULTILINE)
    directories = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert len(headings) == len(set(headings))
    assert set(headings) == directories


def test_every_module_at_the_root_is_named_in_the_architecture() -> None:
    named = set(A_PATH.findall(ARCHITECTURE))
    assert {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py"} <= named


def test_the_order_shown_is_the_contract() -> None:
    shown = next(block for block in re.findall(r"^```\n(.*?)^```", ARCHITECTURE, re.M | re.S) if "cli →" in block)
    assert shown.replace("\n", " ").strip().split(" → ") == read_layers()


def test_headings_stand_in_the_order_of_the_layers() -> None:
    level = {name: at for at, layer in enumerate(reversed(read_layers())) for name in layer.split(" | ")}
    headings = [name for name in re.findall(r"^### (\w+)/$", ARCHITECTURE, flags=re.MULTILINE) if name in level]
    assert len(headings) > 10
    assert [level[name] for name in headings] == sorted(level[name] for name in headings)


@pytest.mark.parametrize("package", ["assessment", "ledger", "web"])
def test_a_package_that_lists_its_files_lists_all(package: str) -> None:
    told = ast.get_docstring(ast.parse(read_page(f"src/dosimeter/{package}/__init__.py"))) or ""
    folders = {f"{path.parent.name}/" for path in (PACKAGE / package).glob("*/__init__.py")}
    files = {path.name for path in (PACKAGE / package).glob("*.py")} - {"__init__.py"}
    assert {name for name in files | folders if name not in told} == set()
    assert len(files) > 3
