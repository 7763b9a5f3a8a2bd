"""COUNT(DISTINCT …): how far one individual can move it, against every way in which their rows can be spread (Q3)."""

from __future__ import annotations

import math
from itertools import product

import pytest

from dosimeter.measures import SensitivityFacts
from dosimeter.measures.distinct import count_different


@pytest.mark.parametrize("rows", range(1, 8))
@pytest.mark.parametrize("values", [1, 2, 3, 5, None])
@pytest.mark.parametrize("groups", range(1, 5))
def test_different_values_by_enumeration(rows: int, values: int | None, groups: int) -> None:
    """Q3: every way in which m rows of one individual can hold different values in G groups, by enumeration."""
    most = rows if values is None else min(values, rows)
    spread = [held for held in product(range(most + 1), repeat=groups) if sum(held) <= rows]
    facts = SensitivityFacts(rows, None, groups)
    delta_1, delta_2 = count_different(facts, values)
    assert delta_1 == max(sum(held) for held in spread)
    assert delta_2 == pytest.approx(math.sqrt(max(sum(count**2 for count in held) for held in spread)), rel=1e-12)
