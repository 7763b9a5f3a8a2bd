"""What a table's rows and individuals are called: stays and patients, or rows and people. Words only, and public."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """What one row and several are called, and one individual and several."""

    row: str = "row"
    rows: str = "rows"
    individual: str = "person"
    people: str = "people"

    @classmethod
    def of(cls, row: str | None, rows: str | None, individual: str | None, people: str | None) -> Words:
        """Return these words. A plural that is not given adds an s, and "row" and "person" are used where none is."""
        return cls(
            row or cls().row,
            rows or (f"{row}s" if row else cls().rows),
            individual or cls().individual,
            people or (f"{individual}s" if individual else cls().people),
        )

    def count_rows(self, count: int) -> str:
        """Write how many rows: "1 stay", "3,997 stays"."""
        return f"{count:,} {self.row if count == 1 else self.rows}"

    def count_people(self, count: int) -> str:
        """Write how many individuals: "1 patient", "3,997 patients"."""
        return f"{count:,} {self.individual if count == 1 else self.people}"


WORDS = ("row", "rows", "individual", "people")
"""A schema's entries for its words."""

PLAIN = Words()
"""The words where a schema has none."""
