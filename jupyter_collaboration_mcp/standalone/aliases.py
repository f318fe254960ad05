"""Aliases for servers to which nobody gave one: descriptive, and the same each time.

A server that was found is named after its folder, one that was given by URL after its URL. An alias
does not depend on which other servers run, unless two would get the same one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from .discovery import RunningServer

#: Characters of an alias.
_LONGEST = 40


def alias_of(base: str, taken: Iterable[str]) -> str:
    """A free alias for the server with this base URL."""
    parts = urlsplit(base)
    host = parts.hostname or "server"
    segments = [segment for segment in unquote(parts.path).split("/") if segment]
    words = [_host(host), *segments[-1:], *([str(parts.port)] if parts.port else [])]
    return free_alias("-".join(words), taken)


def aliases_of(found: Sequence[RunningServer], taken: Iterable[str]) -> list[str]:
    """An alias for each of the servers that were found, in their order."""
    names = [server.root.name or "root" for server in found]
    often = Counter(map(str.lower, names))
    chosen: list[str] = []
    for server, name in zip(found, names, strict=True):
        port = urlsplit(server.url).port
        wanted = f"{name}-{port}" if often[name.lower()] > 1 and port else name
        chosen.append(free_alias(wanted, [*taken, *chosen]))
    return chosen


def _host(host: str) -> str:
    if host in ("localhost", "127.0.0.1", "::1"):
        return "local"
    try:
        ip_address(host)
    except ValueError:
        return host.partition(".")[0]
    return host


def free_alias(wanted: str, taken: Iterable[str]) -> str:
    """The words as an alias that is not taken; a long one keeps its end, which says more."""
    name = re.sub(r"[^A-Za-z0-9_]+", "-", wanted).strip("-_") or "server"
    name = name if name[0].isalpha() else f"s-{name}"
    name = name if len(name) <= _LONGEST else f"s-{name[3 - _LONGEST :].lstrip('-_')}"
    others = set(taken)
    numbered = (f"{name[: _LONGEST - 4]}-{number}" for number in range(2, len(others) + 3))
    return next(candidate for candidate in (name, *numbered) if candidate not in others)
