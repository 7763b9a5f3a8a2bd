"""Many analysts and a controller at once, on both databases: small runs of bench/web.py, without failure or jam."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dosimeter.ledger import Ledger
from tests.web.web_site import Guest, note_readers

BENCH = Path(__file__).parents[2] / "bench" / "web.py"


def run_bench(tmp_path: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    output = tmp_path / "bench.json"
    subprocess.run(
        [sys.executable, str(BENCH), "-o", str(output), *arguments], check=True, capture_output=True, timeout=1800
    )
    document: dict[str, dict[str, Any]] = json.loads(output.read_text())
    return document


def check_load(database: str, tmp_path: Path, analysts: int, seconds: int) -> None:
    """Everybody gets through, however long it takes, and every answer is in the ledger."""
    where = ["--postgres", database] if "://" in database else []
    load = run_bench(tmp_path, "--analysts", str(analysts), "--seconds", str(seconds), "--people", "0", *where)["load"]
    assert load["failures"] == 0
    assert load["submit"]["n"] >= analysts
    assert load["poll"]["n"] >= analysts
    assert load["approve"]["n"] >= 1
    if where:
        with Ledger.open(database, create=False) as ledger:
            account = ledger.account("clinic")
            assert ledger.verify().intact
            assert account is not None
            assert [entry.status for entry in account.entries] == ["released"] * load["approve"]["n"]


def test_twenty_analysts_and_a_controller_at_once(create_database: Callable[[], str], tmp_path: Path) -> None:
    check_load(create_database(), tmp_path, analysts=20, seconds=1)


@pytest.mark.long
def test_fifty_analysts_for_longer(database: str, tmp_path: Path) -> None:
    check_load(database, tmp_path, analysts=50, seconds=30)


@pytest.mark.long
def test_page_follows_the_slider_on_a_million_people(tmp_path: Path) -> None:
    """How quickly it does is for bench/web.py to say."""
    for load in run_bench(tmp_path, "--analysts", "1", "--seconds", "1")["slider"].values():
        assert load["failures"] == 0
        assert load["slider"]["n"] == 30
        assert load["ratio"]["n"] == load["variance"]["n"] == 20


def test_slider_reads_no_data(anna: Guest, carol: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why the page can follow: what it shows for another ε, or another share or variance, was measured before."""
    query_id, readers = anna.ask("SELECT sex, SUM(visits) FROM clinic GROUP BY sex"), note_readers(monkeypatch)
    assert carol.get(f"/decide/{query_id}").status_code == 200
    assert readers  # measured now
    readers.clear()
    forms = [{"epsilon": "0.04"}, {"epsilon": "10"}, {"percent": "80"}, {"preset": "variance", "tau": "0.001"}]
    readings = [carol.get(f"/decide/{query_id}/live", params=form).json() for form in forms]
    assert len({json.dumps(reading["fragments"]) for reading in readings}) == len(forms)
    assert not readers
