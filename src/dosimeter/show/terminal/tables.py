"""Show the controller the candidates on a terminal: a table, bars of text, one sentence of advice.

Takes plain values, gives rich renderables. Their layout is decided when they are printed: in the available width,
without colour where there is none, in ASCII where the encoding is not UTF-8. Nothing is cut off: what does not fit is
folded. Text that comes from the data is shown as text: no markup, no control characters.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from dosimeter.problems import Option
from dosimeter.schema import PLAIN, Words
from dosimeter.show.axes import Axis, range_axis
from dosimeter.show.candidates import FAILS, MEETS, format_scale, list_errors, order_candidates
from dosimeter.show.written_numbers import format_epsilon, format_number, format_percent, format_range, format_times

if TYPE_CHECKING:
    from dosimeter.risk import Candidate, ExposedPerson, GroupRisk, ShownGroups

FEW = 15  # up to so many candidates are all shown; of more, a selection
_ASCII = str.maketrans(
    {"ε": "eps", "×": "x", "÷": "/", "±": "+/-", "–": "-", "−": "-", "∞": "inf", "≥": ">=", "≤": "<=", "•": "*"}
    | {"✓": "yes", "✗": "no", "◀": "<", "█": "#", "▌": "#", "▐": "#", "│": "|", "…": "...", "Δ": "Delta", "σ": "sigma"}
)

_SIGNS, _COLOURS = {None: "–", True: "✓", False: "✗"}, {None: "", True: MEETS, False: FAILS}


@dataclass(frozen=True, slots=True)
class _Late:
    """A renderable that ``build`` lays out when it is printed: only then are the width and the encoding known."""

    build: Callable[[ConsoleOptions], RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.build(options)


def _plain(value: object, options: ConsoleOptions, style: str = "") -> Text:
    """Return a value as text in characters that the terminal can show, with control characters escaped."""
    text = "" if value is None else str(value)
    if not text.isprintable():
        text = "".join(_visible(character) for character in text)
    if options.ascii_only:
        text = text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")
    return Text(text, style=style, overflow="fold")


def _visible(character: str) -> str:
    """Return a control or format character (such as an escape or a direction mark) as its escape.

    Others, and line breaks, are returned unchanged.
    """
    if character == "\n" or unicodedata.category(character)[0] != "C":
        return character
    return character.encode("unicode_escape").decode("ascii")


# ---------------------------------------------------------------- which candidates


def pick_candidates(candidates: Sequence[Candidate], found: float | None = None) -> tuple[Candidate, ...]:
    """Return the candidates to show, largest first. Up to 15 candidates are all shown.

    Of more than 15, the largest and the smallest are shown, and those that are 1, 2 or 5 times a power of ten, such as
    0.1, 0.2 and 0.5. If these are fewer than 5 or more than 15, 12 evenly spread candidates are shown instead. The
    candidate ``found`` and its neighbours are shown in any case.
    """
    ordered = order_candidates(candidates)
    if len(ordered) <= FEW:
        return ordered
    chosen = {0, len(ordered) - 1}
    chosen |= {place for place, c in enumerate(ordered) if f"{c.epsilon:.9e}"[:11] in _ONE_TWO_FIVE}
    if len(chosen) < 5 or len(chosen) > FEW:  # custom candidates: evenly spread
        chosen = {round(index * (len(ordered) - 1) / (FEW - 4)) for index in range(FEW - 3)}
    for place, candidate in enumerate(ordered):
        if candidate.epsilon == found:
            chosen |= {max(place - 1, 0), place, min(place + 1, len(ordered) - 1)}
    return tuple(ordered[place] for place in sorted(chosen))


_ONE_TWO_FIVE = frozenset({"1.000000000", "2.000000000", "5.000000000"})


# ---------------------------------------------------------------- candidates


def candidate_table(
    candidates: Sequence[Candidate],
    outputs: Sequence[str],
    *,
    found: float | None,
    show_all: bool = False,
    decides: bool = True,
    called: Words = PLAIN,
) -> RenderableType:
    """Return a table with a row per ε: noise, 95 % errors, least ÷ most exposed, and whether the preference is met.

    ``outputs``: the columns of the answer that have errors. ``found``: the ε to be marked as found. ``show_all``: show
    every candidate, not a selection. ``decides``: whether some candidates meet the preference and others do not; where
    it is False, no row is marked (F4). ``called``: what rows and people are called, here and below.
    """
    shown = order_candidates(candidates) if show_all else pick_candidates(candidates, found)
    valued = any(c.value is not None and c.value != c.rdr.ratio for c in shown)  # a ratio is not shown twice
    judged = found is not None or any(c.satisfied is not None for c in shown)

    def tabulate(stacked: bool) -> tuple[list[_Column], list[_Row]]:
        columns = [_Column("ε"), _Column("noise scale")]
        columns += (
            [_Column("95 % error", "left", whole=True)]
            if stacked
            else [_Column(f"95 % error, {name}") for name in outputs]
        )
        columns += [_Column("least ÷ most exposed"), *[_Column("preference value")] * valued]
        columns += [_Column("meets it", "left")] * judged
        rows = []
        for c in shown:
            errors = list_errors(c, called)
            if stacked:
                errors = ["\n".join(f"{name} {error}" for name, error in zip(outputs, errors, strict=True))]
            cells = [format_epsilon(c.epsilon), format_scale(c), *errors, format_percent(c.rdr.ratio)]
            cells += ["–" if c.value is None else format_number(c.value, 4)] * valued
            cells += [_SIGNS[c.satisfied] + (" ◀ found" if c.epsilon == found and decides else "")] * judged
            rows.append(
                _Row(
                    tuple(cells),
                    "bold" if c.epsilon == found and decides else "",
                    _COLOURS[c.satisfied] if judged else "",
                )
            )
        return columns, rows

    def build(options: ConsoleOptions) -> RenderableType:
        columns, rows = tabulate(stacked=False)
        if sum(_least_widths(columns, rows, options)) > options.max_width:  # one number under the other, not beside it
            columns, rows = tabulate(stacked=True)
        few = f"({len(candidates)} candidates, {len(shown)} shown; {Option('show_all').flag} shows every one)"
        return _lay_out(columns, rows, options, caption="" if len(shown) == len(candidates) else few)

    return _Late(build)


def range_bars(
    candidates: Sequence[Candidate],
    *,
    width: int | None = None,
    found: float | None = None,
    show_all: bool = False,
    called: Words = PLAIN,
) -> RenderableType:
    """Draw one bar of text per ε, from the least to the most exposed person, all on one logarithmic axis.

    ``width``: characters per line at most, by default those available. ``found``: the ε whose name is set in bold.
    ``show_all``: show every candidate, not a selection.
    """
    shown = order_candidates(candidates) if show_all else pick_candidates(candidates, found)
    names = [format_epsilon(c.epsilon) for c in shown]
    figures = [" – ".join(format_range(*c.rdr.relative)) + " ×" for c in shown]
    name_width, figure_width = max(3, *map(len, names)), max(map(len, figures))
    stated = any(c.satisfied is not None for c in shown)

    def build(options: ConsoleOptions) -> RenderableType:
        room = min(options.max_width, width or options.max_width)
        cells = max(8, room - name_width - figure_width - (4 if stated else 0) - 4)
        axis = range_axis(shown, ticks=max(2, cells // 7))
        head = ("eps" if options.ascii_only else "ε").rjust(name_width) + "  " + _scale_line(axis, cells)
        lines = [
            _plain(
                f"× the average {called.individual}, log scale. Shorter is fairer: {called.people} look more alike.",
                options,
            ),
            _plain(head, options, "dim"),
        ]
        for c, name, figure in zip(shown, names, figures, strict=True):
            line = _plain(name.rjust(name_width) + "  ", options, "bold" if c.epsilon == found else "")
            line.append_text(_plain(_bar(axis, c.rdr.relative, cells, options), options, _COLOURS[c.satisfied]))
            line.append_text(_plain("  " + figure.rjust(figure_width), options))
            if stated:
                line.append_text(_plain(" " + _SIGNS[c.satisfied], options, _COLOURS[c.satisfied]))
            lines.append(line)
        return Group(*lines)

    return _Late(build)


def _bar(axis: Axis, ends: tuple[float, float], cells: int, options: ConsoleOptions) -> str:
    """Draw a bar between two values in a line of ``cells`` characters. Its length is exact to an eighth of a character.

    The bar starts at a whole character, and is never shorter than an eighth. In ASCII its length is in whole
    characters, and at least one.
    """
    low, high = (axis.position(end) * cells for end in ends)
    start = min(round(low), cells - 1)
    eighths = min(max(round(8 * (high - low)), 1), 8 * (cells - start))
    if options.ascii_only:
        return (" " * start + "#" * max(round(eighths / 8), 1)).ljust(cells)
    return (" " * start + "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()).ljust(cells)


def _scale_line(axis: Axis, cells: int) -> str:
    """Write the ticks of an axis as one line of ``cells`` characters, each starting where its value lies.

    Ticks near 1 are written first; those that no longer fit are left out.
    """
    line = [" "] * cells
    for tick, label in sorted(zip(axis.ticks, axis.labels, strict=True), key=lambda pair: abs(math.log(pair[0]))):
        start = round(axis.position(tick) * cells)
        around = "".join(line[max(start - 1, 0) : start + len(label) + 1])
        if start + len(label) <= cells and not around.strip():
            line[start : start + len(label)] = label
    return "".join(line)


# ---------------------------------------------------------------- people and groups


def people_table(
    people: Sequence[ExposedPerson], *, epsilon: float | None = None, called: Words = PLAIN
) -> RenderableType:
    """Return a table of the most exposed people: how many, how exposed, their own guarantee, why, and their record.

    Records are left out if no columns of them are to be shown. ``epsilon``: the ε to be named in the title.
    """
    records = any(person.columns for person in people)
    columns = [_Column(called.people), _Column("× average"), _Column("own ε"), _Column("why", "left")]
    columns += [_Column("record", "left")] * records
    body = []
    for person in people:
        cells = [
            f"{person.people:,}",
            format_times(person.times_average),
            format_number(person.own_epsilon),
            person.why,
        ]
        cells += [", ".join(f"{name} = {_cell(value)}" for name, value in person.columns.items())] * records
        body.append(_Row(tuple(cells)))
    title = "Most exposed" if epsilon is None else f"Most exposed at ε = {format_epsilon(epsilon)}"
    return _Late(lambda options: _lay_out(columns, body, options, title=title))


def _cell(value: object) -> str:
    return "NULL" if value is None else str(value).replace("\n", "\\n")


def groups_table(
    groups: Sequence[GroupRisk], *, by: str, epsilon: float | None = None, called: Words = PLAIN
) -> RenderableType:
    """Return a table with a row per group of the column ``by``: how many people, their median and their largest RDR.

    RDRs are multiples of the average. ``epsilon``: the ε to be named in the title.
    """
    small = any(group.people < 5 for group in groups)
    columns = [_Column(by, "left"), _Column(called.people), _Column("median, × average"), _Column("largest, × average")]
    columns += [_Column("note", "left")] * small
    body = []
    for group in groups:
        cells = [_cell(group.group), f"{group.people:,}", format_times(group.median), format_times(group.max)]
        body.append(_Row((*cells, *[f"fewer than 5 {called.people}" if group.people < 5 else ""] * small)))
    title = f"By {by}" if epsilon is None else f"By {by}, at ε = {format_epsilon(epsilon)}"
    return _Late(lambda options: _lay_out(columns, body, options, title=title))


def shown_groups_table(groups: ShownGroups, called: Words = PLAIN) -> RenderableType:
    """Return a table of how many groups of the data would be shown at each ε, where nobody declared them (H1)."""
    titles = ("groups shown, of", "even chance with", "in groups hardly ever shown")
    columns = [_Column("ε"), *(_Column(title) for title in titles)]
    body = [
        _Row(
            (
                format_epsilon(line.epsilon),
                f"{line.expected:,.1f} of {groups.observed:,}",
                called.count_people(line.threshold),
                f"{line.hidden_people:,} of {groups.people:,}",
            )
        )
        for line in groups.lines
    ]
    title = f"Groups that nobody declared, at δ = {groups.group_delta:g} for showing them"
    return _Late(lambda options: _lay_out(columns, body, options, title=title))


# ---------------------------------------------------------------- sentences


def say(sentence: str) -> RenderableType:
    """Return a sentence as a renderable that is wrapped to the terminal's width when it is printed."""
    return _Late(lambda options: _plain(sentence, options))


