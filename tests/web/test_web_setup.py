"""A dataset without a schema is set up in the browser: declared, paid for once, served. Nobody hears of it before."""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dosimeter.errors import DataError, LedgerError, OptionError
from dosimeter.ledger import Ledger
from dosimeter.release.ex_post import ex_post_risk
from dosimeter.release.facts import spending
from dosimeter.release.facts.entries import holds_facts, name_question
from dosimeter.release.facts.found import Fact
from dosimeter.schema.toml import load_schema
from dosimeter.web import setup_search
from dosimeter.web.store import list_audit
from tests.known import known
from tests.waiting import wait_until
from tests.web.browsing import OpenPage, expect, find_barriers, wait_for_decision
from tests.web.web_site import Guest, Site, StartSite, clinic_settings, keep_busy, read_text

PEOPLE = 500
SPEND = "60"  # so much that what is found hardly depends on the draws
MARK, LOW, HIGH = "Qxzvy", 4021, 4087  # in cells alone: in no name and no word of a page


def write_people(path: Path) -> None:
    """500 people with ages from 4021 to 4087, in two groups, each with a name of their own."""
    with path.open("w", newline="") as stream:
        draw, lines = random.Random(7), csv.writer(stream)
        lines.writerow(["name", "years", "team", "active"])
        for at in range(PEOPLE):
            years = (LOW, HIGH)[at] if at < 2 else draw.randint(LOW, HIGH)
            lines.writerow([f"{MARK}{at}", years, f"{MARK}{'ab'[at % 2]}", draw.choice(["true", "false"])])


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    return tmp_path / "marmots.toml"


@pytest.fixture
def start(start_site: StartSite, tmp_path: Path, schema: Path) -> Callable[..., Site]:
    """Start a server with the clinic, and marmots.csv that has no schema."""
    data = tmp_path / "marmots.csv"
    write_people(data)

    def start(**changes: Any) -> Site:
        given = {"data": str(data), "schema": schema, "policy": "budget:100", "algorithm": "fixed"} | changes
        database = tmp_path / "site.db"
        earlier = {"database": str(database), "tokens": {}} if database.exists() else {}
        return start_site(datasets={"clinic": clinic_settings(), "marmots": clinic_settings(**given)}, **earlier)

    return start


@pytest.fixture
def site(start: Callable[..., Site]) -> Site:
    return start()


FORM: dict[str, Any] = {
    "unit": "row", "spend": SPEND, "delta": "1e-9", "keep": "0.95", "row": "", "individual": "",
    "t0": "text", "t1": "integer", "t2": "text", "t3": "boolean", "d1": "Years lived", "who": "0", "find": ["1", "2"],
}  # fmt: skip


def save(guest: Guest, **changes: Any) -> str:
    """Send the form, and return the words of the page that shows it again."""
    response = guest.act("/setup/marmots", **FORM | changes)
    assert response.status_code == 200
    return read_text(response.text)


def spend(guest: Guest, **fields: str) -> str:
    """Confirm the set-up as it is saved, and return the words of the page that follows."""
    confirmed = known(re.search(r'name="confirmed" value="(\w+)"', guest.get("/setup/marmots/confirm").text))[1]
    return read_text(guest.act("/setup/marmots/spend", confirmed=confirmed, **fields).text)


def list_noted(site: Site) -> list[tuple[str, str, str]]:
    return [(each.user, each.action, each.detail) for each in list_audit(site.state.database, limit=50)]


