"""Everything the running server holds: its settings, database, open datasets, and what it last read of the ledger."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Unpack

from itsdangerous import BadData, URLSafeSerializer

from dosimeter.dataset import Dataset
from dosimeter.errors import InputError, OptionError, QueryError, SchemaError
from dosimeter.ledger import (
    AccountSummary,
    Entry,
    Policy,
    RequestCharges,
    Verification,
    exact_decimal,
)
from dosimeter.planning import digest_measured, knows_earlier_looks
from dosimeter.problems import Option, Surface
from dosimeter.release import (
    PreparedRelease,
    ReleaseOrder,
    Terms,
    agree_on_terms,
    expect_charges,
    find_charges,
)
from dosimeter.schema import Schema
from dosimeter.sql import quote_name
from dosimeter.web.check_processes import CheckProcesses, PendingCheck
from dosimeter.web.log import LOG
from dosimeter.web.public import PublicDataset, show_dataset
from dosimeter.web.query_planner import TOO_LARGE, QueryPlanner
from dosimeter.web.recent import Recent
from dosimeter.web.settings import DatasetSettings, Settings
from dosimeter.web.store import About, Database, User, note
from dosimeter.web.worker import DatasetWorker

MOST_SEEN = 10_000
MOST_INVENTED = 32  # tables of invented rows that are kept for downloads
LONGEST_SIGNED = 1_000  # letters of a text that is worth a look at its signature
FRESH_STOPS = 3.0
FEW_RECORDS = 2_000  # of a ledger that is verified whenever an account's page is shown
_AT_LEAST = 2  # individuals of a dataset whose schema does not exist yet, so that its settings can be checked
FRESH = 1.0  # seconds for which a page may show an account that was read before; a release always reads it anew


@dataclass(frozen=True, slots=True)
class ServedDataset(QueryPlanner):
    """One dataset as the server offers it: its planner, and the worker that reads its data.

    ``processes``: where a query is planned first, so that one which grows is ended there.
    """

    name: str
    worker: DatasetWorker
    processes: CheckProcesses
    _prepared: Recent[str, PreparedRelease | str] = field(default_factory=Recent, repr=False)

    @property
    def terms(self) -> Terms:
        return Terms(self.settings.policy, self.settings.delta_total, self.settings.max_epsilon)

    @property
    def is_there(self) -> bool:
        """Return whether the file with the data exists; True for patterns, URLs and Spark, which are not looked up."""
        data = self.settings.data.removeprefix("duckdb:")
        return "://" in data or data.startswith("spark:") or any(sign in data for sign in "*?[") or Path(data).exists()

    def begin_check(self, sql: str, wanted: float | None = None) -> PendingCheck:
        """Begin to check a query in another process. ``wanted``: the error that would be good enough."""
        return self._begin(sql, wanted)

    def begin_trial(self, sql: str, epsilon: float) -> PendingCheck:
        """Begin to answer a query on invented rows, in another process, with noise as at this ε."""
        return self._begin(sql, None, epsilon)

    def _begin(self, *request: str | float | None) -> PendingCheck:
        planner = pickle.dumps(QueryPlanner(self.settings, self.schema))
        return self.processes.begin(planner, json.dumps(request).encode())

    def prepare(self, sql: str, order: ReleaseOrder | None = None) -> PreparedRelease:
        """Return what the schema alone decides about releasing this query. Never touches the data.

        Raises InputError if it cannot be released. Without an ``order`` the result is remembered by the SQL. What is
        not remembered is planned in another process first: a query that takes too long or too much memory there is
        refused, now and later. Analysts' checks remember nothing: a quick check would tell them what others asked.
        """
        known = self._prepared.read(
            sql, lambda: TOO_LARGE if self.begin_check(sql).wait() is None else self.plan_anew(sql)
        )
        if isinstance(known, str):
            raise QueryError(known)
        return known if order is None else self.plan_anew(sql, order)

    def check_settings(self) -> None:
        """Refuse settings that no release could use, by preparing the simplest query. Never touches the data."""
        prepared = self.plan_anew(f"SELECT COUNT(*) FROM {quote_name(self.schema.table)}")
        agree_on_terms(None, replace(prepared, order=replace(prepared.order, terms=self.terms)), "not looked at")
        total, wanted = expect_charges(self.terms, prepared).reading.delta_total, self.settings.group_delta
        if wanted is not None and exact_decimal(wanted) > total:
            raise OptionError(
                Option("group_delta"),
                f" is more than the account's δ in all, {float(total):g}: no such answer could be given. Lower it, or "
                "set ",
                Option("delta_total"),
                ".",
            )


class ServerState:
    """The state of one running server. Made once, and shared by its threads.

    Making it locks the database for this server, migrates it, verifies the ledger, and opens every dataset.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings.database)
        self.processes = CheckProcesses()
        self.datasets: dict[str, ServedDataset] = {}
        self.unserved: dict[str, ServedDataset] = {}  # without a schema yet: nothing about them reaches an analyst
        self.searches = Recent[str, Any]()  # for the facts of schemas, as they were planned
        self._accounts = Recent[str, AccountSummary | None]()
        self._charges = Recent[tuple[str, str, Decimal, AccountSummary | None], RequestCharges]()
        self._entries = Recent[str, Entry | None]()
        self._seen = Recent[tuple[str, ...], None](MOST_SEEN)
        self._stopped = Recent[str, frozenset[str]]()
        self.invented = Recent[tuple[str, str], tuple[str, ...]](MOST_INVENTED)  # tables as CSV, by dataset and name
        self.claims: set[str] = set()  # of approved queries whose release is under way: nobody else settles them
        self._histories: dict[str, tuple[Entry, ...]] = {}
        self._verified: tuple[str, Verification] | None = None
        try:
            self.database.lock_out_others()
            self.database.migrate()
            self.database.ledger.require_intact()  # a use follows the chain from the last checkpoint only
            for name, dataset in settings.datasets.items():
                self._open(name, dataset)
        except BaseException:
            self.close()
            raise

    def _open(self, name: str, settings: DatasetSettings) -> None:
        missing = not settings.schema.exists()
        if missing:
            LOG.warning("[datasets.%s]: there is no schema file yet, so it is not served but to be set up", name)
        with _named_as_settings(name):
            if missing:
                _require_findable(settings)
            dataset = open_data(settings, None if missing else settings.schema)
        table = dataset.schema.table
        if table in self.datasets or table in self.unserved:
            dataset.close()
            raise OptionError(
                f"[datasets.{name}]: two datasets are called {table}, and an account belongs to a name. Change the "
                "table name in one of the schemas."
            )
        schema = replace(dataset.schema, reviewed=True, individuals=_AT_LEAST) if missing else dataset.schema
        opened = ServedDataset(settings, schema, table, DatasetWorker(table, dataset), self.processes)
        (self.unserved if missing else self.datasets)[table] = opened
        if not schema.reviewed or schema.individuals is None:
            raise SchemaError(
                f"[datasets.{name}]: a release needs a reviewed schema with the number of individuals. Check "
                f"{settings.schema}, then set reviewed = true."
            )
        with _named_as_settings(name):
            opened.check_settings()
            self._check_account(opened)

    def _check_account(self, served: ServedDataset) -> None:
        """Refuse settings that contradict the account of the dataset, if it has one."""
        settings, account = served.settings, self.database.ledger.summary(served.schema.account_name)
        if account is None:
            return
        account.check_terms(
            algorithm=settings.algorithm,
            policy=Policy.parse(settings.policy),
            delta_total=None if settings.delta_total is None else exact_decimal(settings.delta_total),
            max_epsilon=None if settings.max_epsilon is None else exact_decimal(settings.max_epsilon),
        )

    def serve(self, unserved: ServedDataset) -> None:
        """Serve a dataset from now on: its schema's file exists now. Called in its worker's thread.

        Other threads may be listing the datasets, so that the lists are replaced, and not changed.
        """
        settings, worker = unserved.settings, unserved.worker
        dataset, before = open_data(settings, settings.schema), worker.dataset
        served = replace(unserved, schema=dataset.schema, _prepared=Recent())
        try:
            served.check_settings()
            self._check_account(served)
        except BaseException:
            dataset.close()
            raise
        worker.dataset = dataset
        self.datasets = {**self.datasets, served.name: served}
        self.unserved = {name: other for name, other in self.unserved.items() if name != served.name}
        self.forget(served.name)
        before.close()

    @property
    def known(self) -> tuple[ServedDataset, ...]:
        """Return every dataset of the settings, those that are not served too. For controllers."""
        return *self.datasets.values(), *self.unserved.values()

    def sign(self, purpose: str, value: str | list[str | int]) -> str:
        """Return a value as a signed text. ``purpose``: a text that was signed for another purpose is not accepted."""
        return str(self._signer(purpose).dumps(value))

    def read_signed(self, purpose: str, text: str) -> Any:
        """Return the value of a text that this server signed for this purpose; None for any other text."""
        try:
            return self._signer(purpose).loads(text) if len(text) < LONGEST_SIGNED else None
        except (BadData, ValueError):
            return None

    def _signer(self, purpose: str) -> URLSafeSerializer:
        return URLSafeSerializer(self.settings.secret, salt=f"dosimeter {purpose}")

    def account_name(self, name: str) -> str:
        """Return under which name the ledger keeps the account of a dataset. Several datasets may share an account."""
        served = self.datasets.get(name)
        return name if served is None else served.schema.account_name

    def account(self, name: str, *, fresh: bool = False) -> AccountSummary | None:
        """Return the account of a dataset, at most ``FRESH`` seconds old; None if there is none.

        It is kept so long because following the ledger's chain takes a while. ``fresh``: read it now.
        """
        account = self.account_name(name)
        age = 0.0 if fresh else FRESH
        return self._accounts.read(account, lambda: self.database.ledger.summary(account), age=age)

    def history(self, name: str) -> tuple[Entry, ...]:
        """Return every entry of a dataset's account; empty if there is none.

        The longer the ledger, the longer this takes. So the entries are read again only if their number has changed, or
        if one of them was not settled when they were last read.
        """
        account = self.account(name, fresh=True)
        if account is None:
            return ()
        known = self._histories.get(account.dataset, ())
        if len(known) == account.entry_count and all(entry.status != "reserved" for entry in known):
            return known
        whole = self.database.ledger.account(account.dataset)
        entries = self._histories[account.dataset] = () if whole is None else whole.entries
        return entries

    def verify(self, *, anew: bool = False) -> tuple[str, Verification]:
        """Return when the ledger was verified last, and what was found.

        The ledger is verified now if it is short, was not verified before, or ``anew`` is given.
        """
        known = self._verified
        if known is not None and not anew and known[1].records > FEW_RECORDS:
            return known
        found = self._verified = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", self.database.ledger.verify()
        return found

    def charges(self, served: ServedDataset, prepared: PreparedRelease, *, fresh: bool = False) -> RequestCharges:
        """Return what one query would be charged at each ε, and which ε's its account admits.

        If there is no account yet, the terms on which it would be opened decide. ``prepared``: as ``prepare`` gives it,
        without an order. ``fresh``: read the account now.
        """
        account = self.account(served.name, fresh=fresh)

        def find() -> RequestCharges:
            return expect_charges(served.terms, prepared) if account is None else find_charges(account, prepared)

        return self._charges.read((served.name, prepared.plan.sql, prepared.order.way.epsilon_svt, account), find)

    def prepare(self, served: ServedDataset, sql: str) -> PreparedRelease:
        """Return what the schema alone decides about a release, and what the noisy test costs as the account stands."""
        prepared = served.prepare(sql)
        if served.settings.algorithm != "find-and-release":
            return prepared
        charges = self.charges(served, prepared)
        cost = served.find_test_cost(charges.policy.left(charges.reading))
        return replace(prepared, order=replace(prepared.order, way=served.choose_way(None, None, cost)))

    def public(self, served: ServedDataset) -> PublicDataset:
        """Return what analysts may know of a dataset, including whether it is stopped."""
        settings = served.settings
        return show_dataset(served.schema, settings.algorithm, settings.mechanism, stopped=self.is_stopped(served.name))

    def list_stopped(self) -> frozenset[str]:
        """Return the accounts that an incident stopped, as read at most ``FRESH_STOPS`` seconds ago.

        A release always reads anew.
        """
        ledger = self.database.ledger
        return self._stopped.read(
            "", lambda: frozenset(each.dataset for each in ledger.stopped_datasets()), age=FRESH_STOPS
        )

    def is_stopped(self, name: str) -> bool:
        """Return whether an incident stopped a dataset, as far as ``list_stopped`` knows."""
        return self.account_name(name) in self.list_stopped()

    def mentions_look(self, prepared: PreparedRelease, analyst: str) -> bool:
        """Return whether the promise to this analyst will say that somebody looked at this query (G1).

        A look stays on record, so True is remembered; without one, the ledger is read each time. A query too long for
        looks of earlier versions to be found counts as looked at.
        """
        if not knows_earlier_looks(prepared.plan):
            return True
        digests = (prepared.plan.digest, digest_measured(prepared.plan))
        known = ("told", prepared.dataset, digests[1], analyst)
        if self.is_noted(*known):
            return True
        found = self.database.ledger.may_tell_look(prepared.dataset, *digests, analyst=analyst)
        if found:
            self.remember_first(*known)
        return found

    def entry(self, entry_id: str | None) -> Entry | None:
        """Return the ledger's entry with this id, or None. A settled entry is kept in memory: it never changes."""
        if entry_id is None:
            return None
        ledger = self.database.ledger
        return self._entries.read(
            entry_id, lambda: ledger.entry(entry_id), lasts=lambda each: each is not None and each.status != "reserved"
        )

    def remember_first(self, *what: str) -> bool:
        """Remember that something happened; return whether this is its first time. Used to record it only once.

        ``what``: the texts that identify it, such as "read", a session and the id of a query. Only the latest
        ``MOST_SEEN`` since the server started are remembered.
        """
        return self._seen.add(what, None)

    def note_once(self, user: User, action: str, *, key: str = "", **about: Unpack[About]) -> None:
        """Write into the audit log what a user did; in one session only once for the same ``about`` and ``key``."""
        if self.remember_first(user.session, action, key, *map(str, about.values())):
            note(self.database, user.name, action, **about)

    def is_noted(self, *what: str) -> bool:
        """Return whether ``remember_first`` was called with the same texts before, and still remembers them."""
        return what in self._seen

    def forget(self, name: str) -> None:
        self._accounts.forget(self.account_name(name))
        self._stopped.forget("")

    def close(self) -> None:
        with ExitStack() as stack:  # each is closed, even if closing the one before fails
            stack.callback(self.database.close)
            stack.callback(self.processes.close)
            for served in self.known:
                stack.callback(served.worker.close)


def open_data(settings: DatasetSettings, schema: Path | Schema | None) -> Dataset:
    """Open the data of a dataset, as its settings say how. Without a schema: names and types of the columns alone."""
    return Dataset.open(
        settings.data, schema=schema, table=settings.table, engine=settings.engine, delimiter=settings.delimiter,
        encoding=settings.encoding, null=settings.null, decimal=settings.decimal, date_format=settings.date_format,
    )  # fmt: skip


def _require_findable(settings: DatasetSettings) -> None:
    """Refuse settings under which no facts of a schema can be found, because its account would not hold the answer."""
    mixes = Policy.parse(settings.policy).mixes
    if settings.algorithm == "fixed" or (settings.algorithm == "find-and-release" and mixes):
        return
    raise OptionError(
        f"there is no schema file {settings.schema}. Its facts could be found by spending, in the browser, but only in "
        f"an account with a fixed ε, and algorithm is {settings.algorithm}. Write the schema (dosimeter schema), or "
        "choose algorithm = fixed."
    )


@contextmanager
def _named_as_settings(name: str) -> Iterator[None]:
    """Reword an InputError from the ``with`` block for whoever wrote the settings of the dataset ``name``."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"[datasets.{name}]: {error.word(Surface.SETTINGS)}") from None
