"""What a browser may send as Origin or Host: `scheme://host[:port]`, `host[:port]`, nothing else.
And what every answer tells it.

`http://localhost:x@evil.example` begins like an origin of this machine, but is not one.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

#: What every answer says to a browser: show it nowhere, guess nothing, keep nothing, tell nobody.
SECURE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
}

_HOST = r"(?P<name>\[[0-9a-f:.]+\]|[0-9a-z._-]+)(?::[0-9]{1,5})?"

_AUTHORITY = re.compile(_HOST, re.ASCII)
_ORIGIN = re.compile(rf"(?P<scheme>[a-z][0-9a-z+.-]*)://(?P<authority>{_HOST})", re.ASCII)


def is_origin(origin: str) -> bool:
    """Whether this could be the origin of a page; `null` is the one of a page without any."""
    return origin == "null" or _ORIGIN.fullmatch(origin.lower()) is not None


def authority(origin: str) -> str | None:
    """The host and port of a page that came over HTTP, in lower case; None for anything else."""
    found = _ORIGIN.fullmatch(origin.lower())
    return found["authority"] if found and found["scheme"] in ("http", "https") else None


def is_loopback(ip: str) -> bool:
    """Whether a server that listens there is reached from this machine only."""
    if ip.lower() == "localhost":
        return True
    try:
        return ip_address(ip).is_loopback
    except ValueError:  # a name, or nothing: all addresses
        return False


def host_name(host: str) -> str | None:
    """The name in `name` or `name:port`, in lower case; None for anything else."""
    found = _AUTHORITY.fullmatch(host.lower())
    return found["name"] if found else None
