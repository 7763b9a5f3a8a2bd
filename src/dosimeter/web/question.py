"""A query in words, and how the answer that its analyst will see is laid out. Public facts only."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dosimeter.findings import find_aimed, word_all
from dosimeter.influence import show_cell
from dosimeter.ledger import exact_decimal
from dosimeter.planning import Group, Output, QueryPlan, read_where
from dosimeter.release import Fixed, Preferred, PreparedRelease, Selected
from dosimeter.schema import ColumnType
from dosimeter.show import format_epsilon, join_names, word_mechanism
from dosimeter.sql import drop_cuts
from dosimeter.summary import is_summary
from dosimeter.web.public import WITHHELD

MOST_ROWS = 5


@dataclass(frozen=True, slots=True)
class QueryInWords:
    """A query in words, for the head of the decision page.

    ``words``: the question; "" where words would leave something out or be wrong. ``sql``: the query. ``mechanism``:
    its noise. ``alarm``: a warning that the query is about single persons; "" if it is not.
    """

    words: str
    sql: str
    mechanism: str
    alarm: str

    @property
    def title(self) -> str:
        """Return the question in words or, where there are none, the beginning of its SQL."""
        written = " ".join(self.sql.split())
        return self.words or (written if len(written) <= LONGEST_TITLE else f"{written[:LONGEST_TITLE]}…")


def describe_question(prepared: PreparedRelease) -> QueryInWords:
    plan = prepared.plan
    noise = word_mechanism(plan, prepared.mechanism)
    alarm = " ".join(word_all(find_aimed(plan), plan.words))
    words = SUMMARY if is_summary(plan.sql, plan.table_schema) else _put_in_words(plan)
    return QueryInWords(words=words, sql=plan.sql, mechanism=noise, alarm=alarm)


_NAMES = {
    "AVG": "the average {}", "SUM": "the sum of {}", "MEDIAN": "the median {}", "MIN": "the smallest {}",
    "MAX": "the largest {}", "STDDEV": "the standard deviation of {}", "VARIANCE": "the variance of {}",
}  # fmt: skip
MOST_NAMED = 4
LONGEST_TITLE = 200  # letters
SUMMARY = "What is in every column: how many values and how many missing, mean, quartiles, the most frequent values?"
LONGEST_GROUP = 60  # letters of a GROUP BY expression


def _put_in_words(plan: QueryPlan) -> str:
    """Return the question that a query asks, in words; "" where words would leave something out or be wrong.

    What is counted is rows, by the schema's word. Rows are people where each individual has one row at most.
    """
    groups = [_name_group(group) for group in plan.groups]
    if not _is_plain(plan) or None in groups:
        return ""
    single = plan.schema.unit == "row" or plan.schema.max_rows_per_unit == 1
    called = plan.words
    rows = called.people if single else called.rows
    asked = read_where(plan)
    condition = "" if asked is None else _write_where(asked.sql(dialect="duckdb"))
    if "CASE WHEN" in condition:  # as dates with intervals are written for every engine
        return ""
    labels = list(dict.fromkeys(_find_label(plan, output) for output in plan.outputs if output.is_aggregate))
    if not labels:
        return ""
    question = _ask(plan, labels, rows, condition)
    shown = _tell_shown(plan)
    if not groups:
        return f"{question}?{shown}"
    keys = plan.group_keys
    count = f" ({len(keys):,} groups)" if keys is not None else f" that enough {called.people} share"
    return f"{question}, for each {join_names([name for name in groups if name])}{count}?{shown}"


def _tell_shown(plan: QueryPlan) -> str:
    """Say which rows of the answer HAVING and LIMIT leave, with a blank before it; "" where they leave all."""
    query = plan.after.query
    having, limit = (None if query is None else query.args.get(name) for name in ("where", "limit"))
    met = "" if having is None else f" with {_write_where(_name_released(having.this.sql(dialect='duckdb'), plan))}"
    if query is None or limit is None:
        return f" Only groups{met} are shown, by the noisy numbers." if met else ""
    by = ""
    if "ORDER BY" in plan.after.steps:
        key = query.args["order"].expressions[0]
        place = key.this.name
        name = plan.outputs[int(place) - 1].name if place.isdigit() else _name_released(key.this.sql(), plan)
        by = f", by {name}, the {'largest' if key.args.get('desc') else 'smallest'} first"
    alone = limit.expression.name == "1"
    first = "row" if alone else f"{limit.expression.name} rows"
    return f" Only the first {first}{met} {'is' if alone else 'are'} shown{by}."


def _name_released(sql: str, plan: QueryPlan) -> str:
    """Return SQL over released numbers, such as e0 and g0, with the aggregates and groups that these stand for."""
    names = {f"e{at}": _plain(estimate.label) for at, estimate in enumerate(plan.estimates)}
    names |= {f"g{at}": _name_group(group) or group.name for at, group in enumerate(plan.groups)}
    return re.sub(
        r"('(?:[^']|'')*')|\b([eg]\d+)\b", lambda found: found[1] or names.get(found[2], found[2]), _plain(sql)
    )


def _is_plain(plan: QueryPlan) -> bool:
    """Return whether a query is one SELECT from one table, whose columns are aggregates and groups as they are.

    Everything else, such as a join, a subquery per person, OFFSET or arithmetic, needs its SQL.
    """
    whole = not (plan.person or plan.joins or plan.is_united or plan.part_of or plan.sets)
    return (
        whole
        and set(plan.after.steps) <= {"ORDER BY", "HAVING", "LIMIT"}
        and all(_is_estimate(each) for each in plan.outputs)
    )


def _is_estimate(output: Output) -> bool:
    formula = output.formula
    return formula is not None and re.fullmatch(r"[eg]\d+", formula.sql()) is not None


def _find_label(plan: QueryPlan, output: Output) -> str:
    assert output.formula is not None
    return _plain(plan.estimates[int(output.formula.sql()[1:])].label)


def _name_group(group: Group) -> str | None:
    """Return what is grouped by: a column's name, or an expression as SQL; None if that is long.

    Never the name that the query gives it, which need not fit.
    """
    written = _plain(drop_cuts(group.tree).sql(dialect="duckdb"))
    if part := re.fullmatch(r"CAST\(EXTRACT\((\w+) FROM (\w+)\) AS BIGINT\)", written):
        return f"{part[1].lower()} of {part[2]}"
    return written if len(written) <= LONGEST_GROUP else None


def _ask(plan: QueryPlan, labels: list[str], rows: str, condition: str) -> str:
    """Return the question for these aggregates without its question mark and groups.

    ``rows``: what a row is called. ``condition``: the WHERE in words; "" if there is none.
    """
    people, among = plan.words.people, f" among {rows} with {condition}" if condition else ""
    names = [_name(label, plan, rows) for label in labels]
    if not condition and rows != people and any(label != name for label, name in zip(labels, names, strict=True)):
        among = "" if all(f"of {rows}" in name for name in names) else f" over all {rows}"
    if len(labels) > 1:
        return f"{_ask_for(names)}{among}"
    (label,) = labels
    match re.fullmatch(r"COUNT\((\*|DISTINCT )?(\w*)\)", label):
        case None:
            return f"What is {names[0]}{among}"
        case found if found[1] == "*":
            return f"How many {rows} are there{' with ' if condition else ''}{condition}"
        case found if found[1] and found[2] == plan.schema.unit:
            return f"How many {people} have {rows} with {condition}" if condition else f"How many {people} are there"
        case found if found[1]:
            return f"How many different values are there of {found[2]}{among if condition else ''}"
        case found:
            return f"How many {rows}{' with ' if condition else ''}{condition} have a value of {found[2]}"


def _ask_for(names: list[str]) -> str:
    """Return the beginning of a question for these numbers: "What are A and B".

    Of more than ``MOST_NAMED``, only the first is named: "What are 12 numbers, such as A".
    """
    if len(names) > MOST_NAMED:
        return f"What are {len(names):,} numbers, such as {names[0]}"
    return f"What are {join_names(names)}"


def _name(label: str, plan: QueryPlan, rows: str) -> str:
    """Return an aggregate in words if there are words for it; otherwise ``label``, its SQL.

    AVG(pay) gives "the average pay"; COUNT_IF(ill) stays as it is. ``rows``: what a row is called.
    """
    if label == "COUNT(*)":
        return f"the number of {rows}"
    if plan.schema.unit != "row" and label == f"COUNT(DISTINCT {plan.schema.unit})":
        return f"the number of {plan.words.people}"
    share = re.fullmatch(r"AVG\(CAST\((\w+) AS INT\w*\)\)", label)
    column = plan.schema.columns.get(share[1]) if share else None
    if column is not None and column.type is ColumnType.BOOLEAN:
        return f"the share of {rows} with {column.name} = true"
    found = re.fullmatch(r"([A-Z]+)\(([^()]+)\)", label)
    return _NAMES[found[1]].format(found[2]) if found and found[1] in _NAMES else label


_SIGNS = {">=": "≥", "<=": "≤", "<>": "≠"}


def _write_where(condition: str) -> str:
    """Return a WHERE as people write it: '2020-01-31' without its CAST, ≥ for >=, ``ill = true`` for ``ill``."""
    plain = re.sub(r"CAST\(('[^']*') AS (?:DATE|TIMESTAMP)\)", r"\1", _plain(condition))
    plain = re.sub(r"('(?:[^']|'')*')|(>=|<=|<>)", lambda found: found[1] or _SIGNS[found[2]], plain)
    part = r"(?:\([^()]*\)|(?:NOT )?[A-Za-z_]\w*)"
    several = rf"{part}(?: AND {part})+"
    joined = re.fullmatch(r"[^']*(?:'[^'()]*'[^']*)*", plain) and not re.search(r" OR |NOT \(", plain)
    while joined and (inner := re.search(rf"\(({several})\)", plain)):
        plain = plain.replace(inner[0], inner[1])
    if re.fullmatch(several, plain):
        found = [
            each if " OR " in each else each.removeprefix("(").removesuffix(")") for each in re.findall(part, plain)
        ]
        return " and ".join(_compare(each) for each in found if each != "AND")
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
        case Preferred():
            about = WITHHELD
        case Fixed():
            at, rest = format_epsilon(epsilon), "and the 95 % error of each number"
            about = f"ε = {at}, {rest}." if chosen else f"The ε that you choose, {rest}. If you choose {at}:"
        case Selected():
            about = (
                "The ε that the test finds, what the test cost, and the 95 % error. "
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
