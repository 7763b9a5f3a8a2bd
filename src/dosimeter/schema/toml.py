"""Read a Schema from TOML and write it as TOML. Facts are validated once; an error says what to change in the TOML."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from dosimeter.errors import SchemaError
from dosimeter.problems import Command
from dosimeter.schema.facts import LONGEST_TEXT, Column, ColumnType, JoinTable, Schema
from dosimeter.schema.words import WORDS

_TOP = {
    "table", "description", "account", "individuals", "unit", "max_rows_per_unit", "row_key", "reviewed", "found",
    "columns", "tables", *WORDS,
}  # fmt: skip
_PLURALS = {"row": "rows", "individual": "people"}
"""The entries that say what is counted, each with that for several."""
_TABLE = {"public", "key", "source", "unit", "max_rows_per_unit", "row_key", "columns"}
_COLUMN = ("type", "description", "found", "bounds", "resolution", "values", "max_length", "nulls", "identifying")
"""The entries of a column, in the order in which they are written."""
_NUMERIC = (ColumnType.INTEGER, ColumnType.DECIMAL)
_TEMPORAL = (ColumnType.DATE, ColumnType.TIMESTAMP)
MAX_VALUES = 10_000
RELEASED = "released"
"""What ``reviewed`` says of a schema whose facts were found by spending (B1)."""
MAX_DESCRIPTION = 500
MAX_WORD = 40  # letters of what a row or an individual is called
_DATA_FILE = re.compile(r"\.((csv|tsv|txt)(\.gz)?|parquet/?|pq/?)$", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # at least two letters: a single one is a drive
_WORD = re.compile(r"[^\W\d_]+(?:[ -][^\W\d_]+)*")
_EXACT = Context(prec=60)  # more digits than a number here can have


def load_schema(path: str | Path) -> Schema:
    """Read and validate a schema file. Paths of joined tables are resolved from the file's folder."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SchemaError(
            f"There is no schema file {file}. Draft one with: ",
            Command("schema DATA -o", str(file), call="Dataset.draft_schema()"),
        ) from None
    except (OSError, UnicodeDecodeError):
        raise SchemaError(f"The schema file {file} cannot be read. It must be a UTF-8 text file.") from None
    schema, folder = parse_schema(text, name=str(file)), file.parent
    tables = schema.tables.values()
    return replace(
        schema, tables={each.name: replace(each, source=_locate_source(each.source, folder)) for each in tables}
    )


def _locate_source(source: str | None, folder: Path) -> str | None:
    """Return the source of a joined table. If it is the relative path of a file, resolve that against the folder.

    Such a path names a data file, or stands after ``duckdb:``. None, absolute paths, table names and URLs are returned
    unchanged.
    """
    if source is None:
        return None
    if source.startswith("duckdb:"):
        return f"duckdb:{folder / source.removeprefix('duckdb:')}"
    return str(folder / source) if _DATA_FILE.search(source) and not _SCHEME.match(source) else source


def parse_schema(text: str, *, name: str = "the schema") -> Schema:
    try:
        content = tomllib.loads(text, parse_float=Decimal)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SchemaError(f"{name} is not valid TOML: {error}.") from None
    try:
        return read_schema(content)
    except SchemaError as error:
        raise SchemaError(f"{name}: ", *error.problem.pieces) from None


def read_schema(content: Mapping[str, object]) -> Schema:
    """Return a Schema from parsed TOML, or from a dictionary of the same shape. Raises SchemaError for wrong facts."""
    _expect_keys(content, _TOP, "the schema")
    table = content.get("table")
    if not isinstance(table, str) or not table.strip():
        raise SchemaError('the table has no name. Add: table = "name"')
    unit = content.get("unit", "row")
    if not isinstance(unit, str) or not unit:
        raise SchemaError('unit must be "row" or the name of the column that identifies an individual.')
    read = _read_columns(
        content, "columns", "there are no columns. Add a [columns.name] section for each column a query may use."
    )
    schema = Schema(
        table=table,
        columns=read,
        individuals=_read_count(content, "individuals"),
        unit=unit,
        max_rows_per_unit=_read_count(content, "max_rows_per_unit") or 1,
        row_key=_read_row_key(content, read),
        reviewed="released" if content.get("reviewed") == RELEASED else _read_flag(content, "reviewed", "the schema"),
        tables=_read_tables(content.get("tables", {}), table),
        account=_read_account(content),
        description=_read_description(content, "the schema"),
        found=_read_entry(content, "the schema"),
        **_read_words(content),
    )
    _check_unit(schema, content)
    _check_found(schema)
    return schema


