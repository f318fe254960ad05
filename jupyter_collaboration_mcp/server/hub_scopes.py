"""The custom scopes of a JupyterHub that say what agents with a token may do."""

from __future__ import annotations

from collections.abc import Iterable

from ..workspace.permissions import Level

#: What a scope begins with; the name of a level follows.
LEVEL_SCOPE = "custom:jupyter-collaboration-mcp:"


def level_of(scopes: Iterable[str], user: str, server: str = "") -> Level | None:
    """The highest level that scopes grant on a server of a user; None if none says anything.

    A scope may be limited to a user or a server, as all scopes of a Hub may.
    """
    fitting = ("", f"user={user}", f"server={user}/{server}")
    levels = [
        Level[name]
        for scope in scopes
        if scope.startswith(LEVEL_SCOPE)
        for name, _, limit in [scope.removeprefix(LEVEL_SCOPE).partition("!")]
        if name in Level.__members__ and limit in fitting
    ]
    return max(levels, default=None)
