"""The statistics by another road: enumeration, and sums done by hand. And the swarms' places."""

from __future__ import annotations

import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from dosimeter.errors import DataError, OptionError
from dosimeter_paper import study_commands
from dosimeter_paper.study.analysis import analyse_answers, compare_locations, compare_spreads
from dosimeter_paper.study.answers import COLUMNS, EPSILONS, StudyAnswer, read_answers, write_answers
from dosimeter_paper.study.figures import WIDEST, draw_swarms, place_swarm
from dosimeter_paper.study.store import StudyStore


def run(*words: object) -> int:
    """The command's own status; its errors are raised as the application's outermost frame gets them."""
    status = study_commands.app.main([str(word) for word in words], standalone_mode=False)
    return status if isinstance(status, int) else 0


def count_pairs(first: list[float], second: list[float]) -> float:
    return sum(1.0 if a > b else 0.5 if a == b else 0.0 for a in first for b in second)


# ---------------------------------------------------------------- Mann–Whitney


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1.0, 2.0], [3.0, 4.0]),
        ([1.0, 2.0, 3.0], [4.0, 5.0, 0.5]),
        ([0.5, 4.5, 2.5], [1.0, 1.5, 2.0, 3.0]),
        ([5.0], [0.5, 1.0, 1.5]),
    ],
)
def test_exact_p_is_the_share_of_all_splits(first: list[float], second: list[float]) -> None:
    """Every way to split the pooled answers is equally likely; U is symmetric about half the pairs."""
    pooled, half = [*first, *second], len(first) * len(second) / 2
    observed = count_pairs(first, second)
    splits = []
    for chosen in combinations(range(len(pooled)), len(first)):
        inside = [pooled[at] for at in chosen]
        outside = [pooled[at] for at in range(len(pooled)) if at not in chosen]
        splits.append(count_pairs(inside, outside))
    p = sum(abs(u - half) >= abs(observed - half) for u in splits) / len(splits)
    found = compare_locations(first, second)
    assert found is not None
    assert found.exact
    assert found.u == observed
    assert found.p == pytest.approx(p, rel=1e-12)


def test_exact_p_by_hand() -> None:
    """{1, 2} below {3, 4}: U = 0; 2 of the 6 splits are as far out."""
    found = compare_locations([1.0, 2.0], [3.0, 4.0])
    assert found is not None
    assert (found.u, found.share) == (0.0, 0.0)
    assert found.p == pytest.approx(1 / 3)


def test_p_with_ties_by_hand() -> None:
    """{1, 2, 2} and {2, 3}: pairs 0+0 + ½+0 + ½+0, U = 1. Ties: one value three times, so the variance of U is
    (3·2/12)·(6 − (27 − 3)/(5·4)) = 0.5 · 4.8 = 2.4; z = (|1 − 3| − ½)/√2.4."""
    found = compare_locations([1.0, 2.0, 2.0], [2.0, 3.0])
    assert found is not None
    assert found.u == 1.0
    assert not found.exact
    assert found.p == pytest.approx(math.erfc(1.5 / math.sqrt(2.4) / math.sqrt(2)), rel=1e-12)


def test_two_groups_that_chose_alike() -> None:
    found = compare_locations([2.0, 2.0], [2.0, 2.0, 2.0])
    assert found is not None
    assert (found.u, found.share, found.p) == (3.0, 0.5, 1.0)
    assert compare_locations([], [1.0]) is None


# ---------------------------------------------------------------- Brown–Forsythe


def test_spread_by_hand() -> None:
    """{1, 3, 5} and {2, 3, 4}: distances from the medians {2, 0, 2} and {1, 0, 1}, means 4/3 and 2/3, together 1.
    Between: 3·(1/3)² + 3·(1/3)² = 2/3 on 1. Within: 4/9 + 16/9 + 4/9 + 1/9 + 4/9 + 1/9 = 10/3 on 4. F = 0.8.
    For F on (1, 4) degrees, with t = √F: p = 1 − 2·(t/(2√(t²+4)))·(3/2 − t²/(2(t²+4)))."""
    found = compare_spreads([1.0, 3.0, 5.0], [2.0, 3.0, 4.0])
    assert found is not None
    assert found.f == pytest.approx(0.8)
    t = math.sqrt(0.8)
    s = t / math.sqrt(t * t + 4)
    assert found.p == pytest.approx(1 - s * (1 + (1 - s * s) / 2), rel=1e-12)


def test_spread_is_measured_from_the_median() -> None:
    """{1, 1, 4} and {2, 2, 3}: distances {0, 0, 3} and {0, 0, 1}, means 1 and 1/3, together 2/3. Between:
    6·(1/3)² = 2/3; within: 6 + 2/3 on 4. F = (2/3)/(5/3) = 0.4. From the means it would be another."""
    found = compare_spreads([1.0, 1.0, 4.0], [2.0, 2.0, 3.0])
    assert found is not None
    assert found.f == pytest.approx(0.4)


