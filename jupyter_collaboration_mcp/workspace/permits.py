"""What one call may do. Tools, resources and everything to come ask here, and only here.

A call asks with `Call.permit` for a path and gets a `Permit`. To open a document, or to do anything
with a file, takes such a permit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from ..errors import PermissionRefused
from .agent import Agent
from .permissions import Level

#: What Jupyter's authorizer is asked for each level: action and resource.
_AUTHORIZER = {
    Level.read: ("read", "contents"),
    Level.write: ("write", "contents"),
    Level.execute: ("execute", "kernels"),
    Level.admin: ("write", "contents"),
}

Authorizer = Callable[[str, str, str | None], Awaitable[bool]]
"""Jupyter's authorizer: whether the caller may take an action on a resource, at a path if any."""


class Paths(Protocol):
    """The paths of a server, and what its configuration decides about them."""

    def allowed_path(self, path: str) -> str:
        """The path in its normal form, if agents may touch it."""

    def allowed_folder(self, path: str) -> str:
        """The path of a folder in its normal form, if agents may look into it."""

    def path_and_target(self, path: str) -> Sequence[str]:
        """A path, and what it leads to if it is a link."""


class Server(Protocol):
    """A Jupyter server on which a call wants to do something."""

    @property
    def workspace(self) -> Paths: ...

    def require(self, level: Level) -> None:
        """Refuse what is beyond what agents may do there."""


def require_level(level: Level, allowed: Level) -> None:
    """Refuse what needs a higher level than a connection has."""
    if level > allowed:
        raise PermissionRefused(
            f"This needs the permission level {level.name}; this connection has {allowed.name}.",
            f"Ask the person for a connection with {level.name} permission.",
            level=level.name,
        )


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool, or one read of a resource: who calls, and what it may do."""

    tool: str
    """The name of the tool; of a resource, the name of its kind."""
    agent: Agent
    allowed: Level
    """The most that the connection may do."""
    declared: Level
    """The most that the client was told that this does."""
    authorizer: Authorizer
    by_path: bool
    """Whether the authorizer may decide otherwise for another path."""
    report: Callable[[float, str], Awaitable[None]]
    """Reports progress to a client that wants to know; also keeps it from giving up."""
    _granted: set[tuple[Level, str | None]] = field(default_factory=set)
    _rechecks: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    async def permit(self, server: Server, level: Level, path: str) -> Permit:
        """Decide whether the call may do something at a path.

        Path rules come first, then the server's level, the connection's level, and Jupyter's
        authorizer. Rules and authorizer decide about all names of the path: that of a link, and
        that of what it leads to.

        Raises:
            PathRefused: It is no path, or leads out of the root.
            PermissionRefused: It may not.
        """
        return await self._permit(server, level, server.workspace.allowed_path(path))

    async def permit_listing(self, server: Server, folder: str) -> Permit:
        """The same for a look into a folder, which may have more in it than may be touched."""
        return await self._permit(server, Level.read, server.workspace.allowed_folder(folder))

    async def _permit(self, server: Server, level: Level, path: str) -> Permit:
        server.require(level)
        for name in server.workspace.path_and_target(path):
            await self.authorize(level, name)
        return Permit(self, server.workspace, level, path)

    async def authorize(self, level: Level, path: str | None = None) -> None:
        """Refuse what the connection or Jupyter's authorizer does not allow.

        Args:
            path: What it is about; None if it is about no path.
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

    async def may_see(self, path: str) -> bool:
        """Whether the authorizer lets the caller know of a path that the path rules show."""
        try:
            await self.authorize(Level.read, path)
        except PermissionRefused:
            return False
        return True

    def recheck(self, check: Callable[[], Awaitable[None]]) -> None:
        """Have something checked again before the answer is given."""
        self._rechecks.append(check)

    @asynccontextmanager
    async def recheck_before_answer(self) -> AsyncIterator[None]:
        """Give no answer, nor an error that may quote something, that may not be given any more."""
        try:
            yield
        finally:
            for check in self._rechecks:
                await check()


@dataclass(frozen=True, slots=True)
class Permit:
    """What was decided: a call may do so much at a path of a server. `Call.permit` makes it."""

    call: Call
    paths: Paths
    """Of the server; the permit is good for no other."""
    level: Level
    path: str
    """In its normal form."""

    @property
    def agent(self) -> Agent:
        return self.call.agent

    @property
    def by_path(self) -> bool:
        """Whether the authorizer may decide otherwise for another path."""
        return self.call.by_path

    async def check(self, *names: str) -> None:
        """Refuse what the path leads to by now, if it may not be touched in the same way."""
        await self.authorize(self.level, *names)

    async def authorize(self, level: Level, *names: str) -> None:
        """Refuse other paths at any level, where the authorizer decides by path."""
        if self.by_path:
            for name in names:
                await self.call.authorize(level, name)

    def at(self, path: str) -> Permit:
        """The same permit for another name of what it is about, which has been checked."""
        return replace(self, path=path)
