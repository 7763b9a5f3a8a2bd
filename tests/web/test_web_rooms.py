"""The rooms behind the pages, each by another road: settings, jobs, the measured, sums per person, migrations."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa
from waiting import LONGEST_WAIT, wait_until
from web_site import COUNT, Guest, Site, clinic_settings, make_settings, read_text, write_configuration

from dosimeter.dataset import Dataset
from dosimeter.errors import DosimeterError, Interrupted, LedgerError, OptionError
from dosimeter.ledger import Ledger
from dosimeter.planning.options import Look
from dosimeter.release.order import ReleaseOrder, Terms
from dosimeter.release.prepare import prepare_release
from dosimeter.release.run import release
from dosimeter.risk.preference import parse_preference
from dosimeter.web.account_exposure import sum_guarantees
from dosimeter.web.checks import underline_clause
from dosimeter.web.decision.measured import MANY, MeasuredQuery, compress_classes, measure_query
from dosimeter.web.settings import load_settings
from dosimeter.web.store.database import Database
from dosimeter.web.store.tables import METADATA, VERSION_TABLE
from dosimeter.web.worker import DatasetWorker, Meter

CLINIC = Path(str(clinic_settings().schema))


# ---------------------------------------------------------------- settings


def test_configuration_is_read(tmp_path: Path) -> None:
    file = write_configuration(tmp_path, 'port = 9000\npublic_url = "https://d.example.org"', "max_epsilon = 1")
    settings = load_settings(file)
    assert settings.port == 9000
    assert settings.secure
    assert settings.database == str(tmp_path / "site.db")
    assert settings.datasets["clinic"].max_epsilon == 1.0
    assert "xxxx" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "dataset", "words"),
    [
        ("prot = 1", "", "unknown key 'prot'"),
        ('port = "1"', "", "port must be of the kind int"),
        ("port = true", "", "port must be of the kind int"),
        ("port = 99999", "", "between 0 and 65535"),
        ('public_url = "d.example.org"', "", "https://"),
        ("", 'colour = "red"', "unknown key 'colour'"),
        ("", 'mechanism = "none"', "laplace or gaussian"),
        ("[[", "", "cannot be read as TOML"),
    ],
)
def test_configuration_is_checked(tmp_path: Path, text: str, dataset: str, words: str) -> None:
    with pytest.raises(OptionError, match=words.replace("[", r"\[")):
        load_settings(write_configuration(tmp_path, text, dataset))


def test_configuration_needs_its_secret(tmp_path: Path) -> None:
    file = write_configuration(tmp_path)
    (tmp_path / "secret").write_text("short")
    with pytest.raises(OptionError, match="at least 32 bytes"):
        load_settings(file)
    (tmp_path / "secret").unlink()
    with pytest.raises(OptionError, match="dosimeter user secret"):
        load_settings(file)
    with pytest.raises(OptionError, match="no configuration file"):
        load_settings(tmp_path / "nothing.toml")


def test_terms_of_an_account_cannot_be_changed_by_the_configuration(site: Site, anna: Guest, carol: Guest) -> None:
    carol.approve(anna.ask())
    site.stop()
    for changes in ({"policy": "budget:5"}, {"algorithm": "fixed"}, {"max_epsilon": 3.0}):
        with pytest.raises(LedgerError, match="was opened"):
            Site.start(make_settings(site.settings.database, {"clinic": clinic_settings(**changes)}), {})


# ---------------------------------------------------------------- the database


def test_migrations_make_the_tables_the_code_uses(database: str) -> None:
    opened = Database(database)
    try:
        opened.migrate()
        opened.migrate()  # nothing to do
        inspector = sa.inspect(opened.engine)
        for table in METADATA.tables.values():
            made = {column["name"]: column for column in inspector.get_columns(table.name)}
            assert set(made) == set(table.columns.keys())
            assert {n for n, c in made.items() if not c["nullable"]} == {
                c.name for c in table.columns if not c.nullable
            }
        names = set(inspector.get_table_names())
        assert VERSION_TABLE in names
        assert "alembic_version" not in names
        assert opened.ledger.verify().intact
    finally:
        opened.close()


# ---------------------------------------------------------------- jobs


class Clay:
    """A dataset whose engine only counts how often it was interrupted."""

    def __init__(self) -> None:
        self.engine = self
        self.interrupts = 0

    def interrupt(self) -> None:
        self.interrupts += 1

    def progress(self) -> float | None:
        return 12.0

    def renew(self) -> str:
        return "clay"

    def refresh(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def worker() -> Any:
    made = DatasetWorker("clay", Clay())  # type: ignore[arg-type]
    yield made
    made.close()


def test_same_work_runs_once_and_failures_are_tried_again(worker: DatasetWorker) -> None:
    calls: list[int] = []

    def work(_dataset: Any, _meter: Meter) -> int:
        calls.append(1)
        if len(calls) == 1:
            raise OptionError("not yet")
        return 7

    first = worker.ask("a", "work", work, wait=LONGEST_WAIT)
    assert (first.state, str(first.error)) == ("failed", "not yet")
    assert [worker.ask("a", "work", work, wait=LONGEST_WAIT).result for _ in range(3)] == [7, 7, 7]
    assert len(calls) == 2


def test_work_can_be_cancelled_while_it_runs_and_while_it_waits(worker: DatasetWorker) -> None:
    go_on = threading.Event()

    def slow(_dataset: Any, meter: Meter) -> None:
        while not go_on.is_set():
            meter(1, 4)
            time.sleep(0.01)

    running = worker.ask("slow", "slow", slow, wait=0)
    wait_until(lambda: running.meter.steps is not None, "the work reports how far it is")
    queued = worker.ask("next", "next", lambda _d, _m: 1, wait=0)
    assert worker.share(running) == 25.0
    assert worker.cancel(queued)
    assert worker.cancel(running)
    assert (running.state, queued.state) == ("cancelled", "cancelled")
    assert worker.dataset.engine.interrupts >= 1  # type: ignore[attr-defined]
    go_on.set()
    assert (
        worker.ask("next", "next", lambda _d, _m: 1, wait=LONGEST_WAIT).state == "cancelled"
    )  # until somebody asks on purpose
    assert worker.ask("next", "next", lambda _d, _m: 1, wait=LONGEST_WAIT, revive=True).result == 1


def test_bug_in_a_job_is_not_shown(worker: DatasetWorker) -> None:
    def broken(_dataset: Any, _meter: Meter) -> None:
        raise KeyError("the cell of Xanthippe")

    job = worker.ask("b", "broken", broken, wait=LONGEST_WAIT)
    assert job.state == "failed"
    assert "Xanthippe" not in str(job.error)
    assert worker.ask("c", "fine", lambda _d, _m: 3, wait=LONGEST_WAIT).result == 3


def test_one_dataset_computes_while_another_page_works(start_site: Callable[..., Site], tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(CLINIC.read_text().replace('table = "clinic"', 'table = "other"'))
    data = tmp_path / "other.csv"
    data.write_text(CLINIC.with_name("clinic.csv").read_text().replace("Harbour", "Northgate", 1))
    site = start_site(
        datasets={"clinic": clinic_settings(), "other": clinic_settings(data=str(data), schema=other)}
    )  # fmt: skip
    state = site.state
    stop = threading.Event()

    def block(_dataset: Any, meter: Meter) -> None:
        while not stop.is_set():
            meter(1, 2)
            time.sleep(0.01)

    with site.guest("anna") as anna, site.guest("carol") as carol:
        waiting, quick = anna.ask(), anna.ask(COUNT.replace("clinic", "other"), dataset="other")
        job = state.datasets["clinic"].worker.ask("block", "blocking", block, wait=0)
        page = carol.get(f"/decide/{waiting}").text
        assert "Measuring how exposed everybody is" in page
        assert "Largest ε: 0.05" in carol.get(f"/decide/{quick}").text
        assert carol.approve(quick).status_code == 200
        assert carol.get(f"/decide/{waiting}/people", params={"epsilon": "1"}).status_code == 503
        assert carol.act(f"/jobs/{job.id}/cancel").status_code == 204
        assert job.state == "cancelled"
        assert "Largest ε: 0.05" in carol.get(f"/decide/{waiting}").text
    stop.set()


# ---------------------------------------------------------------- the measured


def many_people(n: int, seed: int = 3) -> Dataset:
    dice = np.random.default_rng(seed)
    table = pa.table({"cost": np.round(dice.gamma(2.0, 3000.0, n), 2), "age": dice.integers(17, 91, n)})
    schema = {
        "table": "many", "individuals": n, "reviewed": True,
        "columns": {
            "cost": {"type": "decimal", "bounds": [0, 50000], "resolution": 0.01},
            "age": {"type": "integer", "bounds": [17, 90]},
        },
    }  # fmt: skip
    return Dataset.open(table, schema=schema)


def prepare_many(dataset: Dataset, sql: str = "SELECT SUM(cost) FROM many") -> MeasuredQuery:
    order = ReleaseOrder(prefer="ratio:0.95")
    return measure_query(dataset, prepare_release(dataset.schema, sql, Look(), order), Meter())


@pytest.mark.parametrize("text", ["ratio:0.95", "ratio:0.9", "ratio:0.9999", "variance:1e-5", "variance:1e-9"])
def test_kept_numbers_choose_as_the_whole_table_does(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with many_people(3000) as dataset:
        whole = dataset.risk("SELECT SUM(cost) FROM many").find(text)
        monkeypatch.setattr("dosimeter.web.decision.measured.MANY", 10)
        measured = prepare_many(dataset)
        assert measured.many
        preference = parse_preference(text)
        quick = measured.recall(preference)
    assert quick is not None
    assert quick.epsilon == whole.epsilon
    assert quick.limit == pytest.approx(whole.limit)
    assert [line.satisfied for line in quick.candidates] == [line.satisfied for line in whole.candidates]
    assert [line.value for line in quick.candidates] == pytest.approx([line.value for line in whole.candidates])


def test_classes_for_the_picture_keep_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with many_people(30_000) as dataset:
        sensitivities = dataset.risk("SELECT SUM(cost) FROM many").sensitivities
    drawn = compress_classes(sensitivities)
    assert len(sensitivities.values) > MANY > len(drawn.values)
    assert drawn.n == sensitivities.n
    assert drawn.values[:200].tolist() == sensitivities.values[:200].tolist()
    assert drawn.values[-200:].tolist() == sensitivities.values[-200:].tolist()
    exact = float((sensitivities.values * sensitivities.counts).sum())
    assert float((drawn.values * drawn.counts).sum()) == pytest.approx(exact, rel=1e-12)


def test_computation_stops_when_asked() -> None:
    with many_people(100) as dataset:
        meter = Meter()
        meter.stopped = True
        with pytest.raises(Interrupted):
            measure_query(
                dataset,
                prepare_release(dataset.schema, "SELECT SUM(cost) FROM many", Look(), ReleaseOrder(prefer="ratio:0.9")),
                meter,
            )


# ---------------------------------------------------------------- sums per person, by really following everybody


def test_sums_follow_everybody_through_all_answers(tmp_path: Path) -> None:
    """Brute force: every person's PIS by hand, from the raw table, for a COUNT, a SUM and a grouped COUNT."""
    rows = [
        (age, kind, hours) for age in range(20, 26) for kind in "ab" for hours in (0, 3, 8) for _ in range(1 + age % 2)
    ]
    ages, kinds, hours = (list(column) for column in zip(*rows, strict=True))
    schema = {
        "table": "staff", "individuals": len(rows) + 2, "reviewed": True,
        "columns": {
            "age": {"type": "integer", "bounds": [0, 100]},
            "kind": {"type": "category", "values": ["a", "b"]},
            "hours": {"type": "integer", "bounds": [0, 10]},
        },
    }  # fmt: skip
    queries = [
        ("SELECT COUNT(*) FROM staff WHERE age >= 23", 0.5, lambda a, k, h: 1.0 if a >= 23 else 0.0),
        ("SELECT SUM(hours) FROM staff WHERE kind = 'a'", 0.25, lambda a, k, h: h / 10 if k == "a" else 0.0),
        ("SELECT kind, COUNT(*) FROM staff GROUP BY kind", 0.125, lambda a, k, h: 1.0),
    ]
    with (
        Dataset.open(pa.table({"age": ages, "kind": kinds, "hours": hours}), schema=schema) as dataset,
        Ledger.open(tmp_path / "l.db") as ledger,
    ):
        for sql, epsilon, _ in queries:
            release(dataset, sql, Look(), ReleaseOrder(epsilon=epsilon, terms=Terms("budget:9")), ledger)
        account = ledger.account("staff")
        assert account is not None
        sums = sum_guarantees(dataset, account.entries, Meter())
    own = [*sorted((sum(e * share(*row) for _, e, share in queries) for row in rows), reverse=True), 0.0, 0.0]
    assert sums.total == 0.875
    assert sums.largest == pytest.approx(own[0])
    assert sums.holders == sum(abs(value - own[0]) < 1e-9 for value in own)
    assert sums.untouched == 2
    expected = sorted({round(value, 12) for value in own}, reverse=True)[:6]
    assert [value for value, _ in sums.steps] == pytest.approx(expected)
    assert [people for _, people in sums.steps] == [sum(abs(v - e) < 1e-9 for v in own) for e in expected]
    assert sums.median == pytest.approx(own[(len(own) - 1) // 2], abs=0.13)


def test_people_with_several_rows(start_site: Callable[..., Site], tmp_path: Path) -> None:
    """One individual, many rows: who they are is masked, and their guarantees are added as a bound."""
    rows = [(f"p{n % 40}", f"v{n}", n % 9) for n in range(100)]
    lines = [",".join(map(str, row)) for row in [("person", "visit", "cost"), *rows]]
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "visits.toml").write_text(
        'table = "visits"\nindividuals = 40\nunit = "person"\nmax_rows_per_unit = 3\nrow_key = "visit"\n'
        "reviewed = true\n"
        '[columns.person]\ntype = "text"\n[columns.visit]\ntype = "text"\n'
        '[columns.cost]\ntype = "integer"\nbounds = [0, 10]\n'
    )
    dataset = clinic_settings(data=str(tmp_path / "visits.csv"), schema=tmp_path / "visits.toml", policy="budget:50")
    site = start_site(datasets={"visits": dataset})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        for sql, share in (
            ("SELECT SUM(cost) FROM visits", lambda cost: cost),
            ("SELECT COUNT(*) FROM visits WHERE cost > 3", lambda cost: cost > 3),
        ):
            moved = Counter[str]()
            for person, _, cost in rows:
                moved[person] += share(cost)
            exposed = {person for person, change in moved.items() if change == max(moved.values())}
            query_id = anna.ask(sql, dataset="visits")
            page = carol.get(f"/decide/{query_id}").text
            assert "Largest ε:" in page
            people = carol.get(f"/decide/{query_id}/people", params={"epsilon": "1"}).text
            assert "•••" in people
            assert not re.findall(r"\bp\d+\b", read_text(people))
            revealed = read_text(carol.act(f"/decide/{query_id}/reveal", epsilon="1").text)
            first = re.search(r"(\d+) people share this ([^×]+) \d", revealed)  # whoever moves the answer most
            assert first is not None
            named = set(first[2].split(", "))
            assert (int(first[1]), len(named)) == (len(exposed), min(len(exposed), 8))
            assert named <= exposed
            groups = carol.get(f"/decide/{query_id}/groups", params={"column": "person", "epsilon": "1"})
            assert groups.status_code == 422
            assert carol.approve(query_id, "0.01").status_code == 200
        sums = read_text(carol.get("/accounts/visits/people").text)
    assert "Nobody's own guarantees add up to more than 0.0" in sums


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("sql", "clause", "marked"),
    [
        ("SELECT a<b FROM t", "a < b", "SELECT <mark>a&lt;b</mark> FROM t"),
        ("select  mode( x ) from t", "MODE(x)", "select  <mark>mode( x )</mark> from t"),
        ("SELECT 1", None, "SELECT 1"),
        ("SELECT <b>", "nothing here", "SELECT &lt;b&gt;"),
    ],
)
def test_clause_is_found_and_escaped(sql: str, clause: str | None, marked: str) -> None:
    assert underline_clause(sql, clause) == marked


