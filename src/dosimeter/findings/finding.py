"""What a finding is: one thing worth saying about a query at an ε, with its numbers and a weight. Private."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar, cast, dataclass_transform

from dosimeter.html import Private
from dosimeter.json_values import JsonObject, JsonValue


class Weight(Enum):
    """How a finding bears on taking an ε."""

    AGAINST = "against"
    WARNING = "warning"
    REMARK = "remark"


class Subject(Enum):
    """What a finding is about."""

    PEOPLE = "people"
    ANSWER = "answer"
    COST = "cost"
    METHOD = "method"


@dataclass_transform(frozen_default=True)
class Finding(Private):
    """One thing worth saying. Its fields are the numbers and names that the sentence needs. Private.

    Every subclass is a frozen dataclass, and gives what differs from the class it extends beside this class's name:
    ``weight``: how it bears on taking the ε. ``about``: what it is about. ``is_note``: it stands among the notes,
    below everything else, and in JSON's ``notes``. ``is_advice``: it stands among the advice. It can be both.
    ``kind``: what JSON calls it, such as "rows_cut": the class's name in small letters, unless given.
    """

    weight: ClassVar[Weight] = Weight.REMARK
    about: ClassVar[Subject] = Subject.METHOD
    is_note: ClassVar[bool] = False
    is_advice: ClassVar[bool] = True
    kind: ClassVar[str] = ""

    def __init_subclass__(
        cls,
        *,
        weight: Weight | None = None,
        about: Subject | None = None,
        is_note: bool | None = None,
        is_advice: bool | None = None,
        kind: str | None = None,
    ) -> None:
        given = {"weight": weight, "about": about, "is_note": is_note, "is_advice": is_advice}
        for name, value in given.items():
            if value is not None:
                setattr(cls, name, value)
        cls.kind = kind or re.sub("(?<!^)([A-Z])", r"_\1", cls.__name__).lower()
        dataclass(frozen=True, repr=False)(cls)

    def describe(self) -> JsonObject:
        """Return the finding's kind, weight, and those of its fields that are plain values."""
        values = {each.name: getattr(self, each.name) for each in fields(cast("Any", self))}
        plain = {name: _list(value) for name, value in values.items() if _is_plain(value)}
        return {"kind": self.kind, "weight": self.weight.value, **plain}


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def _list(value: Any) -> JsonValue:
    return [_list(each) for each in value] if isinstance(value, tuple) else value
