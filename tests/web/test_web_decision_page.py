"""The decision page: its first screen, where the slider starts, what its lines speak for, and what must be ticked."""

from __future__ import annotations

import math
import re
from itertools import product
from pathlib import Path

import pytest

from dosimeter.web.decision.accuracy import NUMBERS_SHOWN
from tests.known import known
from tests.web.browsing import OpenPage, decide, expect, wait_for_epsilon, wait_for_rest
from tests.web.web_site import Guest, Site, StartSite, clinic_settings, read_text, write_dataset

SMOKERS = "SELECT COUNT(*) FROM clinic WHERE smoker"
NOBODY = "SELECT COUNT(*) FROM clinic WHERE district = 'Seal Island' AND sex = 'Other'"
EQUAL = "SELECT diagnosis, sex, COUNT(*) FROM clinic GROUP BY diagnosis, sex"
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
        "warning": "#part-cautions",
        "question": ".question h1",
        "people touched": "#touches",
        "sentence": "fieldset[data-preset=ratio]",
        "slider": "#slider",
        "ticks": ".scale",
        "picture": "#range",
        "bars of people": "#range thead .bars svg",
        "error axis": "#range thead .dots svg",
        "cost": "#part-cost",
        "verdict": "#part-verdict .headline",
        "approve": "[data-approve]",
        "deny": "text=Deny …",
        "ask for changes": "text=Ask for changes …",
    }
    for name, selector in parts.items():
        box = carol.locator(selector).first.bounding_box()
        assert box is not None, name
        assert box["width"] > 0, name
        assert box["height"] > 0, name
        assert box["x"] >= 0, name
        assert box["y"] >= 0, name
        assert box["x"] + box["width"] <= 1400, name
        assert box["y"] + box["height"] <= 900, name
    assert Axe().run(carol).response["violations"] == []

    carol.click("#range tr[data-index] >> text='0.3'")  # a row of the picture stands for its ε
    wait_for_epsilon(carol, "0.3")
    expect(carol.locator("#range tr.selected th")).to_have_text("0.3")
    carol.click("text=Each of the 30 numbers")
    expect(carol.locator("#numbers tbody tr")).to_have_count(30)
    carol.set_viewport_size({"width": 390, "height": 844})
    carol.evaluate("window.scrollTo(0, 600)")
    bar = known(carol.locator("#decide").bounding_box())
    assert bar["y"] + bar["height"] == pytest.approx(844, abs=1)  # the verdict stays at the bottom
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
    # Every ε meets it: tanh(ε / 2) is at most a quarter up to 0.51.
    ("SELECT COUNT(*) FROM clinic", {}, "0.5"),
    ("SELECT COUNT(*) FROM clinic", {"wanted_error": "100"}, "0.03"),
    # Nobody is in it: the same as for somebody who would be.
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
    words = read_text(page)
    assert "Starts here: the largest ε that the account still allows." in words
    assert "What is spent goes from 0 to 0.04, the whole budget." in words


# ---------------------------------------------------------------- wide and long