def test_from_no_schema_to_served(site: Site, schema: Path, anna: Guest, carol: Guest, conrad: Guest) -> None:
    assert "To be set up: marmots" in read_text(carol.get("/queue").text)
    assert '<a href="/setup/marmots">to be set up</a>' in carol.get("/accounts").text
    assert "Go on: confirm" not in carol.get("/setup/marmots").text
    cost = save(carol)
    assert "ε = 60 and δ = 1·10⁻⁹; ε = 40 is left then" in cost
    assert "bounds years" in cost
    assert "values team" in cost
    assert site.entries("marmots") == ()

    done = spend(carol)
    assert "What was found of marmots" in done
    found = load_schema(schema)
    (entry,) = site.entries("marmots")
    assert found.reviewed == "released"
    assert found.found == entry.id
    assert PEOPLE <= known(found.individuals) <= PEOPLE + 10
    low, high = (int(str(end)) for end in known(found.columns["years"].bounds))
    assert 4000 <= low < 4045 < 4065 < high <= 4110
    assert found.columns["years"].description == "Years lived"
    assert found.columns["team"].values == (f"{MARK}a", f"{MARK}b")
    assert found.columns["name"].identifying
    assert (entry.status, entry.charge, entry.request.settings["approved_by"]) == ("released", Decimal(60), "carol")
    assert "no look at the data" in conrad.get(f"/records/{entry.id}").text
    noted = list_noted(site)
    assert ("server", "set up", f"entry {entry.id}") in noted
    ((_, _, detail),) = [each for each in noted if each[:2] == ("carol", "confirmed a set-up")]
    assert detail.startswith("ε = 60, δ = 1e-09, keep 0.95; every row is another person; found: years, team; ")
    assert "identify people: name; declared: name text, years integer, team text, active boolean" in detail

    for path in ("/setup/marmots", "/accounts/marmots", "/accounts"):
        assert conrad.get(path).status_code == 200
    assert "To be set up" not in carol.get("/queue").text
    assert spend_again(carol) == "/setup/marmots"
    assert len(site.entries("marmots")) == 1
    query_id = anna.ask("SELECT team, AVG(years) AS years FROM marmots GROUP BY team", dataset="marmots")
    assert carol.approve(query_id, "10", "").status_code == 200
    assert "4,0" in read_text(anna.get(f"/queries/{query_id}").text)


def test_analysts_read_of_which_columns_nothing_was_found(site: Site, anna: Guest, carol: Guest) -> None:
    save(carol, find=["2"])
    spend(carol)
    asked = read_text(anna.get("/ask?dataset=marmots").text)
    assert "years integer Years lived no bounds team category" in asked
    assert "active boolean Invented rows" in asked, "true and false are known"


def test_a_column_may_say_whose_a_row_is(site: Site, carol: Guest, schema: Path) -> None:
    assert "how many stays of one marmot count" in save(carol, unit="name", row="stay", individual="marmot")
    assert "of the marmots have at most 1 stay" in spend(carol)
    found = load_schema(schema)
    assert (found.unit, found.max_rows_per_unit, found.row, found.individual) == ("name", 1, "stay", "marmot")
    assert found.columns["name"].values is None


def spend_again(guest: Guest) -> str:
    """A second click, after the dataset is served: where it leads."""
    return str(guest.act("/setup/marmots/spend", confirmed="0").url.path)


def test_a_later_server_serves_it(site: Site, schema: Path, start: Callable[..., Site], carol: Guest) -> None:
    save(carol)
    spend(carol)
    before = schema.read_text()
    site.stop()
    again = start()
    assert set(again.state.datasets) == {"clinic", "marmots"}
    assert not again.state.unserved
    with again.guest("carol") as later:
        assert "What was found of marmots" in later.get("/setup/marmots").text
    assert schema.read_text() == before


# ---------------------------------------------------------------- who sees what


def everything_anna_gets(site: Site, anna: Guest) -> Iterator[tuple[str, int, str]]:
    pages = ["/ask", "/ask?dataset=marmots", "/ask/schema?dataset=marmots", "/queries", "/answers", "/me", "/health"]
    pages += [
        "/answers?dataset=marmots",
        "/ask/names?dataset=marmots",
        "/ask/invented.csv?dataset=marmots",
        "/setup/marmots",
        "/setup/marmots/look",
        "/accounts",
        "/queue",
        "/incidents",
    ]
    for path in pages:
        response = anna.get(path)
        yield path, response.status_code, response.text
    for path in ("/setup/marmots", "/setup/marmots/look", "/setup/marmots/spend"):
        response = anna.act(path, confirmed="x")
        yield f"POST {path}", response.status_code, response.text
    asked = {"dataset": "marmots", "sql": "SELECT COUNT(*) FROM marmots"}
    response = anna.act("/ask/check", **asked)
    yield "check", response.status_code, response.text
    with site.api() as api:
        for path in ("/datasets", "/answers?dataset=marmots"):
            response = api.get(path)
            yield f"api {path}", response.status_code, response.text
        response = api.post("/check", json=asked)
        yield "api check", response.status_code, response.text


