"""A running server with known users, and guests who talk to it over HTTP. Used by the tests and by bench/web.py."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import uvicorn

if TYPE_CHECKING:
    import pytest

from dosimeter.engines.duckdb import DuckDBEngine
from dosimeter.ledger import Entry, Ledger
from dosimeter.web.app import make_app
from dosimeter.web.http.connections import make_server
from dosimeter.web.identity.users import add_user, make_token
from dosimeter.web.settings import DatasetSettings, Settings
from dosimeter.web.state import ServerState
from dosimeter.web.store import OWN
from dosimeter.web.store.database import Database
from dosimeter.web.store.tables import USERS
from dosimeter.web.store.user import User
from dosimeter.web.worker import DatasetWorker, Job
from tests.known import known
from tests.waiting import LONGEST_WAIT, wait_until

PASSWORD = "correct horse battery"
USERS_AND_ROLES = {"carol": "controller", "conrad": "controller", "anna": "analyst", "bob": "analyst"}
CERTIFICATES = httpx.create_ssl_context()  # reading them takes longer than most answers
SECRET = b"0123456789abcdef0123456789abcdef"
CLINIC = resources.files("dosimeter") / "data"
COUNT = "SELECT COUNT(*) FROM clinic WHERE diagnosis = 'Wilson disease'"


def clinic_settings(**changes: Any) -> DatasetSettings:
    values: dict[str, Any] = {
        "data": str(CLINIC / "clinic.csv"),
        "schema": Path(str(CLINIC / "clinic.toml")),
        "policy": "budget:2",
        "algorithm": "find",
    }
    return DatasetSettings(**values | changes)


def copy_clinic(folder: Path, name: str = "clinic", **changes: Any) -> DatasetSettings:
    """The clinic in a folder of its own, as it is; under another name it also holds other data."""
    data, schema = folder / f"{name}.csv", folder / f"{name}.toml"
    text, facts = ((CLINIC / f"clinic.{ending}").read_text() for ending in ("csv", "toml"))
    data.write_text(text if name == "clinic" else text.replace("Harbour", "Northgate", 1))
    schema.write_text(facts.replace('table = "clinic"', f'table = "{name}"'))
    return clinic_settings(data=str(data), schema=schema, **changes)


def write_dataset(folder: Path, name: str, lines: Iterable[str], facts: str, **changes: Any) -> DatasetSettings:
    """A dataset of one's own. ``lines``: of its CSV. ``facts``: its schema, after the name of the table."""
    data, schema = folder / f"{name}.csv", folder / f"{name}.toml"
    data.write_text("\n".join(lines) + "\n")
    schema.write_text(f'table = "{name}"\nreviewed = true\n{facts}\n')
    return clinic_settings(data=str(data), schema=schema, **changes)


def make_settings(database: str, datasets: Mapping[str, DatasetSettings] | None = None, **changes: Any) -> Settings:
    values: dict[str, Any] = {
        "database": database,
        "datasets": datasets or {"clinic": clinic_settings()},
        "secret": SECRET,
    }
    return Settings(**values | changes)


def add_users(database: str, names: Mapping[str, str] = USERS_AND_ROLES) -> dict[str, str]:
    """Everybody with the same password; gives an API token per analyst."""
    opened = Database(database)
    try:
        opened.migrate()
        tokens = {}
        for name, role in names.items():
            add_user(opened, name, role, PASSWORD)
            if role == "analyst":
                tokens[name] = make_token(opened, find_user(opened, name), "test")
        with (
            opened.writing() as connection
        ):  # pages start with 95 %; test_web_standard.py has those that start with presets
            connection.execute(USERS.update().values(standard=OWN))
        return tokens
    finally:
        opened.close()


def find_user(database: Database, name: str) -> User:
    """Return somebody who has an account on the server."""
    with database.reading() as connection:
        row = connection.execute(USERS.select().where(USERS.c.name == name)).one()
    return User(row.id, row.name, row.role)


