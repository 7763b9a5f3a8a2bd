"""The table about every column on the web: asked for, decided and released as a query, and then read by analysts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from dosimeter.schema import Column, ColumnType, load_schema
from dosimeter.summary import write_summary
from dosimeter.web.summaries import find_summary
from tests.known import known
from tests.web.test_web_trail import count_actions
from tests.web.web_site import CLINIC, Guest, Site, StartSite, clinic_settings, read_text, write_dataset

SQL = write_summary(load_schema(Path(str(CLINIC / "clinic.toml"))))
COLUMNS = list(load_schema(Path(str(CLINIC / "clinic.toml"))).columns)
FIXED = {"clinic": clinic_settings(algorithm="fixed", policy="budget:1000000000")}


def read_rows(page: str) -> list[list[str]]:
    """Return the cells of the table's rows."""
    body = known(re.search(r"<tbody>(.*?)</tbody>", page, re.S))[1]
    return [
        [read_text(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)]
        for row in re.findall(r"<tr>(.*?)</tr>", body, re.S)
    ]


def release(guest: Guest, epsilon: str = "10") -> str:
    """Put the summary into the queue as a controller, and approve it; gives the query's id."""
    decision = guest.act("/accounts/clinic/summary")
    assert decision.status_code == 200, decision.text
    query_id = str(decision.url).rsplit("/", 1)[1]
    assert guest.approve(query_id, epsilon=epsilon).status_code == 200
    return query_id


def test_a_controller_decides_and_analysts_read(start_site: StartSite) -> None:
    site = start_site(datasets=FIXED)
    with site.guest("anna") as anna, site.guest("carol") as carol:
        assert "Nothing of the kind was released yet" in anna.get("/about/clinic").text
        assert "/about/clinic" in anna.get("/ask").text
        assert "/accounts/clinic/summary" in carol.get("/accounts/clinic").text
        release(carol)
        entry = known(site.entries()[-1])
        assert (len(site.entries()), entry.status, entry.query) == (1, "released", SQL)
        page = anna.get("/about/clinic").text
        rows = read_rows(page)
        assert [row[0] for row in rows] == COLUMNS
        assert all(len(row) == 8 for row in rows)
        assert "ε = 10 for the whole table." in read_text(page)
        assert f"/answers/clinic/{entry.id}" in page
        assert anna.get(f"/answers/clinic/{entry.id}").status_code == 200
        assert "carol" not in page, "who asked is not told"
        assert read_rows(carol.get("/accounts/clinic/summary").text) == rows
        assert count_actions(site, "anna")["read a released answer"] == 1


def test_the_numbers_are_those_of_the_answer(start_site: StartSite) -> None:
    """By the other road: the released rows as the ledger has them. At ε = 10 a count is rounded to tens at most."""
    site = start_site(datasets=FIXED)
    with site.guest("anna") as anna, site.guest("carol") as carol:
        release(carol)
        rows = {row[0]: row for row in read_rows(anna.get("/about/clinic").text)}
        answer = known(site.entries()[-1].answer)
    compared = 0
    for released in answer:
        shown, count = rows.get(str(released["column_name"])), released["n"]
        if shown is None or released["value"] is not None:
            continue
        assert isinstance(count, int)
        assert abs(int(shown[1].replace(",", "")) - count) <= 10
        median = released["q2"]
        if isinstance(median, float) and re.fullmatch(r"[\d,]+", shown[5]):
            assert int(shown[5].replace(",", "")) == median
            compared += 1
    assert compared > 0


def test_an_analyst_asks_for_it(start_site: StartSite) -> None:
    site = start_site(datasets=FIXED)
    with site.guest("anna") as anna, site.guest("carol") as carol:
        asked = anna.act("/about/clinic")
        query_id = str(asked.url).rsplit("/", 1)[1]
        assert "/queries/" in str(asked.url)
        decision = carol.act("/accounts/clinic/summary")
        assert str(decision.url).endswith(f"/decide/{query_id}"), "the query that waits is opened, no second one"
        assert "What is in every column" in carol.get(f"/decide/{query_id}").text
        assert "What is in every column" in carol.get("/queue").text
        assert carol.approve(query_id, epsilon="1").status_code == 200
        assert [row[0] for row in read_rows(anna.get("/about/clinic").text)] == COLUMNS


