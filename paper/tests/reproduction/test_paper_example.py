"""The three-patient figure, against the numbers printed in section 4.1."""

from __future__ import annotations

import math
from fractions import Fraction

from dosimeter_paper.reproduction.example import compute_example
from reproduction.paper_command import Paper


def test_the_figure_is_the_papers() -> None:
    """PIS + 1/ε for one COUNT: 0 and 1, then 1 and 2, 10 and 11, 100 and 101; ratios 1/2, 10/11, 100/101."""
    found = compute_example()
    expected = {math.inf: (0, 0, 1), 1.0: (1, 1, 2), 0.1: (10, 10, 11), 0.01: (100, 100, 101)}
    assert {line.epsilon: line.rdr for line in found.lines} == expected
    ratios = [Fraction(1, 2), Fraction(10, 11), Fraction(100, 101)]
    assert [line.ratio for line in found.lines[1:]] == [float(ratio) for ratio in ratios]
    assert found.epsilon == 0.1


def test_command_prints_it(paper: Paper) -> None:
    shown = paper("example")
    assert shown.status == 0
    assert "ε = 0.1" in shown.out
    document = paper("example", "--json").document
    assert document["lines"][0] == {"epsilon": None, "rdr": [0.0, 0.0, 1.0], "ratio": 0.0}
    assert document["epsilon"] == 0.1