@pytest.mark.parametrize(("first", "second"), [([1.0], [1.0, 2.0]), ([2.0, 2.0], [3.0, 3.0]), ([1.0, 3.0], [2.0, 4.0])])
def test_spread_that_is_not_defined(first: list[float], second: list[float]) -> None:
    assert compare_spreads(first, second) is None


# ---------------------------------------------------------------- a whole study


def make_answer(number: int, group: str, q1: float, q2: float, **changes: Any) -> StudyAnswer:
    values: dict[str, Any] = {
        "day": "2026-11-15", "texts_version": "1", "prior_knowledge": "no", "quiz": "bacb", "quiz_score": 4,
        "passed": True, "first_query": "q1", "used_rdr": None if group == "control" else True, "completed": True,
    }  # fmt: skip
    return StudyAnswer(participant=number, group=group, epsilon_q1=q1, epsilon_q2=q2, **(values | changes))


CONTROL = [0.5, 1.0, 3.0, 4.5, 5.0]
RANGE = [1.5, 1.5, 2.0, 2.0]
HISTOGRAM = [2.5, 3.5, 4.0]


def make_study() -> list[StudyAnswer]:
    groups = {"control": CONTROL, "range": RANGE, "histogram": HISTOGRAM}
    answers = [
        make_answer(100 * place + at, group, epsilon, 2.0, prior_knowledge="yes" if at % 2 else "no")
        for place, (group, chosen) in enumerate(groups.items(), start=1)
        for at, epsilon in enumerate(chosen)
    ]
    failed: dict[str, Any] = {"quiz": "aaaa", "quiz_score": 1, "passed": False, "prior_knowledge": "yes"}
    return [
        *answers,
        StudyAnswer(901, "2026-11-15", "1", **failed),
        StudyAnswer(902, "2026-11-15", "1", **failed),
        StudyAnswer(903, "2026-11-15", "1"),
        StudyAnswer(904, "2026-11-15", "1", "no", "bacb", 4, True, "range", "q2", None, 1.0),
    ]


def test_exclusions_and_group_sizes() -> None:
    found = analyse_answers(make_study())
    document = found.document()
    assert document["participants"] == {
        "recruited": 16, "stopped_before_quiz": 1, "failed_quiz": 2, "stopped_after_quiz": 1, "analysed": 12,
    }  # fmt: skip
    assert found.sizes == {"control": 5, "range": 4, "histogram": 3}
    assert found.knowledge["control"] == {"no": 3, "yes": 2}
    assert found.used == {"range": {"yes": 4, "no": 0}, "histogram": {"yes": 3, "no": 0}}


def test_unfinished_and_failed_answers_are_in_no_test() -> None:
    (compared,) = [
        c for c in analyse_answers(make_study()).comparisons
        if (c.query, c.knowledge, c.groups) == ("q1", "all", ("control", "range"))
    ]  # fmt: skip
    assert compared.n == (5, 4)
    assert compared.location is not None
    assert compared.location.u == count_pairs(CONTROL, RANGE) == 12.0
    # Distances: control {2.5, 2, 0, 1.5, 2}, mean 1.6; range {¼, ¼, ¼, ¼}. Together 1. Between
    # 5·0.36 + 4·0.5625 = 4.05; within 0.81 + 0.16 + 2.56 + 0.01 + 0.16 = 3.7 on 7.
    assert compared.spread is not None
    assert compared.spread.f == pytest.approx(4.05 / (3.7 / 7))


def test_summary_says_where_most_answers_are() -> None:
    (summary,) = [
        s for s in analyse_answers(make_study()).summaries if (s.query, s.knowledge, s.group) == ("q1", "all", "range")
    ]
    assert (summary.median, summary.densest, summary.densest_n) == (1.75, ("1.5", "2"), 4)
    assert summary.variance == pytest.approx(0.25 / 3)
    assert summary.counts == dict.fromkeys(("0.5", "1", "2.5", "3", "3.5", "4", "4.5", "5"), 0) | {"1.5": 2, "2": 2}


def test_nobody_to_analyse() -> None:
    with pytest.raises(DataError, match="Nobody has passed"):
        analyse_answers([StudyAnswer(1, "2026-11-15", "1")])


def test_order_of_lines_does_not_matter() -> None:
    answers = make_study()
    assert analyse_answers(answers).document() == analyse_answers(answers[::-1]).document()


# ---------------------------------------------------------------- swarms


def test_swarm_places_by_hand() -> None:
    assert place_swarm([1.0, 2.0, 1.0, 1.0]) == pytest.approx([-0.075, 0.0, 0.0, 0.075])
    assert place_swarm([]) == []


