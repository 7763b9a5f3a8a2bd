"""Find out whose the rows are: which columns, by their names, seem to identify individuals, and whether values repeat.

Takes names and counts, or an engine to count with; gives the column that several rows of one individual share, if there
is one. Counts decide, and no cell is read. For the controller: differential privacy protects those whom the unit column
identifies. With ``unit = "row"``, a release from a table of visits protects single visits, and not the visitors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from sqlglot import exp

from dosimeter.engines import Engine, fetch_rows
from dosimeter.schema import Column, ColumnType, Schema, Words
from dosimeter.show import format_percent
from dosimeter.sql import column_tree

UNIT_TYPES = (ColumnType.INTEGER, ColumnType.TEXT, ColumnType.CATEGORY)
_NAMES = frozenset({"name", "names", "surname", "forename", "firstname", "lastname", "fullname"})
_NUMBERS_OF_PEOPLE = frozenset({"email", "mail", "phone", "telephone", "ssn", "passport", "iban"})
PEOPLE = frozenset(
    {"patient", "person", "people", "customer", "client", "user", "member", "subject", "participant", "respondent"}
    | {"student", "pupil", "employee", "worker", "citizen", "resident", "donor", "insured", "individual"}
    | {"patienten", "personen", "kunde", "kunden", "versicherte", "versicherten", "personne", "persona", "paciente"}
)
_PARTS_OF_NAMES = frozenset({"surname", "forename", "firstname", "lastname", "first", "last", "given", "family"})
KEYS = frozenset({"id", "ids", "key", "number", "no", "nr", "code", "uuid", "guid", "pid", "uid"})
_OCCASIONS = frozenset(
    {
        "visit",
        "session",
        "wave",
        "round",
        "stay",
        "encounter",
        "episode",
        "occasion",
        "event",
        "trial",
        "attempt",
        "exam",
    }
    | {"year", "quarter", "month", "week", "day", "date", "time", "period", "season", "semester", "term", "timepoint"}
    | {"line", "row", "sequence", "seq", "order", "index", "idx", "step", "t"}
    | {"jahr", "monat", "woche", "tag", "besuch", "sitzung", "welle", "annee", "mois", "jour", "visite"}
)
MOST_ROWS_EACH = 100  # a value with more rows is rather a place or a kind than an individual
FEWEST_VALUES = 50
FEWEST_PEOPLE = 10  # with fewer, a column such as citizen is rather a yes or no


class Evidence(IntEnum):
    """How strongly a column's name suggests that its values are individuals."""

    NONE = 0
    KEY = 1  # visit_id, code: individuals of some kind, or text that has many values
    NAME = 2  # name, address: of people, but several may share one
    PERSON = 3  # patient_id, subject, e-mail: one for each


@dataclass(frozen=True, slots=True)
class ColumnCounts:
    """Counts of one column: the cells that hold a value (``present``), and the ``distinct`` values."""

    present: int
    distinct: int


@dataclass(frozen=True, slots=True)
class RepeatedOwner:
    """A column that seems to identify individuals, although several rows share a value.

    ``values``: how many distinct values it has. ``rows``: how many rows have a value.
    """

    name: str
    values: int
    rows: int

    def __str__(self) -> str:
        return f"{self.name} identifies people and repeats: {self.values:,} values in {self.rows:,} rows"


def split_words(name: str) -> list[str]:
    """Return the words of a column's name in lower case: patientId, patient_id and "Patient ID" give the same words."""
    parted = re.sub(r"(?<=[^\W\dA-Z_])(?=[A-Z])", "_", name)
    return [word.lower() for word in re.findall(r"[^\W\d_]+", parted)]


def names_people(name: str) -> bool:
    """Return whether a column's name contains a word for what identifies people, such as name, e-mail or phone."""
    return not (_NAMES | _NUMBERS_OF_PEOPLE | {"address"}).isdisjoint(split_words(name))


def names_person_key(name: str) -> bool:
    """Return whether a column's name is that of a key of people: patient_id, Patient ID, subject number."""
    return is_key(name) and weigh_name(name) is Evidence.PERSON


def names_things(name: str) -> bool:
    """Return whether a column of this name may hold names of things: country_name or name may, surname may not."""
    words = set(split_words(name))
    return words & (_NAMES | _NUMBERS_OF_PEOPLE | {"address"}) <= {"name", "names"} and words.isdisjoint(
        PEOPLE | _PARTS_OF_NAMES | {"full"}
    )


def is_key(name: str) -> bool:
    """Return whether a column's name ends as names of keys do: visit_id, customerkey, lab number."""
    words = split_words(name)
    if words in (["no"], ["code"], ["number"], ["key"]):
        return False  # these can mean nitrogen monoxide, a kind, a quantity
    return bool(words) and (words[-1] in KEYS or name.lower().endswith(("id", "key", "number")))


def names_occasion(name: str) -> bool:
    """Return whether a column's name says which of somebody's rows it is: a visit, a session, a year, a line."""
    words = split_words(name)
    return bool(words) and (words[0] in _OCCASIONS or words[-1] in _OCCASIONS)


def weigh_name(name: str) -> Evidence:
    """Return how strongly a column's name suggests that its values are individuals."""
    words = set(split_words(name))
    person = not words.isdisjoint(PEOPLE)
    if words & _NUMBERS_OF_PEOPLE or words & {"pid", "uid"} or (person and (len(words) == 1 or is_key(name))):
        return Evidence.PERSON
    if not words.isdisjoint(_PARTS_OF_NAMES):
        return Evidence.NONE  # many people have one first name
    if words & _NAMES or "address" in words:
        return Evidence.NAME if person or len(words) == 1 or "full" in words else Evidence.KEY
    return Evidence.KEY if is_key(name) else Evidence.NONE


