"""The ledger: an append-only, hash-chained store of accounts and charges.

    ledger.py    Ledger: what the controller calls
    lookups.py   find entries by an index, and check the chain of records from them on
    checked_chain.py  check the chain from a checkpoint or the first record, append to it, write checkpoints
    replay.py    records → AccountSummary, Account and Entry, or the reason why a record is invalid
    holders.py   one account per people: refuse what another account holds; people.py: whose data an account holds
    incidents.py failures that stop a dataset until a controller clears it
    measurement_marks.py the mark of a measurement in progress; file_locks.py: whether its process still lives
    transactions.py  read and write transactions, in which a killed measurement is an incident
    agreement.py what a reservation adds to an account, checked against all accounts
    accounting.py policies, and what they grant; remaining.py: how many more answers there are
    readings.py  prices, charges and readings; decimals.py: exact numbers
    entries.py   requests, entries, and what a settlement may say
    values.py    the frozen values that go in and come out
    chain.py     records chained by their digests, canonical JSON; records.py: the ledger's records and their kinds
    store.py     transactions; backends.py: what a database must do, and SQLite; postgresql.py: PostgreSQL

Reserve before release: a charge is committed before any noise is drawn, and settled afterwards. After a crash in
between, too much is charged, never too little. A record never holds rows of the data or RDRs.
"""

from dosimeter.ledger.accounting import (
    Budget,
    Paper,
    Policy,
    RequestCharges,
)
from dosimeter.ledger.chain import (
    GENESIS,
    BadRecord,
    ChainedRecord,
    Verification,
    check_head,
    follow_chain,
    verify_chain,
    write_canonical_json,
)
from dosimeter.ledger.decimals import ZERO, exact_decimal, write_decimal
from dosimeter.ledger.entries import (
    REASON_WORDS,
    Algorithm,
    DenialReason,
    Details,
    Entry,
    Errors,
    KeptNumber,
    MeasuredTexts,
    ReleasedAnswer,
    Request,
)
from dosimeter.ledger.holders import check_apart
from dosimeter.ledger.incidents import Incident, IncidentKind, refuse_stopped
from dosimeter.ledger.ledger import Ledger
from dosimeter.ledger.measurement_marks import Measuring, describe_charge
from dosimeter.ledger.people import MOST_KEPT, People, SharedPeople, check_shared
from dosimeter.ledger.readings import Charge, Reading
from dosimeter.ledger.records import Record
from dosimeter.ledger.remaining import Remaining, count_answers
from dosimeter.ledger.values import (
    Account,
    AccountOpening,
    AccountSummary,
    Continuation,
    Identification,
    Reservation,
    choose_algorithm,
)
