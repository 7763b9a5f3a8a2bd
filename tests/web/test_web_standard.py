"""The decision page in its defaults: how much it says at once, what is always in sight, and where it starts."""

from __future__ import annotations

import json
import math
import random
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

from dosimeter.planning import expect_share
from dosimeter.risk import PRESETS
from dosimeter.schema import Schema
from dosimeter.web.decision.form import Named, word_closeness
from dosimeter.web.query_planner import QueryPlanner
from dosimeter.web.store import OWN
from dosimeter.web.store.queries import STANDARDS
from tests.known import known
from tests.web.browsing import OpenPage, expect, find_barriers, wait_for_decision, wait_for_rest
from tests.web.web_site import Guest, Site, StartSite, clinic_settings, copy_clinic, read_text, write_dataset

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize

MOST_WORDS = 340
COUNT_WORDS = r"""() => {
  const unseen = ".hidden, [aria-hidden=true], option:not(:checked)"; // not seen, or in a picture, or not chosen
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  let words = 0;
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (element.closest(unseen) || !element.checkVisibility()) continue;
    words += texts.currentNode.data.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
  }
  return words;
}"""
HIDDEN = """(elements) => elements.filter((element) => {
  const box = element.getBoundingClientRect();
  const above = document.elementFromPoint(box.x + box.width / 2, box.bottom - 3);
  return box.height < 10 || box.top < 0 || box.bottom > innerHeight || !element.contains(above);
}).map((element) => element.innerText)"""
CUT_OFF = "(lines) => lines.filter((line) => line.scrollHeight > line.clientHeight + 2).map((line) => line.innerText)"
SCREENS: list[ViewportSize] = [
    {"width": 1366, "height": 700},
    {"width": 1400, "height": 900},
    {"width": 390, "height": 844},
]
QUERIES = {
    "count": ("clinic", "SELECT COUNT(*) FROM clinic WHERE smoker"),
    "average": ("clinic", "SELECT district, AVG(age) FROM clinic GROUP BY district"),
    "median": ("clinic", "SELECT MEDIAN(visits) FROM clinic"),
    "rows cut": ("stays", "SELECT ward, COUNT(*) FROM stays GROUP BY ward"),
    "thresholded": ("stays", "SELECT doctor, COUNT(*) FROM stays GROUP BY doctor"),
    "noisy test": ("noisy", "SELECT sex, COUNT(*) FROM noisy GROUP BY sex"),
}
SMOKERS = "SELECT COUNT(*) FROM {} WHERE smoker"
DEFAULTS = {"high": "90", "normal": "95", "low": "97"}


@pytest.fixture
def three(start_site: StartSite, tmp_path: Path) -> Site:
    """A server whose controller carol uses ``balanced``; ε is found, fixed, or found by a noisy test."""
    draw, wards = random.Random(1), ["Cardiology", "Surgery", "Neurology", "Oncology"]
    lines = ["stay,patient,ward,doctor"]
    for patient in range(2_000):
        for _ in range(draw.choice([1, 1, 2, 3, 5])):
            lines.append(f"{len(lines)},{patient},{draw.choice(wards)},Dr {min(40, int(draw.expovariate(0.1)))}")
    facts = f"""individuals = 2000
unit = "patient"
max_rows_per_unit = 2
row_key = "stay"
columns.stay = {{ type = "integer", bounds = [0, 100000], identifying = true }}
columns.patient = {{ type = "integer", bounds = [0, 100000], identifying = true }}
columns.ward = {{ type = "category", values = {json.dumps(wards)} }}
columns.doctor = {{ type = "text" }}"""
    site = start_site(
        datasets={
            "clinic": clinic_settings(policy="budget:3"),
            "stays": write_dataset(
                tmp_path,
                "stays",
                lines,
                facts,
                policy="budget:3",
                algorithm="fixed",
                group_delta=1e-6,
                delta_total=1e-4,
            ),
            "noisy": copy_clinic(tmp_path, "noisy", policy="budget:4", algorithm="find-and-release"),
        }
    )
    with site.guest("carol") as carol:
        assert carol.act("/settings", standard="balanced", **DEFAULTS).status_code == 200
    return site


