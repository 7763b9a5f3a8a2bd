"""Spark sessions: find the active one or start one, and set what our SQL needs of it while a tree runs."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dosimeter.errors import OptionError
from dosimeter.json_values import JsonScalar
from dosimeter.problems import Option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
GET_JAVA = "Spark needs Java 17 or newer. On Debian: apt-get install default-jre-headless; elsewhere: adoptium.net."
# What a tree means depends on these. They are set while a tree is analysed and run, and then set back.
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",  # otherwise numbers overflow and casts fail silently
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",  # otherwise a cast drops a timestamp's zone
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
}


def find_session() -> SparkSession:
    """Return the active session. Without one, start one by Spark's defaults (local[*], SPARK_REMOTE …), logs off."""
    try:
        with without_version_warnings():
            from pyspark.errors import PySparkException
            from pyspark.sql import SparkSession
    except ImportError:
        raise OptionError(Option("engine", "spark"), " needs PySpark: pip install 'dosimeter[spark]'.") from None
    try:
        return SparkSession.active()
    except (PySparkException, ImportError, RuntimeError):
        pass  # none yet
    try:
        with without_version_warnings():
            return _build_session()
    except (PySparkException, ImportError, OSError, RuntimeError) as error:
        if isinstance(error, ImportError) and os.environ.get("SPARK_REMOTE"):
            raise OptionError("SPARK_REMOTE needs Spark Connect: pip install 'pyspark[connect]'.") from None
        raise OptionError(
            f"Spark could not be started ({type(error).__name__}). Run pyspark in this environment to see why."
        ) from None


def _build_session() -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    settings = {"spark.app.name": "dosimeter", **_SETTINGS}
    builder = SparkSession.builder.config(map=dict[str, JsonScalar](settings))
    if not (os.environ.get("SPARK_REMOTE") or os.environ.get("SPARK_CONNECT_MODE") == "1"):
        _require_java()
        from pyspark.java_gateway import launch_gateway

        quiet = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "OFF",
            "spark.sql.shuffle.partitions": "16",  # a profile has far fewer rows than Spark's 200 are meant for
        }
        conf = SparkConf().setAll([*settings.items(), *quiet.items()])
        # Spark logs rows it cannot read to Java's standard error, even before its log level is set and whatever it is.
        logging.getLogger().addFilter(_is_not_of_py4j)
        gateway = launch_gateway(conf, {"stderr": subprocess.DEVNULL})  # type: ignore[no-untyped-call]
        SparkContext(conf=conf, gateway=gateway)
    return builder.getOrCreate()


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        where = " JAVA_HOME points to a directory without it." if home else ""
        raise OptionError(f"There is no Java.{where} {GET_JAVA}")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        raise OptionError(f"Java does not run. {GET_JAVA}") from None
    version = re.search(r'version "(\d+)', said)
    if version and int(version.group(1)) < OLDEST_JAVA:
        raise OptionError(f"This is Java {version.group(1)}. {GET_JAVA}")


@contextmanager
def prepared(session: SparkSession) -> Iterator[None]:
    """Apply the settings that Dosimeter's SQL needs, such as UTC, while the block runs; then restore the session's."""
    before = {name: session.conf.get(name) for name in _SETTINGS}
    changed = {name: value for name, value in before.items() if str(value).lower() != _SETTINGS[name].lower()}
    for name in changed:
        session.conf.set(name, _SETTINGS[name])
    try:
        yield
    finally:
        for name, value in changed.items():
            session.conf.set(name, str(value))


@contextmanager
def without_version_warnings() -> Iterator[None]:
    """Keep PySpark's warnings about versions of other libraries silent while the block runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Return whether a log record is not from py4j, which logs tracebacks of lost connections to the root logger."""
    return f"{os.sep}py4j{os.sep}" not in record.pathname