def test_swarm_never_leaves_its_column_and_no_point_hides_another() -> None:
    values = [2.0] * 80 + [1.5] * 3
    points = list(zip(values, place_swarm(values), strict=True))
    assert len(set(points)) == len(points)
    assert max(abs(place) for _, place in points) <= WIDEST / 2 + 1e-12


def test_every_participant_is_one_point() -> None:
    """In the charts' own data: who, at which ε, in which panel."""
    swarms = {swarm.name: swarm.chart.to_dict() for swarm in draw_swarms(analyse_answers(make_study()))}
    assert list(swarms) == ["groups", "knowledge", "display"]
    points = {
        name: [chart["datasets"][panel["data"]["name"]] for panel in chart["hconcat"]] for name, chart in swarms.items()
    }
    assert [len(panel) for panel in points["groups"]] == [9, 9]
    assert [len(panel) for panel in points["display"]] == [12, 12]
    assert [len(panel) for panel in points["knowledge"]] == [5, 5, 4, 4]
    drawn = sorted(row["epsilon"] for row in points["display"][0])
    assert drawn == sorted([*CONTROL, *RANGE, *HISTOGRAM])
    alone = analyse_answers(make_study()[:1])
    assert ", 1 is analysed." in alone.words[0]
    told = [swarm.chart.to_dict()["description"] for swarm in draw_swarms(alone)]
    assert told
    assert all(sentence.endswith(": 1 participant, one point each.") for sentence in told)


# ---------------------------------------------------------------- the command line and the CSV


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    path = tmp_path / "answers.csv"
    path.write_text(write_answers(make_study()), encoding="utf-8")
    return path


def test_analyse_prints_and_writes(exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("analyse", exported, "-o", tmp_path / "out") == 0
    printed = capsys.readouterr().out
    assert "16 took part: 2 did not pass the quiz, 2 did not finish, 12 are analysed." in printed
    assert "Brown–Forsythe" in printed
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {f"{name}.{kind}" for name in ("groups", "knowledge", "display") for kind in ("svg", "png")} | {
        "analysis.json"
    }
    first = (tmp_path / "out" / "groups.svg").read_bytes()
    assert run("analyse", exported, "-o", tmp_path / "again") == 0
    assert (tmp_path / "again" / "groups.svg").read_bytes() == first


def test_analyse_json_is_one_document(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("analyse", exported, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads(json.dumps(analyse_answers(make_study()).document()))


def test_export_writes_what_is_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = StudyStore(tmp_path / "study.db")
    store.add_participant()
    store.close()
    assert run("export", "--store", tmp_path / "study.db", "-o", tmp_path / "answers.csv") == 0
    assert len(read_answers(tmp_path / "answers.csv")) == 1
    assert capsys.readouterr().out.startswith("Wrote 1 participant to ")
    assert run("export", "--store", tmp_path / "study.db") == 0
    assert capsys.readouterr().out == (tmp_path / "answers.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("column", "cell", "says"),
    [
        ("participant", "Ada", "participant must be a number"),
        ("group", "treatment", "group must be empty or one of"),
        ("epsilon_q1", "0.7", "epsilon_q1 must be"),
        ("used_rdr", "maybe", "used_rdr must be"),
        ("epsilon_q2", "", "completed must be no"),
        ("passed", "no", "completed must be no"),
        ("participant", "101", "twice"),
    ],
)
def test_csv_cells_are_checked(exported: Path, column: str, cell: str, says: str) -> None:
    lines = exported.read_text(encoding="utf-8").splitlines()
    cells = lines[1].split(",")
    cells[COLUMNS.index(column)] = cell
    exported.write_text("\n".join([lines[0], ",".join(cells), *lines[2:]]), encoding="utf-8")
    with pytest.raises(DataError, match=says) as caught:
        read_answers(exported)
    assert cell not in ("Ada", "treatment", "maybe") or cell not in str(caught.value)


def test_csv_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(DataError, match="lacks the columns"):
        read_answers(tmp_path / "other.csv")
    with pytest.raises(DataError, match="There is no file"):
        read_answers(tmp_path / "absent.csv")


@pytest.mark.parametrize("groups", ["", "control,control", "control,bars"])
def test_groups_are_checked_before_any_work(tmp_path: Path, groups: str) -> None:
    with pytest.raises(OptionError, match="--groups"):
        run("serve", "--data", tmp_path / "absent.csv", "--store", tmp_path / "study.db", "--groups", groups)


def test_values_of_epsilon_are_read_in_both_spellings(exported: Path) -> None:
    text = exported.read_text(encoding="utf-8")
    exported.write_text(text.replace("5.0,2.0", "5,2"), encoding="utf-8")
    assert {a.epsilon_q1 for a in read_answers(exported) if a.completed} <= set(EPSILONS)