def test_fixed_epsilon_account(start_site: Callable[..., Site]) -> None:
    site = start_site(datasets={"clinic": clinic_settings(algorithm="fixed", policy="budget:1", max_epsilon=0.5)})
    with site.guest("anna") as anna, site.guest("carol") as carol, site.api() as api:
        first, second = anna.ask(), anna.ask("SELECT COUNT(*) FROM clinic WHERE smoker")
        assert "Decide without looking" in carol.get(f"/decide/{first}").text
        assert carol.get(f"/decide/{first}/live").status_code == 403
        assert carol.approve(first, "0.6").status_code == 409  # above the account's cap
        assert carol.approve(first, "0.5").status_code == 200
        answer = api.get(f"/queries/{first}").json()["answer"]
        assert answer["epsilon"] == 0.5
        assert answer["error_95"] is not None
        assert "was looked at" not in answer["guarantee"]
        carol.act(f"/decide/{second}/look")
        page = read_text(carol.get(f"/decide/{second}").text)
        assert "Posterior odds (P3): who thought a statement" in page
        assert "The reading goes from 0.5 to" in page


def test_priority_suggests_a_threshold(site: Site, anna: Guest, carol: Guest) -> None:
    queries = {priority: anna.ask(priority=priority) for priority in ("high", "normal", "low")}
    order = [carol.get("/queue").text.index(query) for query in queries.values()]
    assert order == sorted(order)
    found = {p: read_text(carol.get(f"/decide/{q}").text) for p, q in queries.items()}
    assert "Largest ε: 0.1 (" in found["high"]
    assert "Largest ε: 0.05 (" in found["normal"]
    assert "Largest ε: 0.03 (" in found["low"]
    carol.act("/settings", high="80", normal="95", low="97")
    assert "Largest ε: 0.2 (exact limit 0.25)" in read_text(carol.get(f"/decide/{queries['high']}").text)
    with site.guest("conrad") as conrad:
        assert "Largest ε: 0.1 (" in read_text(conrad.get(f"/decide/{queries['high']}").text)


