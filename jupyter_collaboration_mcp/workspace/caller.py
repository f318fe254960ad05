"""Who is behind a request, as the transport learnt it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

#: Where the transport leaves the caller in the ASGI scope.
SCOPE_KEY = "jupyter_collaboration_mcp.caller"


@dataclass(frozen=True, slots=True)
class Caller:
    """The credential and the wishes that came with one request; never the token itself."""

    credential: str
    """`token:<hash>` or `user:<name>`: stable for one person, safe to log."""
    agents: Sequence[str]
    """The names asked for with `?agent=`. More than one makes no sense."""
    toolsets: Sequence[str]
    """Each `?toolsets=` as it came; each can only narrow what is configured."""
    permissions: Sequence[str]
    """Each `?permission=` as it came; each can only narrow what is configured."""
    authorize: Callable[[str, str, str | None], Awaitable[bool]]
    """Ask Jupyter's authorizer: action, resource, and the path it is about."""
    by_path: bool
    """Whether it may decide otherwise for another path."""
