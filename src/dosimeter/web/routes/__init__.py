"""Pages and the JSON API, one file per kind: session, analyst, results, queue, audit, decision, accounts, incidents.

Takes requests of users whose role was checked; gives pages and JSON. A route never imports another, and never computes
what a page shows: ``decision``, ``checks``, ``released`` and other modules do that.
"""