def _check_found(schema: Schema) -> None:
    """Refuse a schema of which only part says that its facts were released, or by which entry."""
    entries = [schema.found, *(column.found for column in schema.columns.values() if column.found is not None)]
    if (schema.reviewed == RELEASED) != any(entries) or (schema.reviewed == RELEASED and schema.found is None):
        raise SchemaError(
            'reviewed = "released" and found = "ENTRY" go together: they say which entry of a ledger released the '
            "facts. Where you know the facts yourself, write reviewed = true and leave found out."
        )


def _read_columns(content: Mapping[str, Any], section: str, missing: str, start: str = "") -> dict[str, Column]:
    """Return the columns of a table. ``section``: what their sections' names begin with. ``missing``: said if none is.

    ``start``: what other messages about all of them begin with.
    """
    columns = content.get("columns")
    if not isinstance(columns, Mapping) or not columns:
        raise SchemaError(missing)
    lowered = [str(name).lower() for name in columns]
    if len(set(lowered)) != len(lowered):
        raise SchemaError(f"{start}two columns differ only in upper and lower case, which SQL does not tell apart.")
    return {str(name): _read_column(str(name), facts, section) for name, facts in columns.items()}


def _read_account(content: Mapping[str, object]) -> str | None:
    """Return the name of the ledger's account, or None where none is given; refuse what cannot be a name."""
    account = content.get("account")
    if account is None:
        return None
    if not isinstance(account, str) or not account.strip() or not account.isprintable():
        raise SchemaError('account must be the name of an account in the ledger, on one line: account = "hospital"')
    return account


def _read_description(content: Mapping[str, object], place: str) -> str | None:
    """Return the description of the table or column at ``place``, or None; refuse what is not one short line."""
    text = content.get("description")
    if text is None:
        return None
    if not isinstance(text, str) or not text.strip() or not text.isprintable() or len(text) > MAX_DESCRIPTION:
        raise SchemaError(
            f"{place}: description must be one line of text, of at most {MAX_DESCRIPTION} characters, that says what "
            "is in it."
        )
    return text


def _read_entry(content: Mapping[str, object], place: str) -> str | None:
    """Return the ledger's entry that released the facts of the table or column at ``place``, or None."""
    entry = content.get("found")
    if entry is not None and (not isinstance(entry, str) or not re.fullmatch(r"[0-9A-Za-z-]{1,80}", entry)):
        raise SchemaError(f'{place}: found must be the id of an entry in a ledger: found = "1-2f3a…".')
    return entry


def _read_words(content: Mapping[str, object]) -> dict[str, str]:
    """Return what one row and one individual are called, and several of them, as far as that is given."""
    found: dict[str, str] = {}
    for name in WORDS:
        word = content.get(name)
        if word is None:
            continue
        if not isinstance(word, str) or len(word) > MAX_WORD or not _WORD.fullmatch(word):
            raise SchemaError(f'{name} must be a short word or two, of letters, blanks and hyphens: {name} = "stay".')
        found[name] = word
    for one, several in _PLURALS.items():
        if several in found and one not in found:
            raise SchemaError(f'{several} says what several are called. Say what one is called, too: {one} = "…".')
    return found


_UNIT_TYPES = (ColumnType.INTEGER, ColumnType.TEXT, ColumnType.CATEGORY)


def _check_unit(schema: Schema, given: Mapping[str, object]) -> None:
    if schema.unit == "row":
        if schema.max_rows_per_unit != 1 or schema.row_key is not None:
            raise SchemaError(
                'with unit = "row" everybody has one row. Leave max_rows_per_unit and row_key out, or name a unit '
                "column."
            )
        return
    most = _read_count(given, "max_rows_per_unit")
    _check_unit_columns(schema.columns, schema.unit, schema.row_key, most, "the schema")


