"""Who is in a room, read from the awareness states that its members share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .members import member_of

_MOST_PEOPLE = 200


States = Mapping[int, Mapping[str, Any]]
"""What everybody says about themselves, by client id."""


def well_formed(states: Mapping[int, Any]) -> States:
    """The states that say something: any member of a room can send anything."""
    if all(isinstance(state, dict) for state in states.values()):
        return states
    return {client: state for client, state in states.items() if isinstance(state, Mapping)}


class Arrivals:
    """Notices who comes and goes in an awareness, and who switches autosave on or off."""

    def __init__(self) -> None:
        self._wishes: dict[int, Any] = {}

    def noticed(self, states: Mapping[int, Any]) -> bool:
        """Whether anything changed since the last call."""
        wishes = {client: state.get("autosave") for client, state in well_formed(states).items()}
        changed, self._wishes = wishes != self._wishes, wishes
        return changed


def is_agent(state: Mapping[str, Any] | None) -> bool:
    """Whether a state is an agent's, of this process or of another one of ours."""
    member = member_of(state)
    return member is not None and member.is_agent


def people_in(states: States, without: str = "") -> list[str]:
    """Who is in an awareness, by the names that JupyterLab shows.

    Args:
        without: The user name of somebody who is not meant.
    """
    members = map(member_of, states.values())
    names = {each.name for each in members if each is not None and each.id != without}
    return sorted(names)[:_MOST_PEOPLE]
