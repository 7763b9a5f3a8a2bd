"""Release as earlier versions could, MIN, MEDIAN … with noise: such entries stay readable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from dosimeter.options import LookOptions, Study
from dosimeter.planning import PlanOptions, plan_options


def _with_noise(look: LookOptions) -> PlanOptions:
    return plan_options(replace(look, study=Study(quantiles="noise")))


@contextmanager
def noise_for_quantiles() -> Iterator[None]:
    """Let every release inside of ``with`` draw noise for MIN, MEDIAN … instead of drawing by rank."""
    with patch("dosimeter.release.prepare.plan_options", _with_noise):
        yield
