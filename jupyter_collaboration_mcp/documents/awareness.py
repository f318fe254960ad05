"""Who is in a room, read from the awareness states that its members share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .members import member_of

_MOST_PEOPLE = 200


class Arrivals:
    """Notices who comes and goes in an awareness, and who switches autosave on or off."""

    def __init__(self) -> None:
        self._wishes: dict[int, Any] = {}

    def noticed(self, states: Mapping[int, Mapping[str, Any]]) -> bool:
        """Whether anything changed since the last call."""
        wishes = {client: state.get("autosave") for client, state in states.items() if state}
        changed, self._wishes = wishes != self._wishes, wishes
        return changed


def is_agent(state: Mapping[str, Any] | None) -> bool:
    """Whether a state is an agent's, of this process or of another one of ours."""
    member = member_of(state)
    return member is not None and member.is_agent


def name_of(state: Mapping[str, Any] | None) -> str | None:
    """The name of a user as people read it; an agent's without what it is doing."""
    member = member_of(state)
    return None if member is None else member.name


def people_in(states: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Who is in an awareness, by the names that JupyterLab shows."""
    names = map(name_of, states.values())
    return sorted({name for name in names if name})[:_MOST_PEOPLE]
