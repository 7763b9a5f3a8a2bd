"""Groups that nobody declared (H1): what is charged, repeated, refused and shown, and that nothing else gets out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from dosimeter import Dataset, Ledger, LedgerError, OptionError, QueryError
from dosimeter.influence import observed_keys
from dosimeter.influence.rows import row_profile
from dosimeter.planning import digest_measured, read_where
from dosimeter.planning.measured import thresholding
from dosimeter.release import thresholds
from dosimeter.release.ex_post import ex_post_risk
from tests.known import known
from tests.schemas import declare, plain, whole

TOPICS = ["flu"] * 300 + ["gout"] * 80 + ["rare"] * 4 + [f"alone-{at}" for at in range(30)] + [None] * 6
DAYS = [19_800 + at % 3 for at in range(len(TOPICS))]
NOTES = pa.table(
    {
        "name": [f"n{at}" for at in range(len(TOPICS))],
        "topic": pa.array(TOPICS, pa.string()),
        "day": pa.array(DAYS, pa.date32()),
        "x": [at % 10 for at in range(len(TOPICS))],
    }
)
FACTS: dict[str, Any] = declare(
    "notes",
    500,
    {"name": {"type": "text", "identifying": True}, "topic": plain("text"), "day": plain("date"), "x": whole(0, 9)},
)
COUNTS = "SELECT topic, COUNT(*) AS n FROM notes GROUP BY topic"
THRESHOLDED: dict[str, Any] = {"groups": "thresholded", "group_delta": 1e-6}
TERMS: dict[str, Any] = {"policy": "budget:1000", "delta_total": 1e-4}
SHOWN = {"epsilon": 1.0, **THRESHOLDED, **TERMS}


def open_notes(**changed: Any) -> Dataset:
    return Dataset.open(NOTES, schema={**FACTS, **changed}, table="notes")


@pytest.fixture
def notes() -> Iterator[Dataset]:
    with open_notes() as dataset:
        yield dataset


# ---------------------------------------------------------------- answers


def test_shown_groups_are_those_with_many_people(notes: Dataset, ledger: Ledger) -> None:
    """T = 15 at ε = 1: groups of 300 and 80 fall below it once in e^65, one of 4 people shows up once in 17,000."""
    answer = notes.release(COUNTS, ledger=ledger, **SHOWN)
    found: dict[Any, Any] = {row["topic"]: row["n"] for row in answer.answer or ()}
    assert found.keys() >= {"flu", "gout"}
    assert not any(str(topic).startswith("alone") for topic in found)
    assert abs(found["flu"] - 300) < 60  # noise of scale 1
    assert "(1, 1e-06)-differentially private" in known(answer.guarantee)
    account = known(ledger.account("notes"))
    assert account.entries[0].delta == Decimal("0.000001")
    assert account.reading.delta == Decimal("0.000001")


def test_gaussian_noise_and_groups_add_their_deltas(notes: Dataset, ledger: Ledger) -> None:
    answer = notes.release(COUNTS, ledger=ledger, mechanism="gaussian", delta=1e-5, **SHOWN)
    assert known(ledger.account("notes")).entries[0].delta == Decimal("0.000011")
    assert "(1, 1.1e-05)" in (answer.guarantee or "")


def test_what_comes_after_works_on_shown_groups(notes: Dataset, ledger: Ledger) -> None:
    sql = (
        "SELECT topic, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM notes GROUP BY topic "
        "HAVING COUNT(*) > 30 ORDER BY n LIMIT 1"
    )
    answer = notes.release(sql, ledger=ledger, **SHOWN)
    assert [(row["topic"], row["place"]) for row in answer.answer or ()] == [("gout", 2)]


def test_null_is_a_group_where_it_is_declared(ledger: Ledger) -> None:
    columns = {**FACTS["columns"], "topic": {"type": "text", "nulls": True}}
    exact = {"epsilon": 200.0, **THRESHOLDED, **TERMS}
    with open_notes(columns=columns) as dataset:
        rows = dataset.release(COUNTS, ledger=ledger, **exact).answer or []
    assert {row["topic"]: row["n"] for row in rows} == {"flu": 300, "gout": 80, "rare": 4, None: 6}


def test_the_same_request_gives_the_same_groups(notes: Dataset, ledger: Ledger) -> None:
    """Also clamped, which works on the stored numbers and so needs the groups: days come back as days."""
    sql = "SELECT day, topic, COUNT(*) - 200 AS n, AVG(x) AS a FROM notes GROUP BY day, topic ORDER BY day"
    first = notes.release(sql, ledger=ledger, **{**SHOWN, "epsilon": 5.0})
    again = notes.release(sql, ledger=ledger, epsilon=5.0, **THRESHOLDED)
    clamped = notes.release(sql, ledger=ledger, epsilon=5.0, clamp=True, **THRESHOLDED)
    assert again.repeated
    assert clamped.repeated
    assert first.answer == again.answer
    assert len(first.answer or ()) == 6
    pairs = zip(first.answer or (), clamped.answer or (), strict=True)
    assert all((a["day"], a["topic"], a["n"]) == (b["day"], b["topic"], b["n"]) for a, b in pairs)
    other = notes.release(sql, ledger=ledger, epsilon=5.0, **{**THRESHOLDED, "group_delta": 2e-6})
    assert not other.repeated
    account = known(ledger.account("notes"))
    assert [float(entry.delta) for entry in account.entries] == [1e-6, 2e-6]
    assert {key[0] for key in known(account.entries[0].keys)} == {"2024-03-18", "2024-03-19", "2024-03-20"}


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("rows", [1, 3])
def test_nobody_at_all_is_an_answer_too(ledger: Ledger, mechanism: Any, rows: int) -> None:
    """No data-dependent refusal (N4): without a group there is no number, and nothing fails."""
    several = {} if rows == 1 else {"unit": "name", "max_rows_per_unit": rows, "row_key": "x"}
    with Dataset.open(NOTES.slice(0, 0), schema={**FACTS, **several}, table="notes") as dataset:
        answer = dataset.release(COUNTS, ledger=ledger, mechanism=mechanism, **SHOWN)
        risk = dataset.risk(COUNTS, mechanism=mechanism, candidates="1", **THRESHOLDED)
        assert (answer.status, answer.answer) == ("released", [])
        assert (risk.k, risk.foresee_groups().observed) == (0, 0)
        assert risk.find("ratio:0.5").epsilon is None


# ---------------------------------------------------------------- the account


def test_an_account_without_room_denies_whatever_the_data_hold(ledger: Ledger) -> None:
    """No data-dependent refusal (N4): D beyond δ_g is denied for the table and for an empty one, at no charge."""
    for at, table in enumerate((NOTES, NOTES.slice(0, 0))):
        with Dataset.open(table, schema={**FACTS, "account": f"a{at}"}, table="notes") as dataset:
            options = {**SHOWN, "delta_total": 1e-9, "other_people": True}
            assert dataset.release(COUNTS, ledger=ledger, **options).status == "denied"
            assert ledger.account(f"a{at}") is None  # δ_g was not settled by a denial
            assert dataset.release(COUNTS, ledger=ledger, **{**options, "delta_total": 0.1}).status == "released"


@pytest.mark.parametrize(
    ("wanted", "terms", "reason"),
    [
        ({"prefer": "ratio:0.999999"}, {}, "preference"),
        ({"prefer": "error:40", "chosen": 0.01}, {}, "chosen"),
        ({"prefer": "error:40"}, {"max_epsilon": 0.02}, "cap"),
        ({"prefer": "error:40"}, {"policy": "budget:0.02"}, "budget"),
    ],
)
def test_a_denial_that_reads_the_data_is_charged_the_delta(
    notes: Dataset, ledger: Ledger, wanted: dict[str, Any], terms: dict[str, Any], reason: str
) -> None:
    """Whatever its reason is: otherwise it would be free, and tell of the data each time (H1)."""
    candidates = {"candidates": "10,0.5,0.1,0.01"} if reason != "preference" else {"candidates": "10"}
    answer = notes.release(COUNTS, ledger=ledger, **wanted, **candidates, **THRESHOLDED, **{**TERMS, **terms})
    assert answer.describe() == {"status": "denied"}
    (entry,) = known(ledger.account("notes")).entries
    assert (entry.epsilon, entry.delta, entry.reason) == (None, Decimal("0.000001"), reason)
    if reason == "preference":
        found = notes.release(COUNTS, ledger=ledger, prefer="ratio:0.5", candidates="1", **THRESHOLDED)
        assert (found.status, found.epsilon) == ("released", None)


# ---------------------------------------------------------------- refused, by public facts


@pytest.mark.parametrize(
    ("options", "sql", "words"),
    [
        ({"groups": "thresholded"}, COUNTS, "needs group_delta=D"),
        ({"group_delta": 1e-6}, COUNTS, 'goes with groups="thresholded"'),
        ({**THRESHOLDED, "group_delta": 1.5}, COUNTS, "strictly between 0 and 1"),
        ({**THRESHOLDED, "min_rows": 5}, COUNTS, "nobody declared"),
        (THRESHOLDED, "SELECT COUNT(*) FROM notes", "has no GROUP BY"),
        (THRESHOLDED, "SELECT topic, COUNT(*) FROM notes GROUP BY ROLLUP (topic)", "Totals of thresholded groups"),
        (THRESHOLDED, f"{COUNTS} UNION ALL SELECT topic, SUM(x) FROM notes GROUP BY topic", "one SELECT at a time"),
        (THRESHOLDED, "SELECT topic, MEDIAN(x) FROM notes GROUP BY topic", "from declared groups only"),
        (THRESHOLDED, "SELECT name, COUNT(*) FROM notes GROUP BY name", "identifies people"),
        (THRESHOLDED, "SELECT LENGTH(name), COUNT(*) FROM notes GROUP BY 1", "identifies people"),
        ({**THRESHOLDED, "svt": 1.0, "variance": 0.1, "epsilon": None}, COUNTS, "number of groups"),
        ({**THRESHOLDED, "epsilon": 1e-7}, COUNTS, "too large beside an ε"),
    ],
)
def test_refusals(notes: Dataset, ledger: Ledger, options: dict[str, Any], sql: str, words: str) -> None:
    with pytest.raises((OptionError, QueryError), match=re.escape(words)):
        notes.release(sql, ledger=ledger, **{"epsilon": 1.0, **options, **TERMS})
    assert ledger.account("notes") is None, "nothing was charged"


def test_more_groups_than_can_be_held_are_refused_by_public_facts(ledger: Ledger) -> None:
    """3 million are answered: noise is added to some at a time. What is not added up in the engine is held at once."""
    with open_notes(individuals=30_000_000) as dataset, pytest.raises(QueryError, match="be in 30,000,000 groups"):
        dataset.release(COUNTS, ledger=ledger, **SHOWN)
    with open_notes(individuals=3_000_000) as dataset:
        median = "SELECT topic, MEDIAN(x) FROM notes GROUP BY topic"
        with pytest.raises(QueryError, match="could be in 3,000,000 groups; at most 1,000,000"):
            dataset.release(median, ledger=ledger, **SHOWN)
        with pytest.raises(QueryError, match="There could be 3,000,000 groups"):
            dataset.release(COUNTS, ledger=ledger, prefer="own:1", **{**SHOWN, "epsilon": None})
        assert ledger.account("notes") is None, "nothing was charged"
        answer = dataset.release(COUNTS, ledger=ledger, **SHOWN)
    assert {"flu", "gout"} <= {row["topic"] for row in answer.answer or ()}


@pytest.mark.parametrize(
    "sql", [COUNTS, "SELECT day, topic, COUNT(*) AS n, SUM(x) AS s FROM notes GROUP BY day, topic"]
)
def test_groups_read_some_at_a_time_give_the_same_answer(
    sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At ε = 200 the noise is 0 but once in e^60: every group appears, in the same order, with its own numbers."""
    answers = []
    for at_once in (2**16, 5):
        for module in (row_profile, observed_keys, thresholds):
            monkeypatch.setattr(module, "AT_ONCE", at_once)
        with Ledger.open(tmp_path / f"{at_once}.db") as ledger, open_notes() as dataset:
            answers.append(dataset.release(sql, ledger=ledger, **{**SHOWN, "epsilon": 200.0}).answer)
    assert answers[0] == answers[1]
    assert len(answers[0] or ()) > 2


