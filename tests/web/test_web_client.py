"""The Python client, against our server and others, and the JSON interface that it speaks."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings

from dosimeter.client import Client
from dosimeter.errors import DosimeterError, InputError, OptionError, QueryError, ServerError
from dosimeter.web.public import DENIED, PHRASES
from tests.known import known
from tests.waiting import LONGEST_WAIT
from tests.web.web_site import COUNT, Guest, Site, read_text

ADDRESS = "https://dosimeter.example.org"


def answer(status: int, content: Any, seen: list[httpx.Request] | None = None) -> httpx.MockTransport:
    def handle(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request)
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return httpx.Response(status, content=body)

    return httpx.MockTransport(handle)


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (502, {"error": "bad gateway"}),
        (502, b"<html>bad gateway</html>"),
        (500, []),
        (500, {"error": None}),
        (400, {"error": {"code": "x"}}),
        (200, b"<html>welcome</html>"),
        (200, b""),
        (200, [1]),
        (200, {}),
        (200, {"queries": 1}),
        (200, {"queries": [{}]}),
        (200, {"id": "a", "dataset": "b", "sql": "c", "status": "d", "message": None, "answer": 7}),
        (200, 7),
        (200, None),
    ],
)
def test_a_server_that_is_not_ours_is_one_clear_error(status: int, content: Any) -> None:
    with Client(ADDRESS, "dsm_x", transport=answer(status, content)) as client:
        for call in (lambda: client.query("a"), client.queries, lambda: client.submit("x", purpose="y", dataset="z")):
            with pytest.raises(ServerError) as refused:
                call()
            assert "Dosimeter server" in str(refused.value)
            assert refused.value.code == "unknown"
        with pytest.raises(ServerError):
            client.submit("x", purpose="y")


def test_errors_without_every_field_are_read() -> None:
    found = answer(409, {"error": {"message": "No."}})
    with Client(ADDRESS, "dsm_x", transport=found) as client, pytest.raises(ServerError, match=r"^No\.$") as refused:
        client.datasets()
    assert isinstance(refused.value, InputError)
    assert (refused.value.code, refused.value.exit_code) == ("unknown", 2)
    found = answer(422, {"error": {"code": "not_answerable", "message": "Not that."}})
    with Client(ADDRESS, "dsm_x", transport=found) as client, pytest.raises(QueryError, match=r"Not that\."):
        client.check("x", dataset="y")


@pytest.mark.parametrize("query_id", ["../../queue?x=", "a/b", "a?b", "a#b", "%2e%2e/x", "a b"])
def test_an_id_leads_nowhere_else(query_id: str) -> None:
    seen: list[httpx.Request] = []
    with (
        Client(ADDRESS, "dsm_x", transport=answer(404, {"error": {"code": "n", "message": "No."}}, seen)) as client,
        pytest.raises(ServerError),
    ):
        client.query(query_id)
    path = seen[0].url.raw_path.decode()
    assert path.startswith("/api/v1/queries/")
    assert "/" not in path.removeprefix("/api/v1/queries/")
    assert "?" not in path
    for nothing in ("", ".", ".."):
        with pytest.raises(OptionError):
            client.query(nothing)


@pytest.mark.parametrize(
    ("address", "token", "words"),
    [
        ("http://127.0.0.1:1", "dsm_x", ""),
        ("http://localhost:1", "dsm_x", ""),
        ("http://[::1]:1", "dsm_x", ""),
        ("https://a.example", "dsm_x", ""),
        ("http://dosimeter.example.org", "dsm_x", "insecure=True"),
        ("http://10.0.0.1:8765", "dsm_x", "insecure=True"),
        ("http://127.0.0.1.evil.org", "dsm_x", "insecure=True"),
        ("https://anna:secret@d.example", "dsm_x", "Leave name and password out"),
        ("https://", "dsm_x", "begins with https"),
        ("d.example", "dsm_x", "begins with https"),
        ("https://d.example:abc", "dsm_x", "cannot be read"),
        ("http://[::1", "dsm_x", "cannot be read"),
        ("https://d.example/?token=secret", "dsm_x", "ends before any"),
        ("https://d.example", "dsm_ü", "characters that no token has"),
        ("https://d.example", "dsm_x\r\nX: y", "characters that no token has"),
        ("https://d.example", "", "characters that no token has"),
    ],
)
def test_mistakes_are_said_and_not_quoted(address: str, token: str, words: str) -> None:
    """A token is not sent in the open, but to one's own machine."""
    if words:
        with pytest.raises(DosimeterError, match=words) as refused:
            Client(address, token)
        assert "secret" not in str(refused.value)
    if words in ("", "insecure=True"):
        with Client(address, token, insecure=bool(words)) as client:
            assert repr(client) == f"Client({address!r})"


