"""Charts as files and pages: SVG, PNG, and HTML that needs no network."""

from __future__ import annotations

import html
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dosimeter.errors import OptionError
from dosimeter.html import write_table
from dosimeter.schema import PLAIN, Words
from dosimeter.show.charts.chart import WHY_PRIVATE
from dosimeter.show.charts.histogram import histogram_chart
from dosimeter.show.charts.ranges import range_chart
from dosimeter.show.charts.vega import draw_altair

if TYPE_CHECKING:
    import altair as alt

    from dosimeter.risk import Candidate, RDRs


def draw_svg(chart: alt.LayerChart) -> str:
    """Return a chart as one finished SVG picture: no script, no network request."""
    text = io.StringIO()
    chart.save(text, format="svg")
    return text.getvalue()


def save_chart(chart: alt.LayerChart, path: str | Path, *, query: str | None = None) -> None:
    """Write a chart to a file, in the format that the path's ending names. Refuse other endings.

    The formats: .svg, .png (twice the size, for dense screens) and .html (one file, offline, with its table).
    ``query``: the SQL to be shown above the chart in an .html.
    """
    target = Path(path)
    match target.suffix.lower():
        case ".svg":
            content = draw_svg(chart).encode()
        case ".png":
            binary = io.BytesIO()
            chart.save(binary, format="png", scale_factor=2)
            content = binary.getvalue()
        case ".html":
            content = chart_page([chart], title=chart.to_dict()["title"]["text"], query=query).encode()
        case other:
            raise OptionError(
                f"A picture cannot be written as {other or 'a file without an ending'}. Use .svg, .png or .html."
            )
    write_page(content, target)


def write_page(content: bytes | str, path: str | Path) -> None:
    """Write a finished picture or page to a file. Refuse a path that cannot be written."""
    try:
        Path(path).write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as problem:
        reason = problem.strerror or "the system refused"
        raise OptionError(
            f"{path} cannot be written: {reason}. Choose a folder that exists and may be written to."
        ) from None


def chart_page(
    charts: Sequence[alt.LayerChart], title: str, *, query: str | None = None, notes: Sequence[str] = ()
) -> str:
    """Return one self-contained HTML page: each chart with its table of numbers, and no network request.

    ``query``: the SQL to be shown above the charts. ``notes``: sentences between it and the charts.
    """
    import altair as alt
    import vl_convert

    version = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
    bundle: str = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]  # the stub lacks a default
    library = bundle.replace("</script", "<\\/script")
    figures, specs = [], []
    for number, chart in enumerate(charts, start=1):
        spec = chart.to_dict()
        specs.append(spec)
        table = write_table(**spec["usermeta"]["table"])
        figures.append(
            f'<figure><div id="chart-{number}" role="img" aria-label="{html.escape(spec["description"])}"></div>'
            f"<details><summary>The numbers as a table</summary>{table}</details></figure>"
        )
    payload = json.dumps(specs, sort_keys=True, ensure_ascii=True).replace("<", "\\u003c")
    asked = "" if query is None else f"<pre>{html.escape(query)}</pre>"
    remarks = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return _PAGE.format(
        title=html.escape(title), style=_STYLE, query=asked, notes=f"<ul>{remarks}</ul>" if remarks else "",
        private=html.escape(WHY_PRIVATE.capitalize()), figures="\n".join(figures), library=library, specs=payload,
    )  # fmt: skip


def risk_page(
    candidates: Sequence[Candidate],
    rdrs: RDRs,
    *,
    title: str = "How exposed people would be",
    query: str | None = None,
    notes: Sequence[str] = (),
    reading: float | None = None,
    selected: float | None = None,
    called: Words = PLAIN,
) -> str:
    """Return the controller's page of one query as HTML: a chart with one bar per candidate, and below it a histogram.

    A table stands under each. ``rdrs``: everybody's RDR at the ε of the histogram. ``query`` and ``notes``: SQL and
    sentences, shown above the charts. ``reading``: the account's reading; a line is drawn between the candidates above
    it and the others. ``selected``: the candidate to be highlighted. ``called``: what people are called.
    """
    charts = (
        range_chart(candidates, reading=reading, selected=selected, called=called),
        histogram_chart(rdrs, called=called),
    )
    return chart_page([draw_altair(chart) for chart in charts], title, query=query, notes=notes)


_STYLE = """
:root { color-scheme: light dark; --ink: #1f2937; --paper: #f8fafc; --line: #d1d5db; --accent: #0072B2 }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e7eb; --paper: #111827; --line: #374151; --accent: #7cc4ee } }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper) }
h1 { font-size: 1.5rem; margin: 0 0 .5rem }
.badge { display: inline-block; border: 1.5px solid var(--accent); color: var(--accent); border-radius: 1rem;
  padding: .05rem .7rem; font-size: .85rem; font-weight: 600 }
pre { border-left: 3px solid var(--accent); padding: .5rem .8rem; overflow-x: auto; white-space: pre-wrap }
figure { margin: 1.5rem 0 }
figure > div { background: white; border: 1px solid var(--line); border-radius: .5rem; overflow-x: auto }
summary { cursor: pointer; padding: .4rem 0 }
summary:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px }
details > table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto }
th, td { text-align: right; padding: .2rem .8rem; border-bottom: 1px solid var(--line); white-space: nowrap }
#vg-tooltip-element { font-family: system-ui, sans-serif }
"""
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p><span class="badge">Controller only</span> {private}</p>
{query}
{notes}
{figures}
</main>
<script>{library}</script>
<script>
const specs = {specs};
specs.forEach((spec, index) => vegaEmbed("#chart-" + (index + 1), spec, {{renderer: "svg", actions: false}}));
</script>
</body>
</html>
"""  # noqa: E501