@pytest.mark.parametrize("name", QUERIES)
def test_page_says_little_at_once_and_keeps_the_verdict_in_sight(three: Site, open_page: OpenPage, name: str) -> None:
    dataset, sql = QUERIES[name]
    with three.guest("anna") as anna, three.guest("carol") as guest:
        query_id = anna.ask(sql, dataset=dataset, purpose="Yearly report on care")
        guest.act(f"/decide/{query_id}/look")
    carol = open_page(three, "carol", viewport=SCREENS[0], reduced_motion="reduce")
    for size in SCREENS:
        carol.set_viewport_size(size)
        carol.goto(f"/decide/{query_id}")
        wait_for_decision(carol)
        wait_for_rest(carol)
        lines = carol.locator("#decide .summary > div")
        expect(lines).to_have_count(3)
        assert lines.evaluate_all(CUT_OFF) == [], size
        slider = carol.locator("#slider")
        for part in (lines, slider, carol.locator("#decide .headline"), carol.locator("#decide :is(button, .button)")):
            assert part.evaluate_all(HIDDEN) == [], size
        if size is SCREENS[0]:
            assert 150 < carol.evaluate(COUNT_WORDS) <= MOST_WORDS
    assert not find_barriers(carol)


def test_confirmation_repeats_the_verdict_word_for_word(three: Site) -> None:
    """And where ε is found from the data, risk gets no tick, neither there nor here."""
    with three.guest("anna") as anna, three.guest("carol") as carol:
        for name, (dataset, sql) in QUERIES.items():
            query_id = anna.ask(sql, dataset=dataset)
            carol.act(f"/decide/{query_id}/look")
            fields = {"preset": "ratio", "percent": "50", "epsilon": "0.01"}
            pages = [carol.get(f"/decide/{query_id}{path}", params=fields).text for path in ("", "/confirm")]
            said = [re.findall(r'<dl class="summary">.*?</dl>', page, re.DOTALL) for page in pages]
            advice = [read_text(known(re.search(r'class="headline"[^>]*>(.*?)</p>', page))[1]) for page in pages]
            assert len(said[0]) == 1, name
            assert [read_text(each) for each in said[0]] == [read_text(each) for each in said[1]], name
            assert advice[0] == advice[1], name
            if dataset == "clinic":
                assert "✓ Risk" not in read_text(pages[0]) + read_text(pages[1])


# ---------------------------------------------------------------- settings


def test_settings_choose_what_pages_start_with(three: Site) -> None:
    assert set(STANDARDS) == {*PRESETS, OWN} == {*get_args(Named), OWN}
    with three.guest("anna") as anna, three.guest("carol") as carol, three.guest("conrad") as conrad:
        query_id = anna.ask(SMOKERS.format("clinic"))
        starts = {}
        for standard in ("cautious", "balanced", "own"):
            carol.act("/settings", standard=standard, **DEFAULTS)
            assert re.search(f'value="{standard}" checked', carol.get("/settings").text)
            page = carol.get(f"/decide/{query_id}").text
            starts[standard] = float(known(re.search(r'id="epsilon"[^>]* value="([^"]+)"', page))[1])
            assert f'value="{"ratio" if standard == "own" else standard}" selected' in page
        # 741 smokers: 5 % are ± 37, which takes ε = 0.08 (2·e^(−0.08·38)/(1 + e^−0.08) < 0.05); 95 % allow 0.05.
        assert [2 * math.exp(-e * 38) / (1 + math.exp(-e)) < 0.05 for e in (0.08, 0.07)] == [True, False]
        assert starts == {"cautious": 0.08, "balanced": 0.08, "own": 0.05}
        assert 'value="ratio" selected' in conrad.get(f"/decide/{query_id}").text  # they are carol's alone
        assert carol.act("/settings", standard="reckless", **DEFAULTS).status_code == 422


def test_only_a_preference_on_the_same_scale_is_called_looser(three: Site) -> None:
    """Own standard and preference: a ratio is compared with a ratio, a preset with a preset, a condition by its ε."""
    with three.guest("anna") as anna, three.guest("carol") as carol:
        query_id = anna.ask(SMOKERS.format("clinic"))

        def is_looser(standard: str, **fields: str) -> bool:
            carol.act("/settings", standard=standard, **DEFAULTS)
            page = carol.get(f"/decide/{query_id}/confirm", params=fields | {"epsilon": "0.03"})
            assert page.status_code == 200
            return 'name="looser"' in page.text

        assert not is_looser("own", preset="cautious")  # which allows ε = 0.2, and 95 % no more than 0.05
        assert not is_looser("own", preset="ratio", percent="96")
        assert is_looser("own", preset="ratio", percent="80")
        assert is_looser("own", preset="own", text="MAX(rdr) < 1e9")
        assert not is_looser("balanced", preset="cautious")
        assert is_looser("balanced", preset="exploratory")
        assert not is_looser("balanced", preset="ratio", percent="50")


