"""The ledger's records: their digests and JSON, kinds that are not known, accidents, and what they tell of the data."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter import Dataset
from dosimeter.errors import LedgerError
from dosimeter.ledger import Ledger, Record, write_canonical_json
from dosimeter.release import write_record
from tests.known import known
from tests.ledger.ledger_worker import decide_on, make_request
from tests.ledger.raw_records import export_records, put_record, seal
from tests.schemas import declare, plain

# ---------------------------------------------------------------- records


def test_the_export_can_be_verified_by_others(target: str) -> None:
    with Ledger.open(target) as ledger:
        ledger.record_view("clinic", "request-1", "risk")
        entry = ledger.reserve(
            "clinic", decide_on("0.30", delta="1e-7", request=make_request(analyst='Zoë "Z" 雪\u2028'))
        )
        ledger.settle(entry.id, status="released", answer=[{"count": 1.5, "a": "é"}], guarantee="ε")
        lines, head = export_records(ledger), ledger.verify().head
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


@pytest.mark.parametrize("change", [{"kind": "transfer"}, {"version": 9}])
def test_unknown_kinds_and_newer_versions_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.reserve("clinic", decide_on("0.1"))
        head = ledger.verify().head
    view = Record(3, "clinic", "view", 1, "2027-01-01T00:00:00Z", "", "{}", head, "")
    with closing(sqlite3.connect(path)) as raw:
        put_record(raw, seal(view, **change))
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


# ---------------------------------------------------------------- what is published says nothing of the data


SCHEMA = declare("t", 100, {"name": {"type": "text", "identifying": True}, "ill": plain("boolean")}, unit="row")


def publish(folder: Path, ill: str) -> tuple[str, str, str, list[dict[str, object]]]:
    """Release one answer at a moment that is always the same. Gives its name, head, page and all records."""
    folder.mkdir()
    (folder / "t.csv").write_text(f"name,ill\nAnn,true\nBob,{ill}\n")
    with (
        Dataset.open(folder / "t.csv", schema=SCHEMA) as dataset,
        Ledger.open(folder / "ledger.db", clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)) as ledger,
    ):
        answer = dataset.release("SELECT COUNT(*) FROM t", epsilon=0.01, ledger=ledger, policy="budget:1")
        assert answer.entry is not None
        entry = known(ledger.entry(answer.entry))
        page = write_record(entry, ledger.account("t"), ledger.verify())
        return entry.id, ledger.verify().head, page, export_records(ledger)


def test_names_and_heads_cannot_be_worked_out_from_the_data(tmp_path: Path) -> None:
    """Whoever has the same file, moment and program gets other digests from the first record on."""
    first, second = (publish(tmp_path / name, "true") for name in ("one", "two"))
    assert first[0] != second[0]  # the entry's name comes after the record that opened the account
    assert first[1] != second[1]
    for one, other in zip(first[3], second[3], strict=True):
        assert (one["kind"], one["at"]) == (other["kind"], other["at"])
        assert one["digest"] != other["digest"]


def test_the_page_for_everybody_has_no_digest_of_the_data(tmp_path: Path) -> None:
    _, head, page, records = publish(tmp_path / "one", "true")
    others = set(re.findall(r"[0-9a-f]{64}", json.dumps([record["payload"] for record in records])))
    shown = set(re.findall(r"[0-9a-f]{64}", page)) - {head}
    schema = set(re.findall(r'"schema_digest": "([0-9a-f]{64})"', json.dumps(records)))
    assert shown == schema  # public facts
    assert len(others - schema) >= 2  # the data's own, and the request's
