"""Individuals with one row each: the profile query, and what it gives."""