# ---------------------------------------------------------------- before anybody looked


@pytest.mark.clinic(algorithm="fixed", policy="budget:3")
def test_blind_page_starts_below_the_own_standard_and_folds_small_epsilons(site: Site, open_page: OpenPage) -> None:
    """Of one COUNT the schema alone tells that 95 % allow 0.05 (1/(1 + ε)), and ``balanced`` 0.5 (tanh(ε/2) ≤ 0.25)."""
    with site.guest("anna") as anna, site.guest("carol") as carol:
        query_id = anna.ask(SMOKERS.format("clinic"), wanted_error="5")  # which takes 0.6
        for standard, limit in (("own", "0.05"), ("balanced", "0.5")):
            carol.act("/settings", standard=standard, **DEFAULTS)
            page = carol.get(f"/decide/{query_id}").text
            assert re.findall(r'value="([^"]+)" required checked', page) == [limit]
            assert f"allows ε = {limit} at most, whatever the data." in read_text(page)
        carol.act("/settings", standard="balanced", **DEFAULTS)
    opened = open_page(site, "carol")
    opened.goto(f"/decide/{query_id}")
    rows = opened.locator("table.choices tbody tr")
    candidates = site.state.datasets["clinic"].candidates
    smaller, larger = sum(epsilon < 0.1 for epsilon in candidates), sum(0.5 < epsilon <= 3.0 for epsilon in candidates)
    expect(opened.get_by_text(f"{smaller} smaller ε")).to_be_visible()
    expect(opened.get_by_text(f"{larger} larger ε, beyond your preference")).to_be_visible()
    shown = rows.locator("visible=true")
    expect(shown).to_have_count(rows.count() - smaller - larger)
    opened.get_by_text(f"{smaller} smaller ε").click()
    expect(rows.last).to_be_visible()


@pytest.mark.clinic(algorithm="find-and-release", policy="budget:4", variance=0.01)
def test_noisy_test_is_judged_by_the_own_standard(site: Site) -> None:
    """Of 741 smokers of 4,000, variance is at most 0.01 up to ε = 0.3; *cautious* admits 0.2, and 95 % allow 0.05."""
    spread = 741 / 4_000 * (1 - 741 / 4_000)
    assert [spread / (1 + 1 / epsilon) ** 2 <= 0.01 for epsilon in (0.3, 0.4)] == [True, False]
    assert [math.tanh(epsilon / 2) <= 0.1 for epsilon in (0.2, 0.3)] == [True, False]
    told = {
        "balanced": "",
        "cautious": "cautious, allows ε = 0.2",
        "own": "least ÷ most exposed, allows ε = 0.05",
    }
    with site.guest("anna") as anna, site.guest("carol") as carol:
        query_id = anna.ask(SMOKERS.format("clinic"))
        carol.act(f"/decide/{query_id}/look")
        for standard, words in told.items():
            carol.act("/settings", standard=standard, **DEFAULTS)
            page = read_text(carol.get(f"/decide/{query_id}").text)
            assert "The noisy test likely finds ε = 0.3" in page
            assert ("Your own standard" in page) == bool(words)
            assert not words or f"Your own standard, {words} at most." in page
            assert ("✗ Risk" in page) == bool(words)


SHARES = {
    "smoker": Fraction(1, 2),
    "NOT smoker AND sex = 'Female'": Fraction(1, 6),
    "district IN ('Harbour', 'Old Town') AND sex <> 'Other'": Fraction(2, 9),
    "age > 60": None,
    "smoker AND name LIKE 'A%'": None,
    "sex = 'Female' OR smoker": None,
}


@pytest.mark.parametrize(("where", "share"), SHARES.items())
def test_how_many_meet_a_condition_is_expected_of_declared_values_alone(where: str, share: Fraction | None) -> None:
    """The clinic declares 3 sexes and 6 districts."""
    settings = clinic_settings(algorithm="fixed", allow_identifying=True)
    planner = QueryPlanner(settings, Schema.load(settings.schema))
    prepared = planner.plan_anew(f"SELECT COUNT(*) FROM clinic WHERE {where}")
    assert expect_share(prepared.plan.where, planner.schema) == share


