"""``dosimeter audit``: export the audit log of the web application, and check that nothing in it was altered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dosimeter.cli import options as o
from dosimeter.cli.writing import Inputs, check_writable, report_verification, write_to
from dosimeter.errors import OptionError

if TYPE_CHECKING:
    from dosimeter.web.store import Database


@click.group("audit", cls=o.CommandGroup, no_args_is_help=False)
def audit() -> None:
    """The web application's audit log: who saw and did what."""


TARGET = click.option("--database", metavar="L", help="Instead: the database itself, a file or a postgresql:// URL.")


@audit.command("verify")
@o.CONFIG
@TARGET
@click.option(
    "--head",
    metavar="DIGEST",
    help="The head that was printed earlier, to find out whether later records were cut off.",
)
@o.JSON
def verify(config: Path | None, database: str | None, head: str | None, json: bool) -> int:
    """Tell whether any record of the audit log was altered, left out or put in. Exit status 1 if one was.

    Records cut off at the end are found only with --head, the digest that an earlier verify printed as the head.
    """
    with _open(config, database) as opened:
        from dosimeter.web.store import check_audit

        result = check_audit(opened, head)
    return report_verification(result, as_json=json)


@audit.command("export")
@o.CONFIG
@TARGET
@click.option("-o", "--output", metavar="FILE", type=o.PATH, help="Write to a file instead of the screen.")
def export(config: Path | None, database: str | None, output: Path | None) -> int:
    """Write every record as one line of JSON, oldest first."""
    with _open(config, database) as opened:
        from dosimeter.web.store import export_audit

        if output is not None:
            _check_output(output, config, opened.target)
        write_to(output, lambda stream: export_audit(opened, stream))
    return 0


def _check_output(output: Path, config: Path | None, database: str) -> None:
    """Refuse to write over the database, the configuration, or a file that the configuration names."""
    check_writable(output, inputs=Inputs(others=[("the database", database)]))
    if config is None:
        return
    from dosimeter.web.settings import load_settings, locate_secret

    Inputs(others=[("the configuration", config), ("the secret", locate_secret(config))]).check_apart(output)
    for dataset in load_settings(config).datasets.values():
        Inputs(data=dataset.data, schema=dataset.schema).check_apart(output)


@contextmanager
def _open(config: Path | None, target: str | None) -> Iterator[Database]:
    """Open for reading the database that the file ``config`` names, or the database ``target``.

    Exactly one of the two must be given. Nothing is created or migrated.
    """
    o.require_web()
    if (config is None) == (target is None):
        raise OptionError("Say which log: --config FILE, or --database L.")
    from dosimeter.web.settings import read_database
    from dosimeter.web.store import Database

    database = Database(read_database(config) if config is not None else str(target), create=False)
    try:
        yield database
    finally:
        database.close()
