"""Fields of forms and addresses that several pages share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query
from pydantic import AfterValidator, Field

from dosimeter.web.public import check_text
from dosimeter.web.store import QueryFilter


def _require_words(text: str) -> str:
    if not text:
        raise ValueError("a decision needs a reason, for the record")
    return text


def _join_lines(text: str) -> str:
    return " ".join(check_text(text).split())


Remark = Annotated[str, Field(max_length=1_000), AfterValidator(_join_lines)]
Reason = Annotated[Remark, AfterValidator(_require_words)]
Words = Annotated[str, Query(max_length=200), AfterValidator(check_text)]


async def read_filter(dataset: Words = "", analyst: Words = "", text: Words = "") -> QueryFilter:
    """Return which queries a page lists, but for their status: each page has statuses of its own."""
    return QueryFilter(dataset=dataset, analyst=analyst, text=text)


Filter = Annotated[QueryFilter, Depends(read_filter)]
