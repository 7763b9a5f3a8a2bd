"""Write values for notebooks and prompts. As HTML: plain tables, every text escaped, nothing loaded from anywhere.

What is private prints nothing of the data, and is a table only where a notebook shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


class Private:
    """A value that is private to the controller: its repr gives its class alone."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(redacted)"


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table with these headings and rows. None gives an empty cell, floats have six digits at most."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_write_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def write_paragraphs(texts: Iterable[str]) -> str:
    """Return each text as an HTML paragraph."""
    return "".join(f"<p>{escape(text)}</p>" for text in texts)


def _write_cell(cell: object) -> str:
    if cell is None:
        return ""
    return escape(f"{cell:.6g}" if isinstance(cell, float) else str(cell))
