"""The three ways to set ε: fixed by the controller, found from a preference, selected by a noisy test.

Each is a class with everything that differs between ways: what it refuses, what it records, how it grants an ε, what it
promises and what a dry run shows.
"""
