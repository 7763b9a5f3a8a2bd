"""A query in words, and how the answer that its analyst will see is laid out. Public facts only."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dosimeter.influence import show_cell
from dosimeter.ledger import exact_decimal
from dosimeter.measures import Count, CountDistinct, CountRows, Measure
from dosimeter.planning import QueryPlan, read_where
from dosimeter.release import Fixed, Found, PreparedRelease, Selected
from dosimeter.schema import ColumnType
from dosimeter.show import format_epsilon, format_number, join_names
from dosimeter.web.figures import show_small
from dosimeter.web.public import WITHHELD

MOST_ROWS = 5


@dataclass(frozen=True, slots=True)
class QueryInWords:
    """A query in words, with its numbers as text, for the head of the decision page.

    ``n``: how many individuals are declared. ``k``: how many noisy numbers the answer has. ``delta``: the δ of the
    noise; "" if it has none. ``alarm``: a warning that the query is about single persons; "" if it is not.
    """

    words: str
    n: str
    k: str
    delta: str
    sensitivity: str
    mechanism: str
    alarm: str = ""  # a warning at the top of the page


def describe_question(prepared: PreparedRelease) -> QueryInWords:
    plan, mechanism = prepared.plan, prepared.mechanism
    k = f"{len(plan.measures):,} in each group that is shown" if plan.k is None else f"{plan.k:,}"
    noise = f"{mechanism.name.capitalize()} noise" + (f" ({mechanism.calibration})" if mechanism.calibration else "")
    return QueryInWords(
        words=" ".join(dict.fromkeys(_put_in_words(block) for block in plan.blocks)),
        n=f"{prepared.n:,}",
        k=k,
        delta="" if mechanism.delta == 0 else show_small(mechanism.delta),
        sensitivity=format_number(plan.sensitivity(mechanism.norm), 6),
        mechanism=noise,
        alarm=_warn_of_singling_out(plan),
    )


def _warn_of_singling_out(plan: QueryPlan) -> str:
    """Return a warning if the query is about single persons; otherwise ""."""
    if not plan.singled_out:
        return ""
    names = join_names([name for name, _ in plan.singled_out])
    clauses = join_names([clause for _, clause in plan.singled_out])
    return (
        f"This query singles people out by {names}: {clauses}. Whatever it answers is about one person, or very few, "
        "and the analyst knows who they are."
    )


_VERBS: dict[type[Measure], str] = {
    CountRows: "How many people are there",
    Count: "How many people are there",
    CountDistinct: "How many different values are there of {label}",
}


def _put_in_words(plan: QueryPlan) -> str:
    labels = [_name(estimate.label, plan) for estimate in plan.estimates]
    verb = _VERBS.get(type(plan.measures[0])) if len(plan.measures) == len(labels) == 1 else None
    start = _ask_for(labels) if verb is None else verb.format(label=_read_argument(plan.estimates[0].label))
    groups = ""
    if plan.groups:
        keys = plan.group_keys
        count = f" ({len(keys):,} groups)" if keys is not None else " that enough people share"
        groups = f", for each {join_names([group.name for group in plan.groups])}{count}"
    among = " among people with" if verb is None else " with"
    asked = read_where(plan)
    where = "" if asked is None else f"{among} {_write_where(asked.sql(dialect='duckdb'))}"
    return f"{start}{where}{groups}?"


MOST_NAMED = 4
_NAMES = {
    "AVG": "the average {}", "SUM": "the sum of {}", "MEDIAN": "the median {}", "MIN": "the smallest {}",
    "MAX": "the largest {}", "STDDEV": "the standard deviation of {}", "VARIANCE": "the variance of {}",
}  # fmt: skip


def _ask_for(names: list[str]) -> str:
    """Return the beginning of a question for these numbers: "What are A and B".

    Of more than ``MOST_NAMED``, only the first is named: "What are 12 numbers, such as A".
    """
    if len(names) > MOST_NAMED:
        return f"What are {len(names):,} numbers, such as {names[0]}"
    return f"What {'is' if len(names) == 1 else 'are'} {join_names(names)}"


def _name(label: str, plan: QueryPlan) -> str:
    """Return an aggregate in words if there are words for it; otherwise ``label``, its SQL.

    AVG(pay) gives "the average pay"; COUNT(DISTINCT city) stays as it is.
    """
    if label == "COUNT(*)":
        return "the number of people"
    share = re.fullmatch(r"AVG\(CAST\((\w+) AS INT\w*\)\)", _plain(label))
    column = plan.schema.columns.get(share[1]) if share else None
    if column is not None and column.type is ColumnType.BOOLEAN:
        return f"the share of people with {column.name} = true"
    found = re.fullmatch(r"([A-Z]+)\(([^()]+)\)", label)
    return _NAMES[found[1]].format(_plain(found[2])) if found and found[1] in _NAMES else label


def _read_argument(label: str) -> str:
    """Return what stands in an aggregate's brackets: COUNT(DISTINCT city) → city."""
    found = re.fullmatch(r"[A-Z]+\((?:DISTINCT )?(.+)\)", label)
    return _plain(found[1]) if found else label


