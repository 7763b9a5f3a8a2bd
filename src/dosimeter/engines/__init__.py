"""Engines run the plan's SQL trees where the data lives and give Arrow tables. One file per engine."""
