"""The Python client, against servers that are not ours, addresses that leak, and ids that lead elsewhere."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from dosimeter.client import Client
from dosimeter.errors import DosimeterError, InputError, OptionError, QueryError, ServerError
from tests.web.web_site import COUNT, Site

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
    with (
        Client(ADDRESS, "dsm_x", transport=answer(409, {"error": {"message": "No."}})) as client,
        pytest.raises(ServerError, match=r"^No\.$") as refused,
    ):
        client.datasets()
    assert refused.value.code == "unknown"
    assert isinstance(refused.value, InputError)
    assert refused.value.exit_code == 2
    refusal = {"error": {"code": "not_answerable", "message": "Not that."}}
    with (
        Client(ADDRESS, "dsm_x", transport=answer(422, refusal)) as client,
        pytest.raises(QueryError, match=r"Not that\."),
    ):
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
    "address", ["http://dosimeter.example.org", "http://10.0.0.1:8765", "http://127.0.0.1.evil.org"]
)
def test_token_is_not_sent_in_the_open(address: str) -> None:
    with pytest.raises(OptionError, match="insecure=True"):
        Client(address, "dsm_x")
    Client(address, "dsm_x", insecure=True).close()


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "https://a.example"])
def test_own_machine_and_tls_are_fine(address: str) -> None:
    with Client(address, "dsm_x") as client:
        assert repr(client) == f"Client({address!r})"


@pytest.mark.parametrize(
    ("address", "token", "words"),
    [
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
    with pytest.raises(DosimeterError, match=words) as refused:
        Client(address, token)
    assert "secret" not in str(refused.value)


def test_the_client_lists_more_than_the_server_does_at_a_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from dosimeter import client as module

    monkeypatch.setattr(module, "MOST_LISTED", 2)
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
