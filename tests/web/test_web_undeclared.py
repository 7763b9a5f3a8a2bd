"""Groups that nobody declared (H1) on the web: who may allow them, what a controller sees, what is charged."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dosimeter.dataset import Dataset
from dosimeter.errors import OptionError, SchemaError
from dosimeter.options import LookOptions
from dosimeter.release import read_way
from dosimeter.release.order import ReleaseOrder
from dosimeter.release.prepare import prepare_release
from dosimeter.schema.toml import dump_schema, read_schema
from dosimeter.web.decision.measured import measure_query
from dosimeter.web.decision.undeclared import describe_shown
from dosimeter.web.routes import accounts
from dosimeter.web.settings import DatasetSettings
from dosimeter.web.worker import JobMeter
from tests.known import known
from tests.schemas import declare, plain
from tests.unit.test_thresholded_groups import COUNTS, FACTS, NOTES
from tests.web.browsing import OpenPage, expect, find_barriers, wait_for_decision, wait_for_epsilon
from tests.web.web_site import StartSite, read_text

BY_X = "SELECT x, COUNT(*) AS n FROM notes GROUP BY x"


@pytest.fixture
def notes(tmp_path: Path) -> Callable[..., DatasetSettings]:
    """A table in which nobody declared the topics: two large ones, and thirty people alone in theirs."""
    data, schema = tmp_path / "notes.parquet", tmp_path / "notes.toml"
    pq.write_table(NOTES, data)
    schema.write_text(dump_schema(read_schema(FACTS)))

    def describe(**changes: Any) -> DatasetSettings:
        values: dict[str, Any] = {"data": str(data), "schema": schema, "policy": "budget:5", "algorithm": "fixed"}
        return DatasetSettings(**values | {"delta_total": 1e-4, "group_delta": 1e-6} | changes)

    return describe


def test_controller_sees_which_groups_would_be_shown(
    start_site: StartSite, notes: Callable[..., DatasetSettings], open_page: OpenPage
) -> None:
    """T = 15 at ε = 1 and D = 10⁻⁶: flu (300) and gout (80) are shown; rare (4) and thirty people alone are not."""
    site = start_site(datasets={"notes": notes()})
    with site.guest("anna") as anna:
        query_id = anna.ask(COUNTS, dataset="notes")
    carol = open_page(site, "carol", viewport={"width": 1400, "height": 900}, reduced_motion="reduce")
    carol.goto(f"/decide/{query_id}")
    expect(carol.locator("table.choices tr", has_text="15 people")).to_have_count(1)  # before any look: ε decides it
    carol.click("button >> text=Look at the risk")
    wait_for_decision(carol)
    carol.fill("#epsilon", "1")
    carol.press("#epsilon", "Enter")
    wait_for_epsilon(carol, "1")
    told = carol.locator("#part-shown")
    expect(told).to_contain_text("the data have 33 groups, and an answer at ε = 1 would show about 2.0 of them")
    expect(told).to_contain_text("34 of 414 people are in groups that would hardly ever be shown")
    expect(told.locator("tr.selected")).to_contain_text("15 people")
    expect(carol.locator("#part-cost")).to_contain_text("its δ from 0 to 1·10⁻⁶ of 1·10⁻⁴")
    # ± 9 of the smaller group, which has 36 people.
    expect(carol.locator("#part-cost")).to_contain_text("off by up to 7.1 %, the worst by 25 %")
    expect(carol.locator("#part-cost")).not_to_contain_text("worth little")  # what is not shown misleads nobody
    carol.click("summary:has-text('Each of the 33 numbers')")
    rows = carol.locator("#numbers tbody tr")
    expect(rows).to_have_count(33)
    expect(rows.filter(has_text="gout")).to_contain_text("almost always")
    expect(rows.filter(has_text="rare")).to_contain_text("hardly ever")
    expect(carol.locator("#part-accuracy tr.selected")).to_contain_text("7.1 %")  # between ± 9 of 300 and of 80
    assert not find_barriers(carol)
    carol.click("#part-verdict .primary")
    expect(carol.locator("main")).to_contain_text("34 of 414 people are in groups that would hardly ever be shown")
    carol.fill("[name=reason]", "topics are no secret")
    carol.click("main form button.primary")
    expect(carol.locator(".decided")).to_contain_text("gout")
    expect(carol.locator(".decided")).not_to_contain_text("alone-")
    account = known(site.state.database.ledger.account("notes"))
    assert account.reading.delta == Decimal("0.000001")
    with site.guest("anna") as anna:
        answer = read_text(anna.get(f"/queries/{query_id}").text)
    assert "gout" in answer
    assert "smaller ones are left out" in answer


def test_somebody_in_several_groups_counts_once_in_each() -> None:
    """40 people with two topics each: all have flu, 30 gout, 10 a topic of their own, which is hidden."""
    topics = ["flu"] * 40 + ["gout"] * 30 + [f"alone-{at}" for at in range(10)]
    table = pa.table({"who": [*range(40), *range(40)], "row": list(range(80)), "topic": topics})
    columns = {"who": plain("integer") | {"identifying": True}, "row": plain("integer"), "topic": plain("text")}
    schema = declare("notes", 40, columns, unit="who", max_rows_per_unit=2, row_key="row")
    options = LookOptions(groups="thresholded", group_delta=1e-6)
    with Dataset.open(table, schema=schema, table="notes") as dataset:
        order = ReleaseOrder(read_way(prefer="ratio:0.95"))
        measured = measure_query(dataset, prepare_release(dataset.schema, COUNTS, options, order), JobMeter())
        groups, hidden, _ = describe_shown(measured, 10.0)
    assert "the data have 12 groups, and an answer at ε = 10 would show about 2.0 of them" in groups
    assert "Of these 80 places in groups, 10 are in groups that would hardly ever be shown" in hidden


def test_operator_decides_whether_there_are_such_groups(
    start_site: StartSite, notes: Callable[..., DatasetSettings]
) -> None:
    with start_site(datasets={"notes": notes(group_delta=None)}).guest("anna") as anna:
        told = read_text(anna.act("/ask/check", dataset="notes", sql=COUNTS).text)
    assert "topic (text) has no declared list of values" in told
    assert not re.search("threshold|group_delta", told)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "find-and-release"}, "group_delta=? does not go with find-and-release"),
        ({"group_delta": 1e-3}, "group_delta is more than the account's δ in all, 0.0001"),
        ({"policy": "budget:5@1e-5", "delta_total": None}, "group_delta is more than the account's δ in all, 0"),
        ({"group_delta": 2.0}, "group_delta=? must be a number strictly between 0 and 1"),
    ],
)
def test_settings_that_no_release_could_use_are_refused(
    start_site: StartSite, notes: Callable[..., DatasetSettings], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        start_site(datasets={"notes": notes(**changes)})


def test_preference_finds_epsilon_for_such_groups_and_sums_follow(
    start_site: StartSite, notes: Callable[..., DatasetSettings], open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where the sums per person cannot be computed, the page says why."""
    site = start_site(datasets={"notes": notes(algorithm="find", min_rows=2)})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        query_id = anna.ask(COUNTS, dataset="notes")
        assert "Groups shown: about" in carol.get(f"/decide/{query_id}").text
        assert carol.approve(query_id, "1", "ratio:0.5").status_code == 200
        assert "gout" in anna.get(f"/queries/{query_id}").text
        declared = anna.ask(BY_X, dataset="notes")
        opened = carol.get(f"/decide/{declared}").text
    assert not re.search("Groups shown: about|its δ", opened)  # what is declared costs no δ
    page = open_page(site, "carol")
    page.goto("/accounts/notes")
    # Six people have no topic: they move nothing.
    expect(page.locator("section", has_text="Per person")).to_contain_text("6 move none of the answers")

    def fail(*_: Any) -> None:
        raise SchemaError("The schema changed since.")

    monkeypatch.setattr(accounts, "sum_guarantees", fail)
    with site.guest("carol") as carol:
        assert carol.approve(declared, "0.5", "ratio:0.5").status_code == 200
    page.goto("/accounts/notes")
    expect(page.locator("section", has_text="Per person").get_by_role("alert")).to_contain_text("The schema changed")
