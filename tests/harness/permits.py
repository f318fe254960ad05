"""Calls that may do anything, for tests of what is below the tools."""

from __future__ import annotations

from jupyter_collaboration_mcp.workspace.agent import Agent
from jupyter_collaboration_mcp.workspace.open_document import OpenDocument
from jupyter_collaboration_mcp.workspace.permissions import Level
from jupyter_collaboration_mcp.workspace.permits import Call, Permit
from jupyter_collaboration_mcp.workspace.workspace import Workspace


async def allow(action: str, resource: str, path: str | None) -> bool:
    return True


async def ignore(progress: float, message: str) -> None:
    pass


def permit(workspace: Workspace, path: str, agent: Agent | None = None) -> Permit:
    """What a call may do that may do anything."""
    agent = Agent("token", "Ada") if agent is None else agent
    call = Call("test", agent, Level.admin, Level.admin, allow, False, ignore)
    return Permit(call, workspace, Level.admin, path)


async def open_at(workspace: Workspace, agent: Agent, path: str) -> OpenDocument:
    """A notebook that an agent has opened."""
    return await workspace.open(permit(workspace, path, agent))
