"""The evidence: the paper's example, tables and figures computed again, and its study with people.

Only the command line imports it.
"""
