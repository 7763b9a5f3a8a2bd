"""The digests by which a ledger knows its data, schemas, queries and requests again.

They are written down here on purpose. A change to any of them breaks every ledger in use: accounts ask for --continue,
answers that were given are charged for again. It needs a versioned reader, not a new constant.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dosimeter.dataset import Dataset
from dosimeter.options import LookOptions
from dosimeter.planning import digest_measured, knows_earlier_looks, plan_query
from dosimeter.release import Fixed, read_way
from dosimeter.release.account_terms import digest_request
from dosimeter.release.order import ReleaseOrder
from dosimeter.release.prepare import prepare_release
from dosimeter.schema.toml import digest_schema, load_schema, read_schema
from tests.unit.growing_sql import FACTS

CLINIC = Path(__file__).parents[2] / "src" / "dosimeter" / "data" / "clinic.toml"
TEXT = 'age,ward,cost\n34,eyes,12.50\n,burns,0\n71,"hands, feet",99.99\n'
QUERY = "SELECT diagnosis, COUNT(*), AVG(cost_eur) FROM clinic WHERE smoker GROUP BY diagnosis HAVING COUNT(*) > 5"

SOURCE = "2ab2287733f95a36a62b303c81628ce685ed7069a5cec5344b2c6b23e572cff3"
SCHEMA = "728729557c4fd2ddda23c077a83547ee24ffb2c3535e7553b5ac8395e4c8d985"
PLAN = "34dc9ac9565be662f102b2a463d06fb69b3a52b56942e0fbc08ef89a3aafe210"
REQUESTS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"epsilon": 10.0}, {}, "9937b680b4cf632e18b690e330e639e0b1219b1f6186f85132b34efe0c8e1958"),
    (
        {"prefer": "ratio:0.95"},
        {"mechanism": "gaussian", "delta": 1e-6},
        "f458f8b1c88eabb72160386be10bc7e81cd28d23438d12aa7f3f3692be9841eb",
    ),
    (
        {"svt": 1.0, "variance": 1e-5},
        {"candidates": "10,1,0.1"},
        "c576e5ed142761253685716779e53552617432cc65f90f61c896df4c3e254c2f",
    ),
]


COLUMNS = {name: facts for name, facts in FACTS["columns"].items() if name != "code"} | {"name": {"type": "text"}}
STAYS = read_schema({**FACTS, "columns": COLUMNS})
STAGES = [
    (
        "SELECT COUNT(*) FROM (SELECT pid, MAX(note || '!') AS n FROM v WHERE hiv GROUP BY pid) WHERE n LIKE '%x%'",
        "680828b9124e356502231e47199310c54e0c2a2458989a84a16388691c311da7",
        "807fec80cf6b62fb3197183aad41cde0f33df59a4af739607004d10595369c9a",
    ),
    (
        "SELECT AVG(c) FROM (SELECT pid, ward, SUM(cost) AS c FROM v GROUP BY pid, ward) WHERE c > 3",
        "63e7f61c8ba080fadb66bd3401b499f1a73d916667bf5e1df6162bc0f87db6a3",
        "0c514876adede094c752f2df8ca4a197a22bdd71c4009fb74023498ff0536671",
    ),
    (
        "SELECT COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY vid) AS rn FROM v) AS t WHERE rn "
        "= 1 AND pid IN (SELECT pid FROM v WHERE ward || '.' = 'eyes.')",
        "fb5597e9fc0217cb4ad3ba9997ba1b8896713b908fb69f94ac7bbd468611f2e1",
        "36e09f990cc2a82917f8775f8a811d80be74cee5f1a9674d98db3ba7a572665e",
    ),
    (
        "SELECT COUNT(*) FROM v JOIN (SELECT pid, MAX(note) AS last FROM v GROUP BY pid) AS j ON v.pid = j.pid WHERE "
        "j.last || v.note = 'x'",
        "ac163abb89faa9d9cc6038dae9cc46278c314d6c9fec497bc1162a43e20e56c1",
        "1be5d7a81037b04c65d216db66079826c8723214a5de2974a07c7d130d3dc45b",
    ),
]


def test_the_digest_of_data(tmp_path: Path) -> None:
    path = tmp_path / "any name.csv"
    path.write_bytes(TEXT.encode())
    with Dataset.open(path) as dataset:
        assert dataset.engine.fingerprint() == SOURCE


def test_the_digest_of_a_schema() -> None:
    assert digest_schema(load_schema(CLINIC)) == SCHEMA


def test_the_digest_of_a_query() -> None:
    prepared = prepare_release(load_schema(CLINIC), QUERY, LookOptions(), ReleaseOrder(Fixed(1.0)))
    assert prepared.plan.digest == PLAN


@pytest.mark.parametrize(("sql", "plan", "measured"), STAGES)
def test_the_digests_of_questions_about_each_individual(sql: str, plan: str, measured: str) -> None:
    """Looks are found again by the second one; how texts are cut before they are joined is no part of either."""
    planned = plan_query(sql, STAYS)
    assert (planned.digest, digest_measured(planned)) == (plan, measured)
    assert knows_earlier_looks(planned)


@pytest.mark.parametrize(("order", "look", "digest"), REQUESTS, ids=["fixed", "find", "find-and-release"])
def test_the_digest_of_a_request(order: dict[str, Any], look: dict[str, Any], digest: str) -> None:
    """Who asks, what for and whether it is clamped are no part of it."""
    for further in ({}, {"clamp": True}, {"analyst": "Ada", "purpose": "report", "again": True}):
        prepared = prepare_release(
            load_schema(CLINIC), QUERY, LookOptions(**look), ReleaseOrder(read_way(**order), **further)
        )
        assert digest_request(prepared, SOURCE) == digest
