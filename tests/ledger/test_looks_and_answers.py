"""Who looked at what before, whatever its wording; who continued an account; what every analyst may see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.cli import main
from dosimeter.errors import DatasetStopped
from dosimeter.release import Fixed, write_record
from tests.known import known
from tests.ledger.raw_records import describe_datasets
from tests.ledger.test_incidents import FAILING, SCHEMA, SOUND
from tests.recorded.recorded_files import write_bad_bytes
from tests.schemas import category, declare, plain, whole

WARDS: dict[str, Any] = declare(
    "wards", 40, {"age": whole(0, 99), "smoker": plain("boolean"), "ward": category("north", "south")}
)
ROWS: dict[str, list[object]] = {
    "age": [at * 3 % 97 for at in range(30)],
    "smoker": [at % 3 == 0 for at in range(30)],
    "ward": ["north" if at % 2 else "south" for at in range(30)],
}
REMARK = "was looked at before"
SMOKERS = "SELECT COUNT(*) FROM wards WHERE smoker"


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with Ledger.open(tmp_path / "ledger.db") as opened:
        yield opened


@pytest.fixture
def wards() -> Any:
    with Dataset.open(pa.table(ROWS), schema=WARDS) as dataset:
        yield dataset


def look(dataset: Dataset, ledger: Ledger, sql: str, analyst: str | None = None) -> None:
    dataset.query(sql).dry_run(ledger, Fixed(0.01), policy="budget:9", analyst=analyst)


def ask(dataset: Dataset, ledger: Ledger, sql: str, **options: Any) -> str:
    return known(dataset.release(sql, ledger=ledger, epsilon=0.01, policy="budget:9", **options).guarantee)


# ---------------------------------------------------------------- looked at before


@pytest.mark.parametrize(
    "wording",
    [
        SMOKERS,
        "SELECT COUNT(*) AS c FROM wards WHERE smoker",
        "select count(*) /* smokers */\nfrom WARDS w where w.SMOKER -- all",
        "SELECT COUNT(*) FROM wards WHERE smoker AND 1 = 1",
        "SELECT COUNT(*) FROM wards WHERE TRUE AND (smoker AND TRUE)",
        "SELECT 2 * COUNT(*) AS twice FROM wards WHERE NOT (NOT smoker) HAVING COUNT(*) > 1 LIMIT 1",
        "WITH s AS (SELECT smoker AS s FROM wards) SELECT COUNT(*) FROM s WHERE s = TRUE",
    ],
)
def test_other_words_do_not_lose_a_look(wards: Dataset, ledger: Ledger, wording: str) -> None:
    look(wards, ledger, SMOKERS)
    assert REMARK in ask(wards, ledger, wording)
    assert known(ledger.account("wards")).entries[-1].viewed


@pytest.mark.parametrize(
    "other",
    [
        "SELECT COUNT(*) FROM wards",
        "SELECT COUNT(*) FROM wards WHERE NOT smoker",
        "SELECT COUNT(*) FROM wards WHERE smoker AND age > 3",
        "SELECT COUNT(age) FROM wards WHERE smoker",
        "SELECT ward, COUNT(*) FROM wards WHERE smoker GROUP BY ward",
    ],
)
def test_another_question_was_not_looked_at(wards: Dataset, ledger: Ledger, other: str) -> None:
    look(wards, ledger, SMOKERS)
    assert REMARK not in ask(wards, ledger, other)


def test_a_look_of_version_0_1_0_still_counts(wards: Dataset, ledger: Ledger) -> None:
    """It was recorded by the digest of the query's text."""
    ledger.record_view("wards", wards.plan(SMOKERS).digest, "risk")
    assert REMARK in ask(wards, ledger, SMOKERS)


def test_a_look_for_one_analyst_tells_another_nothing(wards: Dataset, ledger: Ledger) -> None:
    look(wards, ledger, SMOKERS, analyst="anna")
    for analyst in ("eve", None):
        assert REMARK not in ask(wards, ledger, SMOKERS, analyst=analyst, again=True)
    assert REMARK in ask(wards, ledger, SMOKERS, analyst="anna", again=True)
    account = known(ledger.account("wards"))
    assert [(entry.viewed, entry.told) for entry in account.entries] == [(True, False)] * 2 + [(True, True)]


@pytest.mark.parametrize("looked_for", [(), ("anna",), (None,), ("eve",)], ids=["nobody looked", "own", "any", "other"])
@pytest.mark.parametrize("way", [{"epsilon": 0.01}, {"svt": 0.01, "variance": 0.5}, {"prefer": "ratio:0.5"}])
def test_a_record_does_not_contradict_the_ledger(
    wards: Dataset, ledger: Ledger, looked_for: tuple[str | None, ...], way: dict[str, Any]
) -> None:
    """In each of the cases, what the page says of looks and of how ε was set is what happened, and no more."""
    for analyst in looked_for:
        look(wards, ledger, SMOKERS, analyst=analyst)
    policy = "paper" if "prefer" in way else "budget:9"
    answer = wards.release(SMOKERS, ledger=ledger, policy=policy, analyst="anna", **way)
    entry = known(ledger.entry(answer.entry or ""))
    assert entry.status == "released"
    page, private = (write_record(entry, None, None, controller=each) for each in (False, True))
    own = looked_for in (("anna",), (None,))
    if "prefer" in way:
        assert "from the data themselves" in page
        assert "no look" not in page
    else:
        assert (REMARK in page) == own
        assert ("after that look" in page) == own
        assert ("no look at the data before that is on record for this request" in page) == (not own)
        assert page.count("depend on the data") == own
    for untrue in ("beforehand, without", "without the data"):
        assert untrue not in page
    assert "another analyst" not in page
    told = "no" if not looked_for else "yes" if own else "yes, for another analyst who asked the same"
    assert f"<dt>Looked at before</dt><dd>{told}</dd>" in private


