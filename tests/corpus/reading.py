"""Read the corpus: SQL files with one query per paragraph, and above each what must come of it.

    -- table: trips                                              of all queries that follow, up to the next such line
    -- numbers: 2; delta: 1; columns: city, count                facts about the plan, each optional
    -- refused: only SELECT                                      words of the refusal
    -- asked: always                                             of servers in every run; often: also of Spark

Whoever adds a query writes it once: it is planned, answered and left out of by tests/corpus, and is a seed of the fuzz.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
_FACTS = re.compile(r"-- ((?:table|refused|groups|numbers|rows|delta|columns|measures|options|grain|asked): .*)")


@dataclass(frozen=True)
class Entry:
    """A query, the table that it asks, what is known of its plan, and words of its refusal; None: it is answered."""

    table: str
    sql: str
    refused: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.table}: {' '.join(self.sql.split())[:80]}"


def read_file(path: Path) -> Iterator[Entry]:
    """Give the entries of one file."""
    table = path.stem
    for paragraph in re.split(r"\n\s*\n", path.read_text(encoding="utf-8").strip()):
        lines = paragraph.splitlines()
        facts: dict[str, str] = {}
        while lines and lines[0].startswith("--"):
            if found := _FACTS.fullmatch(lines.pop(0)):
                said = [found[1]] if found[1].startswith("refused") else found[1].split("; ")
                facts |= dict(fact.split(": ", 1) for fact in said)
        table = facts.pop("table", table)
        if lines:
            yield Entry(table, "\n".join(lines).removesuffix(";"), facts.pop("refused", None), facts)


@cache
def read_corpus(name: str = "*") -> tuple[Entry, ...]:
    """Return the entries of a file, or of all."""
    return tuple(entry for path in sorted(FOLDER.glob(f"{name}.sql")) for entry in read_file(path))


def answered(name: str = "*") -> list[Entry]:
    return [entry for entry in read_corpus(name) if entry.refused is None]


def refused(name: str = "*") -> list[Entry]:
    return [entry for entry in read_corpus(name) if entry.refused is not None]
