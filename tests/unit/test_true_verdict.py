"""The verdict counts what is cut and clamped, and judges an average by its range (E4, E6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dosimeter import Choice, Dataset
from dosimeter.findings import Verdict, word
from dosimeter.findings import on_people as people
from dosimeter.findings.on_answer import Errors
from dosimeter.findings.on_left_out import NumbersFarOff, RowsCut, RowsUnowned
from dosimeter.risk import PRESETS
from tests.known import known
from tests.schemas import category, declare, plain, whole

PATIENTS, WARDS = 3_000, ("Cardiology", "Oncology", "Surgery")
BY_WARD = "SELECT ward, COUNT(*) AS stays FROM stays GROUP BY ward"


def make_stays() -> pa.Table:
    """Return a hospital's stays: 3.4 per patient, and 50 at most."""
    chance = np.random.default_rng(7)
    counts = np.clip(1 + chance.geometric(0.3, PATIENTS), 1, 50)
    owners = np.repeat(np.arange(PATIENTS), counts)
    return pa.table(
        {
            "patient_id": owners,
            "stay": np.arange(len(owners)),
            "ward": chance.choice(WARDS, len(owners), p=[0.5, 0.3, 0.2]),
        }
    )


STAYS = make_stays()


def choose(most: int) -> tuple[Choice, dict[str, int]]:
    """Return the choice by *balanced* where so many stays of each patient count, and the stays by ward as they are."""
    columns: dict[str, Any] = {"patient_id": plain("integer"), "stay": whole(0, 10**5), "ward": category(*WARDS)}
    facts = declare("stays", PATIENTS, columns, unit="patient_id", max_rows_per_unit=most, row_key="stay")
    with Dataset.open(STAYS, schema=facts | {"row": "stay", "individual": "patient"}) as hospital:
        risk = hospital.risk(BY_WARD)
        wards = STAYS.column("ward").to_pylist()
        choice = risk.find("advantage:0.25")
        assert choice.start.epsilon is not None  # reads the exact numbers, while the data are open
        return choice, {ward: wards.count(ward) for ward in WARDS}


def test_where_rows_are_cut_the_verdict_is_not_for_and_says_how_far_the_numbers_are_off() -> None:
    choice, exact = choose(3)
    counts = np.bincount(STAYS.column("patient_id").to_numpy())
    cut = int(np.maximum(counts - 3, 0).sum())
    verdicts = {line.epsilon: choice.judge(line.epsilon)[0] for line in choice.candidates}
    assert Verdict.FOR not in verdicts.values()
    found = choice.judge(choice.start.epsilon)[1]
    (rows,) = [each for each in found if isinstance(each, RowsCut)]
    assert (rows.rows, rows.share) == (cut, cut / counts.sum())
    (off,) = [each for each in found if isinstance(each, NumbersFarOff)]
    assert off.direction == -off.typical < 0.0
    assert 0.8 * cut * 0.3 < off.typical < 1.2 * cut * 0.3  # the middle ward has three tenths of the stays
    assert off.worst == pytest.approx(exact["Cardiology"] * rows.share, rel=0.05)
    text = choice.describe_verdict()["findings"]
    assert any("of the stays are not counted" in str(each) and "too small" in str(each) for each in text)  # type: ignore[union-attr]
    assert choice.start.reason == "bias"  # the noise alone says where to start


def test_cut_rows_are_counted_where_nobody_declared_the_groups_however_many_the_data_could_have() -> None:
    """With 50 rows each, 300,000 people could be in 15 million groups, more than a release may keep; here are 3."""
    columns: dict[str, Any] = {"patient_id": plain("integer"), "stay": whole(0, 10**5), "ward": plain("text")}
    facts = declare("stays", 300_000, columns, unit="patient_id", max_rows_per_unit=3, row_key="stay")
    with Dataset.open(STAYS, schema=facts) as hospital:
        risk = hospital.risk(BY_WARD, groups="thresholded", group_delta=1e-9, candidates=[1.0])
        assert hospital.schema.max_rows_per_unit < max(np.bincount(STAYS.column("patient_id").to_numpy())) > 20
        choice = risk.find("advantage:0.9")
        verdict, found = choice.judge(1.0)
    cut = int(np.maximum(np.bincount(STAYS.column("patient_id").to_numpy()) - 3, 0).sum())
    (off,) = [each for each in found if isinstance(each, NumbersFarOff)]
    assert verdict is Verdict.AGAINST
    assert 0.8 * cut * 0.3 < off.typical < 1.2 * cut * 0.3
    assert off.direction < 0.0


def test_beside_a_bias_the_noise_is_told_whole_whatever_the_columns_are_called() -> None:
    columns: dict[str, Any] = {"patient_id": plain("integer"), "stay": whole(0, 10**5), "ward": category(*WARDS)}
    facts = declare("stays", PATIENTS, columns, unit="patient_id", max_rows_per_unit=3, row_key="stay")
    asked = {
        ('COUNT(*) AS "a; b", AVG(stay) AS mean', 0.5): "At ε = 0.5 the noise adds a; b ± ",
        ('COUNT(*) AS "a; b"', 0.5): "At ε = 0.5 the noise adds ± ",
        ('COUNT(*) AS "a; b", AVG(stay) AS mean', 0.001): ", mean without an error bound (95 %); ",
        (
            "AVG(stay) AS mean",
            0.001,
        ): "At ε = 0.001 the analyst would get mean without an error bound (95 %); 1 number has",
    }
    with Dataset.open(STAYS, schema=facts) as hospital:
        for (shown, epsilon), words in asked.items():
            choice = hospital.risk(f"SELECT {shown} FROM stays WHERE ward = 'Oncology'").find("advantage:0.25")
            (told,) = [each for each in choice.judge(epsilon)[1] if isinstance(each, Errors)]
            assert told.accuracy.is_biased
            assert words in word(told)


