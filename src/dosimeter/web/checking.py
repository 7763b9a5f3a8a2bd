"""Whether a query can be answered: decided by its text and the schema alone, so that everything may be explained."""

from __future__ import annotations

import html
import re

from dosimeter.errors import InputError, QueryError
from dosimeter.explain import explain_plan
from dosimeter.web.models import PublicCheck
from dosimeter.web.office import Desk


def check_query(desk: Desk, sql: str) -> PublicCheck:
    """Never touches the data."""
    if not sql.strip():
        return PublicCheck(answerable=False, message="Write a query.", clause=None, measures=[], groups=None)
    try:
        plan = desk.prepare(sql).plan
    except QueryError as error:
        return PublicCheck(answerable=False, message=str(error), clause=error.clause, measures=[], groups=None)
    except InputError as error:
        return PublicCheck(answerable=False, message=str(error), clause=None, measures=[], groups=None)
    facts = explain_plan(plan)
    names = [measure["measure"] for measure in facts["measures"]]
    return PublicCheck(
        answerable=True, message="This can be answered.", clause=None, measures=names, groups=facts["groups"]
    )


def underline_clause(sql: str, clause: str | None) -> str:
    """The SQL as HTML with the clause marked, where it can be found: in any case and with any spaces."""
    place = None if not clause else _find(sql, clause)
    if place is None:
        return html.escape(sql)
    start, end = place
    return f"{html.escape(sql[:start])}<mark>{html.escape(sql[start:end])}</mark>{html.escape(sql[end:])}"


def _find(sql: str, clause: str) -> tuple[int, int] | None:
    parts = re.findall(r"\w+|[^\w\s]", clause)
    if not parts:
        return None
    found = re.search(r"\s*".join(re.escape(part) for part in parts), sql, flags=re.IGNORECASE)
    if found is None and len(parts) > 1:
        found = re.search(re.escape(parts[0]) + r"\b", sql, flags=re.IGNORECASE)
    return None if found is None else found.span()