_SIGNS = {">=": "≥", "<=": "≤", "<>": "≠"}


def _write_where(condition: str) -> str:
    """Return a WHERE as people write it: '2020-01-31' without its CAST, ≥ for >=, ``ill = true`` for ``ill``."""
    plain = re.sub(r"CAST\(('[^']*') AS (?:DATE|TIMESTAMP)\)", r"\1", _plain(condition))
    plain = re.sub(r"('(?:[^']|'')*')|(>=|<=|<>)", lambda found: found[1] or _SIGNS[found[2]], plain)
    parts = re.findall(r"\(([^()]*)\)", plain)
    if parts and plain == " AND ".join(f"({part})" for part in parts):
        return " and ".join(_compare(part) for part in parts)
    return _compare(plain)


def _compare(condition: str) -> str:
    """Return the condition; if it is merely a TRUE/FALSE column, written as a comparison."""
    found = re.fullmatch(r"(NOT )?([A-Za-z_]\w*)", condition)
    return f"{found[2]} = {'false' if found[1] else 'true'}" if found else condition


def _plain(sql: str) -> str:
    """Return SQL without the quotation marks around ordinary names; string literals stay as they are."""
    return re.sub(r"('(?:[^']|'')*')|\"([A-Za-z_]\w*)\"", lambda found: found[1] or found[2], sql)


@dataclass(frozen=True, slots=True)
class AnswerPreview:
    """What the analyst will see, with "…" in place of numbers. ``more``: how many rows are left out here."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int
    about: str
    promise: str


def preview_answer(prepared: PreparedRelease, epsilon: float, *, looked: bool, chosen: bool = True) -> AnswerPreview:
    """Return what the analyst will see at this ε, with "…" in place of numbers.

    ``epsilon``: the ε of the answer; with the noisy test, the largest that the test can find. ``looked``: whether the
    promise is to say that somebody looked at the risk. ``chosen``: whether the controller has chosen ``epsilon``; False
    if it is only an example of what may still be chosen.
    """
    plan = prepared.plan
    keys = plan.group_keys or (("…",) * len(plan.groups),)
    shown = keys[:MOST_ROWS]
    rows = tuple(
        tuple("…" if output.group is None else str(show_cell(key[output.group])) for output in plan.outputs)
        for key in shown
    )
    blocks = plan.blocks
    others = sum(len(blocks[at].group_keys or ()) for at in plan.after.rows_of if at > 0)
    way = prepared.order.way
    match way:
        case Found():
            about = WITHHELD
        case Fixed():
            at, rest = format_epsilon(epsilon), "and the 95 % error of each number"
            about = f"ε = {at}, {rest}." if chosen else f"The ε that you choose, {rest}. If you choose {at}:"
        case Selected():
            about = (
                f"The ε that the test finds, the cost of the test, {format_epsilon(way.svt)}, and the 95 % error. "
                f"If it finds {format_epsilon(epsilon)}:"
            )
        case _:
            raise TypeError(f"no words for {type(way).__name__}")
    return AnswerPreview(
        columns=tuple(output.name for output in plan.outputs),
        rows=rows,
        more=len(keys) - len(shown) + others,
        about=about if plan.threshold is None else f"One row for each group that enough people share. {about}",
        promise=way.promise(prepared, exact_decimal(epsilon), viewed=looked),
    )