def test_the_client_lists_more_than_the_server_does_at_a_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dosimeter.client.MOST_LISTED", 2)
    with Client(site.url, site.tokens["anna"]) as client:
        made = [client.submit(COUNT, purpose=f"part {number}") for number in range(5)]
        listed = client.queries(limit=4)
        assert [query.id for query in listed] == [query.id for query in made[:0:-1]]
        assert [query.purpose for query in client.queries()] == [f"part {number}" for number in (4, 3, 2, 1, 0)]
        assert listed[0].created_at > listed[1].created_at
        assert made[0].withdraw().status == "withdrawn"
        with pytest.raises(ServerError, match="withdrawn before"):
            made[0].withdraw()
        assert repr(made[1]) == f"Submitted({made[1].id!r}, waiting, 'part 1')"


def test_client_waits_as_long_as_it_says(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(site.url, site.tokens["anna"]) as client:
        query = client.submit(COUNT, purpose="x")
        slept: list[float] = []
        clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)  # time passes in sleep alone
        monkeypatch.setattr("dosimeter.client.time", clock)
        with pytest.raises(TimeoutError):
            query.wait(0.4, every=60.0)
        assert sum(slept) == pytest.approx(0.4)  # not a minute
        slept.clear()
        with pytest.raises(TimeoutError):
            query.wait(100.0, every=30.0)
        assert slept == pytest.approx([30.0, 30.0, 30.0, 10.0])


def test_client_submits_waits_and_reads(site: Site, carol: Guest) -> None:
    with Client(site.url, site.tokens["anna"]) as client:
        assert [dataset["name"] for dataset in client.datasets()] == ["clinic"]
        assert client.check(COUNT)["answerable"]
        query = client.submit(COUNT, purpose="stock", priority="high", wanted_error=5)
        assert (query.status, query.rows) == ("waiting", None)
        carol.approve(query.id)
        answer = query.wait(LONGEST_WAIT, every=0.1)
        assert answer.status == "released"
        assert list(known(answer.rows)[0]) == ["count"]
        assert answer.epsilon is answer.error_95 is None  # algorithm 1
        assert [earlier.id for earlier in client.queries()] == [query.id]
    assert "± 5 wanted" in read_text(carol.get(f"/decide/{query.id}").text)


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


def test_errors_have_one_shape(api: httpx.Client) -> None:
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


def test_no_request_that_fits_the_description_breaks_the_server(site: Site, api: httpx.Client) -> None:
    """Schemathesis makes requests out of the OpenAPI document, valid and broken ones; none may give a 5xx."""
    import schemathesis  # takes a second, which nobody else should wait
    from schemathesis.core.result import Ok

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
        drawn: Any = given(operation.as_strategy())
        run(drawn(check))()
    assert set(seen) == {
        "GET /datasets", "POST /check", "POST /queries", "GET /queries", "GET /queries/{query_id}", "GET /answers",
        "POST /queries/{query_id}/withdraw",
    }  # fmt: skip


def test_description_names_what_is_public(api: httpx.Client) -> None:
    document = api.get("/openapi.json").json()
    text = str(document).lower()
    assert "bearer" in text
    for word in ("rdr", "sensitivity", "reading", "reason", "preference"):
        assert word not in text
