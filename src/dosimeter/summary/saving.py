"""Write a summary to a file: a page to read, or a table with what a reader of it needs beside it. Nothing private."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from dosimeter.errors import OptionError
from dosimeter.html import write_paragraphs
from dosimeter.release import describe_release, find_companion, write_files
from dosimeter.summary.layout import HEADINGS, NUMERIC, list_cells, list_notes
from dosimeter.summary.values import Summary

if TYPE_CHECKING:
    from dosimeter.ledger import Ledger

ENDINGS = (".html", ".csv", ".parquet")


def save_summary(summary: Summary, ledger: Ledger, path: Path) -> tuple[Path, ...]:
    """Write the summary as the path's ending says; return what was written. Refuses one that was denied."""
    entry = None if summary.answer.entry is None else ledger.entry(summary.answer.entry)
    if entry is None or summary.rows is None:
        raise OptionError("Only a released summary is written, with the ledger that holds it.")
    if path.suffix.lower() == ".html":
        write_files({path: write_page(summary, entry.request.query)}, entry.id)
        return (path,)
    document = describe_release(summary.answer, entry, ledger.head()) | summary.describe()
    document = {name: value for name, value in document.items() if name not in _OF_THE_ANSWER}
    beside = find_companion(path)
    write_files({beside: document, path: summary.to_arrow()}, entry.id)
    return path, beside


_OF_THE_ANSWER = ("answer", "errors", "error_95", "rank_errors")


def write_page(summary: Summary, query: str) -> str:
    """Return the summary as one page of HTML: no script, nothing loaded. ``query``: the SQL that was asked."""
    head = "".join(f'<th scope="col"{_align(at)}>{escape(name)}</th>' for at, name in enumerate(HEADINGS))
    body = []
    for column in summary.columns:
        first, *others = list_cells(summary, column)
        cells = "".join(f"<td{_align(at)}>{escape(text)}</td>" for at, text in enumerate(others, start=1))
        body.append(f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>')
    title = escape(f"About the table {summary.table}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><h1>{title}</h1><div><table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
        f"{write_paragraphs(list_notes(summary))}<details><summary>The SQL that was asked</summary>"
        f"<pre>{escape(query)}</pre></details></body></html>\n"
    )


def _align(at: int) -> str:
    return ' class="num"' if at in NUMERIC else ""


_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem }
div { overflow-x: auto }
table { border-collapse: collapse }
th, td { text-align: left; vertical-align: top; padding: .3rem 1rem .3rem 0; border-bottom: 1px solid #8884 }
tbody th { font-weight: 600 }
.num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem }
"""
