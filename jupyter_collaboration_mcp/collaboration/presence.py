"""An agent as people see it: a name, a colour, and a caret where it wrote last."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from pycrdt import Awareness, Doc, create_awareness_message

from ..backends.protocols.rooms import RoomLink
from ..documents.members import agent_username, is_agent

#: Seconds between updates of a moving caret: edits must not wait for their picture.
_DELAY = 0.05

_COLOURS = 7


class Presence:
    """One agent in the awareness of one room, under its own client id."""

    def __init__(self, link: RoomLink, key: str, name: str) -> None:
        self._link = link
        self._awareness = Awareness(Doc())
        digest = hashlib.sha256(key.encode()).hexdigest()
        self._user = {
            "username": agent_username(key),
            "name": name,
            "display_name": f"{name} (agent)",
            "initials": _initials(name),
            "avatar_url": None,
            "color": f"var(--jp-collaborator-color{int(digest, 16) % _COLOURS + 1})",
        }
        self._caret: dict[str, Any] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def display_name(self) -> str:
        """The name that people read."""
        return str(self._user["display_name"])

    def write_at(self, client: int, clock: int) -> None:
        """Show the caret after a character, which is identified by client and clock.

        A sticky index would do, but pycrdt's is wrong, or panics, in text that is not ASCII.
        """
        position = {
            # All keys, even empty ones: JupyterLab's editor throws without them (B11).
            "type": None,
            "tname": None,
            "item": {"client": client, "clock": clock},
            "assoc": -1,
        }
        self._caret = {"anchor": position, "head": position, "primary": True, "empty": True}
        self.show_soon()

    def show_soon(self) -> None:
        """Announce the state soon; several calls in between are sent as one message."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_DELAY, self.show)

    def show(self) -> None:
        """Announce the state now. Must be repeated, or others think that the agent has left."""
        self._stop_timer()
        state: dict[str, Any] = {"user": self._user, "autosave": self._autosave()}
        if self._caret is not None:
            state["cursors"] = [self._caret]
        self._send(state)

    def leave(self) -> None:
        """Vanish at once."""
        self._stop_timer()
        self._send(None)

    def _autosave(self) -> bool:
        # B16: a state without `autosave` would switch it on for people who want it off.
        wishes = [
            state.get("autosave", True)
            for client, state in self._link.states.items()
            if client != self._awareness.client_id
            and not is_agent((state.get("user") or {}).get("username", ""))
            and "user" in state
        ]
        return any(wishes) if wishes else True

    def _send(self, state: dict[str, Any] | None) -> None:
        self._awareness.set_local_state(state)
        update = self._awareness.encode_awareness_update([self._awareness.client_id])
        self._link.send(create_awareness_message(update))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _initials(name: str) -> str:
    words = name.split()
    letters = [words[0][0], words[-1][0]] if len(words) > 1 else list(name[:2])
    return "".join(letters).upper()
