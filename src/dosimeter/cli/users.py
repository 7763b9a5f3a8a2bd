"""``dosimeter user``: add, reset, disable and list those who may sign in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dosimeter.cli import options as o
from dosimeter.cli.writing import print_json, unwritable
from dosimeter.errors import OptionError

if TYPE_CHECKING:
    from dosimeter.web.store import Database


USER_NAME = click.argument("name", metavar="NAME", help="The name they sign in with.")
ROLE = click.option("--role", required=True, help="analyst or controller.")


@click.group("user", cls=o.CommandGroup, no_args_is_help=False)
def users() -> None:
    """Users of the web application."""


@contextmanager
def _open(config: Path) -> Iterator[Database]:
    o.require_web()
    from dosimeter.web.settings import read_database
    from dosimeter.web.store import Database

    database = Database(read_database(config))
    try:
        database.migrate()
        yield database
    finally:
        database.close()


@users.command("add")
@USER_NAME
@o.NEEDED_CONFIG
@ROLE
@o.JSON
def add(name: str, config: Path, role: str, json: bool) -> int:
    """Add a user of the web application. The password is printed once; the user can change it."""
    from dosimeter.web.identity import add_user

    with _open(config) as database:
        password = add_user(database, name, role)
    _print_password(name.lower(), password, json=json)
    return 0


@users.command("reset")
@USER_NAME
@o.NEEDED_CONFIG
@o.JSON
def reset(name: str, config: Path, json: bool) -> int:
    """Give a user a new password and end all their sessions and tokens. A disabled user is enabled again."""
    from dosimeter.web.identity import reset_password

    with _open(config) as database:
        password = reset_password(database, name)
    _print_password(name.lower(), password, json=json)
    return 0


@users.command("disable")
@USER_NAME
@o.NEEDED_CONFIG
def disable(name: str, config: Path) -> int:
    """Disable a user: no more sign-ins; all their sessions and tokens end at once.

    The user's queries stay, and so do all records of the ledger and of the audit log.
    """
    from dosimeter.web.identity import disable_user

    with _open(config) as database:
        disable_user(database, name)
    click.echo(f"{name.lower()} is disabled.")
    return 0


@users.command("list")
@o.NEEDED_CONFIG
@o.JSON
def list_all(config: Path, json: bool) -> int:
    """List all users with their roles, and say who is disabled."""
    from dosimeter.web.identity import list_users

    with _open(config) as database:
        found = list_users(database)
    if json:
        print_json({"users": found})
        return 0
    for user in found:
        click.echo(f"{user['name']:<24} {user['role']:<12} {'disabled' if user['disabled'] else ''}".rstrip())
    return 0


@users.command("secret")
@click.argument("path", metavar="FILE", type=o.PATH, help="Where the secret goes; it must not exist yet.")
def secret(path: Path) -> int:
    """Write a new secret for signing cookies into a file that only you can read."""
    o.require_web()
    from dosimeter.web.store import make_key

    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise OptionError(f"{path} exists already. A new secret signs everybody out: remove the file first.") from None
    except OSError:
        raise unwritable(path) from None
    with os.fdopen(handle, "w", encoding="ascii") as stream:
        stream.write(make_key() + "\n")
    click.echo(f"A new secret is in {path}.")
    return 0


def _print_password(name: str, password: str, *, json: bool) -> None:
    if json:
        print_json({"name": name, "password": password})
    else:
        click.echo(f"{name} signs in with the password {password}")
