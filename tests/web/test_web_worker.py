"""The worker: what goes first, what gives way, data that change under a running server, and what is never read by a
request's own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import pyarrow as pa
import pytest

from dosimeter.dataset import Dataset
from dosimeter.errors import DosimeterError, Interrupted, LedgerError, OptionError
from dosimeter.options import LookOptions
from dosimeter.release import read_way, release
from dosimeter.release.order import ReleaseOrder
from dosimeter.release.prepare import prepare_release
from dosimeter.risk.preference import parse_preference
from dosimeter.web.decision import approve, displaced
from dosimeter.web.decision.measured import measure_query
from dosimeter.web.settings import DatasetSettings
from dosimeter.web.store.queries import find_query
from dosimeter.web.worker import DatasetWorker, Job, JobMeter, JobPriority
from tests.known import known
from tests.schemas import declare, plain, whole
from tests.waiting import LONGEST_WAIT, wait_until
from tests.web.web_site import (
    COUNT,
    Guest,
    Site,
    StartSite,
    clinic_settings,
    copy_clinic,
    find_user,
    keep_busy,
    note_readers,
    read_text,
    write_dataset,
)

CLINIC = Path(str(clinic_settings().schema))
FILTERED = "MEDIAN(rdr) FILTER (WHERE smoker) / MEDIAN(rdr) >= 0.5"


class Clay:
    """A dataset whose engine counts, and whose data change when they are told to."""

    def __init__(self) -> None:
        self.engine = self
        self.digest = "first"
        self.log: list[str] = []
        self.stop = threading.Event()

    def renew(self) -> str:
        self.log.append("renew")
        return self.digest

    def refresh(self) -> None:
        self.log.append("refresh")

    def interrupt(self) -> None:
        self.stop.set()

    def progress(self) -> float | None:
        return 12.0

    def close(self) -> None:
        self.log.append("close")


@pytest.fixture
def clay() -> Clay:
    return Clay()


@pytest.fixture
def worker(clay: Clay) -> Iterator[DatasetWorker]:
    made = DatasetWorker("clay", clay)  # type: ignore[arg-type]
    yield made
    made.close()


# ---------------------------------------------------------------- the order


def ask(
    worker: DatasetWorker, name: str, work: Callable[..., Any], wait: float = LONGEST_WAIT, **more: Any
) -> Job[Any]:
    """Let a worker do something, and wait until it has."""
    return worker.ask(name, name, work, wait=wait, **more)


def test_releases_go_first_and_what_is_on_the_side_last(worker: DatasetWorker) -> None:
    order: list[str] = []
    ranks = {name: JobPriority[name.partition(" ")[0].upper()] for name in ("aside", "look", "look 2", "release")}
    with keep_busy(worker):
        for name, rank in ranks.items():
            ask(worker, name, lambda _d, _m, name=name: order.append(name), wait=0, rank=rank)
    wait_until(lambda: len(order) == 4, "all four have run")
    assert order == ["release", "look", "look 2", "aside"]


def test_what_is_on_the_side_stops_for_a_release_and_begins_again(worker: DatasetWorker, clay: Clay) -> None:
    def slow(_dataset: Any, meter: JobMeter) -> str:
        while not clay.stop.wait(0.005):
            meter(0, 1)
        meter(0, 1)
        return "never"

    aside = ask(worker, "aside", slow, wait=0, rank=JobPriority.ASIDE)
    wait_until(lambda: aside.state == "running", "the work on the side runs")
    assert ask(worker, "release", lambda _d, _m: "out", rank=JobPriority.RELEASE).result == "out"
    assert aside.state == "cancelled"
    assert ask(worker, "aside", lambda _d, _m: "again", rank=JobPriority.ASIDE).result == "again"


def test_a_look_is_not_stopped_by_a_release(worker: DatasetWorker, clay: Clay) -> None:
    with keep_busy(worker) as look:
        waiting = ask(worker, "release", lambda _d, _m: "out", wait=0.1, rank=JobPriority.RELEASE)
        assert waiting.state == "waiting"
    wait_until(lambda: waiting.state == "done", "the release is done")
    assert look.state == "done"
    assert not clay.stop.is_set()


def test_late_stop_does_not_hit_the_next_job(worker: DatasetWorker, clay: Clay) -> None:
    """Whoever stops a job does so while it runs, or not at all: the next one, perhaps a release, is left alone."""
    worker.cancel(ask(worker, "short", lambda _d, _m: 1))
    assert not clay.stop.is_set()


@pytest.mark.parametrize("kind", [KeyError, SystemExit])
def test_even_a_panic_ends_one_job_only(
    worker: DatasetWorker, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    job = ask(worker, "panic", Mock(side_effect=kind("the cell of Xanthippe")))
    assert job.state == "failed"
    assert "Xanthippe" not in str(job.error) + caplog.text
    assert worker.is_alive
    assert ask(worker, "next", lambda _d, _m: 2).result == 2


def test_every_look_sees_the_data_as_they_are_and_leaves_no_snapshot(worker: DatasetWorker, clay: Clay) -> None:
    assert ask(worker, "a", lambda _d, meter: meter.digest).result == "first"
    clay.digest = "second"
    assert ask(worker, "b", lambda _d, meter: meter.digest).result == "second"
    assert worker.digest == "second"
    ask(worker, "c", lambda _d, _m: None, rank=JobPriority.RELEASE)  # a release renews by itself
    assert clay.log == ["renew", "refresh", "renew", "refresh", "refresh"]


def test_closing_finishes_a_release_that_waits(clay: Clay) -> None:
    worker, out = DatasetWorker("clay", clay), []  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as thread, keep_busy(worker):
        ask(worker, "release", lambda _d, _m: out.append("out"), wait=0, rank=JobPriority.RELEASE)
        aside = ask(worker, "aside", lambda _d, _m: out.append("aside"), wait=0, rank=JobPriority.ASIDE)
        closing = thread.submit(worker.close)
        wait_until(lambda: aside.state == "cancelled", "closing has stopped what waits on the side")
    closing.result()
    assert out == ["out"]
    with pytest.raises(DosimeterError, match="stopping"):
        ask(worker, "late", lambda _d, _m: None)


# ---------------------------------------------------------------- jobs


def test_same_work_runs_once_and_failures_are_tried_again(worker: DatasetWorker) -> None:
    work = Mock(side_effect=[OptionError("not yet"), 7])
    first = ask(worker, "a", work)
    assert (first.state, str(first.error)) == ("failed", "not yet")
    assert [ask(worker, "a", work).result for _ in range(3)] == [7, 7, 7]
    assert work.call_count == 2


def count_slowly(stop: threading.Event) -> Callable[[object, JobMeter], None]:
    """Work that tells that it is at a quarter until it may stop."""

    def work(_dataset: object, meter: JobMeter) -> None:
        while not stop.wait(0.01):
            meter(1, 4)

    return work


def test_work_can_be_cancelled_while_it_runs_and_while_it_waits(worker: DatasetWorker, clay: Clay) -> None:
    go_on = threading.Event()
    running = ask(worker, "slow", count_slowly(go_on), wait=0)
    wait_until(lambda: running.meter.steps is not None, "the work reports how far it is")
    queued = ask(worker, "next", lambda _d, _m: 1, wait=0)
    assert worker.share(running) == 25.0
    assert worker.cancel(queued)
    assert worker.cancel(running)
    assert (running.state, queued.state) == ("cancelled", "cancelled")
    assert clay.stop.is_set()
    go_on.set()
    assert ask(worker, "next", lambda _d, _m: 1).state == "cancelled"  # until somebody asks on purpose
    assert ask(worker, "next", lambda _d, _m: 1, revive=True).result == 1


def test_one_dataset_computes_while_another_page_works(start_site: StartSite, tmp_path: Path) -> None:
    site = start_site(datasets={"clinic": clinic_settings(), "other": copy_clinic(tmp_path, "other")})
    stop = threading.Event()
    with site.guest("anna") as anna, site.guest("carol") as carol:
        waiting, quick = anna.ask(), anna.ask(COUNT.replace("clinic", "other"), dataset="other")
        job = ask(site.state.datasets["clinic"].worker, "block", count_slowly(stop), wait=0)
        assert "Measuring how exposed everybody is" in carol.get(f"/decide/{waiting}").text
        assert "Largest ε that meets the preference: 0.05" in carol.get(f"/decide/{quick}").text
        assert carol.approve(quick).status_code == 200
        assert carol.get(f"/decide/{waiting}/people", params={"epsilon": "1"}).status_code == 503
        assert carol.act(f"/jobs/{job.id}/cancel").status_code == 204
        assert job.state == "cancelled"
        assert "Largest ε that meets the preference: 0.05" in carol.get(f"/decide/{waiting}").text
    stop.set()


# ---------------------------------------------------------------- stopping, and asking again on purpose


def test_stopped_computation_stays_stopped_until_somebody_asks(site: Site, anna: Guest, carol: Guest) -> None:
    worker, query_id = site.state.datasets["clinic"].worker, anna.ask()
    with keep_busy(worker) as busy:
        assert "Measuring how exposed everybody is" in carol.get(f"/decide/{query_id}").text
        assert "HX-Refresh" not in carol.get(f"/jobs/{busy.id}").headers
        job = known(worker.peek(("measured", query_id)))
        assert carol.act(f"/jobs/{job.id}/cancel").status_code == 204
    assert carol.get(f"/jobs/{busy.id}").headers["HX-Refresh"] == "true"  # done: the page is loaded anew
    for _ in range(2):
        page = carol.get(f"/decide/{query_id}").text
        assert "Stopped" in page
        assert f"/jobs/{job.id}/again" in page
    again = carol.act(f"/jobs/{job.id}/again")
    assert (again.status_code, again.headers["hx-refresh"]) == (204, "true")
    assert "Largest ε that meets the preference: 0.05" in read_text(carol.get(f"/decide/{query_id}").text)


def test_stopped_preference_begins_again_when_it_is_chosen_again(site: Site, anna: Guest, carol: Guest) -> None:
    query_id, form = anna.ask(), {"preset": "own", "text": FILTERED}
    carol.get(f"/decide/{query_id}")
    with keep_busy(site.state.datasets["clinic"].worker):
        reading = carol.get(f"/decide/{query_id}/live", params=form).json()
        assert carol.act(f"/jobs/{reading['job']}/cancel").status_code == 204
    assert "was stopped" in carol.get(f"/decide/{query_id}", params=form).text  # loading the page restarts nothing
    assert carol.get(f"/decide/{query_id}/live", params=form).json()["preference"]


# ---------------------------------------------------------------- a release that goes wrong


def status_of(site: Site, query_id: str) -> str:
    return known(find_query(site.state.database, query_id)).status


def test_unforeseen_error_leaves_the_query_to_be_decided(
    site: Site, anna: Guest, carol: Guest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    query_id = anna.ask()
    with monkeypatch.context() as patch:
        patch.setattr(approve, "release", Mock(side_effect=RuntimeError("the cell of Xanthippe")))
        page = carol.approve(query_id)
    assert "Nothing was charged: decide again" in page.text
    assert status_of(site, query_id) == "waiting"
    assert "Xanthippe" not in page.text + caplog.text
    assert "Answered" in carol.approve(query_id).text


def test_stop_that_was_meant_for_another_does_not_end_a_release(
    anna: Guest, carol: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    stray = Mock(wraps=release, side_effect=[Interrupted("Stopped."), DEFAULT])
    monkeypatch.setattr(approve, "release", stray)
    assert "Answered" in carol.approve(anna.ask()).text
    assert stray.call_count == 2


def test_what_could_not_be_written_down_is_when_the_query_is_seen_again(
    site: Site, anna: Guest, carol: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release is in the ledger, and the database is away when the web's own table should say so."""

    answered, left = anna.ask(), anna.ask("SELECT COUNT(*) FROM clinic WHERE smoker")
    with monkeypatch.context() as patch:
        patch.setattr(approve, "settle_claim", Mock(side_effect=LedgerError("The database is busy.")))
        for query_id in (answered, left):
            case = {"epsilon": "0.05", "preference": "ratio:0.95", "confirmed": "0.05", "reason": "agreed"}
            carol.post(f"/decide/{query_id}/approve", data=case | {"csrf": carol.csrf}, follow_redirects=False)
            assert status_of(site, query_id) == "approving"
            assert not site.state.claims
    assert "Answered" in carol.get(f"/decide/{answered}").text
    assert "being released" not in carol.get("/queue").text
    assert status_of(site, left) == "released"
    assert [entry.status for entry in site.entries()] == ["released", "released"]


