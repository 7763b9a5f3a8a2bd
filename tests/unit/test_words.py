"""What is counted is called by the schema's words, and what does not count is told before anybody asks."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from dosimeter import Dataset
from dosimeter.findings import Finding, word
from dosimeter.findings import on_answer as answer
from dosimeter.findings import on_people as people
from dosimeter.inspection.naming import name_rows
from dosimeter.planning import PlanOptions, plan_query
from dosimeter.postprocess import list_facts, note_public_facts, tell_ranks
from dosimeter.schema import PLAIN, Schema, Words, read_schema

VISITS = {
    "table": "visits", "individuals": 3_000, "unit": "patient", "max_rows_per_unit": 3, "row": "stay",
    "individual": "patient",
    "columns": {
        "patient": {"type": "text"}, "urgent": {"type": "boolean"}, "doctor": {"type": "text"},
        "ward": {"type": "category", "values": ["A", "B"]}, "charges": {"type": "integer", "bounds": [0, 5_000]},
    },
    "tables": {
        "labs": {"public": False, "unit": "patient", "max_rows_per_unit": 2,
                 "columns": {"patient": {"type": "text"}, "value": {"type": "integer", "bounds": [0, 9]}}},
        "wards": {"public": True, "key": "name",
                  "columns": {"name": {"type": "category", "values": ["A", "B"]}, "floor": {"type": "integer"}}},
    },
}  # fmt: skip
SCHEMA = read_schema(VISITS)
ROWS = replace(SCHEMA, unit="row", max_rows_per_unit=1, row=None, tables={})


@pytest.mark.parametrize(
    ("given", "rows", "patients"),
    [
        ({}, "2 rows", "1 person"),
        ({"row": "stay"}, "2 stays", "1 stay"),
        ({"individual": "patient"}, "2 patients", "1 patient"),
        ({"row": "stay", "individual": "patient"}, "2 stays", "1 patient"),
        ({"row": "stay", "unit": "patient"}, "2 stays", "1 person"),
        ({"individual": "patient", "unit": "patient"}, "2 rows", "1 patient"),
        ({"row": "entry", "rows": "entries", "unit": "patient"}, "2 entries", "1 person"),
    ],
)
def test_one_word_serves_for_both_where_each_row_is_an_individual(
    given: dict[str, Any], rows: str, patients: str
) -> None:
    words = Schema("t", {}, **given).words
    assert (words.count_rows(2), words.count_people(1)) == (rows, patients)


def test_counts_are_written_with_one_or_several() -> None:
    assert [PLAIN.count_people(count) for count in (0, 1, 3_997)] == ["0 people", "1 person", "3,997 people"]
    child = Words.of("visit", None, "child", "children")
    assert (child.count_people(2), child.count_rows(1), child.rows) == ("2 children", "1 visit", "visits")


@pytest.mark.parametrize(
    ("table", "unit", "row", "individual"),
    [
        ("visits", "patient_id", ("visit", "visits"), ("patient", "patients")),
        ("visits", "row", ("visit", "visits"), ("visit", "visits")),
        ("patients", "row", ("patient", "patients"), ("patient", "patients")),
        ("patients", "patient_id", ("row", "rows"), ("patient", "patients")),
        ("hospital_stays_2024", "SubjectNo", ("stay", "stays"), ("subject", "subjects")),
        ("entries", "child_id", ("entry", "entries"), ("child", "children")),
        ("diagnoses", "pid", ("diagnosis", "diagnoses"), ("person", "people")),
        ("houses", "tailnum", ("house", "houses"), ("person", "people")),
        ("people", "row", ("row", "rows"), ("person", "people")),
        ("adult", "row", ("row", "rows"), ("person", "people")),
        ("series", "email", ("row", "rows"), ("person", "people")),
        ("besuche", "patienten_nr", ("row", "rows"), ("patienten", "patientens")),
    ],
)
def test_drafts_are_named_after_table_and_unit(
    table: str, unit: str, row: tuple[str, str], individual: tuple[str, str]
) -> None:
    words = name_rows(Schema(table, {}, unit=unit)).words
    assert ((words.row, words.rows), (words.individual, words.people)) == (row, individual)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("COUNT(*) FROM visits", "stays"),
        ("COUNT(*) FROM visits JOIN wards ON ward = name", "stays"),
        ("COUNT(*) FROM visits JOIN labs USING (patient)", "rows"),
        ("AVG(n) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient)", "patients"),
        ("AVG(n) FROM (SELECT patient, ward, COUNT(*) AS n FROM visits GROUP BY 1, 2)", "rows"),
    ],
)
def test_only_rows_of_the_table_go_by_its_word(sql: str, rows: str) -> None:
    assert plan_query(f"SELECT {sql}", SCHEMA).words.rows == rows


COUNTING: tuple[Finding, ...] = (
    answer.Unstated(((0.1, 1.5),)), people.FewTouched(2), people.FewInGroup(1), people.EquallyExposed(900),
    people.OwnGuarantee(0.2), people.RightGuesses(0.1), people.DecidesNothing(1.0, 0.1, 0.01, None, 7, 7),
    people.AllowedByGroups(1.0, 0.5), answer.AnyValue(47.0, 11, 1), people.SinglesOut(("name",), ("name = 'a'",)),
)  # fmt: skip


@pytest.mark.parametrize("found", COUNTING, ids=lambda found: type(found).__name__)
def test_findings_count_in_the_schemas_words(found: Finding) -> None:
    """With other words the sentence is another, and nothing in it is called a person or a row any more."""
    told = word(found, SCHEMA.words)
    assert told != word(found)
    assert not {"person", "people", "row", "rows"} & set(told.replace(",", " ").replace("'s", " ").split())
    assert "patient" in told


CUT, CLAMPED, GROUPS = "3 stays of each patient", "above 5,000 as 5,000", "Only the declared groups"


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("COUNT(*) FROM visits", {CUT}),
        ("SUM(charges) FROM visits", {CUT, CLAMPED}),
        ("ward, COUNT(*) FROM visits GROUP BY ward", {CUT, GROUPS}),
        ("ward, AVG(charges) FROM visits GROUP BY ward", {CUT, CLAMPED, GROUPS}),
        ("doctor, COUNT(*) FROM visits GROUP BY doctor", {CUT}),
    ],
)
def test_what_does_not_count_is_told_beforehand_and_afterwards(sql: str, told: set[str]) -> None:
    """By the declared facts alone: whoever has one row and stays within everything declared loses nothing."""
    undeclared = "doctor" in sql
    options = PlanOptions(groups="thresholded", group_delta=1e-6) if undeclared else PlanOptions()
    plan = plan_query(f"SELECT {sql}", SCHEMA, options)
    said = " ".join(note_public_facts(plan))
    assert {fact for fact in (CUT, CLAMPED, GROUPS) if fact in said} == told
    assert list_facts(plan, None, clamp=False, errors=True).most_rows == 3
    if not undeclared:
        said = " ".join(note_public_facts(plan_query(f"SELECT {sql}", ROWS)))
        assert {fact for fact in (CUT, CLAMPED, GROUPS) if fact in said} == told - {CUT}


def obey(rows: list[tuple[int, str, int]], told: str, grouped: bool) -> dict[str, list[int]]:
    """Return COUNT and SUM of each ward, or of all, over rows that were made to obey the facts that are told."""
    if CUT in told:
        rows = [row for at, row in enumerate(rows) if sum(row[0] == other[0] for other in rows[:at]) < 3]
    if CLAMPED in told:
        rows = [(who, ward, min(max(charges, 0), 5_000)) for who, ward, charges in rows]
    groups = {"A", "B"} if GROUPS in told else {ward for _, ward, _ in rows}
    kept = {key: [row for row in rows if row[1] == key or not grouped] for key in (groups if grouped else {""})}
    return {key: [len(found), sum(row[2] for row in found)] for key, found in kept.items()}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("schema", [replace(SCHEMA, tables={}), ROWS], ids=["several rows", "a row each"])
@pytest.mark.parametrize("sql", ["COUNT(*)", "SUM(charges)", "ward, COUNT(*)", "ward, SUM(charges)"])
def test_where_nothing_is_told_the_measured_number_is_the_tables_own(sql: str, schema: Schema, seed: int) -> None:
    """Of a table that breaks every declared fact, what is measured is what Python counts once the told facts are met.

    All rows of one patient are alike, so that it does not matter which of them count.
    """
    random, grouped = Random(seed), sql.startswith("ward")
    each = [(who, random.choice("ABC"), random.randint(-900, 9_000), random.randint(1, 5)) for who in range(40)]
    rows = [(who, ward, charges) for who, ward, charges, times in each for _ in range(times)]
    table = pa.table(
        {
            "patient": [f"p{who}" for who, _, _ in rows],
            "urgent": [True] * len(rows),
            "doctor": ["x"] * len(rows),
            "ward": [ward for _, ward, _ in rows],
            "charges": [charges for _, _, charges in rows],
        }
    )
    with Dataset.open(table, schema=schema, table="visits") as dataset:
        risk = dataset.risk(f"SELECT {sql} FROM visits{' GROUP BY ward' * grouped}")
        measured, told = risk.measured(), " ".join(note_public_facts(risk.plan))
    found = {
        key[0] if grouped else "": int(values[0]) for key, values in zip(measured.keys, measured.values, strict=True)
    }
    expected = {key: numbers["SUM" in sql] for key, numbers in obey(rows, told, grouped).items()}
    assert found == expected
    assert found != {key: numbers["SUM" in sql] for key, numbers in obey(rows, "", grouped).items()} or not told


def test_the_error_of_a_rank_says_of_how_many() -> None:
    told = " ".join(tell_ranks(plan_query("SELECT ward, MEDIAN(charges) FROM visits GROUP BY ward", SCHEMA), 1.0))
    assert "stays of the middle" in told
    assert "3,000 patients in 2 groups" in told