def _check_unit_columns(
    columns: Mapping[str, Column], unit: str, row_key: str | None, most: int | None, place: str
) -> None:
    """Refuse wrong facts about the unit column of a table, which says whose each row is.

    ``unit``: the name of this column. ``most``: how many rows of one individual count at most; it must be given.
    ``row_key``: the name of a column that tells these rows apart, if there is one; if ``most`` is above 1, it must
    differ from ``unit``. ``unit`` and ``row_key`` must be columns of integers, texts or categories, and the unit column
    may not declare NULL as a group. ``place``: what messages call the table.
    """
    if unit not in columns:
        raise SchemaError(f'{place}: unit = "{unit}" must be "row" or name one of the columns.')
    if most is None:
        raise SchemaError(
            f'{place}: with unit = "{unit}" say how many rows of one individual count: max_rows_per_unit = m.'
        )
    if row_key is not None and row_key not in columns:
        raise SchemaError(f"{place}: row_key must name one of the columns.")
    if row_key == unit and most > 1:
        raise SchemaError(
            f"{place}: row_key tells an individual's rows apart, so it must be another column than unit. Where "
            "everybody has one row, say max_rows_per_unit = 1."
        )
    if columns[unit].nulls:
        raise SchemaError(
            f"{place}: nulls = true stands at the unit {unit}. A row without a unit is nobody's and does not count, so "
            "NULL cannot be a group there. Remove it."
        )
    for name in (unit, row_key or unit):
        if columns[name].type not in _UNIT_TYPES:
            raise SchemaError(f"{place}: {name} must be an integer, text or category column to identify rows.")


def _read_tables(content: Any, first: str) -> dict[str, JoinTable]:
    """Return the further tables that a query may join, by name. ``first``: the name of the schema's own table."""
    if not isinstance(content, Mapping):
        raise SchemaError('tables must be sections: [tables.name] public = true, key = "…".')
    lowered = [first.lower(), *(str(name).lower() for name in content)]
    if len(set(lowered)) != len(lowered):
        raise SchemaError("two tables have one name, and SQL cannot tell them apart. No table is joined to itself.")
    return {str(name): _read_table(str(name), facts) for name, facts in content.items()}


def _read_table(name: str, facts: Any) -> JoinTable:
    place = f"[tables.{name}]"
    if not isinstance(facts, Mapping):
        raise SchemaError(f"{place} must be a section with at least public = true, a key and columns.")
    _expect_keys(facts, _TABLE, place)
    section = f"tables.{name}.columns"
    missing = f"{place} has no columns. Add a [{section}.…] section for each one used."
    read = _read_columns(facts, section, missing, f"{place}: ")
    public = _read_flag(facts, "public", place)
    texts: dict[str, str | None] = {}
    for key in ("key", "source", "unit", "row_key"):
        value = facts.get(key)
        if value is not None and not isinstance(value, str):
            raise SchemaError(f"{place} {key} must be a text.")
        texts[key] = value
    if public and texts["key"] not in read:
        raise SchemaError(f'{place} is public: name the column that is unique in it: key = "…".')
    if not public:
        if texts["unit"] is None:
            raise SchemaError(
                f"{place} is private: name the unit column, or say public = true if it holds no individuals."
            )
        _check_unit_columns(read, texts["unit"], texts["row_key"], _read_count(facts, "max_rows_per_unit"), place)
    return JoinTable(
        name=name,
        columns=read,
        public=public,
        max_rows_per_unit=_read_count(facts, "max_rows_per_unit") or 1,
        **texts,
    )


def _expect_keys(content: Mapping[str, object], known: Collection[str], place: str) -> None:
    for key in content:
        if key not in known:
            raise SchemaError(f"{place} has an unknown entry {key!r}. Known: {', '.join(sorted(known))}.")


def _read_count(content: Mapping[str, object], key: str) -> int | None:
    value = content.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**53:
        raise SchemaError(f"{key} must be a positive whole number.")
    return value


def _read_flag(content: Mapping[str, object], key: str, place: str) -> bool:
    value = content.get(key, False)
    if not isinstance(value, bool):
        raise SchemaError(f"{place}: {key} must be true or false.")
    return value


def _read_row_key(content: Mapping[str, object], columns: Mapping[str, Column]) -> str | None:
    key = content.get("row_key")
    if key is not None and (not isinstance(key, str) or key not in columns):
        raise SchemaError("row_key must name one of the columns.")
    return key


def _read_column(name: str, facts: Any, section: str) -> Column:
    place = f"[{section}.{name}]"
    if not isinstance(facts, Mapping):
        raise SchemaError(f'{place} must be a section with at least type = "…".')
    if name.lower().startswith("dosimeter_"):
        raise SchemaError(f"{place} names that start with dosimeter_ are used inside our queries. Rename the column.")
    _expect_keys(facts, _COLUMN, place)
    try:
        kind = ColumnType(facts.get("type", ""))
    except (ValueError, TypeError):
        raise SchemaError(f"{place} type must be one of {', '.join(ColumnType)}.") from None
    given = {key: read(place, kind, facts[key]) for key, read in _READERS.items() if key in facts}
    bounds, resolution = given.get("bounds"), given.get("resolution")
    if bounds and resolution and any((Fraction(bound) / Fraction(resolution)).denominator != 1 for bound in bounds):
        raise SchemaError(f"{place} bounds must be multiples of the resolution {resolution}.")  # S8
    return Column(
        name=name,
        type=kind,
        identifying=_read_flag(facts, "identifying", place),
        nulls=_read_flag(facts, "nulls", place),
        description=_read_description(facts, place),
        found=_read_entry(facts, place),
        **given,
    )