def test_analysts_hear_nothing_before(site: Site, anna: Guest, carol: Guest) -> None:
    """The same answers as for a name that nobody ever configured, and the dataset's name in none of them."""
    save(carol)
    found = {path: (status, text) for path, status, text in everything_anna_gets(site, anna)}
    for path, (status, text) in found.items():
        assert "marmots" not in text.replace('value="SELECT COUNT(*) FROM marmots"', ""), path
        if "setup" in path:
            assert status == 403
    for path in ("/answers?dataset=", "/ask/schema?dataset=", "/ask/names?dataset=", "/ask/invented.csv?dataset="):
        unknown = anna.get(f"{path}squirrels")
        assert (unknown.status_code, strip(unknown.text)) == (
            found[f"{path}marmots"][0],
            strip(found[f"{path}marmots"][1]),
        )


def strip(page: str) -> str:
    return read_text(page).replace("squirrels", "marmots")


def test_nothing_read_off_the_data_before_a_look(site: Site, carol: Guest) -> None:
    """No cell, no extreme and no count of rows is in a page until a controller looks; the look is on record."""
    pages = [carol.get("/setup/marmots").text, carol.get("/queue").text, carol.get("/accounts").text]
    pages += [carol.act("/setup/marmots", **FORM).text, carol.get("/setup/marmots/confirm").text]
    refused = carol.get("/setup/marmots/look")
    assert refused.status_code == 403
    for page in [*pages, refused.text]:
        for secret in (MARK, str(LOW), f"{LOW:,}", str(HIGH), f"{HIGH:,}", str(PEOPLE)):
            assert secret not in page
    assert not any(action == "viewed the data for a set-up" for _, action, _ in list_noted(site))
    looked = carol.act("/setup/marmots/look").text
    assert f"{HIGH:,}" in looked
    assert f"{PEOPLE} rows" in looked
    assert MARK not in looked  # texts have no extremes, and names are masked
    assert ("carol", "viewed the data for a set-up", "") in list_noted(site)
    spend(carol)
    (entry,) = site.entries("marmots")
    assert entry.told
    assert "looked at before" in known(entry.guarantee)


def test_a_look_is_each_controllers_own(carol: Guest, conrad: Guest, site: Site) -> None:
    carol.act("/setup/marmots/look")
    assert conrad.get("/setup/marmots/look").status_code == 403


def test_nobody_can_ask_while_nothing_is_served(start_site: StartSite, tmp_path: Path, schema: Path) -> None:
    write_people(tmp_path / "marmots.csv")
    only = clinic_settings(data=str(tmp_path / "marmots.csv"), schema=schema, algorithm="fixed")
    site = start_site(datasets={"marmots": only})
    with site.guest("carol") as carol:
        for path in ("/queue", "/decided", "/accounts", "/settings", "/incidents", "/audit"):
            assert carol.get(path).status_code == 200, path
    with site.guest() as anna:
        page = anna.sign_in("anna")
        for path in ("/ask", "/answers", "/queries"):
            page = anna.get(path)
            assert page.status_code < 500, path
            assert "marmots" not in page.text
        asked = anna.get("/ask").text
        assert "no dataset is served" in asked
        assert "As soon as a controller has set one up" in asked
        assert "before you go on" not in asked, "there is nothing that changed meanwhile"


