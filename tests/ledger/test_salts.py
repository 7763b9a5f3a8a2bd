"""What is published of a ledger, an entry's name and the head, says nothing of the data, whatever one can guess."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dosimeter import Dataset, Ledger
from dosimeter.release import write_record
from tests.known import known
from tests.ledger.raw_records import export_records
from tests.schemas import declare, plain

SCHEMA = declare("t", 100, {"name": {"type": "text", "identifying": True}, "ill": plain("boolean")}, unit="row")
pytestmark = pytest.mark.usefixtures("unsynced")


def publish(folder: Path, ill: str) -> tuple[str, str, str, list[dict[str, object]]]:
    """Release one answer at a moment that is always the same. Gives its name, head, page and all records."""
    folder.mkdir()
    (folder / "t.csv").write_text(f"name,ill\nAnn,true\nBob,{ill}\n")
    with (
        Dataset.open(folder / "t.csv", schema=SCHEMA) as dataset,
        Ledger.open(folder / "ledger.db", clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)) as ledger,
    ):
        answer = dataset.release("SELECT COUNT(*) FROM t", epsilon=0.01, ledger=ledger, policy="budget:1")
        assert answer.entry is not None
        entry = known(ledger.entry(answer.entry))
        page = write_record(entry, ledger.account("t"), ledger.verify())
        return entry.id, ledger.verify().head, page, export_records(ledger)


def test_names_and_heads_cannot_be_worked_out_from_the_data(tmp_path: Path) -> None:
    """Whoever has the same file, moment and program gets other digests from the first record on."""
    first, second = (publish(tmp_path / name, "true") for name in ("one", "two"))
    assert first[0] != second[0]  # the entry's name comes after the record that opened the account
    assert first[1] != second[1]
    for one, other in zip(first[3], second[3], strict=True):
        assert (one["kind"], one["at"]) == (other["kind"], other["at"])
        assert one["digest"] != other["digest"]


def test_the_page_for_everybody_has_no_digest_of_the_data(tmp_path: Path) -> None:
    _, head, page, records = publish(tmp_path / "one", "true")
    others = set(re.findall(r"[0-9a-f]{64}", json.dumps([record["payload"] for record in records])))
    shown = set(re.findall(r"[0-9a-f]{64}", page)) - {head}
    schema = set(re.findall(r'"schema_digest": "([0-9a-f]{64})"', json.dumps(records)))
    assert shown == schema  # public facts
    assert len(others - schema) >= 2  # the data's own, and the request's
