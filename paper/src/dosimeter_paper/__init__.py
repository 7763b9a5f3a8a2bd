"""The evidence: the paper's example, tables and figures computed again, and its study with people.

Nothing of ``dosimeter`` imports it: its two commands join the command line as entry points.
"""
