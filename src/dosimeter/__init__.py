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

from dosimeter.version import __version__

__all__ = ["Answer", "Choice", "Client", "Dataset", "DosimeterError", "Ledger", "Risk", "Schema", "__version__"]

if TYPE_CHECKING:
    from dosimeter.assessment import Risk
    from dosimeter.client import Client
    from dosimeter.dataset import Dataset
    from dosimeter.errors import DosimeterError
    from dosimeter.ledger import Ledger
    from dosimeter.release import Answer
    from dosimeter.risk import Choice
    from dosimeter.schema import Schema

_HOMES = {
    "Answer": "dosimeter.release",
    "Dataset": "dosimeter.dataset",
    "Risk": "dosimeter.assessment",
    "Choice": "dosimeter.risk.values",
    "Client": "dosimeter.client",
    "Schema": "dosimeter.schema",
    "DosimeterError": "dosimeter.errors",
    "Ledger": "dosimeter.ledger",
}


def __getattr__(name: str) -> object:
    """Public names are loaded when they are first used, so that a command starts fast."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'dosimeter' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
