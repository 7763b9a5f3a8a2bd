"""Load what a package offers when it is first used, so that a command starts fast."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module


def load_late(package: str, modules: Mapping[str, Collection[str]]) -> Callable[[str], object]:
    """Return a ``__getattr__`` for the package, which imports the module that defines the name asked for.

    ``modules``: by the name of each module within the package, the names that it defines.
    """
    places = {name: module for module, names in modules.items() for name in names}

    def find_name(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{places[name]}"), name)

    return find_name
