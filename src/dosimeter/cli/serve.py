"""``dosimeter serve``: run the web application, or a demonstration of it."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import click

from dosimeter.cli import options as o
from dosimeter.cli.stopping import raise_on_control_c
from dosimeter.errors import OptionError


@click.command("serve")
@o.CONFIG
@click.option("--demo", is_flag=True, help="Bundled data, two sign-ins, waiting queries; all of it temporary.")
@click.option("--host", help="Listen here instead of what the file says.")
@click.option("--port", type=int, help="Listen on this port; 0 takes a free one.")
def serve(config: Path | None, demo: bool, host: str | None, port: int | None) -> int:
    """Serve the web application: analysts ask, a controller decides."""
    o.require_web()
    if (config is None) == (not demo):
        raise OptionError("Say what to serve: --config FILE, or --demo.")
    if config is not None:
        from dosimeter.web.run import serve as run
        from dosimeter.web.settings import load_settings

        settings = load_settings(config)
        settings = replace(settings, host=host or settings.host, port=settings.port if port is None else port)
        raise_on_control_c()
        run(settings, lambda address: click.echo(f"Dosimeter serves on {address}"))
        return 0
    return _serve_demo(host or "127.0.0.1", 8765 if port is None else port)


def _serve_demo(host: str, port: int) -> int:
    from dosimeter.web.demo import prepare_demo
    from dosimeter.web.run import serve as run

    raise_on_control_c()
    with tempfile.TemporaryDirectory(prefix="dosimeter-demo-") as folder:
        demonstration = prepare_demo(Path(folder), host=host, port=port)

        def announce(address: str) -> None:
            click.echo(f"Dosimeter serves a demonstration on {address}")
            for name, role, password in demonstration.sign_ins:
                click.echo(f"  {role:<10}  {name:<6}  {password}")
            click.echo("Everything vanishes when it stops: Ctrl-C.")
            sys.stdout.flush()

        run(demonstration.settings, announce)
    return 0