def test_a_look_for_nobody_in_particular_counts_for_everybody(wards: Dataset, ledger: Ledger) -> None:
    look(wards, ledger, SMOKERS)
    for analyst in ("anna", "eve", None):
        assert REMARK in ask(wards, ledger, SMOKERS, analyst=analyst, again=True)


# ---------------------------------------------------------------- who continued


def test_the_record_names_who_said_that_the_people_are_the_same(ledger: Ledger) -> None:
    for at, people in enumerate((("anna", None), ("anna", "carol"), ("anna", None))):
        rows = {name: values[at:] for name, values in ROWS.items()}
        with Dataset.open(pa.table(rows), schema=WARDS) as dataset:
            dataset.query(SMOKERS).release(
                ledger, Fixed(0.01), policy="budget:9", analyst=people[0], approved_by=people[1], continued=True
            )
    shown = describe_datasets(ledger)[0]["continuations"]
    assert [line["by"] for line in shown] == ["carol", "anna"]
    assert all(line["at"].endswith("Z") and len(line["source_digest"]) == 64 for line in shown)


def test_what_cannot_be_measured_is_not_continued(ledger: Ledger, tmp_path: Path) -> None:
    """The account stays of the good file, and goes on with it without a word."""
    good = pa.table({"x": [1, 2, 3], "name": ["Ann", "Bob", "Eve"]})
    with Dataset.open(good, schema=SCHEMA) as dataset:
        dataset.release(SOUND, ledger=ledger, epsilon=0.1, policy="budget:1")
        account = known(ledger.account("patients"))
    with (
        Dataset.open(write_bad_bytes(tmp_path / "bad.parquet"), schema=SCHEMA) as dataset,
        pytest.raises(DatasetStopped),
    ):
        dataset.release(FAILING, ledger=ledger, epsilon=0.1, continued=True)
    ledger.clear("patients", by="Carol", reason="the good file is back")
    after = known(ledger.account("patients"))
    assert (after.agreed, after.continuations, after.identities) == (account.agreed, (), account.identities)
    with Dataset.open(good, schema=SCHEMA) as dataset:
        assert dataset.release(SOUND, ledger=ledger, epsilon=0.1, again=True).status == "released"


# ---------------------------------------------------------------- what every analyst may see


def test_released_answers_are_listed_without_who_and_why(
    wards: Dataset, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    first = wards.release(
        SMOKERS, ledger=ledger, epsilon=0.5, policy="budget:1", analyst="anna", purpose="the trial of May"
    )
    wards.release("SELECT COUNT(*) FROM wards", ledger=ledger, epsilon=3.0, analyst="anna")  # denied
    (released,) = known(ledger.account("wards")).released_answers()
    listed = released.describe()
    assert (listed["query"], listed["answer"], listed["guarantee"]) == (SMOKERS, first.answer, first.guarantee)
    assert (listed["epsilon"], listed["error_95"]) == (0.5, list(first.error_95 or ()))
    assert main(["ledger", ledger._store.backend.label, "answers", "wards"]) == 0
    printed = capsys.readouterr().out
    assert SMOKERS in printed
    for told in (json.dumps(listed), repr(released), printed):
        assert "anna" not in told
        assert "trial" not in told


def test_under_algorithm_1_no_epsilon_and_no_error_is_listed(wards: Dataset, ledger: Ledger) -> None:
    wards.release(SMOKERS, ledger=ledger, prefer="ratio:0.5", policy="paper")
    (listed,) = known(ledger.account("wards")).released_answers()
    assert [listed.epsilon, listed.epsilon_svt, listed.error_95] == [None, None, None]
    assert listed.describe().items() >= {"epsilon": None, "epsilon_svt": None, "error_95": None}.items()
    assert listed.rows


@pytest.mark.parametrize(("people", "warned"), [(10, True), (11, False)])
def test_few_people_are_warned_of_when_their_account_is_opened(ledger: Ledger, people: int, warned: bool) -> None:
    with Dataset.open(pa.table({"x": range(5)}), schema=declare("t", people, {"x": whole(0, 9)})) as dataset:
        terms: dict[str, Any] = {"ledger": ledger, "epsilon": 0.5, "policy": "budget:9", "again": True}
        first, later = (dataset.release("SELECT COUNT(*) FROM t", **terms) for _ in range(2))
    assert ("δ = 0.1 is large" in "".join(first.notes)) is warned
    assert later.notes == ()  # said when it is opened, and in the account from then on
    assert bool(describe_datasets(ledger)[0]["notes"]) is warned
