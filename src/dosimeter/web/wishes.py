"""What the controller set on the decision page: the preference as a sentence, ε, the views. Form fields → values."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dosimeter.errors import PreferenceError
from dosimeter.model import ColumnType, Schema
from dosimeter.preference import Preference, parse_preference
from dosimeter.web.models import check_text

Preset = Literal["ratio", "variance", "medians", "own"]
OWN_EXAMPLE = "QUANTILE_CONT(rdr, 0.99) <= 1.5 * AVG(rdr)"


class Wish(BaseModel):
    """The fields of the preference and of the slider. Anything left out takes what the priority suggests."""

    model_config = ConfigDict(extra="ignore")

    preset: Preset = "ratio"
    percent: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] | None = None
    tau: Annotated[float, Field(gt=0, lt=1e300, allow_inf_nan=False)] = 1e-5
    column: Annotated[str, Field(max_length=200), AfterValidator(check_text)] = ""
    value: Annotated[str, Field(max_length=500), AfterValidator(check_text)] = ""
    share: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] = 90.0
    text: Annotated[str, Field(max_length=2_000), AfterValidator(check_text)] = OWN_EXAMPLE
    epsilon: Annotated[float, Field(gt=0, lt=1e300, allow_inf_nan=False)] | None = None
    raw: bool = False
    linear: bool = False


def list_two_way_columns(schema: Schema) -> dict[str, list[str]]:
    """Columns by whose values people can be compared, with the declared values."""
    columns: dict[str, list[str]] = {}
    for column in schema.columns.values():
        if column.type is ColumnType.BOOLEAN:
            columns[column.name] = ["true", "false"]
        elif column.type is ColumnType.CATEGORY and column.values and not column.identifying:
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
