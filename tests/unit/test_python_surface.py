"""What Python offers beside the command line: the same powers, the same refusals."""

from __future__ import annotations

import json
import re
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

import dosimeter
from dosimeter import Dataset, DatasetClosed, Ledger, OptionError, QueryError, Schema
from dosimeter.cli import main

PACKAGE = Path(dosimeter.__file__).parent
CLINIC = PACKAGE / "data" / "clinic.csv"
FACTS = PACKAGE / "data" / "clinic.toml"
SMOKERS = "SELECT COUNT(*) FROM clinic WHERE smoker"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    """The JSON that a command prints."""
    main(list(words))
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_the_public_names_are_these() -> None:
    """Whoever adds or takes away a name decides it here, and documents it in docs/python.md."""
    assert sorted(dosimeter.__all__) == [
        "Answer", "Budget", "Choice", "Client", "ConnectionLost", "DataError", "Dataset", "DatasetClosed",
        "DatasetStopped", "DosimeterError", "DryRun", "Explanation", "Fixed", "FoundSchema", "InputError",
        "Interrupted", "Ledger", "LedgerError", "LimitError", "OptionError", "Paper", "PreferenceError", "Preferred",
        "Query", "QueryError", "ReleaseOptions", "Risk", "Schema", "SchemaCheck", "SchemaError", "Selected",
        "ServerError", "SourceUnreachable", "Summary", "__version__",
    ]  # fmt: skip


def test_every_error_class_is_public() -> None:
    from dosimeter import errors

    classes = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert classes - set(dosimeter.__all__) == set()


def test_explain_says_what_the_command_says(capsys: pytest.CaptureFixture[str]) -> None:
    with Dataset.open(CLINIC, schema=FACTS) as clinic:
        found = clinic.explain(SMOKERS)
        assert found.describe() == run(capsys, "explain", SMOKERS, "--schema", str(FACTS), "--json")
        assert clinic.engine.rows_fetched == 0
        with pytest.raises(QueryError, match="EXCEPT"):
            clinic.explain(f"{SMOKERS} EXCEPT {SMOKERS}")


def test_a_draft_is_the_commands_draft_and_agrees_with_its_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written, saved = tmp_path / "written.toml", tmp_path / "saved.toml"
    main(["schema", str(CLINIC), "-o", str(written)])
    capsys.readouterr()
    with Dataset.open(CLINIC) as clinic:
        draft = clinic.draft_schema()
        draft.save(saved, comment="Drafted.")
        assert clinic.check_schema(draft).agrees
    assert Schema.load(saved) == draft == Schema.load(written)
    assert not draft.reviewed


def test_a_schema_in_a_notebook_shows_how_many_letters_count(tmp_path: Path) -> None:
    written = tmp_path / "s.toml"
    written.write_text('table = "t"\n[columns]\na = { type = "text", max_length = 512 }\nb = { type = "text" }\n')
    heading, *rows = re.findall(r"<tr>(.*?)</tr>", Schema.load(written)._repr_html_(), re.DOTALL)
    place = re.findall(r"<th[^>]*>(.*?)</th>", heading).index("letters that count")
    assert [re.findall(r"<td[^>]*>(.*?)</td>", row)[place] for row in rows] == ["512", ""]


def test_check_finds_what_the_command_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    narrow = tmp_path / "narrow.toml"
    narrow.write_text(FACTS.read_text(encoding="utf-8").replace("bounds = [0, 120]", "bounds = [0, 20]"), "utf-8")
    assert "[0, 20]" in narrow.read_text(encoding="utf-8")
    with Dataset.open(CLINIC, schema=FACTS) as clinic:
        assert clinic.check_schema().agrees
        risk = clinic.risk(SMOKERS)
        found = clinic.check_schema(Schema.load(narrow))
        assert not found.agrees
        assert risk.by("sex")  # the dataset's own schema is still in force
    told = run(capsys, "schema", str(CLINIC), "--check", str(narrow), "--json")
    assert told["findings"] == [{"column": line.column, "problem": line.problem} for line in found.findings]


