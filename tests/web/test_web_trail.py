"""Whoever looks leaves a trail, whoever is shut out stays out, nobody learns what is not theirs to know, and a query or
condition about a single person is noticed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from dosimeter.errors import LedgerError
from dosimeter.ledger import Ledger
from dosimeter.release import release
from dosimeter.web.identity import users
from dosimeter.web.identity.throttle import Limits
from dosimeter.web.own_queries import show_query
from dosimeter.web.store.audit_log import NOBODY, OPERATOR, SERVER
from dosimeter.web.store.database import Database
from dosimeter.web.store.queries import find_own, withdraw_query
from dosimeter.web.store.tables import AUDIT, QUERIES
from tests.known import known
from tests.web.web_site import (
    COUNT,
    PASSWORD,
    Guest,
    Site,
    StartSite,
    clinic_settings,
    find_user,
    read_text,
    write_configuration,
)

OTHER = "SELECT COUNT(*) FROM clinic WHERE smoker"
LIMITS = Limits("10.0.0.9", 5, 15)


def read_trail(site: Site) -> list[tuple[str, str, str]]:
    with site.state.database.reading() as connection:
        rows = connection.execute(sa.select(AUDIT).order_by(AUDIT.c.id)).mappings().all()
    return [(row["user"], row["action"], row["detail"]) for row in rows]


def count_actions(site: Site, user: str) -> Counter[str]:
    return Counter(action for who, action, _ in read_trail(site) if who == user)


# ---------------------------------------------------------------- looking


def test_every_kind_of_look_is_on_record_once(site: Site, conrad: Guest, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    for epsilon in ("0.01", "0.02", "0.03", "0.04"):
        assert carol.get(f"/decide/{query_id}/live", params={"epsilon": epsilon}).status_code == 200
        assert carol.get(f"/decide/{query_id}/people", params={"epsilon": epsilon}).status_code == 200
        carol.get(f"/decide/{query_id}/groups", params={"epsilon": epsilon, "column": "sex"})
        carol.get(f"/decide/{query_id}/others", params={"epsilon": epsilon})
    carol.get(f"/decide/{query_id}/groups", params={"epsilon": "1", "column": "district"})
    carol.approve(query_id)
    for _ in range(2):
        assert carol.get("/accounts/clinic/people").status_code == 200
    seen = count_actions(site, "carol")
    assert seen["viewed risk"] == 1
    assert seen["viewed the most exposed"] == 1
    assert seen["viewed groups"] == 2
    assert seen["viewed what others would lose"] == 1
    assert seen["viewed sums per person"] == 1
    conrad.get(f"/decide/{query_id}/live")
    assert count_actions(site, "conrad")["viewed risk"] == 1


@pytest.mark.clinic(algorithm="fixed")
def test_revealing_before_one_may_look_reveals_and_records_nothing(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    assert carol.act(f"/decide/{query_id}/reveal", epsilon="1").status_code == 403
    assert count_actions(site, "carol")["revealed identities"] == 0
    carol.act(f"/decide/{query_id}/look")
    assert carol.act(f"/decide/{query_id}/reveal", epsilon="1").status_code == 200
    assert count_actions(site, "carol")["revealed identities"] == 1


@pytest.mark.parametrize("algorithm", ["fixed", "find-and-release"])
def test_sums_per_person_are_a_look_that_the_next_promise_tells(start_site: StartSite, algorithm: str) -> None:
    dataset = clinic_settings(algorithm=algorithm, policy="budget:50", variance=0.01)
    site = start_site(datasets={"clinic": dataset})
    approved = {"confirmed": "test"} if algorithm == "find-and-release" else {}

    def answer(guest: Guest, sql: str) -> str:
        query_id = anna.ask(sql)
        guest.approve(query_id, "0.5", **approved)
        with site.api() as api:
            return str(api.get(f"/queries/{query_id}").json()["answer"]["guarantee"])

    with site.guest("anna") as anna, site.guest("carol") as carol:
        assert "was looked at" not in answer(carol, COUNT)
        assert 'hx-trigger="load"' not in carol.get("/accounts/clinic").text  # nothing looks by itself
        assert carol.get("/accounts/clinic/people").status_code == 403
        assert "was looked at" not in answer(carol, COUNT)
        with site.guest("conrad") as conrad:
            assert "guaranteed" in read_text(conrad.act("/accounts/clinic/people").text)
            assert conrad.get("/accounts/clinic/people").status_code == 200  # the same look once more
        assert count_actions(site, "conrad")["viewed sums per person"] == 1
        assert "was looked at" in answer(carol, COUNT)
        assert "was looked at" not in answer(carol, OTHER)
    assert site.entries()


# ---------------------------------------------------------------- coming and going


def test_signing_in_and_out_is_on_record_also_when_it_fails(site: Site, guest: Guest) -> None:
    guest.sign_in("anna")
    guest.act("/sign-out")
    guest.sign_in("my secret password", "x")
    for _ in range(site.settings.failures_allowed + 4):
        guest.sign_in("bob", "wrong password")
    anna, bob = count_actions(site, "anna"), count_actions(site, "bob")
    assert (anna["signed in"], anna["signed out"]) == (1, 1)
    assert (bob["failed to sign in"], bob["was throttled"]) == (site.settings.failures_allowed, 1)
    assert count_actions(site, NOBODY)["failed to sign in"] == 1
    assert "secret" not in str(read_trail(site))  # what was typed in place of a name may be a password
    assert {detail for who, action, detail in read_trail(site) if action == "failed to sign in"} == {"127.0.0.1"}


def test_what_the_operator_does_is_on_record(tmp_path: Path) -> None:
    from tests.web.test_web_commands import run_command

    config = ("--config", str(write_configuration(tmp_path)))
    for words in (["add", "ada", "--role", "analyst"], ["reset", "ada"], ["disable", "ada"]):
        run_command("user", *words, *config)
    with closing(Database(str(tmp_path / "site.db"))) as database, database.reading() as connection:
        rows = connection.execute(sa.select(AUDIT).order_by(AUDIT.c.id)).mappings().all()
    assert [(row["user"], row["action"], row["detail"]) for row in rows] == [
        (SERVER, "began the chain", "no records from before"),
        (OPERATOR, "added a user", "ada, analyst"),
        (OPERATOR, "reset a password", "ada"),
        (OPERATOR, "disabled a user", "ada"),
    ]


# ---------------------------------------------------------------- shutting somebody out


def replace_meanwhile(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen after a password was found right, and before anything comes of it."""
    matches = users._matches

    def match(stored: str, password: str) -> bool:
        right = matches(stored, password)
        act()
        return right

    patch.setattr(users, "_matches", match)


