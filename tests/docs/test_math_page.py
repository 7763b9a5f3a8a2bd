"""The page on the mathematics: its labels are the code's, each names what proves it, and its examples are true."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "src" / "dosimeter"
PAPER = REPOSITORY / "paper" / "src" / "dosimeter_paper"
MATH = (REPOSITORY / "docs" / "math.md").read_text(encoding="utf-8")
LABEL = re.compile(r"(?<![\w.])([NMRPCSFVOGQEHB])(\d{1,2})(?:\s*[–-]\s*([NMRPCSFVOGQEHB])?(\d{1,2}))?(?![\w.]\d|\w)")


def read_sections() -> dict[str, str]:
    """The text under each label's heading."""
    parts = re.split(r"^### ([A-Z]\d+): .+$|^## .+$", MATH, flags=re.MULTILINE)
    return {label: text for label, text in zip(parts[1::2], parts[2::2], strict=True) if label}


SECTIONS = read_sections()


def read_labels(text: str) -> set[str]:
    """R3, and every label from R1 to R9 in R1–R9 or R1-R9. A number that was never given away is no label."""
    found = set()
    for kind, first, other, last in LABEL.findall(text):
        assert other in ("", kind), f"{kind}{first}–{other}{last} is no range"
        found |= {f"{kind}{first}"} | ({f"{kind}{last}"} if last else set())
        found |= {f"{kind}{number}" for number in range(int(first), int(last or first))} & SECTIONS.keys()
    return found


def read_sources() -> str:
    """Return the source of both packages. In that of the paper, Q1 to Q5 are its queries and no labels."""
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    texts += [re.sub(r"\bQ\d", "", path.read_text(encoding="utf-8")) for path in PAPER.rglob("*.py")]
    return re.sub(r"# noqa.*", "", "\n".join(texts))


def test_labels_of_the_code_are_explained_and_labels_explained_are_in_the_code() -> None:
    cited = read_labels(read_sources())
    assert cited - SECTIONS.keys() == set(), "cited in the code, not in docs/math.md"
    assert SECTIONS.keys() - cited == set(), "in docs/math.md, cited nowhere in the code"


def test_labels_are_read_in_every_spelling() -> None:
    assert read_labels("# R3, (M1–M3), O1-O3: V4; P1 and 1/n² C1.") == {
        "R3", "M1", "M2", "M3", "O1", "O2", "O3", "V4", "P1", "C1",
    }  # fmt: skip
    assert read_labels("F401 AVG1 2C3 x.R1 S30.5 NaN") == set()


@pytest.mark.parametrize("label", SECTIONS)
def test_every_label_says_what_where_and_which_test(label: str) -> None:
    text = SECTIONS[label]
    assert re.search(r"\*\*(?:Claim|Definition|Ruling)\.\*\*", text)
    assert "**Proof.**" in text or "**Claim.**" not in text or "**Why.**" in text
    code, _, tests = text.partition("**Code.**")[2].partition("**Test.**")
    for name in re.findall(r"`([\w.]+)`", code):
        assert is_defined(name), f"{label}: there is no {name}"
    nodes = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests)
    assert nodes, f"{label} names no test"
    for path, name in nodes:
        assert re.search(rf"^def {name}\b", (REPOSITORY / path).read_text(encoding="utf-8"), flags=re.MULTILINE), name


def is_defined(dotted: str) -> bool:
    """Whether module.name, or module.Class.name, stands in the package's source."""
    parts = dotted.split(".")
    for length in range(len(parts) - 1, 0, -1):
        path = PACKAGE.joinpath(*parts[:length]).with_suffix(".py")
        if path.exists():
            return find_definition(ast.parse(path.read_text(encoding="utf-8")), parts[length:])
    return False


def find_definition(scope: ast.AST, names: list[str]) -> bool:
    if not names:
        return True
    for node in getattr(scope, "body", []):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == names[0]:
            return find_definition(node, names[1:])
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if len(names) == 1 and any(isinstance(target, ast.Name) and target.id == names[0] for target in targets):
            return True
    return False


def test_the_amount_of_noise_tells() -> None:
    """G2, with the program's own choice of ε for one match and for none; the probabilities by adding up."""
    from dosimeter import Dataset

    chosen = {}
    for matches in (1, 0):
        rows = {"ill": [1] * matches + [0] * (1000 - matches)}
        with Dataset.open(pa.table(rows), table="people") as people:
            chosen[matches] = people.risk("SELECT COUNT(*) FROM people WHERE ill = 1").find("ratio:0.95").epsilon
    assert chosen == {1: 0.05, 0: 10.0}

    def weigh(true: int, epsilon: float, low: int, high: int) -> float:
        masses = {z: math.exp(-epsilon * abs(z - true)) for z in range(-2000, 2001)}
        return sum(mass for z, mass in masses.items() if low <= abs(z) <= high) / sum(masses.values())

    assert weigh(1, 0.05, 0, 0) == pytest.approx(0.0238, abs=5e-5)
    assert weigh(0, 10.0, 0, 0) == pytest.approx(0.99991, abs=5e-6)
    wide, narrow = weigh(1, 0.05, 5, 2000), weigh(0, 10.0, 5, 2000)
    assert (wide, narrow) == (pytest.approx(0.799, abs=5e-4), pytest.approx(3.9e-22, rel=0.02))
    assert wide > math.exp(10.0) * narrow
    assert math.log(wide / narrow) == pytest.approx(49, abs=0.5)


@pytest.mark.parametrize(
    ("how", "says", "hidden"),
    [
        ({"epsilon": 0.5}, "0.5-differentially private", {"epsilon_svt"}),
        ({"epsilon": 0.5, "mechanism": "gaussian"}, "(0.5, 6.25e-08)-differentially private", {"epsilon_svt"}),
        ({"svt": 1.0, "variance": 1e-3}, "Ex-post", set()),
        ({"prefer": "ratio:0.95"}, "is not differentially private", {"epsilon", "epsilon_svt", "error_95", "errors"}),
    ],
    ids=["G0", "G0 Gaussian", "G1", "G2"],
)
def test_every_answer_carries_its_sentence(how: dict[str, Any], says: str, hidden: set[str], tmp_path: Path) -> None:
    """G3; and a denial carries nothing."""
    from dosimeter import Dataset, Ledger

    data = PACKAGE / "data" / "clinic.csv"
    with (
        Dataset.open(data, schema=data.with_suffix(".toml")) as clinic,
        Ledger.open(tmp_path / "ledger.db") as ledger,
    ):
        smokers, drivers = (f"SELECT COUNT(*) FROM clinic WHERE {who}" for who in ("smoker", "age >= 18"))
        answer = clinic.release(smokers, ledger=ledger, policy="budget:11", max_epsilon=10.0, **how)
        assert says in (answer.guarantee or "")
        assert {field for field, value in answer.describe().items() if value is None} == hidden
        small = {"epsilon": 20.0} if "epsilon" in how else {"candidates": [20.0]}
        denied = clinic.release(drivers, ledger=ledger, **(how | small)).describe()
        assert denied == {"status": "denied"}
