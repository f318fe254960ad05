"""An agent: one credential under one name. Two agents of one person are two collaborators."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from ..documents.members import agent_username

#: The name of an agent that gives none.
ANONYMOUS = "Agent"

_LONGEST_NAME = 60

#: Agents that are remembered: each request asks who makes it.
_REMEMBERED = 500


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent that acts. It never has the person's own user name."""

    credential: str
    name: str
    bound: bool = field(default=False, compare=False)
    """Whether the agent stays as long as this process runs; others may leave without notice."""
    key: str = field(init=False, compare=False)
    """The origin of its transactions, and its name in the table of authors."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.name} <{self.credential}>")

    @property
    def username(self) -> str:
        """The id that others know it by."""
        return agent_username(self.key)

    @classmethod
    @lru_cache(_REMEMBERED)
    def named(cls, credential: str, *names: str | None, bound: bool = False) -> Agent:
        """An agent with the first name that is not empty."""
        for name in names:
            if name and (shown := " ".join(name.split())[:_LONGEST_NAME]):
                return cls(credential, shown, bound)
        return cls(credential, ANONYMOUS, bound)


def name_in(key: str) -> str:
    """The name of the agent with a key."""
    return key.rpartition(" <")[0]


def credential_in(key: str) -> str:
    """The credential of the agent with a key."""
    return key.rpartition(" <")[2].removesuffix(">")
