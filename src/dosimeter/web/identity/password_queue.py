"""Limit how many passwords are verified at a time, because each takes much memory, and give every visitor a turn.

A visitor is an address, or a user on a device on which they signed in before. Each visitor has at most two attempts
under way, so that many attempts of one visitor do not delay others. Used from the server's event loop alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")
MOST_HASHED = 3  # passwords at a time
MOST_EACH = 2  # attempts of one visitor, running or waiting
MOST_WAITING = 200


class TooManyAttempts(Exception):
    """The error that too many passwords are being verified just now. Trying again shortly works."""


class PasswordQueue:
    """A queue of attempts at a password. Visitors take turns, and devices that signed in before go first.

    ``running``: how many attempts run at a time; ``each``: how many one visitor may have under way; ``waiting``: how
    many may wait.
    """

    def __init__(self, running: int = MOST_HASHED, each: int = MOST_EACH, waiting: int = MOST_WAITING) -> None:
        self._threads = ThreadPoolExecutor(max_workers=running, thread_name_prefix="password")
        self._free = running
        self._each = each
        self._most = waiting
        self._under_way: Counter[str] = Counter()
        self._first: dict[str, deque[asyncio.Future[None]]] = {}  # a queue per visitor, in the order of turns
        self._rest: dict[str, deque[asyncio.Future[None]]] = {}

    async def run(self, visitor: str, work: Callable[[], Result], *, known: bool = False) -> Result:
        """Do the work in one of the queue's threads, when it is this visitor's turn, and return its result.

        ``known``: the visitor's device signed in before. Raises TooManyAttempts if the visitor has too many attempts
        under way, if very many visitors wait, or if this attempt has to make room for another visitor's.
        """
        if self._under_way[visitor] >= self._each:
            raise TooManyAttempts
        self._under_way[visitor] += 1
        try:
            await self._wait_for_turn(visitor, self._first if known else self._rest, known=known)
            try:
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
            finally:
                self._free += 1
                self._call_next()
        finally:
            self._under_way[visitor] -= 1
            if not self._under_way[visitor]:
                del self._under_way[visitor]

    async def _wait_for_turn(self, visitor: str, lines: dict[str, deque[asyncio.Future[None]]], *, known: bool) -> None:
        if self._free:
            self._free -= 1
            return
        if self._count_waiting() >= self._most:
            self._drop_one_waiting(visitor, known=known)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lines.setdefault(visitor, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the turn was granted, but its request was cancelled: pass it on
                self._free += 1
                self._call_next()
            raise
        finally:
            if visitor in lines and turn in lines[visitor]:
                lines[visitor].remove(turn)
                if not lines[visitor]:
                    del lines[visitor]

    def _count_waiting(self) -> int:
        return sum(len(line) for lines in (self._first, self._rest) for line in lines.values())

    def _drop_one_waiting(self, visitor: str, *, known: bool) -> None:
        """Refuse an attempt that waits, to make room for a new one of ``visitor``.

        Never refuses a waiting attempt from a device that signed in before. If ``visitor`` has no other attempt under
        way, refuses one of somebody with several attempts waiting. If nobody has several, refuses anybody's, but only
        if the new attempt is from a device that signed in before (``known``). Otherwise raises TooManyAttempts: the
        new attempt itself is refused.
        """
        greedy = [name for name, line in self._rest.items() if len(line) > 1] if self._under_way[visitor] == 1 else []
        spare = greedy or (list(self._rest) if known else [])
        if not spare:
            raise TooManyAttempts
        turn = self._rest[spare[-1]].pop()
        if not self._rest[spare[-1]]:
            del self._rest[spare[-1]]
        if not turn.done():  # its request may have been cancelled in this very moment
            turn.set_exception(TooManyAttempts())

    def _call_next(self) -> None:
        for lines in (self._first, self._rest):
            while self._free and lines:
                visitor, line = next(iter(lines.items()))
                del lines[visitor]
                turn = line.popleft() if line else None
                if line:
                    lines[visitor] = line  # this visitor goes to the end of the queue
                if turn is not None and not turn.done():
                    self._free -= 1
                    turn.set_result(None)

    def close(self) -> None:
        """Let no more attempts through; those that run are finished."""
        self._threads.shutdown(wait=False, cancel_futures=True)
