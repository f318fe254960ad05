"""The names by which agents refer to notebooks, where they name a notebook once and use that."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import InvalidArgument, NotebookUnknown
from ..remedies import Intent

#: Names of one agent, and agents with names; those that were not used for longest are forgotten.
_NAMES, _AGENTS = 100, 500

#: Characters of a name.
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class NamedNotebook:
    """A notebook to which an agent has given a name."""

    alias: str
    """Of its server."""
    url: str | None
    """Of its server, too: another one may get the alias."""
    path: str
    """When it was named."""
    file_id: str
    """By which it is found after a rename; empty for a fork."""


class NotebookNames:
    """What each agent calls which notebook, until the server or the command ends."""

    def __init__(self) -> None:
        self._agents: OrderedDict[str, OrderedDict[str, NamedNotebook]] = OrderedDict()

    def get(self, agent: str, name: str) -> NamedNotebook:
        """The notebook with a name.

        Raises:
            NotebookUnknown: The agent has given this name to none.
        """
        names = self._agents.get(agent, OrderedDict())
        if name not in names:
            raise NotebookUnknown.among(names, name)
        self._agents.move_to_end(agent)
        names.move_to_end(name)
        return names[name]

    def find(self, agent: str, name: str) -> NamedNotebook | None:
        """The notebook with a name, if there is one."""
        return self._agents.get(agent, OrderedDict()).get(name)

    def put(self, agent: str, name: str, notebook: NamedNotebook) -> None:
        """Give a notebook a name; one that has it already loses it."""
        names = self._agents.setdefault(agent, OrderedDict())
        names[name] = notebook
        names.move_to_end(name)
        self._agents.move_to_end(agent)
        if len(names) > _NAMES:
            names.popitem(last=False)
        if len(self._agents) > _AGENTS:
            self._agents.popitem(last=False)

    def of(self, agent: str) -> Iterator[tuple[str, NamedNotebook]]:
        """All names of an agent, in alphabetical order."""
        yield from sorted(self._agents.get(agent, OrderedDict()).items(), key=lambda each: each[0])


def checked_name(name: str) -> str:
    """A name that an agent wants to give.

    Raises:
        InvalidArgument: It has no characters, too many, or some that no table can hold.
    """
    if not name.strip() or len(name) > _LONGEST or not name.isprintable():
        raise InvalidArgument(
            f"A notebook cannot have the name {name[:80]!r}.",
            f"Choose a name of 1 to {_LONGEST} visible characters.",
        )
    return name


def require_free(known: NamedNotebook | None, name: str, same: bool, reconnect: bool) -> None:
    """Refuse a name that the agent has given already.

    Args:
        known: The notebook that has the name.
        same: Whether that is the notebook which is to get it.
        reconnect: Whether the agent knows that.

    Raises:
        InvalidArgument: It has.
    """
    if known is None or (same and reconnect):
        return
    if same:
        raise InvalidArgument(
            f"{name!r} is connected to this notebook already. Nothing was done.",
            Intent.USE_NAME,
        )
    where = f" on {known.url}" if known.url else ""
    raise InvalidArgument(
        f"{name!r} is the name of another notebook, {known.path!r}{where}. Nothing was done.",
        "Choose another name for this one.",
    )
