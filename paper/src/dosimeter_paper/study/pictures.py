"""The RDR pictures of the treatment groups, as SVG. Takes candidates and RDRs; gives drawings without advice.

They are the controller's own charts (``dosimeter.show.charts``), on "× the average person" (R8), without what
would influence a participant: the controller's headline says that shorter bars are fairer, and numbers are written
beside the bars. What remains is what the paper describes: a bar from the least to the most exposed person, or a plain
histogram.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dosimeter.json_values import JsonObject, JsonValue, read_list, read_object
from dosimeter.risk import Candidate, RDRs
from dosimeter.show import Axis, even_axis, format_epsilon
from dosimeter.show.charts import histogram_chart, range_chart
from dosimeter_paper.study import texts

BINS = 30  # over the whole axis that the histograms share
_PANEL_WIDTH, _PANEL_HEIGHT = 300, 130
_RANGE_WIDTH = 300  # narrow enough to be seen whole, and still legible, on a telephone


def draw_ranges(candidates: Sequence[Candidate]) -> str:
    """Return an SVG with one bar per ε, from the least to the most exposed person."""
    spec = _strip(range_chart(candidates).to_dict(), texts.RANGE_TITLE, rules=True)
    return _render(spec | {"width": _RANGE_WIDTH})


def draw_histograms(candidates: Sequence[Candidate], rdrs: Sequence[RDRs]) -> tuple[str, ...]:
    """Return one SVG per ε, in the order given: the histogram of people, all on the same two axes."""
    spans = [candidate.rdr.relative for candidate in candidates]
    axis = even_axis(min(low for low, _ in spans), max(high for _, high in spans))
    width = (axis.high - axis.low) / BINS
    drawn = []
    for (low, high), held in zip(spans, rdrs, strict=True):
        bins = max(2, round((high - low) / width))  # two kinds of people never share the only bin
        chart = histogram_chart(held, log_counts=False, bins=bins).to_dict()
        spec = _strip(chart, texts.HISTOGRAM_TITLE.format(epsilon=format_epsilon(held.epsilon)), rules=False)
        layers = [_share_axes(read_object(layer), axis, held.n) for layer in read_list(spec["layer"])]
        drawn.append(_render(spec | {"layer": layers, "width": _PANEL_WIDTH, "height": _PANEL_HEIGHT}))
    return tuple(drawn)


def _share_axes(layer: Mapping[str, JsonValue], axis: Axis, people: int) -> JsonObject:
    """Return a copy of ``layer``, part of a histogram's chart, that is drawn on the axes that all histograms share.

    ``axis``: the horizontal axis. ``people``: where the vertical axis ends; it starts at 0.
    """
    encoding = dict(read_object(layer["encoding"]))
    x, y = (read_object(encoding.get(name, {})) for name in ("x", "y"))
    if "scale" in x:
        scale: JsonObject = {"type": "linear", "domain": [axis.low, axis.high], "nice": False, "zero": False}
        ticks: JsonObject = {**read_object(x["axis"]), "values": list(axis.ticks), "title": "× the average person"}
        encoding["x"] = {**x, "scale": scale, "axis": ticks}
    if "scale" in y:
        encoding["y"] = {**y, "scale": {"domain": [0, people], "nice": False}}
    return {**layer, "encoding": encoding}


def _strip(spec: JsonObject, title: str, *, rules: bool) -> JsonObject:
    """Return the chart without its texts and subtitle, with this title. ``rules``: whether its straight lines stay."""
    kept = [layer for layer in read_list(spec["layer"]) if _is_mark(read_object(layer), rules=rules)]
    heading = {name: value for name, value in read_object(spec["title"]).items() if not name.startswith("subtitle")}
    return spec | {"layer": kept, "title": heading | {"text": title}}


def _is_mark(layer: Mapping[str, JsonValue], *, rules: bool) -> bool:
    kind = read_object(layer["mark"])["type"]
    return kind != "text" and (rules or kind != "rule")


def _render(spec: JsonObject) -> str:
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(spec)
    return svg
