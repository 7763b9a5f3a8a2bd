"""What is stored of one participant, and the CSV it is exported to and analysed from."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from dosimeter.errors import DataError

EPSILONS = tuple(place / 2 for place in range(1, 11))  # 0.5 to 5.0 in steps of 0.5, as in the paper
GROUPS = ("control", "range", "histogram")
CONTROL = "control"


@dataclass(frozen=True, slots=True)
class StudyAnswer:
    """What is stored of one participant. ``quiz``: the letters they chose.

    A field is None if they did not get so far, or were not asked.
    """

    participant: int
    day: str
    texts_version: str
    prior_knowledge: str | None = None
    quiz: str | None = None
    quiz_score: int | None = None
    passed: bool | None = None
    group: str | None = None
    first_query: str | None = None
    epsilon_q1: float | None = None
    epsilon_q2: float | None = None
    used_rdr: bool | None = None
    completed: bool = False

    def epsilon(self, query: str) -> float | None:
        return self.epsilon_q1 if query == "q1" else self.epsilon_q2


COLUMNS = tuple(field.name for field in fields(StudyAnswer))


def write_answers(answers: Iterable[StudyAnswer]) -> str:
    """Return a CSV with one line per participant, in the order of their numbers."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_write_cell(cell) for cell in astuple(answer)] for answer in sorted(answers, key=_number))
    return text.getvalue()


def _number(answer: StudyAnswer) -> int:
    return answer.participant


def _write_cell(cell: object) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return "" if cell is None else str(cell)


def read_answers(path: Path) -> tuple[StudyAnswer, ...]:
    """Read the answers of an exported CSV. Further columns are ignored.

    Raises DataError for a missing column, a cell that does not fit its column, or a participant who is there twice.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.DictReader(lines)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise DataError(
                    f"{path} lacks the columns {', '.join(missing)}. Write it with: dosimeter study export."
                )
            answers = tuple(_read_row(row, f"{path}, line {reader.line_num}") for row in reader)
    except FileNotFoundError:
        raise DataError(f"There is no file {path}. Write one with: dosimeter study export.") from None
    except (OSError, UnicodeDecodeError, csv.Error):
        raise DataError(f"{path} cannot be read as a CSV file in UTF-8.") from None
    numbers = [answer.participant for answer in answers]
    if len(set(numbers)) < len(numbers):
        raise DataError(f"{path} holds the same participant twice.")
    return answers


def _read_row(row: Mapping[str, str | None], where: str) -> StudyAnswer:
    cells = {name: (row[name] or "").strip() or None for name in COLUMNS}

    def reject(name: str, expected: str) -> DataError:
        return DataError(f"{where}: {name} must be {expected}.")

    def choose(name: str, options: Sequence[str]) -> str | None:
        cell = cells[name]
        if cell is not None and cell not in options:
            raise reject(name, f"empty or one of {', '.join(options)}")
        return cell

    def decide(name: str) -> bool | None:
        chosen = choose(name, ("yes", "no"))
        return None if chosen is None else chosen == "yes"

    def epsilon(name: str) -> float | None:
        chosen = choose(name, [str(value) for value in EPSILONS] + [str(int(e)) for e in EPSILONS if e == int(e)])
        return None if chosen is None else float(chosen)

    participant, score = cells["participant"] or "", cells["quiz_score"]
    if not re.fullmatch(r"\d{1,12}", participant):
        raise reject("participant", "a number")
    if score is not None and not re.fullmatch(r"\d{1,2}", score):
        raise reject("quiz_score", "empty or a number")
    answer = StudyAnswer(
        participant=int(participant), day=cells["day"] or "", texts_version=cells["texts_version"] or "",
        prior_knowledge=choose("prior_knowledge", ("no", "yes")), quiz=cells["quiz"],
        quiz_score=None if score is None else int(score), passed=decide("passed"), group=choose("group", GROUPS),
        first_query=choose("first_query", ("q1", "q2")), epsilon_q1=epsilon("epsilon_q1"),
        epsilon_q2=epsilon("epsilon_q2"), used_rdr=decide("used_rdr"), completed=bool(decide("completed")),
    )  # fmt: skip
    if answer.completed and None in (answer.group, answer.epsilon_q1, answer.epsilon_q2):
        raise reject("completed", "no where the group or an ε is missing")
    if answer.completed and not answer.passed:
        raise reject("completed", "no where the quiz was not passed")
    return answer
