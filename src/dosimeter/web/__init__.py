"""The web application: where analysts ask and a controller decides. Roles are enforced on the server, route by route.

From the top down; a module imports from below its own line only.

run.py               serve until interrupted, on an address that was checked first
demo.py              a demonstration server: the bundled clinic, two users, a few waiting queries
app.py               the application: routes, middleware, error pages, /health
routes/              the pages and the JSON API, one file per kind; none imports another
setup_search.py      find a schema's facts by spending, write its file, and serve the dataset
setup_form.py        how a dataset without a schema is to be set up, and what that costs and is good for
decision/            how a controller decides one query: measured, shown, costed, approved or sent back
own_queries.py       an analyst's own queries as they see them, on pages and through the API
http/                what every request shares: visitors, CSRF tokens, templates, refusals, limits of a connection
summaries.py         the table about every column: its query, and the latest one that was released
checks.py            whether a query can be answered; runs in processes of its own
stopped_datasets.py  datasets that an incident stopped, and how a stop is cleared
released.py          the answers released so far, for every analyst
account_exposure.py  what adds up per person over all the answers of an account
answer_view.py       a released answer as a table with pictures, and as CSV
question.py          a query in words, and what its answer will look like
expected.py          the error to expect of a query, by SQL and schema alone
state.py             everything the running server holds: settings, database, served datasets
query_planner.py     how a query on a dataset is planned, by settings and schema alone
check_processes.py   processes for checks, which end what takes too long or too much memory
worker.py            one thread per dataset: long computations with progress and cancel
identity/            users, passwords, sessions, API tokens, and how often a password may be tried
settings.py          dosimeter.toml → Settings
store/               the web application's own tables, their migrations, and the audit log; not the ledger's tables
public.py            what an analyst may see, and only that
figures.py           numbers as the pages write them
csv_lines.py         lines of CSV that no spreadsheet takes for a formula
recent.py            what was read or done lately, remembered
log.py               reports of bugs: the kind of error and its place, never its text
assets.py            scripts and styles that the browser loads
templates/, static/  HTML templates, and files that are served unchanged
"""
