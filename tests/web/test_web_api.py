"""The JSON interface, its description, and the Python client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings

from dosimeter.client import Client, ServerError
from dosimeter.errors import OptionError, QueryError
from dosimeter.web.public import DENIED, PHRASES
from tests.waiting import LONGEST_WAIT
from tests.web.web_site import COUNT, Guest, Site, read_text


def test_client_submits_waits_and_reads(site: Site, carol: Guest) -> None:
    with Client(site.url, site.tokens["anna"]) as client:
        assert [dataset["name"] for dataset in client.datasets()] == ["clinic"]
        assert client.check(COUNT)["answerable"]
        query = client.submit(COUNT, purpose="stock", priority="high", wanted_error=5)
        assert query.status == "waiting"
        assert query.rows is None
        with pytest.raises(TimeoutError):
            query.wait(0.1, every=0.2)
        carol.approve(query.id)
        answer = query.wait(LONGEST_WAIT, every=0.1)
        assert answer.status == "released"
        assert answer.rows is not None
        assert list(answer.rows[0]) == ["count"]
        assert answer.epsilon is None  # algorithm 1
        assert answer.error_95 is None
        assert [earlier.id for earlier in client.queries()] == [query.id]
    page = carol.get(f"/decide/{query.id}").text
    assert "± 5 wanted" in read_text(page)


def test_client_is_told_why(site: Site, carol: Guest) -> None:
    with Client(site.url, site.tokens["anna"]) as client:
        with pytest.raises(QueryError, match="neither an aggregate") as refused:
            client.submit("SELECT name FROM clinic", purpose="x")
        assert refused.value.clause == "name"
        with pytest.raises(ServerError, match="no such dataset") as missing:
            client.submit(COUNT, purpose="x", dataset="elsewhere")
        assert missing.value.code == "not_found"
        denied, sent_back = client.submit(COUNT, purpose="x"), client.submit(COUNT, purpose="y")
        carol.act(f"/decide/{denied.id}/deny", reason="secret")
        carol.act(f"/decide/{sent_back.id}/changes", phrase="purpose")
        assert denied.wait().message == DENIED
        assert sent_back.wait().message == PHRASES["purpose"]
    with Client(site.url, "dsm_wrong") as stranger, pytest.raises(ServerError, match="valid token"):
        stranger.datasets()
    with Client("http://127.0.0.1:9", "x", timeout=1) as nobody, pytest.raises(ServerError, match="does not answer"):
        nobody.datasets()
    with pytest.raises(OptionError, match="https://"):
        Client("dosimeter.example.org", "x")


def test_errors_have_one_shape(site: Site) -> None:
    with site.api() as api:
        responses = [
            api.get("/nowhere"),
            api.get("/queries/nothing"),
            api.get("/queries", params={"limit": 0}),
            api.post("/queries", json={"dataset": "clinic"}),
            api.post("/queries", content=b"not json", headers={"Content-Type": "application/json"}),
            api.post("/queries", json={"dataset": "clinic", "sql": COUNT, "purpose": "x", "rdr": 1}),
            api.delete("/queries"),
            api.get("/queries", headers={"Authorization": "Bearer x"}),
            api.post("/queries", content=b"x" * 70_000),
        ]
    assert [response.status_code for response in responses] == [404, 404, 422, 422, 422, 422, 405, 401, 413]
    for response in responses:
        assert list(response.json()) == ["error"]
        assert set(response.json()["error"]) == {"code", "message", "clause"}


def test_no_request_that_fits_the_description_breaks_the_server(site: Site) -> None:
    """Schemathesis makes requests out of the OpenAPI document, valid and broken ones; none may give a 5xx."""
    import schemathesis  # takes a second, which nobody else should wait
    from schemathesis.core.result import Ok

    with site.api() as api:
        description: dict[str, Any] = api.get("/openapi.json").json()
    schema = schemathesis.openapi.from_dict(description)
    headers = {"Authorization": f"Bearer {site.tokens['anna']}"}
    seen: dict[str, set[int]] = {}
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()

        def check(case: Any) -> None:
            response = case.call(base_url=f"{site.url}/api/v1", headers=headers)
            seen.setdefault(case.operation.label, set()).add(response.status_code)
            assert response.status_code < 500, f"{case.operation.label}: {response.status_code}"
            if not 200 <= response.status_code < 300:
                assert set(response.json()) == {"error"}

        run = hypothesis_settings(
            max_examples=12,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        _run_property(operation.as_strategy(), check, run)
    assert set(seen) == {
        "GET /datasets", "POST /check", "POST /queries", "GET /queries", "GET /queries/{query_id}", "GET /answers",
        "POST /queries/{query_id}/withdraw",
    }  # fmt: skip


def _run_property(strategy: Any, check: Callable[[Any], None], run: hypothesis_settings) -> None:
    from hypothesis import given

    drawn: Any = given(strategy)
    run(drawn(check))()


def test_description_names_what_is_public(site: Site) -> None:
    with site.api() as api:
        document = api.get("/openapi.json").json()
    text = str(document).lower()
    assert "bearer" in text
    for word in ("rdr", "sensitivity", "reading", "reason", "preference"):
        assert word not in text
