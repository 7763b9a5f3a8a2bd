"""Pages and the JSON API, one file per kind: session, analyst, queue, decision and its actions, accounts, incidents.

Takes requests of users whose role was checked; gives pages and JSON. Never imports another route, and never computes
what a page shows: that is for ``decision``, ``checks``, ``released`` and the others below.
"""
