"""Passwords that are guessed first are refused; whoever is guessed at is told, and gets in, on a new device too."""

from __future__ import annotations

import asyncio
import re
import selectors
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import sqlalchemy as sa

from dosimeter.errors import OptionError
from dosimeter.web.http.devices import DEVICE_COOKIE
from dosimeter.web.http.templates import NOTICE_COOKIE
from dosimeter.web.identity import NameTurns, throttle, users
from dosimeter.web.identity.name_turns import MOST_WAITING
from dosimeter.web.identity.passwords import check_password, find_weakness
from dosimeter.web.identity.throttle import PAUSE, Limits, Throttled
from dosimeter.web.run import warn_of_proxy
from dosimeter.web.store.database import Database
from dosimeter.web.store.keys import make_password
from dosimeter.web.store.tables import AUDIT, later
from tests.known import known
from tests.waiting import wait_until
from tests.web.test_web_limits import run_story
from tests.web.test_web_trail import count_actions
from tests.web.web_site import PASSWORD, Guest, Site, make_settings, read_text

WEAK = [
    "1234567890", "0987654321", "1111111111", "12345678901234567890", "11 22 33 44 55", "31.12.1999 10",
    "aaaaaaaaaa",
    "abababababab", "abcabcabcabc", "xyzxyzxyzx", "password12", "Password123!", "P@ssw0rd123", "passwordpassword",
    "drowssap123", "123password", "iloveyou12", "ILoveYou!!", "1loveyou99", "qwertyuiop", "qwerty1234", "QwErTy123456",
    "1q2w3e4r5t", "1qaz2wsx3edc", "asdfghjkl1", "abcdefghij", "zyxwvutsrq", "abcd123456", "letmein2024", "welcome2026!",
    "trustno1trustno1", "Sunshine2025", "monkey12345", "football_99", "princess.123", "superman!!!", "dosimeter2026",
    "administrator1", "changeme123", "Liverpool1", "september2025", "qazwsxedcr", "$ecurity123",
]  # fmt: skip
STRONG = [
    "correct horse battery", "another password", "tulip-kettle-orbit", "Wq7#mzPl0x", "zinc otter lamp 4",
    "meine katze frisst zeitung", "x9!Lr2-vv8pQ", "shadow of the wind 12", "monkeys eat batteries", "ε is not enough",
]  # fmt: skip


@pytest.mark.parametrize("password", WEAK)
def test_what_is_guessed_first_is_refused(password: str) -> None:
    with pytest.raises(OptionError, match="guessed first"):
        check_password(password, "somebody")


def test_what_is_hard_to_guess_is_accepted_if_its_length_is_right() -> None:
    for password in (*STRONG, *(make_password() for _ in range(300))):
        check_password(password, "anna")
    for password in ("short", "x9!Lr2-vv", "a b" * 70):
        with pytest.raises(OptionError, match="10 to 200"):
            check_password(password)


@pytest.mark.parametrize(
    ("password", "name"),
    [
        ("dave123456", "dave"),
        ("123dave456!", "dave"),
        ("evad987654", "dave"),
        ("D4ve-1985-!!", "dave"),
        ("annamueller", "anna.mueller"),
        ("Mueller2026!", "anna.mueller"),
        ("anna@clinic.org", "anna@clinic.org"),
        ("carolpassword1", "carol"),
    ],
)
def test_the_own_name_is_refused(password: str, name: str) -> None:
    assert "own name" in find_weakness(password, name)
    assert not find_weakness(password + " wind turbine", name)


def test_new_passwords_are_checked_and_must_be_new(site: Site, guest: Guest, anna: Guest) -> None:
    for fresh in ("short", "1234567890", "anna123456", "password12", PASSWORD):
        assert anna.act("/me/password", current=PASSWORD, fresh=fresh).status_code == 422
    assert guest.sign_in("anna").status_code == 200
    assert "not right" in anna.act("/me/password", current="wrong", fresh="wrong and wrong").text
    assert anna.act("/me/password", current=PASSWORD, fresh="another password").status_code == 200
    seen = count_actions(site, "anna")
    assert (seen["failed to change the password"], seen["changed the password"]) == (1, 1)
    with pytest.raises(OptionError, match="own name"):
        users.add_user(site.state.database, "dave", "analyst", "dave123456")


# ---------------------------------------------------------------- from many addresses


def guess(database: Database, address: str, name: str = "anna") -> str:
    try:
        users.sign_in(database, name, "wrong password", Limits(address, 5, 15), hours=1)
    except Throttled as throttled:
        return "slowed" if throttled.slowed else "closed"
    return "wrong"


def test_an_ipv6_network_is_throttled_as_one_address(opened: Database) -> None:
    outcomes = [guess(opened, f"2001:db8:1:2::{number:x}") for number in range(8)]
    assert outcomes == ["wrong"] * 5 + ["closed"] * 3
    assert guess(opened, "2001:db8:1:3::1") == "wrong"