def _read_length(place: str, kind: ColumnType, value: Any) -> int:
    if kind is not ColumnType.TEXT:
        raise SchemaError(f"{place} only text columns have a max_length. Remove it.")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LONGEST_TEXT:
        raise SchemaError(f"{place} max_length must be a whole number of letters, from 1 to {LONGEST_TEXT:,}.")
    return value


def _read_bounds(place: str, kind: ColumnType, bounds: Any) -> Any:
    if kind not in (*_NUMERIC, *_TEMPORAL):
        raise SchemaError(f"{place} a {kind} column has no bounds. Remove them.")
    if not isinstance(bounds, (list, tuple)) or len(bounds) != 2:
        raise SchemaError(f"{place} bounds must be two values: bounds = [low, high].")
    read: Callable[[str, Any], Any] = _number
    if kind in _TEMPORAL:
        read = _day if kind is ColumnType.DATE else _moment
    low, high = read(place, bounds[0]), read(place, bounds[1])
    if kind is ColumnType.INTEGER and (low != int(low) or high != int(high)):
        raise SchemaError(f"{place} bounds of an integer column must be whole numbers.")
    if low > high:
        raise SchemaError(f"{place} bounds are the wrong way round. Write the lower one first: bounds = [low, high].")
    return (low, high)


def _number(place: str, value: Any) -> Decimal:
    if not _is_number(value):
        raise SchemaError(f"{place} bounds must be numbers.")
    return _limited(place, "bounds", Decimal(str(value)))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _limited(place: str, entry: str, number: Decimal) -> Decimal:
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or not -30 <= exponent <= 19 or abs(number) >= 2**62:
        raise SchemaError(f"{place} {entry} must be finite, below 2^62, and have at most 30 decimal places.")
    return number


def _day(place: str, value: Any) -> date:
    day = _parse(date, value)
    if not isinstance(day, date) or isinstance(day, datetime):
        raise SchemaError(f"{place} bounds of a date column must be days: bounds = [2020-01-01, 2024-12-31].")
    return day


def _moment(place: str, value: Any) -> datetime:
    moment = _parse(datetime, value)
    if not isinstance(moment, datetime) or moment.tzinfo is not None:
        raise SchemaError(
            f"{place} bounds of a timestamp column must be UTC moments without a zone: 2024-12-31T23:59:59."
        )
    return moment


