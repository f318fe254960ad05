"""Who is in a room, read from the awareness states that its members share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from .foreign_text import NAME

_MOST_PEOPLE = 200


#: How the user names of agents begin. They must differ from every person's: JupyterLab hides
#: whoever has the viewer's own.
_AGENT = "agent-"


class Arrivals:
    """Notices who comes and goes in an awareness, and who switches autosave on or off."""

    def __init__(self) -> None:
        self._wishes: dict[int, Any] = {}

    def noticed(self, states: Mapping[int, Mapping[str, Any]]) -> bool:
        """Whether anything changed since the last call."""
        wishes = {client: state.get("autosave") for client, state in states.items() if state}
        changed, self._wishes = wishes != self._wishes, wishes
        return changed


def agent_username(key: str) -> str:
    """The user name of an agent, which stays the same."""
    return f"{_AGENT}{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def user_of(state: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What a state says about its user; empty if nothing."""
    user = state.get("user") if isinstance(state, Mapping) else None
    return user if isinstance(user, Mapping) else {}


def is_agent(state: Mapping[str, Any] | None) -> bool:
    """Whether a state is an agent's, of this process or of another one of ours."""
    return str(user_of(state).get("username", "")).startswith(_AGENT)


def name_of(state: Mapping[str, Any] | None) -> str | None:
    """The name of a user as people read it; an agent's without what it is doing."""
    user = user_of(state)
    if is_agent(state) and user.get("name"):
        return f"{user['name']} (agent)"[:NAME]
    name = user.get("display_name") or user.get("name")
    return str(name)[:NAME] if name else None


def people_in(states: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Who is in an awareness, by the names that JupyterLab shows."""
    names = map(name_of, states.values())
    return sorted({name for name in names if name})[:_MOST_PEOPLE]
