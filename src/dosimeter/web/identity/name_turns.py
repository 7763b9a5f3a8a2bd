"""Let strangers' attempts at a user name through one at a time, and whoever tried it least goes first.

Once many wrong passwords were tried for a name, it is slowed down: after each attempt there is a pause, whatever comes
from how many addresses, so that wrong guesses stay few. Who is next is decided by how often each address has tried the
name: somebody who guesses waits behind their own guesses, and the owner on a new device, who tries once, is next. Used
from the server's event loop alone; devices that signed in before do not come here.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from dosimeter.web.identity.throttle import PAUSE, Throttled

MOST_WAITING = 20  # at one name
FEW_TRIES = 3  # of an address that may still be a usual one
LONGEST_WAIT = 15.0  # seconds
MOST_REMEMBERED = 50_000  # addresses and the names that they tried


@dataclass(slots=True, eq=False)
class Attempt:
    """An attempt at a name. ``usual``: the user signed in from this address before.

    ``slowed``: set by whoever has the turn, if the name is slowed down: a pause follows.
    """

    network: str
    usual: bool
    turn: asyncio.Future[None]
    slowed: bool = False


@dataclass(slots=True)
class _Line:
    """The attempts that wait for one name. ``ready_at``: when the next may go; ``busy``: somebody has the turn."""

    ready_at: float = 0.0
    busy: bool = False
    waiting: list[Attempt] = field(default_factory=list)


class NameTurns:
    """The lines of attempts, one for each user name that is being tried."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._tries: OrderedDict[tuple[str, str], int] = OrderedDict()

    def refuse_hopeless(self, name: str, network: str) -> None:
        """Raise Throttled if the address has tried this name often and would find a full line before it.

        Reads no database, so that many such attempts cost little.
        """
        line, tries = self._lines.get(name), self._tries.get((name, network), 0) + 1
        if line is None or len(line.waiting) < MOST_WAITING or tries <= FEW_TRIES:
            return
        if all(self._rank(name, other) <= tries for other in line.waiting):
            self._count(name, network)
            raise Throttled(slowed=True)

    @asynccontextmanager
    async def take_turn(self, name: str, network: str, *, usual: bool = False) -> AsyncIterator[Attempt]:
        """Wait for the turn of an attempt at this name, and keep the turn for the ``async with`` block.

        ``usual``: the user signed in from this address before; then the attempt goes first. Raises Throttled if the
        line is full of others who go first, or if the turn does not come in time.
        """
        loop = asyncio.get_running_loop()
        line = self._lines.setdefault(name, _Line())
        attempt = Attempt(network, usual, loop.create_future())
        self._count(name, network)
        line.waiting.append(attempt)
        if len(line.waiting) > MOST_WAITING:
            last = max(reversed(line.waiting), key=lambda each: self._rank(name, each))  # of equals the newest
            line.waiting.remove(last)
            _give_up(last)
        self._call_next(name)
        timer = loop.call_later(LONGEST_WAIT, _give_up, attempt)
        try:
            await attempt.turn
            yield attempt
        finally:
            timer.cancel()
            if attempt in line.waiting:
                line.waiting.remove(attempt)
            elif attempt.turn.done() and not attempt.turn.cancelled() and attempt.turn.exception() is None:
                line.busy, line.ready_at = False, loop.time() + PAUSE * attempt.slowed
            self._call_next(name)

    def forget(self, name: str, network: str) -> None:
        """Forget what was tried from an address: the password was right."""
        self._tries.pop((name, network), None)

    def _count(self, name: str, network: str) -> None:
        self._tries[name, network] = self._tries.pop((name, network), 0) + 1
        while len(self._tries) > MOST_REMEMBERED:
            self._tries.popitem(last=False)

    def _rank(self, name: str, attempt: Attempt) -> int:
        return 0 if attempt.usual else self._tries.get((name, attempt.network), 1)

    def _call_next(self, name: str) -> None:
        """Give the turn to whoever is next, when the pause is over; forget a line in which nobody waits."""
        line, loop = self._lines.get(name), asyncio.get_running_loop()
        if line is None or line.busy:
            return
        if loop.time() < line.ready_at:
            loop.call_at(line.ready_at, self._call_next, name)
            return
        line.waiting = [each for each in line.waiting if not each.turn.done()]
        if not line.waiting:
            del self._lines[name]
            return
        first = min(line.waiting, key=lambda each: self._rank(name, each))
        line.waiting.remove(first)
        line.busy = True
        first.turn.set_result(None)


def _give_up(attempt: Attempt) -> None:
    if not attempt.turn.done():
        attempt.turn.set_exception(Throttled(slowed=True))
