"""What is told is about the ε to start from, says each thing once, and calls no bad answer fine (E4, E6, F4)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dosimeter import Budget, Choice, Dataset, Fixed, Ledger, OptionError, Preferred
from dosimeter.findings import Verdict
from dosimeter.findings.on_answer import AllMeet, Errors, StepTo, WideBounds
from dosimeter.findings.on_people import (
    AllowedByGroups,
    AllowedEitherWay,
    DecidesNothing,
    MeetsPreference,
    NoLimitOnRisk,
)
from dosimeter.findings.sentences import word
from tests.known import known
from tests.schemas import category, declare, plain, whole

PEOPLE = 2_000
CHANCE = np.random.default_rng(11)
BILLS = pa.table(
    {
        "bill": CHANCE.integers(400, 600, PEOPLE),
        "change": CHANCE.integers(-3, 4, PEOPLE),
        "town": CHANCE.choice(["A", "B"], PEOPLE),
        "lonely": ["yes" if at == 0 else "no" for at in range(PEOPLE)],
    }
)
FACTS = declare(
    "bills",
    PEOPLE,
    {
        "bill": whole(0, 100_000),
        "change": whole(-100, 100),
        "town": category("A", "B"),
        "lonely": category("yes", "no"),
    },
)


def look(sql: str, preference: str, candidates: list[float] | None = None) -> Choice:
    with Dataset.open(BILLS, schema=FACTS) as bills:
        choice = bills.risk(sql, candidates=candidates).find(preference)
        assert choice.words  # reads what it needs, while the data are open
        for line in choice.candidates:
            choice.judge(line.epsilon)
        return choice


def test_every_sentence_on_an_epsilon_is_about_the_start() -> None:
    choice = look("SELECT COUNT(*) FROM bills WHERE bill < 500", "ratio:0.5")
    start = known(choice.start.epsilon)
    assert known(choice.epsilon) > start
    assert {each.epsilon for each in choice.findings if isinstance(each, Errors)} == {start}
    told = choice.tell(aside=False)
    assert told[1].startswith(f"To start from: ε = {start:g}, ")
    assert told[2].startswith(f"✓ Risk: ε = {start:g} meets")
    assert told[3].startswith("✓ Answer: ")
    assert len(set(told)) == len(told)
    assert set(choice.words) > set(told)  # more is told on demand
    assert not any("suspicion" in each for each in told)
    assert any("suspicion" in each for each in choice.words)


def test_bounds_that_are_far_too_wide_make_no_answer_fine() -> None:
    """Bills of 400 to 600 with bounds up to 100,000: 5 % of the range is ten times the average."""
    choice = look("SELECT AVG(bill) AS mean FROM bills", "advantage:0.25")
    mean = float(np.mean(BILLS.column("bill").to_numpy()))
    for line in choice.candidates:
        verdict, found = choice.judge(line.epsilon)
        error = line.accuracy[0].total.typical
        wide = [each for each in found if isinstance(each, WideBounds)]
        if error is not None and error <= 0.5 * mean:
            assert not wide
        elif any(isinstance(each, MeetsPreference) for each in found):
            assert verdict is not Verdict.FOR
        for each in wide:
            assert each.share == pytest.approx(known(error) / mean)
    assert any(isinstance(each, WideBounds) for each in choice.judge(choice.start.epsilon)[1])


def test_an_average_around_0_is_judged_by_its_range_alone() -> None:
    choice = look("SELECT AVG(change) FROM bills", "advantage:0.25")
    found = [each for line in choice.candidates for each in choice.judge(line.epsilon)[1]]
    assert not any(isinstance(each, WideBounds) for each in found)
    assert choice.judge(choice.start.epsilon)[0] is Verdict.FOR


@pytest.mark.parametrize("preference", ["error:1000", "ratio:0.01,error:1000"])
def test_a_preference_that_limits_errors_and_no_risk_does_not_set_the_start(preference: str) -> None:
    choice = look("SELECT lonely, COUNT(*) FROM bills GROUP BY lonely", preference)
    assert choice.unlimited
    assert choice.decides
    assert choice.epsilon == 10.0
    start = known(choice.start.epsilon)
    (line,) = [line for line in choice.candidates if line.epsilon == start]
    assert known(line.absolute).advantage <= 0.25
    (told,) = [each for each in choice.findings if isinstance(each, DecidesNothing)]
    assert told.epsilon == 10.0
    assert told.but_errors
    assert word(told).startswith(
        "The preference does not limit the risk: its largest candidate, ε = 10, would identify"
    )
    kinds = {type(each) for each in choice.judge(start)[1]}
    assert NoLimitOnRisk in kinds
    assert MeetsPreference not in kinds


def test_conditions_on_absolute_risks_limit_it_also_if_every_candidate_meets_them() -> None:
    choice = look("SELECT COUNT(*) FROM bills", "balanced", candidates=[0.5, 0.1])
    assert not choice.decides  # as few candidates were looked at
    verdict, found = choice.judge(0.5)
    assert verdict is Verdict.FOR
    assert any(isinstance(each, MeetsPreference) for each in found)
    assert not any(isinstance(each, (AllMeet, DecidesNothing)) for each in found)
    loose = look("SELECT COUNT(*) FROM bills", "advantage:1")
    assert loose.judge(10.0)[0] is not Verdict.FOR


def test_what_groups_allow_warns_only_of_what_one_group_would_not() -> None:
    choice = look("SELECT town, COUNT(*) FROM bills WHERE bill < 500 GROUP BY town", "ratio:0.95")
    by_cell = known(choice.epsilon_cell)
    assert by_cell < known(choice.epsilon)
    for line in choice.candidates:
        kinds = {type(each) for each in choice.judge(line.epsilon)[1]}
        expected = AllowedEitherWay if line.epsilon <= by_cell else AllowedByGroups
        assert kinds & {AllowedByGroups, AllowedEitherWay} == {expected}


def test_a_mark_and_its_words_say_the_same() -> None:
    """One person is alone in a group: that speaks against every ε, and no tick or approving word stands beside."""
    choice = look("SELECT lonely, COUNT(*) FROM bills GROUP BY lonely", "advantage:0.25")
    told = choice.tell()
    (risk,) = [each for each in told if " Risk: " in each]
    assert risk.startswith("✗ Risk: The smallest group holds 1 person")
    assert "meets the preference" not in risk


def test_a_step_that_changes_no_error_names_none() -> None:
    step = StepTo(
        epsilon=9.0, larger=False, column="n", named=False, error=1.0, error_here=1.0, advantage=0.5, advantage_here=0.6
    )
    assert word(step) == "One step down, ε = 9: 25 instead of 30 more right guesses of 100."


def test_a_dry_run_tells_the_verdict_and_what_is_seen_in_words(tmp_path: Path) -> None:
    sql, half = "SELECT AVG(bill) AS mean FROM bills", "SELECT COUNT(*) FROM bills WHERE bill < 500"
    with Dataset.open(BILLS, schema=FACTS) as bills, Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        run = bills.query(sql).dry_run(ledger, Fixed(0.1), policy=Budget(1))
        told = " ".join(run.tell())
        assert "Judged by balanced at ε = 0.1:" in told
        assert "its bounds are far wider than its values" in told
        seen = run.tell_seen()
        assert seen[0].startswith("The analyst would see: mean, with ε = 0.1 and 95 % errors of ± ")
        assert "{" not in " ".join(seen)
        document = run.describe()
        lines = document["candidates"]
        assert isinstance(lines, list)
        assert len(lines) == 1
        assert isinstance(lines[0], dict)
        assert lines[0]["epsilon"] == 0.1
        assert lines[0]["verdict"] == document["verdict"] == "open"
        denied = bills.query(sql).dry_run(ledger, Fixed(5), policy=Budget(1))
        assert denied.tell() == ()
        assert denied.tell_seen() == ("The analyst would see: Denied.",)
        capped = bills.query(half).dry_run(ledger, Preferred("ratio:0.2"), policy=Budget(1))
        assert "meets it too, but the account does not grant it" in " ".join(capped.tell())
        assert "guesses" not in " ".join(capped.tell())  # of an ε that is found from the data no limit holds (G2)


def test_a_release_by_a_preference_that_limits_no_risk_tells_the_controller(tmp_path: Path) -> None:
    query = "SELECT COUNT(*) FROM bills WHERE lonely = 'yes'"
    with Dataset.open(BILLS, schema=FACTS) as bills, Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        loose = bills.query(query).release(ledger, Preferred("ratio:0.01"), policy=Budget(20))
        (told,) = [each for each in loose.notes if "The preference decides nothing" in each]
        assert told.endswith("The largest that the account grants was taken.")
        assert "decides nothing" not in str(loose.describe())
        limited = bills.query(query).release(ledger, Preferred("ratio:0.9"))
        chosen = bills.query(query).release(ledger, Preferred("ratio:0.01", epsilon=0.1))
        assert not limited.notes
        assert not chosen.notes


def test_a_chosen_epsilon_is_refused_by_the_name_that_was_written() -> None:
    with pytest.raises(OptionError, match=r"^epsilon= must be a positive number"):
        Preferred("ratio:0.95", epsilon=-1)


def test_what_is_told_of_a_cut_uses_no_sentence_twice() -> None:
    stays = pa.table({"patient": [1, 1, 1, 1, 2, 3] * 50, "stay": list(range(300))})
    facts = declare(
        "stays",
        3,
        {"patient": plain("integer"), "stay": whole(0, 1000)},
        unit="patient",
        max_rows_per_unit=1,
        row_key="stay",
    )
    with Dataset.open(stays, schema=facts) as hospital:
        told = hospital.risk("SELECT COUNT(*) FROM stays").find("advantage:0.25").tell()
    assert sum("not counted" in each for each in told) == 1
    assert not any("At most 1 row" in each for each in told)  # a note