def test_others_may_not(start_site: StartSite) -> None:
    site = start_site(datasets=FIXED)
    with site.guest() as nobody, site.guest("anna") as anna, site.guest("carol") as carol:
        nobody.follow_redirects = False
        assert nobody.get("/about/clinic").status_code == 303
        assert carol.get("/about/clinic").status_code == 403
        assert anna.get("/accounts/clinic/summary").status_code == 403
        assert anna.act("/accounts/clinic/summary").status_code == 403
        assert anna.get("/about/other").status_code == 404
        assert anna.post("/about/clinic", data={}).status_code == 403  # without the session's token
        assert not site.entries()


def test_what_cannot_be_summarised_is_said(start_site: StartSite, tmp_path: Path) -> None:
    """With Gaussian noise nothing is drawn by rank; by a noisy test no ε is found for ranks. Nothing is submitted."""
    facts = "individuals = 3\ncolumns.age = { type = 'integer', bounds = [0, 9] }"
    lines = ["age", "1", "2", "3"]
    gaussian = write_dataset(tmp_path, "noisy", lines, facts, algorithm="fixed", mechanism="gaussian", delta_total=0.1)
    site = start_site(datasets={"noisy": gaussian})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        for page in (anna.act("/about/noisy"), carol.act("/accounts/noisy/summary")):
            assert page.status_code == 422
            assert 'class="problem"' in page.text
        assert "/queries/" not in anna.get("/queries").text


def test_a_hidden_epsilon_stays_hidden(site: Site) -> None:
    """In accounts of algorithm 1 the summary has no errors and no ε."""
    with site.guest("anna") as anna, site.guest("carol") as carol:
        release(carol, "0.05")
        page = anna.get("/about/clinic").text
        assert "How far off the numbers are is withheld" in page
        assert "ε =" not in read_text(page)
        assert "±" not in page


def test_sixty_columns_pass_the_check(start_site: StartSite, tmp_path: Path) -> None:
    """A check's process has as little time and memory as for any query, and nothing loaded by another one."""
    names = [f"c{at}" for at in range(60)]
    facts = "individuals = 3\n" + "\n".join(
        f"columns.{name} = {{ type = 'integer', bounds = [0, 9] }}" for name in names
    )
    served = write_dataset(tmp_path, "wide", [",".join(names), *[",".join("5" * 60)] * 3], facts, algorithm="fixed")
    with start_site(datasets={"wide": served}).guest("anna") as anna:
        asked = anna.act("/about/wide")
        assert "/queries/" in str(asked.url), read_text(asked.text)


def test_only_the_present_schema_s_summary_is_shown(start_site: StartSite, tmp_path: Path) -> None:
    """It is known by its text, which other columns change. Three people are too few to tell anything of."""
    facts = "individuals = 3\ncolumns.age = { type = 'integer', bounds = [0, 9] }"
    served = write_dataset(tmp_path, "small", ["age,b", "1,x", "2,y", "3,x"], facts, algorithm="fixed")
    site = start_site(datasets={"small": served})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        decision = carol.act("/accounts/small/summary")
        carol.approve(str(decision.url).rsplit("/", 1)[1], epsilon="1")
        assert "too few to tell" in read_text(anna.get("/about/small").text)
        schema = site.state.datasets["small"].schema
        wider = replace(schema, columns={**schema.columns, "b": Column("b", ColumnType.TEXT)})
        changed = replace(site.state.datasets["small"], schema=wider)
        assert find_summary(site.state, site.state.datasets["small"]) is not None
        assert find_summary(site.state, changed) is None
