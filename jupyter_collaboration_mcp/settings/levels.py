"""The permission levels of several servers, as one setting gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..workspace.permissions import Level


@dataclass(frozen=True, slots=True)
class Levels:
    """What agents may do: on all servers, and on single ones by alias."""

    everywhere: Level | None = None
    """None if nothing was said about all of them."""
    by_alias: Mapping[str, Level] = field(default_factory=dict)

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Levels:
        """The levels in texts like `read` and `work=write`.

        Raises:
            ValueError: One of them names no level.
        """
        everywhere: Level | None = None
        by_alias: dict[str, Level] = {}
        for text in texts:
            alias, equals, level = text.rpartition("=")
            if level not in Level.__members__:
                choices = ", ".join(Level.__members__)
                raise ValueError(f"there is no permission level {level!r}; choose from {choices}.")
            if equals:
                by_alias[alias] = Level[level]
            else:
                everywhere = Level[level]
        return cls(everywhere, by_alias)

    @property
    def general(self) -> Level:
        """The level of a server that has none of its own."""
        return Level.admin if self.everywhere is None else self.everywhere

    @property
    def highest(self) -> Level:
        return max([self.general, *self.by_alias.values()])

    def of(self, alias: str) -> Level:
        """The level of a server that the person named, or that was there from the beginning."""
        return self.by_alias.get(alias, self.general)

    @property
    def of_others(self) -> Level:
        """The level of a server that an agent connects. If the person gave levels to single servers
        only, it is the lowest of them: nobody said that more is allowed elsewhere."""
        lowest = min(self.by_alias.values(), default=Level.admin)
        return lowest if self.everywhere is None else self.everywhere
