"""The web application: where analysts ask and a controller decides. Roles are enforced on the server, route by route.

settings.py    dosimeter.toml → Settings
app.py         the application and its error pages; shield.py: its middleware; office.py: what it is made of
connections.py how long a request may take and how many are open; addresses.py: what counts as one visitor
auth.py        users, sessions, tokens; keys.py: where random keys come from; passwords.py: which are too easy to guess
throttle.py    how often a password may be tried; gate.py: how many at a time; devices.py: those that signed in before
audit.py       who did what; audit_chain.py: that nothing of it was altered
incidents.py   datasets that are stopped; released.py: what was answered, for every analyst
conditions.py  a controller's own conditions, on record
checking.py    whether a query can be answered, in threads of its own
tables.py      the web's own tables, migrated by migrations/; database.py: transactions. The ledger's are the ledger's
jobs.py        one thread per dataset: long computations with progress and cancel
exhibit.py     everything a controller looks at for one query, computed once; live.py: what changes with the slider
deciding.py    approve, deny, ask for changes: each decided once, whatever crashes
models.py      what an analyst may see, and only that
routes/        one file per kind of page
"""