ATTEMPTS: list[Callable[[Database], object]] = [
    lambda opened: users.sign_in(opened, "anna", PASSWORD, LIMITS, hours=1),
    lambda opened: users.change_password(opened, find_user(opened, "anna"), PASSWORD, "another password", LIMITS),
]


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=["sign in", "change"])
@pytest.mark.parametrize("act", [users.reset_password, users.disable_user])
def test_old_password_does_nothing_once_it_is_replaced(
    opened: Database,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[Database, str], str | None],
    attempt: Callable[[Database], object],
) -> None:
    given: list[str | None] = []
    with monkeypatch.context() as patch:
        replace_meanwhile(patch, lambda: given.append(act(opened, "anna")))
        assert not attempt(opened)
    (fresh,) = given
    assert bool(users.sign_in(opened, "anna", fresh or PASSWORD, LIMITS, hours=1)) == (fresh is not None)


def test_no_token_is_made_by_a_session_that_has_ended(opened: Database) -> None:
    begun = known(users.sign_in(opened, "anna", PASSWORD, LIMITS, hours=1))
    user = users.find_session(opened, begun.key)
    assert user == begun.user
    users.end_everything(opened, user)
    with pytest.raises(users.SessionEnded):
        users.make_token(opened, user, "late")


# ---------------------------------------------------------------- withdrawing tells nothing


@pytest.mark.parametrize("status", ["waiting", "approving", "interrupted"])
def test_withdrawing_looks_the_same_in_every_open_state(
    site: Site, api: httpx.Client, anna: Guest, status: str
) -> None:
    query_id = anna.ask()
    state = site.state
    claim = {"claim": "c"} if status == "approving" else {}
    state.claims.add("c")
    with state.database.writing() as connection:
        connection.execute(QUERIES.update().where(QUERIES.c.id == query_id).values(status=status, **claim))
    assert api.get(f"/queries/{query_id}").json()["status"] == "waiting"
    for answered in (200, 409):
        assert anna.act(f"/queries/{query_id}/withdraw").status_code == answered
        assert api.get(f"/queries/{query_id}").json()["status"] == "withdrawn"


