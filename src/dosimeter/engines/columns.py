"""Match the columns that a schema declares with the columns of the data, for every engine.

A column that is missing or has the wrong type is refused in the same words on every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dosimeter.errors import DataError
from dosimeter.schema import Column, ColumnType

Kinds = Mapping[ColumnType, frozenset[str]]


def name_types(text: str, moment: str = "TIMESTAMP") -> Mapping[ColumnType, str]:
    """Return the type that an engine reads each column type as. ``text`` and ``moment``: its texts and timestamps."""
    return {
        ColumnType.INTEGER: "BIGINT",
        ColumnType.DECIMAL: "DOUBLE",
        ColumnType.BOOLEAN: "BOOLEAN",
        ColumnType.DATE: "DATE",
        ColumnType.TIMESTAMP: moment,
        ColumnType.TEXT: text,
        ColumnType.CATEGORY: text,
    }


@dataclass(frozen=True, slots=True)
class NativeColumn:
    """The type of a column in the source. ``written``: the type as messages write it, such as decimal(10,0) in Spark.

    ``kind``: the same type by the name under which NativeTypes lists it, such as whole decimal.
    """

    written: str
    kind: str


@dataclass(frozen=True, slots=True)
class NativeTypes:
    """The engine's own types that can be read as each column type of a schema.

    ``fits``: for each column type, the engine's types that can be read as it; without a schema, a type is read as the
    first column type that it fits. ``also_fits``: further types of the engine that can be read as each column type, but
    only with a schema. ``unknown``: the engine's type of a column without values, which can be read as every column
    type. ``castable``: the engine's types of which a view can make each column type by a cast.
    """

    fits: Kinds
    also_fits: Kinds = field(default_factory=dict)
    unknown: str | None = None
    castable: Kinds = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        *,
        integers: frozenset[str],
        numbers: frozenset[str],
        texts: frozenset[str],
        moments: frozenset[str],
        boolean: str,
        flags: frozenset[str],
    ) -> NativeTypes:
        """Return the types of an engine that are read alike within each of these sets.

        With a schema, whole numbers can be kept as other numbers, and booleans as yes and no. ``flags``: the whole
        numbers that can be cast to booleans.
        """
        shown = numbers | moments | {boolean, "date"}
        return cls(
            fits={
                ColumnType.INTEGER: integers,
                ColumnType.DECIMAL: numbers,
                ColumnType.BOOLEAN: frozenset({boolean}),
                ColumnType.DATE: frozenset({"date"}),
                ColumnType.TIMESTAMP: moments,
                ColumnType.TEXT: texts,
                ColumnType.CATEGORY: texts,
            },
            also_fits={ColumnType.INTEGER: numbers, ColumnType.BOOLEAN: texts},
            castable={
                ColumnType.INTEGER: texts,
                ColumnType.DECIMAL: texts,
                ColumnType.BOOLEAN: flags,
                ColumnType.DATE: moments | texts,
                ColumnType.TIMESTAMP: texts | {"date"},
                ColumnType.TEXT: shown,
                ColumnType.CATEGORY: shown,
            },
        )

    def find_type(self, kind: str) -> ColumnType | None:
        """Return the column type that an engine's type has without a schema; None where there is no equivalent."""
        if kind == self.unknown:
            return ColumnType.TEXT
        return next((found for found, kinds in self.fits.items() if kind in kinds), None)

    def match(
        self,
        columns: Mapping[str, Column],
        natives: Mapping[str, NativeColumn],
        find: Callable[[str], str | None],
        advise: Callable[[Column, NativeColumn], str],
    ) -> dict[str, str]:
        """Return for each declared column the name of the data's column to read.

        ``natives``: the data's columns. ``find``: looks a declared name up in the data. ``advise``: returns a sentence
        on how a column that does not fit could be cast. Raises DataError for a column that is missing, or whose type
        does not fit.
        """
        reading = {}
        for column in columns.values():
            found = require_column(column, find(column.name), natives)
            native = natives[found]
            if self.find_type(native.kind) is None:
                raise DataError(
                    f"Column {column.name} is {native.written} in the data, which has no equivalent here. Leave it out "
                    "of the schema, or read a view that casts it."
                )
            fitting = self.fits[column.type] | self.also_fits.get(column.type, frozenset())
            if native.kind not in fitting and native.kind != self.unknown:
                raise DataError(
                    f"Column {column.name} is {native.written} in the data and {column.type} in the schema. "
                    f"Change one.{advise(column, native)}"
                )
            reading[column.name] = found
        return reading


def require_column(column: Column, found: str | None, names: Mapping[str, object]) -> str:
    """Return ``found``, the name of a declared column in the data. Raises DataError if it is None: not found.

    ``column``: the declared column. ``names``: the names of the data's columns. Both are for the message.
    """
    if found is None:
        raise DataError(
            f"The data has no column {column.name}, which the schema declares. "
            f"Columns in the data: {', '.join(list(names)[:20])}."
        )
    return found
