"""Somebody guesses a password from many addresses: its owner gets in on a new device, and the guesses stay few."""

from __future__ import annotations

import asyncio
import re
import selectors
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
import sqlalchemy as sa

from dosimeter.web.identity import NameTurns, Throttled
from dosimeter.web.identity.name_turns import MOST_WAITING
from dosimeter.web.identity.throttle import PAUSE
from dosimeter.web.store.tables import AUDIT
from tests.known import known
from tests.waiting import wait_until
from tests.web.test_web_commands import end, start
from tests.web.test_web_limits import run_story
from tests.web.web_site import PASSWORD, Guest, Site

# ---------------------------------------------------------------- with a clock of its own


class Leaping(selectors.BaseSelector):
    """A selector for which time passes at once: instead of waiting it moves the clock of its loop."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return self._real.select(0)

    def register(self, *given: Any) -> Any:
        return self._real.register(*given)

    def unregister(self, *given: Any) -> Any:
        return self._real.unregister(*given)

    def get_map(self) -> Any:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


def simulate(story: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a story by a clock that leaps to whatever is next."""

    def run() -> Any:
        selector = Leaping()
        loop = asyncio.SelectorEventLoop(selector)
        loop.time = lambda: selector.now  # type: ignore[method-assign]
        try:
            return loop.run_until_complete(story())
        finally:
            loop.close()

    async def apart() -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, run)

    return run_story(apart)


