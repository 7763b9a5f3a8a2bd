"""The RDR pictures of the treatment groups, as SVG. Takes candidates and RDRs; gives drawings without advice.

They are the controller's own charts (``dosimeter.show.charts``), on "× the average person" (R8), without what
would influence a participant: the controller's headline says that shorter bars are fairer, and numbers are written
beside the bars. What remains is what the paper describes: a bar from the least to the most exposed person, or a plain
histogram.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dosimeter.risk import Candidate, RDRs
from dosimeter.show import even_axis, format_epsilon
from dosimeter.show.charts import Chart, histogram_chart, range_chart, write_spec
from dosimeter_paper.study import texts

BINS = 30  # over the whole axis that the histograms share
_PANEL_WIDTH, _PANEL_HEIGHT = 300, 130
_RANGE_WIDTH = 300  # narrow enough to be seen whole, and still legible, on a telephone


def draw_ranges(candidates: Sequence[Candidate]) -> str:
    """Return an SVG with one bar per ε, from the least to the most exposed person."""
    chart = range_chart(candidates)
    return _render(replace(chart, title=texts.RANGE_TITLE, notes=(), beside="", width=_RANGE_WIDTH))


def draw_histograms(candidates: Sequence[Candidate], rdrs: Sequence[RDRs]) -> tuple[str, ...]:
    """Return one SVG per ε, in the order given: the histogram of people, all on the same two axes."""
    spans = [candidate.rdr.relative for candidate in candidates]
    axis = even_axis(min(low for low, _ in spans), max(high for _, high in spans))
    shared = replace(axis, title="× the average person", unit=" ×")
    width = (axis.high - axis.low) / BINS
    drawn = []
    for (low, high), held in zip(spans, rdrs, strict=True):
        bins = max(2, round((high - low) / width))  # two kinds of people never share the only bin
        chart = histogram_chart(held, log_counts=False, bins=bins)
        title = texts.HISTOGRAM_TITLE.format(epsilon=format_epsilon(held.epsilon))
        counts = replace(even_axis(0.0, held.n, ticks=5), title="people")
        bare = replace(chart, title=title, notes=(), marks=chart.bars, x=shared, y=counts)
        drawn.append(_render(replace(bare, width=_PANEL_WIDTH, height=_PANEL_HEIGHT)))
    return tuple(drawn)


def _render(chart: Chart) -> str:
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(write_spec(chart))
    return svg
