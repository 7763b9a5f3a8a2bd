"""R11, F4, preferences over everything, presets, and advice: what a controller is told before an ε is taken."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest

from dosimeter import Dataset, Ledger, OptionError, Preferred
from dosimeter.findings import Choice, Finding, Weight, find_absolute, word, word_all
from dosimeter.findings import on_answer as answer
from dosimeter.findings import on_people as people
from dosimeter.postprocess import list_group_errors
from dosimeter.risk import PRESETS, parse_preference
from tests.known import known
from tests.schemas import category, declare, plain, whole

Found = TypeVar("Found", bound=Finding)
ISLAND = "SELECT age, diagnosis, COUNT(*) FROM clinic WHERE district = 'Seal Island' GROUP BY 1, 2"
COUNT = "SELECT COUNT(*) FROM clinic WHERE district = 'Seal Island'"
DISTRICTS = "SELECT district, diagnosis, COUNT(*) AS patients FROM clinic GROUP BY 1, 2"


@pytest.fixture(scope="module")
def clinic(clinic: Path) -> Iterator[Dataset]:
    with Dataset.open(clinic, schema=clinic.with_suffix(".toml")) as dataset:
        yield dataset


def pick(choice: Choice, kind: type[Found]) -> Found:
    """Return the only finding of this kind in a choice."""
    (found,) = [each for each in choice.findings if isinstance(each, kind)]
    return found


# ---------------------------------------------------------------- the cell indicator (R11)


def test_the_finest_question_on_the_island(clinic: Dataset) -> None:
    """A preference that decides nothing finds nothing; the advice says what ε = 10 would do; cells do not help."""
    choice = clinic.risk(ISLAND).find("ratio:0.95")
    assert (choice.epsilon, choice.decides) == (10.0, False)
    assert {line.satisfied for line in choice.candidates} == {True}
    told = " ".join(choice.words)
    assert "1 % becomes 99.55 %" in told
    plain = clinic.risk(COUNT).find("ratio:0.95")
    by_cell = clinic.risk(ISLAND, indicator="cell").find("ratio:0.95")
    assert plain.decides
    assert by_cell.decides
    assert by_cell.epsilon == choice.epsilon_cell == plain.epsilon == 0.05
    assert by_cell.limit == choice.limit_cell == plain.limit == pytest.approx(1 / 19)
    assert "by the noise that one person can reach, ε = 0.05 would be" in told


def test_a_question_about_nobody(clinic: Dataset) -> None:
    """None of the eleven on the island is of another sex. tanh(ε/2) of somebody who were is below a quarter at 0.5."""
    sql = "SELECT COUNT(*) FROM clinic WHERE district = 'Seal Island' AND sex = 'Other'"
    found = clinic.risk(sql).find("ratio:0.95")
    assert not found.decides
    assert pick(found, people.Cautious).epsilon == 0.5


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_with_one_row_each_groups_change_nothing(clinic: Dataset, mechanism: str) -> None:
    for where in ("smoker", "age > 50"):
        grouped = f"SELECT district, sex, COUNT(*) FROM clinic WHERE {where} GROUP BY 1, 2"
        alone = f"SELECT COUNT(*) FROM clinic WHERE {where}"
        options: Any = {"mechanism": mechanism, "indicator": "cell"}
        fine, coarse = clinic.risk(grouped, **options), clinic.risk(alone, **options)
        assert (fine.k, fine.reach, coarse.reach) == (18, 1, 1)
        for preference in ("ratio:0.9", "variance:0.001"):
            ours, theirs = fine.find(preference), coarse.find(preference)
            assert (ours.epsilon, ours.limit) == (theirs.epsilon, pytest.approx(theirs.limit))
        assert fine.rdr(0.5).values.tolist() == coarse.rdr(0.5).values.tolist()


def open_visits(rows: int) -> Dataset:
    """Two people with up to so many visits each, in five wards."""
    table = pa.table({"who": ["a", "a", "b"], "id": [1, 2, 3], "ward": ["x", "y", "x"], "cost": [1, 2, 3]})
    wards = category("x", "y", "z", "u", "v")
    columns = {"who": plain("text"), "id": whole(0, 9), "ward": wards, "cost": whole(0, 9)}
    return Dataset.open(table, schema=declare("t", 3, columns, unit="who", row_key="id", max_rows_per_unit=rows))


def test_how_many_numbers_somebody_can_reach() -> None:
    """k₁ is the sum over measures of min(m, G)."""
    for rows, reached in ((2, 2), (4, 4), (9, 5)):
        with open_visits(rows) as dataset:
            both = dataset.risk("SELECT ward, COUNT(*), SUM(cost) FROM t GROUP BY ward", indicator="cell")
            assert (both.k, both.reach, both.sensitivities.k) == (10, 2 * reached, 2 * reached)
            assert any(f"can reach {2 * reached} of the numbers" in note for note in both.find("ratio:0.9").notes)
            assert dataset.risk("SELECT COUNT(*) FROM t").reach == 1
            bound = dataset.risk("SELECT COUNT(*), SUM(cost) FROM t")
            assert bound.reach == bound.k == 2


def test_several_selects_reach_the_groups_of_each() -> None:
    """k₁ adds up the measures of all SELECTs, each with its own groups."""
    query = "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward UNION ALL SELECT 'cost', SUM(cost) FROM t"
    with open_visits(3) as dataset:
        both = dataset.risk(query, indicator="cell")
        assert (both.k, both.reach, both.sensitivities.k) == (6, 4, 4)
        assert both.find("ratio:0.9").epsilon_cell == dataset.risk(query).find("ratio:0.9").epsilon_cell


# ---------------------------------------------------------------- what is drawn by rank (R12)


def test_ranks_have_a_pure_guarantee_of_their_own(clinic: Dataset) -> None:
    risk = clinic.risk("SELECT MEDIAN(age), COUNT(*) FROM clinic WHERE smoker", candidates=[2.0, 0.5])
    shares = known(risk.contributions.shares)
    most = float(shares.max())
    for line in risk.find("advantage:0.3").candidates:
        beside = known(line.absolute)
        assert beside.own_epsilon == pytest.approx(most * line.epsilon)
        assert line.value == pytest.approx(np.tanh(most * line.epsilon / 2)) == beside.advantage
        assert beside.identification is None
        assert beside.posterior == pytest.approx(0.01 / (0.01 + 0.99 * np.exp(-line.epsilon)))
    everybody = risk.find("MIN(own_epsilon) <= 100 AND AVG(advantage) <= 1")
    assert everybody.epsilon == 2.0
    mean = risk.find("AVG(own_epsilon) <= 100").candidates[0]
    people = risk.contributions.people
    assert mean.value == pytest.approx(float(2.0 * (shares * people).sum() / people.sum()))


def test_ranks_are_off_by_rows(clinic: Dataset) -> None:
    query = "SELECT sex, MEDIAN(age) AS middle, COUNT(*) AS n FROM clinic GROUP BY sex"
    choice = clinic.risk(query, candidates=[0.5, 0.01]).find("error:70")
    line = choice.candidates[0]
    assert line.value == max(known(each.total.worst) for each in line.accuracy)
    assert line.error_95[0] is None
    assert pick(choice, answer.Errors).accuracy.without == 0
    assert (choice.limit, choice.limit_cell, choice.epsilon_cell) == (None, None, 0.5)
    told = " ".join(choice.words)
    assert f"middle ± {line.accuracy[0].typical:g} in a typical group and ± {line.accuracy[0].worst:g} in the" in told


def test_a_rank_is_judged_against_the_width_of_its_bounds(clinic: Dataset) -> None:
    """An ε meets the preset where the drawn value lies within a quarter of the width, found here by enumeration."""
    risk = clinic.risk("SELECT MEDIAN(age) FROM clinic")
    (cell,) = risk.ranked.cells
    rank, counts = cell.rank, cell.rank.count(cell.column)
    values = rank.candidates.astype(float) * float(rank.unit)
    for line in risk.find("relative_error:0.25").candidates:
        chances, far = rank.chances(counts, line.epsilon), np.abs(values - cell.answer)
        stated = known(line.accuracy[0].worst)
        assert chances[far <= stated].sum() >= 0.95
        assert line.error_95 == (None,)
        assert known(line.accuracy[0].relative) == pytest.approx(stated / float(rank.argument.width * rank.unit))
        assert line.satisfied is (stated <= 0.25 * float(rank.argument.width * rank.unit))


def test_no_rank_is_off_by_more_rows_than_can_count() -> None:
    """A hundred people with two rows of three each: nobody's rank is off by more than 300 rows, by public facts."""
    table = pa.table({"who": [at // 2 for at in range(200)], "cost": [at % 50 for at in range(200)]})
    schema = declare("t", 100, {"who": plain("integer"), "cost": whole(0, 49)}, unit="who", max_rows_per_unit=3)
    with Dataset.open(table, schema=schema) as dataset:
        lines = dataset.risk("SELECT MEDIAN(cost) FROM t", candidates=[10.0, 0.01]).list_candidates()
    assert 0.0 < (lines[0].rank_errors[0] or 0.0) < 20.0
    assert lines[1].rank_errors == (300.0,)
    most = [line.absolute.own_epsilon / line.epsilon for line in lines if line.absolute is not None]
    assert most == pytest.approx([2 / 3, 2 / 3])


def test_ranks_have_no_cell_indicator(clinic: Dataset) -> None:
    with pytest.raises(OptionError, match="gets no noise, which is what the cell indicator counts"):
        clinic.risk("SELECT MEDIAN(age) FROM clinic", indicator="cell")
    assert clinic.risk("SELECT MEDIAN(age) FROM clinic", indicator="cell", quantiles="noise").reach == 1


# ---------------------------------------------------------------- groups that nobody declared (H1)


def test_thresholded_groups_add_their_delta(clinic: Dataset) -> None:
    query = "SELECT visits, COUNT(*) FROM clinic GROUP BY visits"
    risk = clinic.risk(query, groups="thresholded", group_delta=0.001, candidates=[1.0])
    absolute = risk.absolute(1.0)
    assert absolute.advantage == pytest.approx(np.tanh(0.5) + 0.001)
    assert absolute.identification is None
    assert absolute.guess == pytest.approx(0.1 * np.e + 0.001)  # P5
    power = 0.01 * np.e + 0.001
    assert absolute.false_alarms == 0.01
    assert absolute.posterior == pytest.approx(0.01 * power / (0.01 * power + 0.99 * 0.01))  # P3
    assert risk.find("posterior:0.03").epsilon == 1.0
    assert risk.find("posterior:0.027").epsilon is None
    assert risk.reach == 1
    outside = clinic.risk(f"{query.replace('GROUP', 'WHERE age < 0 GROUP')}", groups="thresholded", group_delta=0.001)
    assert outside.absolute(1.0).advantage == 0.0
    assert outside.absolute(1.0).posterior == pytest.approx(0.01)  # nobody's group appears
    assert outside.absolute(1.0).guess == absolute.guess  # whose rows might have been others
    assert pick(risk.find("ratio:0.5"), people.NoneCautious).weight is Weight.WARNING


# ---------------------------------------------------------------- preferences over everything


def test_own_guarantee_and_advantage(clinic: Dataset) -> None:
    risk = clinic.risk("SELECT SUM(visits) FROM clinic")
    most = float(risk.sensitivities.values[-1]) / risk.sensitivity
    own = risk.find("own:0.2")
    assert own.preference.text == "MAX(own_epsilon) <= 0.2"
    for line in own.candidates:
        assert line.value == pytest.approx(most * line.epsilon)
    told = risk.find("advantage:0.1")
    for line in told.candidates:
        assert line.value == pytest.approx(np.tanh(most * line.epsilon / 2)) == known(line.absolute).advantage
    median = risk.find("MEDIAN(advantage) FILTER (WHERE smoker) <= 0.01 AND AVG(own_epsilon) <= 3")
    assert median.epsilon is not None
    assert median.decides
    share = risk.find("MAX(own_epsilon) / 2 >= MIN(advantage)")
    assert share.epsilon == 10.0


def test_guesses_and_beliefs(clinic: Dataset) -> None:
    """Whatever the rows of the most exposed are: 0.1·e^ε ≤ 0.2 up to ε = ln 2, 1 % becomes 5 % at ε = ln(99/19)."""
    risk = clinic.risk("SELECT SUM(visits) FROM clinic", candidates=[2.0, 1.7, 1.6, 0.7, 0.69, 0.5])
    assert risk.find("guess:0.2").epsilon == 0.69
    assert risk.find("posterior:0.05").epsilon == 1.6
    both = risk.find("posterior:0.05,guess:0.2,error:1e9")
    assert both.preference.text == "posterior(0.01) <= 0.05 AND guess(0.1) <= 0.2 AND error <= 1000000000"
    assert both.epsilon == 0.69
    assert both.decides
    for line in risk.find("guess(0.1) <= 0.2").candidates:
        beside = known(line.absolute)
        assert line.value == beside.guess == pytest.approx(0.1 * np.exp(line.epsilon))
        assert beside.describe()["guess"] == {"0.1": beside.guess}
    for line in risk.find("guess(0.75) <= 0.9").candidates:
        assert (
            line.value
            == pytest.approx(1 - 0.25 * np.exp(-line.epsilon))
            == risk.absolute(line.epsilon, baseline=0.75).guess
        )
    assert risk.find("guess(0.5) <= posterior(0.9) AND MAX(advantage) <= 1").epsilon == 2.0
    tested = risk.absolute(0.5, charge=0.75)
    assert tested.guess == pytest.approx(0.1 * np.exp(0.75))
    assert not risk.find("guess:0.2").preference.about_errors
    assert not risk.find("guess:0.2").unlimited
    assert risk.find("error:100000").unlimited
    with pytest.raises(OptionError, match="strictly between 0 and 1"):
        risk.absolute(1.0, baseline=1.0)


def test_a_guess_decides_what_is_released(clinic: Dataset, ledger: Ledger) -> None:
    """0.1·e^ε ≤ 0.2 up to ε = 0.69: a dry run foresees it, and the release does it."""
    query = clinic.query("SELECT COUNT(*) FROM clinic WHERE smoker", candidates=[1.0, 0.6, 0.5])
    way = Preferred("guess:0.2")
    assert query.dry_run(ledger, way, policy="paper").describe()["epsilon"] == 0.6
    assert query.release(ledger, way, policy="paper").status == "released"
    assert known(ledger.account("clinic")).reading.epsilon == Decimal("0.6")


def test_guesses_and_beliefs_under_gaussian_noise(clinic: Dataset) -> None:
    """A count among few and a sum: the coarsest grid is that of the count, and Δ₂ is √2 of the two weighted numbers."""
    risk = clinic.risk("SELECT COUNT(*), SUM(visits) FROM clinic", mechanism="gaussian", candidates=[3.0, 1.0, 0.1])
    normal = NormalDist()
    values = []
    for line in risk.find("guess:0.2").candidates:
        steps = risk.noise_scale(line.epsilon)  # of the count, whose grid and Δ are 1
        zero = 1.0 / sum(math.exp(-0.5 * (z / steps) ** 2) for z in range(-4000, 4001))
        shift = steps * 2.0 * normal.inv_cdf(0.5 + 0.5 * zero) / steps
        beside = known(line.absolute)
        assert beside.guess == pytest.approx(normal.cdf(normal.inv_cdf(0.1) + np.sqrt(2.0) * shift), rel=1e-6)
        own = float(risk.sensitivities.values[-1])
        power = normal.cdf(normal.inv_cdf(0.01) + own * shift)
        assert beside.posterior == pytest.approx(power / (power + 0.99), rel=1e-6)  # 1 % and 1 % cancel
        assert beside.false_alarms == 0.01
        values.append((beside.guess, beside.posterior, line.value))
    assert [value == guess for guess, _, value in values] == [True, True, True]
    assert np.all(np.diff([each[:2] for each in values], axis=0) < 0.0)
    assert risk.find("posterior:0.03").epsilon == max(
        line.epsilon for line in risk.list_candidates() if known(line.absolute).posterior <= 0.03
    )
    told = word_all(find_absolute(risk.absolute(1.0)))
    assert "at least 1 of 100 answers without this person would raise it too" in told[2]
    assert "times in 10." in told[3]


@pytest.mark.parametrize(
    ("baseline", "epsilon", "told"),
    [(0.1, 1.0, "1 time in 10 guesses it at most 2.8 times in 10"), (0.25, 0.5, "2.5 times in 10 guesses it at most")],
)
def test_a_fact_is_guessed_so_often(clinic: Dataset, baseline: float, epsilon: float, told: str) -> None:
    found = find_absolute(clinic.risk(COUNT).absolute(epsilon, baseline=baseline))
    (said,) = [word(each) for each in found if isinstance(each, people.GuessedFact)]
    assert told in said


def test_errors_are_those_of_the_answer(clinic: Dataset) -> None:
    risk = clinic.risk(DISTRICTS)
    found = risk.find("error:10")
    assert found.preference.text == "error <= 10"
    assert [line.value for line in found.candidates] == [line.error_95[0] for line in found.candidates]
    assert found.epsilon == 10.0
    smallest = min(line.epsilon for line in found.candidates if line.satisfied)
    assert smallest == min(line.epsilon for line in found.candidates if (line.error_95[0] or 0) <= 10)
    numbers = [float(row[0]) for row in risk.measured().values]
    relative = risk.find("relative_error <= 0.5")
    least = min(number for number in numbers if number)
    for line in relative.candidates:
        assert line.value == pytest.approx((line.error_95[0] or 0.0) / least)


def test_errors_say_what_cannot_be_told(clinic: Dataset) -> None:
    """The rarest diagnosis can be told above ε = 2 only: below, it counts with the error that it had at ε = 3."""
    risk = clinic.risk("SELECT diagnosis, AVG(cost_eur) AS a FROM clinic GROUP BY diagnosis")
    assert risk.find("error:1000").epsilon is None
    found = risk.find("error >= 25000")
    assert found.epsilon == 3.0
    found = risk.find("error >= 25000", candidates=[2.0])
    numbers, scale = risk.measured(), risk.noise_scale(2.0)
    errors = list_group_errors(risk.plan, risk.mechanism, scale, [(numbers.keys, numbers.values)], 10)
    assert sum(error is None for (error,) in errors) == 1
    told = "of 10 numbers 1 has too few people behind them to tell"
    assert any(told in note for note in found.notes)
    assert not any("behind them to tell" in note for note in risk.find("own:2").notes)


def test_a_conflict_names_two_and_what_each_allows(clinic: Dataset) -> None:
    risk = clinic.risk("SELECT COUNT(*) FROM clinic WHERE smoker")
    choice = risk.find("own:5,ratio:0.95,error:10")
    assert (choice.epsilon, choice.decides) == (None, False)
    assert [part.describe() for part in choice.conflict] == [
        {"condition": "MIN(rdr) / MAX(rdr) >= 0.95", "smallest": 0.001, "largest": 0.05},
        {"condition": "error <= 10", "smallest": 0.3, "largest": 10.0},
    ]
    told = word(pick(choice, answer.Conflict))
    assert told in choice.words
    assert "MIN(rdr) / MAX(rdr) >= 0.95 and error <= 10 cannot be met together" in told
    assert "ε from 0.001 to 0.05" in told
    alone = risk.find("ratio:0.95,own:0.0001")
    assert [part.condition for part in alone.conflict] == ["MAX(own_epsilon) <= 0.0001"]
    assert "even by itself" in word(pick(alone, answer.Conflict))


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_never_hides_its_condition(clinic: Dataset, name: str) -> None:
    preference = parse_preference(f" {name.upper()} ")
    assert preference.preset == name
    assert preference.text == parse_preference(PRESETS[name].condition).text
    assert preference.measured == {"advantage", "relative_error"}
    choice = clinic.risk("SELECT COUNT(*) FROM clinic WHERE smoker").find(name)
    assert choice.preference.preset == name
    assert choice.asked == f"{name} ({preference.text})"
    assert choice.asked in choice.words[0]
    assert choice.epsilon == {"cautious": 0.2, "balanced": 0.5, "exploratory": 1.0}[name]


# ---------------------------------------------------------------- advice


@pytest.mark.parametrize(
    ("percent", "told"),
    [(12.31, "13"), (99.99, "99.99"), (99.99999994, "100"), (99.9999987, "99.999999"), (100.0, "100")],
)
def test_upper_limits_are_never_rounded_down(clinic: Dataset, percent: float, told: str) -> None:
    """Nor written as 100 % where nine digits tell them apart from it."""
    absolute = clinic.risk(COUNT).absolute(1.0)
    sentences = word_all(find_absolute(replace(absolute, posterior=percent / 100)))
    assert f"at most {told} %" in sentences[2]


def test_what_one_step_would_change(clinic: Dataset) -> None:
    choice = clinic.risk("SELECT COUNT(*) FROM clinic WHERE smoker").find("ratio:0.95")
    up, down = (each for each in choice.findings if isinstance(each, answer.StepTo))
    assert (down.epsilon, pick(choice, answer.Errors).epsilon, up.epsilon) == (0.04, 0.05, 0.06)
    assert (down.larger, up.larger) == (False, True)
    told = " ".join(choice.words)
    assert "count ± 60 (95 %)" in told
    assert "at most 1.3 more" in told  # 50·tanh(0.025), rounded up
    assert "at most 1.1 %" in told
    assert "ε = 0.06: ± 50 instead of ± 60, and 1.5 instead of 1.3" in told
    assert "Warning" not in told


@pytest.mark.parametrize(("asked_for", "tell_cut", "at"), [("COUNT(*)", None, 0.5), ("SUM(age)", 0.2, 0.6)])
def test_a_coarser_question_is_computed(clinic: Dataset, asked_for: str, tell_cut: float | None, at: float) -> None:
    """What is said of the coarser question is what asking it gives."""
    fine = f"SELECT district, diagnosis, {asked_for} AS patients FROM clinic WHERE age > 90 GROUP BY 1, 2"
    choice = clinic.query(fine, tell_cut=tell_cut).risk().find("own:0.5")
    fine_accuracy, coarser = pick(choice, answer.Errors).accuracy, pick(choice, answer.CoarserQuery)
    assert fine_accuracy.is_mostly_noise
    assert pick(choice, answer.WorthLittle).epsilon == at
    kept = [name for name in ("district", "diagnosis") if name not in coarser.dropped]
    columns = "".join(f"{name}, " for name in kept)
    groups = f" GROUP BY {', '.join(kept)}" if kept else ""
    coarse = f"SELECT {columns}{asked_for} AS patients FROM clinic WHERE age > 90{groups}"
    asked = clinic.query(coarse, tell_cut=tell_cut).risk().find("own:0.5")
    assert asked.epsilon == choice.epsilon == at
    accuracy = pick(asked, answer.Errors).accuracy
    assert (accuracy.drowned, accuracy.numbers) == (coarser.drowned, coarser.numbers)
    assert accuracy.drowned * fine_accuracy.numbers < fine_accuracy.drowned * accuracy.numbers
    assert any(f"At the same ε, without {' and '.join(coarser.dropped)}, " in told for told in choice.words)


def test_nothing_coarser_is_guessed(clinic: Dataset) -> None:
    for query in (
        "SELECT district, AVG(age) FROM clinic GROUP BY 1",
        "SELECT COUNT(*) FROM clinic WHERE district = 'Seal Island'",
        "SELECT district, COUNT(DISTINCT diagnosis) FROM clinic GROUP BY 1",
    ):
        findings = clinic.risk(query).find("own:0.01").findings
        assert findings
        assert not any(isinstance(each, answer.CoarserQuery) for each in findings)


def test_nothing_private_shows_itself(clinic: Dataset) -> None:
    choice = clinic.risk(ISLAND).find("cautious")
    assert "cautious (MAX(advantage) &lt;= 0.1 AND relative_error &lt;= 0.25)" in choice._repr_html_()
    for value in (choice, choice.conflict[0], *choice.findings):
        assert "redacted" in repr(value)
