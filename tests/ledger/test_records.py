"""The ledger's records: digests, JSON, unknown kinds, accidents, what they tell of the data, and what they hold beside
the charge: kept exactly, refused where it is nonsense, read of old.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter import Dataset
from dosimeter.errors import LedgerError
from dosimeter.ledger import Details, KeptNumber, Ledger, Record, Reservation, write_canonical_json
from dosimeter.ledger.entries import write_measured
from dosimeter.ledger.readings import Charge
from dosimeter.release import write_record
from dosimeter.release.run import recall_answer
from tests.known import known
from tests.ledger.ledger_worker import decide_on, make_opening, make_request
from tests.ledger.raw_records import describe_datasets, export_records, put_record, seal
from tests.schemas import declare, plain, whole

pytestmark = pytest.mark.smoke

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
        named = [line[name] for name in ("seq", "dataset", "kind", "version", "at", "entry")]
        parts = ["dosimeter-ledger-record", *named, payload, previous]
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


def test_answers_may_hold_dates_decimals_and_numpy_numbers(ledger: Ledger) -> None:
    import numpy as np

    row = {"day": date(2026, 1, 2), "sum": Decimal("-1.50"), "n": np.int64(3), "x": np.float32(0.5)}
    entry = ledger.reserve("clinic", decide_on("0.1"))
    settled = ledger.settle(entry.id, status="released", answer=[row])
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


def test_triggers_prevent_accidents(target: str, ledger: Ledger) -> None:
    ledger.reserve("clinic", decide_on("0.1"))
    before = ledger.verify()
    connect: Callable[[str], Any]
    connect, own = (psycopg.connect, POSTGRES_ACCIDENTS) if "://" in target else (sqlite3.connect, SQLITE_ACCIDENTS)
    for accident in ACCIDENTS + own:
        refused = pytest.raises((sqlite3.IntegrityError, psycopg.errors.RaiseException), match="append-only")
        with closing(connect(target)) as raw, refused:
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
        entry = known(ledger.entry(known(answer.entry)))
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


NUMBERS = [[Fraction(741), Fraction(-35569, 2)], [Fraction("0.01"), Fraction(37, 2**20)]]
TEXTS = (("741", "-17784.5"), ("0.01", "37/1048576"))
KEPT = KeptNumber("variance of plan 1", "37/1048576")
WriteSettlement = Callable[[int, dict[str, Any]], Ledger]


@pytest.fixture
def write_settlement(tmp_path: Path) -> Iterator[WriteSettlement]:
    """Seals the settlement of a reservation, the third record, as another version of the program would have."""
    path, charge = tmp_path / "ledger.db", Charge(Decimal("0.3"), Decimal("0.1"))
    opening = make_opening("budget:9", "mixed")
    granted = Reservation(request=make_request(algorithm="find-and-release"), charge=charge, opening=opening, kept=KEPT)
    with ExitStack() as opened:

        def write(version: int, payload: dict[str, Any]) -> Ledger:
            with Ledger.open(path) as ledger:
                entry, head = ledger.reserve("clinic", lambda _: granted), ledger.verify().head
            text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
            with closing(sqlite3.connect(path)) as raw:
                put_record(
                    raw, seal(Record(3, "clinic", "settle", version, "2026-11-15T10:00Z", entry.id, text, head, ""))
                )
                raw.commit()
            return opened.enter_context(Ledger.open(path))

        yield write


ROWS = {"columns": ["n"], "rows": [[3]]}
PLAIN: dict[str, Any] = {"status": "released", "answer": ROWS, "guarantee": "g", "error_95": [1.0]}


@pytest.mark.parametrize(
    ("version", "more", "measured"),
    [
        (1, {}, None),
        (2, {"measured": [list(row) for row in TEXTS]}, TEXTS),
        (3, {"measured": [[list(row) for row in TEXTS]], "kept": {"of": KEPT.of, "number": "1"}}, TEXTS),
    ],
)
def test_settlements_of_every_version_are_read(
    write_settlement: WriteSettlement, version: int, more: dict[str, Any], measured: object
) -> None:
    """What a settlement itself says of a kept number counts for nothing: no program that charged for one wrote it."""
    ledger = write_settlement(version, PLAIN | more)
    assert ledger.verify().intact
    (old,) = ledger.entries("clinic", 1)
    assert (old.status, old.answer, old.measured) == ("released", [{"n": 3}], measured)
    assert (old.blocks, old.errors, old.about, old.kept) == ((measured,) if measured else (), None, None, KEPT)
    assert ledger.find_kept("clinic", KEPT.of) == KEPT


@given(st.fractions() | st.decimals(allow_nan=False, allow_infinity=False, places=9).map(Fraction) | st.integers())
def test_every_number_is_written_exactly(number: Fraction) -> None:
    ((text,),) = write_measured([[Fraction(number)]])
    assert Fraction(text) == number
    assert "e" not in text.lower()
    assert ("/" in text) == (10**9 % Fraction(number).denominator != 0)


# ---------------------------------------------------------------- what newer records have room for


DETAILS = Details(
    further=([[Fraction(7)]], [[Fraction(1, 7)], [Fraction(2)]]),
    errors=[{"n": 1.5, "m": None}],
    rank_errors={"m": 12},
    about=["at most 10 rows of each individual count", "charges above 5,000 count as 5,000"],
)


def test_everything_that_is_written_is_given_back(target: str) -> None:
    with Ledger.open(target) as ledger:
        entry = ledger.reserve("clinic", decide_on("0.3"))
        assert entry.measured is None
        settled = ledger.settle(
            entry.id, status="released", answer=[{"n": 3, "m": 2.5}], measured=NUMBERS, details=DETAILS
        )
    with Ledger.open(target, create=False) as again:
        assert again.entry(entry.id) == settled
        shown = json.dumps(again.describe())
        record = export_records(again)[-1]
    assert settled.measured == TEXTS
    assert settled.blocks == (TEXTS, (("7",),), (("1/7",), ("2",)))
    assert settled.errors == ({"n": 1.5, "m": None},)
    assert settled.rank_errors == {"m": 12}
    assert settled.about == tuple(DETAILS.about or ())
    assert "1/7" not in shown  # not for a screen
    assert "measured" not in shown
    assert (record["kind"], record["version"]) == ("settle", 3)
    assert record["payload"]["measured"][0] == [list(row) for row in TEXTS]


def test_what_is_not_given_is_not_written(ledger: Ledger) -> None:
    entry = ledger.reserve("clinic", decide_on("0.3"))
    ledger.settle(entry.id, status="released", answer=[{"n": 3}], measured=[])
    reserved, settled = export_records(ledger)[1:]
    assert sorted(settled["payload"]) == ["answer", "error_95", "guarantee", "measured", "salt", "status"]
    assert (reserved["kind"], reserved["version"]) == ("reserve", 3)
    assert {"reason", "kept", "rho", "lock"}.isdisjoint(reserved["payload"])


def test_a_denial_keeps_its_reason_and_the_number_that_was_paid_for(ledger: Ledger) -> None:
    denial = Reservation(
        request=make_request(algorithm="find-and-release"),
        charge=Charge(Decimal(0), Decimal(1), rho=Decimal("0.5")),
        status="denied",
        opening=make_opening("budget:9@1e-05", "mixed"),
        reason="noisy test",
        kept=KEPT,
    )
    entry = ledger.reserve("clinic", lambda _: denial)
    assert (entry.reason, entry.kept, entry.rho) == ("noisy test", KEPT, Decimal("0.5"))
    assert describe_datasets(ledger)[0]["entries"][0]["reason"] == "noisy test"
    assert KEPT.of not in json.dumps(ledger.describe())  # not for a screen
    assert recall_answer(entry).describe() == {"status": "denied"}
    assert "noisy" not in repr(entry) + repr(recall_answer(entry))
    assert ledger.find_kept("another", KEPT.of) is ledger.find_kept("clinic", "another") is None
    for number in range(70):  # behind a checkpoint too
        assert ledger.find_kept("clinic", KEPT.of) == KEPT
        ledger.record_view("clinic", f"look-{number}", "risk")


@pytest.mark.parametrize(
    ("version", "given"),
    [
        *((2, {"measured": each}) for each in ([[1, 2]], "text", [["1"], [None]], 7)),
        (3, {"errors": [{"n": "1.5"}]}),
        (3, {"errors": [{"n": 1.5}, {"n": 2.5}]}),
        (3, {"errors": {"n": 1.5}}),
        (3, {"errors": [None]}),
        (3, {"rank_errors": [1]}),
        (3, {"rank_errors": {"n": True}}),
        (3, {"about": [7]}),
        (3, {"about": ["two\nlines"]}),
        (3, {"reason": "somebody's cell"}),
        (3, {"measured": [["1"]]}),
        (3, {"error_95": ["1.0"]}),
        (3, {"error_95": [True]}),
        (3, {"answer": {"columns": ["n"], "rows": [[[3]]]}}),
        (3, {"guarantee": 1}),
        (3, {"measured": [[[1]]]}),
    ],
)
def test_what_makes_no_sense_is_a_bad_record(
    write_settlement: WriteSettlement, version: int, given: dict[str, Any]
) -> None:
    ledger = write_settlement(version, PLAIN | {"measured": [[["1"]]]} | given)
    assert ledger.verify().first_bad == (3, "its payload is not that of a record of kind settle")


@pytest.mark.parametrize(("of", "number"), [("x", "1/0"), ("", "1"), ("x", "many")])
def test_a_kept_number_is_a_number_of_something(of: str, number: str) -> None:
    with pytest.raises(LedgerError):
        KeptNumber(of, number)


def test_a_reason_belongs_to_a_denial() -> None:
    charge = Charge(Decimal("0.1"))
    with pytest.raises(LedgerError, match="Only a denial"):
        Reservation(request=make_request(), charge=charge, reason="budget")
    with pytest.raises(LedgerError, match="must be one of budget, reading, cap"):
        Reservation(request=make_request(), charge=Charge(Decimal(0)), status="denied", reason="Bob")  # type: ignore[arg-type]


# ---------------------------------------------------------------- why a release was denied

TABLE = declare("t", 40, {"x": whole(0, 9)})
COUNT = "SELECT COUNT(*) FROM t WHERE x > {}"


@pytest.fixture
def table() -> Iterator[Dataset]:
    with Dataset.open(pa.table({"x": [at % 10 for at in range(30)]}), schema=TABLE) as opened:
        yield opened


@pytest.mark.parametrize(
    ("way", "terms", "reason"),
    [
        ({"epsilon": 2.0}, {"policy": "budget:1"}, "budget"),
        ({"epsilon": 2.0}, {"policy": "budget:9", "max_epsilon": 1.0}, "cap"),
        ({"epsilon": 0.5, "mechanism": "gaussian"}, {"policy": "budget:9", "delta_total": 0}, "delta"),
        ({"prefer": "ratio:0.99999"}, {"policy": "budget:9"}, "preference"),
        ({"prefer": "ratio:0.5", "candidates": [1.0]}, {"policy": "budget:0.5"}, "budget"),
        ({"svt": 20.0, "variance": 1e-9, "candidates": [10.0]}, {"policy": "budget:100"}, "noisy test"),
        ({"svt": 1.0, "variance": 0.9, "candidates": [1.0]}, {"policy": "budget:1"}, "budget"),
    ],
)
def test_the_controller_sees_why(
    ledger: Ledger, table: Dataset, way: dict[str, Any], terms: dict[str, Any], reason: str
) -> None:
    """A first request that is denied opens no account, unless it paid for the noisy test; why is on record anyway."""
    answer = table.release(COUNT.format(4), ledger=ledger, **way, **terms)
    assert answer.describe() == {"status": "denied"}
    if reason == "noisy test":
        (entry,) = describe_datasets(ledger)[0]["entries"]
        assert (entry["status"], entry["reason"]) == ("denied", reason)
        return
    assert (ledger.accounts(), answer.entry) == ((), None)
    last = export_records(ledger)[-1]
    assert (last["kind"], last["payload"]["reason"]) == ("end", reason)
    assert last["payload"]["request"]["query"] == COUNT.format(4)
    other = {"epsilon": 0.25} if "epsilon" in way else {"prefer": "ratio:0.1"} if "prefer" in way else way
    first = table.release(COUNT.format(4), ledger=ledger, **{**other, "policy": "budget:70"})  # on other terms
    assert first.status == "released"
    assert ledger.verify().intact


def test_the_papers_rule_is_a_reason_of_its_own(ledger: Ledger, table: Dataset) -> None:
    assert table.release(COUNT.format(4), ledger=ledger, epsilon=1.0, policy="paper").status == "released"
    assert table.release(COUNT.format(5), ledger=ledger, epsilon=0.5).status == "denied"
    assert [entry["reason"] for entry in describe_datasets(ledger)[0]["entries"]] == [None, "reading"]
