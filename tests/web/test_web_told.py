"""Where the operator sets ``tell_cut``, answers on the web tell how many people's values were clamped (E5)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dosimeter import Dataset, Fixed
from dosimeter.options import LookOptions
from dosimeter.release import ReleaseOrder, prepare_release
from dosimeter.web.decision.measured import measure_query
from dosimeter.web.expected import expect_errors
from dosimeter.web.worker import JobMeter
from tests.known import known
from tests.schemas import category, declare, whole
from tests.web.web_site import StartSite, clinic_settings

SUM = "SELECT smoker, SUM(age) AS years FROM clinic GROUP BY smoker"


def test_answer_tells_what_was_clamped(start_site: StartSite) -> None:
    """The page to decide on opens and shows one question; the analyst reads the sentence, and programs the number."""
    site = start_site(datasets={"clinic": clinic_settings(algorithm="fixed", tell_cut=0.1)})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        query_id = anna.ask(SUM)
        opened = carol.get(f"/decide/{query_id}")
        assert opened.status_code == 200
        assert "blocks" not in opened.text
        assert carol.approve(query_id, "1").status_code == 200
        assert "have values that count as the bound which they exceed" in anna.get(f"/queries/{query_id}").text
    with site.api() as api:
        answer = api.get(f"/queries/{query_id}").json()["answer"]
    assert answer["cut"] == {"individuals": 0, "error": 0.0}
    assert answer["clamped"]["error"] > 0
    (entry,) = site.entries()
    assert known(entry.clamped)["individuals"] == answer["clamped"]["individuals"]
    assert len(entry.blocks) == 2


def test_controller_sees_the_numbers_that_were_asked_for() -> None:
    """Its groups and exact numbers are those of the query alone; the noise is 1/0.9 times as large."""
    schema = declare("stays", 6, {"ward": category("a", "b"), "nights": whole(0, 9)})
    stays = pa.table({"ward": ["a", "a", "b", "b", "b", "b"], "nights": [1, 20, 3, 4, 5, 6]})
    with Dataset.open(stays, schema=schema) as dataset:
        found, expected = [], []
        for share in (None, 0.2):
            look, order = LookOptions(tell_cut=share), ReleaseOrder(Fixed(1.0))
            prepared = prepare_release(dataset.schema, "SELECT ward, SUM(nights) FROM stays GROUP BY ward", look, order)
            found.append(measure_query(dataset, prepared, JobMeter()))
            expected.append(expect_errors(prepared, [0.01]).columns[0])
    alone, told = found
    assert (told.groups, told.exact, told.risk.groups) == (alone.groups, alone.exact, 2)
    assert told.risk.k == alone.risk.k + 1
    (before, *_), (after, *_) = (each.group_errors(0.01, 5)[0] for each in found)
    assert known(after) == pytest.approx(known(before) / 0.9, rel=1e-3)
    assert [known(each.errors[0]) for each in expected] == [before, after]
