"""A failure while data are measured stops the dataset for everybody, until it is cleared; so does a connection that is
lost meanwhile, and not one that is lost before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import psycopg
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.cli import main
from dosimeter.engines.postgres import PostgresEngine
from dosimeter.errors import (
    ConnectionLost,
    DataError,
    DatasetStopped,
    Interrupted,
    LedgerError,
    OptionError,
    SourceUnreachable,
)
from dosimeter.ledger import Incident
from dosimeter.release import run as releasing
from dosimeter.schema.toml import dump_schema, read_schema
from tests.known import known
from tests.ledger.ledger_worker import decide_on
from tests.ledger.raw_records import describe_datasets, end_sessions, export_records
from tests.recorded.recorded_files import write_bad_bytes
from tests.schemas import declare, plain, whole

pytestmark = pytest.mark.smoke

SOUND = "SELECT COUNT(*) AS n FROM patients WHERE x > 2"
FAILING = "SELECT COUNT(*) AS n FROM patients WHERE name = 'Ann'"
WAYS: list[dict[str, Any]] = [{"epsilon": 0.5}, {"prefer": "ratio:0.1"}, {"svt": 1.0, "variance": 0.9}]
SCHEMA = declare("patients", 10, {"x": whole(0, 5), "name": plain("text")})


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    (tmp_path / "patients.toml").write_text(dump_schema(read_schema(SCHEMA)))
    return write_bad_bytes(tmp_path / "patients.parquet")


@pytest.fixture
def dataset(patients: Path) -> Iterator[Dataset]:
    with Dataset.open(patients, schema=SCHEMA) as opened:
        yield opened


def stop(ledger: Ledger, dataset: str = "clinic") -> Incident:
    return ledger.stop(dataset, "measuring", software="dosimeter 0", request_digest="request-9")


def wrap_measuring(patched: pytest.MonkeyPatch, before: Callable[[], object], after: Callable[[], object]) -> None:
    """Let something happen before and after the data are measured, as other processes and servers may."""
    measure = releasing._measure

    def measure_and_more(*arguments: Any) -> Any:
        before()
        found = measure(*arguments)
        after()
        return found

    patched.setattr(releasing, "_measure", measure_and_more)


# ---------------------------------------------------------------- the ledger's part


def test_a_stop_and_its_end(target: str) -> None:
    with Ledger.open(target) as ledger:
        assert ledger.stopped("clinic") is None
        ledger.reserve("clinic", decide_on("0.1"))
        incident = stop(ledger)
        assert (incident.dataset, incident.kind, incident.request_digest) == ("clinic", "measuring", "request-9")
        assert ledger.stopped("clinic") == incident
        assert ledger.stopped("other") is None
        assert known(ledger.account("clinic")).stopped == incident
        for _ in range(2):
            with pytest.raises(DatasetStopped, match=r"Ledger\.clear"):
                ledger.reserve("clinic", lambda _: pytest.fail("nothing is decided about a stopped dataset"))
        with pytest.raises(LedgerError, match="not stopped"):
            ledger.clear("other", by="Carol", reason="none")
        cleared = ledger.clear("clinic", by="Carol", reason="the file was mended")
        assert (cleared.cleared_by, cleared.reason, cleared.at) == ("Carol", "the file was mended", incident.at)
        assert ledger.stopped("clinic") is None
        assert ledger.incidents("clinic") == (cleared,)
        with pytest.raises(LedgerError, match="not stopped"):
            ledger.clear("clinic", by="Carol", reason="again")
        assert str(ledger.reserve("clinic", decide_on("0.1")).reading) == "0.2"
        assert ledger.verify().intact
        assert ledger.verify().records == 5
    with Ledger.open(target, create=False) as again:
        records = export_records(again)
    stopped, ended = (next(r for r in records if r["kind"] == kind) for kind in ("stop", "clear"))
    assert stopped["payload"].pop("salt") != ended["payload"].pop("salt")
    assert stopped["payload"] == {"kind": "measuring", "request_digest": "request-9", "software": "dosimeter 0"}
    assert ended["payload"] == {"by": "Carol", "reason": "the file was mended"}


def test_several_failures_at_once_are_cleared_together(ledger: Ledger) -> None:
    first = stop(ledger)
    assert stop(ledger) == first  # what stopped it is the first of them
    assert len(ledger.incidents("clinic")) == 2
    ledger.clear("clinic", by="Carol", reason="r")
    assert ledger.stopped("clinic") is None
    assert stop(ledger).cleared_at is None


def test_a_dataset_without_an_account_is_listed_while_it_is_stopped(ledger: Ledger) -> None:
    incident = stop(ledger)
    assert ledger.accounts() == ()
    (shown,) = describe_datasets(ledger)
    assert shown["stopped"] == {"at": incident.at, "kind": "measuring"}
    assert (shown["dataset"], shown["entries"], shown["policy"]) == ("clinic", [], None)
    assert ledger.stopped_datasets() == (incident,)
    with pytest.raises(DatasetStopped):
        ledger.reserve("clinic", decide_on("0.1"))
    ledger.reserve("other", decide_on("0.1"))
    ledger.clear("clinic", by="Carol", reason="r")
    (shown,) = describe_datasets(ledger)
    assert (shown["dataset"], shown["stopped"]) == ("other", None)


def test_an_entry_that_fails_after_its_charge_keeps_it_and_stops_the_dataset(ledger: Ledger) -> None:
    entry = ledger.reserve("clinic", decide_on("0.3"))
    with pytest.raises(LedgerError, match="did not fail"):
        ledger.settle(entry.id, status="released", answer=[], incident="noise")
    denied = ledger.settle(entry.id, status="denied", incident="noise")
    assert (denied.status, str(denied.charge)) == ("denied", "0.3")
    incident = known(ledger.stopped("clinic"))
    assert (incident.kind, incident.entry, incident.request_digest) == ("noise", entry.id, "request-1")
    assert ledger.verify().records == 4


def test_a_reservation_from_before_the_stop_is_still_settled(ledger: Ledger) -> None:
    """Its noise was paid for, and may be out: the ledger writes down what became of it."""
    entry = ledger.reserve("clinic", decide_on("0.3"))
    stop(ledger)
    assert ledger.settle(entry.id, status="released", answer=[{"n": 1}]).status == "released"


@pytest.mark.parametrize(("by", "reason"), [("", "r"), ("Carol", ""), ("Carol", "a\nb"), ("a\0", "r")])
def test_who_clears_it_and_why_must_be_said(ledger: Ledger, by: str, reason: str) -> None:
    stop(ledger)
    with pytest.raises(LedgerError, match="must be a text"):
        ledger.clear("clinic", by=by, reason=reason)
    assert ledger.stopped("clinic") is not None


def test_the_kind_is_one_of_a_few_words(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="measuring, lost, killed, noise, unexpected"):
        ledger.stop("clinic", "row 3 holds 'Ann'", software="dosimeter 0")  # type: ignore[arg-type]
    assert ledger.verify().records == 0


# ---------------------------------------------------------------- a release that fails


@pytest.mark.parametrize("way", WAYS, ids=["fixed", "find", "find-and-release"])
def test_what_fails_while_it_is_measured_stops_everything(
    dataset: Dataset, ledger: Ledger, way: dict[str, Any]
) -> None:
    before = dataset.release(SOUND, ledger=ledger, policy="budget:90", **way)
    assert before.status == "released"
    account = known(ledger.account("patients"))
    for sql in (FAILING, FAILING, SOUND, "SELECT COUNT(*) AS n FROM patients"):  # the third is on record
        with pytest.raises(DatasetStopped):
            dataset.release(sql, ledger=ledger, **way)
    after = known(ledger.account("patients"))
    assert (after.reading, after.entries) == (account.reading, account.entries)  # no charge, and no denial
    assert len(ledger.incidents("patients")) == 1
    assert known(after.stopped).kind == "measuring"
    ledger.clear("patients", by="Carol", reason="names are not asked for")
    repeated = dataset.release(SOUND, ledger=ledger, **way)
    assert (repeated.repeated, repeated.answer) == (True, before.answer)
    with pytest.raises(DatasetStopped):
        dataset.release(FAILING, ledger=ledger, **way)
    assert ledger.verify().intact


def test_another_name_does_not_get_round_a_stop(ledger: Ledger, patients: Path) -> None:
    with Dataset.open(patients, schema=SCHEMA) as dataset, pytest.raises(DatasetStopped):
        dataset.release(FAILING, ledger=ledger, epsilon=0.5, policy="budget:1")
    with Dataset.open(patients, schema=SCHEMA | {"table": "renamed"}) as renamed:
        sql = SOUND.replace("patients", "renamed")
        with pytest.raises(DatasetStopped, match="patients is stopped"):
            renamed.release(sql, ledger=ledger, epsilon=0.5, policy="budget:1")
        ledger.clear("patients", by="Carol", reason="a name that was not meant")
        assert renamed.release(sql, ledger=ledger, epsilon=0.5, policy="budget:1").status == "released"


def test_the_data_of_every_open_stop_are_barred(ledger: Ledger, patients: Path) -> None:
    with (
        Dataset.open(patients, schema={**SCHEMA, "account": "elsewhere"}, table="patients") as dataset,
    ):
        for identities in (frozenset({"bytes:of others"}), dataset.engine.identities()):
            ledger.stop("clinic", "measuring", software="dosimeter 0", identities=identities)
        with pytest.raises(DatasetStopped):
            dataset.release(SOUND, ledger=ledger, epsilon=0.5, policy="budget:1")
        ledger.clear("clinic", by="carol", reason="mended")
        assert dataset.release(SOUND, ledger=ledger, epsilon=0.5, policy="budget:1").status == "released"


def test_looking_makes_no_incident(tmp_path: Path, patients: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger, Dataset.open(patients, schema=SCHEMA) as dataset:
        with pytest.raises(DataError):
            dataset.risk(FAILING)
        assert ledger.verify().records == 0
    files = ["--schema", str(tmp_path / "patients.toml"), "--ledger", str(tmp_path / "ledger.db")]
    arguments = [str(patients), FAILING, *files]
    assert main(["risk", *arguments, "--json"]) == 2
    assert main(["find", *arguments, "--prefer", "ratio:0.5", "--json"]) == 2
    assert main(["release", *arguments, "--epsilon", "1", "--policy", "paper", "--dry-run", "--json"]) == 1
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert ledger.stopped("patients") is None


@pytest.mark.parametrize(
    "error",
    [SourceUnreachable("gone."), Interrupted("Stopped."), OptionError("the connection was lost.")],
    ids=["unreachable", "interrupted", "lost"],
)
def test_what_the_data_do_not_decide_passes_through(
    ledger: Ledger, dataset: Dataset, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(releasing, "_measure", Mock(side_effect=error))
    with pytest.raises(type(error), match=str(error)):
        dataset.release(SOUND, ledger=ledger, epsilon=0.5, policy="budget:1")
    assert ledger.verify().records == 2  # that it was measured, and that this came to nothing
    assert (ledger.accounts(), ledger.stopped("patients"), ledger.incidents("patients")) == ((), None, ())


def test_an_error_that_nobody_foresaw_stops_the_dataset_too(
    ledger: Ledger, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(releasing, "_measure", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            dataset.release(SOUND, ledger=ledger, epsilon=0.5, policy="budget:1")
    assert known(ledger.stopped("patients")).kind == "unexpected"
    with pytest.raises(DatasetStopped):
        dataset.release(SOUND, ledger=ledger, epsilon=0.5, policy="budget:1")


def test_noise_that_fails_is_charged_and_stops_the_dataset(
    ledger: Ledger, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releasing, "draw_numbers", Mock(side_effect=DataError("a total is too large.")))
    with pytest.raises(DatasetStopped):
        dataset.release(SOUND, ledger=ledger, epsilon=0.5, policy="budget:1")
    account = known(ledger.account("patients"))
    assert account.reading.epsilon == account.entries[0].charge > 0
    assert account.entries[0].status == "denied"
    stopped = known(account.stopped)
    assert (stopped.kind, stopped.entry) == ("noise", account.entries[0].id)


def test_a_release_that_was_measured_before_the_stop_is_not_answered_after_it(
    ledger: Ledger, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrap_measuring(monkeypatch, lambda: None, lambda: stop(ledger, "patients"))  # another process fails meanwhile
    with pytest.raises(DatasetStopped):
        dataset.release(SOUND, ledger=ledger, epsilon=0.5, policy="budget:1")
    assert ledger.accounts() == ()


# ---------------------------------------------------------------- on the command line


def test_the_command_says_stopped_and_no_more(
    tmp_path: Path, patients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, schema = str(tmp_path / "ledger.db"), str(tmp_path / "patients.toml")
    common = ["--schema", schema, "--ledger", ledger, "--epsilon", "0.5", "--policy", "budget:5"]
    clear = ["ledger", ledger, "clear", "patients", "--by", "Carol"]
    told: list[tuple[list[str], int, str]] = [
        (["release", str(patients), SOUND, *common], 0, ""),
        (["release", str(patients), FAILING, *common], 1, "Stopped.\n"),
        (clear, 2, "--reason TEXT"),
        ([*clear, "--reason", "mended"], 0, ""),
        (["release", str(patients), SOUND, *common], 0, ""),
    ]
    for arguments, status, words in told:
        assert main(arguments) == status
        assert words in "".join(capsys.readouterr())


ON_VISITS = "SELECT COUNT(*) AS n FROM visits WHERE x > 2"
VISITS = declare("visits", 10, {"x": whole(0, 5)})


@pytest.fixture
def source(create_database: Callable[[], str]) -> str:
    url = create_database()
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("CREATE TABLE visits (x int)")
        raw.execute("INSERT INTO visits SELECT generate_series(0, 5)")
    return url


@pytest.fixture
def visits(source: str) -> Iterator[Dataset]:
    with Dataset.open(source, schema=VISITS, table="visits") as opened:
        yield opened


def query_while_measuring(patched: pytest.MonkeyPatch, run: Callable[[PostgresEngine, str], Any]) -> None:
    """Let this run every query of a measurement, and none before or after it."""
    measure = releasing._measure

    def measure_so(*arguments: Any) -> Any:
        with patch.object(PostgresEngine, "_run", run):
            return measure(*arguments)

    patched.setattr(releasing, "_measure", measure_so)


def die_in_query(number: int, patched: pytest.MonkeyPatch) -> None:
    """Make the server's process end in the query of this number, counted while a release is measured."""
    run = PostgresEngine._run
    queries: list[str] = []

    def run_or_die(engine: PostgresEngine, text: str) -> Any:
        queries.append(text)
        return run(engine, "SELECT pg_terminate_backend(pg_backend_pid())" if len(queries) == number else text)

    query_while_measuring(patched, run_or_die)


