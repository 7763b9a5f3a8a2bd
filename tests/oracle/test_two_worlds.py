"""Two worlds, against really deleting the most exposed person; chances summed at 50 digits, or by permutations."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import mpmath
import pyarrow as pa
import pytest

from dosimeter import Dataset, OptionError
from dosimeter.assessment import Risk
from dosimeter.findings import find_worlds, word
from dosimeter.risk import TwoWorlds
from tests.known import known
from tests.oracle.leaving_out import measure_weighted, size_of
from tests.oracle.test_ranks import GROUPS, UPPER, Row, cells, chances, open_table, quantile
from tests.schemas import category, decimal, declare, plain, whole

GAUSSIAN: dict[str, Any] = {"mechanism": "gaussian", "delta": 1e-6}
EPSILONS = (0.05, 1.0, 8.0)


@pytest.fixture(scope="module", autouse=True)
def _precise() -> Any:
    with mpmath.workdps(50):
        yield


def laplace(scale: float) -> Callable[[int], Any]:
    """P(z) = (1 − q)/(1 + q)·q^|z| with q = e^(−1/b), b in grid steps."""
    q = mpmath.exp(-1 / mpmath.mpf(scale))
    return lambda z: (1 - q) / (1 + q) * q ** abs(z)


def gaussian(scale: float) -> Callable[[int], Any]:
    """P(z) ∝ e^(−z²/2σ²), σ in grid steps."""

    def weigh(z: int) -> Any:
        return mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * mpmath.mpf(scale) ** 2))

    total = weigh(0) + 2 * mpmath.fsum(map(weigh, range(1, int(40 * scale) + 2)))
    return lambda z: weigh(z) / total


def check_sums(worlds: TwoWorlds) -> None:
    for own, beyond in zip(
        zip(*((b.with_them, b.without) for b in worlds.bins), strict=True), worlds.beyond, strict=True
    ):
        assert sum(own) + beyond == pytest.approx(1.0, abs=1e-12)
        assert beyond >= 0.0
    assert len(worlds.bins) <= 153
    places = [end for each in worlds.bins for end in (each.low, each.high)]
    assert places == sorted(places)


def check_noise(worlds: TwoWorlds, chance: Callable[[int], Any], grid: Fraction) -> None:
    """Every bin is the sum of its numbers' chances, around each exact number."""
    check_sums(worlds)
    assert worlds.step == grid
    for each in worlds.bins:
        low, high = (round(Fraction(end) / grid) for end in (each.low, each.high))
        assert each.low == pytest.approx(float(low * grid), rel=1e-12)
        for found, exact in ((each.with_them, worlds.exact[0]), (each.without, worlds.exact[1])):
            centre = round(Fraction(exact) / grid)
            expected = float(sum(chance(z - centre) for z in range(low, high + 1)))
            assert found == pytest.approx(expected, rel=1e-9)
        if each.without:
            assert each.times == pytest.approx(each.with_them / each.without)


# ---------------------------------------------------------------- numbers with noise

Person = tuple[str, str, float, int]  # who, group, value, flag
FACTS: dict[str, Any] = {"g": category("a", "b"), "v": decimal(0, 5, 0.5), "x": whole(-3, 3)}


def open_people(rows: Sequence[Person], most: int) -> Dataset:
    columns, table = dict(FACTS), dict(zip(("who", "g", "v", "x"), map(list, zip(*rows, strict=True)), strict=True))
    more: dict[str, Any] = {}
    if most > 1:
        columns |= {"who": plain("text"), "key": plain("integer")}
        more, table["key"] = {"unit": "who", "max_rows_per_unit": most, "row_key": "key"}, list(range(len(rows)))
    else:
        del table["who"]
    return Dataset.open(pa.table(table), schema=declare("t", 20, columns, **more), table="t")


