"""Draw the paper's three figures again, with what this package adds. Takes finished studies; gives Figures.

Same rules as the controller's pictures: Okabe–Ito colours, always together with another sign; words in every chart; no
font needed. Adult is public, so these pictures carry no "controller only". Altair is imported when one is drawn. Panels
are combined as Vega-Lite: Altair would copy all data at every level of a grid, which takes seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dosimeter.errors import OptionError
from dosimeter.json_values import JsonObject
from dosimeter.risk import paper_candidates
from dosimeter.show import FAILS, MEETS, format_epsilon
from dosimeter.show.charts import FAINT, INK, NEUTRAL
from dosimeter_paper.reproduction.queries import AVERAGE, MECHANISMS, QUERIES, RATIOS, VARIANCES, MechanismName
from dosimeter_paper.reproduction.scalability import ALGORITHMS, Algorithm, Scalability
from dosimeter_paper.reproduction.thresholds import Thresholds
from dosimeter_paper.reproduction.variance import ReleaseProbabilities, Trial, VarianceStudy

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True, slots=True)
class Figure:
    """A finished picture, and what it shows in words."""

    description: str
    svg: str
    png: bytes


FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"  # equal widths, so that the layout is the same everywhere
GREEN = "#009E73"  # Okabe–Ito bluish green
_PANEL = 150


# ---------------------------------------------------------------- ε found for each ratio

_SERIES = ("authors, published", "here, their conventions", "here, own defaults")


def draw_thresholds(study: Thresholds) -> Figure:
    """Draw ε against τ_p, the share of the largest RDR that the smallest RDR must reach.

    There is a row of panels per mechanism, and a panel per query. A dot inside a ring is an ε that came out as
    published.
    """
    import altair as alt

    rows: list[JsonObject] = []
    low = math.inf
    for cell in study.cells:
        for series, epsilon in zip(_SERIES, (cell.published, cell.authors, cell.product), strict=True):
            if epsilon is not None:
                low = min(low, epsilon / 2)
                place: JsonObject = {"mechanism": cell.mechanism, "query": cell.query, "ratio": f"{cell.ratio:g}"}
                shift = 0  # this package's own ε is written above its diamond, or below where that is free
                if series == _SERIES[2] and cell.differs:
                    shift = -12 if epsilon > cell.published else 13
                text: JsonObject = {"text": format_epsilon(epsilon), "shift": shift}
                rows.append(place | {"series": series, "epsilon": epsilon} | text)
    names = list(_SERIES)
    stroke = alt.Stroke("series:N", scale=alt.Scale(domain=names, range=[INK, MEETS, FAILS]), legend=_legend())
    fill = alt.Fill(
        "series:N", scale=alt.Scale(domain=names, range=["#ffffff00", MEETS, "#ffffff00"]), legend=_legend()
    )
    shape = alt.Shape(
        "series:N", scale=alt.Scale(domain=names, range=["circle", "circle", "diamond"]), legend=_legend()
    )

    def panel(mechanism: MechanismName, query: str, first: bool, last: bool) -> Any:
        own = [row for row in rows if row["mechanism"] == mechanism and row["query"] == query]
        x = alt.X(
            "ratio:O",
            sort=[f"{ratio:g}" for ratio in RATIOS],
            axis=alt.Axis(title="τ_p" if last else None, labelAngle=0, grid=True, labels=last, ticks=False),
        )
        y = alt.Y(
            "epsilon:Q",
            scale=alt.Scale(type="log", domain=[low, 25], nice=False),
            axis=alt.Axis(title="ε found (log scale)" if first else None, values=[0.01, 0.1, 1, 10], labels=first),
        )
        base = alt.Chart(alt.InlineData(values=own)).encode(x=x, y=y)
        line = base.transform_filter(f"datum.series != '{_SERIES[1]}'").mark_line(strokeWidth=1.2, opacity=0.5)
        points = [
            base.transform_filter(f"datum.series == '{name}'")
            .mark_point(size=size, strokeWidth=1.8, opacity=1)
            .encode(stroke=stroke, fill=fill, shape=shape)
            for name, size in zip(_SERIES, (170, 34, 62), strict=True)
        ]
        labels = [
            base.transform_filter(f"datum.shift == {shift}")
            .mark_text(dy=shift, fontSize=10.5, color=FAILS)
            .encode(text="text:N")
            for shift in (-12, 13)
        ]
        layers = alt.layer(line.encode(stroke=stroke), *points, *labels)
        return layers.properties(width=_PANEL, height=_PANEL, title=_panel_title(mechanism, query))

    differing = len(study.differing)
    return _assemble(
        panel,
        MECHANISMS,
        "ε found by find-ε-from-RDR, ratio of least to most exposed ≥ τ_p",
        [
            f"{study.reproduced} of {len(study.cells)} cells equal the authors' (a dot in its ring). Under this "
            f"package's own defaults {differing} differ (a diamond beside its ring, with its ε).",
        ],
        f"{study.reproduced} of {len(study.cells)} cells reproduced, {differing} differ under the product's defaults.",
    )


def _panel_title(mechanism: MechanismName, query: str, note: str = "") -> Any:
    import altair as alt

    words = next(q.words for q in QUERIES if q.name == query)
    text = f"{query}, {mechanism.capitalize()}"
    return alt.TitleParams(text=text, subtitle=words + note, fontSize=12, subtitleFontSize=10.5, subtitleColor=NEUTRAL)


# ---------------------------------------------------------------- ε found for each variance

_LOWEST = len(paper_candidates()) + 1.6  # where a denial is drawn, below the smallest candidate
_COLUMNS = ("runs as in the paper (box, dots)", "exact chances of the paper's test", "exact chances, sharp selection")
_WIDTH, _GAP = 1.05, 4.0  # one column's width, and the distance from one threshold to the next


def draw_variance(study: VarianceStudy) -> Figure:
    """Draw how often the noisy tests release each ε: a row of panels per mechanism, in it a panel per query.

    The vertical axis has the candidates, evenly spaced, and below them the denial. For each threshold on the variance
    of RDRs a panel has three columns: runs of the paper's test (a box, and a dot per run), the exact probabilities of
    that test, and the exact probabilities of the sharp selection, this package's own test (V5). Probabilities are
    horizontal bars: within a column, widths and so areas are in proportion to them.
    """
    import altair as alt

    marks = [1.0, 0.1, 0.01, 0.001]
    ticks = [0.0, *(float(paper_candidates().index(mark)) for mark in marks), _LOWEST]
    names = ["10", *(format_epsilon(mark) for mark in marks), "denied"]
    label = " : ".join(f"datum.value == {tick} ? '{name}'" for tick, name in zip(ticks, names, strict=True)) + " : ''"
    centres = [_GAP * place for place in range(len(VARIANCES))]
    powers = [f"10{_superscript(round(math.log10(label)))}" for label in VARIANCES]
    tau = " : ".join(f"datum.value == {c:g} ? '{p}'" for c, p in zip(centres, powers, strict=True)) + " : ''"
    fill = alt.Scale(domain=list(_COLUMNS), range=[INK, FAILS, MEETS])

    def panel(mechanism: MechanismName, query: str, first: bool, last: bool) -> Any:
        trials = [t for t in study.trials if t.mechanism == mechanism and t.query == query]
        y = alt.Y(
            "y:Q",
            scale=alt.Scale(domain=[_LOWEST + 1.2, -1], nice=False),
            axis=alt.Axis(title="ε" if first else None, values=ticks, labelExpr=label, labels=first, ticks=False),
        )
        x = alt.X(
            "x:Q",
            scale=alt.Scale(domain=[-1.9, centres[-1] + 1.9], nice=False),
            axis=alt.Axis(
                title="τ_var" if last else None, values=centres, labelExpr=tau, labels=last, grid=False, ticks=False
            ),
        )
        density = alt.Chart(alt.InlineData(values=list(_bars(trials))))
        boxes = alt.Chart(alt.InlineData(values=[_box(trial, at) for at, trial in enumerate(trials)]))
        dots = alt.Chart(alt.InlineData(values=list(_dots(trials))))
        limits = alt.Chart(alt.InlineData(values=list(_limits(trials))))
        colour = alt.Color("column:N", scale=fill, legend=_legend())
        layers = alt.layer(
            density.mark_rect().encode(x=x, x2="x2:Q", y=y, y2="y2:Q", color=colour),
            dots.mark_circle(size=7, opacity=0.5, color=INK).encode(x=x, y=y),
            boxes.mark_rule(color=INK, strokeWidth=1).encode(x=x, y=y, y2="high:Q"),
            boxes.mark_rect(fill="white", fillOpacity=0.75, stroke=INK, strokeWidth=1).encode(
                x=alt.X("left:Q"), x2="right:Q", y=alt.Y("q1:Q"), y2="q3:Q"
            ),
            boxes.mark_rule(color=INK, strokeWidth=2.2).encode(x=alt.X("left:Q"), x2="right:Q", y=alt.Y("median:Q")),
            limits.mark_rule(color=GREEN, strokeWidth=2.2, strokeDash=[4, 2]).encode(x=x, x2="x2:Q", y=y),
        )
        note = " (comparison only)" if query == AVERAGE else ""
        return layers.properties(width=_PANEL + 30, height=_PANEL + 70, title=_panel_title(mechanism, query, note))

    times = ", times ten as in the authors' code" if study.thresholds == "code" else ""
    over = "RDR*" if study.normalise == "ceiling" else "the largest RDR of the data"
    return _assemble(
        panel,
        MECHANISMS,
        "ε found by find-and-release-ε-from-RDR, variance of normalised RDR ≤ τ_var",
        [
            f"{study.runs} runs each, ε_svt = 1, thresholds as labelled{times}, RDR over {over}. A bar's width is its "
            "chance.",
            "Green dashes: the largest candidate that really meets τ_var; what lies above violates it. No dashes: none "
            "does.",
            "Sharp selection: under this package's own defaults. Q4, first two columns: for comparison only, never "
            "released.",
        ],
        "Runs and exact chances of every outcome, for the paper's noisy test and for the sharp selection.",
    )


def _superscript(number: int) -> str:
    return str(number).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _height(epsilon: float | None) -> float:
    return _LOWEST if epsilon is None else float(paper_candidates().index(epsilon))


def _bars(trials: Sequence[Trial]) -> Iterable[JsonObject]:
    """Yield the bars of the exact probabilities: for each trial, one column per noisy test.

    A column has a centred bar for each candidate and one for the denial, with a width in proportion to the probability
    of this outcome. The widest bar fills the column. Bars too narrow to be seen are left out.
    """
    for at, trial in enumerate(trials):
        for column, outcomes in ((1, trial.paper), (2, trial.sharp)):
            middle = _GAP * at + (column - 1) * (_WIDTH + 0.12)
            largest = max(*outcomes.chances, outcomes.denial)
            for epsilon, chance in _chances(outcomes):
                half = 0.5 * _WIDTH * chance / largest
                if half < 0.004:
                    continue
                y = _height(epsilon)
                yield {
                    "x": middle - half, "x2": middle + half, "y": y - 0.5, "y2": y + 0.5, "column": _COLUMNS[column]
                }  # fmt: skip


def _chances(outcomes: ReleaseProbabilities) -> Iterable[tuple[float | None, float]]:
    yield from zip(paper_candidates(), outcomes.chances, strict=True)
    yield None, outcomes.denial


def _box(trial: Trial, at: int) -> JsonObject:
    heights = sorted(_height(epsilon) for epsilon in trial.found)
    middle = _GAP * at - _WIDTH - 0.12
    quarter, median, three = (heights[math.ceil(share * len(heights)) - 1] for share in (0.25, 0.5, 0.75))
    reach = 1.5 * (three - quarter)  # whiskers as in the usual box plot
    inside = [height for height in heights if quarter - reach <= height <= three + reach]
    return {
        "x": middle, "left": middle - 0.33, "right": middle + 0.33, "y": inside[0], "high": inside[-1],
        "q1": quarter - 0.12, "median": median, "q3": three + 0.12, "column": _COLUMNS[0],
    }  # fmt: skip


def _dots(trials: Sequence[Trial]) -> Iterable[JsonObject]:
    """Yield a dot for the ε of every run, spread over the width of the column of runs, in the order of the runs."""
    for at, trial in enumerate(trials):
        middle = _GAP * at - _WIDTH - 0.12
        for number, epsilon in enumerate(trial.found):
            shift = 0.8 * ((number + 0.5) / len(trial.found) - 0.5)
            yield {"x": middle + shift, "y": _height(epsilon), "column": _COLUMNS[0]}


def _limits(trials: Sequence[Trial]) -> Iterable[JsonObject]:
    for at, trial in enumerate(trials):
        for met, left, right in ((trial.paper.met, -1.65, 0.56), (trial.sharp.met, 0.6, 1.68)):
            if met is not None:
                yield {"x": _GAP * at + left, "x2": _GAP * at + right, "y": _height(met) - 0.5}


# ---------------------------------------------------------------- running times

_WAYS = ("authors, published", "here, recompute", "here, closed form")


def draw_scalability(study: Scalability) -> Figure:
    """Draw seconds against records, both logarithmic, with a band of ± 1 standard deviation.

    A row of panels per algorithm, a panel per query.
    """
    import altair as alt

    rows: list[JsonObject] = []
    ends: list[float] = []
    for timing in study.timings:
        place: JsonObject = {"algorithm": timing.algorithm, "query": timing.query, "rows": timing.rows}
        low, high = max(timing.mean - timing.deviation, timing.mean / 10), timing.mean + timing.deviation
        way = _WAYS[2] if timing.way == "closed form" else _WAYS[1]
        rows.append(place | {"way": way, "seconds": timing.mean, "low": low, "high": high})
        ends += [low, high]
        if timing.way == "closed form" and timing.published is not None:
            seconds = timing.published
            rows.append(place | {"way": _WAYS[0], "seconds": seconds, "low": seconds, "high": seconds})
            ends.append(seconds)
    sizes = sorted({timing.rows for timing in study.timings})
    floor, top = min(ends) / 1.5, max(ends) * 1.5
    names = list(_WAYS)
    tints = (INK, FAILS, MEETS)
    colour = alt.Color("way:N", scale=alt.Scale(domain=names, range=list(tints)), legend=_legend())
    shape = alt.Shape("way:N", scale=alt.Scale(domain=names, range=["circle", "square", "diamond"]), legend=_legend())

    def panel(algorithm: Algorithm, query: str, first: bool, last: bool) -> Any:
        own = [row for row in rows if row["algorithm"] == algorithm and row["query"] == query]
        x = alt.X(
            "rows:Q",
            scale=alt.Scale(type="log", domain=[sizes[0] / 1.6, sizes[-1] * 1.6], nice=False),
            axis=alt.Axis(
                title="records" if last else None, values=sizes, labels=last, labelExpr=_THOUSANDS, labelOverlap=True
            ),
        )
        y = alt.Y(
            "seconds:Q",
            scale=alt.Scale(type="log", domain=[floor, top], nice=False),
            axis=alt.Axis(
                title="seconds" if first else None, labels=first, values=[10.0**power for power in range(-3, 4)],
                format="~g",
            ),
        )  # fmt: skip
        base = alt.Chart(alt.InlineData(values=own)).encode(x=x)
        lines = []
        for way, tint, dash in zip(_WAYS, tints, ([5, 4], [1, 0], [1, 0]), strict=True):
            one = base.transform_filter(f"datum.way == '{way}'")
            lines.append(one.mark_area(opacity=0.22, color=tint).encode(y=alt.Y("low:Q"), y2="high:Q"))
            lines.append(one.mark_line(strokeWidth=1.8, color=tint, strokeDash=dash).encode(y=y))
        points = base.mark_point(size=40, filled=True, opacity=1).encode(y=y, shape=shape, color=colour)
        layers = alt.layer(*lines, points)
        name = alt.TitleParams(
            text=query, subtitle=_STEPS_OF[algorithm], fontSize=12, subtitleFontSize=10.5, subtitleColor=NEUTRAL
        )
        return layers.properties(width=_PANEL, height=_PANEL, title=name)

    return _assemble(
        panel,
        ALGORITHMS,
        "Running time of find-ε and find-and-release-ε, both axes logarithmic",
        [f"Mean of several runs, the band one standard deviation. {study.words[-1]}"],
        " ".join(study.words),
    )


_STEPS_OF: dict[Algorithm, str] = {"find": "find ε", "find-and-release": "find and release ε"}
_THOUSANDS = "datum.value >= 1000000 ? datum.value / 1000000 + ' M' : datum.value / 1000 + ' k'"


# ---------------------------------------------------------------- shared layout


def _legend() -> alt.Legend:
    import altair as alt

    return alt.Legend(orient="bottom", direction="horizontal", title=None, labelLimit=0, symbolSize=110, offset=10)


def _assemble(
    panel: Callable[[Any, str, bool, bool], Any], lines: Sequence[Any], title: str, subtitle: Sequence[str], words: str
) -> Figure:
    """Draw two rows of five panels as one figure, with axes at the outer edges only.

    ``lines``: what each row is about, such as a mechanism. ``panel``: a function that makes a panel. It takes one of
    ``lines``, the query's name, whether the panel is the first of its row, and whether the row is the last. ``words``:
    the description of the figure.
    """
    import altair as alt
    import vl_convert

    datasets: JsonObject = {}
    rows = []
    for line in lines:
        row = []
        for place, query in enumerate(QUERIES):
            spec = panel(line, query.name, place == 0, line == lines[-1]).to_dict(validate=False)
            datasets |= spec.pop("datasets", {})
            row.append({key: part for key, part in spec.items() if key not in ("$schema", "config")})
        rows.append({"hconcat": row, "spacing": 14})
    heading = {
        "text": title, "subtitle": list(subtitle), "anchor": "start", "fontSize": 15, "subtitleFontSize": 11.5,
        "subtitleColor": NEUTRAL, "color": INK, "offset": 14, "subtitlePadding": 5,
    }  # fmt: skip
    spec = {"vconcat": rows, "spacing": 16, "title": heading, "datasets": datasets, "config": _LOOK}
    release = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
    svg: str = vl_convert.vegalite_to_svg(spec, vl_version=release)
    image: bytes = vl_convert.svg_to_png(svg, scale=2)
    return Figure(f"{title}. {words}", svg, image)


_LOOK = {
    "font": FONT,
    "background": "white",
    "padding": 14,
    "axis": {
        "labelColor": INK, "titleColor": NEUTRAL, "titleFontWeight": "normal", "gridColor": FAINT, "domainColor": FAINT,
        "tickColor": FAINT, "labelFontSize": 10.5, "titleFontSize": 11.5, "titlePadding": 6,
    },
    "view": {"stroke": FAINT},
    "title": {"anchor": "start", "color": INK},
    "legend": {"labelFontSize": 11.5, "labelColor": INK},
}  # fmt: skip


def save_figure(figure: Figure, folder: Path, stem: str) -> list[Path]:
    """Save the figure in the folder as ``stem``.svg and, at twice the size, ``stem``.png; return both paths."""
    return [
        write_file(folder / f"{stem}.svg", figure.svg.encode()),
        write_file(folder / f"{stem}.png", figure.png),
    ]


def write_file(path: Path, content: bytes) -> Path:
    """Write a file, creating its folder if needed; return its path. Raises OptionError if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror}. Choose another folder with -o.") from None
    return path