def test_people_wait_on_a_page_that_says_how_far_it_is(site: Site, carol: Guest) -> None:
    """The search waits for its turn; nobody can stop it, and a second click begins no other."""
    save(carol)
    with keep_busy(site.state.unserved["marmots"].worker):
        waits = carol.get("/setup/marmots/confirm").text
        confirmed = known(re.search(r'name="confirmed" value="(\w+)"', waits))[1]
        for _ in range(2):
            page = carol.act("/setup/marmots/spend", confirmed=confirmed).text
            assert "Finding the facts" in page
            assert "Cancel" not in page
        job = known(re.search(r'hx-get="/jobs/(\w+)"', page))[1]
        assert carol.act(f"/jobs/{job}/cancel").status_code == 204
        assert "Finding the facts" in carol.get(f"/jobs/{job}").text
    wait_until(lambda: "marmots" in site.state.datasets, "it is served")
    assert len(site.entries("marmots")) == 1


# ---------------------------------------------------------------- refusals, failures


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unit": ""}, "Choose whose privacy is protected"),
        ({"spend": "a lot"}, "ε to spend must be a number"),
        ({"spend": "-1"}, "ε to spend must be above 0"),
        ({"spend": "nan"}, "ε to spend must be a number"),
        ({"delta": "2"}, "δ must lie between 0 and 1"),
        ({"keep": "1"}, "must lie between 0 and 1"),
        ({"unit": "active"}, "must be an integer or a text"),
        ({"unit": "nowhere"}, "names no column"),
        ({"t1": "decimal", "r1": "fine"}, "The resolution of years must be a number"),
        ({"row": "a;b"}, "must be a short word or two"),
        ({"spend": "101"}, "100"),
    ],
)
def test_what_cannot_be_confirmed_says_why(site: Site, carol: Guest, changes: dict[str, str], words: str) -> None:
    shown = save(carol, go="confirm", **changes)
    assert words in shown
    assert "Go on: confirm" not in shown
    assert carol.act("/setup/marmots/spend", confirmed="x").url.path == "/setup/marmots"
    assert site.entries("marmots") == ()


def test_what_was_changed_meanwhile_is_asked_again(site: Site, carol: Guest, conrad: Guest) -> None:
    save(carol)
    page = carol.get("/setup/marmots/confirm").text
    confirmed = known(re.search(r'name="confirmed" value="(\w+)"', page))[1]
    save(conrad, spend="70")
    asked = carol.act("/setup/marmots/spend", confirmed=confirmed)
    assert asked.url.path == "/setup/marmots/confirm"
    assert "Spend ε = 70" in read_text(asked.text)
    assert site.entries("marmots") == ()


def test_all_or_none_are_ticked_without_scripts(carol: Guest, site: Site) -> None:
    assert carol.get("/setup/marmots").text.count(" checked") == 3  # two to be found, one that identifies
    assert carol.act("/setup/marmots", **FORM, tick="none").text.count(" checked") == 1
    assert carol.act("/setup/marmots", **FORM, tick="all").text.count(" checked") == 5


def test_a_file_that_cannot_be_written_loses_nothing(start: Callable[..., Site], tmp_path: Path) -> None:
    """The facts were paid for before: once there is room, the same request gives the same, at no further charge."""
    folder = tmp_path / "not there yet"
    site = start(schema=folder / "marmots.toml")
    with site.guest("carol") as carol:
        save(carol)
        failed = spend(carol)
        assert "cannot be written" in failed
        assert "nothing is lost" in failed
        (entry,) = site.entries("marmots")
        assert "marmots" in site.state.unserved
        folder.mkdir()
        assert "taking it up costs nothing more" in read_text(carol.get("/setup/marmots/confirm").text)
        assert "What was found of marmots" in spend(carol)
    assert [each.id for each in site.entries("marmots")] == [entry.id]
    assert load_schema(folder / "marmots.toml").found == entry.id
    assert not list(folder.glob("*.part"))


