"""Approving: by which algorithm, at which ε, at whose expense, on which data, and with a reason."""

from __future__ import annotations

import math
import re
from pathlib import Path

import httpx
import pytest

from dosimeter import Dataset
from dosimeter.ledger import Ledger
from dosimeter.web.store.tables import QUERIES
from tests.known import known
from tests.web.web_site import COUNT, Guest, Site, StartSite, clinic_settings, copy_clinic, read_text, write_dataset


@pytest.mark.clinic(algorithm="fixed", policy="budget:1", max_epsilon=0.5)
def test_fixed_epsilon_account(anna: Guest, carol: Guest, api: httpx.Client) -> None:
    first, second = anna.ask(), anna.ask("SELECT COUNT(*) FROM clinic WHERE smoker")
    unseen = read_text(carol.get(f"/decide/{first}").text)
    assert "Decide without looking" in unseen
    confirm = read_text(carol.get(f"/decide/{first}/confirm", params={"epsilon": "0.5"}).text)
    sure = 0.01 * math.exp(0.5) / (0.01 * math.exp(0.5) + 0.99)  # Bayes: 1.638 %
    assert f"is at most {math.ceil(1e3 * sure) / 10} % sure afterwards." in confirm
    assert "At ε = 0.5 the analyst would get count ± 6 (95 %)." in confirm  # 2e^(-0.5 · 7)/(1 + e^-0.5) < 0.05
    assert "What is spent goes from 0 to 0.5 of 1. After it, 1 more answer at the same ε is possible." in confirm
    assert carol.get(f"/decide/{first}/live").status_code == 403
    assert carol.approve(first, "0.6").status_code == 409  # above the account's cap
    assert carol.approve(first, "0.5").status_code == 200
    answer = api.get(f"/queries/{first}").json()["answer"]
    assert answer["epsilon"] == 0.5
    assert answer["error_95"] is not None
    assert "was looked at" not in answer["guarantee"]
    count = f"{answer['rows'][0]['count']:,} ± {answer['error_95'][0]:,.0f}".replace("-", "−")
    assert count in read_text(carol.get(f"/decide/{first}").text)  # as the analyst sees it
    carol.act(f"/decide/{second}/look")
    assert "What is spent goes from 0.5 to" in read_text(carol.get(f"/decide/{second}").text)


def test_priority_orders_the_queue_and_offers_a_threshold(conrad: Guest, anna: Guest, carol: Guest) -> None:
    queries = {priority: anna.ask(priority=priority) for priority in ("high", "normal", "low")}
    order = [carol.get("/queue").text.index(query) for query in queries.values()]
    assert order == sorted(order)
    found = {p: carol.get(f"/decide/{q}").text for p, q in queries.items()}
    assert all("Largest ε that meets the preference: 0.05 (" in page for page in found.values())
    offered = {p: re.findall(r'data-percent="([^"]+)"', page) for p, page in found.items()}
    assert offered == {"high": ["90"], "normal": [], "low": ["97"]}
    carol.act("/settings", high="80", normal="90", low="97")
    page = carol.get(f"/decide/{queries['high']}").text
    assert "Largest ε that meets the preference: 0.1 (" in page
    assert re.findall(r'data-percent="([^"]+)"', page) == ["80"]
    assert "Largest ε that meets the preference: 0.05 (" in conrad.get(f"/decide/{queries['high']}").text


