"""The pages, one file per kind: session, analyst, queue, decision, verdicts, accounts, api."""
