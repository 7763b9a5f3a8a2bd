"""Values of the web: what a status may become, which ε may be approved, and one page for page and slider."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

import pytest

from dosimeter.web.decision import PARTS
from dosimeter.web.public import NewQuery
from dosimeter.web.store import Database, QueryStatus, User, find_query, move_query, submit_query
from dosimeter.web.store.tables import QUERIES, USERS
from tests.known import known
from tests.web.web_site import Guest, Site, StartSite, clinic_settings, read_text

FINAL = {QueryStatus.RELEASED, QueryStatus.DENIED, QueryStatus.WITHDRAWN}
LIVE_FIELDS: list[dict[str, str]] = [
    {},
    {"preset": "variance", "tau": "0.001", "epsilon": "0.3"},
    {"preset": "ratio", "percent": "90", "epsilon": "1", "raw": "true", "linear": "true"},
    {"preset": "medians", "column": "sex", "value": "F", "share": "95"},
    {"preset": "own", "text": "MIN(rdr) / MAX(rdr) >= 0.99"},
    {"preset": "balanced", "every": "true", "measure": "count"},
]


# ---------------------------------------------------------------- what a status may become


def test_final_statuses_stay_and_an_interruption_follows_an_approval_only() -> None:
    assert {status for status in QueryStatus if not status.following} == FINAL
    assert {status for status in QueryStatus if QueryStatus.INTERRUPTED in status.following} == {QueryStatus.APPROVING}
    assert {status for status in QueryStatus if QueryStatus.APPROVING in status.following} == {
        status for status in QueryStatus if status.undecided
    }
    assert {status for status in QueryStatus if status.open and not status.undecided} == {QueryStatus.APPROVING}


def test_a_query_moves_only_as_its_status_allows(database: str) -> None:
    with closing(Database(database)) as opened:
        opened.migrate()
        analyst = User("a", "anna", "analyst")
        with opened.writing() as connection:
            connection.execute(
                USERS.insert().values(
                    id="a", name="anna", role="analyst", password="-", disabled=False, created_at="2026-01-01"
                )
            )
        query_id = submit_query(opened, analyst, NewQuery(dataset="clinic", sql="SELECT 1", purpose="a test"))
        for before in QueryStatus:
            for to in QueryStatus:
                with opened.writing() as connection:
                    connection.execute(QUERIES.update().values(status=before.value, claim="c"))
                with opened.writing() as connection:
                    if to not in before.following:
                        with pytest.raises(ValueError, match="cannot become"):
                            move_query(connection, query_id, {before}, to)
                        continue
                    other = {status for status in QueryStatus if to in status.following} - {before}
                    assert not move_query(connection, query_id, other, to)  # somebody else was faster
                    assert not move_query(connection, query_id, {before}, to, claimed_by="another")
                    assert move_query(connection, query_id, {before}, to, claimed_by="c", note="noted")
                moved = known(find_query(opened, query_id))
                assert (moved.status, moved.note, moved.analyst, moved.decider) == (to, "noted", "anna", None)


# ---------------------------------------------------------------- which ε may be approved


@pytest.mark.parametrize(
    ("algorithm", "policy", "largest"),
    [
        # One COUNT with somebody in and somebody out: the ratio is 1/(1 + ε) (R10), at least 0.95 up to 0.0526.
        ("find", "budget:2", 0.05),
        ("find", "budget:0.03", 0.02),  # 0.01 of it is spent
        ("fixed", "budget:0.5", 0.4),
    ],
)
def test_slider_confirmation_and_approval_agree_on_every_epsilon(
    start_site: StartSite, algorithm: str, policy: str, largest: float
) -> None:
    site = start_site(datasets={"clinic": clinic_settings(algorithm=algorithm, policy=policy)})
    spent = "0.01" if policy != "budget:0.5" else "0.1"
    with site.guest("anna") as anna, site.guest("carol") as carol:
        carol.approve(anna.ask("SELECT COUNT(*) FROM clinic WHERE smoker"), spent)
        query_id = anna.ask()
        carol.act(f"/decide/{query_id}/look")
        candidates = sorted(site.state.datasets["clinic"].candidates)
        edge = candidates.index(largest)
        for epsilon in {*candidates[::6], *candidates[edge - 1 : edge + 2]}:
            fields = {"preset": "ratio", "percent": "95", "epsilon": f"{epsilon:.12g}"}
            shown = carol.get(f"/decide/{query_id}/live", params=fields).json()["fragments"]
            verdict = shown["verdict"]
            confirmation = carol.get(f"/decide/{query_id}/confirm", params=fields)
            asked = carol.approve(query_id, f"{epsilon:.12g}", confirmed="")  # asks for the confirmation first
            may = epsilon <= largest
            assert ("data-approve" in verdict) is may
            assert confirmation.status_code == (200 if may else 409)
            assert asked.status_code == (200 if may else 409)
            if not may:
                told = re.compile(r"Not approved, and nothing was charged. (.*?)<")
                (words,), (again,) = told.findall(confirmation.text), told.findall(asked.text)
                assert words == again
                assert read_text(words) in read_text(shown["cost"] + verdict)


def test_nothing_is_offered_from_a_stopped_dataset(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    assert "data-approve" in carol.get(f"/decide/{query_id}").text
    site.state.database.ledger.stop("clinic", "measuring", software="a test")
    site.state.forget("clinic")
    page = carol.get(f"/decide/{query_id}").text
    assert "data-approve" not in page
    assert "Clear the incident first" in page


# ---------------------------------------------------------------- one page for the first load and for the slider


def find_part(page: str, name: str) -> str | None:
    """What stands in the element that the slider replaces, up to the element's own end."""
    start = re.search(rf'<div id="part-{name}"[^>]*>', page)
    if start is None:
        return None
    depth, place = 1, start.end()
    for tag in re.finditer(r"<(/?)div\b[^>]*>", page[start.end() :]):
        depth += -1 if tag[1] else 1
        place = start.end() + tag.start()
        if depth == 0:
            break
    return page[start.end() : place]


@pytest.mark.parametrize("fields", LIVE_FIELDS, ids=lambda fields: fields.get("preset", "none"))
def test_page_and_slider_are_rendered_from_one_value(anna: Guest, carol: Guest, fields: dict[str, str]) -> None:
    query_id = anna.ask()
    whole = carol.get(f"/decide/{query_id}", params=fields).text
    step: dict[str, Any] = carol.get(f"/decide/{query_id}/live", params=fields).json()
    assert set(step["fragments"]) == set(PARTS)
    for name, part in step["fragments"].items():
        assert find_part(whole, name) == part, name
    assert f'aria-valuetext="{step["valuetext"]}"' in whole
    carol.approve(query_id)
    decided = carol.get(f"/decide/{query_id}").text
    assert [name for name in PARTS if find_part(decided, name) is None] == ["cost", "charge", "preview", "verdict"]
