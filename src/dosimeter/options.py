"""Declare the options of reading, looking and releasing once: their help, the values they take, and their range.

Feeds the command line's help, the keys of the server's settings, and the checks of every surface. A name here is a
keyword in Python and a key in TOML.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from dosimeter.errors import OptionError
from dosimeter.problems import Option, Piece, Problem, Surface

MechanismName = Literal["laplace", "gaussian"]
Calibration = Literal["zcdp", "classic"]
Indicator = Literal["bound", "exact"]
Groups = Literal["declared", "observed"]
Method = Literal["closed-form", "recompute"]
Selection = Literal["sharp", "paper"]


@dataclass(frozen=True, slots=True)
class Range:
    """The values of an option: what they must be, in words, and whether one of them is."""

    must: str
    holds: Callable[[Any], bool]


_POSITIVE = Range("must be a positive number", lambda value: 0.0 < value < math.inf)
_WHOLE = Range("must be at least 1", lambda value: value >= 1)
_CHARACTER = Range("must be one character", lambda value: len(value) == 1)


class Declared:
    """One option: its help in pieces, the kind of its values, and which of these it takes."""

    __slots__ = ("_help", "choices", "kind", "metavar", "range")

    def __init__(
        self,
        *pieces: Piece,
        metavar: str | None = None,
        kind: type = str,
        one_of: Any = None,
        within: Range | None = None,
    ) -> None:
        self._help = Problem(*pieces)
        self.metavar = metavar
        self.kind = kind
        self.choices: tuple[str, ...] = get_args(one_of)
        self.range = within

    @property
    def help(self) -> str:
        """Return what the command line's help says of it."""
        return self._help.word(Surface.COMMAND_LINE)


OPTIONS: Mapping[str, Declared] = {
    # How the data are read.
    "table": Declared("The table in a database, or what to call a file's table."),
    "engine": Declared("The engine that reads DATA; default duckdb."),
    "delimiter": Declared("CSV: the character between columns.", within=_CHARACTER),
    "encoding": Declared("CSV: the encoding, such as latin-1."),
    "null": Declared("CSV: how a missing value is written; default empty."),
    # What a look at the risk depends on, besides the SQL.
    "mechanism": Declared("Which noise.", one_of=MechanismName),
    "delta": Declared("δ of the Gaussian mechanism; default 1/n^2.", metavar="D"),
    "calibration": Declared("Gaussian: zcdp (default), or classic as in the paper.", one_of=Calibration),
    "indicator": Declared("RDR by the paper's bound, or its exact expectation.", one_of=Indicator),
    "candidates": Declared("Candidate ε's: paper (37 values), or 1,0.5,0.1.", metavar="LIST"),
    "groups": Declared("Declared groups, or observed ones (study only).", one_of=Groups),
    "method": Declared("Closed form, or really leaving out each distinct record.", one_of=Method),
    "sensitivity": Declared(
        "A Δ given by hand (study only; never backs a release).", metavar="X", kind=float, within=_POSITIVE
    ),
    "min_rows": Declared("A public lower bound on the rows an AVG matches.", metavar="R", kind=int, within=_WHOLE),
    # What a look shows of single people and of groups.
    "top": Declared("Also show the N most exposed records.", metavar="N", kind=int, within=_WHOLE),
    "by": Declared("Also median and largest RDR per group.", metavar="COLUMN"),
    "columns": Declared("Which columns ", Option("top"), " shows.", metavar="LIST"),
    "reveal": Declared("Show identifying columns, in ", Option("top"), " and ", Option("by"), ".", kind=bool),
    # How the ε of a release is set.
    "epsilon": Declared("Release at this fixed ε.", metavar="E", kind=float, within=_POSITIVE),
    "prefer": Declared("Find ε from a preference (algorithm 1); ε stays hidden.", metavar="P"),
    "svt": Declared("Find and release ε: the budget of the noisy test.", metavar="EPS", kind=float, within=_POSITIVE),
    "variance": Declared(
        "With ", Option("svt"), ": the threshold on the normalised RDR's variance.", metavar="TAU", kind=float,
        within=_POSITIVE,
    ),
    "selection": Declared(
        "With ", Option("svt"), ": one noisy number, or the paper's sparse vector.", one_of=Selection
    ),
    # The terms of a new account.
    "policy": Declared("How a new account may be spent.", metavar="paper|budget:E"),
    "delta_total": Declared("A new account's δ_g; default min(100/n², 1/n).", metavar="D", kind=float),
    "max_epsilon": Declared("A new account's cap on the ε of one query.", metavar="E", kind=float),
    # What else is said about a release.
    "analyst": Declared("Who asks, for the record.", metavar="NAME"),
    "purpose": Declared("What for, for the record.", metavar="TEXT"),
    "again": Declared("Answer anew, and charge anew, what was answered before.", kind=bool),
    "continued": Declared("The data changed, the people are the same: the account goes on.", kind=bool),
    "other_people": Declared("A new account: those of version 0.1.0 not used since hold other people.", kind=bool),
    "clamp": Declared("Post-processing: counts to 0 or more, AVG, MIN, MAX … to their bounds.", kind=bool),
}  # fmt: skip


def check_option(name: str, value: object) -> None:
    """Refuse a value that the option does not take. None stands for an option that was left out."""
    declared = OPTIONS[name]
    if value is None:
        return
    if declared.choices and value not in declared.choices:
        raise OptionError(Option(name), f" must be one of {', '.join(declared.choices)}.")
    if declared.range is not None and not declared.range.holds(value):
        raise OptionError(Option(name), f" {declared.range.must}.")
