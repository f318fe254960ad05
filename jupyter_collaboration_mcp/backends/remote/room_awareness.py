"""Who is in a room of another server, as that server passes it on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from pycrdt import Awareness, Doc, read_message


class RoomAwareness:
    """The awareness states of everybody in one room."""

    def __init__(self) -> None:
        self._awareness = Awareness(Doc())
        self._awareness.set_local_state(None)  # nobody: each agent has a client id of its own
        self._autosave: dict[int, Any] = {}  # what each client wants
        self._on_arrival: Callable[[], None] | None = None
        self._awareness.observe(self._on_change)

    @property
    def states(self) -> Mapping[int, Mapping[str, Any]]:
        """By client id."""
        return cast("Mapping[int, Mapping[str, Any]]", self._awareness.states)

    def on_arrival(self, tell: Callable[[], None]) -> None:
        """Have a function called when somebody comes, or changes a wish about saving."""
        self._on_arrival = tell

    def announce(self) -> None:
        """Have our agents announced again: the room may have forgotten who is here."""
        if self._on_arrival is not None:
            self._on_arrival()

    def apply(self, message: bytes, origin: Literal["own", "room"]) -> None:
        """Take an awareness message that we send, or that the room sends."""
        self._awareness.apply_awareness_update(read_message(message[1:]), origin)

    async def run(self) -> None:
        """Drop the states of those who are silent for too long, until this is cancelled."""
        await self._awareness.start()

    def _on_change(self, topic: str, changes: tuple[dict[str, Any], Any]) -> None:
        wishes = {client: state.get("autosave") for client, state in self.states.items() if state}
        if topic == "change" and wishes != self._autosave:
            self._autosave = wishes
            self.announce()
