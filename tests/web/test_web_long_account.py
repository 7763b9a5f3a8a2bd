"""An account with many entries: its page stays small, lists them in parts, and draws all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from html import unescape
from pathlib import Path

import pytest

from dosimeter.errors import LedgerError
from dosimeter.ledger import Charge, Ledger, Reservation
from tests.known import known
from tests.ledger.long_ledgers import grow_ledger
from tests.ledger.raw_records import alter
from tests.web.web_site import Site, StartSite, clinic_settings, make_settings, read_text

ENTRIES = 1_000
pytestmark = pytest.mark.xdist_group("long account")  # which takes longer to grow than to look at


def grow(site: Site, entries: int = ENTRIES) -> None:
    """Release one answer as people do, then many more of the kind."""
    with site.guest("anna") as anna, site.guest("carol") as carol:
        carol.approve(anna.ask(), "0.5")
    with Ledger.open(site.settings.database) as ledger:
        account = known(ledger.account("clinic"))
        grow_ledger(ledger, "clinic", account.entries[0].request, entries - 1)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory, prepared_database: tuple[Path, dict[str, str]]) -> Iterator[Site]:
    database = tmp_path_factory.mktemp("long") / "site.db"
    database.write_bytes(prepared_database[0].read_bytes())
    datasets = {"clinic": clinic_settings(algorithm="fixed", policy="budget:50")}
    site = Site.start(make_settings(str(database), datasets), prepared_database[1])
    grow(site)
    yield site
    site.stop()


def read_steps(page: str) -> list[tuple[int, float]]:
    """The steps that are drawn: which entry each is, and what was spent after it."""
    found = re.findall(r"<title>Entry (\d+), \S+Z: ([\d.]+) spent afterwards</title>", page)
    return [(int(place), float(reading)) for place, reading in found]


def test_the_page_stays_small_and_leads_to_all_entries(long: Site) -> None:
    with long.guest("carol") as carol:
        page = carol.get("/accounts/clinic")
        assert page.status_code == 200
        assert len(page.content) < 200_000
        assert ">budget 50</text>" in page.text
        seen, text = list_queries(page.text), page.text
        while older := re.search(r'href="\?before=(\w+)"', text):
            text = carol.get(f"/accounts/clinic?before={older[1]}").text
            found = list_queries(text)
            assert 0 < len(found) <= 50
            seen = found + seen
        assert len(seen) == ENTRIES
        assert seen[1:] == [f"SELECT COUNT(*) AS n FROM visits WHERE x < {number}" for number in range(ENTRIES - 1)]
        assert f"{ENTRIES:,}" in read_text(carol.get("/accounts").text)
        for path in ("/accounts/clinic?axis=time", "/accounts", "/queue", "/audit"):
            assert len(carol.get(path).content) < 200_000, path
    with long.guest("anna") as anna:
        assert len(anna.get("/answers").content) < 200_000


@pytest.mark.clinic(algorithm="fixed", policy="budget:50")
def test_an_entry_that_is_settled_later_is_read_again(site: Site) -> None:
    """The number of entries stays the same when one that was open is settled."""
    grow(site, 2)
    with Ledger.open(site.settings.database) as ledger:
        account = known(ledger.account("clinic"))
        request = replace(account.entries[0].request, request_digest="another")
        entry = ledger.reserve("clinic", lambda _: Reservation(request=request, charge=Charge(Decimal("0.1"))))
        assert [each.status for each in site.state.history("clinic")] == ["released", "released", "reserved"]
        ledger.settle(entry.id, status="denied")
    assert [each.status for each in site.state.history("clinic")] == ["released", "released", "denied"]


def list_queries(page: str) -> list[str]:
    ledger = page.split('id="ledger-title"')[1]
    return [unescape(found) for found in re.findall(r"<code>(.*?)</code>", ledger, flags=re.DOTALL)]


def test_the_staircase_has_few_steps_and_the_whole_way(long: Site) -> None:
    with long.guest("carol") as carol:
        by_entry = carol.get("/accounts/clinic").text
        by_time = carol.get("/accounts/clinic?axis=time").text
    for page in (by_entry, by_time):
        steps = read_steps(page)
        assert 20 < len(steps) <= 200
        assert steps[-1][0] == ENTRIES
        assert [place for place, _ in steps] == sorted({place for place, _ in steps})
        for place, reading in steps:  # every step is a reading that the account had
            assert reading == pytest.approx(0.5 + 0.001 * (place - 1), abs=1e-4)
    assert "time (UTC)" in by_time
    assert "time (UTC)" not in by_entry


def test_a_server_does_not_start_on_an_altered_ledger(start_site: StartSite) -> None:
    """A release follows the chain from the last checkpoint; the start of a server reads all of it."""
    site = start_site(datasets={"clinic": clinic_settings(algorithm="fixed", policy="budget:50")})
    grow(site, 60)
    site.stop()
    alter(site.settings.database, "UPDATE dosimeter_ledger SET at = '' WHERE seq = 5")
    with Ledger.open(site.settings.database) as ledger:
        assert ledger.summary("clinic") is not None
    with pytest.raises(LedgerError, match="altered at record 5"):
        start_site(database=site.settings.database, tokens=site.tokens, datasets=site.settings.datasets)
