"""An account with a policy budget:E@D on the web: what an approval costs, what is left, why something was denied."""

from __future__ import annotations

from collections.abc import Callable

from dosimeter import Dataset
from dosimeter.ledger import Ledger
from tests.web.web_site import COUNT, Site, clinic_settings, read_text


def test_the_account_page_says_what_is_left_and_why_a_request_was_denied(start_site: Callable[..., Site]) -> None:
    settings = clinic_settings(algorithm="fixed", policy="budget:1@1e-06")
    site = start_site(datasets={"clinic": settings})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        first = anna.ask()
        blind = read_text(carol.get(f"/decide/{first}").text)
        assert "a budget of ε = 1 at δ = 1·10⁻⁶ in all" in blind.replace("\xa0", " ")
        refused = carol.approve(first, "0.5")
        assert refused.status_code == 409
        assert "0 of the budget of 1 is spent; with an answer at ε = 0.5 it would read" in read_text(refused.text)
        assert carol.approve(first, "0.1").status_code == 200
        with (
            Dataset.open(settings.data, schema=settings.schema) as clinic,
            Ledger.open(site.settings.database, create=False) as ledger,
        ):
            assert clinic.release(COUNT, epsilon=0.9, ledger=ledger).status == "denied"
            left = ledger.remaining("clinic")
        assert left is not None
        page = read_text(carol.get("/accounts/clinic").text)
        assert "the budget does not allow it" in page
        for epsilon, count in left.answers.items():
            assert f"{epsilon:g} {count:,} {left.gaussian[epsilon]:,}" in page
        assert "counted as ρ = 0.005 and read as ε at δ = 1·10⁻⁶" in page
        assert "What is spent at other δ" in page
        second = anna.ask("SELECT COUNT(*) FROM clinic WHERE smoker")
        carol.act(f"/decide/{second}/look")
        assert "This account counts ρ = " in read_text(carol.get(f"/decide/{second}").text)
        for path in ("/", "/answers", f"/queries/{first}"):
            seen = anna.get(path).text
            assert "does not allow it" not in seen
            assert "ρ" not in seen
