"""One self-contained page with everything: pictures, tables, differences, versions, machine and time.

Takes finished studies; gives HTML. Pictures are embedded; there is no script, and the page loads nothing.
"""

from __future__ import annotations

import base64
import csv
import html
import io
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from dosimeter.json_values import JsonObject, JsonValue
from dosimeter.risk import paper_candidates
from dosimeter.show import TextTable
from dosimeter_paper.reproduction.data import CITATION
from dosimeter_paper.reproduction.figures import Figure, save_figure, write_file
from dosimeter_paper.reproduction.queries import MECHANISMS, QUERIES
from dosimeter_paper.reproduction.scalability import ALGORITHMS

if TYPE_CHECKING:
    from dosimeter_paper.reproduction.differences import Shown
    from dosimeter_paper.reproduction.example import PaperExample
    from dosimeter_paper.reproduction.scalability import Scalability
    from dosimeter_paper.reproduction.thresholds import Thresholds
    from dosimeter_paper.reproduction.variance import VarianceStudy

PACKAGES = (
    "dosimeter", "duckdb", "sqlglot", "numpy", "scipy", "pyarrow", "opendp", "sqlalchemy", "altair",
    "vl-convert-python",
)  # fmt: skip
TITLE = "Within-dataset disclosure risk, computed again"


@dataclass(frozen=True, slots=True)
class PaperResults:
    """The results of all studies of ``paper all``, and when they were begun and ended."""

    example: PaperExample
    thresholds: Thresholds
    variance: VarianceStudy
    scalability: Scalability
    differences: tuple[Shown, ...]
    begun: datetime
    ended: datetime

    def document(self) -> JsonObject:
        return {
            "begun": self.begun.isoformat(timespec="seconds"),
            "ended": self.ended.isoformat(timespec="seconds"),
            "machine": describe_machine(),
            "versions": list_versions(),
            "example": self.example.document(),
            "thresholds": self.thresholds.document(),
            "variance": self.variance.document(),
            "scalability": self.scalability.document(),
            "differences": [shown.document() for shown in self.differences],
        }


# ---------------------------------------------------------------- versions and machine


def list_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that matter here, by name."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def describe_machine() -> dict[str, str]:
    return {"system": platform.platform(), "processor": _name_processor(), "processors": str(os.cpu_count() or 1)}


def _name_processor() -> str:
    """Return the processor's model name; if the system does not tell it, its kind."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


# ---------------------------------------------------------------- files


def write_csv(rows: Iterable[Mapping[str, JsonValue]]) -> bytes:
    """Return records as CSV, with the keys of the first as header; the elements of a list are joined by blanks."""
    listed = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(listed[0]), lineterminator="\n")
    writer.writeheader()
    for row in listed:
        writer.writerow(
            {name: " ".join(map(str, cell)) if isinstance(cell, list) else cell for name, cell in row.items()}
        )
    return text.getvalue().encode()


def list_outcomes(study: VarianceStudy) -> Iterable[JsonObject]:
    """Yield a JSON object for each trial, each of its two tests, and each outcome: a candidate or the denial.

    ``epsilon``: the candidate; None for the denial. ``chance``: the outcome's exact probability. ``runs``: in how many
    runs it came out; None for the sharp selection, which is not run.
    """
    for trial in study.trials:
        for selection, outcomes in (("paper", trial.paper), ("sharp", trial.sharp)):
            for epsilon, chance in [*zip(paper_candidates(), outcomes.chances, strict=True), (None, outcomes.denial)]:
                yield {
                    "mechanism": trial.mechanism,
                    "query": trial.query,
                    "label": trial.label,
                    "threshold": trial.threshold,
                    "selection": selection,
                    "epsilon": epsilon,
                    "chance": chance,
                    "runs": trial.found.count(epsilon) if selection == "paper" else None,
                }


def save_thresholds(study: Thresholds, figure: Figure, folder: Path) -> list[Path]:
    table = write_file(folder / "thresholds.csv", write_csv(study.list_cells()))
    return [table, *save_figure(figure, folder, "thresholds")]


def save_variance(study: VarianceStudy, figure: Figure, folder: Path) -> list[Path]:
    table = write_file(folder / "variance.csv", write_csv(list_outcomes(study)))
    return [table, *save_figure(figure, folder, "variance")]


def save_scalability(study: Scalability, figure: Figure, folder: Path) -> list[Path]:
    table = write_file(folder / "scalability.csv", write_csv(study.list_timings()))
    return [table, *save_figure(figure, folder, "scalability")]


# ---------------------------------------------------------------- the page


def write_report(everything: PaperResults, pictures: Mapping[str, Figure]) -> str:
    """Return the page as HTML. ``pictures``: the figure of each study, by the study's name."""
    e = everything
    sections = [
        _section("Three patients (section 4.1)", _table(e.example.text_table()), _paragraphs([e.example.words])),
        _section("The five queries", _query_table()),
        _section(
            "ε for each ratio (section 6.3.1)",
            _paragraphs(e.thresholds.words[:1]),
            _figure(pictures["thresholds"]),
            *(f"<h3>{m.capitalize()}</h3>" + _table(e.thresholds.text_table(m)) for m in MECHANISMS),
            _paragraphs(["The authors' ε; after → what this package's own defaults come to, where that is another."]),
            _paragraphs(e.thresholds.words[1:]),
        ),
        _section(
            "ε for each variance (section 6.3.2)",
            _figure(pictures["variance"]),
            _paragraphs(e.variance.words),
            *(_folded(m.capitalize(), _table(e.variance.text_table(m))) for m in MECHANISMS),
        ),
        _section(
            "Running time (section 6.2)",
            _figure(pictures["scalability"]),
            _paragraphs(e.scalability.words),
            *(_folded(a.capitalize(), _table(e.scalability.text_table(a))) for a in ALGORITHMS),
        ),
        _section("Where paper, code and sound practice part", *(_difference(shown) for shown in e.differences)),
        _section("With what", _facts(e)),
    ]
    return _PAGE.format(title=html.escape(TITLE), style=_STYLE, sections="\n".join(sections))


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2>{''.join(parts)}</section>"


