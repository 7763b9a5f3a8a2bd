"""The decision page: its first screen, where the slider starts, what its lines speak for, and what must be ticked."""

from __future__ import annotations

import math
import re
from itertools import product
from pathlib import Path

import pytest

from dosimeter.web.decision.accuracy import NUMBERS_SHOWN
from dosimeter.web.decision.approve import LONGEST_PREFERENCE
from tests.known import known
from tests.web.browsing import OpenPage, decide, expect, unfold, wait_for_epsilon, wait_for_rest
from tests.web.web_site import COUNT, Guest, Site, StartSite, clinic_settings, read_text, write_dataset

SMOKERS = "SELECT COUNT(*) FROM clinic WHERE smoker"
NOBODY = "SELECT COUNT(*) FROM clinic WHERE district = 'Seal Island' AND sex = 'Other'"
EQUAL = "SELECT diagnosis, sex, COUNT(*) FROM clinic GROUP BY diagnosis, sex"
ISLAND = "SELECT diagnosis, COUNT(*) FROM clinic WHERE district = 'Seal Island' GROUP BY diagnosis"
DIABETES = "SELECT COUNT(*) FROM clinic WHERE diagnosis = 'Diabetes'"
KILOBYTE = 1024
WEIGHTS = "performance.getEntries().map((entry) => entry.encodedBodySize).filter((size) => size > 0)"


def read_start(page: str) -> str:
    found = known(re.search(r'id="epsilon"[^>]* value="([^"]+)"', page))
    return found[1]


# ---------------------------------------------------------------- the first screen


def test_first_screen_holds_what_decides(site: Site, open_page: OpenPage) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with site.guest("anna") as anna:
        query_id = anna.ask(EQUAL, wanted_error="8", priority="high")
    carol = open_page(site, "carol", viewport={"width": 1400, "height": 900}, reduced_motion="reduce")
    decide(carol, query_id)
    wait_for_rest(carol)
    sizes = carol.evaluate(WEIGHTS)
    assert len(sizes) > 4
    assert sum(sizes) < 400 * KILOBYTE  # everything that a browser without a cache loads
    parts = {
        "question": ".question h1",
        "people touched": "#touches",
        "sentence": "fieldset[data-preset=ratio]",
        "slider": "#slider",
        "ticks": ".scale",
        "picture": "#range",
        "bars of people": "#range thead .bars svg",
        "error axis": "#range thead .dots svg",
        "risk": "#part-cost .summary div:nth-child(1)",
        "answer": "#part-cost .summary div:nth-child(2)",
        "cost": "#part-cost .summary div:nth-child(3)",
        "verdict": "#part-verdict .headline",
        "approve": "[data-approve]",
        "deny": "text=Deny …",
        "ask for changes": "text=Ask for changes …",
    }
    for name, selector in parts.items():
        box = known(carol.locator(selector).first.bounding_box())
        assert 0 <= box["x"] < box["x"] + box["width"] <= 1400, name
        assert 0 <= box["y"] < box["y"] + box["height"] <= 900, name
    assert Axe().run(carol).response["violations"] == []

    carol.click("#range tr[data-index] >> text='0.6'")  # a row of the picture stands for its ε
    wait_for_epsilon(carol, "0.6")
    expect(carol.locator("#range tr.selected th")).to_have_text("0.6")
    carol.click("text=Each of the 30 numbers")
    expect(carol.locator("#numbers tbody tr")).to_have_count(30)
    carol.set_viewport_size({"width": 390, "height": 844})
    carol.evaluate("window.scrollTo(0, 600)")
    bar = known(carol.locator("#decide").bounding_box())
    assert bar["y"] + bar["height"] == pytest.approx(844, abs=1)  # the verdict stays at the bottom
    unfold(carol, "grouped")
    carol.select_option("#by", "sex")
    expect(carol.locator("#groups table")).to_be_visible()
    assert carol.evaluate("document.documentElement.scrollWidth") == 390


# ---------------------------------------------------------------- where the slider starts


STARTS: list[tuple[str, dict[str, str], str]] = [
    # One COUNT: the ratio is 1 / (1 + ε) (R10), and ± 3 needs ε = 1, more than was found.
    (SMOKERS, {}, "0.05"),
    (SMOKERS, {"wanted_error": "3"}, "0.05"),
    # Discrete Laplace noise of scale 1 / ε is off by more than m with the chance 2 e^-ε(m + 1) / (1 + e^-ε).
    (SMOKERS, {"wanted_error": "100"}, "0.03"),
    # Every ε meets it, and 5 % of 4,000 are ± 200, by the same formula.
    ("SELECT COUNT(*) FROM clinic", {}, "0.02"),
    ("SELECT COUNT(*) FROM clinic", {"wanted_error": "100"}, "0.03"),
    # Nobody is in it, so that nothing is 5 % of it: tanh(ε / 2) is at most a quarter up to 0.51.
    (NOBODY, {}, "0.5"),
    (NOBODY, {"wanted_error": "100"}, "0.03"),
    # Priority changes nothing by itself.
    (SMOKERS, {"priority": "high"}, "0.05"),
    (SMOKERS, {"priority": "low"}, "0.05"),
]


