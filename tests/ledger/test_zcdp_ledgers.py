"""Accounts with a policy budget:E@D in the ledger (O4): what is charged, what may mix, what is left, what is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import LedgerError, OptionError
from dosimeter.ledger import AccountSummary, Charge, Entry, Reservation
from dosimeter.mechanisms.zcdp import exact_zcdp_epsilon
from dosimeter.release import add_noise, noisy_vector
from tests.known import known
from tests.ledger.ledger_worker import decide_on, make_opening, make_request
from tests.ledger.raw_records import (
    Tampered,
    describe_datasets,
    export_records,
    put_record,
    read_last,
    seal,
    tamper_with,
)
from tests.schemas import declare, plain, whole

pytestmark = pytest.mark.smoke

PEOPLE = 1000
SCHEMA: dict[str, Any] = declare("t", PEOPLE, {"x": whole(0, 9), "word": plain("text")})
COUNT = "SELECT COUNT(*) FROM t WHERE x > {}"
POLICY = "budget:3@1e-05"


@pytest.fixture(scope="module")
def table() -> Iterator[Dataset]:
    rows = pa.table({"x": [number % 10 for number in range(200)], "word": ["a", "b"] * 100})
    with Dataset.open(rows, schema=SCHEMA) as dataset:
        yield dataset


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger.db") as opened:
        yield opened


def last(ledger: Ledger) -> Entry:
    (entry,) = ledger.entries("t", 1)
    return entry


def test_a_ledger_charges_what_was_drawn(table: Dataset, ledger: Ledger) -> None:
    """Gaussian noise by the scale that is drawn; Laplace noise, ranks and the noisy test by ε²/2; groups by their δ."""
    drawn: list[Fraction] = []

    def note(totals: Any, calibrated: Any) -> list[int]:
        drawn.append(Fraction(calibrated.sensitivity) ** 2 / (2 * Fraction(calibrated.scale) ** 2))
        return add_noise(totals, calibrated)

    terms: dict[str, Any] = {"ledger": ledger, "policy": POLICY, "delta_total": "4e-06"}
    with mock.patch.object(noisy_vector, "add_noise", note):
        table.release("SELECT COUNT(*), SUM(x) FROM t", epsilon=0.5, mechanism="gaussian", **terms)
    assert len(drawn) == 2
    assert 0 <= Fraction(last(ledger).rho or 0) - sum(drawn) < Fraction(1, 10**18)
    table.release(COUNT.format(1), epsilon=0.1, **terms)
    assert last(ledger).rho == Decimal("0.005")
    table.release("SELECT MEDIAN(x) FROM t", epsilon=0.2, **terms)
    assert last(ledger).rho == Decimal("0.02")
    shown: dict[str, Any] = {"groups": "thresholded", "group_delta": 1e-6}
    table.release("SELECT word, COUNT(*) FROM t GROUP BY word", epsilon=0.1, **shown, **terms)
    assert (last(ledger).delta, last(ledger).request.delta) == (Decimal("1e-6"), Decimal("1e-6"))
    assert 0 < Fraction(last(ledger).rho or 0) - Fraction("0.005") - Fraction(1, 10**6 - 1) < Fraction(1, 10**18)
    table.release(COUNT.format(2), svt=0.3, variance=1.0, candidates="0.1", **terms)
    found = last(ledger)
    assert found.rho == Decimal("0.045") + (Decimal("0.005") if found.status == "released" else 0)
    account = known(ledger.account("t"))
    assert account.reading.rho == sum(entry.rho or 0 for entry in account.entries)
    assert account.reading.epsilon == exact_zcdp_epsilon(account.reading.rho, Decimal("6e-6"))  # 1e-5 less 4e-6
    assert sum(entry.charge for entry in account.entries) == account.reading.epsilon
    assert account.reading.delta == Decimal("1e-6")
    shown_account = account.describe()
    assert (shown_account["rho"], shown_account["epsilon"]) == (
        float(account.reading.rho),
        float(account.reading.epsilon),
    )
    curve = known(account.curve)
    assert (Decimal("1e-5"), account.reading.epsilon) in curve
    assert [epsilon for _, epsilon in curve] == sorted(epsilon for _, epsilon in curve)


def test_the_delta_of_groups_is_asked_for_when_the_account_is_opened(table: Dataset, ledger: Ledger) -> None:
    groups: dict[str, Any] = {"groups": "thresholded", "group_delta": 1e-6, "epsilon": 0.1, "ledger": ledger}
    query = "SELECT word, COUNT(*) FROM t GROUP BY word"
    with pytest.raises(OptionError, match="set aside"):
        table.release(query, policy=POLICY, **groups)
    with pytest.raises(OptionError, match="smaller"):
        table.release(query, policy=POLICY, delta_total="1e-05", **groups)
    table.release(COUNT.format(1), epsilon=0.1, policy=POLICY, ledger=ledger)
    assert table.release(query, **groups).status == "denied"
    assert last(ledger).reason == "delta"
    assert "set aside" in (table.dry_run(query, **groups).reason or "")


def test_a_delta_that_promises_nothing_is_warned_of(table: Dataset, ledger: Ledger) -> None:
    answer = table.release(COUNT.format(1), epsilon=0.1, policy="budget:3@0.002", ledger=ledger)
    (note,) = answer.notes
    assert "above 1/1,000" in note
    assert describe_datasets(ledger)[0]["notes"] == [note]
    assert make_opening(POLICY, delta_total=Decimal(0)).policy.warn(Decimal(0), PEOPLE) is None


def test_everything_that_is_public_may_mix(table: Dataset, ledger: Ledger) -> None:
    for policy in (POLICY, "budget:3"):
        with Ledger.open(Path(str(ledger._store.backend.label)).with_name(f"{policy[-1]}.db")) as books:
            table.release(COUNT.format(1), epsilon=0.1, ledger=books, policy=policy)
            table.release(COUNT.format(1), svt=0.2, variance=1.0, candidates="0.1", ledger=books)
            with pytest.raises(LedgerError, match="found from a preference"):
                table.release(COUNT.format(1), prefer="ratio:0.1", ledger=books)
            (account,) = describe_datasets(books)
            assert account["algorithm"] == "mixed"
            assert [entry["algorithm"] for entry in account["entries"]] == ["fixed", "find-and-release"]
    alone = ledger
    table.release(COUNT.format(1), prefer="ratio:0.1", ledger=alone, policy=POLICY)
    assert describe_datasets(alone)[0]["algorithm"] == "find"
    with pytest.raises(LedgerError, match="a fixed ε"):
        table.release(COUNT.format(1), epsilon=0.1, ledger=alone)


@pytest.mark.parametrize(
    ("policy", "mechanism"), [("budget:0.5", "laplace"), (POLICY, "laplace"), ("budget:0.4@1e-05", "gaussian")]
)
def test_as_many_answers_follow_as_are_said_to_be_left(
    table: Dataset, ledger: Ledger, policy: str, mechanism: Any
) -> None:
    options: dict[str, Any] = {"epsilon": 0.1, "mechanism": mechanism, "ledger": ledger, "again": True}
    table.release(COUNT.format(1), policy=policy, **options)
    account = known(ledger.summary("t"))
    described = account.remaining.describe()
    counts = described["gaussian" if mechanism == "gaussian" else "answers"]
    assert isinstance(counts, dict)
    count = counts["0.1"]
    assert isinstance(count, int)
    assert 3 < count < 60
    if policy != "budget:0.5":
        ledger.reserve("t", _spend(account, count - 3))  # all but the last three, at once
        count = 3
    statuses = [table.release(COUNT.format(1), **options).status for _ in range(count + 1)]
    assert statuses == ["released"] * count + ["denied"]
    assert last(ledger).reason == "budget"
    left = known(ledger.summary("t"))
    assert left.remaining.describe()["answers"] is not None
    assert (left.remaining.gaussian if mechanism == "gaussian" else left.remaining.answers)[0.1] == 0


def _spend(account: AccountSummary, times: int) -> Any:
    """Charge so many answers like the first at once, as one entry."""

    def decide(found: AccountSummary | None) -> Reservation:
        schema, source = account.agreed[-1]
        request = make_request(schema_digest=schema, source_digest=source)
        charge = Charge(Decimal("0.1"), rho=known(known(found).reading.rho) * times)
        return Reservation(request=request, charge=charge)

    return decide


# ---------------------------------------------------------------- checkpoints, and whoever alters them


@pytest.fixture
def tampered(tmp_path: Path) -> Iterator[Tampered]:
    with tamper_with(tmp_path / "long.db") as (raw, ledger):
        for number in range(40):
            entry = ledger.reserve("clinic", decide_on(f"0.0{number % 9 + 1}", POLICY))
            if number % 7:
                ledger.settle(entry.id, status="released", answer=[{"n": number}])
        yield raw, ledger


def test_a_checkpoint_holds_rho_and_no_epsilon(tampered: Tampered) -> None:
    raw, ledger = tampered
    state = json.loads(read_last(raw, "kind = 'state'").payload)
    assert sorted(state["account"]["reading"]) == ["delta", "rho"]
    account, summary = known(ledger.account("clinic")), known(ledger.summary("clinic"))
    assert account.reading == summary.reading
    assert account.reading.rho == sum(entry.rho or 0 for entry in account.entries)
    opened = [entry for entry in account.entries if entry.status == "reserved"]
    assert len(opened) == 6
    assert [ledger.entry(entry.id) for entry in opened] == opened
    written = [record["payload"] for record in export_records(ledger)]
    assert [Decimal(each["rho"]) for each in written if "rho" in each] == [entry.rho for entry in account.entries]


@pytest.mark.parametrize("kind", ["reserve", "state"])
def test_whoever_forges_rho_is_found(tampered: Tampered, kind: str) -> None:
    raw, ledger = tampered
    record = read_last(raw, "kind = ?", kind)
    payload = json.loads(record.payload)
    place = payload if kind == "reserve" else payload["account"]["reading"]
    place["rho"] = "0.00001"
    put_record(raw, seal(record, payload=json.dumps(payload, sort_keys=True, separators=(",", ":"))))
    assert not ledger.verify().intact
    with pytest.raises(LedgerError, match="altered at record"):
        ledger.reserve("clinic", decide_on("0.1"))


def test_a_charge_without_rho_is_no_record(tampered: Tampered) -> None:
    """Appended at the end and sealed, as only somebody can who writes to the database."""
    raw, ledger = tampered
    template, end = read_last(raw, "kind = 'reserve'"), read_last(raw)
    for rho, at in ((None, end.seq + 1), ("-1", end.seq + 1), (0.5, end.seq + 1)):
        payload = json.loads(template.payload)
        payload.pop("rho")
        payload |= {} if rho is None else {"rho": rho}
        text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
        put_record(raw, seal(template, seq=at, entry="f" * 16, payload=text, previous=end.digest))
        assert ledger.verify().first_bad == (at, "its payload is not that of a record of kind reserve")


def test_the_ledger_refuses_a_charge_that_is_counted_otherwise(ledger: Ledger) -> None:
    plain, counted = Charge(Decimal("0.1")), Charge(Decimal("0.1"), rho=Decimal("0.005"))
    for policy, charge in ((POLICY, plain), ("budget:1", counted)):
        total = Decimal(0) if policy == POLICY else Decimal("1e-6")
        wrong = Reservation(request=make_request(), charge=charge, opening=make_opening(policy, delta_total=total))
        with pytest.raises(LedgerError, match="counts ρ"):
            ledger.reserve("clinic", lambda _, wrong=wrong: wrong)  # type: ignore[misc]
    beyond = Charge(Decimal(1), rho=Decimal(9))
    with pytest.raises(LedgerError, match="does not admit this charge"):
        ledger.reserve(
            "clinic",
            lambda _: Reservation(
                request=make_request(), charge=beyond, opening=make_opening(POLICY, delta_total=Decimal(0))
            ),
        )
    assert ledger.summary("clinic") is None
