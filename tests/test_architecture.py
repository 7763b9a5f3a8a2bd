"""The shape of the code: who may import what, where randomness is, and what a file may not contain."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
PACKAGE = REPOSITORY / "src" / "dosimeter"
PAPER = REPOSITORY / "paper" / "src" / "dosimeter_paper"
MODULES = sorted([*PACKAGE.rglob("*.py"), *PAPER.rglob("*.py")])
SCRIPTS = sorted([*REPOSITORY.glob("tools/*.py"), *REPOSITORY.glob("bench/*.py")])
MOST_LINES = 600

MOST_AT_ROOT = 13

# A library that stands in few places can be replaced, audited and loaded late. Paths are relative to the package, or to
# what holds dosimeter_paper.
HOMES = {
    "opendp": ("release/noise.py",),
    # Trees of SQL: what they mean, what is planned, what runs, and formulas over a query's numbers.
    "sqlglot": (
        "sql/",
        "measures/",
        "planning/",
        "postprocess/",
        "influence/",
        "inspection/",
        "engines/",
        "risk/preference.py",
        "dosimeter_paper/recompute/",
    ),
    "duckdb": (
        "engines/duckdb.py",
        "engines/duckdb_connections.py",
        "engines/duckdb_files.py",
        "sql/embedded.py",
    ),
    "psycopg": ("engines/postgres.py", "ledger/"),
    "pyspark": ("engines/spark.py", "engines/spark_sessions.py"),
    "altair": ("show/charts/", "dosimeter_paper/"),
    "fastapi": ("web/", "dosimeter_paper/study/server.py"),
}
RANDOM_MODULES = {"random", "secrets", "numpy.random", "uuid"}
RANDOM_NAMES = {"urandom", "getrandom", "default_rng", "rvs", "uuid1", "uuid4", "SystemRandom"}
# Noise has one home. Data for tests and benchmarks is drawn where it is made, and keys where they are made.
RANDOM_FILES = {
    PACKAGE / "release" / "noise.py",
    PACKAGE / "schema" / "dummy_rows.py",  # invented rows, by a generator that the schema seeds: it protects nothing
    PAPER / "reproduction" / "generate.py",
    PAPER / "study" / "generate.py",
    REPOSITORY / "tools/generate_clinic.py",
    REPOSITORY / "bench/generate.py",
}
SECRET_FILES = {
    PACKAGE / "web" / "store" / "keys.py",
    PACKAGE / "ledger" / "checked_chain.py",  # a salt in each record, the names of locks
    PACKAGE / "ledger" / "people.py",  # the key of digests
}

TEXT_DIRECTORIES = ("src", "paper", "tests", "tools", "bench", "docs", ".ci")
TEXT_SUFFIXES = {"", ".py", ".md", ".toml", ".sql", ".html", ".css", ".js", ".json", ".txt", ".cfg", ".yml", ".yaml"}
UNWELCOME = {
    "a path of one machine": re.compile(r"(?<![\w.])/(?:work|root|home/\w+|Users/\w+|mnt/\w+)/"),
    "a package registry": re.compile(
        r"--(?:extra-)?index-url|https?://\S+/simple\b|\bartifact(?:ory)\b", re.IGNORECASE
    ),
    "an issue's number": re.compile(
        r"\b(?:issue|ticket|pull request)s?\s+#?\d|\b(?:fixes|closes|resolves)\s+#\d|\(#\d+\)|\bGH-\d", re.IGNORECASE
    ),
    "unfinished work": re.compile(r"\b(?:T[O]DO|F[I]XME|X[X]X)\b"),
}


def name_file(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def list_texts() -> list[Path]:
    """The project's own text files: everything at the top and in its directories that is not made by a tool."""
    nested = (path for directory in TEXT_DIRECTORIES for path in (REPOSITORY / directory).rglob("*"))
    return sorted(
        path
        for path in (*REPOSITORY.iterdir(), *nested)
        if path.is_file() and path.suffix in TEXT_SUFFIXES and path.name not in {"LICENSE", ".git"}
    )


def list_imports(tree: ast.Module) -> Iterator[str]:
    """Every imported module, late imports too, but not those for types alone."""
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def parse_file(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=name_file(path))


def list_libraries(path: Path) -> frozenset[str]:
    """The top packages that a file imports."""
    return frozenset(name.split(".")[0] for name in list_imports(parse_file(path)))


