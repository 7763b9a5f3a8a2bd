"""Measure the numbers again without each distinct record, in parallel processes: the paper's own way (section 4).

Takes a QueryPlan and its rows; gives Contributions. Only the columns that the query reads are kept.
Individuals with identical records are of one kind, and one of each kind is left out. Every process holds the whole
table in memory and runs the query's aggregates in SQL over everybody else's rows, so nothing here relies on the
formulas C1–C4, which compute the effect of leaving somebody out without doing it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sqlglot import exp

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.errors import DataError, DosimeterError, OptionError
from dosimeter.influence import Contributions
from dosimeter.influence import Rows as MeasuredRows
from dosimeter.mechanisms import Norm
from dosimeter.planning import QueryPlan
from dosimeter.problems import Problem
from dosimeter.sql import column_tree
from dosimeter_paper.recompute.native_aggregates import write_native
from dosimeter_paper.recompute.table import (
    DeletionTable,
    Effects,
    GroupNumber,
    Rows,
    WholeTable,
    WorkerSelect,
    code_rows,
    group_by_first,
    named,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from dosimeter.assessment import Risk
    from dosimeter.dataset import Dataset
    from dosimeter.schema import Scalar

Progress = Callable[[int, int], None]

MOST_IN_FLIGHT = 4_000_000  # rows that one batch of leave-outs reads, or cells it gives: bounds memory
WORTH_A_PROCESS = 250_000_000  # rows to read before starting one more process is worth it


def recompute_risk(dataset: Dataset, sql: str, **options: Any) -> Risk:
    """Return the risk as ``dataset.risk`` does, with contributions that were found by leaving out each distinct record.

    ``options``: those of ``dataset.risk``.
    """
    risk = dataset.risk(sql, **options)
    found = recompute_contributions(risk.plan, dataset.tables.find_rows(risk.plan), dataset.people, risk.mechanism.norm)
    if risk.plan.ranks:  # R12: nobody's own guarantee is larger
        found = replace(found, shares=np.ones(len(found.people)))
    return replace(risk, contributions=found)


def recompute_contributions(
    plan: QueryPlan,
    source: MeasuredRows,
    n: int,
    norm: Norm,
    *,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Contributions:
    """Return how far each individual moves the plan's numbers, by really leaving out each distinct record.

    Records are distinct if they differ in ``plan.columns``. With a unit column, an individual is left out with all the
    rows in ``source``. ``n``: the number of slots; empty ones contribute nothing. The contributions are
    scaled by ``plan.weights(norm)``.

    ``progress`` is called with how many records are done and how many there are, counting each once per block (SELECT
    that measures); raising from it stops the work. Without ``processes`` there are as many as the work is worth, at
    most one per CPU. With several, a script that calls this needs ``if __name__ == "__main__":``, as always with
    multiprocessing.
    """
    jobs = []
    for block in plan.blocks:
        weights = block.weights(norm)
        arguments = tuple(argument.tree for argument in block.arguments)
        numbers = tuple(write_native(measure, float(weights[at])) for at, measure in enumerate(block.measures))
        jobs.append(_job(block, arguments, numbers, block.group_keys))
    return _recompute(jobs, source, n, processes, progress)


def _job(
    plan: QueryPlan,
    arguments: tuple[exp.Expression, ...],
    numbers: tuple[GroupNumber, ...],
    declared: tuple[tuple[Scalar, ...], ...] | None,
) -> WorkerSelect:
    """Return the work for one SELECT: compute ``numbers`` over ``arguments``, in each group of the plan.

    ``declared``: the declared groups; None where groups are observed in the data.
    """
    groups = tuple(group.tree for group in plan.groups)
    return WorkerSelect(plan.table, plan.schema, plan.columns, plan.where, groups, arguments, numbers, declared)


def _recompute(
    jobs: Sequence[WorkerSelect], source: MeasuredRows, n: int, processes: int | None, progress: Progress | None
) -> Contributions:
    """Return the contributions to the numbers of all jobs, by leaving out each distinct record.

    ``jobs``: one per SELECT that measures, all over the same records. ``n``: the number of slots. Raises OptionError if
    ``processes`` is less than 1.
    """
    if processes is not None and processes < 1:
        raise OptionError("The number of processes must be at least 1.")
    rows = _fetch_rows(jobs[0], source)
    kinds, counted = len(rows.people), int(rows.people.sum())
    report = progress or (lambda done, total: None)
    found: list[tuple[list[Effects], int]] = []
    for at, job in enumerate(jobs):

        def count(done: int, total: int, before: int = at * kinds) -> None:
            report(before + done, kinds * len(jobs))

        found.append(_leave_everybody_out(job, rows, processes, count))
    effects, k = found[0] if len(found) == 1 else _beside(found, rows.people)
    return _gather(effects, rows.people, k, max(n - counted, 0))


def _beside(found: Sequence[tuple[list[Effects], int]], people: IntArray) -> tuple[list[Effects], int]:
    """Return the effects of several jobs as one, numbering the cells job after job, and the number of all cells.

    A job is one SELECT. ``found``: for each job, the effects on its cells, and how many cells it has. ``people``: how
    many individuals are of each kind; those with identical records are of one kind.
    """
    parts = []
    for effects, k in found:
        ordered = sorted(effects, key=lambda batch: batch.first)
        lengths = [np.diff(batch.starts) for batch in ordered]
        parts.append(
            Contributions(
                k=k,
                people=people,
                starts=np.concatenate([[0], np.cumsum(np.concatenate([[0], *lengths])[1:])]).astype(np.int64),
                cells=np.concatenate([np.zeros(0, dtype=np.int64), *(batch.cells for batch in ordered)]),
                changes=np.concatenate([np.zeros(0), *(batch.changes for batch in ordered)]),
            )
        )
    joint = Contributions.of_blocks(parts)
    return [Effects(0, joint.starts, joint.cells, joint.changes)], joint.k


def _leave_everybody_out(
    job: WorkerSelect, rows: Rows, processes: int | None, report: Progress
) -> tuple[list[Effects], int]:
    """Return what leaving out one individual of each kind does to the cells of a job, and how many cells these are.

    A job is one SELECT. Individuals with identical records are of one kind. ``processes``: how many to use; None for as
    many as the work is worth. ``report`` is called with how many kinds are done and how many there are.
    """
    kinds = len(rows.people)
    bench = DeletionTable(job, rows)
    try:
        whole = bench.measure()
        visits = max(int(rows.times.sum()), len(whole.keys) * len(job.numbers), 1)
        wanted = processes or min(os.cpu_count() or 1, 1 + kinds * visits // WORTH_A_PROCESS)
        size = max(1, min(MOST_IN_FLIGHT // visits, -(-kinds // wanted)))
        batches = [(at, min(at + size, kinds)) for at in range(0, kinds, size)]
        report(0, kinds)
        if min(wanted, len(batches)) <= 1:
            effects = _leave_out_here(bench, whole, batches, kinds, report)
        else:
            effects = _leave_out_in_parallel((job, rows, whole), batches, min(wanted, len(batches)), kinds, report)
    finally:
        bench.close()
    return effects, len(whole.keys) * len(job.numbers)


def _fetch_rows(job: WorkerSelect, source: MeasuredRows) -> Rows:
    """Return the distinct records in the columns that the query reads; with a unit column, those of each individual."""
    unit = [] if job.schema.unit == "row" else [job.schema.unit]
    columns = [named(column_tree(name), f"c{at}") for at, name in enumerate([*job.columns, *unit])]
    query = exp.select(*columns, named(exp.Count(this=exp.Star()), "times"), copy=False)
    query = group_by_first(query.from_(source.relation.copy(), copy=False), len(columns))
    table = source.engine.fetch(query)
    times = np.asarray(table.column("times").to_numpy(), dtype=np.int64)
    records = table.select(list(range(len(job.columns)))).rename_columns(list(job.columns))
    if unit:
        return _rows_of_individuals(job, table, records, times)
    times = times if columns else times[times > 0]  # without columns an empty table gives a row, too
    return Rows(records, times, people=times, examples=np.cumsum(times) - times)


def _rows_of_individuals(job: WorkerSelect, table: pa.Table, records: pa.Table, times: IntArray) -> Rows:
    """Return the records of each individual. Individuals are of one kind if they have the same records equally often.

    ``table``: each individual's distinct records: the columns of ``job``, and then the individual. ``records``: the
    same rows without that last column. ``times``: for each of these rows, how often its individual has it. Raises
    DataError if an individual has more rows than the schema allows.
    """
    _, owners = code_rows(table, [f"c{len(job.columns)}"])
    _, record = code_rows(records, job.columns) if job.columns else ([], np.zeros(len(times), dtype=np.int64))
    rows_each = np.bincount(owners, weights=times) if len(owners) else np.zeros(0)
    if rows_each.max(initial=0) > job.schema.max_rows_per_unit:
        raise DataError(
            f"An individual ({job.schema.unit}) has more rows than max_rows_per_unit = {job.schema.max_rows_per_unit}. "
            "Correct it in the schema."
        )
    order = np.lexsort((record, owners))
    own = np.split(np.stack([record, times], axis=1)[order], np.flatnonzero(np.diff(owners[order])) + 1)
    kinds: dict[bytes, list[int]] = {}
    for owner in range(len(rows_each)):
        kinds.setdefault(own[owner].tobytes(), []).append(owner)
    people = np.array([len(alike) for alike in kinds.values()], dtype=np.int64)
    examples = np.array([alike[0] for alike in kinds.values()], dtype=np.int64)
    return Rows(records, times, people, examples, owners)


def _leave_out_here(
    bench: DeletionTable, whole: WholeTable, batches: Sequence[tuple[int, int]], total: int, report: Progress
) -> list[Effects]:
    effects = []
    for first, last in batches:
        effects.append(bench.leave_out(whole, first, last))
        report(last, total)
    return effects


def _gather(effects: Iterable[Effects], people: IntArray, k: int, empty_slots: int) -> Contributions:
    """Return Contributions with one row per distinct vector of changes (C9).

    Empty slots and people who move nothing share one row without cells (N2). ``effects``: what leaving out one
    individual of each kind changes; those with identical records are of one kind. ``people``: how many are of each.
    ``k``: how many cells there are.
    """
    rows: dict[tuple[bytes, bytes], tuple[IntArray, FloatArray, int]] = {}
    nothing = (np.zeros(0, dtype=np.int64), np.zeros(0), 0)
    for batch in sorted(effects, key=lambda batch: batch.first):
        for at, (start, end) in enumerate(zip(batch.starts[:-1], batch.starts[1:], strict=True)):
            cells, changes = batch.cells[start:end], batch.changes[start:end]
            key = (cells.tobytes(), changes.tobytes())
            known = rows.get(key, (cells, changes, 0))
            rows[key] = (known[0], known[1], known[2] + int(people[batch.first + at]))
    if empty_slots or not rows:
        known = rows.get((b"", b""), nothing)
        rows[(b"", b"")] = (known[0], known[1], known[2] + empty_slots)
    return Contributions(
        k=k,
        people=np.array([row[2] for row in rows.values()], dtype=np.int64),
        starts=np.cumsum([0, *(len(row[0]) for row in rows.values())], dtype=np.int64),
        cells=np.concatenate([row[0] for row in rows.values()]),
        changes=np.concatenate([row[1] for row in rows.values()]),
    )


_Load = tuple[WorkerSelect, Rows, WholeTable]


@dataclass(frozen=True, slots=True)
class _Failure:
    problem: Problem


def _leave_out_in_parallel(
    load: _Load, batches: Sequence[tuple[int, int]], processes: int, total: int, report: Progress
) -> list[Effects]:
    """Return the effects of all batches, computed by several processes. However this ends, no process outlives it.

    Individuals with identical records are of one kind, and kinds have indices. ``load``: what every process is sent
    first. ``batches``: pairs (first, last); in such a batch one individual of each kind from ``first`` to ``last`` − 1
    is left out in turn. ``total``: the number of kinds.
    """
    effects: list[Effects] = []
    pending = iter(batches)
    busy: dict[Connection, tuple[int, int]] = {}
    done = 0
    with _workers(processes) as workers:
        for worker in workers:
            _send(worker, load)
        for worker, batch in zip(workers, pending, strict=False):
            _send(worker, batch)
            busy[worker] = batch
        while busy:
            for worker in cast("list[Connection]", wait(list(busy))):
                effects.append(_receive(worker))
                first, last = busy.pop(worker)
                done += last - first
                report(done, total)
                following = next(pending, None)
                if following is not None:
                    _send(worker, following)
                    busy[worker] = following
    return effects


def _send(worker: Connection, message: Any) -> None:
    try:
        worker.send(message)
    except OSError:
        raise _lost_worker() from None


def _receive(worker: Connection) -> Effects:
    try:
        reply = worker.recv()
    except (EOFError, OSError):
        raise _lost_worker() from None
    if isinstance(reply, _Failure):
        raise DataError(*reply.problem.pieces)
    return cast(Effects, reply)


def _lost_worker() -> DataError:
    return DataError(
        "A process that was leaving records out ended before its time: too little memory, or a script that starts its "
        'work outside of if __name__ == "__main__":. Use fewer processes; a single one starts no others.'
    )


@contextmanager
def _workers(count: int) -> Iterator[list[Connection]]:
    """Start ``count`` processes, yield a connection to each, and end the processes afterwards.

    They are spawned: a fork would not copy the threads of DuckDB and Arrow.
    """
    context = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = []
    connections: list[Connection] = []
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            connections.append(ours)
            worker = context.Process(target=_serve, args=(theirs,), daemon=True)
            with _interrupts_held():
                worker.start()
                processes.append(worker)
            theirs.close()
        yield list(connections)
    finally:
        for connection in connections:
            connection.close()
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Block Ctrl-C while a worker starts. The worker inherits the block; this process gets the signal afterwards.

    Where the system cannot block signals, nothing is blocked.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # starting the tracker unblocks signals, so it starts before they are blocked
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection) -> None:
    """Run a worker process until its connection closes or its work fails.

    It receives the work once, and then batches of kinds; individuals with identical records are of one kind. For each
    batch it leaves out one individual of every kind in turn and sends back the effects, or a ``_Failure``. Ctrl-C is
    left to the parent process, which then ends the workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        job, rows, whole = connection.recv()
        bench = DeletionTable(job, rows)
        while True:
            first, last = connection.recv()
            connection.send(bench.leave_out(whole, first, last))
    except (EOFError, ConnectionError):  # closed by the parent, perhaps before a result was sent
        return
    except DosimeterError as error:
        connection.send(_Failure(error.problem))
    except Exception as error:  # noqa: BLE001 - sent to another process; its text may hold cells, its name does not
        failed = f"Leaving records out failed in a process of its own ({type(error).__name__})."
        connection.send(_Failure(Problem(failed)))
