"""Write a draft of a schema as a TOML file for the controller to review. Reads private data.

Dosimeter accepts its own drafts: a written draft loads, and ``--check`` finds nothing wrong with it. And a draft is
safe to follow: where values of a column that identifies people repeat, the draft protects these people, not their rows.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from dosimeter.engines import Engine
from dosimeter.influence import count_rows_each
from dosimeter.inspection.draft import (
    COMMENT,
    MOST_AT_ONCE,
    MOST_LISTED,
    MOST_VALUES,
    TableFacts,
    draft_with_facts,
    impose_draft,
    tells_apart,
)
from dosimeter.inspection.naming import name_rows
from dosimeter.inspection.remarks import header_remarks, odd_remarks, text_remarks, unread_remarks
from dosimeter.inspection.row_owners import (
    UNIT_TYPES,
    RepeatedOwner,
    find_repeated_owner,
    is_key,
    names_occasion,
    names_people,
    word_cut,
)
from dosimeter.problems import Problem, Surface
from dosimeter.schema import ColumnType, Schema, dump_schema
from dosimeter.sql import column_tree

_WIDTH = 110
_GROUPED = (ColumnType.CATEGORY, ColumnType.BOOLEAN, ColumnType.INTEGER, ColumnType.DATE)
_MOST_TRIED = 8  # columns that are tried as a row key, each with a query
_ASK_WORDS = "What sentences call a row and an individual, by the names here: change it where it is wrong."
_ALL_THEIR_ROWS = 95  # percent of individuals of whom all rows should count


@dataclass(frozen=True, slots=True)
class WrittenDraft:
    """A drafted schema; its TOML with comments (``text``); and the comments that a screen shows too (``remarks``)."""

    schema: Schema
    text: str
    remarks: tuple[str, ...]


def write_draft(engine: Engine, surface: Surface = Surface.PYTHON) -> WrittenDraft:
    """Draft a schema from the data, with a comment for everything that the controller has to decide.

    From then on the engine reads by the types of the draft. ``surface``: where the draft is read, which decides how
    options are named in it.
    """
    if len(engine.describe()) > MOST_AT_ONCE:
        engine.hold()
    missing_header = header_remarks(engine)
    drafted, facts = draft_with_facts(engine)
    schema, odd = impose_draft(engine, drafted)
    found: list[Problem] = [*missing_header, *unread_remarks(engine), *odd_remarks(engine, schema, odd)]
    remarks = [remark.word(surface) for remark in (*found, *text_remarks(engine))]
    comments: dict[str, str] = {}
    asked = _ask_about_values(schema, facts)
    for name, question in _ask_about_nulls(schema, facts).items():
        asked[name] = f"{asked[name]} {question}" if name in asked else question
    owner = find_repeated_owner(schema.columns.values(), facts.columns, facts.rows)
    if owner is not None:
        asked.pop(f"columns.{owner.name}", None)
    many = [name.removeprefix("columns.") for name in asked if name in _ask_about_many(schema, facts)]
    if many:
        listed = ", ".join(many[:MOST_LISTED]) + (" …" if len(many) > MOST_LISTED else "")
        remarks.append(f"Too many values to list: {listed}. The draft asks what they are: GROUP BY needs the list.")
    if owner is not None:
        schema, comments = _propose_unit(engine, schema, facts, owner)
        remarks.insert(0, f'{owner}. The draft says unit = "{owner.name}": answer the questions there.')
    schema = name_rows(schema)
    if schema.row or schema.individual:
        comments["row" if schema.row else "individual"] = _ASK_WORDS
    text = dump_schema(
        schema,
        comment="\n".join((COMMENT, *remarks)),
        comments={name: textwrap.fill(words, _WIDTH) for name, words in (comments | asked).items()},
    )
    return WrittenDraft(schema, text, tuple(remarks))


def _ask_about_values(schema: Schema, facts: TableFacts) -> dict[str, str]:
    """Return the comments that ask what a column's values are: people's names, or entries of a public list.

    They ask about the columns of ``_ask_about_many``, and about every category whose name suggests people's names. Each
    comment is given by its column's key in the TOML, ``columns.NAME``.
    """
    asked = _ask_about_many(schema, facts)
    for name, column in schema.columns.items():
        if column.type is ColumnType.CATEGORY and names_people(name):
            asked[f"columns.{name}"] = (
                "The column's name speaks of names, and its few values are listed. Are they names of people? Then "
                'write type = "text" and identifying = true, and leave values out.'
            )
    return asked


def _ask_about_many(schema: Schema, facts: TableFacts) -> dict[str, str]:
    """Return the comment for each column of text whose values repeat but are too many to list, by ``columns.NAME``."""
    many = {
        name: found.distinct
        for name, found in facts.columns.items()
        if schema.columns[name].type is ColumnType.TEXT
        and not names_people(name)
        and found.distinct > MOST_VALUES
        and not tells_apart(found.distinct, found.present)
    }
    return {
        f"columns.{name}": (
            f"{count:,} different values, too many to list here. Is there a public list of them (places, codes)? Then "
            'write type = "category" and values = […], without identifying; GROUP BY needs the list. Do they tell '
            "people apart, or is it free text? Then it should say identifying = true."
        )
        for name, count in many.items()
    }


def _ask_about_nulls(schema: Schema, facts: TableFacts) -> dict[str, str]:
    """Return the comment for each column that can be grouped by and holds NULL (C8), by ``columns.NAME``."""
    missing = {
        name: facts.rows - found.present
        for name, found in facts.columns.items()
        if schema.columns[name].type in _GROUPED and not schema.columns[name].identifying
    }
    return {
        f"columns.{name}": (
            f"{count:,} of {facts.rows:,} rows have no value here (NULL), and GROUP BY leaves them out. Should NULL be "
            "a group of its own? Then add: nulls = true"
        )
        for name, count in missing.items()
        if count
    }


def _propose_unit(
    engine: Engine, schema: Schema, facts: TableFacts, owner: RepeatedOwner
) -> tuple[Schema, dict[str, str]]:
    """Return the draft with the owner's column as its unit, and comments that ask what only the controller can know.

    Comments are given by the TOML key above which they are to stand, such as ``unit``.
    """
    each = count_rows_each(engine, owner.name, engine.relation())
    row_key = _find_row_key(engine, schema, facts, owner, max(each))
    most = propose_bound(each)
    column = schema.columns[owner.name]
    kind = ColumnType.TEXT if column.type is ColumnType.CATEGORY else column.type
    marked = replace(column, type=kind, bounds=None, values=None, identifying=True)
    proposed = replace(
        schema,
        columns={**schema.columns, owner.name: marked},
        individuals=sum(each.values()),
        unit=owner.name,
        max_rows_per_unit=most,
        row_key=row_key,
    )
    cut = word_cut(each, most)
    bound = (
        f"How many rows of one individual should count? This number was read off the data: with it {cut} would not "
        "count. Every answer gets noise for it, so choose it from what is publicly known."
    )
    if row_key is None:
        bound += " No row_key is needed: a hash of the whole row decides which rows of an individual count."
    comments = {
        "unit": (
            f"Whose privacy is to be protected? {owner}. If every row is another individual all the same, write "
            f'unit = "row" and leave out max_rows_per_unit{"" if row_key is None else " and row_key"}.'
        ),
        "max_rows_per_unit": bound,
        "row_key": "The column that tells the rows of one individual apart: no value repeats within one.",
    }
    return proposed, comments


def propose_bound(each: Mapping[int, int]) -> int:
    """Return a round number of rows that at least 95 % of the individuals do not exceed.

    ``each``: for each number of rows, how many individuals have so many.
    """
    people, covered = sum(each.values()), 0
    enough = max(each)
    for number, having in sorted(each.items()):
        covered += having
        if 100 * covered >= _ALL_THEIR_ROWS * people:
            enough = number
            break
    power = int("1".ljust(len(str(enough)), "0"))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= enough)


def _find_row_key(
    engine: Engine, schema: Schema, facts: TableFacts, owner: RepeatedOwner, most_rows: int
) -> str | None:
    """Return the name of a column that tells the rows of one individual apart: no NULL, and no value twice within one.

    Only columns count whose names are those of keys or occasions, such as visit_id, session or year: of a measurement
    it is chance that no value repeats. Keys come first, and among them those without a repeated value in the whole
    table. ``most_rows``: the largest number of rows of one individual. Return None if none is found.
    """
    found = {
        name: facts.columns[name]
        for name, column in schema.columns.items()
        if name != owner.name
        and column.type in UNIT_TYPES
        and facts.columns[name].present == facts.rows
        and facts.columns[name].distinct >= most_rows
        and (is_key(name) or names_occasion(name))
    }
    tried = sorted(
        found, key=lambda name: (-is_key(name), -(found[name].distinct == facts.rows), -found[name].distinct)
    )
    for name in tried[:_MOST_TRIED]:
        if found[name].distinct == facts.rows or _is_unique_within(engine, owner.name, name):
            return name
    return None


def _is_unique_within(engine: Engine, unit: str, name: str) -> bool:
    keys = [exp.alias_(column_tree(unit), "owner"), exp.alias_(column_tree(name), "place")]
    pairs = exp.select(*keys, exp.alias_(exp.Count(this=exp.Star()), "n")).from_(engine.relation())
    pairs = pairs.group_by(exp.Literal.number(1), exp.Literal.number(2)).where(
        exp.Not(this=exp.Is(this=column_tree(unit), expression=exp.Null()))
    )
    most = exp.select(exp.alias_(exp.Max(this=exp.column("n")), "most")).from_(pairs.subquery("pairs"))
    return int(engine.fetch(most).to_pylist()[0]["most"] or 0) <= 1
