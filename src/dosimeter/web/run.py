"""Run the application under uvicorn, on an address that was checked first."""

from __future__ import annotations

import socket
from collections.abc import Callable

from dosimeter.errors import OptionError
from dosimeter.problems import Option
from dosimeter.web.app import make_app
from dosimeter.web.http import QUEUE, make_server
from dosimeter.web.log import LOG
from dosimeter.web.settings import Settings


def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until interrupted. ``announce``: called with the address once the database and all datasets are open."""
    warn_of_proxy(settings)
    listener = _bind(settings.host, settings.port)
    try:
        app = make_app(settings)
        port = listener.getsockname()[1]
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        announce(settings.public_url or f"http://{host}:{port}")
        server = make_server(
            app, stop=app.stop, log_level="warning", date_header=True,
            proxy_headers=bool(settings.trusted_proxies), forwarded_allow_ips=settings.trusted_proxies,
        )  # fmt: skip
        server.run(sockets=[listener])
    finally:
        listener.close()


def warn_of_proxy(settings: Settings) -> None:
    """Log a warning if the public address is https, which takes a proxy, but no proxy is trusted.

    Every visitor then seems to have the proxy's address.
    """
    if settings.secure and not settings.trusted_proxies:
        LOG.warning(
            "public_url begins with https, so a proxy speaks TLS; but trusted_proxies is empty, so every visitor seems "
            "to have the proxy's address, and a few wrong passwords keep everybody out. Set trusted_proxies to it."
        )


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # TCP is named because only then asyncio switches off Nagle's algorithm, which would delay every response by 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        reason = error.strerror or "the system refused"
        raise OptionError(
            f"Cannot listen on {host}:{port}: {reason}. Choose another ", Option("host"), " or ", Option("port"), "."
        ) from None
    listener.listen(QUEUE)
    listener.set_inheritable(True)
    return listener
