"""The custom scopes of a JupyterHub that say what agents with a token may do."""

from __future__ import annotations

from collections.abc import Iterable

from ..workspace.permissions import Level

#: What a scope begins with; the name of a level follows.
LEVEL_SCOPE = "custom:jupyter-collaboration-mcp:"


class NoLevelHere(ValueError):
    """A token has scopes for agents, and none for the server that it was sent to.

    Such a token was meant to be limited: it gets nothing, not everything.
    """

    def __init__(self, scopes: Iterable[str], user: str, server: str) -> None:
        named = ", ".join(sorted(scopes))
        where = f"{user}/{server}" if server else user
        super().__init__(
            f"The token has {named}, which grants agents nothing on the server {where}. Create one "
            f"with {LEVEL_SCOPE}LEVEL!user={user}: read, write, execute or admin is the level."
        )


def level_of(scopes: Iterable[str], user: str, server: str = "") -> Level | None:
    """The highest level that scopes grant on a server of a user; None if none says anything.

    A scope may be limited to a user or a server, as all scopes of a Hub may.

    Raises:
        NoLevelHere: They grant levels elsewhere only, or none that we know.
    """
    of_agents = [scope for scope in scopes if scope.startswith(LEVEL_SCOPE)]
    fitting = ("", f"user={user}", f"server={user}/{server}")
    levels = [
        Level[name]
        for scope in of_agents
        for name, _, limit in [scope.removeprefix(LEVEL_SCOPE).partition("!")]
        if name in Level.__members__ and limit in fitting
    ]
    if of_agents and not levels:
        raise NoLevelHere(of_agents, user, server)
    return max(levels, default=None)