QUERIES = [
    "SELECT COUNT(*) AS n FROM t WHERE x > 0",
    "SELECT g, SUM(v) AS s FROM t GROUP BY g",
    "SELECT g, AVG(v) AS mean, COUNT(*) AS n FROM t GROUP BY g",
    "SELECT COUNT(DISTINCT x) AS d, SUM(x) AS s FROM t",
    "SELECT g, COUNT(*) AS n FROM t GROUP BY g UNION ALL SELECT 'all', COUNT(*) FROM t WHERE x > 0",
]


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("noise", [{}, GAUSSIAN], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("sql", QUERIES)
def test_noise_in_both_worlds_is_that_of_really_deleting_somebody(sql: str, noise: dict[str, Any], most: int) -> None:
    chance = random.Random(f"{sql} {most}")
    rows: list[Person] = [
        (f"p{at}", chance.choice("ab"), chance.randrange(11) / 2, chance.randint(-3, 3))
        for at in range(7)
        for _ in range(chance.randint(1, most))
    ]
    with open_people(rows, most) as dataset:
        risk = dataset.risk(sql, **noise)
        norm = risk.mechanism.norm
        before = measure_weighted(risk.plan, risk.tables, norm)
        without = []
        for person in dict.fromkeys(row[0] for row in rows):
            with open_people([row for row in rows if row[0] != person], most) as fewer:
                without.append(measure_weighted(risk.plan, fewer.tables, norm))
        changes = [tuple(a - b for a, b in zip(before, after, strict=True)) for after in without]
        sizes = [size_of(change, norm) for change in changes]
        weights = [
            1.0 if len(risk.plan.all_measures) == 1 else 1.0 / each.sensitivity(norm) for each in risk.plan.all_measures
        ]
        worlds = known(risk.worlds(1.0))
        moved = known(risk.moved_number)
        assert any(
            size == pytest.approx(max(sizes))
            and abs(change[cell]) == pytest.approx(max(map(abs, change)))
            and worlds.exact == pytest.approx((before[cell] / weights[moved.place], after[cell] / weights[moved.place]))
            for size, change, after in zip(sizes, changes, without, strict=True)
            for cell in range(len(before))
        )
        distribution = gaussian if noise else laplace
        for epsilon in EPSILONS:
            grid = risk.plan.all_measures[moved.place].grid
            scale = risk.noise_scale(epsilon) / weights[moved.place] / float(grid)
            check_noise(known(risk.worlds(epsilon)), distribution(scale), grid)


def test_a_count_is_as_likely_as_the_textbook_says() -> None:
    """With scale 1/ε every number from the exact one on is e^ε times as likely with the person as without."""
    rows: list[Person] = [(f"p{at}", "a", 1.0, 1) for at in range(9)]
    with open_people(rows, 1) as dataset:
        risk = dataset.risk("SELECT COUNT(*) AS n FROM t")
        for epsilon in EPSILONS:
            worlds = known(risk.worlds(epsilon))
            assert worlds.exact == (9.0, 8.0)
            assert (worlds.telling.low, worlds.telling.high) == (9.0, 9.0)
            assert worlds.telling.times == pytest.approx(float(mpmath.exp(epsilon)), rel=1e-9)
            told = word(find_worlds(worlds))
            times = {0.05: "1.05", 1.0: "2.72", 8.0: "2,981"}[epsilon]
            assert (
                told
                == f"If 9 is released for n, it is {times} times as likely with the most exposed person as without."
            )
        assert known(risk.worlds(1.0)).overlap == pytest.approx(1 - float(mpmath.tanh(0.5)), abs=2e-3)  # of Z and Z + 1


def test_wide_noise_is_grouped_around_the_number_itself() -> None:
    rows: list[Person] = [(f"p{at}", "a", 5.0, 1) for at in range(9)]
    with open_people(rows, 1) as dataset:
        worlds = known(dataset.risk("SELECT SUM(v) AS s FROM t", **GAUSSIAN).worlds(0.01))
        check_sums(worlds)
        assert len(worlds.bins) > 60
        assert 45.0 in [each.middle for each in worlds.bins]
        assert len({round((each.high - each.low) * 2) for each in worlds.bins}) == 1
        assert word(find_worlds(worlds)).startswith("If about ")
        assert worlds.width > 1.0


# ---------------------------------------------------------------- numbers drawn by rank


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    ("aggregates", "fractions"),
    [
        ("MEDIAN(v) AS e0", [Fraction(1, 2)]),
        ("MIN(v) AS e0, QUANTILE_DISC(v, 0.75) AS e1", [Fraction(0), Fraction(3, 4)]),
        ("MAX(v) AS e0", [Fraction(1)]),
    ],
)
def test_draws_in_both_worlds_are_those_of_really_deleting_somebody(
    aggregates: str, fractions: list[Fraction], grouped: bool, most: int
) -> None:
    chance = random.Random(f"worlds {aggregates} {grouped} {most}")
    people = [str(at) for at in range(6)]
    rows: list[Row] = [
        (who, chance.choice(GROUPS), chance.choice([None, *range(UPPER + 1)]))
        for who in people
        for _ in range(chance.randint(1, most))
    ]
    sql = f"SELECT g, {aggregates} FROM t GROUP BY g" if grouped else f"SELECT {aggregates} FROM t"
    before = cells(rows, grouped)
    left = [cells([row for row in rows if row[0] != who], grouped) for who in people]

    def move(after: list[list[int]]) -> Fraction:
        return sum(
            (abs(quantile(a, f) - quantile(b, f)) for a, b in zip(before, after, strict=True) for f in fractions),
            Fraction(0),
        )

    most_moved = [after for after in left if move(after) == max(map(move, left))]
    with open_table(rows, most) as dataset:
        risk = dataset.risk(sql)
        for epsilon in EPSILONS:
            worlds = known(risk.worlds(epsilon))
            check_sums(worlds)
            fraction = fractions[int(worlds.number.removeprefix("e"))]
            at = GROUPS.index(worlds.group) if grouped else 0
            draw = partial(chances, fraction=fraction, most=most, share=epsilon / len(fractions))
            found = {each.low: (each.with_them, each.without) for each in worlds.bins}
            assert all(each.low == each.high for each in worlds.bins)
            assert [value for value, _ in found.values()] == pytest.approx([draw(before[at])[int(v)] for v in found])
            worlds_without = [[draw(after[at])[int(v)] for v in found] for after in most_moved]
            assert any([value for _, value in found.values()] == pytest.approx(each) for each in worlds_without)