def test_a_look_at_too_many_groups_is_refused_in_words(notes: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholding, "MAX_LOOKED", 10)
    with pytest.raises(QueryError, match="more than 10 groups, too many to look at"):
        notes.risk(COUNTS, **THRESHOLDED).list_candidates()


def test_the_unit_is_no_group() -> None:
    facts = {"unit": "name", "max_rows_per_unit": 1, "columns": {**FACTS["columns"], "name": plain("text")}}
    with open_notes(**facts) as dataset, pytest.raises(QueryError, match="identifies people"):
        dataset.risk("SELECT name, COUNT(*) FROM notes GROUP BY name", **THRESHOLDED)


def test_looking_back_is_refused(notes: Dataset, ledger: Ledger) -> None:
    notes.release(COUNTS, ledger=ledger, **SHOWN)
    account = known(ledger.account("notes"))
    with pytest.raises(LedgerError, match="groups that nobody declared"):
        ex_post_risk(notes, account.entries[0])


# ---------------------------------------------------------------- the controller's view


def test_controller_sees_what_would_appear(notes: Dataset) -> None:
    """Two groups of many, one of 4, thirty of one; NULL is in none. At ε = 1, T = 15: ln(1e6)/1 and a little more."""
    risk = notes.risk(COUNTS, candidates="1,0.01", **THRESHOLDED)
    found = risk.foresee_groups()
    assert (found.observed, found.people, risk.k) == (33, 414, 33)
    large, small = found.lines
    assert (large.threshold, large.hidden_people) == (15, 34)
    assert large.expected == pytest.approx(2.0, abs=1e-4)
    assert small.hidden_people == 414
    assert small.expected < 0.01
    assert risk.head()["thresholded"] == found.describe()
    with pytest.raises(OptionError, match="all shown"):
        notes.risk("SELECT COUNT(*) FROM notes").foresee_groups()


