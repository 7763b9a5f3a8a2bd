"""Every route × every kind of visitor, in one table; and that no other route exists."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import pytest

from dosimeter.web import routes
from tests.web.web_site import COUNT, Guest, Site

# path → what (nobody, analyst, controller) get for a plain GET or an empty POST with a valid token where one exists.
# 303 is the way to the sign-in page, or home.
GETS = {
    "/": (303, 303, 303),
    "/sign-in": (200, 303, 303),
    "/me": (303, 200, 200),
    "/ask": (303, 200, 403),
    "/ask/names": (303, 422, 403),
    "/ask/names/values": (303, 422, 403),
    "/ask/schema": (303, 404, 403),
    "/ask/values": (303, 422, 403),
    "/ask/invented.csv": (303, 422, 403),
    "/queries": (303, 200, 403),
    "/queries/{query_id}": (303, 200, 403),
    "/queries/{query_id}/status": (303, 200, 403),
    "/queries/{query_id}/answer.csv": (303, 404, 403),
    "/queries/{query_id}/record": (303, 404, 403),
    "/answers": (303, 200, 403),
    "/answers/{dataset}/{entry_id}": (303, 404, 403),
    "/answers/{dataset}/{entry_id}/answer.csv": (303, 404, 403),
    "/records/{entry_id}": (303, 403, 404),
    "/queue": (303, 403, 200),
    "/decided": (303, 403, 200),
    "/queue/rows": (303, 403, 200),
    "/settings": (303, 403, 200),
    "/audit": (303, 403, 200),
    "/audit/export.jsonl": (303, 403, 200),
    "/audit/export.csv": (303, 403, 200),
    "/jobs/{job_id}": (303, 403, 404),
    "/decide/{query_id}": (303, 403, 200),
    "/decide/{query_id}/live": (303, 403, 200),
    "/decide/{query_id}/confirm": (303, 403, 200),
    "/decide/{query_id}/repeat": (303, 403, 409),
    "/decide/{query_id}/deny": (303, 403, 200),
    "/decide/{query_id}/changes": (303, 403, 200),
    "/decide/{query_id}/people": (303, 403, 200),
    "/decide/{query_id}/numbers": (303, 403, 200),
    "/decide/{query_id}/groups": (303, 403, 200),
    "/decide/{query_id}/others": (303, 403, 200),
    "/accounts": (303, 403, 200),
    "/accounts/{name}": (303, 403, 200),
    "/accounts/{name}/people": (303, 403, 200),
    "/accounts/{name}/summary": (303, 403, 200),
    "/about/{dataset}": (303, 200, 403),
    "/incidents": (303, 403, 200),
    "/setup/{name}": (303, 403, 404),
    "/setup/{name}/confirm": (303, 403, 303),
    "/setup/{name}/look": (303, 403, 404),
    "/introduction": (303, 403, 200),
    "/health": (200, 200, 200),
    "/static/style.css": (200, 200, 200),
}
QUERY_STRINGS = {
    "people": "?epsilon=0.05",
    "numbers": "?epsilon=0.05",
    "confirm": "?epsilon=0.05",
    "groups": "?column=sex&epsilon=0.05",
    "others": "?epsilon=0.05",
}
POSTS = {
    "/sign-in": (403, 403, 403),  # a session's token is not the sign-in page's
    "/sign-out": (303, 303, 303),
    "/sign-out-everywhere": (303, 303, 303),
    "/me/password": (303, 422, 422),
    "/me/tokens": (303, 422, 403),
    "/me/tokens/{token_id}/revoke": (303, 404, 403),
    "/me/sessions/{session_id}/end": (303, 404, 404),
    "/ask": (303, 404, 403),
    "/ask/check": (303, 404, 403),
    "/queries/{query_id}/withdraw": (303, 303, 403),
    "/settings": (303, 403, 422),
    "/jobs/{job_id}/cancel": (303, 403, 404),
    "/jobs/{job_id}/again": (303, 403, 404),
    "/accounts/{name}/people": (303, 403, 200),
    "/accounts/{name}/summary": (303, 403, 303),
    "/about/{dataset}": (303, 303, 403),
    "/incidents/{name}/clear": (303, 403, 422),
    "/setup/{name}": (303, 403, 404),
    "/setup/{name}/look": (303, 403, 404),
    "/setup/{name}/spend": (303, 403, 422),
    "/decide/{query_id}/look": (303, 403, 303),
    "/decide/{query_id}/reveal": (303, 403, 422),
    "/decide/{query_id}/approve": (303, 403, 422),
    "/decide/{query_id}/repeat": (303, 403, 422),
    "/decide/{query_id}/deny": (303, 403, 422),
    "/decide/{query_id}/changes": (303, 403, 422),
}
VISITORS = ("nobody", "analyst", "controller")


@pytest.fixture
def visitors(site: Site) -> Iterator[dict[str, Guest]]:
    guests = {"nobody": site.guest(), "analyst": site.guest("anna"), "controller": site.guest("carol")}
    for guest in guests.values():
        guest.follow_redirects = False
    yield guests
    for guest in guests.values():
        guest.close()


def fill(path: str, query_id: str) -> str:
    names = {"name": "clinic", "dataset": "clinic", "job_id": "x", "token_id": "x"}
    hexadecimal = {"entry_id": "0a", "session_id": "0" * 16}
    filled = path.format(query_id=query_id, **names, **hexadecimal) if "{" in path else path
    return filled + QUERY_STRINGS.get(path.rsplit("/", 1)[1], "") if path.startswith("/decide") else filled


def test_table_names_every_route(site: Site) -> None:
    names = {found.name for found in iter_modules(routes.__path__)} - {"api"}  # by token, not by session: see below
    existing = {
        (method, route.path)
        for module in (import_module(f"{routes.__name__}.{name}") for name in names)
        for route in module.router.routes
        for method in route.methods - {"HEAD"}
    }
    apart = {("GET", "/health"), ("GET", "/static/style.css")}
    assert existing | apart == {("GET", path) for path in GETS} | {("POST", path) for path in POSTS}


def test_every_get_for_every_visitor(site: Site, visitors: dict[str, Guest]) -> None:
    with site.guest("anna") as anna:
        query_id = anna.ask()
    answers = {path: [visitors[who].get(fill(path, query_id)) for who in VISITORS] for path in GETS}
    assert {path: tuple(each.status_code for each in given) for path, given in answers.items()} == GETS
    ways = {given[0].headers["location"].partition("?")[0] for given in answers.values() if given[0].is_redirect}
    assert ways == {"/sign-in"}


def test_every_post_for_every_visitor(site: Site, visitors: dict[str, Guest]) -> None:
    """Those that end sessions come last, each with sessions of its own."""
    found = {}
    with site.guest("anna") as anna:
        for path in sorted(POSTS, key=lambda path: path.startswith("/sign-out")):
            query_id = anna.ask() if "{query_id}" in path else ""
            order = ("nobody", "controller", "analyst") if "withdraw" in path else VISITORS
            statuses = {who: visitors[who].act(fill(path, query_id)).status_code for who in order}
            found[path] = tuple(statuses[who] for who in VISITORS)
            if path == "/sign-out":
                for who, name in (("analyst", "anna"), ("controller", "carol")):
                    visitors[who].follow_redirects = True
                    visitors[who].sign_in(name)
                    visitors[who].follow_redirects = False
    assert found == POSTS


def test_analysts_do_not_see_each_other(site: Site, bob: Guest, anna: Guest) -> None:
    query_id = anna.ask()
    assert bob.get(f"/queries/{query_id}").status_code == 404
    assert bob.get(f"/queries/{query_id}/status").status_code == 404
    assert bob.act(f"/queries/{query_id}/withdraw").status_code == 404
    assert COUNT not in bob.get("/queries").text
    assert COUNT not in bob.get("/ask", params={"again": query_id}).text
    with site.api("bob") as api:
        assert api.get(f"/queries/{query_id}").status_code == 404
        assert api.get("/queries").json() == {"queries": [], "following": None}


@pytest.mark.parametrize("path", ["/datasets", "/queries", "/queries/x", "/answers?dataset=clinic"])
def test_interface_needs_a_token(anna: Guest, path: str) -> None:
    for wrong in (None, "Bearer dsm_wrong", "Basic YTpi", "Bearer"):
        headers = {} if wrong is None else {"Authorization": wrong}
        response = anna.get(f"/api/v1{path}", headers=headers)  # a session's cookie counts for nothing here
        assert (response.status_code, set(response.json())) == (401, {"error"})