def test_a_draw_can_tell_of_somebody_who_moves_no_exact_number() -> None:
    """Among many equal values nobody moves the median, and everybody moves its chances."""
    with open_table([(str(at), "a", 3) for at in range(9)], 1) as dataset:
        worlds = known(dataset.risk("SELECT MEDIAN(v) AS m FROM t").worlds(1.0))
    assert worlds.exact == (3.0, 3.0)
    assert [each.with_them for each in worlds.bins] == pytest.approx(chances([3] * 9, Fraction(1, 2), 1, 1.0))
    assert [each.without for each in worlds.bins] == pytest.approx(chances([3] * 8, Fraction(1, 2), 1, 1.0))


def test_somebody_moves_a_draw_though_the_first_in_line_does_not() -> None:
    """Deleting one of several lowest rows leaves every score of MAX as it is: the rank sought counts from the top."""
    rows: list[Row] = [(str(at), "a", at % 3) for at in range(15)]
    with open_table(rows, 1) as dataset:
        worlds = known(dataset.risk("SELECT MAX(v) AS m FROM t").worlds(8.0))
    values = [value for _, _, value in rows if value is not None]
    assert worlds.exact == (2.0, 2.0)
    without = [chances(sorted(values)[:gone] + sorted(values)[gone + 1 :], Fraction(1), 1, 8.0) for gone in (0, 5, 14)]
    found = [(each.with_them, each.without) for each in worlds.bins]
    here = chances(values, Fraction(1), 1, 8.0)
    places = [int(each.low) for each in worlds.bins]
    assert [value for value, _ in found] == pytest.approx([here[at] for at in places])
    assert any([value for _, value in found] == pytest.approx([each[at] for at in places]) for each in without[1:])


# ---------------------------------------------------------------- groups, masks, nobody


