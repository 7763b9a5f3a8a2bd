"""Digests of individuals are the same on every engine, and those that Python computes for the same keys."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pyarrow as pa
import pytest

from dosimeter import Dataset
from dosimeter.inspection import digest_individuals
from tests.conformance.engine_cases import with_smoke

KEY = "0f1e2d3c"


def write_key(value: object) -> str:
    text = str(value).strip(" ")
    text = "".join(letter.lower() if letter.isascii() else letter for letter in text)
    return text.removesuffix(".0").lstrip("0")


@pytest.mark.parametrize("unit", with_smoke(["id", "name", "city"], 1))
def test_every_engine_gives_the_same_digests(dataset: Dataset, reference: Dataset, table: pa.Table, unit: str) -> None:
    there = {value for value in table.column(unit).to_pylist() if value is not None}
    if unit == "city":  # an undeclared value is nobody's
        there &= set(reference.schema.columns[unit].values or ())
    whole = sorted({int(hashlib.md5(f"{KEY}:{write_key(value)}".encode()).hexdigest()[:16], 16) for value in there})
    assert len(whole) > 3
    for each in (dataset, reference):
        schema = replace(each.schema, unit=unit)
        assert digest_individuals(each.engine, schema, KEY, 10_000) == set(whole)
        assert digest_individuals(each.engine, schema, KEY, 3) == set(whole[:3])
