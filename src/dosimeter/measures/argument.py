"""The argument of an aggregate: one column of a profile query, with its bounds and its grid."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sqlglot import exp

from dosimeter.sql import is_not_null, wrap


@dataclass(frozen=True, slots=True)
class Argument:
    """The argument of an aggregate, as one column of the profile query.

    ``tree``: the argument's SQL expression. ``role`` says what the column holds of it. If the role is "value": a whole
    number of grid steps, NULL where the row contributes nothing. If it is "presence": whether the expression is not
    NULL. If it is "distinct": the raw value; equal values count once. ``label``: the argument as messages name it.
    ``unit``: the real value of one grid step, so that real value = steps × unit. ``lower``, ``upper``: the bounds, in
    grid steps.
    """

    role: Literal["value", "presence", "distinct"]
    tree: exp.Expression
    label: str
    unit: Fraction = Fraction(1)
    lower: int = 0
    upper: int = 0

    @property
    def is_presence(self) -> bool:
        """Return whether the column only says if the expression is not NULL."""
        return self.role == "presence"

    @property
    def middle(self) -> Fraction:
        """Return the middle of the bounds, in real units."""
        return Fraction(self.lower + self.upper, 2) * self.unit

    @property
    def largest(self) -> int:
        """Return the largest absolute value within the bounds, in grid steps."""
        return max(abs(self.lower), abs(self.upper))

    @property
    def width(self) -> int:
        """Return the distance between the bounds, in grid steps."""
        return self.upper - self.lower

    def column(self) -> exp.Expression:
        """Write what the argument's column in a profile query holds: the value of its expression.

        If the ``role`` is presence, the column holds 1 where the expression is not NULL, and NULL elsewhere.
        """
        if self.is_presence:
            return exp.Case(ifs=[exp.If(this=is_not_null(wrap(self.tree.copy())), true=exp.Literal.number(1))])
        return self.tree.copy()

    def centred(self, value: exp.Expression) -> exp.Expression:
        """Write 2v − (L + U): how far a value v lies from the middle of the bounds L and U, in half grid steps (S2)."""
        doubled = exp.Mul(this=exp.Literal.number(2), expression=wrap(value))
        middle = self.lower + self.upper
        shift: exp.Expression = exp.Literal.number(abs(middle))
        return exp.Sub(this=doubled, expression=shift) if middle >= 0 else exp.Add(this=doubled, expression=shift)