@pytest.mark.parametrize(
    ("entry", "becomes", "shown"),
    [(None, "withdrawn", "withdrawn"), ("denied", "withdrawn", "withdrawn"), ("released", "released", "released")],
)
def test_withdrawal_counts_unless_there_is_an_answer(
    site: Site, anna: Guest, carol: Guest, monkeypatch: pytest.MonkeyPatch, entry: str | None, becomes: str, shown: str
) -> None:
    state = site.state
    query_id = anna.ask()
    analyst = find_user(state.database, "anna")

    def withdraw_meanwhile(*arguments: Any) -> object:
        assert withdraw_query(state.database, analyst, query_id)
        if entry is None:
            raise LedgerError("The disk is full.")
        if entry == "denied":
            monkeypatch.setattr(Ledger, "settle", lambda *_, **__: None)  # charged, and no answer
        return release(*arguments)

    monkeypatch.setattr("dosimeter.web.decision.approve.release", withdraw_meanwhile)
    carol.approve(query_id)
    query = known(find_own(state.database, analyst, query_id))
    assert query.status == becomes
    assert show_query(query, None).status == shown
    assert carol.get(f"/decide/{query_id}").status_code == 200


# ---------------------------------------------------------------- links from elsewhere


def test_link_from_elsewhere_sets_no_preference(anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    form = {"preset": "ratio", "percent": "1", "epsilon": "10"}
    own = carol.get(f"/decide/{query_id}", params=form).text
    assert re.search(r'name="percent"[^>]* value="1"', own)
    assert "Looser than your own threshold: at least 95 %" in read_text(own)
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "", "Referer": "http://elsewhere.example/decide"},
    ):
        page = carol.get(f"/decide/{query_id}", params=form, headers=headers).text
        assert re.search(r'name="percent"[^>]* value="95"', page)
        assert "Looser than your own" not in page
        assert "Largest ε that meets the preference: 0.05" in read_text(page)


