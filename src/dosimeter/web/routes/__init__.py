"""The pages, one file per kind: session, analyst, queue, decision, decision_actions, accounts, incidents, api."""
