"""The people and the groups of people behind a Risk: who is most exposed, and how groups compare. Private."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dosimeter.errors import OptionError
from dosimeter.influence import ExposedSearch, show_cell, take_row
from dosimeter.planning import find_column, list_unit_columns
from dosimeter.problems import Option
from dosimeter.risk import ExposedPerson, GroupRisk, summarise_rdr, weighted_quantile
from dosimeter.schema import ColumnType
from dosimeter.sql import column_tree

if TYPE_CHECKING:
    from dosimeter.assessment.risk import Risk


def list_people(
    risk: Risk, count: int, *, epsilon: float | None, columns: Sequence[str] | None, reveal: bool
) -> list[ExposedPerson]:
    """Return up to ``count`` of the most exposed records, identical ones once, and why they are exposed.

    ``epsilon``: the ε at which they are compared with the average person; by default the largest candidate.
    ``columns``: which columns to show; by default those that the query reads or that identify people. ``reveal``: do
    not mask identifying columns. Raises OptionError if ``count`` is less than 1.
    """
    if count < 1:
        raise OptionError("At least one person must be asked for.")
    at = epsilon if epsilon is not None else risk.candidates[0]
    data, norm = risk.tables.find_rows(risk.plan), risk.mechanism.norm
    search = ExposedSearch(risk.contributions, risk.measured(), data, norm, count, columns, reveal)
    rows = risk.profile.find_exposed(search)
    mean = summarise_rdr(risk.rdr(at)).mean or 1.0
    shares = risk.contributions.shares
    own = risk.own_epsilons(
        np.array([row.sensitivity for row in rows]),
        None if shares is None else shares[[row.row for row in rows]],
        at,
    )
    found = []
    for row, guarantee in zip(rows, own, strict=True):
        alone = risk.summarise(take_row(risk.contributions, row.row))
        times = float(risk.rdr_of(alone, at).values[0] / mean)
        own_guarantee = float(min(guarantee, at))
        found.append(ExposedPerson(row.people, row.sensitivity, row.why, row.columns, times, own_guarantee))
    return found


def list_groups(risk: Risk, column: str, *, epsilon: float | None, reveal: bool) -> list[GroupRisk]:
    """Return the median and the largest RDR for each value of a column, divided by the average person's RDR.

    ``epsilon``: by default the largest candidate. ``reveal``: allow a column that identifies people; otherwise it
    raises OptionError.
    """
    from dosimeter.inspection import tells_apart

    facts = find_column(risk.plan, column)
    if not reveal and (facts.identifying or facts.name in list_unit_columns(risk.plan)):
        raise _refuse_names(facts.name)
    at = epsilon if epsilon is not None else risk.candidates[0]
    profile, contributions = risk.contributions_by({"by": column_tree(facts.name)})
    if len(contributions.people) > len(profile.people):  # empty slots are in no group
        contributions = replace(contributions, people=np.append(profile.people, 0))
    rdrs = risk.rdr_of(risk.summarise(contributions), at)
    mean = summarise_rdr(risk.rdr(at)).mean or 1.0
    members: dict[Any, list[int]] = {}
    for row, value in enumerate(rdrs.attributes["by"].tolist()):
        members.setdefault("NaN" if value != value else value, []).append(row)
    if not reveal and facts.type is ColumnType.TEXT and tells_apart(len(members), int(rdrs.counts.sum())):
        raise _refuse_names(facts.name)
    groups = []
    for value in sorted(members, key=lambda value: (value is None, str(type(value)), value)):
        values, counts = rdrs.values[members[value]], rdrs.counts[members[value]]
        median, most = weighted_quantile(values, counts, 0.5) / mean, float(values.max() / mean)
        groups.append(GroupRisk(show_cell(value), int(counts.sum()), float(median), most))
    return groups


def _refuse_names(column: str) -> OptionError:
    return OptionError(
        f"{column} identifies people, and its values would be listed. Choose a column that many people share, or say ",
        Option("reveal", True),
        " if that is meant.",
    )
