"""Ephemeral notebooks: real ones, in a folder of their own. Each belongs to the agent that made it,
and is deleted with its kernel when nobody uses it.

Their names alone tell that they are ephemeral, so that every process of a server hides them from
agents that they do not belong to.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from logging import Logger
from typing import Any, Protocol

from ..backends.disk.ephemeral_records import EphemeralRecords
from ..backends.protocols.files import CHECKPOINTS, Files
from ..backends.protocols.kernels import Kernels
from ..documents.template import METADATA
from ..errors import (
    CollaborationError,
    CorruptDocument,
    DocumentNotFound,
    InvalidArgument,
    NotANotebook,
    TooLarge,
)
from ..owned_tasks import TaskPerKey
from .agent import Agent
from .file_rollback import missing_parents, require_empty
from .open_rooms import OpenRoom
from .permissions import Level, clean_path

#: Notebooks that one agent may have: each is kept in memory.
_MOST = 20

#: Seconds between two looks at them, at most.
_LOOK = 10.0

#: Seconds until everybody in a room that was joined from outside has said that they are there.
_HEARING = 20.0

#: Seconds for deleting all of them when the process ends.
_CLOSING = 3.0

#: The key in a notebook's metadata that says which one it is.
_MARK = "ephemeral"


class EphemeralPlace(Protocol):
    """The documents of the server."""

    async def keep(self, path: str) -> OpenRoom:
        """Join the room of a notebook and stay in it for a while."""

    async def forget(self, path: str) -> None: ...

    async def locate(self, file_id: str) -> str | None: ...

    async def end_forks(self, opened: OpenRoom, owner: str) -> None:
        """Discard the forks of a notebook that is deleted."""

    def rooms_of(self, opened: OpenRoom) -> Sequence[OpenRoom]:
        """The room of a notebook, and those of its forks that we are in."""


@dataclass(slots=True)
class EphemeralNotebook:
    """A notebook that is to be deleted."""

    path: str
    owner: str
    """The key of the agent."""
    mark: str
    created: str
    pattern: str | None = None
    """The name of its template."""
    folders: Sequence[str] = ()
    """The folders that were created for it, or for others before it."""
    ready: bool = False
    """Whether its file has been written."""
    used: float = 0.0
    """When somebody last used it."""
    left_at: float | None = None
    """When it was adopted from a process that has ended; None if it is our own."""
    room: OpenRoom | None = None
    joined: float = 0.0
    """When we joined its room."""

    @property
    def record(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "owner": self.owner,
            "created": self.created,
            "pattern": self.pattern,
            "folders": list(self.folders),
        }


@dataclass(frozen=True, slots=True)
class EphemeralSettings:
    """Where ephemeral notebooks are, and for how long."""

    folder: str = "ephemeral"
    """The path of the folder that they are in."""
    timeout: float = 1800.0
    """Seconds without use after which one is deleted."""
    records: EphemeralRecords | None = None
    """What a later process deletes if this one is killed."""


class Ephemeral:
    """The ephemeral notebooks of one server."""

    def __init__(
        self, place: EphemeralPlace, files: Files, settings: EphemeralSettings, log: Logger
    ) -> None:
        self.folder = clean_path(settings.folder)
        self.timeout = settings.timeout
        self.kernels: Kernels | None = None
        """Where their kernels are."""
        self._place = place
        self._files = files
        self._records = settings.records
        self._log = log
        self._notebooks: dict[str, EphemeralNotebook] = {}  # by path
        self._changing = asyncio.Lock()
        self._watching = TaskPerKey[None, None]()
        self._made = asyncio.Event()  # another one: join its room now, to know who is there
        self._folders: list[str] = []  # that we created
        prefix = re.escape(f"{self.folder}/" if self.folder else "")
        self._name = re.compile(
            rf"({prefix})(?:{re.escape(CHECKPOINTS)}/)?([^/]*~[0-9a-f]{{8}})(?:-checkpoint)?\.ipynb"
        )

    # -- what others ask ---------------------------------------------------------------------

    def all(self) -> Sequence[EphemeralNotebook]:
        """Those of this process, the oldest first."""
        return list(self._notebooks.values())

    def get(self, path: str) -> EphemeralNotebook | None:
        """The one at a path, if it is of this process."""
        return self._notebooks.get(path)

    def owner_of(self, path: str) -> str | None:
        """The key of the agent that made a notebook, if it is ephemeral and of this process."""
        found = self._notebooks.get(path)
        return None if found is None else found.owner

    def is_own(self, agent: str, path: str) -> bool:
        """Whether a notebook is ephemeral and belongs to an agent."""
        return self.owner_of(path) == agent

    def visible_to(self, agent: str, level: Level, path: str) -> bool:
        """Whether an agent may know of a path. Of another's ephemeral notebook it may not, unless
        its level is admin.

        Args:
            agent: The key of the agent.
        """
        if "~" not in path or level >= Level.admin:
            return True
        named = self._name.fullmatch(path)
        return named is None or self.is_own(agent, f"{named[1]}{named[2]}.ipynb")

    def hidden_below(self, agent: str, level: Level, folder: str) -> bool:
        """Whether a folder has notebooks of this process that an agent may not know of."""
        below = (path for path in self._notebooks if path.startswith(f"{folder}/"))
        return not all(self.visible_to(agent, level, path) for path in below)

    def require_ordinary(self, path: str) -> None:
        """Refuse a name that only an ephemeral notebook may have.

        Raises:
            InvalidArgument: It is one.
        """
        if path not in self._notebooks and self._name.fullmatch(path) is not None:
            raise InvalidArgument(
                f"{path!r} would be the name of an ephemeral notebook. Nothing was done.",
                "Choose another name, or another folder.",
            )

    def touch(self, path: str) -> None:
        """Note that somebody uses a notebook."""
        if (notebook := self._notebooks.get(path)) is not None and notebook.left_at is None:
            notebook.used = time.monotonic()

    # -- beginning ---------------------------------------------------------------------------

    def new_path(self, name: str) -> str:
        """A path that nothing is at.

        Raises:
            InvalidArgument: It is not just a name.
        """
        stem = name.removesuffix(".ipynb")
        if not stem or "/" in stem or "\\" in stem or stem.startswith("."):
            raise InvalidArgument(
                "An ephemeral notebook is in a folder of its own. Nothing was written.",
                "Give only a name as path, such as scratch.",
            )
        name = f"{stem}~{secrets.token_hex(4)}.ipynb"
        return f"{self.folder}/{name}" if self.folder else name

    @asynccontextmanager
    async def making(
        self, path: str, agent: Agent, content: dict[str, Any]
    ) -> AsyncIterator[EphemeralNotebook]:
        """Mark a notebook, which is to be written meanwhile, and note it first: a crash between the
        two leaves nothing.

        Raises:
            TooLarge: The agent has too many of them.
        """
        own = [each for each in self._notebooks.values() if each.owner == agent.key]
        if len(own) >= _MOST:
            raise TooLarge(
                f"You have {len(own)} ephemeral notebooks, the most allowed. Nothing was written.",
                "Delete some of them, or rename those to keep.",
            )
        ours = content["metadata"].setdefault(METADATA, {})
        created = datetime.now(UTC).isoformat(timespec="seconds")
        notebook = EphemeralNotebook(
            path, agent.key, secrets.token_hex(8), created, ours.get("pattern")
        )
        ours[_MARK] = notebook.mark
        missing = await missing_parents(self._files, path)
        notebook.folders = self._folders = list(dict.fromkeys([*self._folders, *missing]))
        if self._records is not None:
            try:
                await asyncio.to_thread(self._records.add, notebook.mark, notebook.record)
            except OSError as error:  # it works without; only a crash leaves the notebook
                self._log.warning("Cannot record the ephemeral notebook %s: %s", path, error)
        self._notebooks[path] = notebook
        try:
            yield notebook
        except BaseException:
            await self._drop(notebook)
            raise
        notebook.ready, notebook.used = True, time.monotonic()
        self._made.set()
        self._watching.ensure(None, self._watch)

    def mark_again(self, path: str, content: Any) -> None:
        """Mark what overwrites a notebook, which stays ephemeral."""
        if (notebook := self._notebooks.get(path)) is not None and isinstance(content, dict):
            ours = content.setdefault("metadata", {}).setdefault(METADATA, {})
            ours[_MARK] = notebook.mark

    def start(self) -> None:
        """Delete what processes that have ended left behind, in the background."""
        if self._records is not None and self._records.left():
            self._watching.ensure(None, self._watch)

    # -- ending ------------------------------------------------------------------------------

    @asynccontextmanager
    async def moving(self, path: str) -> AsyncIterator[bool]:
        """Move something meanwhile: notebooks at or below the path are ordinary files afterwards.

        Yields whether there are any.
        """
        async with self._changing:  # so that none is deleted meanwhile
            moved = self._below(path)
            yield bool(moved)
            for each in moved:
                await self._drop(each)
        if moved:
            await self._remove_folders()

    def _below(self, path: str) -> list[EphemeralNotebook]:
        at_path = f"{path}/"
        return [each for each in self._notebooks.values() if f"{each.path}/".startswith(at_path)]

    async def unmark(self, path: str) -> None:
        """Remove our mark from a notebook that is an ordinary file now; it may have been copied."""
        with contextlib.suppress(CollaborationError):
            opened = await self._place.keep(path)
            await opened.peer.catch_up_to_write()
            ours = opened.peer.notebook.notebook_metadata.get(METADATA)
            if isinstance(ours, Mapping) and _MARK in ours:
                rest = {key: value for key, value in ours.items() if key != _MARK}
                with opened.peer.doc.transaction(origin="ephemeral"):
                    opened.peer.notebook.set_notebook_metadata(METADATA, rest or None)

    async def deleted(self, path: str) -> None:
        """End the kernels of notebooks at or below a path that was deleted."""
        for each in self._below(path):
            await self._drop(each)
            await self._end_kernel(each)
        await self._remove_folders()

    async def close(self) -> None:
        """Delete those that nobody is in; the next process deletes the others."""
        now = time.monotonic()  # before anything else: rooms may be ending, too
        unused = [(each, each.room) for each in self.all() if self._is_empty(each, now)]
        await self._watching.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING):
                for notebook, room in unused:
                    notebook.used = -self.timeout
                    assert room is not None
                    with contextlib.suppress(CollaborationError):
                        await self._delete(notebook, room)
        if self._records is not None:
            await asyncio.to_thread(self._records.close)

    # -- parts -------------------------------------------------------------------------------

    async def _watch(self) -> None:
        await self._adopt()
        pause = max(0.05, min(_LOOK, self.timeout / 10))
        while self._notebooks:
            self._made.clear()
            for notebook in self.all():
                await self._try(notebook)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._made.wait()

    async def _adopt(self) -> None:
        if self._records is None:
            return
        try:
            left = await asyncio.to_thread(self._records.adopt)
        except OSError as error:
            self._log.warning("Cannot read which ephemeral notebooks were left: %s", error)
            return
        now = time.monotonic()
        for mark, record in left.items():
            path, owner = str(record.get("path")), str(record.get("owner"))
            created, pattern = str(record.get("created")), record.get("pattern")
            folders = [str(each) for each in record.get("folders") or ()]
            notebook = EphemeralNotebook(
                *(path, owner, mark, created, pattern, folders, True, -self.timeout),
                left_at=now,
            )
            self._notebooks.setdefault(path, notebook)
            self._folders = list(dict.fromkeys([*self._folders, *folders]))

    async def _try(self, notebook: EphemeralNotebook) -> None:
        try:
            async with self._changing:
                if notebook.ready and self._notebooks.get(notebook.path) is notebook:
                    await self._look_after(notebook)
        except CollaborationError as error:  # a server may be out of reach for a while
            self._log.debug("%s: %s", notebook.path, error.happened)
        except Exception:  # the others still need attention
            self._log.exception("Could not look after %s", notebook.path)

    async def _look_after(self, notebook: EphemeralNotebook) -> None:
        """Stay in its room, to know who is there, and delete it if nobody has used it."""
        try:
            opened = await self._place.keep(notebook.path)
        except (DocumentNotFound, NotANotebook, CorruptDocument):
            await self._lost(notebook)
            return
        now = time.monotonic()
        if opened is not notebook.room:
            notebook.room, notebook.joined = opened, now
        rooms = self._place.rooms_of(opened)
        if opened.peer.link.path != notebook.path:
            await self._renamed(notebook, opened.peer.link.path)
        elif any(room.activity.has_people for room in rooms):
            notebook.used, notebook.left_at = now, None
        elif any(seat.runs for room in rooms for seat in room.agents.values()):
            notebook.used = now
        elif (
            now >= notebook.used + self.timeout
            and self._is_empty(notebook, now)
            and not await self._is_busy(notebook, now)
        ):
            await self._delete(notebook, opened)

    def _is_empty(self, notebook: EphemeralNotebook, now: float) -> bool:
        """Whether it is certain that nobody is in its room."""
        if (room := notebook.room) is None or not room.peer.link.alive:
            return False
        heard = room.peer.link.at_once or now >= notebook.joined + self._hearing(notebook)
        return heard and not any(each.activity.has_people for each in self._place.rooms_of(room))

    def _hearing(self, notebook: EphemeralNotebook) -> float:
        """Seconds for which to listen in a room before nobody is known to be there."""
        return _HEARING if notebook.left_at is not None else min(_HEARING, self.timeout)

    async def _is_busy(self, notebook: EphemeralNotebook, now: float) -> bool:
        """Whether its kernel works: on what a person runs, or a process that has ended ran."""
        if self.kernels is None:
            return False
        info = await self.kernels.find(notebook.path)
        if info is None or info.state != "busy":
            return False
        if notebook.left_at is None:
            notebook.used = now
            return True
        return now < notebook.left_at + self.timeout

    async def _delete(self, notebook: EphemeralNotebook, opened: OpenRoom) -> None:
        path = notebook.path
        content = await self._files.read(path, "notebook")
        ours = content.get("metadata", {}).get(METADATA)
        if not isinstance(ours, Mapping) or ours.get(_MARK) != notebook.mark:
            self._log.warning("%s is kept: it was replaced by another file", path)
            await self._drop(notebook)
            return
        if time.monotonic() < notebook.used + self.timeout:
            return  # somebody has come back
        await self._place.end_forks(opened, notebook.owner)
        await self._end_kernel(notebook)
        await self._files.delete(path)
        await self._place.forget(path)
        await self._drop(notebook)
        await self._remove_folders()
        self._log.info("Deleted the ephemeral notebook %s, which nobody used", path)

    async def _lost(self, notebook: EphemeralNotebook) -> None:
        """Forget one whose file is gone, or is not a notebook any more."""
        if notebook.room is not None:
            at = await self._place.locate(notebook.room.peer.link.room_id.file_id)
            if at is not None and at != notebook.path:
                await self._renamed(notebook, at)
                return
        try:
            await self._files.look(notebook.path)
        except DocumentNotFound:
            await self._end_kernel(notebook)
        await self._drop(notebook)
        await self._remove_folders()

    async def _renamed(self, notebook: EphemeralNotebook, path: str) -> None:
        """Leave one alone that a person has renamed, to keep it."""
        await self._drop(notebook)
        await self.unmark(path)

    async def _drop(self, notebook: EphemeralNotebook) -> None:
        if self._notebooks.get(notebook.path) is notebook:
            del self._notebooks[notebook.path]
        if self._records is not None:
            await asyncio.to_thread(self._records.drop, notebook.mark)

    async def _end_kernel(self, notebook: EphemeralNotebook) -> None:
        if self.kernels is not None:
            await self.kernels.end(notebook.path)

    async def _remove_folders(self) -> None:
        """Remove the folders that we created, if nothing is in them."""
        if self._notebooks:
            return
        with contextlib.suppress(CollaborationError):
            while self._folders:
                await require_empty(self._files, self._folders[-1])
                await self._files.delete(self._folders.pop())
