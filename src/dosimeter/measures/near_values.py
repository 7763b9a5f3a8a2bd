"""The values around a quantile: all that the quantile can become when one individual's rows are left out (C3).

Leaving out up to m rows moves a quantile's rank by at most m, so values of more distant ranks can be clamped to the
nearest value that is kept without changing any outcome. The SQL trees here can be transpiled for any engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from dosimeter.measures.units import Joined, UnitRows
from dosimeter.sql import (
    alias,
    as_double,
    as_text,
    clamp,
    concatenated,
    conjunction,
    double,
    is_not_null,
    listed_text,
    plain_quotient,
    same_keys,
    select_from,
    window,
    wrap,
)


def list_near_conditions(
    fraction: Fraction, rows: int, *, upto: exp.Expression, same: exp.Expression, total: exp.Expression
) -> list[exp.Expression]:
    """Write the two conditions for a value to lie near a quantile: with a rank from R − m − 2 to R + m + 2 (C3).

    R = ⌊p(N − 1)⌋ is the rank of the quantile; ranks count from 0. Only the ranks R − m to R + m + 1 matter; the others
    cover the rounding of a double. ``fraction``: p. ``rows``: m, the most rows of one individual. ``upto``: how many
    values are at most this one. ``same``: how many equal it. ``total``: N, the number of all values.
    """
    reach = rows + 1
    last = exp.Sub(this=total, expression=exp.Literal.number(1))
    scaled = exp.Mul(this=double(fraction.numerator), expression=as_double(last))
    rank = exp.Floor(this=plain_quotient(scaled, double(fraction.denominator)))
    first = exp.Sub(this=upto, expression=same)
    above = exp.GTE(this=upto.copy(), expression=exp.Sub(this=rank, expression=exp.Literal.number(reach)))
    below = exp.LTE(this=wrap(first), expression=exp.Add(this=rank.copy(), expression=exp.Literal.number(reach + 1)))
    return [above, below]


@dataclass(frozen=True, slots=True)
class NearValues(Joined):
    """The field that lists an individual's values, clamped to those around a quantile of their group.

    ``fraction``: which quantile, 1/2 for the median. Where few values lie around it, there is a column for each of
    them, which says how often the individual has this value; otherwise one text lists the individual's values.
    """

    fraction: Fraction

    def near_query(self, rows: UnitRows) -> exp.Select:
        """Write the query for the values around the quantile, one row per value and group (C3).

        Beside each value v it returns how often v occurs (c), how many values are at most v (upto), and how many there
        are in all (total).
        """
        groups = rows.key_columns()[1:]
        value_rows = rows.select(is_not_null(self.column)).subquery("value_rows", copy=False)
        counted = alias(self.column, "v"), alias(exp.Count(this=exp.Star()), "c")
        histogram = select_from(value_rows, *groups, *counted, group=[*groups, self.column])
        upto, same, total = (exp.column(name) for name in ("upto", "c", "total"))
        near = conjunction(list_near_conditions(self.fraction, rows.most, upto=upto, same=same, total=total))
        shown = [exp.column(name) for name in ("v", "c", "upto", "total")]
        return select_from(
            _ranked(histogram, rows.keys[1:]).subquery("ranked", copy=False), *groups, *shown, where=near
        )

    def places_query(self, rows: UnitRows, places: Sequence[Sequence[str]]) -> exp.Select:
        """Write the query for the values around the quantile of every group: one row, with a column for each value.

        ``places``: for each group, the names of its columns, in ascending order of the values. Other queries join this
        one instead of writing the values out, because servers write the text of a query to their logs, and no value of
        the data may appear there.
        """
        groups = rows.key_columns()[1:]
        place = exp.Window(
            this=exp.RowNumber(),
            partition_by=[group.copy() for group in groups],
            order=exp.Order(expressions=[exp.Ordered(this=exp.column("v"), nulls_first=False)]),
            over="OVER",
        )
        near = self.near_query(rows).subquery("near", copy=False)
        placed = select_from(near, *groups, exp.column("v"), alias(place, "place"))
        columns = []
        for number, names in enumerate(places):
            inside = [exp.EQ(this=group.copy(), expression=exp.Literal.number(number)) for group in groups]
            for order, name in enumerate(names, start=1):
                here = exp.EQ(this=exp.column("place"), expression=exp.Literal.number(order))
                value = exp.Case(ifs=[exp.If(this=conjunction([*inside, here]), true=exp.column("v"))])
                columns.append(alias(exp.Max(this=value), name))
        return select_from(placed.subquery("placed", copy=False), *columns)

    def count_at(self, value: exp.Expression, places: Sequence[exp.Expression], at: int) -> exp.Expression:
        """Write the count of an individual's values that equal the one at index ``at`` of ``places``.

        ``value``: the SQL of the individual's value in a row. ``places``: the values around the quantile, ascending.
        The count at the first one includes all values below it, the count at the last one all values above it.
        """
        if len(places) == 1:
            return exp.Count(this=value)
        kind = exp.LTE if at == 0 else exp.GTE if at == len(places) - 1 else exp.EQ
        test = kind(this=wrap(value), expression=places[at].copy())
        return exp.Count(this=exp.Case(ifs=[exp.If(this=test, true=exp.Literal.number(1))]))

    def query(self, rows: UnitRows) -> exp.Select:
        """Write the query for the values of each individual in each group, clamped to those around the quantile.

        They are one text: in ``5x2,7x1`` the value 5 occurs twice and 7 once.
        """
        groups, keys = rows.key_columns()[1:], rows.keys
        ends = alias(exp.Min(this=exp.column("v")), "low"), alias(exp.Max(this=exp.column("v")), "high")
        near = self.near_query(rows).subquery("near", copy=False)
        borders = select_from(near, *groups, *ends, group=groups)
        own_rows = rows.select(is_not_null(self.column)).subquery("x_rows", copy=False)
        own = select_from(own_rows, *rows.key_columns(), alias(self.column, "x"))
        low, high = exp.column("low", table="b"), exp.column("high", table="b")
        clamped = alias(clamp(exp.column("x", table="r"), low, high), "w")
        renamed = [alias(exp.column(key, table="r"), key) for key in keys]
        kept = select_from(own.subquery("r", copy=False), *renamed, clamped)
        same = same_keys(keys[1:], "r", "b")
        kept = kept.join(
            borders.subquery("b", copy=False), on=same, join_type="inner" if groups else "cross", copy=False
        )
        times, each = alias(exp.Count(this=exp.Star()), "times"), [*rows.key_columns(), exp.column("w")]
        counted = select_from(kept.subquery("kept", copy=False), *each, times, group=each)
        item = concatenated(as_text(exp.column("w")), exp.Literal.string("x"), as_text(exp.column("times")))
        listed = alias(listed_text(item, exp.column("w"), ","), self.name)
        source = counted.subquery("counted", copy=False)
        return select_from(source, *rows.key_columns(), listed, group=rows.key_columns())

    def nothing(self) -> exp.Expression:
        """Write the empty text, for an individual whom the query does not return: they have no values in the group."""
        return exp.Literal.string("")


def _ranked(histogram: exp.Select, groups: Sequence[str]) -> exp.Select:
    """Return the query ``histogram`` with two more columns: ``upto`` and ``total``.

    ``histogram``: a row for each group and different value v, with how often v occurs in the group (c). ``groups``: the
    names of its group columns. ``upto``: how many values of the group are at most v. ``total``: how many values the
    group has.
    """
    counted = exp.Sum(this=exp.column("c"))
    upto, total = window(counted, groups, order="v"), window(counted.copy(), groups)
    columns = [exp.column(name) for name in (*groups, "v", "c")]
    source = histogram.subquery("histogram", copy=False)
    return select_from(source, *columns, alias(upto, "upto"), alias(total, "total"))
