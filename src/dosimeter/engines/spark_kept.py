"""Rows that Spark has computed once, kept in its cache. Takes a session and SELECTs as text. Never catches errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class KeptViews:
    """The kept rows of one engine, as temporary views of its session. ``name``: how the views' names begin."""

    def __init__(self, session: SparkSession, name: str) -> None:
        self._session = session
        self._name = name
        self._frames: dict[str, tuple[str, DataFrame]] = {}
        self._made = 0

    def keep(self, select: str) -> str:
        """Return the name of a view with the rows of a SELECT, which Spark runs when the view is first read."""
        if select not in self._frames:
            self._made += 1
            name = f"{self._name}_kept_{self._made}"
            frame = self._session.sql(select).persist()
            frame.createOrReplaceTempView(name)
            self._frames[select] = (name, frame)
        return self._frames[select][0]

    def drop(self) -> None:
        for name, frame in self._frames.values():
            frame.unpersist()
            self._session.catalog.dropTempView(name)
        self._frames.clear()
