"""Dosimeter: choose and spend ε knowing whom it exposes.

from dosimeter import Dataset

adult = Dataset.open("adult.csv", schema="adult.toml")
risk = adult.risk("SELECT COUNT(*) FROM adult WHERE age = 25")
risk.sensitivities.values, risk.sensitivities.counts     # distinct per-instance sensitivities
risk.rdr(0.1).values                                     # RDRs at ε = 0.1, same order
risk.find("MIN(rdr) / MAX(rdr) >= 0.95").epsilon         # the largest ε that meets the preference
risk.people(10)                                          # the most exposed records
risk.plot()                                              # the range plot, an Altair chart
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dosimeter.errors import (
    DataError,
    DatasetClosed,
    DatasetStopped,
    DosimeterError,
    InputError,
    Interrupted,
    LedgerError,
    LimitError,
    OptionError,
    PreferenceError,
    QueryError,
    SchemaError,
    ServerError,
    SourceUnreachable,
)
from dosimeter.version import __version__

__all__ = [
    "Answer",
    "Choice",
    "Client",
    "DataError",
    "Dataset",
    "DatasetClosed",
    "DatasetStopped",
    "DosimeterError",
    "DryRun",
    "Explanation",
    "InputError",
    "Interrupted",
    "Ledger",
    "LedgerError",
    "LimitError",
    "OptionError",
    "PreferenceError",
    "QueryError",
    "ReleaseOptions",
    "Risk",
    "Schema",
    "SchemaCheck",
    "SchemaError",
    "ServerError",
    "SourceUnreachable",
    "__version__",
]

if TYPE_CHECKING:
    from dosimeter.assessment import Risk
    from dosimeter.client import Client
    from dosimeter.dataset import Dataset
    from dosimeter.inspection import SchemaCheck
    from dosimeter.ledger import Ledger
    from dosimeter.planning import Explanation
    from dosimeter.release import Answer, DryRun, ReleaseOptions
    from dosimeter.risk import Choice
    from dosimeter.schema import Schema

_HOMES = {
    "Answer": "dosimeter.release",
    "Choice": "dosimeter.risk",
    "Client": "dosimeter.client",
    "Dataset": "dosimeter.dataset",
    "DryRun": "dosimeter.release",
    "Explanation": "dosimeter.planning",
    "Ledger": "dosimeter.ledger",
    "ReleaseOptions": "dosimeter.release",
    "Risk": "dosimeter.assessment",
    "Schema": "dosimeter.schema",
    "SchemaCheck": "dosimeter.inspection",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first used, so that a command starts fast."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'dosimeter' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