def test_dry_run_tells_which_groups_and_charges_nothing(notes: Dataset, ledger: Ledger) -> None:
    shown: Any = notes.dry_run(COUNTS, ledger=ledger, **SHOWN).describe()["thresholded"]
    assert shown["observed"] == 33
    assert ledger.account("notes") is None


def test_explanation_is_public(notes: Dataset) -> None:
    explanation = notes.explain(COUNTS, **THRESHOLDED)
    assert (explanation.group_delta, explanation.k, explanation.additive) == (1e-6, None, False)
    told = " ".join(explanation.notes)
    assert "a group of 15 people" in told
    assert "flu" not in told


@pytest.mark.parametrize("where", [None, "x > 3", "x > 3 AND x < 9 AND NOT x = 5"])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_where_is_shown_as_it_was_asked(notes: Dataset, number: int, where: str | None) -> None:
    """Without the conditions that leave NULL out, however many groups there are."""
    groups = ", ".join(["topic", "day", "DATE_TRUNC('month', day)", "DATE_TRUNC('year', day)"][:number])
    asked = "" if where is None else f" WHERE {where}"
    plan = notes.risk(f"SELECT {groups}, COUNT(*) FROM notes{asked} GROUP BY {groups}", **THRESHOLDED).plan
    expected = notes.plan(f"SELECT COUNT(*) FROM notes{asked}").where
    assert _list_words(read_where(plan)) == _list_words(expected)


def _list_words(where: exp.Expression | None) -> str:
    return "" if where is None else where.sql().replace("(", "").replace(")", "")


def test_identity_of_what_is_measured(notes: Dataset) -> None:
    """A look at thresholded groups is not a look at observed ones."""
    plans = [notes.risk(COUNTS, **options).plan for options in (THRESHOLDED, {"groups": "observed"})]
    assert len({digest_measured(plan) for plan in plans}) == 2


def test_groups_cannot_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from dosimeter.cli.printing import print_answer
    from dosimeter.release import Answer

    print_answer(Answer("released", answer=[{"topic": "a\x1b[2Jb\u202ec", "n": 1}], error_95=(1.0,), epsilon=1.0))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
