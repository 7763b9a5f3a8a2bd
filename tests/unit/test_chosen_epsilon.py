"""An ε that a controller chose under a preference has to meet it, at the moment of the release."""

from __future__ import annotations

import ast
import json
from decimal import Decimal
from pathlib import Path

import pytest

import dosimeter
from dosimeter import Dataset, Ledger, OptionError
from dosimeter.cli import main
from dosimeter.ledger import Account
from tests.unit.release_stays import make_table, schema_of

SQL = "SELECT COUNT(*) AS n FROM stays WHERE urgent"


def read_account(ledger: Ledger) -> Account | None:
    return ledger.account("stays")


@pytest.mark.parametrize(("prefer", "chosen"), [("error:40", 0.01), ("ratio:0.95", 0.5), ("error:40,ratio:0.9", 5.0)])
def test_an_epsilon_that_fails_the_preference_is_denied(tmp_path: Path, prefer: str, chosen: float) -> None:
    """Below what accuracy needs, above what risk allows, or both: neither charged nor explained to the analyst."""
    stays = Dataset.open(make_table(), schema=schema_of())
    met = {line.epsilon for line in stays.risk(SQL).find(prefer).candidates if line.satisfied}
    assert met
    assert chosen not in met
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        stays.release(
            "SELECT COUNT(*) AS n FROM stays", prefer="ratio:0.1", chosen=0.1, ledger=ledger, policy="budget:20"
        )
        before = read_account(ledger)
        dry = stays.dry_run(SQL, prefer=prefer, chosen=chosen, ledger=ledger)
        answer = stays.release(SQL, prefer=prefer, chosen=chosen, ledger=ledger)
        after = read_account(ledger)
    assert answer.describe() == {"status": "denied"}
    assert before is not None
    assert after is not None
    assert after.reading == before.reading
    assert after.entries[-1].reason == "chosen"
    does = f"{max(met):g} does"
    assert dry.reason == f"ε = {chosen:g} does not meet the preference; {does}."


def test_an_epsilon_that_meets_it_is_released_at_that_epsilon(tmp_path: Path) -> None:
    stays = Dataset.open(make_table(), schema=schema_of())
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        dry = stays.dry_run(SQL, prefer="error:40", chosen=0.1, ledger=ledger, policy="budget:2")
        answer = stays.release(SQL, prefer="error:40", chosen=0.1, ledger=ledger, policy="budget:2")
        account = read_account(ledger)
    assert (dry.reason, dry.describe()["epsilon"]) == (None, 0.1)
    assert answer.status == "released"
    assert account is not None
    assert account.reading.epsilon == Decimal("0.1")


def test_what_met_it_on_a_page_may_fail_on_the_data_as_they_are_by_then(tmp_path: Path) -> None:
    """Everybody urgent: all are equally exposed, and every ε meets the ratio. Nobody urgent but one: 0.5 does not."""
    shown = Dataset.open(make_table(urgent=[True] * 30), schema=schema_of())
    assert 0.5 in {line.epsilon for line in shown.risk(SQL).find("ratio:0.95").candidates if line.satisfied}
    changed = Dataset.open(make_table(urgent=[row == 0 for row in range(30)]), schema=schema_of())
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        shown.release(
            "SELECT COUNT(*) AS n FROM stays", prefer="ratio:0.1", chosen=0.1, ledger=ledger, policy="budget:20"
        )
        answer = changed.release(SQL, prefer="ratio:0.95", chosen=0.5, continued=True, ledger=ledger)
        account = read_account(ledger)
    assert answer.status == "denied"
    assert account is not None
    assert account.entries[-1].reason == "chosen"


def test_it_goes_with_a_preference_and_is_one_of_the_candidates(tmp_path: Path) -> None:
    stays = Dataset.open(make_table(), schema=schema_of())
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        with pytest.raises(OptionError, match=r"chosen.* goes with .*prefer"):
            stays.release(SQL, epsilon=0.1, chosen=0.1, ledger=ledger, policy="budget:2")
        with pytest.raises(OptionError, match="one of the candidates"):
            stays.release(SQL, prefer="ratio:0.1", chosen=0.123, ledger=ledger, policy="budget:2")
        assert read_account(ledger) is None


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clinic = Path(dosimeter.__file__).parent / "data"
    sql = "SELECT COUNT(*) FROM clinic WHERE smoker"
    shared = [str(clinic / "clinic.csv"), sql, "--schema", str(clinic / "clinic.toml"), "--policy", "budget:2"]
    shared += ["--ledger", str(tmp_path / "ledger.db"), "--prefer", "error:40", "--json"]
    assert main(["release", *shared, "--chosen", "0.1"]) == 0
    capsys.readouterr()
    assert main(["release", *shared, "--chosen", "0.01", "--dry-run"]) == 1
    assert json.loads(capsys.readouterr().out)["reason"].startswith("ε = 0.01 does not meet the preference; ")
    assert main(["release", *shared, "--chosen", "0.01"]) == 1
    assert json.loads(capsys.readouterr().out) == {"status": "denied"}


def test_every_choice_is_made_by_one_function() -> None:
    package = Path(dosimeter.__file__).parent
    makers = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Choice"
    ]
    assert makers == ["assessment/choosing.py"]