def _parse(kind: type[date], value: object) -> object:
    """Return the day or moment that a text writes, or None if it writes none. Return any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return kind.fromisoformat(value)
    except ValueError:
        return None


def _read_resolution(place: str, kind: ColumnType, value: Any) -> Decimal:
    if kind is not ColumnType.DECIMAL:
        raise SchemaError(f"{place} only decimal columns have a resolution. Remove it.")
    resolution = _limited(place, "resolution", Decimal(str(value))) if _is_number(value) else None
    if resolution is None or resolution <= 0:
        raise SchemaError(f"{place} resolution must be a positive number, such as 0.01.")
    return resolution


def _read_values(place: str, kind: ColumnType, values: Any) -> tuple[str, ...]:
    if kind is not ColumnType.CATEGORY:
        raise SchemaError(f'{place} only category columns have values. Use type = "category", or remove them.')
    if not isinstance(values, (list, tuple)) or not values or not all(isinstance(value, str) for value in values):
        raise SchemaError(f'{place} values must be a list of texts: values = ["a", "b"].')
    if any("\ud800" <= character <= "\udfff" for value in values for character in value):
        raise SchemaError(f"{place} values hold characters that are not Unicode text.")
    if len(set(values)) != len(values):
        raise SchemaError(f"{place} values must not repeat.")
    if len(values) > MAX_VALUES:
        raise SchemaError(f"{place} has more than {MAX_VALUES:,} values.")
    return tuple(values)


_READERS: Mapping[str, Callable[[str, ColumnType, Any], Any]] = {
    "bounds": _read_bounds,
    "resolution": _read_resolution,
    "values": _read_values,
    "max_length": _read_length,
}
"""What reads the entries of a column that fit only some types."""


def save_schema(schema: Schema, path: str | Path, *, comment: str = "") -> None:
    """Write a schema to a file as TOML, with a comment above it. Raises SchemaError if the file cannot be written."""
    try:
        Path(path).write_text(dump_schema(schema, comment=comment), encoding="utf-8")
    except OSError:
        raise SchemaError(f"{path} cannot be written. Choose a folder that exists and may be written to.") from None


def dump_schema(schema: Schema, *, comment: str = "", comments: Mapping[str, str] | None = None) -> str:
    """Return the schema as TOML text. ``load_schema`` reads the same Schema back.

    comment: lines for the top of the file.
    comments: lines to write above a key of the table itself, by the key's name, such as ``individuals``; and above a
        column, by ``columns.`` and the column's name, such as ``columns.age``.
    """
    of_unit = () if schema.unit == "row" else ("max_rows_per_unit", "row_key")
    names = ("table", "description", *WORDS, "account", "individuals", "unit", *of_unit, "reviewed", "found")
    lines = _dump_comment(comment)
    for name, written in _dump_entries(schema, names).items():
        lines += [*_dump_comment((comments or {}).get(name, "")), written]
    for column in schema.columns.values():
        above = _dump_comment((comments or {}).get(f"columns.{column.name}", ""))
        lines += _dump_column(f"columns.{toml_key(column.name)}", column, above)
    for table in schema.tables.values():
        lines += _dump_table(table)
    return "\n".join(lines) + "\n"


def _dump_comment(text: str) -> list[str]:
    return [f"# {_printable(line)}".rstrip() for line in text.splitlines()]


def _dump_entries(facts: Schema | JoinTable | Column, names: Iterable[str]) -> dict[str, str]:
    """Return these facts as lines of TOML, by their names, without those that nothing is known of."""
    values = {name: getattr(facts, name) for name in names}
    return {name: f"{name} = {_write(value)}" for name, value in values.items() if value is not None}


def _dump_column(section: str, column: Column, above: Sequence[str] = ()) -> list[str]:
    names = [name for name in _COLUMN if getattr(column, name) is not False]
    return ["", *above, f"[{section}]", *_dump_entries(column, names).values()]


def _dump_table(table: JoinTable) -> list[str]:
    names = ("public", "key", "source", "unit", "row_key", *(() if table.public else ("max_rows_per_unit",)))
    lines = ["", f"[tables.{toml_key(table.name)}]", *_dump_entries(table, names).values()]
    for column in table.columns.values():
        lines += _dump_column(f"tables.{toml_key(table.name)}.columns.{toml_key(column.name)}", column)
    return lines


def _printable(text: str) -> str:
    """Return the text with control characters, which TOML does not allow in a comment, replaced by blanks."""
    return "".join(char if char.isprintable() else " " for char in text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_key(name: str) -> str:
    """Return a name as a key of TOML: quoted unless it is letters, digits, - and _ alone."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _write(value: object) -> str:
    """Return a value as TOML."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _quoted(value)
        case tuple():
            return f"[{', '.join(map(_write, value))}]"
        case _:
            return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value.isoformat()) if isinstance(value, date) else str(value)


def digest_schema(schema: Schema) -> str:
    """Return a digest of the public facts, independent of layout and comments.

    It leaves out ``reviewed``, ``found``, ``account``, ``identifying``, the descriptions, the words for rows and
    individuals, and the sources of joined tables.
    """
    facts: dict[str, object] = {
        "table": schema.table,
        "individuals": schema.individuals,
        "unit": [schema.unit, schema.max_rows_per_unit, schema.row_key],
        "columns": [_column_facts(column) for column in schema.columns.values()],
    }
    if schema.tables:
        facts["tables"] = [_table_facts(table) for table in schema.tables.values()]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _table_facts(table: JoinTable) -> list[Any]:
    columns = [_column_facts(column) for column in table.columns.values()]
    return [table.name, table.public, table.key, table.unit, table.max_rows_per_unit, table.row_key, columns]


def _column_facts(column: Column) -> list[Any]:
    """Return what the digest covers of a column.

    ``nulls`` and ``max_length`` are added only if they are given, so that digests of schemas from before there were
    these facts stay valid.
    """
    return [
        column.name,
        column.type,
        None if column.bounds is None else [_plain(_normal(bound)) for bound in column.bounds],
        column.values,
        None if column.resolution is None else _plain(_normal(column.resolution)),
        *(["nulls"] if column.nulls else []),
        *([] if column.max_length is None else [["max_length", column.max_length]]),
    ]


def _normal(value: Any) -> Any:
    """Return a number so that equal ones have equal texts: 1.50 as 1.5, -0 as 0. Return dates and moments unchanged."""
    return Decimal(0) if value == 0 else value.normalize(_EXACT) if isinstance(value, Decimal) else value
