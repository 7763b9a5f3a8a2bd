"""The classes of measures, found by walking the package: not by any list that the package keeps of itself."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import dosimeter.measures
from dosimeter.measures import Measure


def list_measures() -> list[type[Measure]]:
    """Return every class of the package that can be made, by name."""
    modules = [
        importlib.import_module(f"{dosimeter.measures.__name__}.{module.name}")
        for module in pkgutil.iter_modules(dosimeter.measures.__path__)
    ]
    classes = {each for module in modules for _, each in inspect.getmembers(module, inspect.isclass)}
    found = [each for each in classes if issubclass(each, Measure) and not inspect.isabstract(each)]
    return sorted(found, key=lambda each: each.__name__)
