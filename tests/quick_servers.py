"""Servers that start and end sooner: hundreds of tests have one of their own. What they answer is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType
from typing import Any

import jinja2
import pytest
import uvicorn.server

from dosimeter.web import state
from dosimeter.web.check_processes import CheckProcesses

SHORTEST_REST = 0.01  # seconds


class KeptTemplates(jinja2.BytecodeCache):
    """What templates were compiled to, by their text: every server reads them, and compiles what another did not."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[str, str], CodeType | None] = {}

    def load_bytecode(self, bucket: Any) -> None:
        bucket.code = self._compiled.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Any) -> None:
        self._compiled[bucket.key, bucket.checksum] = bucket.code


class ShortRests:
    """asyncio, as uvicorn sees it: uvicorn looks ten times a second whether it is to end, and then rests a tenth."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, SHORTEST_REST))


class SharedProcesses(CheckProcesses):
    """The processes for checks of all servers: each would begin its own, and they load more than the tests do."""

    def warm(self) -> None:
        """Leave it to the first check."""

    def close(self) -> None:
        """Go on: another server uses them."""

    def close_for_good(self) -> None:
        super().close()


@contextmanager
def make_servers_quick() -> Iterator[None]:
    kept, shared = KeptTemplates(), SharedProcesses()
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        stack.callback(shared.close_for_good)
        patch.setattr(state, "CheckProcesses", lambda: shared)
        patch.setattr(uvicorn.server, "asyncio", ShortRests())
        # Whatever an environment is made with, it has this one.
        patch.setattr(jinja2.Environment, "bytecode_cache", property(lambda _: kept, lambda *_: None), raising=False)
        yield