def test_candidates_that_differ_in_nothing_are_folded(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask(SMOKERS)
    folded = carol.get(f"/decide/{query_id}").text
    every = carol.get(f"/decide/{query_id}", params={"every": "true"}).text
    rows = {name: len(re.findall(r"data-index=", page)) for name, page in (("some", folded), ("all", every))}
    hidden = [int(number) for number in re.findall(r'for="every">(\d+) (?:larger|smaller) ε', folded)]
    assert rows["all"] == len(site.state.datasets["clinic"].candidates)
    assert rows["some"] + sum(hidden) == rows["all"]  # nobody is lost
    assert rows["some"] < 20
    assert "smaller ε, all meet it" in folded
    assert 'for="every"' not in every


def test_bars_and_dots_are_drawn_to_scale(site: Site, anna: Guest, carol: Guest) -> None:
    """One COUNT: most ÷ least exposed is 1 + ε (R10), so that on a log axis a bar is as long as log(1 + ε)."""
    page = carol.get(f"/decide/{anna.ask(SMOKERS)}", params={"every": "true"}).text
    rows = re.findall(
        r'class="eps">([\d.]+).*?class="bar \w+" x="[\d.]+%" y="[\d.]+" width="([\d.]+)%"'
        r'.*?cx="([\d.]+)%".*?error">± ([\d,.]+)<',
        page,
        flags=re.DOTALL,
    )
    assert len(rows) == len(site.state.datasets["clinic"].candidates)
    length = {float(epsilon): float(width) for epsilon, width, _, _ in rows}
    for epsilon in (5.0, 2.0, 1.0, 0.5):
        assert length[epsilon] / length[10.0] == pytest.approx(math.log1p(epsilon) / math.log1p(10.0), rel=0.01)
    dots = {float(error.replace(",", "")): float(at) for _, _, at, error in rows}
    step = (dots[2996.0] - dots[30.0]) / math.log(2996 / 30)
    assert step > 5
    assert dots[300.0] == pytest.approx(dots[30.0] + step * math.log(10), abs=0.1)


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


# ---------------------------------------------------------------- marks


def test_scale_marks_what_was_found_and_where_the_budget_ends(site: Site, anna: Guest, carol: Guest) -> None:
    page = carol.get(f"/decide/{anna.ask(SMOKERS)}").text
    scale = page.split('id="part-scale"')[1].split("</div>")[0]
    candidates = sorted(site.state.datasets["clinic"].candidates)
    step = 100 / (len(candidates) - 1)
    for word, epsilon in (("found 0.05", 0.05), ("account allows 2", 2.0)):
        found = known(re.search(rf'<text x="([\d.]+)%"[^>]*>{word}<', scale))
        assert float(found[1]) == pytest.approx(candidates.index(epsilon) * step, abs=0.01)
    (left, width), *others = re.findall(r'class="admissible" x="([\d.]+)%" y="0" width="([\d.]+)%"', scale)
    assert others == []
    assert float(left) == 0
    assert float(width) == pytest.approx((candidates.index(0.05) + 0.5) * step, abs=0.01)
    assert scale.count("<line x1=") == len(candidates)


ISLAND = "SELECT diagnosis, COUNT(*) FROM clinic WHERE district = 'Seal Island' GROUP BY diagnosis"


def read_page(guest: Guest, address: str, **fields: str) -> str:
    return read_text(guest.get(address, params=fields).text)


def read_part(page: str, name: str) -> str:
    """The text of one part of the whole page."""
    found = known(re.search(rf'id="part-{name}"[^>]*>(.*?)</section>', page, re.DOTALL))
    return read_text(found[1])


# ---------------------------------------------------------------- what the lines speak for


@pytest.mark.parametrize(
    ("sql", "fields", "epsilon", "advice", "against"),
    [
        # Some 950 smokers, ± 60 at ε = 0.05: 2·e^(−0.05·60)/(1 + e^−0.05) < 0.05.
        (SMOKERS, {}, "0.05", "Nothing here speaks against it. Judge the purpose.", False),
        # ± 5 takes ε = 0.6, by the same formula; the ratio 1/(1 + ε) allows 0.0526.
        (
            SMOKERS,
            {"wanted_error": "5"},
            "0.05",
            "± 5 is wanted, which takes ε = 0.6; the preference allows 0.05 at most. Ask whether a larger error would "
            "do.",
            True,
        ),
        (SMOKERS, {"wanted_error": "100"}, "0.05", "Nothing here speaks against it. Judge the purpose.", False),
        # At ε = 2 the error is ± 1, and half of 1, 1, 1, 2, 2, 4 are no larger: the account's 2 does not help. Without
        # diagnoses 11 ± 6 would do at ε = 0.5, but then the preference would allow no more than 0.0526.
        (ISLAND, {}, "0.5", "It is worth little at every ε that the account still allows. Ask for changes,", True),
        (
            "SELECT COUNT(*) FROM clinic WHERE district = 'Seal Island' AND sex = 'Other'",
            {},
            "0.05",
            "Nobody is in this query: the answer would be noise. Deny it, or ask for changes.",
            True,
        ),
        # Everybody is in it: every ε meets the preference.
        (
            "SELECT COUNT(*) FROM clinic",
            {},
            "0.5",
            "Every ε meets the preference, so it decides nothing about risk: look at the guesses. Judge the purpose.",
            False,
        ),
    ],
)
def test_what_the_lines_speak_for(
    anna: Guest, carol: Guest, sql: str, fields: dict[str, str], epsilon: str, advice: str, against: bool
) -> None:
    page = carol.get(f"/decide/{anna.ask(sql, **fields)}", params={"epsilon": epsilon}).text
    assert advice in read_part(page, "verdict")
    assert ("data-against" in page) is against


def test_few_people_are_no_reason_to_approve(anna: Guest, carol: Guest) -> None:
    """Three people have the disease: ± 5 is as exact as asked, and a preference of 50 % allows it."""
    page = carol.get(f"/decide/{anna.ask(wanted_error='5')}", params={"percent": "50"}).text
    assert read_start(page) == "0.6"
    words = read_part(page, "verdict")
    assert "This question touches only 3 people: whatever it answers is about them. Ask for changes, unless" in words
    assert "data-against" in page
    assert "Answer: The answer is as exact as asked. At ε = 0.6 the analyst would get count ± 5" in read_part(
        page, "cost"
    )


def test_an_epsilon_below_what_the_preference_asks_for_cannot_be_approved(anna: Guest, carol: Guest) -> None:
    """± 60 at ε = 0.05 is more than 50; the advantage tanh(ε/2) is at most 0.2 up to ε = 0.405."""
    query_id = anna.ask(SMOKERS)
    fields = {"preset": "own", "text": "error <= 50 AND MAX(advantage) <= 0.2"}
    below = carol.get(f"/decide/{query_id}", params={**fields, "epsilon": "0.05"}).text
    assert "data-approve" not in below
    assert "Risk: ε = 0.05 does not meet the preference; 0.4 does. It fails by accuracy" in read_part(below, "cost")
    assert "ε = 0.05 does not meet the preference; 0.4 does." in read_part(below, "verdict")
    refused = carol.approve(query_id, "0.05", fields["text"])
    assert refused.status_code == 409
    assert "Answered" in carol.approve(query_id, "0.4", fields["text"]).text


def test_what_fails_by_its_error_does_not_fail_by_risk(anna: Guest, carol: Guest) -> None:
    """tanh(ε/2) is at most 0.25 up to ε = 0.51: at 0.5 only the error fails, which a rank has in rows; at 2 both do."""
    query_id = anna.ask("SELECT MEDIAN(visits) FROM clinic")
    fields = {"preset": "own", "text": "MAX(advantage) <= 0.25 AND relative_error <= 0.5"}
    near, far = (carol.get(f"/decide/{query_id}", params={**fields, "epsilon": each}).text for each in ("0.5", "2"))
    assert "Risk: ε = 0.5 does not meet the preference; no ε does. It fails by accuracy" in read_part(near, "cost")
    assert "An error in rows has no relative error, so no ε meets it." in read_part(near, "cost")
    assert "✗ Risk" not in read_part(near, "cost")
    assert "✗ Risk: ε = 2 does not meet the preference; no ε does. Of 100" in read_part(far, "cost")


def test_a_preference_over_errors_alone_is_no_tick_for_risk(anna: Guest, carol: Guest) -> None:
    query_id = anna.ask(SMOKERS)
    fields = {"preset": "own", "text": "error <= 50"}
    page = carol.get(f"/decide/{query_id}", params={**fields, "epsilon": "1"}).text
    assert "· Risk: The preference does not limit the risk: look at the guesses." in read_part(page, "cost")
    assert "Nothing here speaks against it" not in page
    below = carol.get(f"/decide/{query_id}", params={**fields, "epsilon": "0.05"}).text
    assert "Go to ε&nbsp;=&nbsp;0.06</button>" in below  # ± 50 exactly: the next that meets it, not the largest
    confirm = carol.get(f"/decide/{query_id}/confirm", params={**fields, "epsilon": "2"}).text
    assert "Of little risk" not in confirm
    assert "Meets the preference, and is exact" not in confirm


def test_where_a_larger_epsilon_is_allowed_it_is_named(anna: Guest, carol: Guest) -> None:
    """Diabetes: 370 people. ± 750 at ε = 0.004 and ± 300 at 0.01; 0.05 meets the preference."""
    query_id = anna.ask("SELECT COUNT(*) FROM clinic WHERE diagnosis = 'Diabetes'")
    words = read_part(carol.get(f"/decide/{query_id}", params={"epsilon": "0.004"}).text, "verdict")
    found = known(re.search(r"It is worth something from ε = ([0-9.]+) on, which the preference allows.", words))
    assert 0.004 < float(found[1]) <= 0.01


@pytest.mark.clinic(algorithm="fixed", policy="budget:2")
def test_a_fixed_epsilon_beyond_the_preference_is_spoken_against(anna: Guest, carol: Guest) -> None:
    """Three people have the disease; ε = 2 gives ± 1, and with a fixed ε the preference forbids nothing."""
    query_id = anna.ask()
    carol.act(f"/decide/{query_id}/look")
    weak = carol.get(f"/decide/{query_id}", params={"epsilon": "0.05"}).text
    good = carol.get(f"/decide/{query_id}", params={"epsilon": "2"}).text
    asked = read_page(carol, f"/decide/{query_id}/confirm", epsilon="2")
    assert "It is worth something from ε = 2 on, and the preference allows 0.05 at most." in read_part(weak, "verdict")
    assert (
        "ε = 2 does not meet the preference; 0.05 does. Choose another, or ask for changes. It takes all"
        in read_part(good, "verdict")
    )
    assert "data-against" in weak
    assert "data-against" in good
    assert "the analyst would get count ± 1 (95 %); the number itself is larger; the error is 33 % of it." in asked
    assert "Risk: ε = 2 does not meet the preference; 0.05 does." in asked
    assert "You have looked at the risk of this query" in asked
    assert "Meets the preference, and is exact enough" not in asked  # no reason that the lines contradict


def test_an_epsilon_that_cannot_be_approved_names_the_largest_that_can(site: Site, anna: Guest, carol: Guest) -> None:
    page = carol.get(f"/decide/{anna.ask()}", params={"epsilon": "1"}).text
    words = read_part(page, "verdict")
    assert "ε = 1 cannot be approved" in words
    index = sorted(site.state.datasets["clinic"].candidates).index(0.05)
    assert f'data-index="{index}">Go to ε&nbsp;=&nbsp;0.05</button>' in page


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


def test_an_earlier_answer_is_given_with_a_reason(site: Site, anna: Guest, carol: Guest) -> None:
    first = anna.ask(SMOKERS)
    carol.approve(first)
    with site.guest("bob") as bob:
        second = bob.ask(SMOKERS, purpose="again")
        assert f'href="/decide/{second}/repeat"' in carol.get(f"/decide/{second}").text
        page = read_page(carol, f"/decide/{second}/repeat")
        assert "The analyst, bob, gets the numbers that were released on" in page
        assert "nothing is charged" in page
        assert carol.act(f"/decide/{second}/repeat").status_code == 422  # without a reason
        assert "Give the earlier answer …" in carol.get(f"/decide/{second}").text  # still open
        done = carol.act(f"/decide/{second}/repeat", reason="already out")
        assert "Reason: already out" in read_text(done.text)
        assert "Released: again" in read_text(bob.get(f"/queries/{second}").text)
        assert carol.get(f"/decide/{second}/repeat").status_code == 409
    with site.api("anna") as one, site.api("bob") as two:
        assert one.get(f"/queries/{first}").json()["answer"] == two.get(f"/queries/{second}").json()["answer"]
    assert len(site.entries()) == 1


def test_a_record_says_why(anna: Guest, carol: Guest) -> None:
    query_id = anna.ask(SMOKERS)
    carol.approve(query_id, reason="The yearly report needs it")
    entry = carol.get(f"/decide/{query_id}").text
    found = known(re.search(r"/records/([0-9a-f]+)\?private=true", entry))
    private, shared = (read_page(carol, f"/records/{found[1]}", private=value) for value in ("true", "false"))
    assert "Reason given The yearly report needs it" in private
    assert "The question in words How many people are there with smoker = true?" in private
    assert "The rule in words Answered only if the least exposed person carries at least 95 %" in private
    for text in ("Reason given", "The yearly report", "The rule in words"):
        assert text not in shared, text
