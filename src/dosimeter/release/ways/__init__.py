"""The three ways to an ε: fixed by the controller, found from a preference, selected by a noisy test.

Each is a class that owns what it refuses, what it records, how it grants, what it promises and what a dry run shows.
"""
