"""Every verdict that a page gives: of many questions, preferences and ε, looked at and blind (E4, E6).

What the page says is compared with what ``Dataset`` finds for the same question, which knows no page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dosimeter import Choice, Dataset
from dosimeter.risk import PRESETS
from tests.web.web_site import Guest, Site, StartSite, clinic_settings, copy_clinic, write_dataset

CAP = 3.0
APPROVING = "Nothing here speaks against it"
PREFERENCES = (
    *PRESETS, "ratio:0.95", "ratio:0.5", "variance:1e-6", "own:0.5", "advantage:0.3,error:20", "error:5",
    "guess:0.2", "posterior:0.05,relative_error:0.5", "MEDIAN(rdr) / MAX(rdr) >= 0.99",
)  # fmt: skip
EPSILONS = (10.0, 5.0, 3.0, 2.0, 1.0, 0.8, 0.5, 0.3, 0.1, 0.05, 0.01, 0.001)
QUERIES = {
    "clinic": (
        "SELECT COUNT(*) FROM clinic WHERE smoker", "SELECT COUNT(*) FROM clinic WHERE diagnosis = 'Wilson disease'",
        "SELECT sex, COUNT(*) FROM clinic GROUP BY sex",
        "SELECT district, diagnosis, COUNT(*) FROM clinic GROUP BY 1, 2",
        "SELECT COUNT(*) FROM clinic WHERE name = 'Yusuf Demir'",
    ),
    "fixed": (
        "SELECT AVG(age) FROM fixed", "SELECT district, AVG(age) FROM fixed GROUP BY district",
        "SELECT MEDIAN(visits) FROM fixed", "SELECT diagnosis, MEDIAN(age) FROM fixed GROUP BY diagnosis",
        "SELECT COUNT(*) FROM fixed", "SELECT COUNT(*) FROM fixed WHERE age > 200",
        "SELECT sex, STDDEV(age) FROM fixed GROUP BY sex",
        "SELECT diagnosis, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS p FROM fixed GROUP BY diagnosis",
        "SELECT sex, COUNT(*) FROM fixed GROUP BY sex HAVING COUNT(*) > 10",
        "SELECT SUM(visits) FROM fixed WHERE smoker",
    ),
    "stays": (
        "SELECT ward, COUNT(*) FROM stays GROUP BY ward", "SELECT AVG(nights) FROM stays",
        "SELECT COUNT(DISTINCT patient) FROM stays", "SELECT ward, MEDIAN(nights) FROM stays GROUP BY ward",
        "SELECT SUM(nights) FROM stays WHERE ward = 'b'",
    ),
}  # fmt: skip
ASKED = [(dataset, sql) for dataset, queries in QUERIES.items() for sql in queries]


@pytest.fixture
def served(start_site: StartSite, tmp_path: Path) -> Iterator[tuple[Site, dict[str, Dataset]]]:
    facts = """individuals = 300
unit = "patient"
max_rows_per_unit = 3
row_key = "stay"
columns.stay = { type = "integer", bounds = [0, 10000] }
columns.patient = { type = "integer", identifying = true }
columns.ward = { type = "category", values = ["a", "b", "c"] }
columns.nights = { type = "integer", bounds = [0, 10] }"""
    lines = ["stay,patient,ward,nights"]
    lines += [f"{at},{at % 300 if at < 900 else at % 97},{'abcd'[at * 7 % 4]},{at * 13 % 17}" for at in range(1400)]
    options: dict[str, Any] = {"policy": "budget:100", "max_epsilon": CAP}
    settings = {
        "clinic": clinic_settings(allow_identifying=True, **options),
        "fixed": copy_clinic(tmp_path, "fixed", algorithm="fixed", **options),
        "stays": write_dataset(tmp_path, "stays", lines, facts, algorithm="fixed", **options),
    }
    site = start_site(datasets=settings)
    opened = {name: Dataset.open(each.data, schema=each.schema) for name, each in settings.items()}
    yield site, opened
    for each in opened.values():
        each.close()


def read_summary(html: str) -> tuple[dict[str, str], str]:
    """Return each line's verdict and words, and what the page advises."""
    found = re.findall(r'<div class="(for|against|open)"><dt>.*?</span> (\w+):</dt> <dd>(.*?)</dd>', html, re.S)
    lines = {name: f"{verdict}: {words}" for verdict, name, words in found}
    advice = re.search(r'<p class="headline"[^>]*>(.*?)</p>', html, re.S)
    return lines, "" if advice is None else advice[1]


def look(carol: Guest, query_id: str, preference: str, epsilon: float | None) -> dict[str, Any]:
    preset = {"preset": preference} if preference in PRESETS else {"preset": "own", "text": preference}
    more = {} if epsilon is None else {"epsilon": f"{epsilon:g}"}
    while True:
        found: dict[str, Any] = carol.get(f"/decide/{query_id}/live", params=preset | more).raise_for_status().json()
        assert not found["problem"], found["problem"]
        if not found["job"]:
            return found


