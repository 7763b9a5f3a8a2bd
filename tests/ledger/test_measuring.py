"""What is on disk while data are measured: no incident while the process lives, one once it has died without an end."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import pytest

from dosimeter.errors import DatasetStopped, Interrupted, LedgerError, OptionError
from dosimeter.ledger import Ledger
from dosimeter.ledger.backends import choose_backend
from dosimeter.ledger.checked_chain import MOST_FOLLOWING
from dosimeter.ledger.store import Transaction
from tests.known import known
from tests.ledger.ledger_worker import decide_on, measure
from tests.ledger.processes import hand_over, keep_running
from tests.ledger.raw_records import export_records
from tests.waiting import wait_until


def measure_elsewhere(target: str, dataset: str = "clinic") -> AbstractContextManager[subprocess.Popen[str]]:
    """Give another process that is measuring; killed at the end of the block, if it was not before."""
    return keep_running("ledger_worker.py", "measure", target, dataset, until="measuring")


def kill_one(target: str, dataset: str = "clinic") -> None:
    with measure_elsewhere(target, dataset):
        pass
    with Ledger.open(target) as ledger:
        wait_until(lambda: ledger.stopped(dataset), "the server has noticed")


def list_locks(target: str) -> list[Path]:
    return [] if "://" in target else list(Path(target).parent.glob("ledger.db-measuring-*"))


# ---------------------------------------------------------------- who lives, and who died


def test_a_measurement_that_runs_elsewhere_is_no_incident_and_a_killed_one_is(target: str, ledger: Ledger) -> None:
    ledger.reserve("clinic", decide_on("0.1"))
    with measure_elsewhere(target), measure_elsewhere(target, "other"):
        for _ in range(2):
            assert ledger.stopped("clinic") is None
            ledger.stop_killed("clinic")
            assert ledger.stopped_datasets() == ()
        kill_one(target)  # a third
        incident = known(ledger.stopped("clinic"))
        assert (incident.kind, incident.request_digest) == ("killed", "request-1")
        assert [each.dataset for each in ledger.stopped_datasets()] == ["clinic"]
        summary, account = known(ledger.summary("clinic")), known(ledger.account("clinic"))
        assert summary.stopped == account.stopped == incident
        assert [record["kind"] for record in export_records(ledger)].count("stop") == 0  # seen, and not recorded yet
        with pytest.raises(DatasetStopped):
            ledger.reserve("clinic", decide_on("0.1"))
        ledger.stop_killed("clinic")
        ledger.stop_killed("clinic")
        assert [record["kind"] for record in export_records(ledger)].count("stop") == 1
        assert len(ledger.incidents("clinic")) == 1  # not for those that still run
        cleared = ledger.clear("clinic", by="Carol", reason="the machine was short of memory")
        assert (cleared.kind, cleared.cleared_by) == ("killed", "Carol")
        assert ledger.stopped("clinic") is None
    wait_until(lambda: len(ledger.stopped_datasets()) == 2, "the other two were killed at the end of the block")
    assert ledger.verify().intact


def test_an_incident_that_nobody_recorded_can_be_cleared(target: str, ledger: Ledger) -> None:
    kill_one(target)
    ledger.clear("clinic", by="Carol", reason="r")
    assert [record["kind"] for record in export_records(ledger)] == ["measure", "stop", "clear"]
    assert ledger.stopped("clinic") is None
    assert list_locks(target) == []
    with pytest.raises(LedgerError, match="not stopped"):
        ledger.clear("clinic", by="Carol", reason="again")


def test_another_name_does_not_get_round_a_killed_measurement(target: str, ledger: Ledger) -> None:
    kill_one(target)
    for data in (frozenset({"data-1"}), frozenset({"data-1", "data-2"})):
        with pytest.raises(DatasetStopped, match="clinic is stopped"):
            ledger.check_holder("renamed", "source-9", data)
    ledger.check_holder("renamed", "source-9", frozenset({"data-2"}))


def test_threads_of_one_process_do_not_take_each_other_for_dead(target: str) -> None:
    begun, over = threading.Barrier(4), threading.Event()

    def measure_here() -> None:
        with Ledger.open(target) as own, measure(own) as measuring:
            begun.wait(60)
            over.wait(60)
            own.end(measuring)

    Ledger.open(target).close()
    threads = [threading.Thread(target=measure_here) for _ in range(3)]
    for thread in threads:
        thread.start()
    begun.wait(60)
    with Ledger.open(target) as ledger:
        assert ledger.stopped("clinic") is None
        over.set()
        for thread in threads:
            thread.join()
        assert ledger.stopped("clinic") is None
        assert sorted(record["kind"] for record in export_records(ledger)) == ["end"] * 3 + ["measure"] * 3
    assert list_locks(target) == []


def test_an_end_that_is_written_while_somebody_looks_is_seen(target: str, ledger: Ledger) -> None:
    """The records are read first, the lock is looked at later: what ended in between did not die."""
    with Ledger.open(target) as other:
        measuring = measure(other)
        running = measuring.__enter__()
        inner = Transaction.is_locked
        rounds: list[str] = []

        def end_first(transaction: Transaction, name: str) -> bool:
            rounds.append(name)
            if len(rounds) == 1 and "://" in target:  # in a file nobody can write while somebody reads
                other.end(running)
                measuring.__exit__(None, None, None)
            return inner(transaction, name)

        with mock.patch.object(Transaction, "is_locked", end_first):
            assert ledger.stopped("clinic") is None
        assert rounds
        if "://" not in target:
            other.end(running)
            measuring.__exit__(None, None, None)
        assert ledger.stopped("clinic") is None


def test_a_second_name_of_the_ledger_is_refused(tmp_path: Path) -> None:
    """Its locks would be found beside the other name, and a live measurement taken for dead."""
    path, other = tmp_path / "l.db", tmp_path / "other.db"
    Ledger.open(path).close()
    os.link(path, other)
    for each in (path, other):
        with pytest.raises(LedgerError, match=r"second name \(a hard link\).*Remove the other name"):
            choose_backend(each, 1).take_lock("0" * 32)
    other.unlink()
    known(choose_backend(path, 1).take_lock("0" * 32)).release(forget=True)


def test_a_link_to_the_ledger_is_the_same_ledger(tmp_path: Path) -> None:
    path, link = tmp_path / "ledger.db", tmp_path / "elsewhere" / "link.db"
    Ledger.open(path).close()
    link.parent.mkdir()
    link.symlink_to(path)
    with measure_elsewhere(str(link)), Ledger.open(path) as ledger:
        assert ledger.stopped("clinic") is None


# ---------------------------------------------------------------- ends


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(143), Interrupted("Stopped."), OptionError("gone.")], ids=lambda e: str(e)
)
def test_an_interrupt_writes_an_end(target: str, error: BaseException) -> None:
    with Ledger.open(target) as ledger:
        with pytest.raises(type(error)), measure(ledger):
            raise error
        assert [record["kind"] for record in export_records(ledger)] == ["measure", "end"]
        assert (ledger.stopped("clinic"), ledger.accounts()) == (None, ())
        ledger.reserve("clinic", decide_on("0.1"))
    assert list_locks(target) == []


def test_whatever_else_ends_it_is_an_incident(ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError), measure(ledger):
        raise ZeroDivisionError
    assert ledger.stopped("clinic") is not None


def test_an_incident_that_cannot_be_written_is_not_ended_instead(ledger: Ledger) -> None:
    """A full disk just then must not turn a failure that may depend on the data into one that does not."""
    with (
        pytest.raises(LedgerError, match="full"),
        measure(ledger) as measuring,
        mock.patch.object(Transaction, "append", side_effect=LedgerError("The disk is full.")),
    ):
        ledger.stop("clinic", "measuring", software="dosimeter 0", measuring=measuring)
    assert ledger.stopped("clinic") is not None
    assert [record["kind"] for record in export_records(ledger)] == ["measure"]


def test_an_interrupt_after_the_charge_names_it(ledger: Ledger) -> None:
    def interrupt(*, settled: bool) -> None:
        with measure(ledger) as measuring:
            entry = ledger.reserve("clinic", decide_on("0.1"), measuring=measuring)
            if settled:
                ledger.settle(entry.id, status="released", answer=[{"n": 1}])
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match=r"ε = 0.1 is charged \(entry [0-9a-f]{16}, reserved\)"):
        interrupt(settled=False)
    with pytest.raises(Interrupted, match=r"The answer is in the ledger \(entry"):
        interrupt(settled=True)
    assert ledger.stopped("clinic") is None


# ---------------------------------------------------------------- the chain


def test_open_measurements_stand_in_checkpoints(target: str, ledger: Ledger) -> None:
    with measure(ledger, identities=frozenset({"data-1"})) as measuring:
        for number in range(2 * MOST_FOLLOWING):
            ledger.record_view("clinic", f"digest-{number}", "risk")
        kinds = [record["kind"] for record in export_records(ledger)]
        assert kinds.count("checkpoint") >= 2
        with Ledger.open(target) as other:
            assert other.stopped("clinic") is None
            assert other.verify().intact
        kill_one(target, "other")
        entry = ledger.reserve("clinic", decide_on("0.1"), measuring=measuring)
        assert entry.lock == measuring.lock
        assert ledger.verify().intact
        assert [incident.dataset for incident in ledger.stopped_datasets()] == ["other"]


def test_a_killed_measurement_is_found_behind_a_checkpoint(target: str) -> None:
    with Ledger.open(target) as ledger:
        kill_one(target)
        for number in range(2 * MOST_FOLLOWING):
            ledger.record_view("other", f"digest-{number}", "risk")
    with Ledger.open(target) as ledger:
        assert known(ledger.stopped("clinic")).identities == {"data-1"}
        ledger.stop_killed("clinic")
        assert ledger.stopped("clinic") is not None
        assert ledger.verify().intact


def test_an_end_without_a_beginning_is_no_record(ledger: Ledger) -> None:
    with measure(ledger) as measuring:
        ledger.end(measuring)
        assert ledger.end(measuring) is None
        ledger.reserve("clinic", decide_on("0.1"))
        with pytest.raises(LedgerError, match="has ended already"):
            ledger.reserve("clinic", decide_on("0.1"), measuring=measuring)
    assert ledger.verify().records == 4


def test_a_ledger_that_may_only_be_read_shows_the_incident(
    open_directory: Path, run_worker: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    path = open_directory / "ledger.db"
    kill_one(str(path))
    for item in (path, *open_directory.glob("*-measuring-*")):
        item.chmod(0o444)
    open_directory.chmod(0o555)
    before = path.read_bytes()
    as_nobody = hand_over()
    shown = run_worker("try", str(path), "stopped", *as_nobody)
    assert shown.stdout == "killed ok\n", shown
    refused = run_worker("try", str(path), "measure", *as_nobody)
    assert "cannot be written to" in refused.stdout, refused
    assert path.read_bytes() == before
