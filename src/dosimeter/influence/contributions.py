"""How far individuals move the measured numbers. These are private data, so the repr shows none of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.arrays import FloatArray, IntArray, sum_rows
from dosimeter.mechanisms import Norm


def _add_nobody(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Append the value that an empty slot has for an attribute: False for a condition, otherwise None.

    So an empty slot meets no FILTER and is in no group of ``--by``.
    """
    absent: Any = False if values.dtype == np.bool_ else None
    return np.append(values, np.array([absent], dtype=values.dtype))


def _add_shares(shares: Sequence[FloatArray | None]) -> FloatArray | None:
    known = [each for each in shares if each is not None]
    total: FloatArray | None = np.sum(known, axis=0) if len(known) == len(shares) else None
    return total


@dataclass(frozen=True, slots=True, repr=False)
class Contributions:
    """Everybody's contributions: how far leaving one individual out moves each cell.

    There is one row per contribution; people who move all cells alike can share it. ``people``: how many individuals,
    or empty slots, share each row. ``k``: how many cells there are. Cell = group index × number of measures + measure
    index. The cells of a further block (another SELECT that measures) follow those of the block before it. Row r moves
    ``cells[starts[r]:starts[r + 1]]``, and ``changes`` has by how much, at the same indices, scaled by
    ``plan.weights(norm)``. Empty slots and people outside the WHERE are in rows without cells. ``attributes``, by name:
    for each row, whether it meets a preference's FILTER, or its value of the ``--by`` column. ``shares``: for each row,
    a number s such that the own guarantee of its people is at most s·ε (R12); None if nothing is drawn by rank.
    """

    k: int
    people: IntArray
    starts: IntArray
    cells: IntArray
    changes: FloatArray
    attributes: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    shares: FloatArray | None = None

    @classmethod
    def of_entries(
        cls,
        changes: FloatArray,
        *,
        owners: IntArray,
        group: IntArray,
        groups: int,
        people: IntArray,
        attributes: Mapping[str, NDArray[np.generic]],
        slots: int,
        shares: FloatArray | None = None,
    ) -> Contributions:
        """Return the contributions made up of these entries (N2). An entry is what one individual moves in one group.

        ``changes``: a row per entry, a column per measure. ``owners``: for each entry, the index in ``people`` of the
        individuals who have it. ``group``: the group index of each entry, among ``groups`` groups. ``people``: an item
        for each set of individuals with the same entries and attributes, saying how many they are; each item becomes
        one row of the contributions. ``attributes``: by name, one value per item of ``people``. ``slots``: the number
        of all slots; those that nobody fills contribute nothing. ``shares``: for each entry, which share of ε bounds
        what it tells about its individual; the shares of all entries of a row are added up.
        """
        entries, columns = np.nonzero(changes)
        per_row = np.bincount(owners[entries], minlength=len(people))
        found = cls(
            k=groups * changes.shape[1],
            people=people,
            starts=np.concatenate([[0], np.cumsum(per_row)]).astype(np.int64),
            cells=(group[entries] * changes.shape[1] + columns).astype(np.int64, copy=False),
            changes=changes[entries, columns],
            attributes=dict(attributes),
            shares=None
            if shares is None
            else np.bincount(owners, weights=shares, minlength=len(people)).astype(np.float64),
        )
        return found.with_empty_slots(max(slots - found.n, 0))

    @classmethod
    def of_blocks(cls, parts: Sequence[Contributions]) -> Contributions:
        """Return the contributions of the same people to several blocks, numbering the cells block after block.

        A block is a SELECT that measures; ``parts`` has the contributions to each. Row r of every part is the same
        people.
        """
        if len(parts) == 1:
            return parts[0]
        first = parts[0]
        assert all(np.array_equal(part.people, first.people) for part in parts), "the blocks are about the same people"
        rows = np.concatenate([part.entry_rows() for part in parts])
        ends = np.cumsum([part.k for part in parts])
        cells = np.concatenate([part.cells + end - part.k for part, end in zip(parts, ends, strict=True)])
        order = np.argsort(rows, kind="stable")
        return replace(
            first,
            k=int(ends[-1]),
            starts=np.sum([part.starts for part in parts], axis=0),
            cells=cells[order],
            changes=np.concatenate([part.changes for part in parts])[order],
            shares=_add_shares([part.shares for part in parts]),
        )

    @property
    def n(self) -> int:
        return int(self.people.sum())

    def norms(self, norm: Norm) -> FloatArray:
        """Return ‖c‖₁ or ‖c‖₂ of each row's contribution c: the PIS of everybody in that row (N1)."""
        if norm == 1:
            return sum_rows(np.abs(self.changes), self.starts)
        return np.sqrt(sum_rows(np.square(self.changes), self.starts))

    def with_empty_slots(self, count: int) -> Contributions:
        """Return the same contributions and one more row, of ``count`` empty slots, which move nothing.

        If ``count`` is 0, this row is added only to contributions that have no row at all.
        """
        if not count and len(self.people):
            return self
        return replace(
            self,
            people=np.append(self.people, count),
            starts=np.append(self.starts, self.starts[-1]),
            attributes={name: _add_nobody(values) for name, values in self.attributes.items()},
            shares=None if self.shares is None else np.append(self.shares, 0.0),
        )

    def entry_rows(self) -> IntArray:
        """Return, for each element of ``cells`` and ``changes``, the index of the row whose change it is."""
        return np.repeat(np.arange(len(self.people)), np.diff(self.starts))

    def normalise(self) -> Contributions:
        """Return the same contributions, with the cells of each row ascending and without changes of zero."""
        rows = self.entry_rows()
        ascending = (np.diff(rows) > 0) | (np.diff(self.cells) > 0)
        changed = self.changes != 0.0
        if ascending.all() and changed.all():
            return self
        order = np.lexsort((self.cells, rows))
        order = order[changed[order]]
        starts = np.zeros_like(self.starts)
        np.cumsum(np.bincount(rows[order], minlength=len(self.people)), out=starts[1:])
        return replace(self, starts=starts, cells=self.cells[order], changes=self.changes[order])

    def take(self, rows: IntArray, people: IntArray) -> Contributions:
        """Return only the rows with these indices. ``people``: how many individuals each of them then stands for."""
        lengths = np.diff(self.starts)[rows]
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=starts[1:])
        entries = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], lengths)
        return Contributions(
            k=self.k,
            people=people,
            starts=starts,
            cells=self.cells[entries],
            changes=self.changes[entries],
            attributes={name: column[rows] for name, column in self.attributes.items()},
            shares=None if self.shares is None else self.shares[rows],
        )

    def __repr__(self) -> str:
        return f"Contributions(n={self.n}, redacted)"