def test_a_file_that_somebody_else_wrote_stays(site: Site, schema: Path, carol: Guest) -> None:
    save(carol)
    schema.write_text("# by hand\n")
    assert "exists by now" in spend(carol)
    assert schema.read_text() == "# by hand\n"
    assert site.entries("marmots") == (), "nothing was charged"
    schema.unlink()
    assert "What was found of marmots" in spend(carol)


def test_a_crash_half_way_is_taken_up(
    start: Callable[..., Site], schema: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server stops after the charge, before anything is found: the next one finds it, for the same charge."""
    site = start()
    with site.guest("carol") as carol, monkeypatch.context() as patch:
        patch.setattr(spending.Drawing, "list_facts", stop_half_way)
        save(carol)
        assert "a bug of ours" in spend(carol)
    site.stop()
    assert not schema.exists()
    again = start()
    with again.guest("carol") as carol:
        shown = read_text(carol.get("/setup/marmots").text)
        assert "taking it up costs nothing more" in shown
        assert "An earlier search was charged" in save(carol, spend="30")
        save(carol)
        found = spend(carol)
    assert "What was found of marmots" in found
    (entry,) = again.entries("marmots")
    assert (entry.status, entry.charge) == ("released", Decimal(60))


def stop_half_way(_: spending.Drawing) -> Iterator[Fact]:
    raise RuntimeError("as if the process had ended")


def test_an_incident_stops_it(
    site: Site, schema: Path, carol: Guest, anna: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DataError(f"the cell {MARK}7 cannot be read")

    save(carol, spend="30")
    with monkeypatch.context() as patch:
        patch.setattr(spending, "measure_exactly", fail)
        failed = spend(carol)
    assert "This dataset is stopped" in failed
    assert MARK not in failed
    assert not schema.exists()
    (entry,) = site.entries("marmots")
    assert (entry.status, entry.charge) == ("reserved", Decimal(30))
    assert "Stopped: marmots." in read_text(carol.get("/queue").text)
    assert "marmots" not in anna.get("/ask").text
    assert "This dataset is stopped" in spend(carol)
    assert carol.act("/incidents/marmots/clear", reason="the disk was changed").status_code == 200
    assert "What was found of marmots" in spend(carol)
    assert [(each.id, each.charge) for each in site.entries("marmots")] == [(entry.id, Decimal(30))]


def test_changed_data_need_a_word(
    site: Site, carol: Guest, tmp_path: Path, schema: Path, start: Callable[..., Site]
) -> None:
    """The account knows other data: a box on the confirmation says that the people are the same."""
    save(carol)
    spend(carol)
    schema.unlink()
    site.stop()
    with (tmp_path / "marmots.csv").open("a") as stream:
        stream.write(f"{MARK},{LOW},{MARK}a,true\r\n")
    again = start()
    with again.guest("carol") as later:
        assert "So far ε = 60 of 100 is spent" in save(later, spend="20")
        assert "say so when you confirm" in spend(later)
        assert not schema.exists()
        assert "The people are the same as before" in later.get("/setup/marmots/confirm").text
        assert "What was found of marmots" in spend(later, continued="true")
    assert [each.charge for each in again.entries("marmots")] == [Decimal(60), Decimal(20)]


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({"algorithm": "find"}, False),
        ({"algorithm": "find-and-release", "policy": "paper"}, False),
        ({"algorithm": "find-and-release"}, True),
        ({"policy": "paper"}, True),
    ],
)
def test_only_accounts_with_a_fixed_epsilon_can_pay(
    start: Callable[..., Site], changes: dict[str, str], fits: bool
) -> None:
    if fits:
        assert start(**changes).state.unserved
        return
    with pytest.raises(OptionError, match=r"\[datasets.marmots\]: there is no schema file .* choose algorithm = fixed"):
        start(**changes)


# ---------------------------------------------------------------- where the entry is shown


def test_the_entry_is_shown_as_what_it_is(site: Site, anna: Guest, carol: Guest) -> None:
    save(carol)
    spend(carol)
    (entry,) = site.entries("marmots")
    assert holds_facts(entry)
    assert name_question(entry) == "Facts for a schema: 4 questions"
    account = read_text(carol.get("/accounts/marmots").text)
    assert "released Facts for a schema: 4 questions" in account
    assert "found by spending" in account
    sums = read_text(carol.act("/accounts/marmots/people").text)
    assert "Nobody's own guarantees add up to more than 60" in sums
    query_id = anna.ask("SELECT COUNT(*) FROM marmots WHERE active", dataset="marmots")
    carol.approve(query_id, "10", "")
    sums = read_text(carol.act("/accounts/marmots/people").text)
    moved, same = (int(known(re.search(rf" {total} (\d+) 70", sums))[1]) for total in (70, 60))
    assert moved + same == PEOPLE  # everybody bears the search, and those who are active the count

    for path in (f"/records/{entry.id}", f"/records/{entry.id}?private=true"):
        record = read_text(carol.get(path).text)
        assert "– individuals" in record
        assert "What these facts are worth" in record
        assert "NULL" not in record
        assert "±" not in record
    listed = read_text(anna.get("/answers?dataset=marmots").text)
    assert "column fact value people – individuals" in listed
    assert "SELECT COUNT(*) AS people" in listed
    assert "carol" not in listed
    assert anna.get(f"/answers/marmots/{entry.id}").status_code == 200
    lines = anna.get(f"/answers/marmots/{entry.id}/answer.csv").text.splitlines()
    assert lines[0] == "column,fact,value,people"
    with site.api() as api:
        answers = api.get("/answers?dataset=marmots").json()["answers"]
    assert [len(each["measured"]) for each in answers] == [1, 0]
    assert answers[-1]["answer"]["rows"][0]["fact"] == "individuals"
    assert answers[-1]["answer"]["error_95"] is None
    for path in ("/audit", "/queue", "/decided", "/accounts"):
        assert carol.get(path).status_code == 200
    dataset = site.state.datasets["marmots"].worker.dataset
    with pytest.raises(LedgerError, match="found the facts of a schema"):
        ex_post_risk(dataset, entry)


def test_a_query_that_looks_like_it_is_a_query(site: Site, anna: Guest, carol: Guest) -> None:
    save(carol)
    spend(carol)
    anna_asks = '-- Facts for a schema\nSELECT COUNT(*) AS people FROM "marmots"'
    query_id = anna.ask(anna_asks, dataset="marmots")
    carol.approve(query_id, "10", "")
    latest = max(site.entries("marmots"), key=lambda entry: entry.at)
    assert not holds_facts(latest) or latest.query != anna_asks
    same = "'x' AS \"column\", 'y' AS fact, team AS value, COUNT(*) AS people"
    hidden = f"-- Facts for a schema\nSELECT {same} FROM marmots GROUP BY team"
    carol.approve(anna.ask(hidden, dataset="marmots"), "10", "")
    (entry,) = [each for each in site.entries("marmots") if each.query == hidden]
    assert entry.status == "released"
    assert entry.columns == ("column", "fact", "value", "people")
    assert not holds_facts(entry)
    assert name_question(entry) == hidden, "its controller reads what was asked"
    listed = anna.get("/answers?dataset=marmots").text
    assert listed.count("-- Facts for a schema") == 1  # comments of others are not shown


# ---------------------------------------------------------------- in a browser


def test_a_wide_table_stays_usable(start_site: StartSite, tmp_path: Path) -> None:
    """349 columns: a page below 200 KB, with a description of each; more fields than forms usually have."""
    names = [f"answer_{at:03d}_of_the_person" for at in range(349)]
    data = tmp_path / "survey.csv"
    cells = [[("yes", "3", "2.5")[at % 3] for at in range(349)] for _ in range(30)]
    with data.open("w", newline="") as stream:
        csv.writer(stream).writerows([names, *cells])
    wide = clinic_settings(data=str(data), schema=tmp_path / "survey.toml", algorithm="fixed")
    site = start_site(datasets={"clinic": clinic_settings(), "survey": wide})
    fields: dict[str, Any] = {name: FORM[name] for name in ("unit", "delta", "keep", "row", "individual")}
    fields |= {"spend": "1", "find": ["1", "4", "7"]}
    for at in range(349):
        fields |= {f"t{at}": ("text", "integer", "decimal")[at % 3], f"r{at}": "", f"d{at}": "What they answered then"}
    with site.guest("carol") as carol:
        assert len(carol.get("/setup/survey").content) < 200_000
        shown = carol.act("/setup/survey", **fields)
    assert shown.status_code == 200
    assert len(shown.content) < 200_000
    assert shown.text.count("What they answered then") == 349
    assert "bounds answer_001_of_the_person, answer_004_of_the_person, answer_007_of_the_person" in read_text(
        shown.text
    )


def test_in_a_browser_from_a_file_to_an_average(site: Site, open_page: OpenPage) -> None:
    carol = open_page(site, "carol", viewport={"width": 1366, "height": 700})
    carol.goto("/queue")
    carol.click("main >> text=marmots")
    carol.select_option("[name=unit]", "row")
    carol.fill("[name=spend]", SPEND)
    carol.click("text=Show the cost")
    expect(carol.locator("#cost")).to_contain_text("ε = 40 is left then")
    assert find_barriers(carol) == []
    carol.set_viewport_size({"width": 1366, "height": 700})
    carol.click("text=Go on: confirm")
    carol.wait_for_url("**/confirm")
    carol.click("main form button.primary")
    expect(carol.locator("h1")).to_have_text("What was found of marmots")
    assert find_barriers(carol) == []
    anna = open_page(site, "anna")
    anna.goto("/ask?dataset=marmots")
    anna.fill("#sql", "SELECT team, AVG(years) AS years FROM marmots GROUP BY team")
    expect(anna.locator("#check .good")).to_be_visible()
    anna.fill("[name=purpose]", "how old the teams are")
    anna.click("text=Submit the query")
    anna.wait_for_url("**/queries/*")
    query_id = anna.url.rsplit("/", 1)[1]
    carol.goto(f"/decide/{query_id}")
    carol.click("button >> text=Look at the risk")
    wait_for_decision(carol)
    carol.goto(f"/decide/{query_id}/confirm?epsilon=10")
    carol.fill("[name=reason]", "a first number")
    carol.click("main form button.primary")
    carol.wait_for_url(f"**/decide/{query_id}")
    anna.reload()
    years = [
        float(text.split(" ")[0].replace(",", "")) for text in anna.locator("table.answer td.num").all_inner_texts()
    ]
    assert len(years) == 2
    assert all(abs(each - (LOW + HIGH) / 2) < 10 for each in years)


def test_ledger_lists_it_in_one_line(site: Site, carol: Guest, capsys: pytest.CaptureFixture[str]) -> None:
    from dosimeter.cli.printing import print_ledger

    save(carol)
    spend(carol)
    with Ledger.open(site.settings.database, create=False) as ledger:
        print_ledger([(known(ledger.summary("marmots")), site.entries("marmots"), False)])
    assert "questions" in capsys.readouterr().out


def test_progress_is_told_column_by_column(site: Site, carol: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, seen = site.state.unserved["marmots"].worker, []

    def watch(dataset: Any, search: Any, order: Any, ledger: Any, tell: spending.Tell) -> spending.FoundSchema:
        def note(words: str) -> None:
            tell(words)
            meter = known(worker.peek(("setup", "marmots"))).meter
            seen.append((meter.now, meter.steps))

        return spending.spend_on_schema(dataset, search, order, ledger, note)

    monkeypatch.setattr(setup_search, "spend_on_schema", watch)
    save(carol)
    spend(carol)
    assert seen == [
        ("Counting", (0, 3)),
        ("Searching years (1 of 2)", (1, 3)),
        ("Searching team (2 of 2)", (2, 3)),
    ]