# ---------------------------------------------------------------- the layout of every table


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    justify: Literal["left", "right"] = "right"
    whole: bool = False  # its lines are not broken; those of figures, which are aligned to the right, never are


@dataclass(frozen=True, slots=True)
class _Row:
    cells: tuple[str, ...]
    style: str = ""
    last_style: str = ""


def _lay_out(
    columns: Sequence[_Column], rows: Sequence[_Row], options: ConsoleOptions, *, title: str = "", caption: str = ""
) -> Table:
    """Return a table that fits the width: texts are folded before figures, figures only on a very narrow terminal."""
    table = Table(
        box=box.ASCII2 if options.ascii_only else box.SIMPLE_HEAD,
        title=_plain(title, options, "bold") if title else None,
        title_justify="left",
        caption=_plain(caption, options, "dim") if caption else None,
        caption_justify="left",
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )
    for column, width in zip(columns, _share_width(columns, rows, options), strict=True):
        table.add_column(_plain(column.title, options), justify=column.justify, overflow="fold", width=width)
    for row in rows:
        line = [_plain(cell, options) for cell in row.cells]
        line[-1].stylize(row.last_style)
        table.add_row(*line, style=row.style)
    return table


_GAP = 2  # between two columns, or at the two edges


def _share_width(columns: Sequence[_Column], rows: Sequence[_Row], options: ConsoleOptions) -> list[int | None]:
    """Return the width of each column, in characters, so that few texts are folded.

    Each column first gets the least width that it needs; if there is no room even for that, all widths are None, and
    Rich folds what it must. Next, a column that lacks at most 12 characters, to show its texts unfolded, gets these.
    What is left goes, character by character, to the column that lacks most in proportion to its width.
    """
    widths = _least_widths(columns, rows, options)
    room = options.max_width - sum(widths)
    if room < 0:
        return [None] * len(columns)  # too narrow for that: everything is folded
    texts = [[column.title, *(row.cells[place] for row in rows)] for place, column in enumerate(columns)]
    lines = [[line for text in column for line in text.splitlines()] for column in texts]
    wishes = [_GAP + max(_width(line, options) for line in [*column, ""]) for column in lines]
    for place in sorted(range(len(widths)), key=lambda place: wishes[place] - widths[place]):
        missing = max(wishes[place] - widths[place], 0)
        if missing <= min(room, 12):
            widths[place], room = widths[place] + missing, room - missing
    while room > 0 and any(wish > width for wish, width in zip(wishes, widths, strict=True)):
        place = max(range(len(widths)), key=lambda place: wishes[place] / widths[place])
        widths[place], room = widths[place] + 1, room - 1
    return [width - _GAP for width in widths]


def _least_widths(columns: Sequence[_Column], rows: Sequence[_Row], options: ConsoleOptions) -> list[int]:
    """Return the least width of each column, gap included, that breaks no figure and no word of up to 20 characters."""
    widths = []
    for place, column in enumerate(columns):
        whole = column.whole or column.justify == "right"
        pieces = [*column.title.split(), "  "]
        for row in rows:
            pieces += row.cells[place].splitlines() if whole else [word[:20] for word in row.cells[place].split()]
        widths.append(_GAP + max(_width(piece, options) for piece in pieces))
    return widths


def _width(text: str, options: ConsoleOptions) -> int:
    return cell_len(_plain(text, options).plain)
