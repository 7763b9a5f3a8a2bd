"""The paper's three swarm plots, from an Analysis. Every participant is one point; positions are computed here.

ε has ten values, so the swarm is exact: points with the same ε in the same column stand side by side, centred, in the
order of the participants' numbers. The same answers give the same picture. Each group has a shape of its own besides
its colour. Altair is imported when a figure is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dosimeter.show.charts import FAINT, INK, NEUTRAL, save_chart
from dosimeter_paper.study.analysis import KNOWLEDGE, Analysis, list_chosen
from dosimeter_paper.study.answers import CONTROL, EPSILONS
from dosimeter_paper.study.generate import QUERY_NAMES

WIDEST = 0.9  # as a share of the distance between two columns
STEP = 0.075
_COLOURS = {"control": "#D55E00", "range": "#0072B2", "histogram": "#009E73"}  # Okabe–Ito
_SHAPES = {"control": "circle", "range": "square", "histogram": "triangle-up"}
_LABELS = {"control": "control", "range": "range plots", "histogram": "histograms"}
_QUERIES = {"q1": "Query 1: income > 50K, under 40", "q2": "Query 2: Master’s or above, ≤ 50K, by race"}
FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"
_COLUMN = 130


@dataclass(frozen=True, slots=True)
class Swarm:
    """A finished chart and the name of its file."""

    name: str
    chart: Any


def place_swarm(values: Sequence[float]) -> list[float]:
    """Return the sideways distance of each point from the middle of its column; equal values spread evenly around 0."""
    sizes = Counter(values)
    step = min(STEP, WIDEST / max(max(sizes.values(), default=1) - 1, 1))
    seen: Counter[float] = Counter()
    places = []
    for value in values:
        places.append((seen[value] - (sizes[value] - 1) / 2) * step)
        seen[value] += 1
    return places


def draw_swarms(found: Analysis) -> list[Swarm]:
    """Draw two or three swarm plots: by group, by prior knowledge, and by what was shown.

    The first two have the control and the range group only, if one of these exists. The third has all groups. It is
    drawn if there is a histogram group and at least one other.
    """
    shown = [group for group in found.sizes if group in (CONTROL, "range")] or list(found.sizes)
    swarms = [
        Swarm("groups", _draw(found, shown, [(query, "all") for query in QUERY_NAMES], "ε chosen by each participant")),
        Swarm(
            "knowledge",
            _draw(
                found,
                shown,
                [(query, known) for known in ("no", "yes") for query in QUERY_NAMES],
                "ε chosen, by whether participants knew differential privacy before",
            ),
        ),
    ]
    if "histogram" in found.sizes and len(found.sizes) > 1:
        panels = [(query, "all") for query in QUERY_NAMES]
        title = "ε chosen with range plots, with histograms, and with neither"
        swarms.append(Swarm("display", _draw(found, list(found.sizes), panels, title)))
    return swarms


def save_swarms(found: Analysis, folder: Path) -> list[Path]:
    """Save each figure in the folder as .svg and .png; return the paths."""
    written = []
    for swarm in draw_swarms(found):
        for kind in (".svg", ".png"):
            target = folder / f"{swarm.name}{kind}"
            save_chart(swarm.chart, target)
            written.append(target)
    return written


def _draw(found: Analysis, groups: Sequence[str], panels: Sequence[tuple[str, str]], title: str) -> Any:
    import altair as alt

    drawn = [_draw_panel(found, groups, query, known, first=place == 0) for place, (query, known) in enumerate(panels)]
    heading = alt.TitleParams(text=title, anchor="start", fontSize=15, color=INK, offset=14)
    count = len(found.answers)
    sentence = f"{title}: {count} participant{'' if count == 1 else 's'}, one point each."
    return (
        alt.hconcat(*drawn, spacing=24, title=heading, description=sentence)
        .configure(font=FONT, background="white", padding=14)
        .configure_axis(
            labelColor=INK, titleColor=NEUTRAL, titleFontWeight="normal", gridColor=FAINT, domainColor=FAINT,
            tickColor=FAINT, labelFontSize=11, titleFontSize=11.5,
        )
        .configure_view(stroke=None)
    )  # fmt: skip


def _draw_panel(found: Analysis, groups: Sequence[str], query: str, known: str, *, first: bool) -> Any:
    import altair as alt

    rows = [
        {"x": column + offset, "epsilon": epsilon, "group": group}
        for column, group in enumerate(groups)
        for chosen in [list_chosen(found.answers, query, group, known)]
        for epsilon, offset in zip(chosen, place_swarm(chosen), strict=True)
    ]
    sizes = [len(list_chosen(found.answers, query, group, known)) for group in groups]
    names = [f"{_LABELS[group]}, n = {size}" for group, size in zip(groups, sizes, strict=True)]
    x = alt.X(
        "x:Q",
        scale=alt.Scale(domain=[-0.5, len(groups) - 0.5], nice=False, zero=False),
        axis=alt.Axis(
            title=None, values=list(range(len(groups))), labelExpr=f"{names}[datum.value]", grid=False, ticks=False,
            domain=False, labelPadding=8, labelLimit=0,
        ),
    )  # fmt: skip
    y = alt.Y(
        "epsilon:Q",
        scale=alt.Scale(domain=[0.2, EPSILONS[-1] + 0.3], nice=False, zero=False),
        axis=alt.Axis(title="ε" if first else None, values=list(EPSILONS), format=".1f", titleAngle=0, domain=False),
    )
    domain = list(groups)
    colour = alt.Scale(domain=domain, range=[_COLOURS[group] for group in groups])
    shape = alt.Scale(domain=domain, range=[_SHAPES[group] for group in groups])
    subtitle = [] if known == "all" else [KNOWLEDGE[known]]
    return (
        alt.Chart(alt.InlineData(values=rows))
        .mark_point(filled=True, size=46, opacity=0.85)
        .encode(
            x=x,
            y=y,
            color=alt.Color("group:N", scale=colour, legend=None),
            shape=alt.Shape("group:N", scale=shape, legend=None),
        )
        .properties(
            width=_COLUMN * len(groups),
            height=260,
            title=alt.TitleParams(
                text=_QUERIES[query], subtitle=subtitle, anchor="start", fontSize=12, fontWeight="normal", color=INK,
                subtitleColor=NEUTRAL,
            ),
        )
    )  # fmt: skip
