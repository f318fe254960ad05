"""An agent: one credential under one name. Two agents of one person are two collaborators."""

from __future__ import annotations

from dataclasses import dataclass

#: How an agent is called that gives no name.
ANONYMOUS = "Agent"

_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Agent:
    """Who acts. Never the person's own user name."""

    credential: str
    name: str

    @property
    def key(self) -> str:
        """The origin of its transactions, and its name in the table of authors."""
        return f"{self.name} <{self.credential}>"

    @classmethod
    def named(cls, credential: str, *names: str | None) -> Agent:
        """An agent by the first name that says something."""
        for name in names:
            if name and (shown := " ".join(name.split())[:_LONGEST_NAME]):
                return cls(credential, shown)
        return cls(credential, ANONYMOUS)
