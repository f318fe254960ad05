"""Opening documents for agents: which paths are allowed, and which files they lead to."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from logging import Logger
from typing import TypeVar

from ..backends.protocols.files import FileEntry
from ..backends.protocols.forks import Fork
from ..backends.protocols.room_ids import KINDS, Kind, RoomId
from ..backends.protocols.rooms import Backend, RoomLink
from ..backends.protocols.steps import OpenSteps, no_steps
from ..backends.protocols.versions import Versions
from ..collaboration.activity.log import ActivityLog
from ..collaboration.peer import RoomPeer
from ..errors import (
    CollaborationError,
    DocumentNotFound,
    FileFailed,
    PathError,
    RoomUnavailable,
)
from ..remedies import Intent
from .agent import Agent, name_in
from .call_limits import Limits
from .ephemeral import Ephemeral, EphemeralSettings
from .etiquette import Etiquette
from .filing import Filing
from .forking import Forking, require_kind
from .open_document import OpenDocument
from .open_paths import OpenPaths
from .open_rooms import OpenRoom, OpenRooms
from .permissions import Level, PathRules, clean_path
from .permits import Call, Permit, Server
from .room_watchers import Stop
from .saves import save_before_run
from .sessions import require_place

#: Seconds that a file may be missing while it is moved: its id follows a moment later.
_MOVING = 0.5


#: How often access is checked again because the path leads to another file by then.
_TRIES = 10

#: A document, perhaps one that knows its site.
D = TypeVar("D", bound=OpenDocument)


class Workspace:
    """Opens, keeps and closes documents for agents; all agents at a document share its peer."""

    def __init__(
        self,
        backend: Backend,
        rules: PathRules,
        limits: Limits,
        idle_timeout: float,
        log: Logger,
        alias: str = "",
        etiquette: Etiquette = Etiquette(),  # noqa: B008
        activity: ActivityLog | None = None,
        open_steps: OpenSteps = no_steps,
        ephemeral: EphemeralSettings = EphemeralSettings(),  # noqa: B008
    ) -> None:
        self.alias = alias
        self._etiquette = etiquette
        self.activity = activity or ActivityLog.off()
        """What people and agents did in the documents of this server."""
        self.limits = limits
        self.rules = rules
        self.filing = Filing(self, backend.files)
        self.forking = Forking(self, backend)
        self.ephemeral = Ephemeral(self, backend.files, ephemeral, log)
        """The notebooks that are deleted when nobody uses them."""
        self._backend = backend
        self.rooms = OpenRooms(backend, idle_timeout, log, self.activity)
        self.rooms.undo_steps.open_steps = open_steps
        self._names: dict[RoomId, Sequence[str]] = {}  # in this turn of the loop
        self._open_paths = OpenPaths(self.rooms, backend)
        self.rooms.watchers.on_list = self._open_paths.look_soon

    @property
    def versions(self) -> Versions:
        """Earlier versions of documents; a caller first opens the document, with a permit."""
        return self._backend.versions

    def allowed_path(self, path: str) -> str:
        """The normalized path, if agents may touch it."""
        path = clean_path(path)
        if self.rules:  # otherwise every call would access the disk for nothing
            self.rules.check(path, self._backend.files.link_target(path))
        return path

    def allowed_folder(self, path: str) -> str:
        """The normalized path of a folder, if agents may look into it."""
        path = clean_path(path)
        self.rules.check_folder(path, self._backend.files.link_target(path))
        return path

    def path_and_target(self, path: str) -> tuple[str, ...]:
        """A path and, if it is a link, its target: an agent must be allowed to touch both."""
        return tuple(dict.fromkeys([path, self._backend.files.link_target(path)]))

    def visible(self, path: str) -> bool:
        """Whether agents may know about a path, and about what it leads to."""
        rules = self.rules
        if not rules:
            return True  # this is called for thousands of paths
        return rules.visible(path) and rules.visible(self._backend.files.link_target(path))

    def may_enter(self, path: str) -> bool:
        """Whether agents may know about a folder, which may contain what they may touch."""
        rules = self.rules
        return not rules or all(map(rules.may_enter, self.path_and_target(path)))

    async def open(
        self,
        permit: Permit,
        kind: Kind | None = "notebook",
        fork: Fork | None = None,
    ) -> OpenDocument:
        """`open_as` where the server of the document is known."""
        return await self.open_as(OpenDocument, permit, kind, fork)

    async def open_as(
        self,
        make: Callable[..., D],
        permit: Permit,
        kind: Kind | None = "notebook",
        fork: Fork | None = None,
    ) -> D:
        """Join the document's room, unless we are in it, and catch up with it.

        Args:
            make: Makes the open document of its parts.
            permit: Checked again for the file that was opened, which may not be the one that was
                permitted: a link may lead elsewhere by now, and a file may have been moved.
            kind: What it must be; None if it may be either.
            fork: A fork of what the permit is for, to be opened instead.

        Raises:
            PathError: There is no such document, or it cannot be read.
            TooManyDocuments: The caller has too many others open.
            PermissionRefused: The caller may not touch it.
            ForkNotFound: The fork is gone.
        """
        if permit.paths is not self:
            raise RuntimeError("this permit is for another server")
        if fork is not None:
            return await self._open_fork(make, permit, kind, fork)
        path = self.allowed_path(permit.path)
        require_place(self.rooms, permit.agent, path, self.limits.open_documents)
        try:
            room_id, opened = await self._open_at(path, kind)
        except (DocumentNotFound, FileFailed) as error:  # a server may fail over what is just moved
            raise await self._renamed_error(path, error, permit) from error
        if path not in opened.paths:
            for each in self.rooms:
                each.paths.discard(path)  # it may have been another room's
            opened.paths.add(path)
        absence = await self.rooms.absence(room_id, opened, permit.agent)
        try:
            path, loads = await self._decide(path, opened.peer, permit)
        except RoomUnavailable:
            if opened.peer.link.alive:
                raise
            # The room ended in the meantime, say because its server restarted. Retry in a new one.
            room_id, opened = await self._open_at(path, kind)
            path, loads = await self._decide(path, opened.peer, permit)
        # Do not await anything from here on: the document is current.
        seat = self.rooms.seat(room_id, opened, permit.agent, absence)
        link_path = opened.peer.link.path
        other_path = self._other_path(path, link_path)
        return make(
            path,
            opened.peer,
            seat,
            permit.call.tool,
            self.alias,
            other_path,
            loads,
            link_path,
            etiquette=self._etiquette,
            hold=permit.call.hold,
            on_step=permit.call.on_step,
        )

    async def observed(
        self, permit: Permit, kind: Kind | None = None, fork: Fork | None = None
    ) -> OpenRoom:
        """Join the document's room without a seat: nobody sees the agent there, and it counts as
        having seen nothing. Whoever wants to stay watches the room at once.

        Raises:
            CollaborationError: As `open`.
        """
        if fork is not None:
            require_kind(fork, kind)
            opened = await self.rooms.enter(fork.room_id)
            await self._require(opened.peer.link.path, opened.peer.link.whereabouts(), permit)
            return opened
        path = self.allowed_path(permit.path)
        try:
            _, opened = await self._open_at(path, kind)
        except (DocumentNotFound, FileFailed) as error:
            raise await self._renamed_error(path, error, permit) from error
        await self._decide(path, opened.peer, permit)
        return opened

    async def check_reading(
        self, call: Call, server: Server, room_id: RoomId, last_path: str
    ) -> None:
        """Refuse a caller who may not read the document of a room, wherever it is by now.

        Args:
            last_path: Where it was, in case nobody knows where it is.

        Raises:
            CollaborationError: The caller may not read it.
        """
        path, *others = self._names_of(room_id)
        if room_id.is_fork:
            fork = await self.forking.find(room_id.file_id)
            path = "" if fork is None else await self.forking.path_of(fork)
        path = path or last_path
        permit = await call.permit(server, Level.read, path, uses=False)
        if any(name != path for name in others):
            await self._require(path, others, permit)

    def _names_of(self, room_id: RoomId) -> Sequence[str]:
        """The path of a document, if known, and all names that its room has for it.

        A hundred clients may be notified in one turn of the loop: it is looked up once for them.
        """
        if (known := self._names.get(room_id)) is not None:
            return known
        names = [self.path_of(room_id.file_id) or ""]
        if (peer := self.peer_of(room_id)) is not None:
            names.append(peer.link.path)
            with contextlib.suppress(DocumentNotFound):  # deleted: whoever could read it may know
                names += peer.link.whereabouts()
        self._names[room_id] = names
        asyncio.get_running_loop().call_soon(self._names.pop, room_id, None)
        return names

    async def _open_fork(
        self, make: Callable[..., D], permit: Permit, kind: Kind | None, fork: Fork
    ) -> D:
        require_kind(fork, kind)
        require_place(self.rooms, permit.agent, fork.room_id, self.limits.open_documents)
        opened = await self.rooms.enter(fork.room_id)
        link = opened.peer.link
        await self._require(link.path, link.whereabouts(), permit)
        absence = await self.rooms.absence(fork.room_id, opened, permit.agent)
        await opened.peer.catch_up()
        # Do not await anything from here on: the document is current.
        seat = self.rooms.seat(fork.room_id, opened, permit.agent, absence)
        return make(
            *(link.path, opened.peer, seat, permit.call.tool, self.alias),
            etiquette=self._etiquette,
            hold=permit.call.hold,
            on_step=permit.call.on_step,
        )

    async def _renamed_error(self, path: str, error: PathError, permit: Permit) -> PathError:
        """The error for a document that was renamed, with its new path if it is open here."""
        deadline = time.monotonic() + _MOVING
        links = [opened.peer.link for opened in self.rooms if path in opened.paths]
        for link in links:
            with contextlib.suppress(CollaborationError):
                while link.alive and time.monotonic() < deadline:
                    with contextlib.suppress(DocumentNotFound):
                        await link.stale()  # finds out where its file is
                    if link.path != path:
                        break
                    await asyncio.sleep(_MOVING / 20)
                if not link.alive or link.path == path:
                    continue
                # A server may have left a file at an earlier path, where the link still is.
                now = await self._backend.locate(link.room_id.file_id) or link.path
                if now != path:
                    await self._require(now, [now, *link.whereabouts()], permit)
                    return DocumentNotFound.moved(path, now)
        return error

    async def again(self, here: D, permit: Permit) -> D:
        """The same document, wherever it is by now."""
        path, loads = await self._decide(here.path, here.peer, permit)
        other_path = self._other_path(path, here.peer.link.path)
        return replace(here, path=path, other_path=other_path, loads=loads)

    async def recheck(self, here: OpenDocument, permit: Permit) -> None:
        """Refuse what was read if another file was loaded meanwhile that may not be touched."""
        await self._require(here.path, here.peer.link.loaded_since(here.loads), permit)

    async def _decide(self, path: str, peer: RoomPeer, permit: Permit) -> tuple[str, int]:
        """Catch up with a room, if the caller may touch the file that it was loaded from.

        Returns the path of the document, which may just have been moved, and the number of loads
        that this decision is about.
        """
        link = peer.link
        for _ in range(_TRIES):
            loads, at = link.loads, link.path
            await self._require(path, await self._whereabouts(path, link), permit)
            await peer.catch_up()
            if link.loads == loads and link.path == at:
                break
        else:
            raise RoomUnavailable(
                f"{path!r} keeps changing which file it leads to.", "Try again in a moment."
            )
        moved = link.path != path and self._backend.files.is_gone(path)
        return link.path if moved else path, loads

    async def _whereabouts(self, path: str, link: RoomLink) -> Sequence[str]:
        """Where the file of a room is; retries while a file is being moved."""
        deadline = time.monotonic() + _MOVING
        while True:
            try:
                return link.whereabouts()
            except DocumentNotFound:
                if time.monotonic() > deadline:
                    raise DocumentNotFound.at(path) from None
                await asyncio.sleep(_MOVING / 20)

    async def _require(self, path: str, names: Sequence[str], permit: Permit) -> None:
        self.rules.check(path, *names)
        await permit.check(*names)

    def _other_path(self, path: str, room_path: str) -> str | None:
        link_target = self._backend.files.link_target
        # Otherwise it has just been renamed, and the link does not know it yet.
        is_link = room_path != path and link_target(room_path) == link_target(path)
        return room_path if is_link else None

    async def _open_at(self, path: str, kind: Kind | None) -> tuple[RoomId, OpenRoom]:
        room_id = None if kind is None else self._backend.known_room(path, kind)
        opened = self.rooms.get(room_id) if room_id is not None else None
        if opened is None or room_id is None or not opened.peer.link.alive:
            room_id = await self._backend.identify(path, kind)
            opened = await self.rooms.enter(room_id)
        return room_id, opened

    async def open_paths(self) -> list[str]:
        """The paths of the documents that people or agents have open, as far as known."""
        return sorted(filter(self.visible, await self._open_paths.find()))

    def watch_list(self, tell: Callable[[str], None]) -> Stop:
        """Call a function with the path of each document that opens, closes or is renamed."""
        return self._open_paths.watch(tell)

    async def peer(self, room_id: RoomId) -> RoomPeer:
        """The current peer of a room; opens the room again if it died."""
        opened = await self.rooms.enter(room_id)
        try:
            await opened.peer.catch_up_to_write()
        except RoomUnavailable:
            if opened.peer.link.alive:
                raise
            opened = await self.rooms.enter(room_id)  # as above: the room ended in the meantime
            await opened.peer.catch_up()
        opened.since = time.monotonic()  # so that it is not left at once, although it has no agents
        return opened.peer

    async def keep(self, path: str) -> OpenRoom:
        """Join the room of a notebook and stay in it for a while, although no agent uses it."""
        _, opened = await self._open_at(path, "notebook")
        opened.since = time.monotonic()
        return opened

    def rooms_of(self, opened: OpenRoom) -> Sequence[OpenRoom]:
        """The room of a document, and those of its forks that we are in."""
        link = opened.peer.link
        links = ((each, each.peer.link) for each in self.rooms if each is not opened)
        forks = [each for each, at in links if at.room_id.is_fork and at.path == link.path]
        return [opened, *forks]

    async def end_forks(self, opened: OpenRoom, owner: str) -> None:
        """Discard the forks of a document that is deleted with all that belongs to it."""
        for fork in await self.forking.list(opened.peer.link.room_id):
            await self.forking.end(fork, "discarded", Agent("", name_in(owner)))

    async def save_before_run(self, agent: str) -> list[str]:
        """Save what an agent wrote. Returns notes for the answer if that failed."""
        opened = self.rooms
        behind = [each.peer for each in opened if each.peer.has_unsaved_of(agent)]
        if not behind:
            return []
        failed = await save_before_run(behind, self._backend.files, self.alias)
        return [] if failed is None else [failed]

    def path_of(self, file_id: str) -> str | None:
        """The path of the notebook with a file id, as far as known."""
        return self._backend.path_of(file_id)

    def file_id(self, path: str) -> str | None:
        """The file id of a document that was identified before; cheap."""
        rooms = (self._backend.known_room(path, kind) for kind in KINDS)
        return next((room.file_id for room in rooms if room is not None), None)

    async def find(self, file_id: str, last_path: str) -> str:
        """The current path of the notebook with a file id.

        Args:
            last_path: Its last known path, in case its id is no longer known.

        Raises:
            DocumentNotFound: It no longer exists, so it is not known who may see it.
        """
        deadline = time.monotonic() + _MOVING
        while True:
            path = self.path_of(file_id) or last_path
            if not self._backend.files.is_gone(path):
                return path
            if time.monotonic() > deadline:
                raise DocumentNotFound(
                    f"The notebook {path!r} is not there any more: it was moved or deleted.",
                    Intent.LIST_NOTEBOOKS,
                    path=path,
                )
            await asyncio.sleep(_MOVING / 20)

    async def locate(self, file_id: str) -> str | None:
        """The path of the notebook with a file id, even if it was never open here."""
        return await self._backend.locate(file_id)

    def peer_of(self, room_id: RoomId) -> RoomPeer | None:
        """The peer of an open room."""
        return self.rooms.peer(room_id)

    async def entry(self, here: OpenDocument) -> FileEntry:
        """The file of a document that was opened; of a fork, that of its root."""
        return await self._backend.files.look(here.path)

    async def last_modified(self, path: str) -> str | None:
        """When the file was last written."""
        return (await self._backend.files.look(path)).last_modified

    def agents_at(self, path: str) -> set[str]:
        """The agents of this process in a document, by the names that people see."""
        rooms = [self._backend.known_room(path, kind) for kind in KINDS]
        at_path = [room for room_id in rooms if room_id and (room := self.rooms.get(room_id))]
        seats = [seat for opened in at_path for seat in opened.agents.values()]
        return {seat.profile.display_name for seat in seats if seat.presence is not None}

    async def forget(self, path: str) -> None:
        """Forget everything at or below a path that is gone.

        Its edits must be neither reapplied to nor undone in what comes there next.
        """
        known = [self._backend.known_room(path, kind) for kind in KINDS]
        self._backend.files.forget(path)
        await self.rooms.undo_steps.forget(*(room_id for room_id in known if room_id is not None))
        await self.rooms.forget(self.path_and_target(path))

    def on_room_opened(self, room_id: RoomId) -> None:
        """A room was opened, by people or by us."""
        self.observe(room_id)
        self._open_paths.look_soon()

    def on_people_left(self) -> None:
        """Somebody has left a room, which may go on without them."""
        self._open_paths.look_soon()

    def observe(self, room_id: RoomId) -> None:
        """Join a room that people have opened, if agents have used its document and still may."""
        path = self._backend.path_of(room_id.file_id)
        if path is not None and self.visible(path):
            self.rooms.observe(room_id)

    def on_moved(self, path: str) -> None:
        """A file or folder has been renamed to a path."""
        self.rooms.watchers.on_moved()
        self._open_paths.look_soon()

    def on_room_closed(self, room_id: RoomId) -> None:
        """A room has ended that people had opened, or that we are in."""
        self.rooms.watchers.on_left(room_id)

    async def close(self) -> None:
        """Leave all rooms."""
        self._open_paths.close()
        await self.rooms.close()
        await self.activity.close()
