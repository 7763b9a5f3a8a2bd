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

from dosimeter import late_names
from dosimeter.errors import (
    ConnectionLost,
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
    "ConnectionLost",
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
    from dosimeter.findings import Choice
    from dosimeter.inspection import SchemaCheck
    from dosimeter.ledger import Ledger
    from dosimeter.planning import Explanation
    from dosimeter.release import Answer, DryRun, ReleaseOptions
    from dosimeter.schema import Schema

__getattr__ = late_names.load_late(
    __name__,
    {
        "Answer": "release",
        "Choice": "findings",
        "Client": "client",
        "Dataset": "dataset",
        "DryRun": "release",
        "Explanation": "planning",
        "Ledger": "ledger",
        "ReleaseOptions": "release",
        "Risk": "assessment",
        "Schema": "schema",
        "SchemaCheck": "inspection",
    },
)


def __dir__() -> list[str]:
    return __all__
