"""The web application's own tables: users, sessions, queries, the audit log.

Queries and the audit log are read and written here, users and sessions in ``identity``. Takes a database's address and
values; gives rows, in transactions. Never touches the data of a dataset, knows no pages, and leaves the ledger's tables
to the ledger.
"""

from dosimeter.web.store.audit_log import (
    NOBODY,
    OPERATOR,
    SERVER,
    About,
    AuditFilter,
    AuditRecord,
    check_audit,
    export_audit,
    follow_log,
    list_audit,
    note,
    read_head,
    write_audit,
)
from dosimeter.web.store.database import COUNTING, Database, take_turn
from dosimeter.web.store.keys import digest_key, make_identifier, make_key, make_password
from dosimeter.web.store.listing import (
    PLACE,
    RANKED_PLACE,
    PublicStatusName,
    QueryFilter,
    QueryPage,
    list_people,
    page_decided,
    page_open,
    page_own,
)
from dosimeter.web.store.queries import (
    OWN,
    count_open,
    find_by_entry,
    find_latest,
    find_own,
    find_query,
    find_texts,
    is_withdrawn,
    list_approving,
    list_open,
    mark_looked,
    move_query,
    read_standard,
    read_thresholds,
    save_thresholds,
    submit_query,
    withdraw_query,
)
from dosimeter.web.store.setups import find_setup, mark_data_shown, save_setup
from dosimeter.web.store.stored_query import OPEN, UNDECIDED, QueryStatus, StoredQuery
from dosimeter.web.store.tables import ATTEMPTS, AUDIT, SESSIONS, TOKENS, USERS, count_rows, later, write_time
from dosimeter.web.store.user import Role, User