def test_release_under_way_is_not_settled_by_looking(site: Site, anna: Guest, carol: Guest) -> None:
    """Claimed, and not yet on the worker: whoever opens the queue then must not take the claim away."""
    state, query_id = site.state, anna.ask()
    query = known(find_query(state.database, query_id))
    approval, carols = approve.Approval(epsilon=0.05, preference="ratio:0.95"), find_user(state.database, "carol")
    claim, _ = approve.claim_query(state, state.datasets["clinic"], query, carols, approval)
    for path in ("/queue", "/queue/rows", f"/decide/{query_id}"):
        assert carol.get(path).status_code == 200
        assert status_of(site, query_id) == "approving"
    state.claims.discard(claim)  # the server was about to stop, and it never ran
    carol.get("/queue")
    assert status_of(site, query_id) == "waiting"  # there is no entry: nothing was charged


# ---------------------------------------------------------------- what others would lose


def test_wide_queries_and_long_looks_are_left_out(anna: Guest, carol: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    query_id = anna.ask()
    anna.ask("SELECT COUNT(*) FROM clinic WHERE smoker")
    anna.ask("SELECT diagnosis, COUNT(*) FROM clinic GROUP BY diagnosis")
    path = f"/decide/{query_id}/others"
    monkeypatch.setattr(displaced, "MOST_NUMBERS", 5)
    text = read_text(carol.get(f"{path}?epsilon=0.01").text)
    assert "1 of 2 waiting queries were checked for this" in text
    monkeypatch.setattr(displaced, "LONGEST", -1.0)
    text = read_text(carol.get(f"{path}?epsilon=0.02").text)
    assert "0 of 2 waiting queries were checked for this" in text


# ---------------------------------------------------------------- data that change under a running server


def test_changed_file_needs_no_restart(start_site: StartSite, tmp_path: Path) -> None:
    clinic = copy_clinic(tmp_path)
    site, data = start_site(datasets={"clinic": clinic}), Path(clinic.data)
    three = {"preset": "own", "text": "COUNT(rdr) FILTER (WHERE diagnosis = 'Wilson disease') >= 3"}
    with site.guest("anna") as anna, site.guest("carol") as carol:
        query_id = anna.ask()
        assert (
            "Every candidate meets the preference"
            in carol.get(f"/decide/{query_id}/live", params=three).json()["fragments"]["line"]
        )
        assert "from 3 to 2" in carol.get(f"/decide/{query_id}/people?epsilon=1").text
        text = data.read_text()
        data.write_text(text.replace("Wilson disease", "Migraine", 1))  # two are left
        changed = carol.get(f"/decide/{query_id}/people?epsilon=1.5")
        assert changed.status_code == 409
        assert "The data changed" in changed.text
        assert "Largest ε" in carol.get(f"/decide/{query_id}").text  # measured again
        assert (
            "No candidate meets the preference"
            in carol.get(f"/decide/{query_id}/live", params=three).json()["fragments"]["line"]
        )
        assert "from 2 to 1" in carol.get(f"/decide/{query_id}/people?epsilon=1").text
        data.write_text(text)
        assert "Largest ε" in carol.get(f"/decide/{query_id}").text
        assert "from 3 to 2" in carol.get(f"/decide/{query_id}/people?epsilon=1").text


def test_no_snapshot_is_held_between_requests(create_database: Callable[[], str]) -> None:
    """A table of PostgreSQL changes while the server runs: nothing is held open, and the next look sees it."""
    import psycopg

    url = create_database()
    schema = declare("clinic", 100, {"age": whole(0, 100), "smoker": plain("boolean")})
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("CREATE TABLE clinic (age bigint, smoker boolean)")
        server.execute("INSERT INTO clinic SELECT 20 + n % 40, n < 3 FROM generate_series(0, 99) AS n")
        worker = DatasetWorker("clinic", Dataset.open(url, schema=schema, table="clinic"))
        order = ReleaseOrder(read_way(prefer="ratio:0.9"))
        sql = "SELECT COUNT(*) FROM clinic WHERE smoker"
        prepared = prepare_release(worker.dataset.schema, sql, LookOptions(), order)
        before = worker.ask("a", "a", lambda d, m: measure_query(d, prepared, m), wait=LONGEST_WAIT)
        assert before.state == "done", before.error
        held = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%' AND datname = current_database()"
        assert server.execute(held).fetchone() == (0,)
        server.execute("UPDATE clinic SET smoker = true WHERE age = 30")
        after = worker.ask("b", "b", lambda d, m: measure_query(d, prepared, m), wait=LONGEST_WAIT)
        worker.close()
    assert before.result.exact == {"count": (3.0,)}
    assert after.result.exact == {"count": (6.0,)}
    assert after.result.fingerprint != before.result.fingerprint


# ---------------------------------------------------------------- only the worker reads data


def test_request_threads_never_read_the_data(anna: Guest, carol: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its measurement was dropped and made again, an own condition with FILTER is evaluated on the worker too."""
    readers = note_readers(monkeypatch)
    monkeypatch.setattr("dosimeter.web.worker.MOST_HEAVY", 1)
    first, second = anna.ask(), anna.ask("SELECT COUNT(*) FROM clinic WHERE smoker")
    form = {"preset": "own", "text": FILTERED}
    for query_id in (first, second, first, second, first):
        reading = carol.get(f"/decide/{query_id}/live", params=form).json()
        assert reading["preference"], reading
        carol.approve(query_id, "0.001", FILTERED, confirmed="")
    assert set(readers) == {"worker-clinic"}


def test_filter_is_refused_in_another_thread() -> None:
    table = pa.table({"age": [20, 30, 40], "smoker": [True, False, True]})
    schema = declare("t", 3, {"age": whole(0, 100), "smoker": plain("boolean")})
    with Dataset.open(table, schema=schema) as dataset:
        order = ReleaseOrder(read_way(prefer="ratio:0.9"))
        prepared = prepare_release(dataset.schema, "SELECT SUM(age) FROM t", LookOptions(), order)
        measured = measure_query(dataset, prepared, JobMeter())
        preference = parse_preference(FILTERED)
        assert measured.recall(preference) is None
        with ThreadPoolExecutor(1) as elsewhere, pytest.raises(DosimeterError):
            elsewhere.submit(measured.choose, preference).result()
        assert measured.choose(preference) == measured.recall(preference)


def test_notes_on_the_page_are_those_of_find(anna: Guest, carol: Guest) -> None:
    """A value that the schema does not list is noted, by whichever road the preference was evaluated."""
    query_id = anna.ask("SELECT COUNT(*) FROM clinic WHERE sex = 'M'")
    page = read_text(carol.get(f"/decide/{query_id}").text)
    with Dataset.open(str(CLINIC.with_name("clinic.csv")), schema=CLINIC) as dataset:
        notes = dataset.risk("SELECT COUNT(*) FROM clinic WHERE sex = 'M'").find("ratio:0.95").notes
    assert any("'M'" in note for note in notes)
    for note in notes:
        assert note in page


# ---------------------------------------------------------------- joins


def join_case(folder: Path) -> DatasetSettings:
    (folder / "places.csv").write_text("district,rural\nd0,true\nd1,false\nd2,false\n")
    (folder / "sizes.csv").write_text("district,big\nd0,false\nd1,true\nd2,true\n")
    facts = 'individuals = 30\ncolumns.district.type = "text"\ncolumns.age = { type = "integer", bounds = [0, 100] }\n'
    facts += "".join(
        f'[tables.{name}]\nsource = "{folder / name}.csv"\npublic = true\nkey = "district"\n'
        f'columns = {{ district.type = "text", {flag}.type = "boolean" }}\n'
        for name, flag in (("places", "rural"), ("sizes", "big"))
    )
    people = (f"d{number % 3},{20 + number}" for number in range(30))
    return write_dataset(folder, "people", ["district,age", *people], facts, policy="budget:50")


JOINED = "SELECT COUNT(*) FROM people JOIN places ON people.district = places.district WHERE rural"
BIG = "SELECT COUNT(*) FROM people JOIN sizes ON people.district = sizes.district WHERE big"


def test_joined_tables_are_not_mixed_up_between_queries(start_site: StartSite, tmp_path: Path) -> None:
    """What one measurement knew of its joined table is not another's after the snapshot was let go."""
    site = start_site(datasets={"people": join_case(tmp_path)})
    jobs: dict[Any, Job[Any]] = site.state.datasets["people"].worker._jobs
    with site.guest("anna") as anna, site.guest("carol") as carol:
        first, second = anna.ask(JOINED, dataset="people"), anna.ask(BIG, dataset="people")
        for query_id in (first, second):
            assert "Largest ε" in carol.get(f"/decide/{query_id}").text
        for query_id, count in ((first, "from 10 to 9"), (second, "from 20 to 19"), (first, "from 10 to 9")):
            people = carol.get(f"/decide/{query_id}/people?epsilon=1")
            assert count in read_text(people.text), people.text
            jobs.pop(next(key for key in jobs if key[0] == "people"))


def test_everything_is_closed_whatever_fails(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    state, closed = site.state, []
    monkeypatch.setattr(type(state.database), "close", lambda _self: closed.append("database"))

    broken = Mock(**{"worker.close.side_effect": RuntimeError("broken")})
    monkeypatch.setitem(state.datasets, "broken", broken)
    with pytest.raises(RuntimeError, match="broken"):
        state.close()
    assert closed == ["database"]
    assert not state.datasets["clinic"].worker.is_alive
    monkeypatch.undo()
    state.database.close()