@pytest.mark.parametrize("way", WAYS, ids=["fixed", "find", "find-and-release"])
def test_lost_in_any_query_of_the_measuring(
    ledger: Ledger, visits: Dataset, way: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    died = 0
    for number in range(1, 20):
        with monkeypatch.context() as patched:
            die_in_query(number, patched)
            try:
                answer = visits.release(ON_VISITS, ledger=ledger, policy="budget:90", **way)
            except DatasetStopped:
                died += 1
            else:
                assert answer.status == "released"  # it takes fewer queries
                break
        assert ledger.accounts() == ()
        with pytest.raises(DatasetStopped):
            visits.release(ON_VISITS, ledger=ledger, policy="budget:90", **way)
        assert [incident.kind for incident in ledger.incidents("visits")] == ["lost"] * died
        ledger.clear("visits", by="Carol", reason="r")
    assert 1 <= died < 19
    assert ledger.verify().intact


def test_a_table_that_changes_meanwhile_is_no_excuse(
    ledger: Ledger, visits: Dataset, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails in a snapshot fails by what is in it, whatever others write since."""
    run = PostgresEngine._run

    def run_out_of_memory(engine: PostgresEngine, _: str) -> Any:
        with psycopg.connect(source, autocommit=True) as raw:
            raw.execute("INSERT INTO visits VALUES (1)")
        return run(engine, "SELECT repeat('x', 2000000000)")

    query_while_measuring(monkeypatch, run_out_of_memory)
    with pytest.raises(DatasetStopped):
        visits.release(ON_VISITS, ledger=ledger, epsilon=0.5, policy="budget:1")
    assert [incident.kind for incident in ledger.incidents("visits")] == ["measuring"]


def test_an_outage_before_the_query_is_no_incident(
    ledger: Ledger, visits: Dataset, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        wrap_measuring(patched, lambda: end_sessions(source, "dosimeter"), lambda: None)
        with pytest.raises(SourceUnreachable, match="connection to the server was lost") as caught:
            visits.release(ON_VISITS, ledger=ledger, epsilon=0.5, policy="budget:1")
        assert not isinstance(caught.value, ConnectionLost)
    assert (ledger.accounts(), ledger.stopped("visits")) == ((), None)
    assert visits.release(ON_VISITS, ledger=ledger, epsilon=0.5, policy="budget:1").status == "released"


def test_a_look_that_loses_its_connection_stops_nothing(visits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    run = PostgresEngine._run
    with monkeypatch.context() as patched:
        patched.setattr(
            PostgresEngine, "_run", lambda engine, _: run(engine, "SELECT pg_terminate_backend(pg_backend_pid())")
        )
        with pytest.raises(ConnectionLost, match="Try again"):
            visits.risk(ON_VISITS)
    assert visits.risk(ON_VISITS).matched == 3


@pytest.mark.parametrize("new_target", ["postgresql"], indirect=True)
def test_a_ledger_that_ends_the_session_takes_the_measurement_for_killed(
    target: str, ledger: Ledger, visits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is all that shows whether a process lives: without it nothing is granted."""
    wrap_measuring(monkeypatch, lambda: None, lambda: end_sessions(target, "dosimeter ledger"))
    with pytest.raises(DatasetStopped):
        visits.release(ON_VISITS, ledger=ledger, epsilon=0.5, policy="budget:1")
    assert ledger.accounts() == ()
    assert [incident.kind for incident in ledger.incidents("visits")] == ["killed"]