class Siege:
    """Attempts at one name, and what became of them. ``verified``: when and from where a password was verified."""

    def __init__(self) -> None:
        self.names = NameTurns()
        self.verified: list[tuple[float, str]] = []
        self.refused = Counter[str]()

    async def attempt(self, network: str, *, usual: bool = False) -> bool:
        try:
            self.names.refuse_hopeless("carol", network)
            async with self.names.take_turn("carol", network, usual=usual) as attempt:
                attempt.slowed = True
                self.verified.append((asyncio.get_running_loop().time(), network))
                await asyncio.sleep(0.1)
        except Throttled:
            self.refused[network] += 1
            return False
        return True

    async def keep_trying(self, network: str, seconds: float) -> None:
        """Five times a second, whatever became of the attempts before."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(round(5 * seconds)):
                tasks.create_task(self.attempt(network))
                await asyncio.sleep(0.2)

    async def knock(self, network: str, **options: bool) -> float:
        """Try once; gives how many seconds it took, and infinity if it was refused."""
        clock = asyncio.get_running_loop()
        begun = clock.time()
        return clock.time() - begun if await self.attempt(network, **options) else float("inf")


def test_the_owner_is_next_and_the_guesses_stay_few() -> None:
    """Forty addresses, five attempts a second each, for two minutes; the owner comes ten times from new addresses."""
    siege = Siege()

    async def story() -> list[float]:
        async with asyncio.TaskGroup() as tasks:
            for number in range(40):
                tasks.create_task(siege.keep_trying(f"10.0.0.{number}", 120))
            waits = []
            for visit in range(10):
                await asyncio.sleep(11)
                waits.append(await siege.knock(f"192.0.2.{visit}"))
        return waits

    waits = simulate(story)
    assert len(waits) == 10
    assert max(waits) <= PAUSE + 0.2 + 1e-6  # the attempt before, its pause, and the owner's own
    assert sum(siege.refused.values()) > 20_000  # it was a siege
    times = [at for at, _ in siege.verified]
    assert all(after - before >= PAUSE for before, after in pairwise(times))
    assert len(times) <= 120 / PAUSE + 10


def test_addresses_that_never_end_get_no_more_guesses_and_the_usual_one_goes_first() -> None:
    """Every attempt from an address of its own: whoever signed in from theirs before does not wait among them."""
    siege = Siege()

    async def story() -> float:
        async with asyncio.TaskGroup() as tasks:
            for number in range(4_000):
                tasks.create_task(siege.attempt(f"10.{number // 256}.{number % 256}.1"))
                if number == 2_000:
                    owner = tasks.create_task(siege.knock("192.0.2.1", usual=True))
                await asyncio.sleep(0.02)
        return owner.result()

    assert simulate(story) <= PAUSE + 0.2 + 1e-6
    assert len(siege.verified) <= 80 / PAUSE + MOST_WAITING


def test_whoever_leaves_gives_the_turn_to_the_next_and_nothing_is_left() -> None:
    siege = Siege()

    async def story() -> None:
        first = asyncio.create_task(siege.attempt("10.0.0.1"))
        await asyncio.sleep(0.05)  # verified just now
        second = asyncio.create_task(siege.attempt("10.0.0.2"))
        third = asyncio.create_task(siege.attempt("10.0.0.3"))
        await asyncio.sleep(0.1)
        second.cancel()
        assert await first
        assert await third
        fourth = asyncio.create_task(siege.attempt("10.0.0.4"))
        await asyncio.sleep(PAUSE + 0.01)  # its turn has come
        fourth.cancel()
        await asyncio.sleep(0)
        assert await siege.attempt("10.0.0.5")
        await asyncio.sleep(2 * PAUSE)
        assert not siege.names._lines

    simulate(story)
    assert [network[-1] for _, network in siege.verified] == ["1", "3", "4", "5"]


# ---------------------------------------------------------------- on a real server


class Guesser:
    """Somebody who guesses from one address: sends the same wrong password again and again, on one connection."""

    def __init__(self, url: str, address: str, name: str) -> None:
        self._host = urlsplit(url)
        self._address = address
        with Guest(base_url=url, transport=httpx.HTTPTransport(local_address=address)) as guest:
            token = known(re.search(r'name="csrf" value="([^"]+)"', guest.get("/sign-in").text))
            cookie = "; ".join(f"{key}={value}" for key, value in guest.cookies.items())
        body = urlencode({"csrf": token[1], "name": name, "password": "wrong password"})
        self._request = (
            f"POST /sign-in HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\n"
            f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()

    async def guess(self, statuses: Counter[int]) -> None:
        """Send one guess on a connection of its own, and note what became of it; 0 if it was not answered."""
        status = 0
        try:
            local = (self._address, 0)
            reader, writer = await asyncio.open_connection(self._host.hostname, self._host.port, local_addr=local)
            try:
                writer.write(self._request)
                status = int((await reader.readline()).split()[1])
            finally:
                writer.close()
        except (OSError, IndexError):
            pass
        statuses[status] += 1

    async def keep_guessing(self, statuses: Counter[int], stop: asyncio.Event) -> None:
        """Guess five times a second, without waiting for answers."""
        async with asyncio.TaskGroup() as tasks:
            while not stop.is_set():
                tasks.create_task(self.guess(statuses))
                await asyncio.sleep(0.2)


class Attack:
    """Guessers in a thread of their own. ``statuses``: how often which status was answered."""

    def __init__(self, url: str, addresses: list[str], name: str) -> None:
        self.statuses = Counter[int]()
        self._guessers = [Guesser(url, address, name) for address in addresses]
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for guesser in self._guessers:
                tasks.create_task(guesser.keep_guessing(self.statuses, self._stop))

    def __enter__(self) -> Attack:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


def sign_in_from(url: str, address: str, name: str, password: str) -> int:
    """Sign in with a browser that nobody knows; gives the status."""
    once = httpx.Limits(max_keepalive_connections=0)  # a browser opens another one too, where one was closed meanwhile
    transport = httpx.HTTPTransport(local_address=address, limits=once)
    with Guest(base_url=url, transport=transport, timeout=60, headers={"Sec-Fetch-Site": "same-origin"}) as owner:
        return owner.sign_in(name, password).status_code


def test_the_owner_signs_in_while_others_guess(site: Site) -> None:
    """Twelve addresses; the owner comes from a thirteenth, when the name is slowed down."""
    with Attack(site.url, [f"127.0.1.{number}" for number in range(1, 13)], "carol") as attack:
        wait_until(lambda: attack.statuses[429] > 50, "the name is slowed down")
        assert sign_in_from(site.url, "127.0.2.1", "carol", PASSWORD) == 303
        assert sign_in_from(site.url, "127.0.2.2", "carol", "another wrong password") in (401, 429)
    assert attack.statuses[200] == attack.statuses[303] == 0
    with site.state.database.reading() as connection:
        wrong = sa.select(sa.func.count()).where(AUDIT.c.user == "carol", AUDIT.c.action == "failed to sign in")
        failed = connection.execute(wrong).scalar_one()
    assert 20 <= failed < sum(attack.statuses.values()) / 2


@pytest.mark.long
def test_two_minutes_from_forty_addresses() -> None:
    """Five wrong passwords a second each; the owner comes ten times with a new device, and is in within 5 seconds."""
    process, lines = start("serve", "--demo", "--port", "0")
    url = lines[0].split()[-1]
    (password,) = (words[2] for words in (line.split() for line in lines[1:3]) if words[1] == "carol")
    waits, statuses = [], []
    try:
        wait_until(lambda: is_served(url), "the server answers")
        with Attack(url, [f"127.0.1.{number}" for number in range(1, 41)], "carol") as attack:
            begun = time.monotonic()
            for visit in range(10):
                time.sleep(max(0.0, begun + 11 * (visit + 1) - time.monotonic()))
                asked = time.monotonic()
                statuses.append(sign_in_from(url, f"127.0.2.{visit + 1}", "carol", password))
                waits.append(time.monotonic() - asked)
            time.sleep(max(0.0, begun + 120 - time.monotonic()))
    finally:
        end(process)
    print(f"waits {[round(wait, 2) for wait in waits]}; attack {dict(attack.statuses)}")  # noqa: T201 - for the reader
    assert statuses == [303] * 10
    assert max(waits) < 5.0
    assert attack.statuses[401] <= 20 + 120 / PAUSE  # what was verified
    assert sum(attack.statuses.values()) > 5_000  # it was an attack


def is_served(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code == 200
    except httpx.TransportError:
        return False
