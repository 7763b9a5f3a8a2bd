"""A notebook's kernel as it is after ``pip install dosimeter ipykernel``, without ipywidgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.waiting import LONGEST_WAIT

manager = pytest.importorskip("jupyter_client.manager", reason="there is no notebook kernel: pip install ipykernel")

OPEN = """
import sys
sys.modules["ipywidgets"] = None  # whether or not it is installed here
from dosimeter import Dataset
with Dataset.open({path!r}) as data:
    risk = data.risk("SELECT COUNT(*) FROM people WHERE age > 40")
    print(risk.find("ratio:0.95").epsilon)
risk
"""


def test_a_dataset_opens_and_a_risk_shows_itself(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age\n" + "\n".join(map(str, range(18, 90))) + "\n", encoding="utf-8")
    kernel, client = manager.start_new_kernel(startup_timeout=LONGEST_WAIT)
    said: list[tuple[str, dict[str, object]]] = []
    try:
        reply = client.execute_interactive(
            OPEN.format(path=str(path)),
            timeout=LONGEST_WAIT,
            output_hook=lambda message: said.append((message["msg_type"], message["content"])),
        )
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
        kernel.cleanup_resources()
    assert reply["content"]["status"] == "ok", reply["content"].get("evalue")
    shown = dict(said)
    assert float(str(shown["stream"]["text"])) == 0.05  # 1 / (1 + 1/ε) ≥ 0.95 for Laplace noise
    data = shown["execute_result"]["data"]
    assert isinstance(data, dict)
    assert "<svg" in data["text/html"]
