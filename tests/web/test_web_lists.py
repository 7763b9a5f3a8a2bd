"""Lists with thousands of entries: every one is reached, once, in small pages; filters find what they should."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dosimeter.web.assets import STATIC, Assets
from dosimeter.web.store import Database, QueryFilter, QueryStatus, page_decided, page_open, page_own
from dosimeter.web.store.audit_log import AuditRecord
from dosimeter.web.store.tables import QUERIES
from tests.web.web_site import USERS_AND_ROLES, Guest, Site, StartSite, find_user, read_text, write_dataset

WAITING, DECIDED = 2_000, 1_000
SMALL = 200_000  # bytes of one page, without what the browser keeps


def fill(database: Database, waiting: int = WAITING, decided: int = DECIDED) -> None:
    """Store that many queries, as many submissions and decisions would. Many share a moment, as on a busy day."""
    users = {name: find_user(database, name) for name in USERS_AND_ROLES}
    rows = []
    for number in range(waiting + decided):
        done = number >= waiting
        status = ("released", "denied", "changes", "withdrawn")[number % 4] if done else "waiting"
        at = f"2026-01-{1 + number % 28:02d}T{number % 24:02d}:00:00.000000Z"
        values: dict[str, Any] = {
            "id": f"{number:020x}", "dataset": "clinic" if number % 5 else "other",
            "analyst_id": users["anna" if number % 3 else "bob"].id,
            "sql": f"SELECT COUNT(*) FROM clinic WHERE age > {number % 97}", "purpose": f"Report no. {number}",
            "priority": ("low", "normal", "high")[number % 3], "wanted_error": 5.0 if number % 2 else None,
            "status": status, "created_at": at, "changed_at": at, "looked": False, "withdrawal": False,
            "decided_by": users["carol"].id if done else None,
        }  # fmt: skip
        rows.append(values)
    with database.writing() as connection:
        connection.execute(QUERIES.insert(), rows)


@pytest.fixture
def crowded(site: Site) -> Site:
    fill(site.state.database)
    return site


def follow(guest: Guest, address: str, inside: str, most: int) -> tuple[list[str], int, int]:
    """Return the queries of a list, part by part; how many parts, and the bytes of the largest."""
    seen: list[str] = []
    parts = largest = 0
    while address and parts < most:
        page = guest.get(address)
        assert page.status_code == 200
        largest, parts = max(largest, len(page.content)), parts + 1
        seen += re.findall(rf'href="{inside}([0-9a-f]{{20}})"', page.text.split("Recent decisions")[0])
        found = re.search(r'<a class="button" href="([^"]+)">', page.text)
        address = unescape(found[1]) if found else ""
    return seen, parts, largest


def test_every_waiting_query_is_reached_once(crowded: Site) -> None:
    """By the store for all of them, by pages for some: the most urgent first, then the oldest."""
    database, seen, place = crowded.state.database, list[tuple[str, str, str]](), ""
    while True:
        page = page_open(database, limit=500, only=QueryFilter(), place=place)
        assert page.total == WAITING
        seen += [(query.priority, query.created_at, query.id) for query in page.queries]
        if not page.following:
            break
        place = page.following
    assert len({query_id for _, _, query_id in seen}) == len(seen) == WAITING
    rank = {"high": 0, "normal": 1, "low": 2}
    assert seen == sorted(seen, key=lambda each: (rank[each[0]], each[1], each[2]))
    with crowded.guest("carol") as carol:
        listed, parts, largest = follow(carol, "/queue", "/decide/", 4)
        assert listed == [query_id for _, _, query_id in seen[:200]]
        assert (parts, largest < SMALL) == (4, True)
        assert f"({WAITING:,}) Queue" in carol.get("/queue").text
        assert len(carol.get("/queue/rows").content) < SMALL


def test_a_query_that_is_decided_meanwhile_shifts_nothing(site: Site) -> None:
    database = site.state.database
    fill(database, 30, 0)
    first = page_open(database, limit=10, only=QueryFilter())
    with database.writing() as connection:
        connection.execute(QUERIES.update().where(QUERIES.c.id == first.queries[-1].id).values(status="denied"))
        connection.execute(QUERIES.delete().where(QUERIES.c.id == first.queries[0].id))
    rest = page_open(database, limit=30, only=QueryFilter(), place=first.following)
    assert len(rest.queries) == 20
    assert not {query.id for query in rest.queries} & {query.id for query in first.queries}


def test_decisions_come_in_parts_and_withdrawals_apart(crowded: Site) -> None:
    with crowded.guest("carol") as carol:
        seen, parts, largest = follow(carol, "/decided", "/decide/", 100)
        withdrawn, _, _ = follow(carol, "/decided?status=withdrawn", "/decide/", 100)
        recent = carol.get("/queue").text.split("Recent decisions")[1]
    assert len(seen) == len(set(seen)) == DECIDED * 3 // 4
    assert (parts, largest < SMALL) == (-(-len(seen) // 50), True)
    assert len(set(withdrawn)) == DECIDED // 4
    assert not set(seen) & set(withdrawn)
    assert "withdrawn</span>" not in recent


def test_filters_find_by_dataset_analyst_status_and_words(site: Site) -> None:
    database = site.state.database
    fill(database, 400, 200)
    anna = find_user(database, "anna")
    with database.reading() as connection:
        rows = connection.execute(QUERIES.select()).mappings().all()

    def expect(**wanted: Any) -> set[str]:
        return {row["id"] for row in rows if all(row[name] == value for name, value in wanted.items())}

    def find(only: QueryFilter) -> set[str]:
        return {query.id for query in page_open(database, limit=1_000, only=only).queries}

    assert find(QueryFilter(dataset="other")) == expect(dataset="other", status="waiting")
    assert find(QueryFilter(analyst=" Anna ")) == expect(analyst_id=anna.id, status="waiting")
    assert expect(purpose="Report no. 123") <= find(QueryFilter(text=" rePORT no. 123 "))
    words = {row["id"]: row["sql"] + row["purpose"] + row["id"] for row in rows if row["status"] == "waiting"}
    assert find(QueryFilter(text="AGE 96")) == {query_id for query_id, text in words.items() if "96" in text}
    assert find(QueryFilter(text="100%")) == find(QueryFilter(text="_")) == set()
    own = page_own(database, anna, limit=1_000, only=QueryFilter(status="denied"))
    assert {query.id for query in own.queries} == expect(analyst_id=anna.id, status="denied")
    decided = page_decided(database, limit=1_000, only=QueryFilter(status="changes", dataset="clinic"))
    assert {query.id for query in decided.queries} == expect(dataset="clinic", status="changes")
    with site.guest("carol") as carol:
        for bad in ({"place": "x"}, {"place": "2026-01-01T00:00:00.000000Z.ab"}, {"text": "x" * 201}):
            assert carol.get("/queue", params=bad).status_code == 422
        assert carol.get("/decided", params={"status": "waiting"}).status_code == 422


def test_an_approval_under_way_looks_like_one_that_waits(site: Site, anna: Guest) -> None:
    """Also to the filter: an analyst must not learn from a list what their page does not tell."""
    waiting, approving, left = (anna.ask() for _ in range(3))
    under_way = {"status": QueryStatus.APPROVING}
    changes: dict[str, dict[str, Any]] = {approving: under_way, left: {**under_way, "withdrawal": True}}
    with site.state.database.writing() as connection:
        for query_id, values in changes.items():
            connection.execute(QUERIES.update().where(QUERIES.c.id == query_id).values(**values))

    def listed(status: str) -> set[str]:
        return set(re.findall(r'href="/queries/(\w+)"', anna.get("/queries", params={"status": status}).text))

    assert listed("waiting") == {waiting, approving}
    assert listed("withdrawn") == {left}
    assert listed("released") == listed("denied") == set()
    assert anna.get("/queries", params={"status": "approving"}).status_code == 422


def test_an_analyst_reaches_all_own_queries(crowded: Site) -> None:
    own = WAITING + DECIDED - len(range(0, WAITING + DECIDED, 3))
    with crowded.guest("anna") as anna, crowded.api("anna") as api:
        seen, _, largest = follow(anna, "/queries", "/queries/", 3)
        assert len(set(seen)) == 150
        assert largest < SMALL
        assert f"{own:,} queries" in anna.get("/queries").text
        first = api.get("/queries", params={"limit": 100}).json()
        second = api.get("/queries", params={"limit": 100, "place": first["following"]}).json()
        ids = [query["id"] for document in (first, second) for query in document["queries"]]
        assert ids[:150] == seen
        assert len(set(ids)) == 200
        (released,) = api.get("/queries", params={"status": "released", "limit": 1}).json()["queries"]
        assert released["status"] == "released"


def test_the_queue_says_which_epsilon_the_wanted_accuracy_needs(anna: Guest, carol: Guest) -> None:
    """Noise on whole numbers, of scale 1/ε: ± 5 needs the smallest ε with P(|noise| > 5) ≤ 5 %, whatever the data."""
    anna.ask(wanted_error="5")
    anna.ask("SELECT AVG(age) FROM clinic", wanted_error="5")  # it depends on how many people there are
    page = read_text(carol.get("/queue").text)
    tails = {tenths / 10: 2 * math.exp(-0.6 * tenths) / (1 + math.exp(-0.1 * tenths)) for tenths in range(1, 11)}
    needed = min(epsilon for epsilon, tail in tails.items() if tail <= 0.05)
    assert page.count(f"needs ε = {needed:g}") == page.count("needs ε") == 1


# ---------------------------------------------------------------- wide and long


@pytest.fixture
def wide(start_site: StartSite, tmp_path: Path) -> Site:
    names = [f"q{number:03d}" for number in range(348)]
    values = ", ".join(f'"v{number:05d}"' for number in range(10_000))
    facts = f'individuals = 10\n[columns]\ncode = {{ type = "category", values = [{values}] }}\n'
    told = f'description = "{"Answer " * 60}"'
    facts += "".join(f'{name} = {{ type = "integer", bounds = [0, 4], {told} }}\n' for name in names)
    lines = [",".join(["code", *names]), ",".join(["v00001", *["1"] * 348])]
    dataset = write_dataset(tmp_path, "wide", lines, facts, algorithm="fixed", policy="budget:9")
    return start_site(datasets={"wide": dataset})


def test_349_columns_and_10_000_groups_stay_usable(wide: Site) -> None:
    with wide.guest("anna") as anna, wide.guest("carol") as carol:
        page = anna.get("/ask")
        assert len(page.content) < SMALL
        assert "q200" not in page.text
        assert "1 of 349 columns" in anna.get("/ask/schema", params={"dataset": "wide", "find": "q200"}).text
        values = anna.get("/ask/values", params={"dataset": "wide", "column": "code", "text": "v0999"})
        assert values.text.count("<li>") == 10
        assert len(anna.get("/ask/values", params={"dataset": "wide", "column": "code"}).content) < SMALL
        anna.ask("SELECT " + ", ".join(f"SUM(q{n:03d})" for n in range(100)) + " FROM wide", dataset="wide")
        groups = anna.ask("SELECT code, COUNT(*) FROM wide GROUP BY code", dataset="wide")
        assert carol.approve(groups, "1", preference="").status_code == 200
        for path in ("/queue", "/decided", "/audit"):
            assert len(carol.get(path).content) < SMALL, path
        sizes, first, seen = [], 1, 0
        while first:
            part = anna.get(f"/queries/{groups}", params={"from": first})
            sizes.append(len(part.content))
            seen += part.text.count('<td class="num"')
            later = re.search(r'from=(\d+)">Next rows', part.text)
            first = int(later[1]) if later and len(sizes) < 5 else 0
        assert max(sizes) < SMALL
        assert seen == 500
        assert "Rows 1 to 100 of 10,000" in anna.get(f"/queries/{groups}").text
        assert len(anna.get("/answers").content) < SMALL
        lines = list(csv.reader(io.StringIO(anna.get(f"/queries/{groups}/answer.csv").text)))
        assert (lines[0], len(lines)) == (["code", "count", "count error_95"], 10_001)


# ---------------------------------------------------------------- files that browsers keep


def test_static_files_are_packed_and_kept_for_good(guest: Guest, tmp_path: Path) -> None:
    """Until their content changes, which gives them another address."""
    assets = Assets()
    names = sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file())
    for name in names:
        whole = guest.get(assets.address(name), headers={"Accept-Encoding": "identity"})
        with guest.stream("GET", assets.address(name), headers={"Accept-Encoding": "gzip"}) as response:
            sent = b"".join(response.iter_raw())
            packed = response.headers.get("content-encoding") == "gzip"
        assert whole.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert whole.headers["vary"] == "Accept-Encoding"
        assert (gzip.decompress(sent) if packed else sent) == whole.content
        assert packed or len(whole.content) < 1_000, name
        assert len(sent) <= len(whole.content)
        assert whole.content == (STATIC / name).read_bytes()
    plain = guest.get("/static/style.css")
    assert "immutable" not in plain.headers["cache-control"]
    assert guest.get("/static/0123456789abcdef/style.css").headers["cache-control"] == plain.headers["cache-control"]
    page = guest.get("/sign-in").text
    assert {asset.partition("/")[2] for asset in re.findall(r'="/static/([^"]+)"', page)} <= set(names)
    head = guest.head("/sign-in")
    assert (head.status_code, head.content) == (200, b"")
    (tmp_path / "a.css").write_text("1")
    before = Assets(tmp_path).address("a.css")
    assert Assets(tmp_path).address("a.css") == before
    (tmp_path / "a.css").write_text("2")
    assert Assets(tmp_path).address("a.css") != before


# ---------------------------------------------------------------- the audit log as files, and what belongs together


def test_the_audit_log_is_exported_whole_and_in_part(anna: Guest, carol: Guest) -> None:
    """No name in it is a formula for whoever opens the CSV file; the whole has it as it was chained."""
    query_id = anna.ask()
    anna.act("/me/tokens", name="=1+1")
    carol.get(f"/decide/{query_id}")
    carol.get(f"/decide/{query_id}/people", params={"epsilon": "0.05"})
    whole = [json.loads(line) for line in carol.get("/audit/export.jsonl").text.splitlines()]
    assert [record["id"] for record in whole] == list(range(1, len(whole) + 1))
    for before, record in pairwise(whole):
        assert record["previous"] == before["digest"]
        assert AuditRecord(**record).compute_digest() == record["digest"]
    assert whole[-1]["action"] == "exported the audit log"
    part = list(csv.DictReader(io.StringIO(carol.get("/audit/export.csv", params={"who": "anna"}).text)))
    assert {row["user"] for row in part} == {"anna"}
    assert "'=1+1" in {row["detail"] for row in part}
    assert "=1+1" in {record["detail"] for record in whole}
    assert [int(row["id"]) for row in part] == [r["id"] for r in reversed(whole) if r["user"] == "anna"]
    page = carol.get("/audit")
    assert len(page.content) < SMALL
    assert "viewed risk, viewed" in read_text(page.text)  # one visit, one line
    assert "Wilson disease" in page.text  # the query itself, not only its number
