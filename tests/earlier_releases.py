"""Release as earlier versions could, MIN, MEDIAN … with noise: such entries stay readable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from dosimeter.planning import LookOptions, PlanOptions, Study

_plan_options = LookOptions.plan_options


def _with_noise(look: LookOptions) -> PlanOptions:
    return _plan_options(look, Study(quantiles="noise"))


@contextmanager
def noise_for_quantiles() -> Iterator[None]:
    """Let every release inside of ``with`` draw noise for MIN, MEDIAN … instead of drawing by rank."""
    with patch.object(LookOptions, "plan_options", _with_noise):
        yield