@pytest.mark.parametrize(
    ("preferences", "epsilons"),
    [(PREFERENCES[::5], EPSILONS[2::4]), pytest.param(PREFERENCES, EPSILONS, marks=pytest.mark.long)],
)
def test_the_verdict_follows_from_the_findings_and_the_confirmation_repeats_it(
    served: tuple[Site, dict[str, Dataset]], preferences: tuple[str, ...], epsilons: tuple[float, ...]
) -> None:
    site, opened = served
    seen: set[str] = set()
    with site.guest("anna") as anna, site.guest("carol") as carol:
        carol.act("/settings", standard="balanced", high="90", normal="95", low="97")
        for dataset, sql in ASKED:
            query_id = anna.ask(sql, dataset=dataset)
            if dataset != "clinic":
                check_blind(carol, query_id, epsilons)
                carol.act(f"/decide/{query_id}/look")
            risk = opened[dataset].risk(sql)
            for preference in preferences:
                choice = risk.find(preference, available=allow, hidden=dataset == "clinic")
                check_start(look(carol, query_id, preference, None), choice)
                for epsilon in epsilons:
                    live = look(carol, query_id, preference, epsilon)
                    seen |= check_verdict(live, choice, epsilon, dataset)
                    if epsilon <= CAP and (dataset != "clinic" or epsilon in choice.meeting):
                        check_confirmation(carol, query_id, choice, epsilon, live)
    assert seen == {"for", "open", "against", "approving"}


def allow(given: Sequence[float]) -> list[float]:
    """Return the candidates that the account's cap leaves."""
    return [each for each in given if each <= CAP]


def check_blind(carol: Guest, query_id: str, epsilons: tuple[float, ...]) -> None:
    """Before a look nothing approves, neither on the page nor, whatever ε is chosen, on the confirmation."""
    page = carol.get(f"/decide/{query_id}").text
    chosen = re.search(r'name="epsilon" value="([^"]+)" required checked', page)
    assert chosen is None or float(chosen[1]) <= 0.5, "balanced allows no more, whoever is in the table"
    confirmed = [carol.get(f"/decide/{query_id}/confirm", params={"epsilon": f"{each:g}"}) for each in epsilons]
    assert [each.status_code for each in confirmed] == [200 if each <= CAP else 409 for each in epsilons]
    for text in (page, *(each.text for each in confirmed)):
        assert APPROVING not in text
        assert "✓" not in text


def check_start(live: dict[str, Any], choice: Choice) -> None:
    """The slider starts where the same preference lets the library start, and never above preset, cell or cap."""
    start = choice.start.epsilon
    if start is None:
        assert "No ε is proposed" in live["fragments"]["start"].replace("\xa0", " ")
        return
    assert float(live["selected"]) == start <= CAP
    assert start in choice.meeting
    assert choice.epsilon_cell is not None
    assert start <= choice.epsilon_cell


def check_verdict(live: dict[str, Any], choice: Choice, epsilon: float, dataset: str) -> set[str]:
    lines, advice = read_summary(live["fragments"]["cost"] + live["fragments"]["verdict"])
    given = {name: line.split(":")[0] for name, line in lines.items()}
    verdict, _ = choice.judge(epsilon)
    cautions = live["fragments"]["cautions"].strip()
    assert set(given) >= {"Risk", "Answer"}
    if dataset == "clinic":
        assert given["Risk"] != "for", "under algorithm 1 no limit holds"
        assert "Of 100 guesses" not in lines["Risk"]
    assert given["Risk"] != "against" or not re.search(r"= [\d.]+ meets the preference", lines["Risk"]), lines
    approving = APPROVING in advice
    if approving:
        assert verdict.value == "for"
        assert given["Risk"] == given["Answer"] == "for"
        assert set(given.values()) <= {"for", "open"}
        assert "alarm" not in cautions
    if verdict.value == "against":
        assert not approving
        assert "against" in given.values() or cautions or "cannot be approved" in advice, (lines, advice)
    if "against" in given.values():
        assert not approving
    return {verdict.value, *(["approving"] if approving else [])}


def check_confirmation(carol: Guest, query_id: str, choice: Choice, epsilon: float, live: dict[str, Any]) -> None:
    params = {
        "epsilon": f"{epsilon:g}",
        "preset": "own",
        "text": choice.preference.text,
        "preference": choice.preference.text,
    }
    confirmed = carol.get(f"/decide/{query_id}/confirm", params=params)
    assert confirmed.status_code == 200
    lines, advice = read_summary(confirmed.text)
    there, same = read_summary(live["fragments"]["cost"] + live["fragments"]["verdict"])
    assert lines == there
    assert advice == same