def _paragraphs(sentences: Sequence[str]) -> str:
    return "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)


def _folded(title: str, inside: str) -> str:
    return f"<details><summary>{html.escape(title)}: the numbers</summary>{inside}</details>"


def _figure(figure: Figure) -> str:
    """Return HTML that embeds a figure as a bitmap, so that it looks the same whichever fonts are installed."""
    picture = base64.b64encode(figure.png).decode()
    words = html.escape(figure.description, quote=True)
    return f'<figure><img src="data:image/png;base64,{picture}" alt="{words}"></figure>'


def _table(table: TextTable) -> str:
    head = "".join(f'<th scope="col">{html.escape(str(name))}</th>' for name in table["columns"])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in table["rows"]
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _query_table() -> str:
    rows = "".join(
        f"<tr><td>{query.name}</td><td class=words>{html.escape(query.words)}</td>"
        f"<td class=words><code>{html.escape(query.sql)}</code></td></tr>"
        for query in QUERIES
    )
    return f"<table><tbody>{rows}</tbody></table>"


def _difference(shown: Shown) -> str:
    point = shown.difference
    return (
        f"<article><h3>{html.escape(point.title)} <small>({html.escape(_name_section(point.section))})</small></h3>"
        f"<p><b>There:</b> {html.escape(point.theirs)}</p><p><b>Here:</b> {html.escape(point.here)}</p>"
        f"<p><b>Shown:</b> {html.escape(shown.shown.words)}</p></article>"
    )


def _name_section(section: str) -> str:
    return "the authors' code" if section == "code" else f"section {section}"


def _facts(e: PaperResults) -> str:
    seconds = (e.ended - e.begun).total_seconds()
    when = f"{e.begun:%Y-%m-%d %H:%M} UTC, {seconds:,.0f} s in all"
    facts = {"begun": when, "records": f"{e.thresholds.rows:,}", **describe_machine(), **list_versions()}
    rows = "".join(
        f"<tr><th scope=row>{html.escape(k)}</th><td class=words>{html.escape(v)}</td></tr>" for k, v in facts.items()
    )
    return f"<table><tbody>{rows}</tbody></table>" + _paragraphs([f"Data: {CITATION}"])


_STYLE = """
:root { color-scheme: light dark; --ink: #1f2937; --paper: #f8fafc; --line: #d1d5db; --accent: #0072B2 }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e7eb; --paper: #111827; --line: #374151; --accent: #7cc4ee } }
body { margin: 2rem auto; max-width: 76rem; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper) }
h1 { font-size: 1.6rem; margin: 0 0 .3rem } h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem }
h3 { font-size: 1.02rem; margin: 1.1rem 0 .3rem } h3 small { font-weight: normal }
p { max-width: 60rem; margin: .35rem 0 }
figure { margin: 1rem 0; background: white; border: 1px solid var(--line); border-radius: .5rem; overflow-x: auto }
figure img { display: block; width: 100%; min-width: 48rem; height: auto }
summary { cursor: pointer; padding: .4rem 0 }
summary:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem }
th, td { text-align: right; padding: .2rem .7rem; border-bottom: 1px solid var(--line); white-space: nowrap }
th[scope=row], td.words, td:first-child { text-align: left; white-space: normal }
article { border-left: 3px solid var(--line); padding-left: .9rem; margin: .9rem 0 }
code { font-size: .88rem }
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p>The example, tables and figures of “Within-Dataset Disclosure Risk for Differential Privacy” (Zhu and Castro
Fernandez), computed by Dosimeter on the public Adult data and laid beside what the authors found.</p>
{sections}
</main>
</body>
</html>
"""
