"""What one call may do. Tools and resources check permissions here, and nowhere else.

A call requests a `Permit` for a path with `Call.permit`. Opening a document, or doing anything
with a file, requires such a permit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from ..errors import PermissionRefused
from .agent import Agent
from .permissions import Level

#: The action and resource that Jupyter's authorizer checks for each level.
_AUTHORIZER = {
    Level.read: ("read", "contents"),
    Level.write: ("write", "contents"),
    Level.execute: ("execute", "kernels"),
    Level.admin: ("write", "contents"),
}

#: Paths of one call that are noted.
_VISITS = 50

Authorizer = Callable[[str, str, str | None], Awaitable[bool]]
"""Jupyter's authorizer: whether the caller may take an action on a resource, perhaps at a path."""


class Paths(Protocol):
    """The paths of a server, and what its configuration allows."""

    def allowed_path(self, path: str) -> str:
        """The normalized path, if agents may touch it."""

    def allowed_folder(self, path: str) -> str:
        """The normalized path of a folder, if agents may look into it."""

    def path_and_target(self, path: str) -> Sequence[str]:
        """A path and, if it is a link, its target."""


class Server(Protocol):
    """A Jupyter server that a call uses."""

    @property
    def workspace(self) -> Paths: ...

    def require(self, level: Level) -> None:
        """Refuse a level above what agents may do there."""


def require_level(level: Level, allowed: Level) -> None:
    """Refuse a level above that of the connection."""
    if level > allowed:
        raise PermissionRefused(
            f"This needs the permission level {level.name}; this connection has {allowed.name}.",
            f"Ask the person for a connection with {level.name} permission.",
            level=level.name,
        )


class Visit(NamedTuple):
    """A path that a call was permitted to use."""

    server: Server
    level: Level
    path: str
    file_id: str = ""
    """The document that was opened, if one was."""


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call, or one read of a resource: the caller, and what it may do."""

    tool: str
    """The name of the tool, or of the kind of resource."""
    agent: Agent
    allowed: Level
    """The most that the connection may do."""
    declared: Level
    """The highest level that was declared to the client for this call."""
    authorizer: Authorizer
    by_path: bool
    """Whether the authorizer's decision may depend on the path."""
    report: Callable[[float, str], Awaitable[None]]
    """Reports progress to a client that wants it, which also keeps the client from giving up."""
    proposes: bool = False
    """Whether its edits go to a fork, which a person merges."""
    visits: list[Visit] = field(default_factory=list)
    """What it was permitted to use so far."""
    _granted: set[tuple[Level, str | None]] = field(default_factory=set)
    _visible: dict[str, bool] = field(default_factory=dict)
    _rechecks: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    _endings: list[Callable[[], None]] = field(default_factory=list)

    async def permit(self, server: Server, level: Level, path: str) -> Permit:
        """Decide whether the call may do something at a path.

        Path rules come first, then the server's level, the connection's level, and Jupyter's
        authorizer. Rules and authorizer check all names of the path: that of a link, and that of
        its target.

        Raises:
            PathRefused: It is not a path, or leads out of the root.
            PermissionRefused: The call may not do it.
        """
        return await self._permit(server, level, server.workspace.allowed_path(path))

    async def permit_listing(self, server: Server, folder: str) -> Permit:
        """The same for listing a folder, which may contain more than the caller may touch."""
        return await self._permit(server, Level.read, server.workspace.allowed_folder(folder))

    async def _permit(self, server: Server, level: Level, path: str) -> Permit:
        server.require(level)
        for name in server.workspace.path_and_target(path):
            await self.authorize(level, name)
        self.note(server, level, path)
        return Permit(self, server.workspace, level, path)

    async def authorize(self, level: Level, path: str | None = None) -> None:
        """Refuse what the connection or Jupyter's authorizer does not allow.

        Args:
            path: The path in question; None if there is none.
        """
        if level > self.declared:
            raise RuntimeError(f"declared up to {self.declared.name}, and asks for {level.name}")
        require_level(level, self.allowed)
        if (level, path) not in self._granted:
            action, resource = _AUTHORIZER[level]
            if not await self.authorizer(action, resource, path):
                raise PermissionRefused(
                    f"Jupyter's authorizer does not let you {action} {resource} "
                    f"(needed level: {level.name}).",
                    "Ask the person who runs this Jupyter server.",
                    level=level.name,
                )
            self._granted.add((level, path))

    def note(self, server: Server, level: Level, path: str, file_id: str = "") -> None:
        """Note what the call uses, for the activity log."""
        if len(self.visits) < _VISITS:
            self.visits.append(Visit(server, level, path, file_id))

    async def may_see(self, path: str) -> bool:
        """Whether the authorizer lets the caller know about a path that the path rules show."""
        if path not in self._visible:
            try:
                await self.authorize(Level.read, path)
                self._visible[path] = True
            except PermissionRefused:
                self._visible[path] = False
        return self._visible[path]

    def recheck(self, check: Callable[[], Awaitable[None]]) -> None:
        """Register a check to repeat before the answer is returned."""
        self._rechecks.append(check)

    def at_end(self, ending: Callable[[], None]) -> None:
        """Register a function to call when the call is over, however it ends."""
        self._endings.append(ending)

    @asynccontextmanager
    async def recheck_before_answer(self) -> AsyncIterator[None]:
        """Withhold an answer, or an error that may quote a document, that is no longer allowed."""
        try:
            yield
        finally:
            for ending in self._endings:
                ending()
            for check in self._rechecks:
                await check()


@dataclass(frozen=True, slots=True)
class Permit:
    """The decision that a call may act at a level on a path of a server; see `Call.permit`."""

    call: Call
    paths: Paths
    """The paths of the server; the permit is not valid for any other."""
    level: Level
    path: str
    """The normalized path."""

    @property
    def agent(self) -> Agent:
        return self.call.agent

    @property
    def by_path(self) -> bool:
        """Whether the authorizer's decision may depend on the path."""
        return self.call.by_path

    async def check(self, *names: str) -> None:
        """Refuse if the path now leads to something that may not be touched in the same way."""
        await self.authorize(self.level, *names)

    async def authorize(self, level: Level, *names: str) -> None:
        """Check other paths at any level, if the authorizer decides by path."""
        if self.by_path:
            for name in names:
                await self.call.authorize(level, name)

    def at(self, path: str) -> Permit:
        """The same permit for another name of the same file, which has been checked."""
        return replace(self, path=path)
