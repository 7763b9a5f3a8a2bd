"""What tests do to a ledger, in this process or in one that is killed. Not a test.

ledger_worker.py kill JOB …                   each in a process of its own, killed with SIGKILL at a step; prints how
                                              each ended. A job is JSON: ["crash", STEP, TARGET, OUTBOX, POLICY] for one
                                              request, ["incident", STEP, TARGET] for a stop and then its end
ledger_worker.py loop TARGET OUTBOX           one request after the other, until killed from outside
ledger_worker.py measure TARGET DATASET       be measuring until standard input ends; prints "measuring"
ledger_worker.py hold TARGET SECONDS          hold the write lock; prints "holding" when it has it
ledger_worker.py try TARGET VERB              one call; prints ok, or the message of the LedgerError
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from dosimeter.errors import DosimeterError, LedgerError
from dosimeter.ledger import (
    AccountOpening,
    AccountSummary,
    Algorithm,
    Ledger,
    Measuring,
    Record,
    Request,
    Reservation,
)
from dosimeter.ledger.accounting import Policy, admits_charge
from dosimeter.ledger.entries import AccountAlgorithm
from dosimeter.ledger.readings import Charge
from dosimeter.mechanisms.zcdp import pure_rho

SCHEMA, SOURCE = "schema-1", "source-1"


def make_opening(policy: str = "budget:1", algorithm: AccountAlgorithm = "fixed", **changes: object) -> AccountOpening:
    terms: dict[str, object] = {
        "policy": Policy.parse(policy),
        "algorithm": algorithm,
        "delta_total": Decimal("1e-6"),
        "max_epsilon": None,
        "individuals": 1000,
        "schema_digest": SCHEMA,
        "source_digest": SOURCE,
    }
    return AccountOpening(**{**terms, **changes})  # type: ignore[arg-type]


def make_request(request_digest: str = "request-1", algorithm: Algorithm = "fixed", **changes: object) -> Request:
    asked: dict[str, object] = {
        "query": "SELECT COUNT(*) FROM clinic WHERE age = 25",
        "plan_digest": "plan-1",
        "schema_digest": SCHEMA,
        "source_digest": SOURCE,
        "request_digest": request_digest,
        "algorithm": algorithm,
        "mechanism": "laplace",
        "calibration": None,
        "delta": Decimal(0),
        "software": "dosimeter 0",
    }
    return Request(**{**asked, **changes})  # type: ignore[arg-type]


def decide_on(
    epsilon: str, policy: str = "budget:1", request: Request | None = None, **charge: str
) -> Callable[[AccountSummary | None], Reservation]:
    """Open the account if need be, and charge ε; refuse by ValueError what the policy does not admit."""

    def decide(account: AccountSummary | None) -> Reservation:
        wanted = Charge(Decimal(epsilon), **{part: Decimal(amount) for part, amount in charge.items()})
        if (account.policy if account else Policy.parse(policy)).in_zcdp:
            wanted = replace(wanted, rho=pure_rho(wanted.epsilon))
        asked = request or make_request()
        if account is None:
            total = Policy.parse(policy).agree_on_delta(None, 10_000)  # 1e-6, where charges are added up
            opening = make_opening(policy, asked.algorithm, delta_total=total)
            return Reservation(request=asked, charge=wanted, opening=opening)
        if not admits_charge(account.policy, account.reading, wanted, max_epsilon=account.max_epsilon):
            raise ValueError("the policy does not admit it")
        return Reservation(request=asked, charge=wanted)

    return decide


@contextmanager
def measure(
    ledger: Ledger, dataset: str = "clinic", request: Request | None = None, identities: frozenset[str] = frozenset()
) -> Iterator[Measuring]:
    """Mark that data are measured while the block runs, as a release does."""
    measuring = ledger.lock_measurement(dataset)
    try:
        ledger.begin(measuring, request or make_request(), identities)
        yield measuring
        measuring.done = True
    except (DosimeterError, KeyboardInterrupt, SystemExit) as error:
        raise ledger.end_by(error, measuring) from None
    finally:
        measuring.release()


def release_one(
    ledger: Ledger, outbox: Path, number: int, reached: Callable[[str], None], policy: str = "budget:1000"
) -> None:
    """Reserve, answer, settle, as a controller does. The outbox is what the analyst gets to see."""

    def decide(account: AccountSummary | None) -> Reservation:
        reached("inside the decision")
        return decide_on("0.001", policy)(account)

    reached("before the reservation")
    entry = ledger.reserve("clinic", decide)
    reached("after the reservation")
    with outbox.open("a", encoding="utf-8") as stream:
        stream.write(entry.id + "\n")
    reached("after the answer")
    ledger.settle(entry.id, status="released", answer=[{"count": number}], guarantee="(0.001, 0)-DP")
    reached("after the settlement")


def stop_and_clear(ledger: Ledger, reached: Callable[[str], None]) -> None:
    """Fail after a charge, as a release whose noise cannot be drawn, and be cleared by a controller."""
    entry = ledger.reserve("clinic", decide_on("0.001", "budget:1000"))
    reached("before the stop")
    ledger.settle(entry.id, status="denied", incident="noise")
    reached("after the stop")
    ledger.clear("clinic", by="Carol", reason="mended")
    reached("after the end")


def kill_at(step: str) -> Callable[[str], None]:
    """SIGKILL for this process at a step of release_one, or around one of the commits it makes."""
    from dosimeter.ledger.backends import SQLiteConnection
    from dosimeter.ledger.postgresql import PostgreSQLConnection
    from dosimeter.ledger.store import Transaction

    commits: list[str] = []

    def reached(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def count_commits(kind: type[SQLiteConnection] | type[PostgreSQLConnection]) -> None:
        commit = kind.commit

        def count_and_commit(connection: Any) -> None:
            commits.append("")
            reached(f"before commit {len(commits)}")
            commit(connection)

        kind.commit = count_and_commit  # type: ignore[method-assign, assignment]

    append = Transaction.append

    def append_and_tell(transaction: Transaction, record: Record) -> None:
        append(transaction, record)
        payload = json.loads(record.payload)
        reached(f"after insert {payload.get('status')}")
        reached(f"after inserting {', '.join(payload)}")

    count_commits(SQLiteConnection)
    count_commits(PostgreSQLConnection)
    Transaction.append = append_and_tell  # type: ignore[method-assign, assignment]
    return reached


def kill_each(jobs: list[list[str]]) -> None:
    """Fork once everything is imported; every child opens the ledger for itself."""
    import psycopg  # noqa: F401

    import dosimeter.ledger.postgresql
    import dosimeter.ledger.store  # noqa: F401

    outcomes = []
    for kind, step, target, *more in jobs:
        child = os.fork()
        if child == 0:
            try:
                reached = kill_at(step)
                with Ledger.open(target) as ledger:
                    if kind == "crash":
                        outbox, policy = more
                        release_one(ledger, Path(outbox), 1, reached, policy)
                    else:
                        stop_and_clear(ledger, reached)
            finally:
                os._exit(1)
        outcomes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    sys.stdout.write(json.dumps(outcomes) + "\n")


def hold_lock(target: str, seconds: float) -> None:
    def decide(account: AccountSummary | None) -> Reservation:
        sys.stdout.write("holding\n")
        sys.stdout.flush()
        time.sleep(seconds)
        raise ValueError("never mind")

    with Ledger.open(target) as ledger:
        try:
            ledger.reserve("clinic", decide)
        except ValueError:
            return


def become(user: int) -> None:
    """Go on as another user, who may not be able to read the interpreter: so import everything first."""
    with tempfile.TemporaryDirectory() as directory, Ledger.open(Path(directory) / "ledger.db") as ledger:
        ledger.reserve("clinic", decide_on("0.1"))
        ledger.verify()
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)


def try_call(target: str, verb: str) -> None:
    """Make one call."""
    try:
        with Ledger.open(target, create=verb != "show", busy_timeout=1.0) as ledger:
            if verb == "show":
                json.dumps(ledger.describe())
                sys.stdout.write(f"intact {ledger.verify().intact} ")
            if verb == "stopped":
                stopped = ledger.stopped("clinic")
                ledger.stop_killed("clinic")
                sys.stdout.write(f"{stopped and stopped.kind} ")
            if verb == "measure":
                with measure(ledger) as measuring:
                    ledger.end(measuring)
            if verb == "reserve":
                ledger.reserve("clinic", decide_on("0.001", "budget:1000"))
        sys.stdout.write("ok\n")
    except LedgerError as error:
        sys.stdout.write(f"refused: {error}\n")


def main(arguments: list[str]) -> None:
    match arguments:
        case ["kill", *jobs]:
            kill_each([json.loads(job) for job in jobs])
        case ["loop", target, outbox]:
            with Ledger.open(target) as ledger:
                for number in range(1_000_000):
                    release_one(ledger, Path(outbox), number, lambda step: None)
        case ["measure", target, dataset]:
            with Ledger.open(target) as ledger, measure(ledger, dataset, None, frozenset({"data-1"})):
                sys.stdout.write("measuring\n")
                sys.stdout.flush()
                sys.stdin.read()
        case ["hold", target, seconds]:
            hold_lock(target, float(seconds))
        case ["try", target, verb]:
            try_call(target, verb)
        case ["try", target, verb, user]:
            become(int(user))
            try_call(target, verb)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
