"""Who is in a room, read from the awareness states that its members share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .foreign_text import NAME

#: People of a room that are listed at most.
_MOST_PEOPLE = 200

#: What the user names of our agents begin with; people's are chosen by Jupyter.
AGENT_PREFIX = "agent-"


def is_agent(state: Mapping[str, Any]) -> bool:
    """Whether a state is an agent's: one of ours, in this process or in another."""
    user = state.get("user")
    username = user.get("username") if isinstance(user, Mapping) else None
    return isinstance(username, str) and username.startswith(AGENT_PREFIX)


def name_in(state: Mapping[str, Any]) -> str:
    """The name that JupyterLab shows for a state; empty if it has none."""
    user = state.get("user")
    name = user.get("display_name") or user.get("name") if isinstance(user, Mapping) else None
    return str(name)[:NAME] if name else ""


def people_in(states: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Who is in an awareness, by the names that JupyterLab shows."""
    names = {name_in(state) for state in states.values() if state}
    return sorted(names - {""})[:_MOST_PEOPLE]
