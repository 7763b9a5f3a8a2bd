"""The questions of a search for facts: given the same draws, every engine is asked the same and measures the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from dosimeter.engines.engine import Engine
from dosimeter.influence import Measured
from dosimeter.measures import Rank
from dosimeter.planning import QueryPlan
from dosimeter.release.facts import spending
from dosimeter.release.facts.declared import declare_facts, plan_search
from dosimeter.release.facts.questions import FactSearch
from dosimeter.release.thresholds import draw_numbers
from dosimeter.schema import Schema
from tests.conformance.engine_cases import on

Asked = list[tuple[QueryPlan, Measured]]


@pytest.mark.parametrize("unit", ["row", "id"])
@pytest.mark.parametrize("engine", [on(engine, smoke=True) for engine in ("postgres", "spark")])
def test_every_engine_measures_the_same(
    openers: dict[str, Callable[[], Engine]],
    schema: Schema,
    engine: str,
    unit: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    declared = declare_facts(replace(schema, reviewed=False), unit=unit)
    search = plan_search(declared, spend=Decimal(4_000), delta=Decimal("1e-3"))
    assert len(search.columns) == 8, "all but the id, and the flag, which needs no facts"
    drawn: list[Any] = []
    duckdb = _ask(openers["duckdb"](), search, drawn, monkeypatch)
    other = _ask(openers[engine](), search, drawn, monkeypatch)
    assert len(duckdb) == len(other) == (3 if unit == "id" else 2) + 2 * len(search.numbers) + len(search.texts)
    for (plan, one), (asked, found) in zip(duckdb, other, strict=True):
        assert plan == asked
        assert dict(zip(one.keys, one.values, strict=True)) == dict(zip(found.keys, found.values, strict=True)), (
            plan.sql
        )
        for at, rank in plan.ranks.items():
            assert isinstance(rank, Rank)
            assert rank.count(one.columns[at][0]).tolist() == rank.count(found.columns[at][0]).tolist(), plan.sql


def _ask(engine: Engine, search: FactSearch, drawn: list[Any], monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Every question with what was measured. The first engine's draws are given to the second one, too."""
    asked: Asked = []

    def answer(plan: QueryPlan, measured: Measured, noise: Any) -> Any:
        if len(drawn) == len(asked):
            drawn.append(draw_numbers(plan, measured, noise))
        asked.append((plan, measured))
        return drawn[len(asked) - 1]

    monkeypatch.setattr(spending, "draw_numbers", answer)
    try:
        engine.impose(search.declared)
        list(spending.Drawing(engine, search, lambda words: None).list_facts())
    finally:
        engine.close()
    return asked
