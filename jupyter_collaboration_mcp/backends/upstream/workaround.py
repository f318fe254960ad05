"""The base class of workarounds for faults of other libraries, and checks of what they patch.

Each one patches objects of a library that did not ask for it. So each declares what it expects to
find there, which is checked when the server starts: if a release differs, the workaround is
skipped, and people's documents load and save as that release does it.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from logging import Logger
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

if TYPE_CHECKING:
    from jupyter_server_ydoc.rooms import DocumentRoom

    from ..disk.local_disk import LocalDisk

#: When and where a workaround is checked and applied.
Stage = Literal["server start", "first MCP request", "start of the command's own server"]


class RenameHooks(Protocol):
    """What to do around a rename."""

    def hold_saves(self, path: str) -> AbstractAsyncContextManager[Sequence[DocumentRoom]]:
        """Keep the rooms at or below a path from saving, and yield them."""

    def moving(self, path: str, new_path: str) -> AbstractAsyncContextManager[None]:
        """Entered before a file gets another path, and left before anybody may save again."""


class RoomObserver(Protocol):
    """Observes what happens to one room. Its methods must not raise."""

    def on_snapshot(self) -> None:
        """Called when the current task reads the document's content in order to save it."""

    def on_overwrite(self) -> None:
        """Called when the content of the file is about to replace what the room has."""

    def on_overwritten(self) -> None:
        """Called when the content of the file has replaced what the room had."""

    def on_stored(self, update: bytes) -> None:
        """Called when the store has an update."""

    def on_written(self, file_hash: str) -> None:
        """Called when the file has what the current task saved, although the task was cancelled."""


@dataclass(frozen=True, slots=True)
class Server:
    """The parts of a Jupyter server that workarounds are about."""

    contents: Any
    """Its contents manager."""
    disk: LocalDisk | None
    """Where the contents manager has its files, if they are local."""
    file_ids: Any
    """The manager of file ids; None if there is none."""
    ydoc: Any
    """The extension jupyter_server_ydoc; None if there are no rooms."""
    sessions: Any
    """Its session manager."""
    renames: RenameHooks
    prepare_loader: Callable[[Any], None]
    """Call this with each file loader before its first load."""
    log: Logger


class Workaround(ABC):
    """One fault of another library, and what we do about it."""

    name: ClassVar[str]
    """Its name in the setting that switches it off."""
    trap: ClassVar[str] = ""
    """Its number in comments, if it has one."""
    package: ClassVar[str]
    """The distribution that has the fault."""
    fault: ClassVar[str]
    """What the package does wrong, in a sentence or two."""
    issue: ClassVar[str] = ""
    """Its report upstream, if there is one."""
    patches: ClassVar[Sequence[str]]
    """What is replaced or relied on, for the documentation."""
    without: ClassVar[str]
    """What is weaker without the workaround, as a clause."""
    stage: ClassVar[Stage] = "server start"
    optional: ClassVar[bool] = True
    """Whether a setting can switch it off."""

    @abstractmethod
    def check(self, server: Server) -> list[str]:
        """What differs from what the workaround expects, in a phrase each; empty if it fits."""

    def apply(self, server: Server) -> None:  # noqa: B027
        """Called once, when all extensions are loaded and before the first request."""

    def on_loader(self, loader: Any) -> None:  # noqa: B027
        """Called once with each file loader, before it loads anything where possible."""

    def on_room(self, room: DocumentRoom, observer: RoomObserver) -> None:  # noqa: B027
        """Called once with each room when it is loaded, before anybody can have edited it."""


# -- checks ----------------------------------------------------------------------------------


def missing_attributes(owner: Any, *names: str) -> list[str]:
    """The attributes that a class, module or object lacks."""
    return [f"{_name(owner)} has no {name}" for name in names if not hasattr(owner, name)]


def missing_fields(owner: type, *names: str) -> list[str]:
    """The attributes that the constructors of a class do not set."""
    known: set[str] = set()
    for base in owner.__mro__:
        if inspect.isfunction(init := vars(base).get("__init__")):
            known.update(inspect.unwrap(init).__code__.co_names)
    return [f"{_name(owner)} sets no {name}" for name in names if name not in known]


def changed_signature(
    owner: Any, name: str, *parameters: str, is_async: bool | None = None
) -> list[str]:
    """How a function differs from one with these parameters, apart from `self`.

    Args:
        is_async: Whether it must be a coroutine function; None if either will do.
    """
    function = getattr(owner, name, None)
    if not callable(function):
        return [f"{_name(owner)} has no {name}"]
    if is_async is not None and inspect.iscoroutinefunction(function) != is_async:
        return [f"{_name(owner)}.{name} is {'not ' if is_async else ''}a coroutine function"]
    try:
        found = tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return [f"{_name(owner)}.{name} has no signature"]
    if inspect.isclass(owner) and found[:1] == ("self",):
        found = found[1:]
    if found == parameters:
        return []
    return [
        f"{_name(owner)}.{name} takes ({', '.join(found)}) instead of ({', '.join(parameters)})"
    ]


def not_async(owner: Any, name: str) -> list[str]:
    """Whether a function is missing, or is not a coroutine function."""
    if inspect.iscoroutinefunction(getattr(owner, name, None)):
        return []
    return [f"{_name(owner)}.{name} is not a coroutine function"]


def unused_names(owner: Any, name: str, *names: str) -> list[str]:
    """The attributes or globals that a function no longer uses, so that a patch has no effect."""
    function = inspect.unwrap(getattr(owner, name, None) or (lambda: None))
    code = getattr(function, "__code__", None)
    used = () if code is None else (*code.co_names, *code.co_freevars)
    return [f"{_name(owner)}.{name} does not use {each}" for each in names if each not in used]


def _name(owner: Any) -> str:
    return str(getattr(owner, "__qualname__", None) or getattr(owner, "__name__", None) or owner)