def test_slider_starts_at_the_smallest_of_what_there_is_to_choose_by(
    start_site: StartSite, anna: Guest, carol: Guest, tmp_path: Path
) -> None:
    for sql, fields, start in STARTS:
        page = carol.get(f"/decide/{anna.ask(sql, **fields)}").text
        assert read_start(page) == start, (sql, fields)
        assert ("data-percent=" in page) == ("priority" in fields)
    capped = start_site(
        database=str(tmp_path / "capped.db"), datasets={"clinic": clinic_settings(max_epsilon=0.02)}, tokens=None
    )
    with capped.guest("anna") as analyst, capped.guest("carol") as controller:
        assert read_start(controller.get(f"/decide/{analyst.ask(SMOKERS)}").text) == "0.02"


@pytest.mark.clinic(policy="budget:0.04")
def test_whole_budget_is_never_taken_silently(anna: Guest, carol: Guest) -> None:
    page = carol.get(f"/decide/{anna.ask(SMOKERS)}").text
    assert read_start(page) == "0.04"
    assert "What is spent goes from 0 to 0.04, the whole budget." in read_text(page)


# ---------------------------------------------------------------- wide and long


def test_candidates_that_differ_in_nothing_are_folded(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask(SMOKERS)
    folded = carol.get(f"/decide/{query_id}").text
    every = carol.get(f"/decide/{query_id}", params={"every": "true"}).text
    rows = {name: len(re.findall(r"data-index=", page)) for name, page in (("some", folded), ("all", every))}
    hidden = [int(number) for number in re.findall(r'for="every">(\d+) more: ', folded)]
    assert rows["all"] == len(site.state.datasets["clinic"].candidates)
    assert rows["some"] + sum(hidden) == rows["all"]  # nobody is lost
    assert rows["some"] < 20
    assert " more: all meet it" in folded
    assert 'for="every"' not in every


def test_bars_dots_and_marks_are_drawn_to_scale(site: Site, anna: Guest, carol: Guest) -> None:
    """One COUNT: most ÷ least exposed is 1 + ε (R10), so that on a log axis a bar is as long as log(1 + ε)."""
    page = carol.get(f"/decide/{anna.ask(SMOKERS)}", params={"every": "true"}).text
    rows = re.findall(
        r'class="eps">([\d.]+).*?class="bar \w+" x="[\d.]+%" y="[\d.]+" width="([\d.]+)%"'
        r'.*?cx="([\d.]+)%".*?error">± ([\d,.]+)<',
        page,
        flags=re.DOTALL,
    )
    candidates = sorted(site.state.datasets["clinic"].candidates)
    assert len(rows) == len(candidates)
    length = {float(epsilon): float(width) for epsilon, width, _, _ in rows}
    for epsilon in (5.0, 2.0, 1.0, 0.5):
        assert length[epsilon] / length[10.0] == pytest.approx(math.log1p(epsilon) / math.log1p(10.0), rel=0.01)
    dots = {float(error.replace(",", "")): float(at) for _, _, at, error in rows}
    step = (dots[2996.0] - dots[30.0]) / math.log(2996 / 30)
    assert step > 5
    assert dots[300.0] == pytest.approx(dots[30.0] + step * math.log(10), abs=0.1)
    scale = page.split('id="part-scale"')[1].split("</div>")[0]
    place = {epsilon: 100 * at / (len(candidates) - 1) for at, epsilon in enumerate(candidates)}
    for mark, epsilon in (("found 0.05", 0.05), ("account allows 2", 2.0)):
        found = known(re.search(rf'<text x="([\d.]+)%"[^>]*>{mark}<', scale))
        assert float(found[1]) == pytest.approx(place[epsilon], abs=0.01)
    ((left, width),) = re.findall(r'class="admissible" x="([\d.]+)%" y="0" width="([\d.]+)%"', scale)
    assert (float(left), float(width)) == (0.0, pytest.approx((place[0.05] + place[0.06]) / 2, abs=0.01))


def test_many_groups_and_columns_stay_small(start_site: StartSite, tmp_path: Path) -> None:
    names = [f"v{place}" for place in range(100)]
    people = [f"{a},{b},{at % 100}" for at, (a, b) in enumerate(product(names[:30], names[:30]))]
    facts = "".join(f'columns.{name} = {{ type = "category", values = {names} }}\n'.replace("'", '"') for name in "ab")
    facts += 'individuals = 900\ncolumns.age = { type = "integer", bounds = [0, 120] }'
    dataset = write_dataset(tmp_path, "big", ["a,b,age", *people], facts, candidates="0.1,1,10")
    site = start_site(datasets={"big": dataset})
    quantiles = ", ".join(f"QUANTILE_CONT(age, 0.{place:03d})" for place in range(1, 201))
    with site.guest("anna") as anna, site.guest("carol") as carol:
        for sql, numbers in (
            ("SELECT a, b, COUNT(*) FROM big GROUP BY a, b", 10_000),
            (f"SELECT {quantiles} FROM big", 200),
        ):
            query_id = anna.ask(sql, dataset="big")
            page = carol.get(f"/decide/{query_id}").text
            assert f"Each of the {numbers:,} numbers" in page
            step = carol.get(f"/decide/{query_id}/live", params={"epsilon": "1"})
            assert max(len(page), len(step.content)) < 200 * KILOBYTE
            for start, rows in ((0, NUMBERS_SHOWN), (numbers - 1, 1)):
                part = carol.get(f"/decide/{query_id}/numbers", params={"epsilon": "1", "start": str(start)}).text
                assert part.count("<tr>") == rows + 1
                assert len(part) < 50 * KILOBYTE


def test_each_number_is_listed_with_the_range_it_will_lie_in(anna: Guest, carol: Guest) -> None:
    """ε = 0.5, counts of one person each: discrete Laplace noise of scale 2 is off by at most 6 with 95 %."""
    query_id = anna.ask("SELECT sex, COUNT(*) FROM clinic GROUP BY sex")
    words = read_text(carol.get(f"/decide/{query_id}/numbers", params={"epsilon": "0.5"}).text)
    rows = Path(str(clinic_settings().data)).read_text().splitlines()
    place = rows[0].split(",").index("sex")
    for sex in ("Female", "Male", "Other"):
        exact = sum(row.split(",")[place] == sex for row in rows[1:])
        assert f"{sex} count {exact:,} {exact - 6:,} to {exact + 6:,}" in words.replace("−", "-")


def read_page(guest: Guest, address: str, **fields: str) -> str:
    return read_text(guest.get(address, params=fields).text)


def read_part(page: str, name: str) -> str:
    """The text of one part of the whole page."""
    found = known(re.search(rf'id="part-{name}"[^>]*>(.*?)</section>', page, re.DOTALL))
    return read_text(found[1])


# ---------------------------------------------------------------- what the lines speak for


def test_a_preference_that_is_long_once_written_out_is_refused(anna: Guest, carol: Guest) -> None:
    fields = {"preset": "own", "text": ",".join(f"error:{at}" for at in range(100, 290)), "epsilon": "0.05"}
    assert len(fields["text"]) < LONGEST_PREFERENCE
    query_id = anna.ask()
    carol.get(f"/decide/{query_id}")
    assert "3,000 letters" in carol.get(f"/decide/{query_id}/live", params=fields).text
    assert carol.get(f"/decide/{query_id}/confirm", params=fields).status_code == 422


OVER_ERRORS = {"preset": "own", "text": "error <= 50"}
FOR_A_RANK = {"preset": "own", "text": "MAX(advantage) <= 0.25 AND relative_error <= 0.5"}
A_GUESS = {"preset": "own", "text": "guess:0.2, posterior:0.02"}
MEDIAN = "SELECT MEDIAN(visits) FROM clinic"


@pytest.mark.parametrize(
    ("sql", "wanted", "fields", "risk", "told", "against"),
    [
        # Some 950 smokers, ± 60 at ε = 0.05: 2·e^(−0.05·60)/(1 + e^−0.05) < 0.05.
        (SMOKERS, "", {"epsilon": "0.05"}, "·", "no limit on what an attacker learns holds", False),
        (
            SMOKERS,
            "100",
            {"epsilon": "0.05"},
            "·",
            "no limit on what an attacker learns holds",
            False,
        ),
        # ± 5 takes ε = 0.6, by the same formula; the ratio 1/(1 + ε) allows 0.0526.
        (SMOKERS, "5", {"epsilon": "0.05"}, "·", "takes ε = 0.6; the preference allows 0.05", True),
        # At ε = 2 the error is ± 1, and half of 1, 1, 1, 2, 2, 4 are no larger: the account's 2 does not help. Without
        # diagnoses 11 ± 6 would do at ε = 0.5, but then the preference would allow no more than 0.0526.
        (ISLAND, "", {"epsilon": "0.5"}, "✗", "worth little at every ε", True),
        (NOBODY, "", {"epsilon": "0.05"}, "✗", "Nobody is in this query", True),
        # Everybody is in it: every ε meets the preference.
        ("SELECT COUNT(*) FROM clinic", "", {"epsilon": "0.5"}, "·", "Every ε meets the preference", False),
        # Three people have the disease: ± 5 is as exact as asked, and a preference of 50 % allows it.
        (COUNT, "5", {"percent": "50"}, "✗", "touches only 3 people", True),
        (COUNT, "", {"epsilon": "1"}, "✗", "ε = 1 cannot be approved", False),
        # Diabetes: 370 people. ± 374 at ε = 0.008 and ± 332 at 0.009; 0.05 meets the preference.
        (DIABETES, "", {"epsilon": "0.004"}, "·", "from ε = 0.009 on, which the preference allows", True),
        # tanh(ε/2) is at most 0.25 up to ε = 0.51. A rank's error is judged by the range of its column.
        (MEDIAN, "", FOR_A_RANK | {"epsilon": "0.5"}, "·", "ε = 0.5 meets the preference", False),
        (MEDIAN, "", FOR_A_RANK | {"epsilon": "2"}, "✗", "0.5 does", False),
        # 0.1·e^ε is at most 0.2 up to ε = 0.69, and 1 % becomes 2 % at ε = ln(99/49) = 0.703.
        (SMOKERS, "", A_GUESS | {"epsilon": "0.6"}, "·", "ε = 0.6 meets the preference", False),
        (SMOKERS, "", A_GUESS | {"epsilon": "0.7"}, "✗", "ε = 0.7 does not meet the preference; 0.6 does", False),
        # A preference over errors alone is no tick for risk. ± 50 exactly at ε = 0.06: the next that meets it.
        (SMOKERS, "", OVER_ERRORS | {"epsilon": "1"}, "·", "does not limit the risk", False),
        (SMOKERS, "", OVER_ERRORS | {"epsilon": "0.05"}, "✗", "Go to ε = 0.06", False),
    ],
)
def test_what_the_lines_speak_for(
    anna: Guest, carol: Guest, sql: str, wanted: str, fields: dict[str, str], risk: str, told: str, against: bool
) -> None:
    """``risk``: the mark before what is said of it. ``against``: whether an approval is spoken against."""
    page = carol.get(f"/decide/{anna.ask(sql, wanted_error=wanted)}", params=fields).text
    lines = read_part(page, "cost")
    assert f"{risk} Risk: " in lines
    assert told in lines
    assert ("data-against" in page) is against


def test_an_epsilon_below_what_the_preference_asks_for_cannot_be_approved(anna: Guest, carol: Guest) -> None:
    """± 60 at ε = 0.05 is more than 50; the advantage tanh(ε/2) is at most 0.2 up to ε = 0.405."""
    query_id = anna.ask(SMOKERS)
    fields = {"preset": "own", "text": "error <= 50 AND MAX(advantage) <= 0.2"}
    below = carol.get(f"/decide/{query_id}", params={**fields, "epsilon": "0.05"}).text
    assert "data-approve" not in below
    assert "ε = 0.05 does not meet the preference; 0.4 does." in read_part(below, "cost")
    assert carol.approve(query_id, "0.05", fields["text"]).status_code == 409
    assert "Answered" in carol.approve(query_id, "0.4", fields["text"]).text


@pytest.mark.clinic(algorithm="fixed", policy="budget:2")
def test_a_fixed_epsilon_beyond_the_preference_is_spoken_against(anna: Guest, carol: Guest) -> None:
    """Three people have the disease; ε = 2 gives ± 1, and with a fixed ε the preference forbids nothing."""
    query_id = anna.ask()
    carol.act(f"/decide/{query_id}/look")
    weak, good = (carol.get(f"/decide/{query_id}", params={"epsilon": each}).text for each in ("0.05", "2"))
    asked = read_page(carol, f"/decide/{query_id}/confirm", epsilon="2")
    assert "from ε = 2 on, and the preference allows 0.05 at most" in read_part(weak, "cost")
    assert "ε = 2 does not meet the preference; 0.05 does." in read_part(good, "cost")
    assert weak.count("data-against") == good.count("data-against") == 1
    assert "count ± 1 (95 %); the number itself is larger; the error is 33 % of it." in asked
    assert "Risk: This question touches only 3 people: whatever it answers is about them. ε = 2 does not" in asked
    assert "You have looked at the risk of this query" in asked
    assert "Meets the preference, and is exact enough" not in asked  # no reason that the lines contradict


# ---------------------------------------------------------------- what has to be said


def test_a_looser_preference_must_be_meant(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask(SMOKERS)
    confirm = carol.get(f"/decide/{query_id}/confirm", params={"percent": "90", "epsilon": "0.1"}).text
    assert '<input type="checkbox" name="looser" value="true" required>' in confirm
    asked = carol.approve(query_id, "0.1", "ratio:0.9", looser="")
    assert "Approve at ε" in asked.text
    assert site.state.account("clinic") is None  # nothing was charged
    usual = carol.get(f"/decide/{query_id}/confirm", params={"percent": "95", "epsilon": "0.05"}).text
    assert 'name="looser"' not in usual
    assert "Answered" in carol.approve(query_id, "0.1", "ratio:0.9", looser="true").text


def test_an_earlier_answer_is_given_with_a_reason(site: Site, bob: Guest, anna: Guest, carol: Guest) -> None:
    first = anna.ask(SMOKERS)
    carol.approve(first)
    second = bob.ask(SMOKERS, purpose="again")
    assert f'href="/decide/{second}/repeat"' in carol.get(f"/decide/{second}").text
    assert "nothing is charged" in read_page(carol, f"/decide/{second}/repeat")
    assert carol.act(f"/decide/{second}/repeat").status_code == 422  # without a reason
    done = carol.act(f"/decide/{second}/repeat", reason="already out")
    assert "Reason: already out" in read_text(done.text)
    assert "Released: again" in read_text(bob.get(f"/queries/{second}").text)
    assert carol.get(f"/decide/{second}/repeat").status_code == 409
    with site.api("anna") as one, site.api("bob") as two:
        assert one.get(f"/queries/{first}").json()["answer"] == two.get(f"/queries/{second}").json()["answer"]
    assert len(site.entries()) == 1


# ---------------------------------------------------------------- two worlds


def test_two_worlds_follow_the_slider(site: Site, open_page: OpenPage) -> None:
    """A count at ε with Laplace noise of scale 1/ε: the exact number is e^ε times as likely with the person."""
    with site.guest("anna") as anna:
        query_id = anna.ask(SMOKERS)
    carol = open_page(site, "carol")
    decide(carol, query_id)
    expect(carol.locator("#worlds")).to_be_hidden()
    carol.click("details.two-worlds > summary")
    expect(carol.locator("#worlds svg.chart")).to_be_visible()
    for epsilon, times in (("0.5", "1.65"), ("1", "2.72")):
        carol.fill("#epsilon", epsilon)
        wait_for_epsilon(carol, epsilon)
        told = f"If 741 is released for count, it is {times} times as likely with the most exposed person as without."
        expect(carol.locator("#part-worlds .tail")).to_have_text(told)
        expect(carol.locator("#worlds svg.chart")).to_be_visible()  # it stays open
    expect(carol.locator("#worlds")).to_contain_text("with them: 741")
    carol.click("#part-worlds summary")
    row = carol.locator("#part-worlds tbody tr").filter(
        has=carol.locator("td:first-child", has_text=re.compile("^741$"))
    )
    chance = math.tanh(0.5)  # (1 − q) / (1 + q) with q = e^(−1)
    expect(row.locator("td").nth(1)).to_have_text(f"{100 * chance:.2f} %")
    expect(row.locator("td").nth(2)).to_have_text(f"{100 * chance / math.e:.2f} %")


@pytest.mark.clinic(algorithm="fixed")
def test_two_worlds_are_for_a_controller_who_looks(anna: Guest, carol: Guest) -> None:
    query_id = anna.ask(SMOKERS)
    assert "worlds" not in carol.get(f"/decide/{query_id}").text
    carol.act(f"/decide/{query_id}/look")
    page = carol.get(f"/decide/{query_id}", params={"epsilon": "1"}).text
    assert "If 741 is released for count, it is 2.72 times as likely" in read_text(page)
    assert page.count('id="part-worlds"') == 1
    for path in (f"/decide/{query_id}", f"/decide/{query_id}/live", f"/queries/{query_id}"):
        assert "times as likely" not in anna.get(path).text


def test_two_worlds_of_a_query_that_nobody_moves(anna: Guest, carol: Guest) -> None:
    page = carol.get(f"/decide/{anna.ask(NOBODY)}").text
    assert "Leaving anybody out changes no number of this answer: both worlds are the same." in read_text(page)
    assert 'id="worlds"' not in page
