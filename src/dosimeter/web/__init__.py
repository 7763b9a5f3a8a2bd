"""The web application: where analysts ask and a controller decides. Roles are enforced on the server, route by route.

settings.py    dosimeter.toml → Settings
app.py         the application and its error pages; shield.py: its middleware; office.py: what it is made of
auth.py        users, sessions, tokens, throttling; keys.py: where random keys come from; audit.py: who did what
checking.py    whether a query can be answered, in threads of its own
tables.py      the web's own tables, migrated by migrations/; database.py: transactions. The ledger's are the ledger's
jobs.py        one thread per dataset: long computations with progress and cancel
exhibit.py     everything a controller looks at for one query, computed once; live.py: what changes with the slider
deciding.py    approve, deny, ask for changes: each decided once, whatever crashes
models.py      what an analyst may see, and only that
routes/        one file per kind of page
"""
