"""Set a dataset up: find the facts of its schema by spending, write the file, and serve the dataset from then on.

Runs on the dataset's worker. The ledger has the facts before the file is written: whatever ends the work before that,
the same request is answered from the ledger, or taken up, at no further charge.
"""

from __future__ import annotations

import errno
import os
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

from dosimeter.dataset import Dataset
from dosimeter.errors import DatasetStopped, DosimeterError, LedgerError, OptionError
from dosimeter.inspection import TableFacts, draft_with_facts
from dosimeter.release import FactSearch, ReleaseOrder, prepare_search, spend_on_schema
from dosimeter.web.setup_form import SetupForm, describe_confirmed, is_paid, order_search
from dosimeter.web.state import ServedDataset, ServerState, open_data
from dosimeter.web.stopped_datasets import REFUSED
from dosimeter.web.store import SERVER, User, find_setup, note
from dosimeter.web.worker import PATIENCE, Job, JobMeter, JobPriority

DENIED = "The account does not allow it, so that nothing was charged. Spend less, or search fewer columns."


def find_search_job(served: ServedDataset) -> Job[None] | None:
    """Return the latest search for the facts of a dataset since the server started; None if there was none."""
    return served.worker.peek(("setup", served.name))


def begin_search(
    state: ServerState,
    served: ServedDataset,
    user: User,
    form: SetupForm,
    search: FactSearch,
    *,
    continued: bool,
    other_people: bool,
) -> None:
    """Record that a controller confirmed a set-up, and begin the search that it asks for.

    ``continued`` and ``other_people``: what the controller says of the people, as of an approval.
    """
    order = order_search(served, search, approved_by=user.name, continued=continued, other_people=other_people)
    looked = find_setup(state.database, served.name).looked
    note(state.database, user.name, "confirmed a set-up", dataset=served.name, detail=describe_confirmed(form, search))

    def work(_: Dataset, meter: JobMeter) -> None:
        if looked:  # ε and what is searched may depend on the data: the promise says so
            digest = prepare_search(search, order).plan.digest
            state.database.ledger.record_view(search.declared.account_name, digest, "risk")
        _set_up(state, served, search, order, meter)

    served.worker.ask(
        ("setup", served.name), "Finding the facts", work, wait=4 * PATIENCE, rank=JobPriority.RELEASE, revive=True
    )


def _set_up(
    state: ServerState, served: ServedDataset, search: FactSearch, order: ReleaseOrder, meter: JobMeter
) -> None:
    step = count()

    def tell(words: str) -> None:
        meter.now, meter.steps = words, (next(step), len(search.columns) + 1)

    path = served.settings.schema
    if not is_paid(search, served, state):
        _refuse_to_replace(path, "")
    try:
        with closing(open_data(served.settings, search.declared)) as dataset:
            found = spend_on_schema(dataset, search, order, state.database.ledger, tell)
    except DatasetStopped:
        raise DatasetStopped(REFUSED) from None
    finally:
        state.forget(served.name)
    if found.schema is None:
        raise OptionError(DENIED)
    meter.now = "Writing the schema"
    _refuse_to_replace(path, found.text)
    write_file(path, found.text)
    state.serve(served)
    note(state.database, SERVER, "set up", dataset=served.name, detail=f"entry {found.entry}")


def _refuse_to_replace(path: Path, text: str) -> None:
    """Refuse a schema's file that is there by now, unless it holds this text."""
    if path.exists() and path.read_bytes() != text.encode():
        raise OptionError(
            f"{path} exists by now: somebody wrote it after the server was started. Restart the server, which then "
            "serves the dataset by it; or move it away, and confirm again."
        )


def write_file(path: Path, text: str) -> None:
    """Write a file wholly or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise OptionError(
            f"{path} cannot be written: {'the disk is full' if full else 'the server may not write there'}. The facts "
            "are in the ledger, and nothing is lost: make it possible, and confirm again as it is. That costs nothing "
            "more."
        ) from None


def needs_word(error: DosimeterError | None) -> bool:
    """Return whether a search failed because the controller has to say whose data these are."""
    return isinstance(error, LedgerError)


def look_at_data(served: ServedDataset) -> Job[TableFacts]:
    """Return the job that reads counts and extremes of every column off the data. For controllers who chose to look."""

    def work(dataset: Dataset, _: JobMeter) -> TableFacts:
        return draft_with_facts(dataset.engine)[1]

    return served.worker.ask(("look", served.name), "Reading the columns", work, wait=PATIENCE, current=True)
