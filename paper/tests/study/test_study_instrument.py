"""What participants are shown is true: raw outputs, accuracy and RDRs by another road, and pictures without advice."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from pathlib import Path

import pytest

from dosimeter.errors import DataError
from dosimeter_paper.reproduction.data import load_adult
from dosimeter_paper.study import texts
from dosimeter_paper.study.answers import EPSILONS
from dosimeter_paper.study.generate import draw_sample
from dosimeter_paper.study.instrument import ROWS, Instrument, build_instrument
from study.study_site import make_people

RACES = ("Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White")
TEMPLATES = Path(texts.__file__).parent / "templates"
# One line per version of what participants read: the texts' values and the templates.
DIGESTS = {"1": "782589d0c15b164d"}


def count_by_hand(people: list[dict[str, object]]) -> tuple[int, list[int]]:
    """Both queries, in Python."""
    young = sum(person["income"] == ">50K" and int(str(person["age"])) < 40 for person in people)
    graduates = Counter(
        str(person["race"])
        for person in people
        if str(person["education"]) in {"Masters", "Prof-school", "Doctorate"} and person["income"] == "<=50K"
    )
    return young, [graduates[race] for race in RACES]


def error_by_summing(epsilon: float) -> int:
    """The smallest e with P(|Z| ≤ e) ≥ 0.95, Z discrete Laplace of scale 1/ε, by adding up its masses."""
    masses = {z: math.exp(-epsilon * abs(z)) for z in range(-500, 501)}
    total = math.fsum(masses.values())
    return next(e for e in range(500) if math.fsum(m for z, m in masses.items() if abs(z) <= e) >= 0.95 * total)


def write_by_hand(number: int, error: int) -> str:
    span = f"{number - error} to {number + error}" if error else str(number)
    return span.replace("-", "−")


@pytest.fixture(params=["generated", "adult"])
def material(request: pytest.FixtureRequest, instrument: Instrument) -> tuple[Instrument, list[dict[str, object]]]:
    """The study's material, and the people it is about."""
    if request.param == "generated":
        table, seed, built = make_people(), 3, instrument
    else:
        table, seed = load_adult(request.getfixturevalue("adult")), 1
        built = build_instrument(table, seed=seed)
    rows = table.to_pylist()
    return built, [rows[at] for at in draw_sample(len(rows), ROWS, seed=seed)]


def test_what_is_shown_is_true(material: tuple[Instrument, list[dict[str, object]]]) -> None:
    built, people = material
    young, graduates = count_by_hand(people)
    assert [row[0] for row in built.sample.rows] == [str(person["age"]) for person in people]
    for name, raw in (("q1", [young]), ("q2", graduates)):
        stimulus = built.stimuli[name]
        assert stimulus.accuracy.columns[1:] == (RACES if name == "q2" else ("number of people",))
        assert stimulus.accuracy.rows[0][1:] == tuple(map(str, raw))
        expected = [tuple(write_by_hand(n, error_by_summing(epsilon)) for n in raw) for epsilon in EPSILONS[::-1]]
        assert [row[1:] for row in stimulus.accuracy.rows[1:]] == expected
        # R3 by hand: k numbers with noise of scale 1/ε each; a person is in the count (PIS 1) or not (PIS 0).
        matched, k = sum(raw), len(raw)
        for epsilon, row in zip(EPSILONS[::-1], stimulus.range_table.rows, strict=True):
            mean = k / epsilon + matched / ROWS
            least, most = (float(cell.removesuffix(" ×")) for cell in row[1:])
            assert row[0] == f"{epsilon:.1f}"
            assert least == pytest.approx(k / epsilon / mean, abs=0.006)
            assert most == pytest.approx((1 + k / epsilon) / mean, abs=0.006)
        assert all(
            re.fullmatch(rf"{ROWS - matched} at \S+ ×; {matched} at \S+ ×", row[1])
            for row in stimulus.histogram_table.rows
        )


def test_pictures_give_no_advice(instrument: Instrument) -> None:
    for stimulus in instrument.stimuli.values():
        for picture in (stimulus.ranges, *stimulus.histograms):
            words = re.findall(r">([^<>]+)</text>", picture)
            assert words
            assert not [word for word in words if re.search(r"fair|Controller|%|least ÷|people at", word)], words


def test_range_picture_has_a_bar_per_epsilon(instrument: Instrument) -> None:
    for stimulus in instrument.stimuli.values():
        words = re.findall(r">([^<>]+)</text>", stimulus.ranges)
        assert {format(epsilon, "g") for epsilon in EPSILONS} <= set(words)
        assert texts.RANGE_TITLE in words


def test_histograms_share_one_scale(instrument: Instrument) -> None:
    """Same ticks at the same places, else bars of two ε's could not be compared."""
    for stimulus in instrument.stimuli.values():
        ticks = {
            tuple(re.findall(r'transform="translate\(([^)]+)\)[^"]*"[^>]*>([\d.]+ ×)</text>', picture))
            for picture in stimulus.histograms
        }
        assert len(stimulus.histograms) == len(EPSILONS)
        assert len(ticks) == 1
        assert len(next(iter(ticks))) >= 3


def test_same_seed_same_material(instrument: Instrument) -> None:
    assert build_instrument(make_people(), seed=3) == instrument


def test_sample_without_a_match_is_refused() -> None:
    with pytest.raises(DataError, match="--seed"):
        build_instrument(make_people(earners=False), seed=3)


def test_texts_change_with_their_version() -> None:
    """Answers to other words are answers to another question: after a change give texts.VERSION and this a new line."""
    values = [f"{name}={getattr(texts, name)!r}" for name in dir(texts) if name.isupper() and name != "VERSION"]
    pages = [path.read_text(encoding="utf-8") for path in sorted(TEMPLATES.glob("*.html"))]
    digest = hashlib.sha256("\n".join([*values, *pages]).encode()).hexdigest()
    assert DIGESTS.get(texts.VERSION) == digest[:16], digest[:16]


def test_the_paper_is_followed() -> None:
    assert EPSILONS == (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
    assert ROWS == 100
    assert all(question.right in question.options for question in texts.QUIZ)
    assert len(texts.QUIZ) == texts.PASS_MARK
