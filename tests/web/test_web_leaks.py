"""Nothing that is the controller's reaches an analyst: neither on any page, nor in any answer, whatever is decided."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dosimeter.release import thresholds
from dosimeter.release.noisy_vector import NoisyVector, add_noise_to
from dosimeter.web.http.templates import render_public
from dosimeter.web.own_queries import show_query
from dosimeter.web.public import PHRASES, Public, PublicQuery
from dosimeter.web.store.stored_query import QueryStatus, StoredQuery
from dosimeter.web.store.tables import QUERIES
from tests.web.web_site import Guest, Site, make_settings, write_dataset

# Values that are easy to spot. One person moves the sum by 4242.25 and the count by 1; 1,137 people match.
SPOT, MATCHING, PEOPLE, NAME = 4242.25, 1137, 3011, "Zebulon Quagmire"
FACTS = f"""individuals = {PEOPLE}
columns.name = {{ type = "text", identifying = true }}
columns.kind = {{ type = "category", values = ["in", "out"] }}
columns.amount = {{ type = "decimal", bounds = [0, 5000], resolution = 0.25 }}"""
COUNT, TOTAL = "SELECT COUNT(*) FROM spots WHERE kind = 'in'", "SELECT SUM(amount) FROM spots WHERE kind = 'in'"
REASON = "becauseofzebulon"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, prepared_database: tuple[Path, dict[str, str]]) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("spots")
    others = (f"N{number},{'in' if number < MATCHING else 'out'},1.25" for number in range(1, PEOPLE))
    dataset = write_dataset(
        folder, "spots", ["name,kind,amount", f"{NAME},in,{SPOT}", *others], FACTS, policy="budget:100000"
    )
    database = folder / "site.db"
    database.write_bytes(prepared_database[0].read_bytes())
    running = Site.start(make_settings(str(database), {"spots": dataset}), prepared_database[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "add_noise_to", shift_answers)
        yield running
    running.stop()


def shift_answers(plan: Any, keys: Any, values: Any, noise: Any, *more: Any) -> NoisyVector:
    """In place of noise, which gives the exact count itself once in some hundred draws: 38 more, no secret."""
    drawn = add_noise_to(plan, keys, values, noise, *more)
    return NoisyVector(drawn.keys, tuple(tuple(value + 38 for value in row) for row in values))


@pytest.fixture(scope="module")
def guests(site: Site) -> Iterator[tuple[Guest, Guest]]:
    with site.guest("anna") as anna, site.guest("carol") as carol:
        yield anna, carol


def everything_anna_can_fetch(site: Site, anna: Guest, query_id: str) -> dict[str, str]:
    """Every page, fragment and document, with and without the query; also what she is refused."""
    paths = [
        "/",
        "/ask",
        f"/ask?again={query_id}",
        "/queries",
        f"/queries/{query_id}",
        f"/queries/{query_id}/status",
        "/me",
    ]
    paths += [
        f"/decide/{query_id}{part}" for part in ("", "/live", "/people?epsilon=1", "/groups?column=kind&epsilon=1")
    ]
    paths += ["/queue", "/queue/rows", "/audit", "/accounts", "/accounts/spots", "/accounts/spots/people", "/settings"]
    found = {path: anna.get(path).text for path in paths}
    for sql in (COUNT, "SELECT name FROM spots", "SELECT MODE(amount) FROM spots"):
        found[f"check {sql}"] = anna.act("/ask/check", dataset="spots", sql=sql).text
    found["withdraw"] = anna.act(f"/queries/{query_id}/withdraw").text
    for verb in ("approve", "deny", "reveal"):
        found[verb] = anna.act(f"/decide/{query_id}/{verb}", epsilon="1").text
    with site.api() as api:
        for path in ("/datasets", "/queries", f"/queries/{query_id}", "/nowhere"):
            found[f"api {path}"] = api.get(path).text
        found["api check"] = api.post("/check", json={"dataset": "spots", "sql": COUNT}).text
        found["api submit"] = api.post(
            "/queries", json={"dataset": "spots", "sql": "SELECT name FROM spots", "purpose": "x"}
        ).text
    return found


def secrets_of(epsilon: str, preference: str, reason: str) -> list[str]:
    """Exact answers, sensitivities, RDRs, two worlds, the chosen ε, the preference, the reason, who somebody is."""
    total = SPOT + (MATCHING - 1) * 1.25
    numbers = {SPOT, total, MATCHING, 1 / float(epsilon) * 1, 5000 / float(epsilon), SPOT + 5000 / float(epsilon)}
    written = {form for n in numbers for form in (f"{n:g}", f"{n:.2f}", f"{n:,.2f}", f"{n:,.0f}") if len(form) > 3}
    return [*written, epsilon, preference.split(":")[1], reason, NAME, "rdr", "RDR", "times as likely", "worlds"]


@settings(max_examples=8)
@given(
    sql=st.sampled_from([COUNT, TOTAL]),
    verdict=st.sampled_from(["approve", "deny", "changes", "none"]),
    epsilon=st.sampled_from(["0.007", "0.0080", "0.003"]),
    threshold=st.sampled_from(["0.98761", "0.97531"]),
    reason=st.text("qxzjvk", min_size=8, max_size=20),
)
def test_no_secret_reaches_an_analyst(
    site: Site, guests: tuple[Guest, Guest], sql: str, verdict: str, epsilon: str, threshold: str, reason: str
) -> None:
    anna, carol = guests
    epsilon = f"{float(epsilon):g}"
    query_id = anna.ask(sql, dataset="spots")
    carol.get(f"/decide/{query_id}")
    carol.act(f"/decide/{query_id}/reveal", epsilon="1")
    spoken = f"{REASON} {reason}"
    match verdict:
        case "approve":
            response = carol.approve(query_id, epsilon, f"ratio:{threshold}", reason=spoken)
            assert response.status_code == 200, response.text
        case "deny":
            assert carol.act(f"/decide/{query_id}/deny", reason=spoken).status_code == 200
        case "changes":
            assert carol.act(f"/decide/{query_id}/changes", phrase="coarser", reason=spoken).status_code == 200
    assert REASON in carol.get(f"/decide/{query_id}").text or verdict == "none"
    for where, text in everything_anna_can_fetch(site, anna, query_id).items():
        # Ids and times are the analyst's own and full of digits; numbers must not be found by chance inside of them.
        bare = re.sub(
            r"[0-9a-f]{20}|\d{4}-\d\d-\d\dT[\d:.]+Z|\d{4}-\d\d-\d\d \d\d:\d\d|"
            r'name="csrf" value="[^"]*"|X-CSRF-Token[^}]+',
            "",
            text,
        )
        for secret in secrets_of(epsilon, f"ratio:{threshold}", reason):
            pattern = rf"(?<![\d.,]){re.escape(secret)}(?![\d,]|\.\d)" if secret[0].isdigit() else re.escape(secret)
            found = re.search(pattern, bare)
            assert found is None, f"{secret!r} in {where}: …{bare[max(0, found.start() - 80) : found.end() + 40]}…"


SECRET = ("reason", "note", "preference", "epsilon", "decided_by", "decider", "analyst", "claim", "entry_id", "looked")


@given(
    status=st.sampled_from(QueryStatus),
    phrase=st.sampled_from([None, *PHRASES, "unknown"]),
    secret=st.text("QXZ", min_size=12, max_size=20),
)
def test_stored_secrets_stay_behind(status: QueryStatus, phrase: str | None, secret: str) -> None:
    fields: dict[str, Any] = dict.fromkeys(SECRET, secret) | {
        "id": "a", "dataset": "clinic", "sql": "SELECT 1", "purpose": "p", "priority": "low", "wanted_error": None,
        "status": status, "created_at": "t", "changed_at": secret, "phrase": phrase, "withdrawal": False,
    }  # fmt: skip
    assert set(fields) - {"analyst", "decider"} == {column.name for column in QUERIES.columns} - {"analyst_id"}
    query = StoredQuery(**fields)
    assert secret not in repr(query)
    shown = show_query(query, None)
    assert secret not in shown.model_dump_json()
    assert shown.status == ("waiting" if status in ("approving", "interrupted") else status)


def test_public_values_refuse_further_fields() -> None:
    fields: dict[str, Any] = {
        "id": "a", "dataset": "b", "sql": "c", "purpose": "d", "priority": "low", "wanted_error": None,
        "status": "waiting", "created_at": "e", "message": None, "answer": None,
    }  # fmt: skip
    assert PublicQuery(**fields).status == "waiting"
    for extra in ("rdr", "epsilon", "reason", "sensitivity", "reading"):
        with pytest.raises(ValidationError):
            PublicQuery(**(fields | {extra: 1}))
    for model in all_models(Public):
        assert model.model_config["extra"] == "forbid"
        assert not {"rdr", "pis", "sensitivity", "reading", "reason", "preference", "exact"} & set(model.model_fields)


def all_models(root: type[Public]) -> Iterator[type[Public]]:
    for model in root.__subclasses__():
        yield model
        yield from all_models(model)


def test_analyst_pages_are_made_of_public_values_only() -> None:
    with pytest.raises(TypeError, match="not for an analyst"):
        render_public(None, "query.html", None, query={"epsilon": 0.5})  # type: ignore[arg-type]


def test_schema_is_public_and_rows_are_not(api: httpx.Client) -> None:
    document = api.get("/datasets").json()
    assert document[0]["individuals"] == PEOPLE
    assert [column["name"] for column in document[0]["columns"]] == ["name", "kind", "amount"]
    assert NAME not in json.dumps(document)
