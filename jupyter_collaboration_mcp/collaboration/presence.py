"""An agent as people see it: a name, a colour, what it is doing, and a caret where it works."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal
from weakref import WeakSet

from pycrdt import Awareness, Doc, create_awareness_message

from ..backends.protocols.awareness import AwarenessLink
from ..documents.awareness import is_agent
from ..documents.members import agent_username
from ..documents.positions import RelativePosition

#: Seconds between updates of a moving caret: edits must not wait for their picture.
_DELAY = 0.05

#: Seconds that people can read what an agent was doing, or what it has announced.
_LINGER, _ANNOUNCED = 2.0, 20.0

#: Characters of what an agent is doing that people read beside its name.
_SHOWN = 60

_COLOURS = 7

Ends = tuple[RelativePosition, RelativePosition]
"""The anchor of a selection and its caret, which are the same if nothing is selected."""

Status = Literal["online", "away", "busy", "offline"]


class Profile:
    """What an agent tells about itself, in all documents of a server and in its lobby.

    JupyterLab shows names and no status. So in the lobby, what the agent is doing stands behind its
    name; beside its caret there is no room for that.
    """

    def __init__(self, key: str, name: str) -> None:
        self.key = key
        self.name = name
        self.username = agent_username(key)
        self.status: Status = "online"
        self.message = ""
        self.last_active = time.time()
        self._announcement = ""
        self._work: dict[object, str] = {}
        self._lingering = ""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._due: dict[str, float] = {}
        # For the timers: Jupyter keeps the handler of the present request in the context.
        self._context = contextvars.Context()
        self._presences: WeakSet[Presence] = WeakSet()

    @property
    def display_name(self) -> str:
        """The name that people read."""
        return f"{self.name} (agent)"

    @property
    def doing(self) -> str:
        """What it is doing, in a few words; empty if nothing."""
        working = next(reversed(self._work.values()), self._lingering)
        status = "" if self.status == "online" else self.status
        own = f"{status}: {self.message}" if status and self.message else status or self.message
        said = self._announcement or working or own
        return said if len(said) <= _SHOWN else f"{said[: _SHOWN - 1]}…"

    def user(self, with_doing: bool) -> dict[str, Any]:
        """What an awareness state says about its user."""
        doing = f": {self.doing}" if with_doing and self.doing else ""
        return {
            "username": self.username,
            "name": self.name,
            "display_name": f"{self.display_name}{doing}",
            "initials": _initials(self.name),
            "avatar_url": None,
            "color": colour_of(self.key),
        }

    def facts(self) -> dict[str, Any]:
        """What other agents read: JupyterLab ignores it."""
        return {
            "status": self.status,
            "message": self.message,
            "doing": next(reversed(self._work.values()), ""),
            "last_active": self.last_active,
        }

    def set_status(self, status: Status, message: str) -> None:
        self.status, self.message = status, message
        for presence in self._presences:
            presence.show_soon()

    def announce(self, text: str) -> None:
        """Show something for a while."""
        self._announcement = text
        self._later("announcement", _ANNOUNCED, self._end_announcement)
        self._changed()

    def work(self, doing: str) -> Callable[[], None]:
        """Show what the agent is doing, until the returned function is called, and a bit longer."""
        self.last_active = time.time()
        if self.status == "offline":  # who works is not gone
            self.set_status("online", self.message)
        token = object()
        shown = self.doing
        self._work[token] = doing
        self._lingering = doing
        if self.doing != shown:
            self._changed()

        def end() -> None:
            if self._work.pop(token, None) is not None and not self._work:
                self.last_active = time.time()
                self._later("work", _LINGER, self._end_work)

        return end

    def close(self) -> None:
        """Forget what was to be shown later."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def attach(self, presence: Presence) -> None:
        self._presences.add(presence)

    def detach(self, presence: Presence) -> None:
        self._presences.discard(presence)

    def _end_work(self) -> None:
        if not self._work and self._lingering:
            self._lingering = ""
            self._changed()

    def _end_announcement(self) -> None:
        self._announcement = ""
        self._changed()

    def _changed(self) -> None:
        for presence in self._presences:
            if presence.shows_doing:
                presence.show_soon()

    def _later(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """Call a function after some seconds in which nobody has asked for it again."""
        self._due[name] = asyncio.get_running_loop().time() + seconds
        if name not in self._timers:  # else it will see that it is too early
            self._wait_for(name, call)

    def _wait_for(self, name: str, call: Callable[[], None]) -> None:
        self._timers[name] = asyncio.get_running_loop().call_at(
            self._due[name], self._on_time, name, call, context=self._context
        )

    def _on_time(self, name: str, call: Callable[[], None]) -> None:
        del self._timers[name]
        if self._due[name] > asyncio.get_running_loop().time():
            self._wait_for(name, call)
        else:
            call()


class Presence(ABC):
    """One agent in one awareness, under its own client id."""

    shows_doing: ClassVar[bool]
    """Whether people read there what the agent is doing."""

    def __init__(self, link: AwarenessLink, profile: Profile) -> None:
        self._link = link
        self.profile = profile
        self._awareness = Awareness(Doc())
        self._timer: asyncio.TimerHandle | None = None
        profile.attach(self)

    @property
    def client(self) -> int:
        """The client id of its state."""
        return self._awareness.client_id

    def show_soon(self) -> None:
        """Announce the state soon; several calls in between are sent as one message."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_DELAY, self.show)

    def show(self) -> None:
        """Announce the state now. Must be repeated, or others think that the agent has left."""
        self._stop_timer()
        if self.profile.status == "offline":
            self._send(None)
        else:
            user = self.profile.user(self.shows_doing)
            self._send({"user": user, "agent": self.profile.facts(), **self.state()})

    def leave(self) -> None:
        """Vanish at once."""
        self.profile.detach(self)
        self._stop_timer()
        self._send(None)

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """What the state says besides who the agent is."""

    def _send(self, state: dict[str, Any] | None) -> None:
        self._awareness.set_local_state(state)
        update = self._awareness.encode_awareness_update([self._awareness.client_id])
        self._link.send(create_awareness_message(update))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class DocumentPresence(Presence):
    """An agent in a document: people see its caret there."""

    shows_doing = False

    def __init__(self, link: AwarenessLink, profile: Profile) -> None:
        super().__init__(link, profile)
        self._ends: Ends | Callable[[], Ends | None] | None = None

    def move_to(self, anchor: RelativePosition, head: RelativePosition) -> None:
        """Show a caret, or a selection from an anchor to the caret."""
        self._ends = anchor, head
        self.show_soon()

    def move_soon(self, find: Callable[[], Ends | None]) -> None:
        """Show a caret at a place that is looked up when it is shown: no answer waits for that."""
        self._ends = find
        self.show_soon()

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"autosave": self._autosave()}
        if callable(self._ends):
            self._ends = self._ends()
        if self._ends is not None:
            anchor, head = (end.to_json() for end in self._ends)
            cursor = {"anchor": anchor, "head": head, "primary": True, "empty": anchor == head}
            state["cursors"] = [cursor]
        return state

    def _autosave(self) -> bool:
        # B16: a state without `autosave` would switch it on for people who want it off.
        wishes = [
            state.get("autosave", True)
            for state in self._link.states.values()
            if "user" in state and not is_agent(state)
        ]
        return any(wishes) if wishes else True


class LobbyPresence(Presence):
    """An agent in the lobby: people see it in the side panel, with its documents."""

    shows_doing = True

    def __init__(self, link: AwarenessLink, profile: Profile) -> None:
        super().__init__(link, profile)
        self._current: str | None = None
        self._documents: list[str] = []

    def update(self, current: str | None, documents: list[str]) -> None:
        """Show which documents the agent is in.

        Args:
            current: The one that it works on, as JupyterLab names its tabs: `notebook:a.ipynb`.
        """
        if (current, documents) != (self._current, self._documents):
            self._current, self._documents = current, documents
            self.show_soon()

    def state(self) -> dict[str, Any]:
        return {"current": self._current, "documents": self._documents}


def colour_of(key: str) -> str:
    """The colour of the agent with a key, as JupyterLab names those of collaborators."""
    number = int(hashlib.sha256(key.encode()).hexdigest(), 16)
    return f"var(--jp-collaborator-color{number % _COLOURS + 1})"


def _initials(name: str) -> str:
    words = name.split()
    letters = [words[0][0], words[-1][0]] if len(words) > 1 else list(name[:2])
    return "".join(letters).upper()
