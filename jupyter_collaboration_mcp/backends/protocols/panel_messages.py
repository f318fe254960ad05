"""What a command and the panel of a server tell each other about the agents of the command.

The command sends events of its own ledger, and the steps that undo what its agents did; each
message has a number, and is sent again until it is acknowledged. The server sends back which agents
people hold, and which steps they have undone.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from .steps import Lazy, StoredStep

#: Below the path of our extension.
REPORTS = "panel/reports"

#: Characters of a step that is reported; what is larger cannot be undone from the panel.
MOST_CHARACTERS = 2_000_000

_LONGEST = 500


class PanelReports(Protocol):
    """Tells the panel of a server what agents of another process do there."""

    on_message: Callable[[Mapping[str, Any]], None] | None
    """Called with what the server says."""

    @property
    def wanted(self) -> bool:
        """Whether the server may have a panel, as far as known."""

    def send(self, message: Mapping[str, Any]) -> None:
        """Tell the server something, soon, or once the line is open."""

    def open(self) -> None:
        """Say what there is to say: an agent uses the server."""

    async def ready(self) -> None:
        """Wait a moment for what people have decided, if this is not known yet."""


def dump_step(step: StoredStep) -> dict[str, Any]:
    """A step as JSON values."""
    changes = step.changes.make() if isinstance(step.changes, Lazy) else step.changes
    return {
        "id": step.id,
        "agent": step.agent,
        "version": step.version,
        "call": step.call,
        "characters": step.characters,
        "changes": base64.b64encode(changes).decode(),
    }


def load_step(said: Mapping[str, Any]) -> StoredStep:
    """The step that somebody sent.

    Raises:
        KeyError, TypeError, ValueError: It is none.
    """
    texts = [said[name] for name in ("id", "agent", "call")]
    if not all(isinstance(text, str) and 0 < len(text) <= _LONGEST for text in texts):
        raise ValueError("the names of a step")
    changes = base64.b64decode(said["changes"], validate=True)
    step_id, agent, call = texts
    return StoredStep(step_id, agent, int(said["version"]), call, len(changes), changes)
