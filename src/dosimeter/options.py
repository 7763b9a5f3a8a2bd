"""Declare the options of reading, looking and releasing once: as fields with their help, values and range.

From the fields come the command line's options, the reference, the help of the keys of the server's settings, and what
``check_option`` refuses. A field's name is a keyword in Python and a key in TOML.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any, Literal, get_args

from dosimeter.errors import OptionError
from dosimeter.problems import Option, Piece, Problem, Surface

MechanismName = Literal["laplace", "gaussian"]
Calibration = Literal["zcdp", "classic"]
Indicator = Literal["bound", "exact", "cell"]
Groups = Literal["declared", "thresholded"]
StudiedGroups = Literal["declared", "observed", "thresholded"]
Selection = Literal["sharp", "paper"]
Quantiles = Literal["ranks", "noise"]
View = Literal["relative", "raw", "worlds"]


@dataclass(frozen=True, slots=True)
class Range:
    """The values that an option takes: ``must`` says in words what they are, ``holds`` tests whether a value is one."""

    must: str
    holds: Callable[[Any], bool]


_POSITIVE = Range("must be a positive number", lambda value: 0.0 < value < math.inf)
_SHARE = Range("must be a number strictly between 0 and 1", lambda value: 0.0 < value < 1.0)
_WHOLE = Range("must be a whole number, at least 1", lambda value: value >= 1)
_CHARACTER = Range("must be one character", lambda value: len(value) == 1)
_MARK = Range("must be a comma or a point", lambda value: value in (",", "."))
_DAY_FORM = re.compile(r"(%[dmY]|[^%\w\\\[\]^])*([ T]%H:%M(:%S)?)?")
_DAYS = Range(
    "must have %d, %m and %Y once each, with marks between them, as in %d.%m.%Y or %m/%d/%Y",
    lambda value: _DAY_FORM.fullmatch(value) is not None and all(value.count(part) == 1 for part in ("%d", "%m", "%Y")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredOption:
    """One option: its help, the type of its values (``kind``), and which values it takes (``choices`` or ``range``).

    ``pieces``: the help as pieces of a message: text, and the options that it mentions. ``metavar``: what stands for a
    value in the help, such as FILE.
    """

    pieces: tuple[Piece, ...]
    metavar: str | None = None
    kind: type = str
    choices: tuple[str, ...] = ()
    range: Range | None = None

    @property
    def help(self) -> str:
        """Return the help as the command line words it."""
        return Problem(*self.pieces).word(Surface.COMMAND_LINE)


def _declare(*pieces: Piece, default: Any = None, **facts: Any) -> Any:
    """Return a field of a dataclass that is an option. ``facts``: further facts of its DeclaredOption."""
    return field(default=default, metadata={"option": DeclaredOption(pieces=pieces, **facts)})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How the data are read."""

    table: str | None = _declare("The table in a database, or what to call a file's table.")
    engine: str | None = _declare("The engine that reads DATA; default duckdb.")
    delimiter: str | None = _declare("CSV: the character between columns.", range=_CHARACTER)
    encoding: str | None = _declare("CSV: the encoding, such as latin-1.")
    null: str | None = _declare("CSV: how a missing value is written; default empty.")
    decimal: str | None = _declare(
        "CSV: the decimal mark, a comma or a point (default).", metavar=", or .", range=_MARK
    )
    date_format: str | None = _declare(
        "CSV: how days are written, such as %d.%m.%Y; default 2024-12-31.", metavar="F", range=_DAYS
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """How the paper measures and no release may: only a look takes it.

    ``observed``: whether groups are all those of the data (C8). ``calibration``: how the scale of Gaussian noise
    follows from ε and δ; None for zcdp (M2). ``sensitivity``: given by hand (S7). ``quantiles``: whether MIN, MEDIAN …
    are drawn by rank or get noise (S3).
    """

    observed: bool = False
    calibration: Calibration | None = _declare(
        "Gaussian: zcdp (default), or classic as in the paper.", choices=get_args(Calibration)
    )
    sensitivity: float | None = _declare(
        "A sensitivity given by hand (study only; never backs a release).", metavar="X", kind=float, range=_POSITIVE
    )
    quantiles: Quantiles = _declare(
        "MIN, MAX, MEDIAN, quantiles: drawn by rank, or with noise as in the paper.",
        default="ranks", choices=get_args(Quantiles),
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_option("calibration", self.calibration, optional=True)
        check_option("quantiles", self.quantiles)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookOptions:
    """How a query is measured, besides its SQL: the same for a look at its risk and for a release.

    A release refuses every ``study`` but the default.
    """

    mechanism: MechanismName = _declare("Which noise.", default="laplace", choices=get_args(MechanismName))
    delta: float | str | None = _declare("δ of the Gaussian mechanism; default 1/n^2.", metavar="D")
    indicator: Indicator = _declare(
        "RDR by the paper's bound, its exact expectation, or the bound over the numbers one person can reach.",
        default="bound", choices=get_args(Indicator),
    )  # fmt: skip
    candidates: str | Sequence[float] | None = _declare(
        "Candidate ε's: paper (37 values), or 1,0.5,0.1.", metavar="LIST"
    )
    groups: Groups = _declare(
        "Declared groups, or thresholded: those of the data with enough people.",
        default="declared", choices=get_args(Groups),
    )  # fmt: skip
    min_rows: int | None = _declare(
        "A public lower bound on the rows an AVG matches.", metavar="R", kind=int, range=_WHOLE
    )
    group_delta: float | None = _declare(
        "With ", Option("groups", "thresholded"), ": the chance (δ) that somebody alone in a group makes it appear.",
        metavar="D", kind=float, range=_SHARE,
    )  # fmt: skip
    tell_cut: float | None = _declare(
        "Also answer, for the share S of ε, how many people's rows or values did not count as they are.",
        metavar="S", kind=float, range=_SHARE,
    )  # fmt: skip
    study: Study = field(default_factory=Study)

    def __post_init__(self) -> None:
        for name in ("mechanism", "indicator", "groups"):
            check_option(name, getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOptions:
    """How a release finds ε, the terms of a new account, and what else is said about it.

    Exactly one way sets ε: ``epsilon``; or ``prefer``, perhaps with ``chosen``; or ``svt`` with ``variance``.
    """

    epsilon: float | None = _declare("Release at this fixed ε.", metavar="E", kind=float, range=_POSITIVE)
    prefer: Any = _declare("Find ε from a preference; ε stays hidden.", metavar="P")
    chosen: float | None = _declare(
        "With ", Option("prefer"), ": release at this candidate, which has to meet the preference too.",
        metavar="E", kind=float, range=_POSITIVE,
    )  # fmt: skip
    svt: float | None = _declare(
        "Find and release ε: the budget of the noisy test.", metavar="EPS", kind=float, range=_POSITIVE
    )
    variance: float | None = _declare(
        "With ", Option("svt"), ": the threshold on the normalised RDR's variance.", metavar="TAU", kind=float,
        range=_POSITIVE,
    )  # fmt: skip
    selection: Selection = _declare(
        "With ", Option("svt"), ": one noisy number, or the paper's sparse vector.",
        default="sharp", choices=get_args(Selection),
    )  # fmt: skip
    violation: float | None = _declare(
        "With ", Option("svt"), ": release an ε above the threshold with at most this chance, whatever the data.",
        metavar="BETA", kind=float, range=_SHARE,
    )  # fmt: skip
    policy: Any = _declare("How a new account may be spent.", metavar="paper|budget:E|budget:E@D")
    delta_total: float | str | None = _declare(
        "A new account's δ in all; default min(100/n², 1/n). Under budget:E@D the part of D for undeclared groups; "
        "default 0.",
        metavar="D", kind=float,
    )  # fmt: skip
    max_epsilon: float | str | None = _declare("A new account's cap on the ε of one query.", metavar="E", kind=float)
    analyst: str | None = _declare("Who asks, for the record.", metavar="NAME")
    purpose: str | None = _declare("What for, for the record.", metavar="TEXT")
    again: bool = _declare("Answer anew, and charge anew, what was answered before.", default=False, kind=bool)
    continued: bool = _declare(
        "The data changed, the people are the same: the account goes on.", default=False, kind=bool
    )
    other_people: bool = _declare(
        "Other accounts that have individuals with the same keys hold other people.", default=False, kind=bool
    )
    clamp: bool = _declare(
        "Post-processing: counts to 0 or more, AVG, MIN, MAX … to their bounds.", default=False, kind=bool
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownOptions:
    """What a look shows of single people and of groups."""

    top: int | None = _declare("Also show the N most exposed records.", metavar="N", kind=int, range=_WHOLE)
    by: str | None = _declare("Also median and largest RDR per group.", metavar="COLUMN")
    columns: str | None = _declare("Which columns ", Option("top"), " shows.", metavar="LIST")
    reveal: bool = _declare(
        "Show identifying columns, in ", Option("top"), " and ", Option("by"), ".", default=False, kind=bool
    )
    view: View | None = _declare(
        "Which picture ", Option("plot"), " saves: RDRs relative to the average person (default), raw RDRs, or what "
        "may be released with the most exposed person and without, at the first ε.",
        choices=get_args(View),
    )  # fmt: skip


OPTIONS: Mapping[str, DeclaredOption] = {
    each.name: each.metadata["option"]
    for kind in (SourceOptions, LookOptions, Study, ShownOptions, ReleaseOptions)
    for each in fields(kind)
    if "option" in each.metadata
}


def read_look(
    *,
    groups: StudiedGroups = "declared",
    calibration: Calibration | None = None,
    sensitivity: float | None = None,
    quantiles: Quantiles = "ranks",
    **options: Any,
) -> LookOptions:
    """Return the options of a look, its study among them. ``options``: the other fields of LookOptions."""
    study = Study(observed=groups == "observed", calibration=calibration, sensitivity=sensitivity, quantiles=quantiles)
    return LookOptions(groups="declared" if groups == "observed" else groups, study=study, **options)


_KINDS: Mapping[type, tuple[type, ...]] = {float: (numbers.Real, Decimal), int: (numbers.Integral,), str: (str,)}


def check_option(name: str, value: object, *, optional: bool = False) -> None:
    """Refuse a value that the option of this name does not take.

    ``optional``: accept None, which stands for an option left out. Raises OptionError.
    """
    declared = OPTIONS[name]
    if value is None and optional:
        return
    if declared.choices and value not in declared.choices:
        raise OptionError(Option(name), f" must be one of {', '.join(declared.choices)}.")
    if declared.range is None:
        return
    fits = isinstance(value, _KINDS[declared.kind]) and not isinstance(value, bool)
    if not fits or not declared.range.holds(value):
        raise OptionError(Option(name), f" {declared.range.must}.")
