"""SQL that cannot be planned, in the shape of a plan so that its risks can be looked at (S7). Never backs a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dosimeter.measures import Argument, Mean, SingleMeasure
from dosimeter.planning import AfterNoise, Output, QueryPlan
from dosimeter.sql import column_tree

if TYPE_CHECKING:
    from dosimeter.planning import StudyPlan


def study_as_plan(study: StudyPlan) -> QueryPlan:
    """Return a study in the shape of a plan (S7).

    Each numeric column of the study's answer becomes one measure, without a grid. The groups are those in the data.
    """
    places = range(len(study.outputs))
    return QueryPlan(
        sql=study.sql,
        table=study.table,
        columns=study.columns,
        where=study.where,
        groups=study.groups,
        arguments=(),
        measures=tuple(
            Mean.by_hand(Argument("value", output.tree, output.name), output.name) for output in study.outputs
        ),
        estimates=tuple(SingleMeasure((at,), study.outputs[at].name) for at in places),
        outputs=tuple(Output(study.outputs[at].name, None, column_tree(f"e{at}")) for at in places),
        after=AfterNoise(None, True, ()),
        declared=False,
        hand_sensitivity=study.hand_sensitivity,
        schema=study.schema,
        digest="",
    )
