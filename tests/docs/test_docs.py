"""The documentation is true: its commands run and print what it shows, its links lead somewhere, its labels exist."""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import itertools
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import dosimeter
from dosimeter import Dataset
from dosimeter.cli import main
from dosimeter.engines.opening import ENGINES

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "src" / "dosimeter"
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])
# Pages whose blocks are run. The ledger's guide names servers and backups that are not here; tests/ledger runs those.
# The SQL's guide has its examples in tables, which test_sql_guide.py plans.
RUN = [REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/guide/*.md"))]
NOT_RUN = re.compile(r"make \w+|source \.venv/")
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def name_page(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


# ---------------------------------------------------------------- blocks of a page


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int
    status: int = 0


def read_blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page. ``console exit=1`` says that the block's command ends so."""
    opened: tuple[str, int, int] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.startswith("```"):
            lines.append(line)
        elif opened is None:
            language, _, rest = line[3:].strip().partition(" ")
            opened, lines = (language, number, int(rest.removeprefix("exit=")) if rest else 0), []
        else:
            yield Block(opened[0], "\n".join(lines), opened[1], opened[2])
            opened = None
    assert opened is None, f"{name_page(page)}:{number}: a block is not closed"


def split_session(block: Block) -> list[tuple[str, list[str]]]:
    """Commands, with the output shown under each.

    In a console block they follow ``$``; in a bash block every line is one, up to the end of a here-document.
    """
    session: list[tuple[str, list[str]]] = []
    until: str | None = None  # where the command goes on to: "\\" for one more line, or the end of a here-document
    for line in block.text.splitlines():
        command = line.removeprefix("$ ") if block.language == "console" else line
        if until is not None:
            session[-1] = (f"{session[-1][0]}\n{line}", [])
            if line == until or (until == "\\" and not line.endswith("\\")):
                until = None
        elif command != line or (block.language == "bash" and line and not NOT_RUN.match(line)):
            session.append((command, []))
            document = re.search(r"<<'(\w+)'$", command)
            until = document[1] if document else "\\" if command.endswith("\\") else None
        elif block.language == "console":
            assert session, f"line {block.line}: output before any command"
            session[-1][1].append(line.rstrip())
    return session


def shows(shown: list[str], printed: list[str]) -> bool:
    """Whether the lines shown were printed, in order. A line of … stands for any lines, a … in a line for any text."""
    pattern = ""
    for line in shown:
        if line.strip() == "…":
            pattern += r"(?:.*\n)*"
        else:
            pattern += ".*".join(re.escape(part) for part in line.split("…")) + r"[ ]*\n"
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed)) is not None


def list_fields(document: Any, path: str = "") -> set[str]:
    """Every field of a JSON document as a path; the items of a list count together.

    Of a finding, those that every kind has.
    """
    if path == ".findings[]":
        return {f"{path}.{key}" for key in document if key in ("kind", "weight", "text")}
    if isinstance(document, dict):
        inner = [list_fields(value, f"{path}.{key}") for key, value in document.items()]
        return {f"{path}.{key}" for key in document}.union(*inner)
    if isinstance(document, list):
        return set().union(*(list_fields(item, f"{path}[]") for item in document))
    return set()


class Reader:
    """Somebody who follows a page from top to bottom, in an empty directory with the bundled clinic in its place.

    Plain ``dosimeter`` commands and Python run in this process, which is ten times as fast; the rest in a real shell.
    """

    def __init__(self, place: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.place = place
        self.capture = capture
        shutil.copytree(PACKAGE / "data", place / "src" / "dosimeter" / "data")

    def run(self, script: str) -> tuple[int, str, str]:
        """Exit status, standard output and standard error."""
        words = shlex.split(script.replace("\\\n", " "))
        if "\n" in script.replace("\\\n", " ") or words[0] != "dosimeter" or {"|", ">", "<", "&&"} & set(words):
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=self.place,
                env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
                capture_output=True,
                encoding="utf-8",
                check=False,
            )
            return done.returncode, done.stdout, done.stderr
        self.capture.readouterr()
        status = main(words[1:])
        return status, *self.capture.readouterr()

    def follow(self, page: Path) -> int:
        """Run every block, in order; how many there were."""
        ran, printed = 0, ""
        for block in read_blocks(page):
            where = f"{name_page(page)}:{block.line}"
            match block.language:
                case "bash" | "console":
                    for command, shown in split_session(block):
                        status, output, errors = self.run(command)
                        assert status == block.status, f"{where} ends with {status}\n{output}{errors}"
                        printed = output + (errors if status == 2 else "")
                        assert not shown or shows(shown, printed.splitlines()), f"{where} prints:\n{printed}"
                case "python":
                    exec(compile(block.text, where, "exec"), {"__name__": where})
                case "json":
                    assert list_fields(json.loads(block.text)) == list_fields(json.loads(printed)), f"{where} is not so"
                case _:
                    continue
            ran += 1
        return ran


@pytest.mark.parametrize("page", RUN, ids=name_page)
def test_every_command_and_snippet_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    ran = Reader(tmp_path, capsys).follow(page)
    assert ran > 5 or page.name in ("introduction.md", "ledger.md", "sql.md")
    made = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    left = {name for name in made if not name.startswith(("src/", "temporary/"))}
    assert not {name for name in left if not is_ignored(name)}, "add it to .gitignore: it may hold private data"


@pytest.mark.parametrize("page", RUN, ids=name_page)
def test_snippets_need_nothing_that_is_not_installed(page: Path) -> None:
    """Whoever has run `make demo` has the dependencies of the package, and not those of its tests.

    A page that says how the paper's package is installed may use it too.
    """
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = {re.split(r"[^\w-]", line)[0].replace("-", "_").lower() for line in project["dependencies"]}
    known = installed | set(sys.stdlib_module_names) | {"dosimeter"}
    if "`pip install . ./paper`" in page.read_text(encoding="utf-8"):
        known.add("dosimeter_paper")
    for block in read_blocks(page):
        if block.language == "python":
            for node in ast.walk(ast.parse(block.text)):
                names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                missing = {name.split(".")[0] for name in names} - known
                assert not missing, f"{name_page(page)}:{block.line} needs {', '.join(missing)}"


def is_ignored(name: str) -> bool:
    """Whether .gitignore keeps a file of this path out of the repository; later lines prevail."""
    ignored = False
    for line in (REPOSITORY / ".gitignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        if line and not line.startswith("#") and matches_ignore(name, pattern):
            ignored = not line.startswith("!")
    return ignored


def matches_ignore(name: str, pattern: str) -> bool:
    parts = name.split("/")
    if pattern.endswith("/"):
        wanted = pattern.strip("/")
        return parts[0] == wanted if pattern.startswith("/") else wanted in parts[:-1]
    if pattern.startswith("/"):
        return len(parts) == 1 and fnmatchcase(name, pattern[1:])
    return fnmatchcase(parts[-1], pattern)


def test_what_belongs_to_the_project_is_not_ignored() -> None:
    for name in ("pyproject.toml", "Makefile", "README.md", "docs/guide/sql.md", "docs/images/range.svg"):
        assert (REPOSITORY / name).exists()
        assert not is_ignored(name)
    for name in ("src/dosimeter/data/clinic.csv", "src/dosimeter/data/clinic.toml"):
        assert not is_ignored(name)
    assert is_ignored("ledger.db")
    assert is_ignored("out/bench/x.parquet")


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        (["a", "b"], ["a  ", "b"], True),
        (["…", "b"], ["x", "y", "b"], True),
        (["a … c"], ["a b c"], True),
        (["a"], ["a", "b"], False),
        (["a", "…", "d"], ["a", "d", "x"], False),
        (["b", "…", "a"], ["a", "b"], False),
    ],
)
def test_output_that_differs_would_be_found(shown: list[str], printed: list[str], expected: bool) -> None:
    assert shows(shown, printed) is expected


# ---------------------------------------------------------------- links and pictures


def list_anchors(page: Path) -> set[str]:
    """The names that the headings of a page can be linked by, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8").lower(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    lost = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        file = (page.parent / place).resolve() if place else page
        if not file.exists() or (anchor and anchor not in list_anchors(file)):
            lost.append(target)
    assert not lost


def test_pictures_are_those_of_the_clinic(tmp_path: Path) -> None:
    """Drawn again they are the same, but for where a font puts its letters."""
    load_tool("make_pictures").draw_pictures(tmp_path)
    drawn = sorted((REPOSITORY / "docs" / "images").glob("*.svg"))
    assert [path.name for path in drawn] == ["histogram.svg", "range.svg"]
    for path in drawn:
        again = (tmp_path / path.name).read_text(encoding="utf-8")
        assert read_words(again) == read_words(path.read_text(encoding="utf-8"))
        assert "Controller only" in again


def read_words(picture: str) -> list[str]:
    return re.findall(r">([^<>]+)</text>", picture)


# ---------------------------------------------------------------- the command line


def load_tool(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, REPOSITORY / "tools" / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_command_line_page_is_up_to_date() -> None:
    page = (REPOSITORY / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == load_tool("write_cli_docs").write_page(), "docs/cli.md is stale: run make docs"


def test_python_page_is_fresh_and_names_every_public_name() -> None:
    page = (REPOSITORY / "docs" / "python.md").read_text(encoding="utf-8")
    tool = load_tool("write_python_docs")
    assert page == tool.write_page(), "docs/python.md is stale: run make docs"
    assert [name for name in dosimeter.__all__ if name != "__version__" and name not in page] == []


def test_every_public_parameter_is_documented() -> None:
    missing, seen = [], 0
    for name, members in load_tool("write_python_docs").MEMBERS.items():
        for member in members:
            found = inspect.getattr_static(getattr(dosimeter, name), member)
            if isinstance(found, (property, functools.cached_property)):
                assert found.__doc__, f"{name}.{member}"
                continue
            function = getattr(found, "__func__", found)
            for parameter in inspect.signature(function).parameters.values():
                if parameter.name in ("self", "cls"):
                    continue
                seen += 1
                stars = "**" if parameter.kind is inspect.Parameter.VAR_KEYWORD else ""
                if not re.search(rf"^\s+{re.escape(stars + parameter.name)}: ", function.__doc__ or "", re.MULTILINE):
                    missing.append(f"{name}.{member}: {parameter.name}")
    assert missing == []
    assert seen > 60


def test_every_option_is_documented(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """By another road than the generator: what --help lists, command by command."""
    page = (REPOSITORY / "docs" / "cli.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## dosimeter (\S+)\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    listed = list_help(capsys)
    commands = re.findall(r"^  (\w[\w-]*)  +\S", listed.partition("Commands:")[2], flags=re.MULTILINE)
    assert set(commands) == set(sections)
    assert len(commands) >= 5
    for command in commands:
        options = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", list_help(capsys, command), flags=re.MULTILINE)) - {
            "--help"
        }
        undocumented = {option for option in options if f"`{option}`" not in sections[command]}
        assert not undocumented, f"{command}: {undocumented}"


def list_help(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    capsys.readouterr()
    assert main([*command, "--help"]) == 0
    return capsys.readouterr().out


# ---------------------------------------------------------------- what is not supported


@pytest.mark.parametrize(
    ("claim", "sql"),
    [
        ("a JOIN only to tables", "SELECT COUNT(*) FROM clinic JOIN clinic AS other ON TRUE"),
        ("subquery", "SELECT COUNT(*) FROM (SELECT age FROM clinic GROUP BY age)"),
        ("WITH", "WITH c AS (SELECT DISTINCT age FROM clinic) SELECT COUNT(*) FROM c"),
        ("EXCEPT", "SELECT COUNT(*) FROM clinic EXCEPT SELECT COUNT(*) FROM clinic"),
        ("window function", "SELECT COUNT(*) OVER () FROM clinic"),
        ("by name", "SELECT STRING_AGG(name) FROM clinic"),
    ],
)
def test_what_the_readme_says_is_refused_is_refused(claim: str, sql: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert claim in README.partition("## What is not supported")[2]
    assert main(["explain", sql, "--schema", str(PACKAGE / "data" / "clinic.toml")]) == 2
    assert capsys.readouterr().err.startswith("dosimeter: ")


def test_the_readme_names_every_engine() -> None:
    assert all(engine in README.lower() for engine in ENGINES)


def test_an_averages_most_exposed_are_those_whom_the_guide_names() -> None:
    """Delays within −60 and 1,500 minutes: the early flight is furthest from 720, the late one from the mean."""
    delays = [-43, *[5, 10, 15] * 20, 1301]
    columns = {"delay": {"type": "integer", "bounds": [-60, 1500]}}
    schema = {"table": "flights", "individuals": len(delays), "reviewed": True, "columns": columns}
    with Dataset.open(pa.table({"delay": delays}), schema=schema) as dataset:
        (most,) = dataset.risk("SELECT AVG(delay) FROM flights").people(1).to_pylist()
    assert most["columns"] == {"delay": max(delays, key=lambda delay: abs(delay - (1500 - 60) / 2))} == {"delay": -43}


# ---------------------------------------------------------------- the container


def test_the_containers_user_owns_its_volume() -> None:
    """A volume is made and given to the user before root is left, and then declared."""
    text = (REPOSITORY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ").rpartition("\nFROM ")[2]
    as_root, _, as_user = text.partition("\nUSER ")
    user = as_user.split()[0]
    (volume,) = json.loads(re.findall(r"^VOLUME (.+)$", as_user, flags=re.MULTILINE)[0])
    assert "\nUSER " not in as_user
    assert f"mkdir {volume} && chown {user}: {volume}" in " ".join(as_root.split())


# ---------------------------------------------------------------- the glossary


def test_every_page_leads_to_the_glossary() -> None:
    pages = [
        *(REPOSITORY / "docs").glob("*.md"),
        *(REPOSITORY / "docs" / "guide").glob("*.md"),
        REPOSITORY / "README.md",
    ]
    lost = [page.name for page in pages if page.name != "glossary.md" and "glossary.md" not in page.read_text("utf-8")]
    assert len(pages) > 10
    assert lost == []


def test_the_glossary_explains_each_word_once_in_order() -> None:
    page = (REPOSITORY / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\| \*\*(.+?)\*\*", page, flags=re.MULTILINE)
    assert 25 <= len(terms) == len(set(terms)) <= 33
    assert terms[:-1] == sorted(terms[:-1], key=lambda term: term.replace("ε", "epsilon").lower())


def test_the_errors_that_the_introduction_names_are_right() -> None:
    """The smallest t with P(|noise| > t) = 2 e^(-(t + 1)/b) / (1 + e^(-1/b)) of at most 5 %, b the scale."""

    def find_error(scale: float) -> int:
        tails = (2 * math.exp(-(t + 1) / scale) / (1 + math.exp(-1 / scale)) for t in itertools.count())
        return next(t for t, tail in enumerate(tails) if tail <= 0.05)

    text = " ".join((REPOSITORY / "docs" / "guide" / "introduction.md").read_text(encoding="utf-8").split())
    assert f"at most {find_error(1)} at ε = 1, and by at most {find_error(10)} at ε = 0.1" in text
    assert find_error(3) == 3 * find_error(1)  # up to three rows of each person


def test_the_introduction_is_the_same_on_the_web_and_in_the_guide() -> None:
    page = (REPOSITORY / "src" / "dosimeter" / "web" / "templates" / "introduction.html").read_text(encoding="utf-8")
    text = " ".join((REPOSITORY / "docs" / "guide" / "introduction.md").read_text(encoding="utf-8").split())
    (title,) = re.findall(r"<h1>(.+)</h1>", page)
    assert text.startswith(f"# {title} ")
    questions = re.findall(r"<summary>(.+)</summary><p>(.+)</p>", page)
    headings, paragraphs = re.findall(r"<h2>(.+)</h2>", page), re.findall(r"^  <p>(.+)</p>$", page, flags=re.MULTILINE)
    assert len(headings) == 7
    assert len(paragraphs) == 13
    assert len(questions) == 4
    for heading in headings:
        assert f"## {heading} " in text
    for paragraph in paragraphs:
        assert paragraph in text, paragraph
    for question, answer in questions:
        assert f"**{question}** {answer}" in text, question
