"""Make the tables of the scalability experiment, as the paper's authors did (section 6.2). Takes Adult; gives Arrow.

Up to the size of Adult: a sample of its records. Above: copies of it, each with age, fnlwgt, education_num and
hours_per_week shifted by +1 or −1 (one draw per copy and column) and, on a coin toss, sex swapped. The generator is
seeded: the same size and seed give the same table everywhere. No noise for an answer is drawn here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dosimeter.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

SHIFTED = ("age", "fnlwgt", "education_num", "hours_per_week")


def generate_adult(adult: pa.Table, rows: int, *, seed: int = 1) -> pa.Table:
    """Return a table of this many records: a sample of Adult without replacement or, for more, also shifted copies.

    The same number of records and the same ``seed`` give the same table. Raises OptionError for fewer than one record.
    """
    import pyarrow as pa

    if rows < 1:
        raise OptionError("The number of records must be at least 1.")
    draw = np.random.default_rng([seed, rows])
    if rows <= adult.num_rows:
        return adult.take(pa.array(draw.permutation(adult.num_rows)[:rows]))
    copies = [adult]
    while adult.num_rows * len(copies) < rows:
        copies.append(_shift_copy(adult, draw))
    return pa.concat_tables(copies).slice(0, rows).combine_chunks()


def _shift_copy(adult: pa.Table, draw: np.random.Generator) -> pa.Table:
    import pyarrow.compute as pc

    copy = adult
    for name in SHIFTED:
        shifted = pc.add(adult.column(name), int(draw.choice((-1, 1))))
        copy = copy.set_column(copy.schema.get_field_index(name), name, shifted)
    if draw.random() < 0.5:
        swapped = pc.if_else(pc.equal(adult.column("sex"), "Male"), "Female", "Male")
        copy = copy.set_column(copy.schema.get_field_index("sex"), "sex", swapped)
    return copy