@pytest.mark.clinic(algorithm="fixed", policy="budget:3", max_epsilon=1.0)
def test_blind_start_follows_from_how_many_are_expected(anna: Guest, carol: Guest) -> None:
    """Noise of scale 1/ε is off by some 3/ε; at ε = 1 and 2 by 3 and 1."""
    carol.act("/settings", standard="balanced", **DEFAULTS)
    asked: dict[str, tuple[dict[str, str], str | None]] = {
        "sex = 'Male' AND district <> 'Harbour' AND smoker": ({}, "0.2"),  # 5/36 of 4,000 are 556: ± 28 at most
        "age > 60": ({}, None),
        "age < 60": ({"wanted_error": "30"}, "0.1"),
        "age < 50": ({"wanted_error": "1.5"}, "0.5"),
    }
    pages = {}
    for where, (fields, start) in asked.items():
        query_id = anna.ask(f"SELECT COUNT(*) FROM clinic WHERE {where}", **fields)
        pages[where] = read_text(carol.get(f"/decide/{query_id}").text)
        chosen = re.findall(r'value="([^"]+)" required checked', carol.get(f"/decide/{query_id}").text)
        assert chosen == ([] if start is None else [start]), where
    assert "No ε is selected: the schema does not tell how many people" in pages["age > 60"]
    assert "± 1.5 is wanted, which takes ε = 2; the account does not allow it." in pages["age < 50"]
    assert sum("is wanted" in page for page in pages.values()) == 1


def test_noisy_test_is_described_before_and_after_a_look(three: Site) -> None:
    with three.guest("anna") as anna, three.guest("carol") as carol:
        query_id = anna.ask(SMOKERS.format("noisy"), dataset="noisy")
        blind = read_text(carol.get(f"/decide/{query_id}").text)
        assert "people’s risks lie within about 1 % of each other" in blind
        assert "It costs ε = 0.4" in blind
        assert "0.5 ± 6" in blind  # discrete Laplace noise of scale 2 is off by at most 6 with 95 %
        sure = 100.0 / (1.0 + 99.0 * math.exp(-0.9))  # 1 % grows by e^0.9: 0.5, and 0.4 for the test
        assert sure < 2.5 < 1.1 * sure
        assert "0.5 ± 6 2.5 % 0.9" in blind
        carol.act(f"/decide/{query_id}/look")
        seen = read_text(carol.get(f"/decide/{query_id}").text)
        assert "It costs ε = 0.4" in seen
        # The variance of 741 ones among 4,000 zeros, over (1 + 1/ε)², is at most 1e-5 up to ε = 0.008.
        spread = 741 / 4_000 * (1 - 741 / 4_000)
        assert [spread / (1 + 1 / epsilon) ** 2 <= 1e-5 for epsilon in (0.008, 0.009)] == [True, False]
        assert "The noisy test likely finds ε = 0.008" in seen
        confirm = carol.get(f"/decide/{query_id}/confirm").text
        assert 'name="confirmed" value="0.4"' in confirm
        fields = {"preference": "", "reason": "agreed", "looser": "true"}
        asked = carol.act(f"/decide/{query_id}/approve", confirmed="1", **fields)
        assert "Approve, and let the test find ε?" in asked.text  # another cost than the one that is asked for now
        carol.act(f"/decide/{query_id}/approve", confirmed="0.4", **fields)
    (entry,) = three.entries("noisy")
    assert float(known(entry.epsilon_svt)) == 0.4


def test_default_cost_of_the_test_is_a_tenth_of_what_is_left() -> None:
    given = clinic_settings(algorithm="find-and-release", policy="budget:4")
    planner = QueryPlanner(given, Schema.load(given.schema))
    for left, cost in (("4", 0.4), ("3.9", 0.3), ("1", 0.1), ("0.37", 0.03), ("0", 0.001), (None, 0.1)):
        assert planner.find_test_cost(None if left is None else Decimal(left)) == cost
    fixed = QueryPlanner(clinic_settings(algorithm="find-and-release", svt=0.25), planner.schema)
    assert fixed.find_test_cost(Decimal(3)) == 0.25


def test_threshold_in_words_holds_for_eight_of_nine_people() -> None:
    """Chebyshev: at least 1 − 1/3² of all lie within three standard deviations of their mean."""
    for variance, words in ((1e-5, "1 %"), (0.01, "30 %"), (1e-8, "0.03 %")):
        assert f"about {words} of each other" in word_closeness(variance)
        assert float(words.split()[0]) >= 300 * math.sqrt(variance) * (1 - 1e-9)
