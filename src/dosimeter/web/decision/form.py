"""The decision page's form: a preference, the slider's ε, and how pictures are drawn. Takes fields; gives values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Literal
from urllib.parse import urlencode

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from dosimeter.errors import PreferenceError
from dosimeter.risk import PRESETS, Preference, parse_preference
from dosimeter.schema import ColumnType, Schema
from dosimeter.show import format_number
from dosimeter.sql import quote_name, quote_text
from dosimeter.web.decision.approve import LONGEST_PREFERENCE
from dosimeter.web.public import check_text

Named = Literal["cautious", "balanced", "exploratory"]
Preset = Literal["ratio", "variance", "medians", "own"] | Named
FIELDS = {"ratio": ("percent",), "variance": ("tau",), "medians": ("column", "value", "share"), "own": ("text",)}
"""For each kind of preference, the fields that it reads. The last of them must not be sent empty."""


class DecisionForm(BaseModel):
    """The fields of the decision page's form: a preference, the slider's ε, and how pictures are drawn.

    ``preset``: the kind of preference, or the name of a preset. Each kind reads its own fields:
    - ratio: least ÷ most exposed is at least ``percent`` %; None: the controller's percentage for normal priority.
    - None: the kind that the controller's standard gives.
    - variance: the variance of the normalised RDR is at most ``tau``.
    - medians: of the median RDRs of people with this ``value`` in this ``column`` and of all others, the smaller is at
      least ``share`` % of the larger.
    - own: the condition in ``text``, which the controller wrote.

    ``epsilon``: where the slider is; None puts it where the preference says. In pictures, ``raw`` draws RDRs and not
    multiples of the average, ``linear`` makes the histogram's heights linear, ``every`` gives each candidate a row of
    its own, even those that are alike, and ``measure`` names the column whose error is drawn.
    """

    model_config = ConfigDict(extra="ignore")

    preset: Preset | None = None
    percent: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] | None = None
    tau: Annotated[float, Field(gt=0, lt=1e300, allow_inf_nan=False)] = 1e-5
    column: Annotated[str, Field(max_length=200), AfterValidator(check_text)] = ""
    value: Annotated[str, Field(max_length=500), AfterValidator(check_text)] = ""
    share: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] = 90.0
    text: Annotated[str, Field(max_length=LONGEST_PREFERENCE), AfterValidator(check_text)] = ""
    epsilon: Annotated[float, Field(gt=0, lt=1e300, allow_inf_nan=False)] | None = None
    raw: bool = False
    linear: bool = False
    every: bool = False
    measure: Annotated[str, Field(max_length=200), AfterValidator(check_text)] = ""


def read_fields(fields: Mapping[str, str]) -> tuple[DecisionForm, str]:
    """Return the form, and a message about one field that cannot be used ("" if all can).

    A field that cannot be used gets its default, and so does an empty one. There is a message about an empty field only
    if the kind of preference needs it.
    """
    filled = {name: value for name, value in fields.items() if value.strip() != ""}
    *_, needed = FIELDS.get(fields.get("preset", "ratio"), ("",))
    complaint = COMPLAINTS[needed] if needed in fields and needed not in filled else ""
    try:
        return DecisionForm.model_validate(filled), complaint
    except ValidationError as error:
        wrong = [str(part["loc"][0]) for part in error.errors()]
    said = next((COMPLAINTS[name] for name in wrong if name in COMPLAINTS), "This cannot be used.")
    return DecisionForm.model_validate(
        {name: value for name, value in filled.items() if name not in wrong}
    ), complaint or said


COMPLAINTS = {
    "percent": "Give a percentage above 0 and at most 100.",
    "share": "Give a percentage above 0 and at most 100.",
    "tau": "The variance must be a positive number.",
    "text": "Write a condition of at most 3,000 characters, such as MIN(rdr) / MAX(rdr) >= 0.95.",
    "epsilon": "ε must be a positive number.",
}


def write_query(form: DecisionForm, epsilon: float | None) -> str:
    """Return the form's preference and this ε as the query string of a URL. Fields about pictures are left out."""
    names = ("preset", *FIELDS.get(form.preset or "ratio", ()))
    fields = {name: getattr(form, name) for name in names} | {"epsilon": epsilon}
    given = {name: value for name, value in fields.items() if value is not None}
    return urlencode({name: f"{value:.12g}" if isinstance(value, float) else value for name, value in given.items()})


