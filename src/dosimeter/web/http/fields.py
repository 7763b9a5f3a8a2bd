"""Form fields that several pages share."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from dosimeter.web.public import check_text


def _require_words(text: str) -> str:
    if not text.strip():
        raise ValueError("a decision needs a reason, for the record")
    return text


Remark = Annotated[str, Field(max_length=1_000), AfterValidator(check_text)]
Reason = Annotated[Remark, AfterValidator(_require_words)]