def test_libraries_stay_at_home() -> None:
    strangers = {}
    for path in MODULES:
        place = path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else PAPER.parent).as_posix()
        away = {name for name in list_libraries(path) & HOMES.keys() if not place.startswith(HOMES[name])}
        if away:
            strangers[place] = away
    assert not strangers, "a library belongs where HOMES says"


def find_randomness(tree: ast.Module) -> set[str]:
    imported = {name for name in list_imports(tree) if name in RANDOM_MODULES}
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in RANDOM_NAMES}
    reached = {
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "random" and ast.unparse(node.value) in {"np", "numpy"}
    }
    return imported | used | reached


def test_randomness_has_one_home() -> None:
    assert {*MODULES, *SCRIPTS} > RANDOM_FILES | SECRET_FILES
    strangers = {}
    for path in {*MODULES, *SCRIPTS} - RANDOM_FILES:
        allowed = {"secrets"} if path in SECRET_FILES else set()
        if found := find_randomness(parse_file(path)) - allowed:
            strangers[name_file(path)] = found
    assert not strangers, "randomness belongs in release/noise.py"


def test_invented_rows_are_seeded() -> None:
    """What is drawn there follows from the schema: the one generator is made of its digest, and of nothing else."""
    text = (PACKAGE / "schema" / "dummy_rows.py").read_text(encoding="utf-8")
    assert text.count("np.random.default_rng(") == text.count("random.default_rng(int.from_bytes(hashlib") == 1
    assert find_randomness(ast.parse(text)) == {"default_rng", "np.random"}


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "from random import Random",
        "def f():\n    import secrets",
        "import os\nos.urandom(8)",
        "import numpy as np\nnp.random.normal()",
        "from numpy.random import default_rng",
        "from scipy.stats import laplace\nlaplace.rvs(1)",
        "from uuid import uuid4",
    ],
)
def test_randomness_would_be_found(source: str) -> None:
    assert find_randomness(ast.parse(source))


def test_modules_open_with_their_contract() -> None:
    assert not [name_file(path) for path in (*MODULES, *SCRIPTS) if not ast.get_docstring(parse_file(path))]


def test_modules_can_be_read_in_one_sitting() -> None:
    lines = {name_file(path): len(path.read_text(encoding="utf-8").splitlines()) for path in (*MODULES, *SCRIPTS)}
    assert len(lines) > 300
    assert not {name: count for name, count in lines.items() if count > MOST_LINES}


def test_few_modules_stand_at_the_root() -> None:
    for package in (PACKAGE, PAPER):
        assert len(list(package.glob("*.py"))) <= MOST_AT_ROOT


def test_nothing_is_a_drawer_for_everything() -> None:
    assert not [name_file(path) for path in MODULES if path.stem in {"utils", "util", "helpers", "common", "misc"}]


@pytest.mark.parametrize("what", UNWELCOME)
def test_texts_are_free_of(what: str) -> None:
    found = [
        f"{name_file(path)}:{number}: {line.strip()[:100]}"
        for path in list_texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if UNWELCOME[what].search(line)
    ]
    assert not found, f"{what}:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("a path of one machine", "open('" + "/home" + "/ada/data.csv')"),
        ("a package registry", "pip install --index" + "-url X"),
        ("an issue's number", "see issue" + " 12"),
        ("an issue's number", "corrected (#" + "12)"),
        ("unfinished work", "# TO" + "DO: later"),
    ],
)
def test_unwelcome_text_would_be_found(what: str, line: str) -> None:
    assert UNWELCOME[what].search(line)


def test_a_door_offers_only_what_somebody_asks_for() -> None:
    """A package's ``__init__`` imports what others import from it; the public names are listed in ``__all__``."""
    asked: dict[str, set[str]] = {}
    for path in (path for folder in ("src", "paper", "tests") for path in (REPOSITORY / folder).rglob("*.py")):
        doors: dict[str, str] = {}  # packages that are imported whole, by the names that they have here
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                asked.setdefault(node.module, set()).update(each.name for each in node.names)
                doors |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in doors:
                asked.setdefault(doors[node.value.id], set()).add(node.attr)
    idle = []
    for path in PACKAGE.rglob("__init__.py"):
        door, tree = ".".join(path.relative_to(PACKAGE.parent).parts[:-1]), ast.parse(path.read_text(encoding="utf-8"))
        offered = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        assigned = {
            ast.unparse(target) for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
        }
        if "__all__" not in assigned:
            names = {each.name for node in offered for each in node.names}
            idle += [
                f"{door}.{name}" for name in sorted(names - asked.get(door, set()) - {"TYPE_CHECKING", "load_late"})
            ]
    assert idle == []
