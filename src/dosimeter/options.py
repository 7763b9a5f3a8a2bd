"""Declare the options of reading, looking and releasing once: their help, the values they take, and their range.

Feeds the command line's help, the keys of the server's settings, and the checks of every surface. A name here is a
keyword in Python and a key in TOML.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


def _declare(*pieces: Piece, **facts: Any) -> DeclaredOption:
    return DeclaredOption(pieces=pieces, **facts)


OPTIONS: Mapping[str, DeclaredOption] = {
    # How the data are read.
    "table": _declare("The table in a database, or what to call a file's table."),
    "engine": _declare("The engine that reads DATA; default duckdb."),
    "delimiter": _declare("CSV: the character between columns.", range=_CHARACTER),
    "encoding": _declare("CSV: the encoding, such as latin-1."),
    "null": _declare("CSV: how a missing value is written; default empty."),
    "decimal": _declare("CSV: the decimal mark, a comma or a point (default).", metavar=", or .", range=_MARK),
    "date_format": _declare(
        "CSV: how days are written, such as %d.%m.%Y; default 2024-12-31.", metavar="F", range=_DAYS
    ),
    # What a look at the risk depends on, besides the SQL.
    "mechanism": _declare("Which noise.", choices=get_args(MechanismName)),
    "delta": _declare("δ of the Gaussian mechanism; default 1/n^2.", metavar="D"),
    "calibration": _declare("Gaussian: zcdp (default), or classic as in the paper.", choices=get_args(Calibration)),
    "indicator": _declare(
        "RDR by the paper's bound, its exact expectation, or the bound over the numbers one person can reach.",
        choices=get_args(Indicator),
    ),
    "candidates": _declare("Candidate ε's: paper (37 values), or 1,0.5,0.1.", metavar="LIST"),
    "groups": _declare(
        "Declared groups, or thresholded: those of the data with enough people.", choices=get_args(Groups)
    ),
    "group_delta": _declare(
        "With ", Option("groups", "thresholded"), ": the chance (δ) that somebody alone in a group makes it appear.",
        metavar="D", kind=float, range=_SHARE,
    ),
    "sensitivity": _declare(
        "A sensitivity given by hand (study only; never backs a release).", metavar="X", kind=float, range=_POSITIVE
    ),
    "min_rows": _declare("A public lower bound on the rows an AVG matches.", metavar="R", kind=int, range=_WHOLE),
    "quantiles": _declare(
        "MIN, MAX, MEDIAN, quantiles: drawn by rank, or with noise as in the paper.", choices=get_args(Quantiles)
    ),
    # What a look shows of single people and of groups.
    "top": _declare("Also show the N most exposed records.", metavar="N", kind=int, range=_WHOLE),
    "by": _declare("Also median and largest RDR per group.", metavar="COLUMN"),
    "columns": _declare("Which columns ", Option("top"), " shows.", metavar="LIST"),
    "reveal": _declare("Show identifying columns, in ", Option("top"), " and ", Option("by"), ".", kind=bool),
    # How the ε of a release is set.
    "epsilon": _declare("Release at this fixed ε.", metavar="E", kind=float, range=_POSITIVE),
    "prefer": _declare("Find ε from a preference; ε stays hidden.", metavar="P"),
    "chosen": _declare(
        "With ", Option("prefer"), ": release at this candidate, which has to meet the preference too.",
        metavar="E", kind=float, range=_POSITIVE,
    ),
    "svt": _declare("Find and release ε: the budget of the noisy test.", metavar="EPS", kind=float, range=_POSITIVE),
    "variance": _declare(
        "With ", Option("svt"), ": the threshold on the normalised RDR's variance.", metavar="TAU", kind=float,
        range=_POSITIVE,
    ),
    "selection": _declare(
        "With ", Option("svt"), ": one noisy number, or the paper's sparse vector.", choices=get_args(Selection)
    ),
    "violation": _declare(
        "With ", Option("svt"), ": release an ε above the threshold with at most this chance, whatever the data.",
        metavar="BETA", kind=float, range=_SHARE,
    ),
    # The terms of a new account.
    "policy": _declare("How a new account may be spent.", metavar="paper|budget:E|budget:E@D"),
    "delta_total": _declare(
        "A new account's δ in all; default min(100/n², 1/n). Under budget:E@D the part of D for undeclared groups; "
        "default 0.",
        metavar="D",
        kind=float,
    ),
    "max_epsilon": _declare("A new account's cap on the ε of one query.", metavar="E", kind=float),
    # What else is said about a release.
    "analyst": _declare("Who asks, for the record.", metavar="NAME"),
    "purpose": _declare("What for, for the record.", metavar="TEXT"),
    "again": _declare("Answer anew, and charge anew, what was answered before.", kind=bool),
    "continued": _declare("The data changed, the people are the same: the account goes on.", kind=bool),
    "other_people": _declare("Other accounts that have individuals with the same keys hold other people.", kind=bool),
    "clamp": _declare("Post-processing: counts to 0 or more, AVG, MIN, MAX … to their bounds.", kind=bool),
}  # fmt: skip


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
