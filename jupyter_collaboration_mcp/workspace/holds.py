"""Which agents people have paused or stopped: this alone decides whether an agent may go on.

People hold an agent, which is a name and a credential. With a credential that one agent has alone,
its own token, that is all that has the credential. Others share one: Jupyter's own token, a user.
Who comes with a name that was never seen before, while an agent with the same credential is held,
is held in the same way, so that no agent escapes by taking another name.
"""

from __future__ import annotations

from collections.abc import Callable

from ..collaboration.panel.entries import AgentState
from ..errors import AgentPaused, AgentStopped
from .agent import Agent
from .permissions import Level

_STRICTNESS: dict[AgentState, int] = {"active": 0, "paused": 1, "stopped": 2}

STATES: tuple[AgentState, ...] = ("active", "paused", "stopped")

Hold = Callable[[Level], None]
"""Refuses what an agent may not do now because a person holds it.

Raises:
    AgentHeld: A person has paused or stopped it.
"""


def no_hold(level: Level) -> None:
    """Of an agent that nobody holds."""


class Holds:
    """The agents of one server that are known, and what people let them do."""

    def __init__(self) -> None:
        self._states: dict[str, dict[str, AgentState]] = {}  # by credential and key
        self._held = 0

    def state_of(self, agent: Agent) -> AgentState:
        """What people let an agent do."""
        if not self._held:
            return "active"
        known = self._states.get(agent.credential, {})
        if (state := known.get(agent.key)) is not None:
            return state
        return max(known.values(), key=lambda each: _STRICTNESS[each], default="active")

    def require(self, agent: Agent, level: Level) -> None:
        """Refuse what an agent may not do now.

        Raises:
            AgentHeld: A person has paused or stopped it.
        """
        if not self._held:
            return
        state = self.state_of(agent)
        if state == "stopped":
            raise AgentStopped.refusing()
        if state == "paused" and level > Level.read:
            raise AgentPaused.refusing()

    def meet(self, agent: Agent) -> AgentState:
        """Remember an agent, so that later holds of others are not its own."""
        known = self._states.setdefault(agent.credential, {})
        if agent.key not in known:
            self.set(agent.credential, agent.key, self.state_of(agent))
        return known[agent.key]

    def set(self, credential: str, key: str, state: AgentState) -> None:
        """Let an agent do something from now on."""
        known = self._states.setdefault(credential, {})
        self._held += (state != "active") - (known.get(key, "active") != "active")
        known[key] = state

    def states(self) -> dict[str, AgentState]:
        """What people let each agent do that is known, by key."""
        return {key: state for known in self._states.values() for key, state in known.items()}

    def forget(self, credential: str, key: str) -> None:
        """Forget an agent."""
        known = self._states.get(credential, {})
        self._held -= known.pop(key, "active") != "active"
        if not known:
            self._states.pop(credential, None)
