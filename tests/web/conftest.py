"""Servers to test on, and a real Chromium to look with."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import wait_until

for library in ("fastapi", "uvicorn", "alembic", "argon2", "httpx"):
    pytest.importorskip(library, reason="the web application is not installed: pip install 'dosimeter[web]'")

from dosimeter.web.store.database import Database  # noqa: E402
from tests.quick_servers import make_servers_quick  # noqa: E402 - only where the extra is installed
from tests.web.check_program import Slow  # noqa: E402
from tests.web.web_site import PASSWORD, Guest, Site, StartSite, add_users, clinic_settings, make_settings  # noqa: E402 - only where the extra is installed

if TYPE_CHECKING:
    import httpx
    from playwright.sync_api import Page


@pytest.fixture(scope="session", autouse=True)
def _quick_servers() -> Iterator[None]:
    with make_servers_quick():
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_passwords() -> Iterator[None]:
    """Argon2 is slow on purpose. The tests sign in hundreds of times, so here it is quick; one test takes the real."""
    from argon2 import PasswordHasher

    from dosimeter.web.identity import users

    with pytest.MonkeyPatch.context() as patch:
        quick = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
        patch.setattr(users, "_hasher", lambda: quick)
        yield


@pytest.fixture(scope="session", autouse=True)
def _patient_pages() -> Iterator[None]:
    """A page that waits for a computation soon shows progress instead. Here it waits as long as a slow machine needs,
    unless a test keeps the worker busy: only the jobs of tests have a text for a key."""
    from dosimeter.web.worker import PATIENCE, DatasetWorker, Job

    ask = DatasetWorker.ask

    def ask_patiently(self: DatasetWorker, key: Any, *rest: Any, wait: float, **options: Any) -> Job[Any]:
        job = ask(self, key, *rest, wait=wait, **options)
        if wait >= PATIENCE:
            wait_until(lambda: job.ended.is_set() or is_kept_busy(self), f"{job.title}: ended")
        return job

    def is_kept_busy(worker: DatasetWorker) -> bool:
        return any(isinstance(other.key, str) for other in worker.running())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatasetWorker, "ask", ask_patiently)
        yield


@pytest.fixture(scope="session")
def prepared_database(tmp_path_factory: pytest.TempPathFactory, _quick_passwords: None) -> tuple[Path, dict[str, str]]:
    """A database with the users in it, to be copied, and their tokens."""
    path = tmp_path_factory.mktemp("prepared") / "site.db"
    return path, add_users(str(path))


@pytest.fixture
def opened(prepared_database: tuple[Path, dict[str, str]], tmp_path: Path) -> Iterator[Database]:
    """A database with users, that no server has."""
    path = tmp_path / "opened.db"
    shutil.copy(prepared_database[0], path)
    with closing(Database(str(path))) as database:
        yield database


@pytest.fixture
def start_site(tmp_path: Path, prepared_database: tuple[Path, dict[str, str]]) -> Iterator[Callable[..., Site]]:
    """Starts servers that end with the test, with users; a second one on the same database needs their tokens."""
    running: list[Site] = []

    def start(*, database: str | None = None, tokens: dict[str, str] | None = None, **changes: Any) -> Site:
        if database is None:
            database = str(tmp_path / "site.db")
            if not Path(database).exists():
                shutil.copy(prepared_database[0], database)
                tokens = prepared_database[1]
        site = Site.start(make_settings(database, **changes), tokens)
        running.append(site)
        return site

    yield start
    for site in running:
        site.stop()


@pytest.fixture
def site(start_site: StartSite, request: pytest.FixtureRequest) -> Site:
    """One server, two controllers and two analysts; one dataset, set up as the marker ``clinic`` says."""
    marker = request.node.get_closest_marker("clinic")
    return start_site(datasets={"clinic": clinic_settings(**marker.kwargs)} if marker else None)


@pytest.fixture
def guest(site: Site) -> Iterator[Guest]:
    """A browser in which nobody is signed in."""
    with site.guest() as guest:
        yield guest


def open_browser_of(name: str) -> Any:
    """Return a fixture of this name: a browser in which that user is signed in."""

    @pytest.fixture(name=name)
    def browser(site: Site) -> Iterator[Guest]:
        with site.guest(name) as guest:
            yield guest

    return browser


bob, conrad, carol, anna = map(open_browser_of, ("bob", "conrad", "carol", "anna"))


@pytest.fixture
def api(site: Site) -> Iterator[httpx.Client]:
    """The JSON interface, for anna."""
    with site.api() as client:
        yield client


@pytest.fixture
def open_page(new_page: Callable[..., Page]) -> Callable[..., Page]:
    """Open a page of a site, signed in."""

    def open_it(site: Site, name: str, **options: Any) -> Page:
        page = new_page(base_url=site.url, **options)
        page.goto("/sign-in")
        page.fill("[name=name]", name)
        page.fill("[name=password]", PASSWORD)
        page.click("main button")
        page.wait_for_url(lambda url: "sign-in" not in url)
        return page

    return open_it


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "site.db")
    create: Callable[[], str] = request.getfixturevalue("create_database")
    return create()


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    made = Slow(tmp_path)
    yield made
    made.end()
