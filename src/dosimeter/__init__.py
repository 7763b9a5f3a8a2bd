"""Dosimeter: choose and spend ε knowing whom it exposes.

from dosimeter import Budget, Dataset, Fixed, Ledger

adult = Dataset.open("adult.csv", schema="adult.toml")
query = adult.query("SELECT COUNT(*) FROM adult WHERE age = 25")
risk = query.risk()
risk.sensitivities.values, risk.sensitivities.counts     # distinct per-instance sensitivities
risk.rdr(0.1).values                                     # RDRs at ε = 0.1, same order
risk.find("MIN(rdr) / MAX(rdr) >= 0.95").epsilon         # the largest ε that meets the preference
risk.people(10)                                          # the most exposed records
risk.plot()                                              # the range plot, an Altair chart
with Ledger.open("ledger.db") as ledger:
    answer = query.release(ledger, Fixed(0.05), policy=Budget(2))
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
    "Budget",
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
    "Fixed",
    "FoundSchema",
    "InputError",
    "Interrupted",
    "Ledger",
    "LedgerError",
    "LimitError",
    "OptionError",
    "Paper",
    "PreferenceError",
    "Preferred",
    "Query",
    "QueryError",
    "ReleaseOptions",
    "Risk",
    "Schema",
    "SchemaCheck",
    "SchemaError",
    "Selected",
    "ServerError",
    "SourceUnreachable",
    "Summary",
    "__version__",
]

if TYPE_CHECKING:
    from dosimeter.assessment import Risk
    from dosimeter.client import Client
    from dosimeter.dataset import Dataset
    from dosimeter.findings import Choice
    from dosimeter.inspection import SchemaCheck
    from dosimeter.ledger import Budget, Ledger, Paper
    from dosimeter.options import ReleaseOptions
    from dosimeter.planning import Explanation
    from dosimeter.query import Query
    from dosimeter.release import Answer, DryRun, Fixed, FoundSchema, Preferred, Selected
    from dosimeter.schema import Schema
    from dosimeter.summary import Summary

__getattr__ = late_names.load_late(
    __name__,
    {
        "assessment": ("Risk",),
        "client": ("Client",),
        "dataset": ("Dataset",),
        "findings": ("Choice",),
        "inspection": ("SchemaCheck",),
        "ledger": ("Budget", "Ledger", "Paper"),
        "options": ("ReleaseOptions",),
        "planning": ("Explanation",),
        "query": ("Query",),
        "release": ("Answer", "DryRun", "Fixed", "FoundSchema", "Preferred", "Selected"),
        "schema": ("Schema",),
        "summary": ("Summary",),
    },
)


def __dir__() -> list[str]:
    return __all__
