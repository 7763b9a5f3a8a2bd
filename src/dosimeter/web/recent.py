"""Remember what was read or done lately, so that it is not read or done again. Used by any thread."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Values by key, at most ``most`` of them: the oldest is forgotten first."""

    def __init__(self, most: int = 1_000) -> None:
        self._most = most
        self._kept: OrderedDict[Key, tuple[float, Value]] = OrderedDict()
        self._guard = threading.Lock()

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def read(
        self,
        key: Key,
        read: Callable[[], Value],
        *,
        age: float = math.inf,
        lasts: Callable[[Value], bool] = lambda _: True,
    ) -> Value:
        """Return what was read under this key less than ``age`` seconds ago; otherwise read it, and keep it.

        ``lasts``: whether a value may be kept.
        """
        with self._guard:
            known = self._kept.get(key)
        if known is not None and time.monotonic() - known[0] < age:
            return known[1]
        value = read()
        if lasts(value):
            with self._guard:
                self._keep(key, value)
        return value

    def add(self, key: Key, value: Value) -> bool:
        """Keep a value under a key, unless there is one; return whether there was none."""
        with self._guard:
            if key in self._kept:
                return False
            self._keep(key, value)
            return True

    def _keep(self, key: Key, value: Value) -> None:
        self._kept[key] = (time.monotonic(), value)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def forget(self, key: Key) -> None:
        """Forget what is kept under a key."""
        with self._guard:
            self._kept.pop(key, None)