class Guest(httpx.Client):
    """A browser without a screen: keeps cookies, knows its CSRF token."""

    csrf = ""

    def sign_in(self, name: str, password: str = PASSWORD) -> httpx.Response:
        page = self.get("/sign-in")
        token = known(re.search(r'name="csrf" value="([^"]+)"', page.text))
        response = self.post("/sign-in", data={"csrf": token[1], "name": name, "password": password})
        found = re.search(r'X-CSRF-Token": "([^"]+)"', response.text)
        self.csrf = found[1] if found else ""
        return response

    def __enter__(self) -> Guest:
        return self  # signed in already, so the connection is open

    def __exit__(self, *_: object) -> None:
        self.close()

    def act(self, path: str, **fields: Any) -> httpx.Response:
        """POST a form with the token that belongs to the session."""
        return self.post(path, data={"csrf": self.csrf, **fields})

    def ask(self, sql: str = COUNT, **fields: str) -> str:
        """Submit a query; gives its id."""
        response = self.act(
            "/ask", **{"dataset": "clinic", "sql": sql, "purpose": "a test", "priority": "normal"} | fields
        )
        assert response.status_code == 200, response.text
        return str(response.url).rsplit("/", 1)[1]

    def approve(
        self, query_id: str, epsilon: str = "0.05", preference: str = "ratio:0.95", **more: str
    ) -> httpx.Response:
        fields = {"epsilon": epsilon, "preference": preference, "confirmed": epsilon, "reason": "agreed"}
        fields |= {"looser": "true"} | more
        if fields["confirmed"] == "test":  # what the noisy test costs, as the confirmation asks
            asked = self.get(f"/decide/{query_id}/confirm").text
            fields["confirmed"] = known(re.search(r'name="confirmed" value="([^"]+)"', asked))[1]
        return self.act(f"/decide/{query_id}/approve", **fields)


@dataclass
class Site:
    """A server in a thread of this process."""

    settings: Settings
    tokens: dict[str, str]
    server: uvicorn.Server
    thread: threading.Thread
    url: str

    @classmethod
    def start(cls, settings: Settings, tokens: dict[str, str] | None = None) -> Site:
        given = add_users(settings.database) if tokens is None else tokens
        app = make_app(settings)
        server = make_server(app, port=0, log_level="critical")
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        wait_until(lambda: server.started, "the server has started")
        port = server.servers[0].sockets[0].getsockname()[1]
        return cls(settings, given, server, thread, f"http://127.0.0.1:{port}")

    @property
    def state(self) -> ServerState:
        """What the running server holds."""
        app: Any = self.server.config.app
        state: ServerState = app._application.state.server
        return state

    def entries(self, dataset: str = "clinic") -> tuple[Entry, ...]:
        """What the ledger holds of an account, read anew, and intact."""
        with Ledger.open(self.settings.database, create=False) as ledger:
            assert ledger.verify().intact
            account = ledger.account(dataset)
        return () if account is None else tuple(account.entries)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(LONGEST_WAIT)

    def guest(self, name: str | None = None, **options: Any) -> Guest:
        headers = {"Sec-Fetch-Site": "same-origin"}  # as a browser says where a page of ours led here
        guest = Guest(
            base_url=self.url,
            follow_redirects=True,
            timeout=LONGEST_WAIT,
            headers=headers,
            verify=CERTIFICATES,
            **options,
        )
        if name is not None:
            response = guest.sign_in(name)
            assert response.status_code == 200
            assert guest.csrf
        return guest

    def api(self, name: str = "anna") -> httpx.Client:
        return httpx.Client(
            base_url=f"{self.url}/api/v1",
            headers={"Authorization": f"Bearer {self.tokens[name]}"},
            timeout=LONGEST_WAIT,
            verify=CERTIFICATES,
        )


@contextmanager
def keep_busy(worker: DatasetWorker) -> Iterator[Job[Any]]:
    """Keep a worker at work for as long as the block runs; gives its job, which runs, and has ended after the block."""
    free = threading.Event()
    job = worker.ask(f"busy {uuid4()}", "busy", lambda _dataset, _meter: free.wait(LONGEST_WAIT), wait=0)
    wait_until(lambda: job.state == "running", "the worker is busy")
    try:
        yield job
    finally:
        free.set()
        wait_until(job.ended.is_set, "the worker is free")


def note_readers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note, from now on, the name of every thread that reads data."""
    readers: list[str] = []

    def watch(read: Any) -> Any:
        def watched(self: DuckDBEngine, query: Any) -> Any:
            readers.append(threading.current_thread().name)
            return read(self, query)

        return watched

    for name in ("fetch", "fetch_few"):
        monkeypatch.setattr(DuckDBEngine, name, watch(getattr(DuckDBEngine, name)))
    return readers


StartSite = Callable[..., Site]


def read_text(page: str) -> str:
    """A page's words, with plain spaces."""
    bare = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.S)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", bare)).split())


def write_configuration(folder: Path, text: str = "", dataset: str = "") -> Path:
    """A configuration file with everything it names beside it, and further lines."""
    (folder / "secret").write_text("x" * 40)
    for name in ("clinic.csv", "clinic.toml"):
        (folder / name).write_bytes((CLINIC / name).read_bytes())
    file = folder / "dosimeter.toml"
    file.write_text(
        f'database = "site.db"\nsecret_file = "secret"\n{text}\n[datasets.clinic]\ndata = "clinic.csv"\n'
        f'schema = "clinic.toml"\npolicy = "budget:2"\nalgorithm = "find"\n{dataset}\n'
    )
    return file