def open_notes() -> Dataset:
    names = ["flu"] * 20 + ["gout"] * 8 + ["rare"]
    facts = {"topic": plain("text"), "name": {"type": "text", "identifying": True}, "x": whole(0, 9)}
    table = {"topic": names, "name": [f"Zebulon {at}" for at in range(29)], "x": [at % 9 for at in range(28)] + [9]}
    return Dataset.open(pa.table(table), schema=declare("notes", 29, facts), table="notes")


def assess_notes(notes: Dataset, sql: str, delta: float) -> Risk:
    return notes.risk(sql, groups="thresholded", group_delta=delta)


def test_a_group_that_nobody_declared_is_shown_only_with_enough_people() -> None:
    """One person alone: without them their group is not there at all. T: the least t with P(1 + Z ≥ t) ≤ δ."""
    with open_notes() as notes:
        risk = assess_notes(notes, "SELECT topic, COUNT(*) AS n FROM notes WHERE topic = 'rare' GROUP BY topic", 0.1)
        worlds = known(risk.worlds(1.0))
        check_sums(worlds)
        chance = laplace(1.0)
        least = next(t for t in range(1, 50) if sum(map(chance, range(t - 1, 400))) <= 0.1)
        for each in worlds.bins:
            assert each.with_them == pytest.approx(float(chance(int(each.low) - 1)) if each.low >= least else 0.0)
            assert each.without == 0.0
        assert worlds.beyond[1] == 1.0
        assert "without them it practically never comes out" in word(find_worlds(worlds))

        assert known(worlds.shown) == pytest.approx((float(sum(map(chance, range(least - 1, 400)))), 0.0))
        hidden = assess_notes(notes, "SELECT topic, COUNT(*) AS n FROM notes WHERE topic = 'rare' GROUP BY topic", 1e-9)
        told = word(find_worlds(hidden.worlds(1.0)))
        assert (
            told
            == "rare is hardly ever shown: with a chance of < 0.0001 % with the most exposed person, and 0 % without."
        )
        with pytest.raises(OptionError, match="hardly ever shown"):
            hidden.plot("worlds", epsilons=[1.0])

        both = assess_notes(notes, "SELECT topic, SUM(x) AS s, COUNT(*) AS n FROM notes GROUP BY topic", 0.1)
        worlds = known(both.worlds(1.0))
        check_sums(worlds)
        assert min(known(worlds.shown)) >= 0.0
        assert min(worlds.beyond) > 0.0


def test_what_identifies_people_stays_masked() -> None:
    with open_notes() as notes:
        risk = notes.risk("SELECT name, COUNT(*) AS n FROM notes GROUP BY name", groups="observed")
        worlds = known(risk.worlds(1.0))
        assert worlds.group == "•••"
        spec = str(risk.plot("worlds", epsilons=[1.0]).to_dict())
        assert "•••" in spec
        assert "Zebulon" not in spec + word(find_worlds(worlds))
        assert repr(worlds) == "TwoWorlds(redacted)"
        assert repr(risk.moved_number) == "MovedNumber(redacted)"


def test_nobody_who_moves_anything_gives_a_sentence() -> None:
    rows: list[Person] = [(f"p{at}", "a", 0.0, 0) for at in range(3)]
    for most in (1, 3):
        with open_people(rows, most) as dataset:
            for sql in ("SELECT SUM(v) AS s FROM t", "SELECT COUNT(*) AS n FROM t WHERE x > 2"):
                risk = dataset.risk(sql)
                assert risk.worlds(1.0) is None
                with pytest.raises(OptionError, match="changes no number of this answer"):
                    risk.plot("worlds")


def test_an_average_shows_the_measured_number_that_moves_most() -> None:
    rows: list[Person] = [(f"p{at}", "a", 2.5, 0) for at in range(4)]
    with open_people(rows, 1) as dataset:
        worlds = known(dataset.risk("SELECT AVG(v) AS mean FROM t").worlds(1.0))
    assert (worlds.number, worlds.made, worlds.exact) == ("COUNT(v)", ("mean",), (4.0, 3.0))
    assert word(find_worlds(worlds)).startswith(
        "If 4 is released for COUNT(v), from which mean is computed, it is 1.65 "
    )