def test_any_remaining_candidate_below_may_be_approved_and_none_above(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    assert carol.approve(query_id, "0.06").status_code == 409
    assert carol.approve(query_id, "0.055").status_code == 422
    assert carol.approve(query_id, "").status_code == 422
    asked = read_text(carol.approve(query_id, "0.02", confirmed="0.05").text)
    assert "Approve at ε = 0.02?" in asked.replace("&nbsp;", " ")  # another ε than agreed to
    assert carol.approve(query_id, "0.02").status_code == 200
    with Ledger.open(site.settings.database, create=False) as ledger:
        account = ledger.account("clinic")
        assert account is not None
        entry = account.entries[0]
    assert str(entry.epsilon) == "0.02"
    assert entry.request.settings["chosen"] == 0.02


def test_what_approving_would_take_from_others(start_site: Callable[..., Site]) -> None:
    site = start_site(datasets={"clinic": clinic_settings(policy="paper")})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        query_id = anna.ask()
        anna.ask("SELECT COUNT(*) FROM clinic WHERE smoker")
        anna.ask("SELECT diagnosis, COUNT(*) FROM clinic GROUP BY diagnosis")  # ten groups allow a larger ε
        text = read_text(carol.get(f"/decide/{query_id}/others", params={"epsilon": "0.05"}).text)
    assert "This waiting query could no longer be answered: SELECT COUNT(*) FROM clinic WHERE smoker" in text


def test_changed_data_must_be_confirmed(start_site: Callable[..., Site], tmp_path: Path) -> None:
    data = tmp_path / "clinic.csv"
    data.write_bytes(CLINIC.with_name("clinic.csv").read_bytes())
    site = start_site(datasets={"clinic": clinic_settings(data=str(data))})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        carol.approve(anna.ask(), "0.01")
        lines = data.read_text().splitlines()
        data.write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")  # the same people in another order
        query_id = anna.ask("SELECT COUNT(*) FROM clinic WHERE smoker")
        assert "The people are the same" in carol.get(f"/decide/{query_id}/confirm?epsilon=0.01").text
        page = carol.approve(query_id, "0.01")
        assert "belongs to other data" in page.text  # nothing charged, decide again
        assert "Answered" in carol.approve(query_id, "0.01", continued="true").text


def test_more_people_than_declared_are_the_controllers_business(
    start_site: Callable[..., Site], tmp_path: Path
) -> None:
    data, schema = tmp_path / "clinic.csv", tmp_path / "clinic.toml"
    data.write_bytes(CLINIC.with_name("clinic.csv").read_bytes())
    schema.write_text(CLINIC.read_text().replace("individuals = 4000", "individuals = 3999"))
    site = start_site(datasets={"clinic": clinic_settings(data=str(data), schema=schema)})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        query_id = anna.ask()
        words = "The table holds 4,000 people and the schema declares 3,999"
        assert words in carol.get(f"/decide/{query_id}").text
        assert carol.approve(query_id).status_code == 200
        page = anna.get(f"/queries/{query_id}").text
        assert "released" in read_text(page)
        assert "4,000" not in page


def test_health(site: Site) -> None:
    with site.guest() as guest:
        assert guest.get("/health").json() == {"status": "ok"}


def test_errors_of_the_package_are_not_shown(site: Site, anna: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    from dosimeter.web.routes import analyst

    def broken(*_: object, **__: object) -> None:
        raise DosimeterError("the cell of Xanthippe")

    monkeypatch.setattr(analyst, "list_own", broken)
    response = anna.get("/queries")
    assert response.status_code == 503
    assert "Xanthippe" not in response.text


@pytest.mark.parametrize("reason", ["", "  \n "])
def test_a_decision_needs_a_reason(site: Site, anna: Guest, carol: Guest, reason: str) -> None:
    query_id = anna.ask()
    assert carol.approve(query_id, reason=reason).status_code == 422
    assert carol.act(f"/decide/{query_id}/deny", reason=reason).status_code == 422
    assert "waiting" in anna.get(f"/queries/{query_id}").text
    assert carol.approve(query_id, reason="agreed with the board").status_code == 200
    assert "agreed with the board" in carol.get(f"/decide/{query_id}").text
    assert "agreed with the board" not in anna.get(f"/queries/{query_id}").text