def test_any_remaining_candidate_below_may_be_approved_and_none_above(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    assert carol.approve(query_id, "0.06").status_code == 409
    assert carol.approve(query_id, "0.055").status_code == 422
    assert carol.approve(query_id, "").status_code == 422
    asked = read_text(carol.approve(query_id, "0.02", confirmed="0.05").text)
    assert "Approve at ε = 0.02?" in asked  # another ε than agreed to
    assert carol.approve(query_id, "0.02").status_code == 200
    (entry,) = site.entries()
    assert str(entry.epsilon) == "0.02"
    assert entry.request.settings["chosen"] == 0.02


@pytest.mark.clinic(policy="paper")
def test_what_approving_would_take_from_others(anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    anna.ask("SELECT COUNT(*) FROM clinic WHERE smoker")
    anna.ask("SELECT diagnosis, COUNT(*) FROM clinic GROUP BY diagnosis")  # ten groups allow a larger ε
    text = read_text(carol.get(f"/decide/{query_id}/others", params={"epsilon": "0.05"}).text)
    assert "This waiting query could no longer be answered: SELECT COUNT(*) FROM clinic WHERE smoker" in text


def test_shared_individuals_are_the_controllers_business(start_site: StartSite, tmp_path: Path) -> None:
    """Told when the second account is opened, to whoever confirms; its analyst sees a waiting query, and an answer."""
    datasets = {
        name: write_dataset(
            tmp_path,
            name,
            ["pid,age", *(f"p{at},{at}" for at in people)],
            'individuals = 100\nunit = "pid"\nmax_rows_per_unit = 1\ncolumns.pid.type = "text"\n'
            'columns.age = { type = "integer", bounds = [0, 120] }',
            algorithm="fixed",
        )
        for name, people in (("north", range(60)), ("south", range(40, 90)))
    }
    site = start_site(datasets=datasets)
    with site.guest("anna") as anna, site.guest("carol") as carol:
        first, second = (anna.ask(f"SELECT COUNT(*) FROM {name}", dataset=name) for name in datasets)
        assert "same keys" not in carol.get(f"/decide/{first}/confirm?epsilon=0.1").text
        assert "Answered" in carol.approve(first, "0.1").text
        words = "20 of 50 individuals of this table have the same keys as individuals of the account 'north'"
        confirm = read_text(carol.get(f"/decide/{second}/confirm?epsilon=0.1").text)
        assert f"{words} in this ledger. They are other people." in confirm
        assert words in read_text(carol.approve(second, "0.1").text)  # nothing charged, decide again
        assert site.entries("south") == ()
        assert "same keys" not in anna.get(f"/queries/{second}").text
        assert "Answered" in carol.approve(second, "0.1", other_people="true").text
        assert "same keys" not in anna.get(f"/queries/{second}").text
        later = anna.ask("SELECT COUNT(*) FROM south WHERE age > 50", dataset="south")
        assert "same keys" not in carol.get(f"/decide/{later}/confirm?epsilon=0.1").text  # compared once


def test_more_people_than_declared_are_the_controllers_business(start_site: StartSite, tmp_path: Path) -> None:
    clinic = copy_clinic(tmp_path)
    clinic.schema.write_text(clinic.schema.read_text().replace("individuals = 4000", "individuals = 3999"))
    site = start_site(datasets={"clinic": clinic})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        query_id = anna.ask()
        words = "The table holds 4,000 people and the schema declares 3,999"
        assert words in carol.get(f"/decide/{query_id}").text
        assert carol.approve(query_id).status_code == 200
        assert "4,000" not in anna.get(f"/queries/{query_id}").text


@pytest.mark.parametrize("reason", ["", "  \n "])
def test_a_decision_needs_a_reason(anna: Guest, carol: Guest, reason: str) -> None:
    query_id = anna.ask()
    assert carol.approve(query_id, reason=reason).status_code == 422
    assert carol.act(f"/decide/{query_id}/deny", reason=reason).status_code == 422
    assert "waiting" in anna.get(f"/queries/{query_id}").text
    assert carol.approve(query_id, reason="agreed with the board").status_code == 200
    assert "agreed with the board" in carol.get(f"/decide/{query_id}").text
    assert "agreed with the board" not in anna.get(f"/queries/{query_id}").text


def test_what_can_no_longer_be_answered_can_be_refused(site: Site, anna: Guest, carol: Guest) -> None:
    """The schema changed after the query was asked: here the query did, which is the same to the server."""
    denied, returned = anna.ask(), anna.ask()
    with site.state.database.writing() as connection:
        connection.execute(QUERIES.update().values(sql="SELECT MODE(age) FROM clinic"))
    page = carol.get(f"/decide/{denied}")
    assert page.status_code == 409
    for action in ("deny", "changes"):
        assert f'href="/decide/{denied}/{action}"' in page.text
        assert carol.get(f"/decide/{denied}/{action}").status_code == 200
    assert carol.act(f"/decide/{denied}/deny", reason="too old").status_code == 200
    assert carol.act(f"/decide/{returned}/changes", phrase="syntax").status_code == 200
    assert "Nothing waits." in carol.get("/queue").text
    assert carol.approve(returned).status_code == 409


@pytest.mark.clinic(algorithm="fixed", policy="budget:1@1e-06")
def test_the_account_page_says_what_is_left_and_why_a_request_was_denied(site: Site, anna: Guest, carol: Guest) -> None:
    first, settings = anna.ask(), clinic_settings()
    assert "a budget of ε = 1 at δ = 1·10⁻⁶ in all" in read_text(carol.get(f"/decide/{first}").text)
    assert carol.approve(first, "0.5").status_code == 409
    assert carol.approve(first, "0.1").status_code == 200
    with (
        Dataset.open(settings.data, schema=settings.schema) as clinic,
        Ledger.open(site.settings.database, create=False) as ledger,
    ):
        assert clinic.release(COUNT, epsilon=0.9, ledger=ledger).status == "denied"
        left = known(ledger.remaining("clinic"))
    page = read_text(carol.get("/accounts/clinic").text)
    assert "the budget does not allow it" in page
    for epsilon, count in left.answers.items():
        assert f"{epsilon:g} {count:,} {left.gaussian[epsilon]:,}" in page
    assert "counted as ρ = 0.005 and read as ε at δ = 1·10⁻⁶" in page
    for path in ("/", "/answers", f"/queries/{first}"):
        assert not re.search("does not allow it|ρ", anna.get(path).text)
