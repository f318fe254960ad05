"""The agents of this process in the lobby of a server, where people see who is online."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from logging import Logger
from typing import Any, NamedTuple

from ..backends.protocols.awareness import LobbyLink
from ..backends.protocols.rooms import Backend, RoomLink
from ..collaboration.presence import LobbyPresence, Profile
from ..collaboration.seats import Seat
from ..errors import CollaborationError
from ..owned_tasks import OwnedTasks
from .agent import Agent

#: Agents of which a status is kept after they left.
_PROFILES = 500

#: Seconds for which an agent is shown that is in no document.
_VISIT = 45.0

#: Seconds after which an agent is shown in the document that it has gone to.
_SOON = 0.05


class Attendance(NamedTuple):
    """The documents that an agent is in."""

    profile: Profile
    current: str | None
    """The one that it used last, as JupyterLab names its tabs: `notebook:a.ipynb`."""
    documents: list[str]

    @classmethod
    def at(cls, seats: Sequence[tuple[Seat, RoomLink]]) -> Attendance:
        """Where one agent is, by all its seats."""
        seat, link = max(seats, key=lambda each: each[0].used)
        kind = "notebook" if link.room_id.kind == "notebook" else "editor"
        documents = sorted({link.path for _, link in seats})
        return cls(seat.profile, f"{kind}:{link.path}", documents)


class Lobby:
    """Shows the agents that are in any document, and knows who else is online."""

    def __init__(self, backend: Backend, log: Logger) -> None:
        self._backend = backend
        self._log = log
        self._profiles: dict[str, Profile] = {}
        self._presences: dict[str, LobbyPresence] = {}
        self._attending: list[Attendance] = []
        self._visitors: dict[str, asyncio.TimerHandle] = {}  # by agent, until when
        self._due: asyncio.TimerHandle | None = None
        self._closed = False
        self._link: LobbyLink | None = None
        self._entering: asyncio.Task[None] | None = None
        self._on_change: Callable[[], None] | None = None
        self._tasks = OwnedTasks()

    @property
    def states(self) -> Mapping[int, Mapping[str, Any]]:
        """What everybody says about themselves, by client id."""
        return {} if self._link is None else self._link.states

    @property
    def connected(self) -> bool:
        """Whether people see what agents say here."""
        return self._link is not None and self._link.connected

    @property
    def complete(self) -> bool:
        """Whether everybody who is online is known."""
        return self._link is not None and self._link.complete

    def profile(self, agent: Agent) -> Profile:
        """What an agent tells about itself."""
        profile = self._profiles.pop(agent.key, None) or Profile(agent.key, agent.name)
        self._profiles[agent.key] = profile
        for key in list(self._profiles)[: max(0, len(self._profiles) - _PROFILES)]:
            if key not in self._presences and key not in self._visitors:
                self._profiles.pop(key).close()
        return profile

    def visit(self, agent: Agent) -> Profile:
        """Show an agent for a while, even if it is in no document."""
        profile = self.profile(agent)
        if (timer := self._visitors.pop(agent.key, None)) is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._visitors[agent.key] = loop.call_later(_VISIT, self.leave, agent.key)
        self.update(self._attending)
        return profile

    def leave(self, key: str) -> None:
        """Do not show an agent any longer that is in no document."""
        if (timer := self._visitors.pop(key, None)) is not None:
            timer.cancel()
            self.update(self._attending)

    def update(self, attending: Iterable[Attendance]) -> None:
        """Show those who are in some document, and visitors."""
        self._attending = list(attending)
        present = {each.profile.key for each in self._attending}
        visitors = [
            Attendance(self._profiles[key], None, [])
            for key in self._visitors
            if key not in present and key in self._profiles
        ]
        self._show([*self._attending, *visitors])

    def update_soon(self, find: Callable[[], Iterable[Attendance]]) -> None:
        """The same, soon, and once for all agents that go to another document until then."""
        if self._due is None and not self._closed:
            self._due = asyncio.get_running_loop().call_later(_SOON, self._update, find)

    def _update(self, find: Callable[[], Iterable[Attendance]]) -> None:
        self._due = None
        self.update(find())

    def _show(self, attending: list[Attendance]) -> None:
        if self._link is None:
            if attending:
                self._enter_soon()
            return
        keys = {each.profile.key for each in attending}
        for key in [key for key in self._presences if key not in keys]:
            self._presences.pop(key).leave()
        for profile, current, documents in attending:
            presence = self._presences.get(profile.key)
            if presence is None:
                presence = self._presences[profile.key] = LobbyPresence(self._link, profile)
            presence.update(current, documents)

    def announce(self) -> None:
        """Announce everybody: regularly, and whenever somebody joins who cannot know."""
        for presence in self._presences.values():
            presence.show_soon()

    async def enter(self) -> None:
        """Make sure that `states` shows who is online, if the server tells that."""
        if (entering := self._enter_soon()) is not None:
            await asyncio.shield(entering)

    def follow(self, tell: Callable[[], None]) -> None:
        """Enter, and call a function whenever `states` has changed; it is quick."""
        self._on_change = tell
        self._enter_soon()

    def _enter_soon(self) -> asyncio.Task[None] | None:
        """Begin to enter; None if we have entered."""
        if self._link is None and (self._entering is None or self._entering.done()):
            self._entering = self._tasks.start(self._enter())
        return self._entering if self._link is None else None

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change()

    async def _enter(self) -> None:
        try:
            link = await self._backend.enter_lobby()
        except CollaborationError as error:
            self._log.debug("No lobby: %s", error.happened)
            return
        except Exception:  # a release may differ: agents work without it
            self._log.exception("Agents cannot be shown in JupyterLab's list of collaborators")
            return
        link.on_arrival(self.announce)
        link.on_change(self._changed)
        self._link = link
        self.update(self._attending)

    async def close(self) -> None:
        """Leave the lobby."""
        self._closed = True
        for timer in self._visitors.values():
            timer.cancel()
        self._visitors.clear()
        if self._due is not None:
            self._due.cancel()
        await self._tasks.close()
        for presence in self._presences.values():
            presence.leave()
        for profile in self._profiles.values():
            profile.close()
        if self._link is not None:
            await self._link.close()
            self._link = None
