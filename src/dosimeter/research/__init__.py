"""The evidence: the paper's example, tables and figures again, and its study with people.

Only the command line imports it.
"""