def find_preset(preference: Preference) -> str | None:
    """Return the name of the preset that asks for the same; None if there is none."""
    return next((name for name in PRESETS if parse_preference(name).text == preference.text), None)


def recall_form(preference: str | None, epsilon: float | None) -> DecisionForm:
    """Return the form that would give this stored preference and this approved ε.

    Without a preference, the form has the default one.
    """
    parsed = None if not preference else parse_preference(preference)
    if parsed is None:
        return DecisionForm(epsilon=epsilon)
    if parsed.kind == "ratio" and parsed.threshold is not None:
        return DecisionForm(preset="ratio", percent=float(f"{100 * parsed.threshold:.12g}"), epsilon=epsilon)
    if parsed.kind == "variance" and parsed.threshold is not None:
        return DecisionForm(preset="variance", tau=parsed.threshold, epsilon=epsilon)
    named = find_preset(parsed)
    if named is not None:
        return DecisionForm.model_validate({"preset": named, "epsilon": epsilon})
    return DecisionForm(preset="own", text=parsed.text, epsilon=epsilon)


def list_two_way_columns(schema: Schema) -> dict[str, list[str]]:
    """Return the columns by which a preference can compare two groups, people with one value and all others.

    These are the columns of TRUE and FALSE and those with declared values, each with its values. Columns that identify
    people are left out.
    """
    columns: dict[str, list[str]] = {}
    for column in schema.columns.values():
        if column.identifying or column.name == schema.unit:
            continue
        if column.type is ColumnType.BOOLEAN:
            columns[column.name] = ["true", "false"]
        elif column.type is ColumnType.CATEGORY and column.values:
            columns[column.name] = list(column.values)
    return columns


def write_preference(form: DecisionForm, schema: Schema, suggested: float) -> Preference:
    """Return the preference that the form stands for. ``suggested``: the percentage to use if the form has none.

    Raises PreferenceError if the form's condition cannot be used, or if two groups are to be compared and the schema
    has no column for that.
    """
    match form.preset:
        case "ratio" | None:
            return parse_preference(f"ratio:{_percent(suggested if form.percent is None else form.percent)}")
        case "variance":
            return parse_preference(f"variance:{form.tau!r}")
        case "own":
            return parse_preference(" ".join(form.text.split()))
        case "medians":
            return parse_preference(_write_medians(form, schema))
        case "cautious" | "balanced" | "exploratory":
            return parse_preference(form.preset)


def _percent(percent: float) -> str:
    return format(Decimal(repr(percent)) / 100, "f")


def _write_medians(form: DecisionForm, schema: Schema) -> str:
    columns = list_two_way_columns(schema)
    if not columns:
        raise PreferenceError("No column of this table has declared values, so there are no two groups to compare.")
    name = form.column if form.column in columns else next(iter(columns))
    value = form.value if form.value in columns[name] else columns[name][0]
    quoted, boolean = quote_name(name), schema.columns[name].type is ColumnType.BOOLEAN
    literal = value.upper() if boolean else quote_text(value)
    inside = f"MEDIAN(rdr) FILTER (WHERE {quoted} = {literal})"
    outside = f"MEDIAN(rdr) FILTER (WHERE {quoted} <> {literal})"
    return f"LEAST({inside} / {outside}, {outside} / {inside}) >= {_percent(form.share)}"


def word_closeness(variance: float) -> str:
    """Say how close to each other people's risks lie where the variance of the normalised RDR is at most this.

    Three standard deviations, rounded up to one digit: at least eight of nine people lie that close to the average.
    """
    percent = 300.0 * math.sqrt(variance)
    unit = 10.0 ** math.floor(math.log10(percent))
    return (
        f"people’s risks lie within about {format_number(math.ceil(percent / unit - 1e-9) * unit, 2)} % of each other"
    )


def word_condition(preference: Preference) -> str:
    """Say what a preference asks for; "" if it is neither a preset nor a ratio."""
    named = find_preset(preference)
    if named is not None:
        return f"Answered only if {PRESETS[named].words}."
    if preference.kind == "ratio" and preference.threshold is not None:
        percent = format_number(100.0 * preference.threshold, 6)
        return (
            f"Answered only if the least exposed person carries at least {percent} % of the risk of the most exposed."
        )
    return ""
