"""The public facts of a table: the classes that hold them, and their TOML form.

Takes a TOML file, its text or a mapping; gives a frozen Schema, checked once. Never reads the data.
"""

from typing import TYPE_CHECKING

from dosimeter.late_names import load_late
from dosimeter.schema.facts import (
    DEFAULT_LENGTH,
    LONGEST_TEXT,
    Column,
    ColumnType,
    JoinTable,
    Scalar,
    Schema,
    unit_schema,
)
from dosimeter.schema.toml import MAX_VALUES, digest_schema, dump_schema, load_schema, read_schema, toml_key
from dosimeter.schema.words import PLAIN, Words

if TYPE_CHECKING:
    from dosimeter.schema.dummy_rows import count_most_rows

__getattr__ = load_late(__name__, {"dummy_rows": ("count_most_rows",)})
