"""Individuals with many rows: the profile query over individuals, and the contributions read from it."""
