"""Agents that leave: those of the older protocol era say so, by ending their session.

The requests of the newer era have nothing to do with each other: nothing tells that there will be
no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp.server.connection import Connection

#: What a connection remembers of the agents that called through it.
_AGENTS = "jupyter_collaboration_mcp.agents"


class Attendance:
    """Counts the sessions of each agent.

    Args:
        left: Called with the key of an agent whose last session has ended.
    """

    def __init__(self, left: Callable[[str], None]) -> None:
        self._left = left
        self._sessions: Counter[str] = Counter()

    def note(self, connection: Connection, agent: str) -> None:
        """An agent has called; if it did so in a session, the end of that will be noticed."""
        if connection.session_id is None:
            return
        agents: set[str] = connection.state.setdefault(_AGENTS, set())
        if agent not in agents:
            agents.add(agent)
            self._sessions[agent] += 1
            connection.exit_stack.callback(self._end_session, agent)

    def _end_session(self, agent: str) -> None:
        self._sessions[agent] -= 1
        if not self._sessions[agent]:
            del self._sessions[agent]
            self._left(agent)
