"""What goes into the ledger comes out of it, on both databases; what must not go in is refused, and says why."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st
from ledger_worker import NOBODY, SCHEMA, SOURCE, decide_on, make_opening, make_request

from dosimeter.accounting import Charge
from dosimeter.errors import LedgerError
from dosimeter.ledger import Account, Continuation, Ledger, Record, Reservation
from dosimeter.ledger.records import seal_record, write_canonical_json


def refuse(account: Account | None) -> Reservation:
    raise RuntimeError("decided against it")


# ---------------------------------------------------------------- accounts and entries


def test_an_empty_ledger(target: str) -> None:
    with Ledger.open(target) as ledger:
        assert ledger.describe() == {"datasets": []}
        assert ledger.account("clinic") is None
        assert ledger.entry("none") is None
        assert ledger.find_answer("clinic", "request-1") is None
        assert ledger.verify().describe() == {"intact": True, "records": 0, "head": "0" * 64}


def test_a_release_from_reservation_to_answer(target: str) -> None:
    clock = iter(datetime(2026, 11, 15, 11, minute, tzinfo=timezone(timedelta(hours=1))) for minute in range(60))
    with Ledger.open(target, clock=lambda: next(clock)) as ledger:
        entry = ledger.reserve("clinic", decide_on("0.3", "budget:2.0"))
        assert (entry.status, entry.epsilon, entry.charge, entry.reading) == (
            "reserved",
            Decimal("0.3"),
            Decimal("0.3"),
            Decimal("0.3"),
        )
        assert entry.answer is None
        answer = [{"ward": "B", "count": 12}, {"ward": "A", "count": 7.5}]
        settled = ledger.settle(
            entry.id, status="released", answer=answer, guarantee="(0.3, 0)-DP", error_95=[9.5, None]
        )
        assert settled.answer == answer
        assert [list(row) for row in settled.answer] == [["ward", "count"]] * 2  # columns keep their order
        assert (settled.guarantee, settled.error_95) == ("(0.3, 0)-DP", (9.5, None))
        assert ledger.entry(entry.id) == settled
        second = ledger.reserve("clinic", decide_on("0.05", "budget:2.0"))
        assert ledger.describe() == {
            "datasets": [
                {
                    "dataset": "clinic",
                    "epsilon": 0.35,
                    "delta": 0.0,
                    "policy": "budget:2",
                    "algorithm": "fixed",
                    "entries": [
                        {
                            "id": entry.id,
                            "at": "2026-11-15T10:00:00Z",
                            "status": "released",
                            "epsilon": 0.3,
                            "epsilon_svt": None,
                            "delta": 0.0,
                            "charge": 0.3,
                            "reading": 0.3,
                            "query": "SELECT COUNT(*) FROM clinic WHERE age = 25",
                            "answer": answer,
                            "analyst": None,
                            "purpose": None,
                        },
                        {
                            "id": second.id,
                            "at": "2026-11-15T10:02:00Z",
                            "status": "reserved",
                            "epsilon": 0.05,
                            "epsilon_svt": None,
                            "delta": 0.0,
                            "charge": 0.05,
                            "reading": 0.35,
                            "query": "SELECT COUNT(*) FROM clinic WHERE age = 25",
                            "answer": None,
                            "analyst": None,
                            "purpose": None,
                        },
                    ],
                }
            ]
        }
    with Ledger.open(target, create=False) as again:
        assert again.entry(entry.id) == settled
        assert again.verify().records == 4


def test_the_account_keeps_its_terms(target: str) -> None:
    opening = make_opening("paper", "find-and-release", max_epsilon=Decimal("0.5"), delta_total=Decimal("2e-6"))
    asked = make_request(
        algorithm="find-and-release",
        tau=Decimal("1e-5"),
        selection="sharp",
        analyst="Ada",
        purpose="a study",
        settings={"min_rows": 5},
    )
    charge = Charge(Decimal("0.2"), Decimal(1), Decimal("1e-6"))
    with Ledger.open(target) as ledger:
        entry = ledger.reserve("clinic", lambda _: Reservation(request=asked, charge=charge, opening=opening))
        account = ledger.account("clinic")
        assert account is not None
        assert (account.policy, account.algorithm, account.individuals) == (opening.policy, "find-and-release", 1000)
        assert (account.delta_total, account.max_epsilon) == (Decimal("2e-6"), Decimal("0.5"))
        assert account.is_of(SCHEMA, SOURCE)
        assert (account.reading.epsilon, account.reading.delta) == (Decimal("1.2"), Decimal("1e-6"))
        assert account.entries == (entry,)
        assert entry.request == asked
        assert (entry.epsilon_svt, entry.charge, entry.delta) == (1, Decimal("1.2"), Decimal("1e-6"))
        account.check_terms(algorithm="find-and-release")
        account.check_terms(algorithm="find-and-release", policy=opening.policy, max_epsilon=Decimal("0.50"))
        for contradiction in (
            {"policy": make_opening("budget:1").policy},
            {"delta_total": Decimal(0)},
            {"max_epsilon": Decimal(1)},
        ):
            with pytest.raises(LedgerError, match=next(iter(contradiction)).replace("_", "-")):
                account.check_terms(algorithm="find-and-release", **contradiction)
        with pytest.raises(LedgerError, match="one algorithm"):
            account.check_terms(algorithm="find")


def test_a_denial_after_the_noisy_test_costs_epsilon_svt(target: str) -> None:
    asked = make_request(algorithm="find-and-release")

    def deny(account: Account | None) -> Reservation:
        opening = None if account else make_opening("paper", "find-and-release")
        svt = Decimal(1) if account is None else Decimal(0)
        return Reservation(request=asked, charge=Charge(Decimal(0), svt), status="denied", opening=opening)

    with Ledger.open(target) as ledger:
        tested, untested = ledger.reserve("clinic", deny), ledger.reserve("clinic", deny)
        assert [(e.status, e.epsilon, e.charge, e.reading) for e in (tested, untested)] == [
            ("denied", None, 1, 1),
            ("denied", None, 0, 1),
        ]
        with pytest.raises(LedgerError, match="settled once"):
            ledger.settle(tested.id, status="released", answer=[])


def test_a_settled_denial_keeps_its_charge(target: str) -> None:
    with Ledger.open(target) as ledger:
        entry = ledger.reserve("clinic", decide_on("0.3"))
        denied = ledger.settle(entry.id, status="denied")
        assert (denied.status, denied.charge, denied.answer) == ("denied", Decimal("0.3"), None)
        account = ledger.account("clinic")
        assert account is not None
        assert account.reading.epsilon == Decimal("0.3")


def test_an_overspent_delta_reads_infinity_and_null(tmp_path: Path) -> None:
    """The ledger admits no such charge; a record of one, however it came there, must still be readable."""
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.reserve("clinic", decide_on("0.1", delta="1e-6"))
        before = ledger.verify().head
    with closing(sqlite3.connect(path)) as raw:
        (payload,) = raw.execute("SELECT payload FROM dosimeter_ledger WHERE seq = 2").fetchone()
        record = seal_record(
            seq=3,
            dataset="clinic",
            kind="reserve",
            at="2026-11-15T10:00:00Z",
            entry="e",
            payload=json.loads(payload),
            previous=before,
        )
        insert_raw(raw, record)
        raw.commit()
    with Ledger.open(path) as ledger:
        (dataset,) = ledger.describe()["datasets"]
        assert dataset["epsilon"] is None
        assert [entry["reading"] for entry in dataset["entries"]] == [0.1, None]
        json.dumps(dataset, allow_nan=False)
        with pytest.raises(LedgerError, match="does not admit"):
            ledger.reserve("clinic", lambda _: Reservation(request=make_request(), charge=Charge(Decimal("0.1"))))


def insert_raw(raw: sqlite3.Connection, record: Record) -> None:
    values = (
        record.seq,
        record.dataset,
        record.kind,
        record.version,
        record.at,
        record.entry,
        record.payload,
        record.previous,
        record.digest,
    )
    raw.execute("INSERT INTO dosimeter_ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)


def test_the_latest_answer_to_the_same_request_is_found(target: str) -> None:
    with Ledger.open(target) as ledger:
        for count in (1, 2):
            entry = ledger.reserve("clinic", decide_on("0.1"))
            ledger.settle(entry.id, status="released", answer=[{"count": count}])
        ledger.settle(ledger.reserve("clinic", decide_on("0.1")).id, status="denied")
        ledger.reserve("clinic", decide_on("0.1"))
        ledger.reserve("clinic", decide_on("0.1", request=make_request("request-2")))
        found = ledger.find_answer("clinic", "request-1")
        assert found is not None
        assert found.answer == [{"count": 2}]
        assert ledger.find_answer("clinic", "request-2") is None
        assert ledger.find_answer("other", "request-1") is None


def test_views_are_remembered_and_recorded_with_the_charge(target: str) -> None:
    with Ledger.open(target) as ledger:
        assert not ledger.viewed("clinic", "request-1")
        ledger.record_view("clinic", "request-1", "risk")
        ledger.record_view("clinic", "request-1", "risk")
        ledger.record_view("clinic", "request-1", "dry-run")
        assert ledger.verify().records == 2
        assert ledger.viewed("clinic", "request-1")
        assert not ledger.viewed("clinic", "request-2")
        assert not ledger.viewed("other", "request-1")
        assert ledger.account("clinic") is None  # looking opens no account
        assert ledger.reserve("clinic", decide_on("0.1")).viewed
        assert not ledger.reserve("clinic", decide_on("0.1", request=make_request("request-2"))).viewed
        known = Reservation(request=make_request("request-3"), charge=Charge(Decimal("0.1")), viewed=True)
        assert ledger.reserve("clinic", lambda _: known).viewed


def test_changed_data_never_open_a_fresh_account(target: str) -> None:
    changed = make_request(source_digest="source-2")
    charge = Charge(Decimal("0.1"))
    with Ledger.open(target) as ledger:
        ledger.reserve("clinic", decide_on("0.3"))
        with pytest.raises(LedgerError, match="--continue"):
            ledger.reserve("clinic", lambda _: Reservation(request=changed, charge=charge))
        with pytest.raises(LedgerError, match="already"):
            ledger.reserve(
                "clinic",
                lambda _: Reservation(request=changed, charge=charge, opening=make_opening(source_digest="source-2")),
            )
        assert ledger.verify().records == 2
        agreed = Continuation(schema_digest=SCHEMA, source_digest="source-2", by="Ada")
        entry = ledger.reserve("clinic", lambda _: Reservation(request=changed, charge=charge, continuation=agreed))
        assert entry.reading == Decimal("0.4")
        account = ledger.account("clinic")
        assert account is not None
        assert account.is_of(SCHEMA, "source-2")
        with pytest.raises(LedgerError, match="--continue"):
            ledger.reserve("clinic", decide_on("0.1"))  # the old data again


def test_datasets_are_told_apart(target: str) -> None:
    names = ["clinic", "Clinic", "clinic ", "Kliník", "a'b\"c;--"]
    with Ledger.open(target) as ledger:
        for name in names:
            ledger.reserve(name, open_with(f"data of {name}"))
        assert ledger.datasets() == tuple(names)
        assert all(len(account.entries) == 1 for account in ledger.accounts())


def open_with(source: str, epsilon: str = "0.9") -> Callable[[Account | None], Reservation]:
    """Open an account on these data, or continue one with them."""

    def decide(account: Account | None) -> Reservation:
        request = make_request(source_digest=source)
        agreed = Continuation(schema_digest=SCHEMA, source_digest=source)
        charge = Charge(Decimal(epsilon))
        if account is None:
            return Reservation(request=request, charge=charge, opening=make_opening(source_digest=source))
        return Reservation(request=request, charge=charge, continuation=agreed)

    return decide


def test_the_same_data_have_one_account(target: str) -> None:
    """Neither opened nor continued under another name, nor after the first account went on with newer data."""
    with Ledger.open(target) as ledger:
        ledger.reserve("clinic", open_with("may", "0.1"))
        ledger.reserve("clinic", open_with("june", "0.1"))
        ledger.reserve("other", open_with("elsewhere", "0.1"))
        before = ledger.verify()
        for name in ("copy", "other"):
            for source in ("may", "june"):
                with pytest.raises(LedgerError, match=r"account 'clinic' in.*table = .clinic. in"):
                    ledger.reserve(name, open_with(source, "0.1"))
                with pytest.raises(LedgerError, match="same data have the account 'clinic'"):
                    ledger.check_holder(name, source)
        assert ledger.verify() == before
        ledger.check_holder("clinic", "may")
        ledger.check_holder("copy", "july")
        ledger.reserve("clinic", open_with("may", "0.1"))  # its own data again


# ---------------------------------------------------------------- what is refused


def test_nothing_is_written_when_the_decision_raises(target: str) -> None:
    with Ledger.open(target) as ledger:
        with pytest.raises(RuntimeError, match="decided against it"):
            ledger.reserve("clinic", refuse)
        with pytest.raises(KeyboardInterrupt):
            ledger.reserve("clinic", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        assert ledger.verify().records == 0
        ledger.reserve("clinic", decide_on("0.1"))  # and the lock is free


@pytest.mark.parametrize(
    ("reservation", "message"),
    [
        (lambda: Reservation(request=make_request(), charge=Charge(Decimal("0.8"))), "does not admit"),
        (
            lambda: Reservation(request=make_request(), charge=Charge(Decimal("0.1"), delta=Decimal("2e-6"))),
            "does not admit",
        ),
        (lambda: Reservation(request=make_request(), charge=Charge(Decimal("0.6"))), "does not admit"),
        (lambda: Reservation(request=make_request(algorithm="find"), charge=Charge(Decimal("0.1"))), "one algorithm"),
        (lambda: Reservation(request=make_request(schema_digest="other"), charge=Charge(Decimal("0.1"))), "--continue"),
        (lambda: Reservation(request=make_request(), charge=Charge(Decimal(0))), "larger than 0"),
        (lambda: Reservation(request=make_request(), charge=Charge(Decimal(1)), status="denied"), "nothing but"),
        (
            lambda: Reservation(request=make_request(settings={"rows": [1]}), charge=Charge(Decimal("0.1"))),
            "never lists",
        ),
        (lambda: Reservation(request=make_request(analyst="\udcff"), charge=Charge(Decimal("0.1"))), "valid text"),
    ],
)
def test_the_ledger_itself_refuses(tmp_path: Path, reservation: Callable[[], Reservation], message: str) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        opening = make_opening("budget:1", max_epsilon=Decimal("0.5"))
        ledger.reserve(
            "clinic", lambda _: Reservation(request=make_request(), charge=Charge(Decimal("0.3")), opening=opening)
        )
        with pytest.raises(LedgerError, match=message):
            ledger.reserve("clinic", lambda _: reservation())
        assert ledger.verify().records == 2


def test_an_account_must_be_opened_first(target: str) -> None:
    with Ledger.open(target) as ledger:
        with pytest.raises(LedgerError, match="--policy"):
            ledger.reserve("clinic", lambda _: Reservation(request=make_request(), charge=Charge(Decimal("0.1"))))
        continuation = Continuation(schema_digest=SCHEMA, source_digest=SOURCE)
        with pytest.raises(LedgerError, match="no account"):
            ledger.reserve(
                "clinic",
                lambda _: Reservation(request=make_request(), charge=Charge(Decimal("0.1")), continuation=continuation),
            )
        assert ledger.verify().records == 0


def test_an_entry_is_settled_once_and_properly(target: str) -> None:
    with Ledger.open(target) as ledger:
        entry = ledger.reserve("clinic", decide_on("0.1"))
        with pytest.raises(LedgerError, match="no entry"):
            ledger.settle("unknown", status="denied")
        with pytest.raises(LedgerError, match="has an answer"):
            ledger.settle(entry.id, status="released")
        with pytest.raises(LedgerError, match="same columns"):
            ledger.settle(entry.id, status="released", answer=[{"a": 1}, {"b": 1}])
        with pytest.raises(LedgerError, match="finite numbers"):
            ledger.settle(entry.id, status="released", answer=[{"a": float("nan")}])
        ledger.settle(entry.id, status="released", answer=[])
        for status in ("released", "denied"):
            with pytest.raises(LedgerError, match="settled once"):
                ledger.settle(entry.id, status=status, answer=[] if status == "released" else None)
        assert ledger.verify().records == 3


@pytest.mark.parametrize("name", ["", "a\nb", "a\0b", "\udcff"])
def test_names_that_no_database_compares_alike_are_refused(tmp_path: Path, name: str) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger, pytest.raises(LedgerError, match="dataset's name"):
        ledger.reserve(name, decide_on("0.1"))


def test_values_show_no_private_numbers(tmp_path: Path) -> None:
    """An ε of algorithm 1, and the reading it adds to, are private: no repr shows them."""
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        entry = ledger.reserve("clinic", decide_on("0.777", request=make_request(algorithm="find")))
        assert "0.777" not in f"{entry!r} {ledger.account('clinic')!r} {ledger!r}"


# ---------------------------------------------------------------- records


def test_the_export_can_be_verified_by_others(target: str) -> None:
    with Ledger.open(target) as ledger:
        ledger.record_view("clinic", "request-1", "risk")
        entry = ledger.reserve(
            "clinic", decide_on("0.30", delta="1e-7", request=make_request(analyst='Zoë "Z" 雪\u2028'))
        )
        ledger.settle(entry.id, status="released", answer=[{"count": 1.5, "a": "é"}], guarantee="ε")
        stream = io.StringIO()
        ledger.export(stream)
        head = ledger.verify().head
    lines = [json.loads(line) for line in stream.getvalue().rstrip("\n").split("\n")]
    assert [line["kind"] for line in lines] == ["view", "account", "reserve", "settle"]
    assert lines[2]["payload"]["charge"] == {"epsilon": "0.3", "epsilon_svt": "0", "delta": "1E-7"}
    previous = "0" * 64
    for line in lines:
        payload = json.dumps(line["payload"], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        parts = [
            "dosimeter-ledger-record",
            line["seq"],
            line["dataset"],
            line["kind"],
            line["version"],
            line["at"],
            line["entry"],
            payload,
            previous,
        ]
        digest = sha256(json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()
        assert (line["previous"], line["digest"]) == (previous, digest)
        previous = digest
    assert previous == head


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(json_values)
def test_canonical_json_comes_back_and_stays(value: object) -> None:
    text = write_canonical_json(value)
    assert json.loads(text) == value
    assert write_canonical_json(json.loads(text)) == text


def test_answers_may_hold_dates_decimals_and_numpy_numbers(tmp_path: Path) -> None:
    import numpy as np

    answer = [
        {
            "day": datetime(2026, 1, 2, tzinfo=UTC).date(),
            "sum": Decimal("-1.50"),
            "n": np.int64(3),
            "x": np.float32(0.5),
        }
    ]
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        entry = ledger.reserve("clinic", decide_on("0.1"))
        settled = ledger.settle(entry.id, status="released", answer=answer)
        assert settled.answer == [{"day": "2026-01-02", "sum": "-1.50", "n": 3, "x": 0.5}]
        assert ledger.entry(entry.id) == settled


@pytest.mark.parametrize("change", [{"kind": "transfer"}, {"version": 2}])
def test_unknown_kinds_and_newer_versions_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.reserve("clinic", decide_on("0.1"))
        head = ledger.verify().head
    values = {
        "seq": 3,
        "dataset": "clinic",
        "kind": "view",
        "version": 1,
        "at": "2027-01-01T00:00:00Z",
        "entry": "",
        "payload": "{}",
        "previous": head,
        "digest": "",
        **change,
    }
    record = Record(**{**values, "digest": Record(**values).compute_digest()})  # type: ignore[arg-type]
    with closing(sqlite3.connect(path)) as raw:
        insert_raw(raw, record)
        raw.commit()
    with Ledger.open(path) as ledger:
        for call in (
            ledger.verify,
            ledger.describe,
            lambda: ledger.account("other"),
            lambda: ledger.reserve("clinic", decide_on("0.1")),
        ):
            with pytest.raises(LedgerError, match="newer one"):
                call()


# ---------------------------------------------------------------- accidents


COPY = "SELECT {} FROM dosimeter_ledger WHERE seq = 2"
ACCIDENTS = [
    "UPDATE dosimeter_ledger SET payload = '{}'",
    "UPDATE dosimeter_ledger SET payload = '{}' WHERE seq = 2",
    "DELETE FROM dosimeter_ledger",
    "DELETE FROM dosimeter_ledger WHERE seq = 2",
    "INSERT INTO dosimeter_ledger " + COPY.format("7, dataset, kind, version, at, entry, payload, digest, 'd'"),
    "INSERT INTO dosimeter_ledger " + COPY.format("3, dataset, kind, version, at, entry, payload, 'p', 'd'"),
    "UPDATE dosimeter_ledger_format SET version = 2",
    "DELETE FROM dosimeter_ledger_format",
]
SQLITE_ACCIDENTS = [
    "REPLACE INTO dosimeter_ledger " + COPY.format("seq, dataset, kind, version, at, entry, '{}', previous, digest"),
    "REPLACE INTO dosimeter_ledger " + COPY.format("3, dataset, kind, version, at, entry, '{}', previous, digest"),
    "UPDATE OR REPLACE dosimeter_ledger SET seq = 1 WHERE seq = 2",
    "INSERT INTO dosimeter_ledger_format VALUES (9)",
]
POSTGRES_ACCIDENTS = [
    "TRUNCATE dosimeter_ledger",
    "TRUNCATE dosimeter_ledger_format",
    f"INSERT INTO dosimeter_ledger {COPY.format('*')} ON CONFLICT (seq) DO UPDATE SET payload = 'x'",
    "INSERT INTO dosimeter_ledger_format VALUES (9)",
]


@pytest.mark.parametrize("accident", ACCIDENTS + SQLITE_ACCIDENTS)
def test_triggers_prevent_accidents_on_sqlite(tmp_path: Path, accident: str) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.reserve("clinic", decide_on("0.1"))
        before = ledger.verify()
        with closing(sqlite3.connect(path)) as raw, pytest.raises(sqlite3.IntegrityError, match="append-only"):
            raw.execute(accident)
        assert ledger.verify() == before


def test_triggers_prevent_accidents_on_postgresql(create_database: Callable[[], str]) -> None:
    url = create_database()
    with Ledger.open(url) as ledger:
        ledger.reserve("clinic", decide_on("0.1"))
        before = ledger.verify()
        for accident in ACCIDENTS + POSTGRES_ACCIDENTS:
            with psycopg.connect(url) as raw, pytest.raises(psycopg.errors.RaiseException, match="append-only"):
                raw.execute(accident)
        assert ledger.verify() == before


# ---------------------------------------------------------------- files and servers that cannot be used


def test_a_new_file_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    before = os.umask(0)
    try:
        with Ledger.open(path) as ledger:
            ledger.reserve("clinic", decide_on("0.1"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.db"]


def test_odd_file_names(tmp_path: Path) -> None:
    for name in ("a?b#c.db", "ä %20.db", ":memory:"):
        with Ledger.open(tmp_path / name) as ledger:
            ledger.reserve("clinic", decide_on("0.1"))
        with Ledger.open(str(tmp_path / name), create=False) as ledger:
            assert ledger.verify().records == 2
        assert (tmp_path / name).is_file()


def write_other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE patients (name TEXT)")


def write_newer_ledger(path: Path) -> None:
    Ledger.open(path).close()
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(
            "DROP TRIGGER dosimeter_ledger_format_no_update; UPDATE dosimeter_ledger_format SET version = 2"
        )


def write_half_ledger(path: Path) -> None:
    Ledger.open(path).close()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DROP TABLE dosimeter_ledger")


def write_damaged_ledger(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.reserve("clinic", decide_on("0.1"))
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * 3996 + content[4096:])


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: path.write_text("name,age\nAda,36\n" * 100), "is not a ledger"),
        (lambda path: path.write_bytes(b"x"), "is not a ledger"),
        (write_other_database, "not a ledger"),
        (write_newer_ledger, "format 2"),
        (write_half_ledger, "not a whole ledger"),
        (write_damaged_ledger, "damaged"),
        (lambda path: path.mkdir(), "is a directory"),
    ],
)
def test_files_that_are_no_ledger(tmp_path: Path, prepare: Callable[[Path], None], message: str) -> None:
    path = tmp_path / "ledger.db"
    prepare(path)
    content = path.read_bytes() if path.is_file() else b""
    for create in (True, False):
        with pytest.raises(LedgerError, match=message):
            Ledger.open(path, create=create)
    assert not path.is_file() or path.read_bytes() == content


def test_a_missing_ledger_is_created_only_on_purpose(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no ledger at"):
        Ledger.open(tmp_path / "ledger.db", create=False)
    (tmp_path / "empty.db").touch()
    with pytest.raises(LedgerError, match="is not a ledger"):
        Ledger.open(tmp_path / "empty.db", create=False)
    with pytest.raises(LedgerError, match="no directory"):
        Ledger.open(tmp_path / "missing" / "ledger.db")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["empty.db"]


@pytest.mark.parametrize("target", ["", "mysql://u:secret@h/d", "sqlite:///x.db", "a\0b"])
def test_other_targets_are_refused(target: str) -> None:
    with pytest.raises(LedgerError, match="path of a file") as caught:
        Ledger.open(target)
    assert "secret" not in str(caught.value)


def reserve_often(ledger: Ledger) -> None:
    for _ in range(100):
        ledger.reserve("clinic", decide_on("0.001"))


def test_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger.open(path).close()

    def limit(connection: sqlite3.Connection, record: object) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")

    sqlalchemy.event.listen(sqlalchemy.engine.Engine, "connect", limit)
    try:
        with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="disk is full"):
            reserve_often(ledger)
    finally:
        sqlalchemy.event.remove(sqlalchemy.engine.Engine, "connect", limit)
    with Ledger.open(path) as ledger:
        assert ledger.verify().intact
        ledger.reserve("clinic", decide_on("0.001"))


Worker = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.skipif(sys.platform == "win32", reason="limits on file sizes are POSIX")
def test_a_file_that_may_not_grow(tmp_path: Path, run_worker: Worker) -> None:
    path = tmp_path / "ledger.db"
    result = run_worker("try", str(path), "fill")
    assert result.stdout.startswith("refused: The disk "), result
    assert "Traceback" not in result.stderr
    with Ledger.open(path) as ledger:
        assert ledger.verify().intact


@pytest.mark.parametrize("read_only", ["file", "directory", "both"])
def test_what_may_only_be_read_can_be_read(open_directory: Path, run_worker: Worker, read_only: str) -> None:
    """Root may write anything: then another user tries."""
    path = open_directory / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.reserve("clinic", decide_on("0.001", "budget:1000"))
    as_nobody: tuple[str, ...] = ()
    if os.geteuid() == 0:
        for item in (path, open_directory):
            os.chown(item, NOBODY, NOBODY)
        as_nobody = (str(NOBODY),)
    path.chmod(0o600 if read_only == "directory" else 0o400)
    open_directory.chmod(0o700 if read_only == "file" else 0o500)
    shown = run_worker("try", str(path), "show", *as_nobody)
    assert shown.stdout == "intact True ok\n", shown
    written = run_worker("try", str(path), "reserve", *as_nobody)
    assert written.stdout.startswith("refused: "), written
    assert "must both be writable" in written.stdout
    elsewhere = run_worker("try", str(open_directory / "new.db"), "reserve", *as_nobody)
    if read_only != "file":
        assert "permissions" in elsewhere.stdout, elsewhere


def test_what_may_not_even_be_read(open_directory: Path, run_worker: Worker) -> None:
    path = open_directory / "ledger.db"
    Ledger.open(path).close()
    as_nobody = (str(NOBODY),) if os.geteuid() == 0 else ()
    path.chmod(0o600 if as_nobody else 0)
    refused = run_worker("try", str(path), "show", *as_nobody)
    assert "check the permissions" in refused.stdout, refused


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://ada:hunter2@127.0.0.1:1/ledger", "cannot be reached"),
        ("postgresql://ada:hunter2@nowhere.invalid/ledger", "cannot be reached"),
        ("postgresql://ada:hun@ter2@127.0.0.1/ledger", "%40"),
        ("postgresql://ada:hunter2@127.0.0.1:port/ledger", "cannot be read"),
        ("postgresql://127.0.0.1:1/ledger?password=hunter2", "cannot be reached"),
        ("postgresql://127.0.0.1:1/ledger?nonsense=hunter2", "cannot be reached"),
    ],
)
def test_servers_that_cannot_be_reached(url: str, message: str) -> None:
    with pytest.raises(LedgerError, match=message) as caught:
        Ledger.open(url, busy_timeout=2)
    assert "hunter2" not in str(caught.value)
    assert "ter2" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None  # nor in a traceback


def test_databases_that_cannot_be_used(create_database: Callable[[], str]) -> None:
    url = create_database()
    with pytest.raises(LedgerError, match="no such database"):
        Ledger.open(url.replace("/ledger_", "/missing_"))
    with pytest.raises(LedgerError, match="is not a ledger"):
        Ledger.open(url, create=False)
    with Ledger.open(url) as ledger:
        ledger.reserve("clinic", decide_on("0.1"))
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("CREATE ROLE reader LOGIN")
        raw.execute("CREATE ROLE writer LOGIN")
        raw.execute("GRANT SELECT ON dosimeter_ledger, dosimeter_ledger_format TO writer, reader")
        raw.execute("GRANT INSERT ON dosimeter_ledger TO writer")
        raw.execute("CREATE ROLE stranger LOGIN")
        raw.execute("ALTER ROLE reader SET default_transaction_read_only = on")
    with Ledger.open(url.replace("postgres@", "writer@")) as ledger:  # needs no more than SELECT and INSERT
        ledger.settle(ledger.reserve("clinic", decide_on("0.1")).id, status="denied")
    with Ledger.open(url.replace("postgres@", "reader@")) as ledger:
        assert ledger.verify().intact
        with pytest.raises(LedgerError, match="read-only"):
            ledger.reserve("clinic", decide_on("0.1"))
    with pytest.raises(LedgerError, match="may not read"):
        Ledger.open(url.replace("postgres@", "stranger@"))
    with pytest.raises(LedgerError, match="cannot be reached"):
        Ledger.open(url.replace("postgres@", "nobody@"))
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("DROP TRIGGER dosimeter_ledger_format_no_change ON dosimeter_ledger_format")
        raw.execute("UPDATE dosimeter_ledger_format SET version = 2")
    with pytest.raises(LedgerError, match="format 2"):
        Ledger.open(url)


def test_a_lost_connection_is_one_clear_error(create_database: Callable[[], str]) -> None:
    url = create_database()

    def cut_off(account: Account | None) -> Reservation:
        with psycopg.connect(url, autocommit=True) as raw:
            raw.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dosimeter ledger'"
            )
        return decide_on("0.1")(account)

    with Ledger.open(url) as ledger:
        with pytest.raises(LedgerError, match="ledger"):
            ledger.reserve("clinic", cut_off)
        assert ledger.verify().records == 0
