"""Add up everybody's own guarantees (P1) over an account's answers. For controllers only.

RDRs are never added up. The query of each charged entry is measured again. People are told apart by their values in all
columns that any of the queries uses, so that those with the same values can be followed from one query to the next.
Where an individual has several rows, a query joins other tables, or there are too many combinations of values, the
largest own guarantee of each query is added instead: an upper bound. Runs on the dataset's worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.dataset import Dataset
from dosimeter.errors import InputError, SchemaError
from dosimeter.influence import measure_influence
from dosimeter.ledger import Entry
from dosimeter.planning import QueryPlan, build_mechanism, plan_query
from dosimeter.release import holds_facts, recall_look, recall_plan_options
from dosimeter.risk import own_epsilon
from dosimeter.sql import column_tree
from dosimeter.web.worker import JobMeter

MOST_RECORDS = 200_000


@dataclass(frozen=True, slots=True, repr=False)
class Sums:
    """Everybody's sums of own guarantees over the charged entries of an account, in ε.

    ``total``: what these entries were charged. ``largest``: the largest sum, which ``holders`` people have.
    ``untouched``: how many people have a sum of 0. ``steps``: up to six of the largest sums, and how many people have
    each. ``bound``: people could not be followed from one query to the next, so ``largest`` and ``median`` are one
    upper bound for everybody, ``holders`` and ``untouched`` are 0, and ``steps`` is empty.
    """

    people: int
    total: float
    largest: float
    holders: int
    median: float
    untouched: int
    bound: bool
    steps: tuple[tuple[float, int], ...]

    def __repr__(self) -> str:
        return "Sums(redacted)"


def sum_guarantees(dataset: Dataset, entries: Sequence[Entry], meter: JobMeter) -> Sums:
    """Return everybody's sum of own guarantees (P1) over all charged entries.

    What the noisy tests cost (ε_svt) is part of each sum, and the ε of searches for a schema's facts: they move
    everybody. ``meter``: told how many queries are done. Raises SchemaError if an earlier query cannot be answered
    under the present schema.
    """
    charged = [entry for entry in entries if not entry.spent.is_nothing]
    total = float(sum((entry.charge for entry in charged), start=charged[0].charge * 0)) if charged else 0.0
    everybody = dataset.people
    plans = {
        entry.id: _plan(dataset, entry) for entry in charged if entry.epsilon is not None and not holds_facts(entry)
    }
    columns = sorted({column for plan in plans.values() for column in plan.columns})
    joined: dict[tuple[Any, ...], list[float]] = {}
    svt = float(sum(float(entry.epsilon_svt or 0) for entry in charged))
    svt += float(sum(float(entry.epsilon) for entry in charged if entry.epsilon is not None and holds_facts(entry)))
    single = dataset.schema.unit == "row" and not any(plan.joins for plan in plans.values())
    worst = svt
    for done, entry in enumerate(charged):
        meter(done, len(charged))
        if entry.id not in plans:
            continue
        if not single:
            worst += _largest_guarantee(dataset, entry, plans[entry.id])
            continue
        own, people, keys = _own_guarantees(dataset, entry, plans[entry.id], columns)
        worst += float(own.max()) if len(own) else 0.0
        single = len(keys) <= MOST_RECORDS
        if single:
            for key, value, count in zip(keys, own.tolist(), people.tolist(), strict=True):
                record = joined.setdefault(key, [0.0, float(count)])
                record[0] += value
    if not single or not joined:
        return Sums(everybody, total, worst, 0, worst, 0, bool(charged), ())
    return _summarise(joined, everybody, total, svt)


def _summarise(joined: dict[tuple[Any, ...], list[float]], everybody: int, total: float, svt: float) -> Sums:
    sums = np.array([record[0] for record in joined.values()]) + svt
    counts = np.array([record[1] for record in joined.values()])
    missing = everybody - counts.sum()
    if missing > 0:  # an empty slot does not move the answer
        sums, counts = np.append(sums, svt), np.append(counts, missing)
    order = np.argsort(-sums, kind="stable")
    sums, counts = np.round(sums[order], 12), counts[order]
    place = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))
    distinct = sorted(set(sums.tolist()), reverse=True)
    steps = tuple((value, int(counts[sums == value].sum())) for value in distinct[:6])
    return Sums(
        people=everybody,
        total=total,
        largest=float(sums[0]),
        holders=int(counts[sums == sums[0]].sum()),
        median=float(sums[place]),
        untouched=int(counts[sums == 0.0].sum()),
        bound=False,
        steps=steps,
    )


def _plan(dataset: Dataset, entry: Entry) -> QueryPlan:
    try:
        return plan_query(entry.query, dataset.schema, recall_plan_options(entry))
    except InputError:
        raise SchemaError(
            "The schema changed since: an earlier query cannot be followed any more. Serve the schema it was asked by."
        ) from None


def _largest_guarantee(dataset: Dataset, entry: Entry, plan: QueryPlan) -> float:
    """Return the own guarantee (P1) of the person most exposed by one answer, in ε.

    Used where people cannot be followed from one query to the next.
    """
    assert entry.epsilon is not None
    risk = dataset.assess_plan(plan, recall_look(entry))
    return float(risk.absolute(float(entry.epsilon)).own_epsilon)


def _own_guarantees(
    dataset: Dataset, entry: Entry, plan: QueryPlan, columns: Sequence[str]
) -> tuple[FloatArray, IntArray, list[tuple[Any, ...]]]:
    assert entry.epsilon is not None
    mechanism = build_mechanism(recall_look(entry), dataset.n)
    attributes = {f"x{at}": column_tree(name) for at, name in enumerate(columns)}
    profile, contributions = measure_influence(plan, dataset.tables, dataset.people, mechanism.norm, attributes)
    norms = contributions.norms(mechanism.norm)[: len(profile.people)]
    sensitivity = plan.sensitivity(mechanism.norm)
    epsilon = float(entry.epsilon)
    own = own_epsilon(
        norms,
        mechanism,
        sensitivity=sensitivity,
        scale=mechanism.scale(sensitivity, epsilon),
        epsilon=epsilon,
        shares=None if contributions.shares is None else contributions.shares[: len(profile.people)],
    )
    parts = [contributions.attributes[name][: len(profile.people)].tolist() for name in attributes]
    keys = list(zip(*parts, strict=True)) if parts else [()] * len(profile.people)
    return np.minimum(own, epsilon), profile.people, keys
