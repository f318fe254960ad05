"""Who is behind an awareness state, or behind an edit: a person or an agent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from .foreign_text import NAME

#: The beginning of every agent's username, and all of it. A person's is Jupyter's own.
_AGENT = "agent-"
_USERNAME = re.compile(rf"{_AGENT}[0-9a-f]{{16}}")

#: Agents whose usernames are remembered: each edit asks several times.
_REMEMBERED = 500


class Member(NamedTuple):
    """A person or an agent."""

    id: str
    """Stable: the `username` of the awareness. Empty if nobody is known."""
    name: str
    """The name that people read; several people may have the same."""
    is_agent: bool = False

    @classmethod
    @lru_cache(_REMEMBERED)
    def agent(cls, key: str, name: str) -> Member:
        """An agent of this process, by its key."""
        return cls(agent_username(key), name, True)


@lru_cache(_REMEMBERED)
def agent_username(key: str) -> str:
    """The username of an agent in the awareness of any room.

    Must differ from every person's: JupyterLab hides whoever has the user's own.
    """
    return f"{_AGENT}{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def is_agent(username: object) -> bool:
    """Whether a username is an agent's."""
    return _USERNAME.fullmatch(str(username)) is not None


def member_of(state: Mapping[str, Any] | None) -> Member | None:
    """Who is behind an awareness state, if it says so."""
    user = state.get("user") if isinstance(state, Mapping) else None
    if not isinstance(user, Mapping):
        return None
    name = user.get("display_name") or user.get("name") or user.get("username")
    username = str(user.get("username") or name)[:NAME]
    if is_agent(username) and user.get("name"):
        name = f"{user['name']} (agent)"  # without what it is doing, which is in its display name
    return Member(username, str(name)[:NAME], is_agent(username)) if name else None


def people_of(states: Iterable[Mapping[str, Any] | None]) -> dict[str, Member]:
    """The people behind some awareness states, by their ids; without agents."""
    members = (member_of(state) for state in states)
    return {who.id: who for who in members if who is not None and not who.is_agent}
