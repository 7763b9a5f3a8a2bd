"""The rows of an engine's table as they are, for tests that measure without a Dataset."""

from __future__ import annotations

from dosimeter.engines import Engine
from dosimeter.influence import Rows


def whole_table(engine: Engine) -> Rows:
    return Rows(engine, engine.relation())
