"""Load what a package offers when it is first used, so that a command starts fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def load_late(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return a ``__getattr__`` for the package, which imports the module that defines the name asked for.

    ``modules``: for each name, the module within the package that defines it.
    """

    def find_name(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return find_name
