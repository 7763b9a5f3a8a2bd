"""Write a draft of a schema as a file for the controller to go through. Reads private data.

What is drafted, the tool accepts: a written draft loads, and ``--check`` agrees with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dosimeter.draft import COMMENT, draft_remarks, draft_schema, impose_draft, odd_remarks
from dosimeter.engines.base import Engine
from dosimeter.model import Schema
from dosimeter.schema import dump_schema


@dataclass(frozen=True, slots=True)
class WrittenDraft:
    """A drafted schema, its TOML with comments, and the remarks among these that a screen should show too."""

    schema: Schema
    text: str
    remarks: tuple[str, ...]


def write_draft(engine: Engine) -> WrittenDraft:
    """Draft a schema from the data, with everything the controller has to decide as comments."""
    schema, odd = impose_draft(engine, draft_schema(engine))
    remarks = (*odd_remarks(engine, schema, odd), *draft_remarks(engine))
    return WrittenDraft(schema, dump_schema(schema, comment="\n".join((COMMENT, *remarks))), remarks)
