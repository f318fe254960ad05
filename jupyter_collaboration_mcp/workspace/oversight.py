"""What people do with agents: let them go on, pause, stop or forget them, and see who is here."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from ..collaboration.panel.entries import AgentEntry, AgentState, CallEntry
from ..collaboration.panel.ledger import Ledger
from ..errors import CommandAway, InternalError, NotInPanel, StillConnected, StillHeld, TokenGone
from ..owned_tasks import OwnedTasks
from .holds import Holds
from .runs import Runs
from .workspace import Workspace

_log = logging.getLogger(__name__)

#: Seconds after its last call for which an agent counts as connected: most leave without notice.
_SILENCE = 45.0

#: Seconds between looks at who is still connected.
_LOOK = 5.0

#: Seconds that runs have to end before whoever stopped them is answered.
_INTERRUPTING = 0.7

_STOPPED = "a person has stopped its agent"

#: Why a run ended that a person has interrupted in the panel.
INTERRUPTED = "a person has interrupted it"


class Durable(Protocol):
    """Where entries are kept."""

    async def flush(self) -> bool:
        """Return when everything is written; whether it really is."""


class Oversight:
    """The agents of one server.

    Args:
        revoke: Makes the token behind a credential worthless.
    """

    def __init__(
        self,
        ledger: Ledger,
        holds: Holds,
        kept: Durable,
        workspace: Workspace,
        runs: Runs,
        revoke: Callable[[str], Awaitable[None]],
    ) -> None:
        self._ledger = ledger
        self._holds = holds
        self._kept = kept
        self._workspace = workspace
        self._runs = runs
        self._revoke = revoke
        self._tasks = OwnedTasks()
        self.on_hold: Callable[[AgentEntry], None] | None = None
        """Called with each agent that may do something else from now on."""
        self.known: Callable[[], Awaitable[None]] | None = None
        """Waits a moment until all who have to know it know."""
        ledger.on_forgotten = lambda agent: holds.forget(agent.credential, agent.key)
        self.interrupt_elsewhere: Callable[[CallEntry, str], bool] = lambda call, key: False
        """Ends the runs of an agent, by its key, in the command that made a call; whether that can
        be told."""
        for agent in ledger.agents.values():
            holds.set(agent.credential, agent.key, agent.state)

    def start(self) -> None:
        """Notice from now on who is not connected any more."""
        self._tasks.start(self._look())

    async def close(self) -> None:
        await self._tasks.close()

    def find(self, agent_id: str) -> AgentEntry:
        """An agent by its id.

        Raises:
            NotInPanel: There is none.
        """
        agent = self._ledger.agents.get(agent_id)
        if agent is None:
            raise NotInPanel.of("agent", agent_id)
        return agent

    async def hold(self, agent: AgentEntry, state: AgentState) -> None:
        """Let an agent do something, or not, from now on and after a restart of the server.

        Raises:
            TokenGone: It cannot go on, because its token was revoked.
        """
        await self._hold([agent], state)

    async def stop_all(self) -> list[AgentEntry]:
        """Stop all agents that are known."""
        agents = list(self._ledger.agents.values())
        await self._hold(agents, "stopped")
        return agents

    async def _hold(self, agents: Sequence[AgentEntry], state: AgentState) -> None:
        held = [each for agent in agents for each in self._together(agent)]
        for agent in held:
            if state != "stopped" and not self._ledger.can_return(agent):
                raise TokenGone.of(agent.name)
        for agent in held:
            self._holds.set(agent.credential, agent.key, state)
            agent.state = state
            self._ledger.say_agent(agent)
            if self.on_hold is not None:
                self.on_hold(agent)
        if self.known is not None:
            await self.known()
        if state == "stopped":
            await self._end(held)
        if not await self._kept.flush():
            _log.error("It cannot be stored that agents are %s: a restart forgets it", state)

    async def interrupt(self, call: CallEntry) -> None:
        """End what the agent of a call runs, and nothing that people run.

        Raises:
            CommandAway: The command that it was made in is not connected.
        """
        key = self.find(call.agent).key
        if not call.source:
            await self._end_runs({key}, INTERRUPTED)
        elif not self.interrupt_elsewhere(call, key):
            raise CommandAway.of(call.tool)

    async def _end_runs(self, keys: Collection[str], reason: str) -> None:
        """End what agents run; code that ignores an interrupt is not waited for."""
        ending = self._tasks.start(self._runs.end_of(lambda key: key in keys, reason))
        await asyncio.wait([ending], timeout=_INTERRUPTING)

    def _together(self, agent: AgentEntry) -> list[AgentEntry]:
        """The agents that are one for whoever holds them: those with one and the same own token."""
        if not agent.has_own_token:
            return [agent]
        return list(self._ledger.of_credential(agent.credential))

    async def _end(self, agents: Sequence[AgentEntry]) -> None:
        """End what agents do."""
        keys = {agent.key for agent in agents}
        await self._end_runs(keys, _STOPPED)
        for key in keys:
            self._workspace.rooms.leave(key)
        for credential in {each.credential for each in agents if each.has_own_token}:
            try:
                await self._revoke(credential)
            except OSError:  # it is stopped all the same, and so are the others
                _log.exception("The token of a stopped agent cannot be revoked")
        for agent in agents:
            agent.connected = False
            self._ledger.say_agent(agent)  # without its token

    async def forget(self, agent: AgentEntry) -> None:
        """Forget an agent that is not here, and its calls.

        Raises:
            StillConnected: It is here.
        """
        if self._is_connected(agent):
            raise StillConnected.named(agent.name)
        if agent.state != "active" and self._ledger.can_return(agent):
            raise StillHeld.named(agent.name, agent.state)
        self._holds.forget(agent.credential, agent.key)
        self._ledger.forget_agent(agent.id)
        if not await self._kept.flush():
            raise InternalError.undone(OSError("the file of the panel cannot be written"))

    # -- who is here -------------------------------------------------------------------------

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            for agent in list(self._ledger.agents.values()):
                if agent.connected and not self._is_connected(agent):
                    agent.connected = False
                    self._ledger.say_agent(agent)

    def _is_connected(self, agent: AgentEntry) -> bool:
        if agent.work or agent.runs or time.time() - agent.seen / 1000 < _SILENCE:
            return agent.connected
        seats = self._workspace.rooms.seats_of(agent.key)
        return any(seat.presence is not None for _, seat in seats)
