"""Individuals with many rows: the profile query over individuals, and what it gives."""