def test_where_all_rows_count_the_verdict_is_for() -> None:
    choice, _ = choose(50)
    assert choice.judge(choice.start.epsilon)[0] is Verdict.FOR
    assert known(choice.candidates[0].accuracy[0].bias).worst == 0.0


@pytest.mark.parametrize("preset", PRESETS)
def test_an_average_that_is_off_by_half_its_range_is_found_by_no_preset_and_called_worthless(preset: str) -> None:
    """Penguins: 333 of them, each island's weighs between 2.7 and 6.3 kg."""
    chance = np.random.default_rng(3)
    birds = pa.table({"mass": chance.integers(2700, 6301, 333), "island": chance.choice(["a", "b", "c"], 333)})
    facts = declare("penguins", 333, {"mass": whole(2700, 6300), "island": category("a", "b", "c")})
    with Dataset.open(birds, schema=facts) as penguins:
        choice = penguins.risk("SELECT island, AVG(mass) AS mass FROM penguins GROUP BY island").find(preset)
    for line in choice.candidates:
        worst, far = known(line.accuracy[0].worst if line.accuracy[0].worst is not None else np.inf), 0.25 * 3600
        verdict, found = choice.judge(line.epsilon)
        assert not (line.satisfied and worst > far)
        if known(line.accuracy[0].typical or np.inf) > far:
            assert verdict is Verdict.AGAINST
            assert "worth_little" in {each.kind for each in found}
    assert {line.satisfied for line in choice.candidates} == {True, False} or preset == "cautious"


def test_a_median_that_is_too_far_off_is_told_which_preset_it_meets_elsewhere() -> None:
    """Its error is judged as a value, so that a preset holds of it, and no sentence says that none can."""
    ages = pa.table({"age": np.random.default_rng(1).integers(17, 91, 400)})
    with Dataset.open(ages, schema=declare("many", 400, {"age": whole(0, 100)})) as many:
        choice = many.risk("SELECT MEDIAN(age) FROM many").find("balanced")
        found = choice.judge(0.01)[1]
    (fails,) = [each for each in found if isinstance(each, people.FailsByAccuracy)]
    assert fails.found == choice.epsilon
    assert choice.epsilon in choice.meeting_people
    assert (
        word(fails)
        == f"ε = 0.01 does not meet the preference; {choice.epsilon} does. It fails by accuracy, not by risk."
    )


@pytest.mark.parametrize(("most", "cut"), [(5, 0), (1, 95)])
def test_rows_that_are_nobodys_are_told_apart_from_those_that_are_cut(most: int, cut: int) -> None:
    """More rows of each to count would bring none of them back."""
    stays = pa.table({"owner": pa.array([*np.repeat(np.arange(95), 2).tolist(), *[None] * 10]), "stay": range(200)})
    columns = {"owner": plain("integer"), "stay": whole(0, 1_000)}
    facts = declare("stays", 95, columns, unit="owner", max_rows_per_unit=most, row_key="stay")
    with Dataset.open(stays, schema=facts) as hospital:
        choice = hospital.risk("SELECT COUNT(*) FROM stays").find("balanced")
        found = choice.judge(1.0)[1]
    assert [(each.rows, each.share) for each in found if isinstance(each, RowsCut)] == [(cut, cut / 200)] * bool(cut)
    (nobodys,) = [each for each in found if isinstance(each, RowsUnowned)]
    assert (nobodys.rows, nobodys.share) == (10, 0.05)
    assert word(nobodys) == "Nothing says of 10 rows (5 %) whose they are: they do not count."


def test_where_tables_are_joined_no_sentence_gives_the_limit_of_one_for_rows_that_another_cuts() -> None:
    """Each patient has 2 stays, which both count, and 4 bills, of which 1 does."""
    owners = np.arange(50)
    stays = pa.table({"owner": np.repeat(owners, 2), "stay": range(100)})
    bills = pa.table({"owner": np.repeat(owners, 4), "bill": range(200)})
    bill: dict[str, Any] = {"owner": plain("integer"), "bill": whole(0, 1_000)}
    own = {"unit": "owner", "max_rows_per_unit": 1, "row_key": "bill", "public": False, "columns": bill}
    columns = {"owner": plain("integer"), "stay": whole(0, 1_000)}
    limits: dict[str, Any] = {"unit": "owner", "max_rows_per_unit": 5, "row_key": "stay", "tables": {"bills": own}}
    with Dataset.open(
        stays, schema=declare("stays", 50, columns, **limits), table="stays", tables={"bills": bills}
    ) as hospital:
        sql = "SELECT COUNT(*) FROM stays s JOIN bills b ON s.owner = b.owner"
        found = hospital.risk(sql).find("balanced").judge(1.0)[1]
    (cut,) = [each for each in found if isinstance(each, RowsCut)]
    assert (cut.rows, cut.share, cut.most) == (150, 0.5, None)
    assert word(cut) == "Of each person only some rows of a table count, as it declares: 150 rows (50 %) do not."
