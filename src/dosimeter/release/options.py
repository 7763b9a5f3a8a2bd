"""The options of a release as keywords: what ``Dataset.release`` and ``Dataset.dry_run`` take, declared once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from dosimeter.options import Groups, Indicator, MechanismName, Selection
from dosimeter.planning import LookOptions
from dosimeter.release.order import ReleaseOrder, Terms
from dosimeter.release.ways.read_way import read_way
from dosimeter.risk import PreferenceFunction


class ReleaseOptions(TypedDict, total=False):
    """The options of a release: how ε is set, the terms of a new account, which noise is drawn, and what is recorded.

    Exactly one way sets ε: ``epsilon``; or ``prefer``; or ``svt`` with ``variance``. None counts as not given.
    """

    epsilon: float | None
    """A fixed ε."""
    prefer: str | PreferenceFunction | None
    """A preference: ε is found from it, and the analyst is told neither ε nor an error."""
    chosen: float | None
    """With ``prefer``: a candidate that meets the preference too, to take instead of the largest."""
    svt: float | None
    """The ε that the noisy test may spend on finding ε; goes with ``variance``."""
    variance: float | None
    """The threshold of the noisy test: the largest variance of the normalised RDRs."""
    selection: Selection
    """Which noisy test: sharp (the default), or as in the paper."""
    violation: float | None
    """A public promise: an ε that violates the threshold is released with at most this probability."""
    policy: str | None
    """How the account may be spent: ``"paper"``, ``"budget:2"`` or ``"budget:2@1e-06"``. Needed to open an account."""
    delta_total: float | str | None
    """The δ of all the account's answers together; with ``budget:E@D`` only the δ of thresholded groups."""
    max_epsilon: float | str | None
    """The largest ε of a single answer of the account."""
    mechanism: MechanismName
    """Which noise; Laplace by default."""
    delta: float | str | None
    """The δ of Gaussian noise; ``"1/n^2"`` by default."""
    indicator: Indicator
    """How the RDR is computed: ``"bound"`` (the paper's, the default), ``"exact"`` or ``"cell"``."""
    candidates: str | Sequence[float] | None
    """The ε's among which one is found; by default the paper's 37."""
    groups: Groups
    """``"declared"`` groups (the default), or ``"thresholded"``: those of the data with enough people."""
    group_delta: float | None
    """With thresholded groups: the probability at which somebody alone in a group makes it appear. It is charged."""
    min_rows: int | None
    """A public lower bound on the rows that an AVG matches."""
    analyst: str | None
    """Who asked; the ledger records it."""
    purpose: str | None
    """What the answer is for; the ledger records it."""
    again: bool
    """Draw a new answer, and charge for it, even if the ledger could repeat an earlier one."""
    continued: bool
    """Say that the data or the schema changed and the people are the same, so that the account goes on."""
    other_people: bool
    """Say that other accounts hold other people, although individuals have the same keys there."""
    clamp: bool
    """Put noisy numbers back into their bounds."""


_WAY = ("epsilon", "prefer", "chosen", "svt", "variance", "selection", "violation")
_TERMS = ("policy", "delta_total", "max_epsilon")
_LOOK = ("mechanism", "delta", "indicator", "candidates", "groups", "min_rows", "group_delta")


def read_options(options: Mapping[str, Any], caller: str) -> tuple[LookOptions, ReleaseOrder]:
    """Return the options of the query and the order of the release. ``caller``: the function's name, for a TypeError.

    Raises:
        TypeError: there is no option of a given name; worded as Python words an unknown keyword argument.
        OptionError: an option is out of range, or several exclude each other.
    """
    unknown = [name for name in options if name not in ReleaseOptions.__annotations__]
    if unknown:
        raise TypeError(f"{caller}() got an unexpected keyword argument {unknown[0]!r}")

    def take(names: Sequence[str]) -> dict[str, Any]:
        return {name: options[name] for name in names if name in options}

    others = {name: value for name, value in options.items() if name not in (*_WAY, *_TERMS, *_LOOK)}
    look = LookOptions(**take(_LOOK))
    return look, ReleaseOrder(read_way(**take(_WAY)), terms=Terms(**take(_TERMS)), **others)