def test_an_account_is_slowed_down_for_the_whole_world(opened: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred wrong passwords from a hundred addresses; the owner's device signs in all the same."""
    outcomes = [guess(opened, f"10.0.0.{number}") for number in range(100)]
    allowed = 5 * throttle.PER_USER
    assert outcomes[:allowed] == ["wrong"] * allowed
    assert outcomes[allowed] == outcomes[-1] == "slowed"
    assert outcomes.count("wrong") < allowed + 40  # one now and then
    assert guess(opened, "10.0.1.1", "bob") == "wrong"  # nobody else
    begun = known(users.sign_in(opened, "anna", PASSWORD, Limits("10.0.0.1", 5, 15, device="d"), hours=1))
    assert begun.failures == outcomes.count("wrong")
    monkeypatch.setattr(throttle, "PAUSE", 0.0)  # a moment later
    stranger = known(users.sign_in(opened, "anna", PASSWORD, Limits("10.0.1.1", 5, 15), hours=1))
    assert stranger.failures == 0


def test_a_slow_attack_from_many_addresses_is_on_record(opened: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits long enough between attempts is never refused, and the log says once that they were slowed down."""
    monkeypatch.setattr(throttle, "PAUSE", 0.0)
    allowed = 5 * throttle.PER_USER
    assert [guess(opened, f"10.0.0.{number}") for number in range(allowed + 10)] == ["wrong"] * (allowed + 10)
    with opened.reading() as connection:
        found = connection.execute(sa.select(AUDIT.c.detail).where(AUDIT.c.action == "was throttled")).scalars().all()
    assert found == ["from many addresses"]


def test_a_slowed_name_pauses_after_each_attempt() -> None:
    """However many there were: the pause does not grow, and is not left out."""
    limit = throttle.FailureLimit(20, slows=True)
    for failures in (20, 25, 1_000):
        for seconds, refused in ((0.0, True), (throttle.PAUSE / 2 + 0.1, False)):
            assert limit.is_reached(failures, later(minutes=15, seconds=-seconds), 15) == refused
    assert not limit.is_reached(19, later(minutes=15), 15)


# ---------------------------------------------------------------- devices


def lock_out(site: Site, name: str = "anna") -> None:
    with site.guest() as stranger:
        for _ in range(site.settings.failures_allowed + 1):
            last = stranger.sign_in(name, "wrong password")
        assert last.status_code == 429


def take_device(guest: Guest, other: Guest) -> None:
    """The same browser, later: nothing but the device's cookie is left."""
    cookie = next(cookie for cookie in guest.cookies.jar if cookie.name == DEVICE_COOKIE)
    assert cookie.path == "/sign-in"
    assert cookie.has_nonstandard_attr("HttpOnly")
    other.cookies.set(DEVICE_COOKIE, str(cookie.value), path="/sign-in", domain="127.0.0.1")


def test_a_device_that_signed_in_before_is_let_in(site: Site, anna: Guest) -> None:
    lock_out(site)
    with site.guest() as stranger, site.guest() as later, site.guest() as bobs:
        assert stranger.sign_in("anna").status_code == 429
        take_device(anna, later)
        assert later.sign_in("anna", "wrong password").status_code == 401
        assert later.sign_in("anna").status_code == 200
        assert later.csrf
        with site.guest("bob") as bob:
            take_device(bob, bobs)  # somebody else's device is a stranger to this account
        assert bobs.sign_in("anna").status_code == 429


def test_a_device_has_a_count_of_its_own(site: Site, anna: Guest) -> None:
    with site.guest() as later:
        take_device(anna, later)
        statuses = [later.sign_in("anna", "wrong password").status_code for _ in range(7)]
        assert statuses == [401] * 5 + [429] * 2
        assert later.sign_in("anna").status_code == 429
    with site.guest() as stranger:
        assert stranger.sign_in("anna").status_code == 200


@pytest.mark.parametrize("way", ["everywhere", "reset", "forged", "rubbish"])
def test_a_device_can_become_a_stranger_again(site: Site, anna: Guest, way: str) -> None:
    password = PASSWORD
    with site.guest() as later:
        take_device(anna, later)
        match way:
            case "everywhere":
                anna.act("/sign-out-everywhere")
            case "reset":
                password = users.reset_password(site.state.database, "anna")
            case _:
                value = "x" * 3_000 if way == "rubbish" else later.cookies[DEVICE_COOKIE][:-4] + "AAAA"
                later.cookies.set(DEVICE_COOKIE, value, path="/sign-in", domain="127.0.0.1")
        lock_out(site)
        assert later.sign_in("anna", password).status_code == 429


# ---------------------------------------------------------------- being told


def test_whoever_is_guessed_at_is_told_once(site: Site) -> None:
    with site.guest("anna") as before:
        assert "failed sign-in" not in before.get("/queries").text
    for address in ("127.0.0.2", "127.0.0.3"):
        with site.guest(transport=httpx.HTTPTransport(local_address=address)) as stranger:
            for _ in range(4):
                assert stranger.sign_in("anna", "wrong password").status_code == 401
            stranger.sign_in("bob", "wrong password")
    with site.guest() as anna:
        anna.follow_redirects = False
        assert anna.sign_in("anna").status_code == 303
        part = anna.get("/ask/schema", params={"dataset": "clinic"}, headers={"HX-Request": "true"})
        assert "failed sign-in" not in part.text
        first = anna.get("/ask")
        assert "8 failed sign-ins since your last one." in read_text(first.text)
        assert "failed sign-in" not in anna.get("/ask").text
        assert NOTICE_COOKIE not in anna.cookies
    with site.guest() as bob:
        assert "2 failed sign-ins since your last one." in read_text(bob.sign_in("bob").text)


def test_the_notice_of_another_session_is_not_shown(site: Site, anna: Guest) -> None:
    with site.guest() as stranger:
        stranger.sign_in("bob", "wrong password")
    with site.guest() as bob:
        bob.follow_redirects = False
        bob.sign_in("bob")
        anna.cookies.set(NOTICE_COOKIE, bob.cookies[NOTICE_COOKIE], domain="127.0.0.1", path="/")
    assert "failed sign-in" not in anna.get("/ask").text


# ---------------------------------------------------------------- behind a proxy


def test_a_proxy_that_is_not_trusted_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain = make_settings(str(tmp_path / "x.db"))
    for settings, warned in (
        (plain, False),
        (replace(plain, public_url="http://dosimeter.example.org"), False),
        (replace(plain, public_url="https://dosimeter.example.org"), True),
        (replace(plain, public_url="https://dosimeter.example.org", trusted_proxies="127.0.0.1"), False),
    ):
        caplog.clear()
        warn_of_proxy(settings)
        assert ("Set trusted_proxies" in caplog.text) == warned


# ---------------------------------------------------------------- with a clock of its own


class Leaping(selectors.DefaultSelector):
    """A selector for which time passes at once: instead of waiting it moves the clock of its loop."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(0)


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


def make_guess(url: str, address: str, name: str) -> bytes:
    """Return a sign-in with a wrong password as bytes: a client would be too slow to send as many as an attacker."""
    with Guest(base_url=url, transport=httpx.HTTPTransport(local_address=address)) as guest:
        token = known(re.search(r'name="csrf" value="([^"]+)"', guest.get("/sign-in").text))
        fields = {"csrf": token[1], "name": name, "password": "wrong password"}
        request = guest.build_request("POST", "/sign-in", data=fields, headers={"Sec-Fetch-Site": "same-origin"})
    head = "".join(f"{key}: {value}\r\n" for key, value in request.headers.items())
    return f"POST /sign-in HTTP/1.1\r\n{head}\r\n".encode() + request.content


@contextmanager
def attack_from(url: str, addresses: list[str], name: str) -> Iterator[Counter[int]]:
    """Guess from all these addresses while the block runs; gives how often which status was answered, 0 for none."""
    host, statuses, stop = urlsplit(url), Counter[int](), threading.Event()

    async def guess(address: str, request: bytes) -> None:
        status = 0
        with suppress(OSError, IndexError):
            reader, writer = await asyncio.open_connection(host.hostname, host.port, local_addr=(address, 0))
            with closing(writer):
                writer.write(request)
                status = int((await reader.readline()).split()[1])
        statuses[status] += 1

    async def keep_guessing(address: str, request: bytes) -> None:
        """Guess five times a second, without waiting for answers."""
        async with asyncio.TaskGroup() as tasks:
            while not stop.is_set():
                tasks.create_task(guess(address, request))
                await asyncio.sleep(0.2)

    async def attack(requests: dict[str, bytes]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for address, request in requests.items():
                tasks.create_task(keep_guessing(address, request))

    guesses = {address: make_guess(url, address, name) for address in addresses}
    with ThreadPoolExecutor(1) as thread:
        attacking = thread.submit(lambda: asyncio.run(attack(guesses)))
        try:
            yield statuses
        finally:
            stop.set()
    attacking.result()


def sign_in_from(url: str, address: str, name: str, password: str) -> int:
    """Sign in with a browser that nobody knows; gives the status."""
    once = httpx.Limits(max_keepalive_connections=0)  # a browser opens another one too, where one was closed meanwhile
    transport = httpx.HTTPTransport(local_address=address, limits=once)
    with Guest(base_url=url, transport=transport, timeout=60, headers={"Sec-Fetch-Site": "same-origin"}) as owner:
        return owner.sign_in(name, password).status_code


def test_the_owner_signs_in_while_others_guess(site: Site) -> None:
    """Twelve addresses; the owner comes from a thirteenth, when the name is slowed down."""
    with attack_from(site.url, [f"127.0.1.{number}" for number in range(1, 13)], "carol") as statuses:
        wait_until(lambda: statuses[429] > 50, "the name is slowed down")
        assert sign_in_from(site.url, "127.0.2.1", "carol", PASSWORD) == 303
        assert sign_in_from(site.url, "127.0.2.2", "carol", "another wrong password") in (401, 429)
    assert statuses[200] == statuses[303] == 0
    with site.state.database.reading() as connection:
        wrong = sa.select(sa.func.count()).where(AUDIT.c.user == "carol", AUDIT.c.action == "failed to sign in")
        failed = connection.execute(wrong).scalar_one()
    assert 20 <= failed < sum(statuses.values()) / 2
