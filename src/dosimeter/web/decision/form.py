"""What the controller set on the decision page: the preference as a sentence, ε, the views. Form fields → values."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Literal
from urllib.parse import urlencode

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from dosimeter.errors import PreferenceError
from dosimeter.risk import Preference, parse_preference
from dosimeter.schema import ColumnType, Schema
from dosimeter.web.public import check_text

Preset = Literal["ratio", "variance", "medians", "own"]
NEEDED = {"ratio": "percent", "variance": "tau", "medians": "share", "own": "text"}
"""The field without which a kind of preference says nothing, if it is sent and empty."""


class Wish(BaseModel):
    """The fields of the preference and of the slider. Anything left out takes what the priority suggests.

    Without an ``epsilon`` the page follows the preference.
    """

    model_config = ConfigDict(extra="ignore")

    preset: Preset = "ratio"
    percent: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] | None = None
    tau: Annotated[float, Field(gt=0, lt=1e300, allow_inf_nan=False)] = 1e-5
    column: Annotated[str, Field(max_length=200), AfterValidator(check_text)] = ""
    value: Annotated[str, Field(max_length=500), AfterValidator(check_text)] = ""
    share: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] = 90.0
    text: Annotated[str, Field(max_length=3_000), AfterValidator(check_text)] = ""
    epsilon: Annotated[float, Field(gt=0, lt=1e300, allow_inf_nan=False)] | None = None
    raw: bool = False
    linear: bool = False


def read_fields(fields: Mapping[str, str]) -> tuple[Wish, str]:
    """The form's fields; where one cannot be used, the defaults and what is wrong with it.

    An empty box is not a value: for the kind of preference that needs it, it is refused rather than filled in.
    """
    filled = {name: value for name, value in fields.items() if value.strip() != ""}
    needed = NEEDED.get(fields.get("preset", "ratio"), "")
    complaint = COMPLAINTS[needed] if needed in fields and needed not in filled else ""
    try:
        return Wish.model_validate(filled), complaint
    except ValidationError as error:
        wrong = [str(part["loc"][0]) for part in error.errors()]
    said = next((COMPLAINTS[name] for name in wrong if name in COMPLAINTS), "This cannot be used.")
    return Wish.model_validate({name: value for name, value in filled.items() if name not in wrong}), complaint or said


COMPLAINTS = {
    "percent": "Give a percentage above 0 and at most 100.",
    "share": "Give a percentage above 0 and at most 100.",
    "tau": "The variance must be a positive number.",
    "text": "Write a condition of at most 3,000 characters, such as MIN(rdr) / MAX(rdr) >= 0.95.",
    "epsilon": "ε must be a positive number.",
}


def write_query(wish: Wish, epsilon: float | None) -> str:
    """The same wish as the query part of an address, with this ε."""
    fields: dict[str, str] = {"preset": wish.preset}
    match wish.preset:
        case "ratio":
            fields |= {} if wish.percent is None else {"percent": f"{wish.percent:.12g}"}
        case "variance":
            fields["tau"] = f"{wish.tau:.12g}"
        case "medians":
            fields |= {"column": wish.column, "value": wish.value, "share": f"{wish.share:.12g}"}
        case _:
            fields["text"] = wish.text
    if epsilon is not None:
        fields["epsilon"] = f"{epsilon:.12g}"
    return urlencode(fields)


def recall_wish(preference: str | None, epsilon: float | None) -> Wish:
    """The sentence that a stored preference was, with the ε it was approved at."""
    parsed = None if not preference else parse_preference(preference)
    if parsed is None:
        return Wish(epsilon=epsilon)
    if parsed.kind == "ratio" and parsed.threshold is not None:
        return Wish(preset="ratio", percent=float(f"{100 * parsed.threshold:.12g}"), epsilon=epsilon)
    if parsed.kind == "variance" and parsed.threshold is not None:
        return Wish(preset="variance", tau=parsed.threshold, epsilon=epsilon)
    return Wish(preset="own", text=parsed.text, epsilon=epsilon)


def list_two_way_columns(schema: Schema) -> dict[str, list[str]]:
    """Columns by whose values people can be compared, with the declared values."""
    columns: dict[str, list[str]] = {}
    for column in schema.columns.values():
        if column.identifying or column.name == schema.unit:
            continue
        if column.type is ColumnType.BOOLEAN:
            columns[column.name] = ["true", "false"]
        elif column.type is ColumnType.CATEGORY and column.values:
            columns[column.name] = list(column.values)
    return columns


def write_preference(wish: Wish, schema: Schema, suggested: float) -> Preference:
    """The sentence as a preference."""
    match wish.preset:
        case "ratio":
            return parse_preference(f"ratio:{_percent(suggested if wish.percent is None else wish.percent)}")
        case "variance":
            return parse_preference(f"variance:{wish.tau!r}")
        case "own":
            return parse_preference(" ".join(wish.text.split()))
        case _:
            return parse_preference(_write_medians(wish, schema))


def _percent(percent: float) -> str:
    return format(Decimal(repr(percent)) / 100, "f")


def _write_medians(wish: Wish, schema: Schema) -> str:
    columns = list_two_way_columns(schema)
    if not columns:
        raise PreferenceError("No column of this table has declared values, so there are no two groups to compare.")
    name = wish.column if wish.column in columns else next(iter(columns))
    value = wish.value if wish.value in columns[name] else columns[name][0]
    quoted = name.replace('"', '""')
    boolean = schema.columns[name].type is ColumnType.BOOLEAN
    literal = value.upper() if boolean else "'" + value.replace("'", "''") + "'"
    inside = f'MEDIAN(rdr) FILTER (WHERE "{quoted}" = {literal})'
    outside = f'MEDIAN(rdr) FILTER (WHERE "{quoted}" <> {literal})'
    return f"LEAST({inside} / {outside}, {outside} / {inside}) >= {_percent(wish.share)}"
