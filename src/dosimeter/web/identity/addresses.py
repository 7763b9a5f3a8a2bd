"""Visitors' addresses as limits count them. Takes a text; gives a text."""

from __future__ import annotations

import ipaddress


def group_address(address: str) -> str:
    """Return what counts as one visitor: an IPv4 address, or the /64 network of an IPv6 address.

    Whoever has one IPv6 address has 2^64 of them. A text that is no address is returned unchanged.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
