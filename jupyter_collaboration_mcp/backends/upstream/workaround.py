"""What a workaround for a fault of another library is, and how it checks what it patches.

Each one patches objects of a library that did not ask for it. So each says what it expects to find
there, which is checked when the server starts: with a release that differs the workaround is left
out, and people's documents load and save as that release does it.
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
    """What has to happen around a rename."""

    def hold_saves(self, path: str) -> AbstractAsyncContextManager[Sequence[DocumentRoom]]:
        """Keep the rooms at or below a path from saving, and return them."""

    def moving(self, path: str, new_path: str) -> AbstractAsyncContextManager[None]:
        """Entered before a file gets another path, and left before anybody may save again."""


class RoomObserver(Protocol):
    """Who wants to know what happens to one room. Nothing of this may raise."""

    def on_snapshot(self) -> None:
        """The current task takes the document's content in order to save it."""

    def on_overwrite(self) -> None:
        """The content of the file is about to replace what the room has."""

    def on_overwritten(self) -> None:
        """The content of the file has replaced what the room had."""

    def on_stored(self, update: bytes) -> None:
        """The store has an update."""

    def on_written(self, file_hash: str) -> None:
        """What the current task was to save is in the file, although the task was cancelled."""


@dataclass(frozen=True, slots=True)
class Server:
    """The parts of a Jupyter server that workarounds are about."""

    contents: Any
    """Its contents manager."""
    disk: LocalDisk | None
    """Where that has its files, if they are local."""
    file_ids: Any
    """The manager of file ids; None if there is none."""
    ydoc: Any
    """The extension jupyter_server_ydoc; None where there are no rooms."""
    sessions: Any
    """Its session manager."""
    renames: RenameHooks
    prepare_loader: Callable[[Any], None]
    """To be called with each file loader before its first load."""
    log: Logger


class Workaround(ABC):
    """One fault of another library, and what we do about it."""

    name: ClassVar[str]
    """As in the setting that switches it off."""
    trap: ClassVar[str] = ""
    """Its number in comments, if it has one."""
    package: ClassVar[str]
    """The distribution that has the fault."""
    fault: ClassVar[str]
    """What that does, in a sentence or two."""
    issue: ClassVar[str] = ""
    """Where it is reported upstream, if it is."""
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
        """Called once, when all extensions are loaded and before anybody is served."""

    def on_loader(self, loader: Any) -> None:  # noqa: B027
        """Called with each file loader, before it loads anything where that can be arranged."""

    def on_room(self, room: DocumentRoom, observer: RoomObserver) -> None:  # noqa: B027
        """Called with each room once it is loaded, before anybody can have edited it."""


# -- checks ----------------------------------------------------------------------------------


def missing_attributes(owner: Any, *names: str) -> list[str]:
    """Which attributes a class, module or object lacks."""
    return [f"{_name(owner)} has no {name}" for name in names if not hasattr(owner, name)]


def missing_fields(owner: type, *names: str) -> list[str]:
    """Which attributes the constructors of a class do not set."""
    known: set[str] = set()
    for base in owner.__mro__:
        if inspect.isfunction(init := vars(base).get("__init__")):
            known.update(inspect.unwrap(init).__code__.co_names)
    return [f"{_name(owner)} sets no {name}" for name in names if name not in known]


def changed_signature(
    owner: Any, name: str, *parameters: str, is_async: bool | None = None
) -> list[str]:
    """How a function differs from one with these parameters; `self` is left out.

    Args:
        is_async: Whether it has to be a coroutine function; None if either will do.
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
    """Whether a function is missing, or is no coroutine function."""
    if inspect.iscoroutinefunction(getattr(owner, name, None)):
        return []
    return [f"{_name(owner)}.{name} is not a coroutine function"]


def unused_names(owner: Any, name: str, *names: str) -> list[str]:
    """Which attributes or globals a function no longer uses, so that a patch would do nothing."""
    function = inspect.unwrap(getattr(owner, name, None) or (lambda: None))
    code = getattr(function, "__code__", None)
    used = () if code is None else (*code.co_names, *code.co_freevars)
    return [f"{_name(owner)}.{name} does not use {each}" for each in names if each not in used]


def _name(owner: Any) -> str:
    return str(getattr(owner, "__qualname__", None) or getattr(owner, "__name__", None) or owner)
