"""Individuals with one row each: the profile query (who contributes what), and the contributions read from it."""
