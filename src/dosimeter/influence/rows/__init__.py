"""Individuals with one row each: the profile query, and the contributions read from it."""