def test_looser_preference_is_said_whatever_its_kind(anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    for form, looser in (
        ({"percent": "95"}, False),
        ({"percent": "99"}, False),
        ({"percent": "94.9"}, True),
        ({"preset": "own", "text": "MAX(rdr) <= 100 * MIN(rdr)"}, True),
        ({"preset": "own", "text": "MIN(rdr) / MAX(rdr) >= 0.99"}, False),
        ({"preset": "variance", "tau": "1e9"}, True),
        ({"preset": "exploratory"}, False),  # on another scale than a percentage
    ):
        reading = carol.get(f"/decide/{query_id}/live", params=form).json()
        assert ("Looser than your own threshold" in json.dumps(reading)) == looser, form


NAMED = "SELECT diagnosis, COUNT(*) FROM clinic WHERE name = 'Yusuf Demir' GROUP BY diagnosis"
ISLAND = "SELECT diagnosis, COUNT(*) FROM clinic WHERE district = 'Seal Island' GROUP BY diagnosis"


# ---------------------------------------------------------------- queries


def test_a_query_about_one_person_is_refused_where_it_is_checked_and_where_it_is_asked(
    anna: Guest, api: httpx.Client
) -> None:
    for sql in (NAMED, "SELECT COUNT(*) FILTER (WHERE patient_id LIKE 'P218%') FROM clinic"):
        asked = {"dataset": "clinic", "sql": sql, "purpose": "x"}
        assert "asks about single persons" in read_text(anna.act("/ask/check", dataset="clinic", sql=sql).text)
        assert anna.act("/ask", **asked).status_code == 422
        checked = api.post("/check", json={"dataset": "clinic", "sql": sql}).json()
        assert not checked["answerable"]
        assert checked["clause"] in ("name = 'Yusuf Demir'", "patient_id LIKE 'P218%'")
        refused = api.post("/queries", json=asked)
        assert refused.status_code == 422
        assert "identifies people" in refused.json()["error"]["message"]
    assert "You have not asked anything yet." in anna.get("/queries").text
    for sql in (COUNT, "SELECT COUNT(DISTINCT patient_id) FROM clinic WHERE name IS NOT NULL"):
        answer = api.post("/check", json={"dataset": "clinic", "sql": sql}).json()
        assert "single persons" not in answer["message"]


@pytest.mark.parametrize("algorithm", ["find", "fixed"])
def test_where_it_is_allowed_the_decision_opens_with_an_alarm(start_site: StartSite, algorithm: str) -> None:
    site = start_site(datasets={"clinic": clinic_settings(allow_identifying=True, algorithm=algorithm)})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        page = carol.get(f"/decide/{anna.ask(NAMED)}").text
        assert page.index('class="alarm"') < page.index("<h1")
        assert "singles people out by name: name = &#39;Yusuf Demir&#39;." in page
        assert 'class="alarm"' not in carol.get(f"/decide/{anna.ask('SELECT COUNT(*) FROM clinic WHERE smoker')}").text


# ---------------------------------------------------------------- conditions


def list_tried(site: Site, user: str = "carol") -> list[str]:
    return [detail for who, action, detail in read_trail(site) if (who, action) == (user, "tried a condition")]


@pytest.mark.parametrize("condition", ["name = 'Yusuf Demir'", "patient_id LIKE 'P218%'", "name IS NULL"])
def test_a_condition_that_names_people_needs_them_revealed_first(
    site: Site, anna: Guest, carol: Guest, condition: str
) -> None:
    query_id = anna.ask(ISLAND)
    text = f"MAX(rdr) FILTER (WHERE {condition}) / MIN(rdr) <= 1.0"
    form = {"preset": "own", "text": text}
    refused = carol.get(f"/decide/{query_id}/live", params=form).json()
    assert ("Choose Reveal" in refused["problem"], refused["job"], refused["fragments"]) == (True, None, {})
    assert "Choose Reveal" in read_text(carol.get(f"/decide/{query_id}", params=form).text)
    confirm = carol.get(f"/decide/{query_id}/confirm", params=form | {"epsilon": "0.05"})
    assert confirm.status_code == 422
    assert carol.approve(query_id, preference=text).status_code == 422
    assert len(list_tried(site)) == 1
    assert condition in list_tried(site)[0]
    assert count_actions(site, "carol")["revealed identities"] == 0

    carol.act(f"/decide/{query_id}/reveal", epsilon="1")
    assert count_actions(site, "carol")["revealed identities"] == 1
    assert "Reveal" not in carol.get(f"/decide/{query_id}/live", params=form).json()["problem"]
    with site.guest("carol") as elsewhere:  # another session
        again = elsewhere.get(f"/decide/{query_id}/live", params=form).json()
        assert "Choose Reveal" in again["problem"]
    other = anna.ask()  # another query
    assert "Choose Reveal" in carol.get(f"/decide/{other}/live", params=form).json()["problem"]


def test_every_own_condition_is_on_record(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    texts = ["QUANTILE_CONT(rdr, 0.9) <= 1.5 * AVG(rdr)", "MEDIAN(rdr) FILTER (WHERE smoker) <= 2"]
    for text in (*texts, *texts, "MIN(rdr) / MAX(rdr) >= 0.5", "this is no condition"):
        for epsilon in ("0.01", "0.02"):
            carol.get(f"/decide/{query_id}/live", params={"preset": "own", "text": text, "epsilon": epsilon})
    carol.get(f"/decide/{query_id}/live", params={"preset": "variance", "tau": "0.1"})
    carol.get(f"/decide/{query_id}/live", params={"preset": "medians", "column": "sex", "value": "Other"})
    tried = list_tried(site)
    # Each once; the fixed sentences are no conditions of one's own, and nor is what has no meaning.
    for one, words in zip(tried, ("QUANTILE_CONT(rdr, 0.9)", "smoker", "Other"), strict=True):
        assert words in one
    carol.approve(query_id, preference="MAX(rdr) / AVG(rdr) <= 3")
    assert len(list_tried(site)) == 4
    assert "MAX(rdr) / AVG(rdr)" in json.dumps(list_tried(site)[3])
