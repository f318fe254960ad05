"""What one call may do. Tools and resources check permissions here, and nowhere else.

A call requests a `Permit` for a path with `Call.permit`. Opening a document, or doing anything
with a file, requires such a permit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import NamedTuple, Protocol

from ..collaboration.edits import OnStep, no_step
from ..errors import CollaborationError, DocumentNotFound, PermissionRefused
from .agent import Agent
from .holds import Hold, no_hold
from .permissions import NO_RULES, Level, PathRules

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


Report = Callable[[float, str], Awaitable[None]]
"""Takes how far something is, and what happens now."""


async def unreported(progress: float, message: str) -> None:
    """For who waits without being told anything."""


class Ownership(Protocol):
    """Which notebooks belong to one agent alone."""

    def visible_to(self, agent: str, level: Level, path: str) -> bool:
        """Whether an agent with a key may know of a path."""

    def touch(self, path: str) -> None:
        """Note that somebody uses a path."""


class Paths(Protocol):
    """The paths of a server, and what its configuration allows."""

    def allowed_path(self, path: str) -> str:
        """The normalized path, if agents may touch it."""

    def allowed_folder(self, path: str) -> str:
        """The normalized path of a folder, if agents may look into it."""

    def path_and_target(self, path: str) -> Sequence[str]:
        """A path and, if it is a link, its target."""

    def visible(self, path: str) -> bool:
        """Whether agents may know about a path, and about what it leads to."""

    def may_enter(self, path: str) -> bool:
        """Whether agents may know about a folder, which may contain what they may touch."""

    @property
    def ephemeral(self) -> Ownership:
        """Whose ephemeral notebooks are."""


class Server(Protocol):
    """A Jupyter server that a call uses."""

    @property
    def workspace(self) -> Paths: ...

    def require(self, level: Level) -> None:
        """Refuse a level above what agents may do there."""

    async def rouse(self, report: Report = ...) -> None:
        """Wait until it runs, if it is being started, or can be."""


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
    version: int = 0
    """The version of it that was opened."""


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
    report: Report
    """Reports progress to a client that wants it, which also keeps the client from giving up."""
    proposes: bool = False
    """Whether its edits go to a fork, which a person merges."""
    rules: PathRules = NO_RULES
    """What the caller's own token allows, beside what the server does."""
    reached: str = ""
    """The URL that the client has used, as far as it says."""
    hold: Hold = no_hold
    """Refuses what people do not let the agent do now; asked again right before it is done."""
    on_step: OnStep = no_step
    """Called with what the call has changed in a document."""
    visits: list[Visit] = field(default_factory=list)
    """What it was permitted to use so far."""
    _granted: set[tuple[Level, str | None]] = field(default_factory=set)
    _visible: dict[str, bool] = field(default_factory=dict)
    _rechecks: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    _endings: list[Callable[[], None]] = field(default_factory=list)
    _reversals: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    async def permit(self, server: Server, level: Level, path: str, *, uses: bool = True) -> Permit:
        """Decide whether the call may do something at a path.

        Path rules come first, then the server's level, the connection's level, and Jupyter's
        authorizer. Rules and authorizer check all names of the path: that of a link, and that of
        its target.

        Args:
            uses: Whether this counts as using an ephemeral notebook, which is then kept for longer.

        Raises:
            PathRefused: It is not a path, or leads out of the root.
            PermissionRefused: The call may not do it.
            DocumentNotFound: Only another agent may know of it.
        """
        path = server.workspace.allowed_path(path)
        permit, names = await self._permit(server, level, path, self.authorize)
        await server.rouse(self.report)
        for name in names:
            permit.require_known(name)
            if uses:
                server.workspace.ephemeral.touch(name)
        self.note(server, level, permit.path)
        return permit

    async def permit_listing(self, server: Server, folder: str) -> Permit:
        """The same for listing a folder, which may contain more than the caller may touch."""
        path = server.workspace.allowed_folder(folder)
        self.rules.check_folder(path, server.workspace.path_and_target(path)[-1])
        permit, _ = await self._permit(server, Level.read, path, self._authorize)
        self.note(server, Level.read, permit.path)
        return permit

    async def _permit(
        self,
        server: Server,
        level: Level,
        path: str,
        authorize: Callable[[Level, str], Awaitable[None]],
    ) -> tuple[Permit, Sequence[str]]:
        """The permit, and all names of the path."""
        server.require(level)
        names = server.workspace.path_and_target(path)
        for name in names:
            await authorize(level, name)
        return Permit(self, server.workspace, level, path), names

    async def authorize(self, level: Level, path: str | None = None) -> None:
        """Refuse what the connection, its token or Jupyter's authorizer does not allow.

        Args:
            path: The path in question; None if there is none.
        """
        if path is not None:
            self.rules.check(path)
        await self._authorize(level, path)

    async def _authorize(self, level: Level, path: str | None) -> None:
        if level > self.declared:
            raise RuntimeError(f"declared up to {self.declared.name}, and asks for {level.name}")
        require_level(level, self.allowed)
        self.hold(level)
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

    def note(
        self, server: Server, level: Level, path: str, file_id: str = "", version: int = 0
    ) -> None:
        """Note what the call uses, for the record of it."""
        if len(self.visits) < _VISITS:
            self.visits.append(Visit(server, level, path, file_id, version))

    async def may_see(self, paths: Paths, path: str) -> bool:
        """Whether the caller may know about a path of a server."""
        if not (paths.visible(path) and self.shows(paths, path)):
            return False
        if path not in self._visible:
            try:
                await self.authorize(Level.read, path)
                self._visible[path] = True
            except PermissionRefused:
                self._visible[path] = False
        return self._visible[path]

    def shows(self, paths: Paths, path: str) -> bool:
        """Whether its token allows the caller to know about a path, and it is nobody else's."""
        return self.rules.visible(path) and self.knows(paths, path)

    def require_shown(self, paths: Paths, path: str) -> None:
        """Refuse what the path rules keep from a caller who has found it by something else than its
        path, and may not learn where it is.

        Raises:
            PermissionRefused: They keep it.
        """
        if not (paths.visible(path) and self.rules.visible(path)):
            raise PermissionRefused(
                "The document that this belongs to is kept from agents.",
                "Work on another document, or ask the person to allow this one.",
            )

    def knows(self, paths: Paths, path: str) -> bool:
        """Whether a path is anything but an ephemeral notebook that is kept from the caller."""
        names = paths.path_and_target(path) if "~" in path else (path,)
        return all(paths.ephemeral.visible_to(self.agent.key, self.allowed, n) for n in names)

    def recheck(self, check: Callable[[], Awaitable[None]]) -> None:
        """Register a check to repeat before the answer is returned."""
        self._rechecks.append(check)

    def at_end(self, ending: Callable[[], None]) -> None:
        """Register a function to call when the call is over, however it ends."""
        self._endings.append(ending)

    def if_refused(self, reverse: Callable[[], Awaitable[None]]) -> None:
        """Register what takes back something that the call has done by the way, if it fails."""
        self._reversals.append(reverse)

    def recheck_before_answer(self) -> _Recheck:
        """Withhold an answer, or an error that may quote a document, that is no longer allowed."""
        return _Recheck(self)

    async def _end(self, error: BaseException | None) -> None:
        try:
            if isinstance(error, CollaborationError):
                for reverse in self._reversals:
                    await reverse()
        finally:
            try:
                for ending in self._endings:
                    ending()
                for check in self._rechecks:
                    await check()
            finally:
                # They know the call. Nobody asks again, and together they would stay, with the
                # whole request, until Python's garbage collector comes.
                for registered in (self._endings, self._rechecks, self._reversals):
                    registered.clear()


class _Recheck:
    """The end of a call. Not a generator: that would cost each edit time."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._call._end(error)


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
        for name in names:
            self.require_known(name)
        await self.authorize(self.level, *names)

    def sees(self, path: str) -> bool:
        """Whether the path rules show a path, and it is not another agent's alone."""
        return self.paths.visible(path) and self.call.shows(self.paths, path)

    def may_enter(self, path: str) -> bool:
        """Whether the path rules show a folder, which may contain what they show."""
        return self.paths.may_enter(path) and self.call.rules.may_enter(path)

    def require_known(self, name: str) -> None:
        """Refuse another agent's ephemeral notebook, as if there were nothing.

        Raises:
            DocumentNotFound: It is one.
        """
        if not self.call.knows(self.paths, name):
            raise DocumentNotFound.at(self.path)

    async def authorize(self, level: Level, *names: str) -> None:
        """Check other paths at any level, if the authorizer decides by path."""
        if self.by_path:
            for name in names:
                await self.call.authorize(level, name)

    def at(self, path: str) -> Permit:
        """The same permit for another name of the same file, which has been checked."""
        return replace(self, path=path)