def find_repeated_owner(
    columns: Iterable[Column], counts: Mapping[str, ColumnCounts], rows: int
) -> RepeatedOwner | None:
    """Return the column whose values are most likely individuals with several rows; None if there is no such column.

    ``columns``: the columns to choose from, as a schema or a draft declares them. ``counts``: the counts of each, by
    name. ``rows``: how many rows the table has.
    """
    weighed = {column.name: _weigh(column) for column in columns if column.type in UNIT_TYPES}
    unique = {weight for name, weight in weighed.items() if weight and counts[name].distinct == rows > 1}
    if Evidence.PERSON in unique:
        return None
    candidates = [name for name, weight in weighed.items() if _repeats(name, weight, counts[name], rows, unique)]
    if not candidates:
        return None
    best = max(candidates, key=lambda name: (weighed[name], is_key(name), counts[name].distinct))
    return RepeatedOwner(best, counts[best].distinct, counts[best].present)


def _weigh(column: Column) -> Evidence:
    """Return how strongly a column's name suggests individuals; at least KEY if it is marked as ``identifying``.

    The mark does not count for a part of a name, such as a surname, which many people share.
    """
    weight = weigh_name(column.name)
    marked = column.identifying and set(split_words(column.name)).isdisjoint(_PARTS_OF_NAMES)
    return max(weight, Evidence.KEY) if marked else weight


def _repeats(name: str, weight: Evidence, counts: ColumnCounts, rows: int, unique: set[Evidence]) -> bool:
    """Return whether a column's values repeat as if they were individuals with several rows each.

    ``weight``: how strongly the column's name suggests individuals. ``rows``: how many rows the table has. ``unique``:
    the weights of the columns that have a different value in every row. If there is such a column, each row may be an
    individual. Then a column of the weight NAME counts only if a value has more than two rows on average, and a column
    of the weight KEY only if its name ends as names of keys do, such as visit_id.
    """
    if weight is Evidence.NONE or not 2 <= counts.distinct < counts.present or 2 * counts.present < rows:
        return False
    if weight is Evidence.PERSON:
        return counts.distinct >= FEWEST_PEOPLE or is_key(name)
    if 10 * counts.present < 9 * rows or counts.present > MOST_ROWS_EACH * counts.distinct:
        return False
    if weight is Evidence.NAME:  # where another column is unique, a few equal names are namesakes
        return not unique or 2 * counts.distinct < counts.present
    if not is_key(name) and (unique or 2 * counts.distinct > counts.present):
        return False  # text with many values: places, kinds, or titles and remarks of which a few repeat
    return counts.distinct > FEWEST_VALUES


def count_values(engine: Engine, names: Sequence[str]) -> tuple[dict[str, ColumnCounts], int]:
    """Return the counts of each of these columns, and the number of rows, in one scan."""
    row = read_row(engine, list_counts(names))
    counts = {name: ColumnCounts(row[f"present{at}"], row[f"distinct{at}"]) for at, name in enumerate(names)}
    return counts, row["rows"]


def list_counts(names: Iterable[str]) -> dict[str, exp.Expression]:
    """Return what counts all rows, as "rows", and of each column the cells with a value and the distinct values.

    These are named after the column's place: present0, distinct0 ….
    """
    trees: dict[str, exp.Expression] = {"rows": exp.Count(this=exp.Star())}
    for at, name in enumerate(names):
        trees[f"present{at}"] = exp.Count(this=column_tree(name))
        trees[f"distinct{at}"] = exp.Count(this=exp.Distinct(expressions=[column_tree(name)]))
    return trees


def read_row(
    engine: Engine, trees: Mapping[str, exp.Expression], relation: exp.Expression | None = None
) -> Mapping[str, Any]:
    """Return the values of these aggregates, by their names, in one scan. ``relation``: by default the engine's."""
    items = [exp.alias_(tree, name) for name, tree in trees.items()]
    return fetch_rows(engine, exp.select(*items).from_(engine.relation() if relation is None else relation.copy()))[0]


def find_overlooked_owner(engine: Engine, schema: Schema) -> RepeatedOwner | None:
    """Return an identifying column that repeats although the schema says ``unit = "row"``; None if there is none.

    Takes one scan of the columns that the schema marks as identifying, and no scan if it marks none.
    """
    marked = [column for column in schema.columns.values() if column.identifying and column.type in UNIT_TYPES]
    if schema.unit != "row" or not marked:
        return None
    return find_repeated_owner(marked, *count_values(engine, [column.name for column in marked]))


def word_cut(each: Mapping[int, int], kept: int) -> str:
    """Write how many rows do not count, of how many. ``each``: by number of rows, how many individuals have so many.

    ``kept``: how many rows of one individual count.
    """
    rows = sum(number * people for number, people in each.items())
    cut = sum((number - kept) * people for number, people in each.items() if number > kept)
    return f"{cut:,} of {rows:,} rows ({format_percent(cut / rows)})"


def warn_of_people(people: int, declared: int, called: Words) -> str:
    """Say that the table holds more people than the schema declares, and what that does."""
    return (
        f"The table holds {called.count_people(people)} and the schema declares {declared:,}: everybody counts, and "
        "released totals are cut to what the declared number can reach. Correct individuals in the schema."
    )


def warn_of_owner(owner: RepeatedOwner) -> str:
    """Say that ``unit = "row"`` protects rows and not the people whom this column identifies, and what to change."""
    return (
        f'The schema says unit = "row", but {owner}. If one person can have several rows, what is promised holds for '
        f'rows and not for people: set unit = "{owner.name}" with max_rows_per_unit (dosimeter schema drafts them).'
    )