def test_a_dry_run_charges_nothing_and_says_what_the_command_says(
    tmp_path: Path, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(CLINIC), SMOKERS, "--schema", str(FACTS), "--epsilon", "0.5", "--policy", "budget:2"]
    told = run(capsys, "release", *words, "--ledger", str(tmp_path / "a.db"), "--dry-run", "--json")
    with Dataset.open(CLINIC, schema=FACTS) as clinic:
        found = clinic.dry_run(SMOKERS, ledger=ledger, epsilon=0.5, policy="budget:2")
        assert found.describe() == told
        assert ledger.account("clinic") is None
        assert "algorithm='fixed'" in repr(found)
        assert "0.5" not in repr(found)
        assert "<td>granted</td><td>True</td>" in found._repr_html_()
        assert repr(found.found) == "FixedPreview(redacted)"


def test_what_is_public_is_printed_and_readable(ledger: Ledger) -> None:
    """An account's terms, an explanation in a few words; what is private is only named."""
    with Dataset.open(CLINIC, schema=FACTS) as clinic:
        clinic.release(SMOKERS, ledger=ledger, epsilon=0.125, policy="budget:2")
        told = repr(ledger.account("clinic"))
        assert "dataset='clinic', policy='budget:2', algorithm='mixed', entries=1" in told
        assert "0.125" not in told
        explained = clinic.explain(SMOKERS)
        assert SMOKERS in repr(explained)
        assert len(repr(explained)) < 300
        shown = explained._repr_html_()
        assert all(measure.measure in shown for measure in explained.measures)
        (group, *_) = clinic.risk(SMOKERS).by("district")
        assert str(group.group) not in repr(group)
        assert "describe()" in repr(group)


@pytest.mark.parametrize("method", ["release", "dry_run"])
def test_options_are_checked_as_on_the_command_line(tmp_path: Path, ledger: Ledger, method: str) -> None:
    with Dataset.open(CLINIC, schema=FACTS) as clinic:
        act = getattr(clinic, method)
        with pytest.raises(TypeError, match=r"unexpected keyword argument 'epsilom'"):
            act(SMOKERS, ledger=ledger, epsilom=1.0)
        with pytest.raises(OptionError, match="open Ledger"):
            act(SMOKERS, ledger=str(tmp_path), epsilon=1.0, policy="paper")
        assert ledger.account("clinic") is None


def test_a_closed_dataset_leaves_the_numbers_of_a_risk() -> None:
    """What is arithmetic answers as before; all that reads the data says that they are closed (test_closed.py)."""
    with Dataset.open(CLINIC, schema=FACTS) as clinic:
        risk = clinic.risk(SMOKERS)
        before = risk.find("ratio:0.9")
    assert risk.find("ratio:0.9") == before
    assert risk.absolute(1.0).own_epsilon == 1.0
    assert risk.distribution([1.0])["people"].to_pylist() == risk.sensitivities.counts.tolist()
    for act in (clinic.draft_schema, clinic.check_schema):
        with pytest.raises(DatasetClosed, match="closed"):
            act()
    with pytest.raises(FrozenInstanceError):
        risk.n = 1  # type: ignore[misc]


def test_values_show_themselves_in_a_notebook_offline(ledger: Ledger) -> None:
    odd = 'SELECT sex AS "<b>sex</b>", COUNT(*) FROM clinic GROUP BY sex'
    with Dataset.open(CLINIC, schema=FACTS) as clinic:
        choice = clinic.risk(SMOKERS).find("ratio:0.9")
        answer = clinic.release(odd, ledger=ledger, epsilon=1.0, policy="budget:2")
        denied = clinic.release(odd, ledger=ledger, epsilon=50.0)
        shown = {
            "choice": choice._repr_html_(),
            "answer": answer._repr_html_(),
            "denied": denied._repr_html_(),
            "schema": clinic.schema._repr_html_(),
        }
    assert f"ε = {choice.start.epsilon:g}" in shown["choice"]
    assert shown["choice"].count("<tr>") == 1 + len(choice.candidates)
    assert "&lt;b&gt;sex" in shown["answer"]
    assert "<b>" not in shown["answer"]
    assert "1-differentially private" in shown["answer"]
    assert shown["denied"] == "<p>Denied.</p>"
    assert "smoker" in shown["schema"]
    assert repr(answer) == f"Answer(status='released', epsilon=1.0, answer={answer.answer})"
    assert repr(denied) == "Answer(status='denied')"
    assert len(repr(clinic.schema)) < 200  # at a prompt: not every value of every column
    loading = ("<script", "<link", "<iframe", "src=", "href=", "url(", "@import")
    assert [(name, mark) for name, html in shown.items() for mark in loading if mark in html] == []
