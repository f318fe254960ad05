"""One session for a notebook, whoever opens it at the same moment, and wherever it is moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakValueDictionary

from tornado.web import HTTPError

from .workaround import Server, Workaround, changed_signature

_PARAMETERS = ("path", "name", "type", "kernel_name", "kernel_id")


class SessionCreation(Workaround):
    name = "session_creation"
    package = "jupyter-server"
    fault = (
        "Its handler looks for a session first and creates one later. A person who opens a "
        "notebook in the moment in which an agent starts its kernel gets a second one, and neither "
        "knows. A session that is being created does not follow its file when that is renamed."
    )
    issue = "https://github.com/jupyter-server/jupyter_server/issues/197"
    patches = ("SessionManager.create_session",)
    without = (
        "a notebook that a person and an agent open in the same moment can get two kernels, and "
        "one that is renamed while its kernel starts loses it"
    )

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._creations: set[_Creation] = set()

    def check(self, server: Server) -> list[str]:
        return [
            *changed_signature(server.sessions, "create_session", *_PARAMETERS, is_async=True),
            *changed_signature(server.sessions, "get_session", "kwargs", is_async=True),
            *changed_signature(
                server.sessions, "update_session", "session_id", "kwargs", is_async=True
            ),
        ]

    def apply(self, server: Server) -> None:
        sessions = server.sessions
        create: Callable[..., Awaitable[dict[str, Any]]] = sessions.create_session

        async def create_session(
            path: str | None = None,
            name: str | None = None,
            type: str | None = None,  # noqa: A002
            kernel_name: str | None = None,
            kernel_id: str | None = None,
        ) -> dict[str, Any]:
            if type != "notebook" or path is None:
                return await create(path, name, type, kernel_name, kernel_id)
            with self._follow(path) as creation:
                async with self.lock(path):
                    existing = await find_session(sessions, creation.path)
                    if existing is not None:
                        return existing
                    at = creation.path
                    if at != path:
                        name = at.rpartition("/")[2]
                    session = await create(at, name, type, kernel_name, kernel_id)
                    while creation.path != at:
                        at = creation.path
                        session = await move_session(sessions, session["id"], at)
                    return session

        sessions.create_session = create_session

    def lock(self, path: str) -> asyncio.Lock:
        """Held while the session of a notebook is created or replaced."""
        return self._locks.setdefault(path, asyncio.Lock())

    def rename(self, old: str, new: str) -> None:
        """Make sessions that are being created follow a renamed file or folder."""
        for creation in self._creations:
            path = renamed(creation.path, old, new)
            if path is None:
                continue
            # Under both names until the session exists.
            if (lock := self._locks.get(creation.path)) is not None:
                self._locks.setdefault(path, lock)
            creation.path = path

    @contextmanager
    def _follow(self, path: str) -> Iterator[_Creation]:
        creation = _Creation(path)
        self._creations.add(creation)
        try:
            yield creation
        finally:
            self._creations.discard(creation)


@dataclass(eq=False, slots=True)
class _Creation:
    """A session that is being created."""

    path: str
    """The current path of its file."""


async def find_session(sessions: Any, path: str) -> dict[str, Any] | None:
    """The session of a notebook; None if it has none."""
    try:
        return cast("dict[str, Any]", await sessions.get_session(path=path, type="notebook"))
    except HTTPError:
        return None


async def move_session(sessions: Any, session_id: str, path: str) -> dict[str, Any]:
    """Give a session another path."""
    await sessions.update_session(session_id, path=path, name=path.rpartition("/")[2])
    return cast("dict[str, Any]", await sessions.get_session(session_id=session_id))


def renamed(path: str, old: str, new: str) -> str | None:
    """The new path of a file after a file or folder was renamed; None if it is not affected."""
    return f"{new}{path[len(old) :]}" if f"{path}/".startswith(f"{old}/") else None
