"""Screens say what is meant: the codes of docs/math.md, and phrases that only the authors understand, stand on none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "dosimeter"
CODES = re.compile(r"\([A-Z]\d{1,2}(?:[,–] ?[A-Z]\d{1,2})*\)|ε_svt|δ_g|Δ_svt|\bPIS\b|\b[Aa]lgorithm [12]\b")
PHRASES = re.compile(
    r"[Dd]ecided lately|[Nn]ot for you|does not leave it|belong into|[Cc]ompare with the exact|[Aa]dd a smaller"
    r"|[Mm]istakes? (?:is|are) told|moves? no number|who stands elsewhere|[Ss]ay what is acceptable"
    r"|averages? nothing out"
)
# The paper's own words are what ``dosimeter paper`` and the study are about.
GUIDES = sorted([PACKAGE.parents[1] / "README.md", *(PACKAGE.parents[1] / "docs" / "guide").glob("*.md")])
TEMPLATES = sorted((PACKAGE / "web" / "templates").rglob("*.html"))
MODULES = sorted(PACKAGE.rglob("*.py"))


def list_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Give every text of a module that a program can print: all but docstrings, which stand as statements."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    described = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
            yield node.lineno, node.value


def find_codes(text: str) -> list[str]:
    return [found.group() for pattern in (CODES, PHRASES) for found in pattern.finditer(text)]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_no_page_holds_a_code(path: Path) -> None:
    assert find_codes(path.read_text(encoding="utf-8")) == []


def test_no_message_holds_a_code() -> None:
    texts = [(path, line, text) for path in MODULES for line, text in list_texts(path)]
    assert len(texts) > 5_000
    found = {f"{path.name}:{line}": find_codes(text) for path, line, text in texts}
    assert {place: codes for place, codes in found.items() if codes} == {}


def test_no_guide_holds_a_phrase_that_was_mended() -> None:
    texts = {path.name: " ".join(path.read_text(encoding="utf-8").split()) for path in GUIDES}
    assert len(texts) > 5
    assert {name: PHRASES.findall(text) for name, text in texts.items() if PHRASES.search(text)} == {}


@pytest.mark.parametrize(
    "text", ["own guarantee (P1)", "costs ε_svt", "the same PIS", "with algorithm 1", "(R5–R7)", "belong into"]
)
def test_a_code_is_found(text: str) -> None:
    assert find_codes(text)
