"""Attacks that every web application meets: forged requests, planted sessions, guessed passwords, hostile texts, large
bodies, paths and headers that lead elsewhere."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from unittest.mock import Mock
from urllib.parse import urlsplit

import httpx
import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher

from dosimeter.errors import DosimeterError, LedgerError
from dosimeter.web.http.csrf import ENTRY_COOKIE
from dosimeter.web.http.middleware import POLICY
from dosimeter.web.http.visitors import SESSION_COOKIE
from dosimeter.web.identity import users
from dosimeter.web.identity.throttle import PER_ADDRESS
from dosimeter.web.routes import analyst
from dosimeter.web.store.database import Database
from dosimeter.web.store.tables import SESSIONS, TOKENS, USERS
from tests.known import known
from tests.waiting import wait_until
from tests.web.web_site import COUNT, PASSWORD, Guest, Site, StartSite, add_users, read_text

HOSTILE = "'; DROP TABLE web_users; -- \"<script>alert(1)</script>{{999983*999979}}${999983*999979}%0d%0aSet-Cookie:x=1"


@pytest.fixture
def opened(site: Site) -> Database:
    return site.state.database


# ---------------------------------------------------------------- forged requests


def test_request_without_token_or_from_another_site_changes_nothing(bob: Guest, anna: Guest) -> None:
    for token in ("", "wrong", bob.csrf):
        response = anna.post("/ask", data={"csrf": token, "dataset": "clinic", "sql": COUNT, "purpose": "x"})
        assert response.status_code == 403
    headers = {"Sec-Fetch-Site": "cross-site"}
    assert anna.post("/sign-out", data={"csrf": anna.csrf}, headers=headers).status_code == 403
    assert "You have not asked anything yet." in anna.get("/queries").text


def test_sign_in_form_has_a_token_of_its_own(site: Site, guest: Guest) -> None:
    assert guest.post("/sign-in", data={"name": "anna", "password": PASSWORD}).status_code == 403
    page = guest.get("/sign-in")
    token = known(re.search(r'name="csrf" value="([^"]+)"', page.text))
    guest.cookies.set(ENTRY_COOKIE, "planted", path="/sign-in", domain="127.0.0.1")
    fields = {"csrf": token[1], "name": "anna", "password": PASSWORD}
    with site.guest() as other:
        assert other.post("/sign-in", data=fields).status_code == 403


# ---------------------------------------------------------------- sessions


def test_session_id_is_new_at_every_sign_in(site: Site, guest: Guest, opened: Database) -> None:
    guest.cookies.set(SESSION_COOKIE, "planted", domain="127.0.0.1")
    guest.sign_in("anna")
    first = [cookie.value for cookie in guest.cookies.jar if cookie.name == SESSION_COOKIE]
    assert "planted" not in first
    with opened.reading() as connection:
        stored = {row.digest for row in connection.execute(sa.select(SESSIONS.c.digest))}
    assert not any(value in digest for value in first if value for digest in stored)
    with site.guest("anna") as again:
        assert again.cookies[SESSION_COOKIE] not in first


def test_signature_protects_the_cookie(site: Site, anna: Guest) -> None:
    value = anna.cookies[SESSION_COOKIE]
    head, _, signature = value.rpartition(".")
    other = "A" if signature[0] != "A" else "B"  # not the last letter: two of its bits stand for nothing
    for changed in (f"{head}.{other}{signature[1:]}", "x" + value, head, "", "a" * 5000):
        response = httpx.get(f"{site.url}/queries", cookies={SESSION_COOKIE: changed}, follow_redirects=False)
        assert response.status_code == 303
        assert response.headers["location"] == "/sign-in?next=%2Fqueries"


def test_cookie_is_not_for_scripts(site: Site, start_site: StartSite) -> None:
    with site.guest() as guest:
        guest.follow_redirects = False
        header = guest.sign_in("anna").headers["set-cookie"]
    assert "HttpOnly" in header
    assert "SameSite=lax" in header
    assert "Secure" not in header
    site.stop()
    secure = start_site(tokens=site.tokens, public_url="https://dosimeter.example.org")
    with secure.guest() as guest:
        response = guest.get("/sign-in")
        assert "Secure" in response.headers["set-cookie"]
        assert "max-age" in response.headers["strict-transport-security"]


def test_sign_out_ends_the_session(site: Site, anna: Guest) -> None:
    kept = {SESSION_COOKIE: anna.cookies[SESSION_COOKIE]}
    anna.act("/sign-out")
    late = httpx.get(f"{site.url}/queries", cookies=kept, follow_redirects=False)
    assert late.headers["location"] == "/sign-in?next=%2Fqueries"


@pytest.mark.parametrize("way", ["password", "everywhere", "revoke", "reset", "disable"])
def test_whoever_is_shut_out_is_out_at_once(site: Site, anna: Guest, opened: Database, way: str) -> None:
    """Other sessions end and tokens are revoked; a token that is revoked by itself ends no session."""
    page = anna.act("/me/tokens", name="notebook")
    assert page.request.method == "GET"  # loading it again makes no second token
    token = page.text.split('id="fresh-token">')[1].split("<")[0]
    me = anna.get("/me").text
    assert token not in me
    assert "revokes your API tokens" in me

    def ask_by_token() -> int:
        return httpx.get(f"{site.url}/api/v1/queries", headers={"Authorization": f"Bearer {token}"}).status_code

    assert ask_by_token() == 200
    password = PASSWORD
    with site.guest("anna") as elsewhere, site.guest() as later:
        match way:
            case "password":
                password = "another password"
                assert "API tokens are revoked" in anna.act("/me/password", current=PASSWORD, fresh=password).text
            case "everywhere":
                anna.act("/sign-out-everywhere")
            case "revoke":
                for revoke in re.findall(r"/me/tokens/(\w+)/revoke", me):
                    anna.act(f"/me/tokens/{revoke}/revoke")
            case "reset":
                password = users.reset_password(opened, "anna")
            case "disable":
                users.disable_user(opened, "anna")
                assert later.sign_in("anna").status_code == 401
                password = users.reset_password(opened, "anna")
        assert ask_by_token() == 401
        stays = {"password": (True, False), "revoke": (True, True)}.get(way, (False, False))
        assert tuple(guest.get("/queries").url.path == "/queries" for guest in (anna, elsewhere)) == stays
        if password != PASSWORD:
            assert later.sign_in("anna").status_code == 401
        assert later.sign_in("anna", password).status_code == 200


def test_passwords_and_keys_are_not_stored(
    site: Site, anna: Guest, opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "_hasher", PasswordHasher)
    users.add_user(opened, "real", "analyst", PASSWORD)
    with opened.reading() as connection:
        hashed = {row.name: row.password for row in connection.execute(sa.select(USERS))}
        tokens = connection.execute(sa.select(TOKENS)).mappings().all()
    assert int(known(re.match(r"\$argon2id\$v=19\$m=(\d+)", hashed["real"]))[1]) >= 19_456
    assert not any(PASSWORD in value for value in hashed.values())
    assert not any(token in str(row) for token in site.tokens.values() for row in tokens)


# ---------------------------------------------------------------- guessing


def test_unknown_name_looks_like_a_wrong_password(guest: Guest) -> None:
    pages = [read_text(guest.sign_in(name, "wrong password").text) for name in ("anna", "nobody-here")]
    assert pages[0] == pages[1]


def test_address_is_slowed_down_whatever_the_name(site: Site, guest: Guest) -> None:
    limit = site.settings.failures_allowed * PER_ADDRESS
    statuses = [guest.sign_in(f"name{number}", "wrong password").status_code for number in range(limit + 1)]
    assert statuses == [401] * limit + [429]


# ---------------------------------------------------------------- hostile texts


def test_hostile_text_in_every_field(guest: Guest, anna: Guest, carol: Guest, opened: Database) -> None:
    query_id = anna.ask(purpose=HOSTILE[:400])
    other = anna.ask()
    answers = [
        anna.act(
            "/ask", dataset="clinic", sql=HOSTILE, purpose=HOSTILE, priority=HOSTILE[:15], wanted_error=HOSTILE[:30]
        ),
        anna.act("/ask/check", dataset="clinic", sql=HOSTILE),
        anna.act("/ask", dataset=HOSTILE, sql=COUNT, purpose="x"),
        anna.act("/me/tokens", name=HOSTILE[:90]),
        anna.act("/me/password", current=HOSTILE, fresh=HOSTILE),
        anna.get("/ask", params={"dataset": HOSTILE, "again": HOSTILE}),
        anna.get(f"/queries/{HOSTILE}"),
        carol.get("/decide/" + HOSTILE.replace("/", "")),
        carol.get(
            f"/decide/{query_id}", params={"preset": "own", "text": HOSTILE, "column": HOSTILE, "value": HOSTILE}
        ),
        carol.get(f"/decide/{query_id}/live", params={"preset": "own", "text": HOSTILE}),
        carol.get(f"/decide/{query_id}/live", params={"preset": "medians", "column": HOSTILE, "value": HOSTILE}),
        carol.get(f"/decide/{query_id}/groups", params={"column": HOSTILE, "epsilon": "1"}),
        carol.get(f"/accounts/{HOSTILE}"),
        carol.get("/audit", params={"before": HOSTILE}),
        carol.act("/settings", high=HOSTILE, normal="1", low="1"),
        carol.approve(query_id, preference=HOSTILE),
        carol.act(f"/decide/{query_id}/changes", phrase=HOSTILE[:39], reason=HOSTILE),
        carol.act(f"/decide/{other}/deny", reason=HOSTILE),
        carol.get("/queue"),
        carol.get("/audit"),
        carol.get(f"/decide/{other}"),
        anna.get("/queries"),
    ]
    answers.append(guest.sign_in(HOSTILE, HOSTILE))
    for response in answers:
        assert response.status_code < 500, response.request.url
        assert "<script>alert(1)" not in response.text, response.request.url
        assert "999962000357" not in response.text, response.request.url
        assert "x=1" not in response.headers.get("set-cookie", "")
    with opened.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(USERS)).scalar_one() == 4


@pytest.mark.parametrize("text", ["a\x00b", "a\x1bb", "\ud800"])
def test_texts_no_database_can_hold(api: httpx.Client, anna: Guest, text: str) -> None:
    body = {"dataset": "clinic", "sql": COUNT, "purpose": text}
    response = api.post("/queries", content=json.dumps(body).encode(), headers={"Content-Type": "application/json"})
    assert response.status_code == 422
    if "\ud800" not in text:
        assert anna.act("/ask", **body).status_code == 422


def test_nothing_in_an_address_breaks_the_database(start_site: StartSite, database: str) -> None:
    """PostgreSQL refuses texts with a zero byte, and must never be asked."""
    site = start_site(database=database)
    with site.guest("anna") as anna, site.guest("carol") as carol, site.api() as api, site.guest() as guest:
        for bad in ("%00", "a%00b", "%ff%fe", "%ed%a0%80", "..%2f", "%F0%9F%92%A5"):
            for visitor, path in (
                (anna, "/queries/{}"), (anna, "/queries/{}/status"), (anna, "/ask?again={}&dataset={}"),
                (carol, "/decide/{}"), (carol, "/decide/{}/live"), (carol, "/accounts/{}"), (carol, "/jobs/{}"),
                (carol, "/audit?before={}"), (api, "/queries/{}"), (api, "/queries?before={}"),
            ):  # fmt: skip
                assert visitor.get(path.format(bad, bad)).status_code < 500, path
            for path in ("/queries/{}/withdraw", "/me/tokens/{}/revoke"):
                assert anna.act(path.format(bad)).status_code < 500
        assert guest.sign_in("a\x00b", "x\x00y").status_code == 401
        assert anna.act("/ask/check", dataset="clinic", sql="SELECT \x00").status_code == 200
        raw = f"csrf={anna.csrf}&dataset=clinic&purpose=x&sql=%FF%00".encode()
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        assert anna.post("/ask", content=raw, headers=form).status_code == 422


# ---------------------------------------------------------------- bodies, paths, headers


@pytest.mark.parametrize("path", ["/ask", "/sign-in", "/api/v1/queries"])
def test_large_bodies_are_refused(site: Site, anna: Guest, path: str) -> None:
    large = b"x" * (site.settings.largest_body + 1)

    def in_pieces() -> Iterator[bytes]:
        for start in range(0, len(large), 8192):
            yield large[start : start + 8192]

    for content in (large, in_pieces()):
        response = anna.post(path, content=content, headers={"X-CSRF-Token": anna.csrf})
        assert response.status_code == 413
    assert anna.get("/queries").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/settings.py",
        "/static/....//app.py",
        "/static//etc/passwd",
        "/static/vendor/../../tables.py",
        "/static/%00",
    ],
)
def test_paths_do_not_lead_out_of_static(site: Site, path: str) -> None:
    """Sent as it is, since a client would tidy the path first."""
    host = urlsplit(site.url)
    with socket.create_connection((host.hostname, host.port)) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.split()[1] in (b"404", b"400", b"405")
    assert b"import" not in answer
    assert b"root:" not in answer


def test_headers_cannot_be_smuggled_in(site: Site, anna: Guest) -> None:
    for value in ("x%0d%0aX-Injected:%20yes", "%0aX-Injected: yes"):
        for path in (f"/queries/{value}", f"/ask?dataset={value}", f"/sign-in?next={value}", f"/{value}"):
            response = anna.get(path)
            assert "x-injected" not in response.headers
            assert response.status_code < 500
    assert httpx.get(site.url, headers={"Host": "evil.example"}).headers["location"] == "/sign-in"


def test_every_response_carries_the_headers(anna: Guest) -> None:
    pages = [
        "/sign-in",
        "/ask",
        "/nowhere",
        "/static/style.css",
        "/static/nowhere",
        "/health",
        "/api/v1/queries",
        "/queue",
    ]
    for path in pages:
        headers = anna.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers
        assert (headers.get("cache-control") == "no-store") != path.startswith("/static/")
    assert "unsafe" not in POLICY


def test_pages_have_no_inline_scripts_or_styles(anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    pages = [anna.get(path).text for path in ("/ask", "/queries", f"/queries/{query_id}", "/me")]
    pages += [
        carol.get(path).text for path in ("/queue", f"/decide/{query_id}", "/accounts/clinic", "/audit", "/settings")
    ]
    for page in pages:
        assert not re.search(r"<script(?![^>]*\bsrc=)", page)
        assert not re.search(r"\sstyle=|<style|\son\w+=|javascript:", page)
        assert not re.search(r"(src|href)=\"https?://", page)


@pytest.mark.parametrize(("error", "status"), [(RuntimeError, 500), (DosimeterError, 503)])
def test_a_bug_shows_nothing(
    anna: Guest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: type[Exception],
    status: int,
) -> None:
    monkeypatch.setattr(analyst, "page_own", Mock(side_effect=error("the cell of Xanthippe")))
    response = anna.get("/queries")
    assert response.status_code == status
    assert "Traceback" not in response.text
    if error is RuntimeError:
        assert "Something went wrong on our side." in response.text
        wait_until(lambda: "RuntimeError at" in caplog.text, "the log says where")  # once the answer is out
    assert "Xanthippe" not in response.text + caplog.text


def test_second_server_is_kept_away(site: Site) -> None:
    with pytest.raises(LedgerError, match="one server per database"):
        Site.start(site.settings, {})


def test_users_can_be_added_while_it_serves(site: Site) -> None:
    add_users(site.settings.database, {"dora": "analyst"})
    with site.guest("dora") as dora:
        assert dora.get("/ask").status_code == 200
