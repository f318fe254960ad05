"""Which documents are open, and which agents are at them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from logging import Logger

from ..backends.protocols.files import Permit
from ..backends.protocols.room_ids import KINDS, Kind, RoomId
from ..backends.protocols.rooms import Backend, RoomLink
from ..collaboration.peer import RoomPeer, Seat
from ..collaboration.undo import Step
from ..documents.foreign_text import inline
from ..errors import (
    CollaborationError,
    DocumentNotFound,
    PathError,
    RoomUnavailable,
    TokenRefused,
)
from .agent import Agent
from .call_limits import Limits
from .filing import Filing
from .open_document import OpenDocument
from .permissions import PathRules, clean_path
from .saves import save_before_run

#: Who has not been heard of for 30 seconds counts as gone; said again this often, in seconds.
_HEARTBEAT = 10.0


#: Seconds without a call after which an agent counts as gone, as most leave without a word. Its
#: seat is kept for longer.
_SILENCE = 45.0


#: Seconds until the first look at whether an edit is saved; a server saves after about one.
_FOLLOW = 0.5


#: Seconds after which an edit is saved that the server has not saved by itself; if that fails, it
#: is reported.
_LATE = 4.0


#: Seconds that a file may be away while it is moved: its id follows a moment later.
_MOVING = 0.5


#: How often it is decided anew whether a file may be touched that is another one by then.
_TRIES = 10


#: Agents at documents whose steps to take back are kept after they left.
_SEATS = 500


#: Characters of all these steps.
_KEPT = 50_000_000


#: Documents whose notes are kept until somebody opens them again; those left last.
_UNSAID = 500


@dataclass(slots=True)
class _Open:
    peer: RoomPeer
    agents: dict[str, Seat] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)
    gone: bool = False
    """Whether there is no such document any more."""
    paths: set[str] = field(default_factory=set)
    """By which it was opened."""


class Workspace:
    """Opens, keeps and closes documents for agents; all agents at one share its peer."""

    def __init__(
        self,
        backend: Backend,
        rules: PathRules,
        limits: Limits,
        idle_timeout: float,
        log: Logger,
        alias: str = "",
    ) -> None:
        self.alias = alias
        self.limits = limits
        self.rules = rules
        self.filing = Filing(self, backend.files)
        self._backend = backend
        self._idle_timeout = idle_timeout
        self._log = log
        self._open: dict[RoomId, _Open] = {}
        self._joining: dict[str, asyncio.Task[RoomPeer]] = {}
        self._seats: dict[tuple[str, str], Seat] = {}  # outlive an idle agent's leaving
        self._rejoining: dict[str, asyncio.Task[None]] = {}
        self._following: dict[str, asyncio.Task[None]] = {}
        self._unsaid: dict[str, list[str]] = {}  # by room, for who opens it again
        self._sweeper: asyncio.Task[None] | None = None
        self.on_join: Callable[[RoomPeer], Awaitable[None]] | None = None
        """Called with a peer that has just come into its room."""

    def resolve(self, path: str) -> str:
        """The path in its normal form, if agents may touch it."""
        path = clean_path(path)
        if self.rules:  # else every call would look at the disk for nothing
            self.rules.check(path, self._backend.files.resolved(path))
        return path

    def resolve_folder(self, path: str) -> str:
        """The path of a folder in its normal form, if agents may look into it."""
        path = clean_path(path)
        self.rules.check_folder(path, self._backend.files.resolved(path))
        return path

    def names(self, path: str) -> tuple[str, ...]:
        """A path, and what it leads to if it is a link: an agent must be allowed to touch both."""
        return tuple(dict.fromkeys([path, self._backend.files.resolved(path)]))

    def visible(self, path: str) -> bool:
        """Whether agents may know of a path, and of what it leads to."""
        rules = self.rules
        if not rules:
            return True  # thousands are asked for
        return rules.visible(path) and rules.visible(self._backend.files.resolved(path))

    async def open(
        self,
        agent: Agent,
        path: str,
        kind: Kind | None = "notebook",
        permit: Permit | None = None,
    ) -> OpenDocument:
        """Join the document's room, or be there already, and catch up with it.

        Args:
            kind: What it has to be; None if it may be either.
            permit: Asked about the file that was opened. What it was asked about before may have
                been another one: a link may lead elsewhere by now, and a file may be moved.

        Raises:
            PathError: There is no such document, or it cannot be read.
            PermissionRefused: It may not be touched.
        """
        path = self.resolve(path)
        try:
            room_id, opened = await self._open_at(path, kind)
        except DocumentNotFound as error:
            raise await self._renamed(path, error, permit) from error
        for each in self._open.values():
            each.paths.discard(path)  # it may have been another one's
        opened.paths.add(path)
        try:
            path, loads = await self._decide(path, opened.peer, permit)
        except RoomUnavailable:
            if opened.peer.link.alive:
                raise
            # It ended while it was asked: its server was restarted, say. Once more, in a new one.
            room_id, opened = await self._open_at(path, kind)
            path, loads = await self._decide(path, opened.peer, permit)
        seat = self._seat(room_id, opened, agent)
        link_path = opened.peer.link.path
        other_path = self._other_path(path, link_path)
        return OpenDocument(path, opened.peer, seat, self.alias, other_path, loads, link_path)

    async def _renamed(
        self, path: str, error: DocumentNotFound, permit: Permit | None
    ) -> DocumentNotFound:
        """Say of what is not there any more where it is by now, if it is open."""
        deadline = time.monotonic() + _MOVING
        links = [opened.peer.link for opened in self._open.values() if path in opened.paths]
        for link in links:
            with contextlib.suppress(CollaborationError):
                while link.alive and link.path == path and time.monotonic() < deadline:
                    await asyncio.sleep(_MOVING / 20)
                    with contextlib.suppress(DocumentNotFound):
                        await link.stale()  # it looks where its file is
                if link.alive and link.path != path:
                    await self._require(link.path, link.whereabouts(), permit)
                    return DocumentNotFound.moved(path, link.path)
        return error

    async def again(self, here: OpenDocument, permit: Permit | None) -> OpenDocument:
        """The same document, wherever it is by now."""
        path, loads = await self._decide(here.path, here.peer, permit)
        other_path = self._other_path(path, here.peer.link.path)
        return replace(here, path=path, other_path=other_path, loads=loads)

    async def recheck(self, here: OpenDocument, permit: Permit | None) -> None:
        """Refuse what was read if another file was loaded meanwhile, and may not be touched."""
        await self._require(here.path, here.peer.link.loaded_since(here.loads), permit)

    async def _decide(self, path: str, peer: RoomPeer, permit: Permit | None) -> tuple[str, int]:
        """Catch up with a room, if what it was loaded from may be touched.

        Returns the path of the document, which may have been moved in this moment, and the number
        of loads that this was decided for.
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
        """Where the file of a room is; one that is being moved is nowhere for a moment."""
        deadline = time.monotonic() + _MOVING
        while True:
            try:
                return link.whereabouts()
            except DocumentNotFound:
                if time.monotonic() > deadline:
                    raise DocumentNotFound.at(path) from None
                await asyncio.sleep(_MOVING / 20)

    async def _require(self, path: str, names: Sequence[str], permit: Permit | None) -> None:
        self.rules.check(path, *names)
        if permit is not None:
            for name in names:
                await permit(name)

    def _other_path(self, path: str, room_path: str) -> str | None:
        resolved = self._backend.files.resolved
        # Else it has just been renamed, and the link does not know it yet.
        is_link = room_path != path and resolved(room_path) == resolved(path)
        return room_path if is_link else None

    async def _open_at(self, path: str, kind: Kind | None) -> tuple[RoomId, _Open]:
        room_id = None if kind is None else self._backend.known(path, kind)
        opened = self._open.get(room_id) if room_id is not None else None
        if opened is None or room_id is None or not opened.peer.link.alive:
            room_id = await self._backend.identify(path, kind)
            opened = await self._living(room_id)
        return room_id, opened

    async def peer(self, room_id: RoomId) -> RoomPeer:
        """The peer of a room that is current; the room is opened again if it died."""
        opened = await self._living(room_id)
        try:
            await opened.peer.catch_up_to_write()
        except RoomUnavailable:
            if opened.peer.link.alive:
                raise
            opened = await self._living(room_id)  # as above: it ended while it was asked
            await opened.peer.catch_up()
        opened.since = time.monotonic()  # not left before it has been idle, though nobody is there
        return opened.peer

    async def save_before_run(self, agent: str) -> list[str]:
        """Have on disk what an agent wrote. Returns what its answer should say if that failed."""
        opened = self._open.values()
        behind = [each.peer for each in opened if each.peer.has_unsaved_of(agent)]
        if not behind:
            return []
        failed = await save_before_run(behind, self._backend.files, self.alias)
        return [] if failed is None else [failed]

    def path_of(self, file_id: str) -> str | None:
        """Where the notebook with a file id is, as far as that is known."""
        return self._backend.path_of(file_id)

    async def find(self, file_id: str, last_path: str) -> str:
        """Where the notebook with a file id is by now.

        Args:
            last_path: Where it was, if its id is not known any more.

        Raises:
            DocumentNotFound: It is not there any more; who may see it is not known then.
        """
        deadline = time.monotonic() + _MOVING
        while True:
            path = self.path_of(file_id) or last_path
            if not self._backend.files.is_gone(path):
                return path
            if time.monotonic() > deadline:
                raise DocumentNotFound(
                    f"The notebook {path!r} is not there any more: it was moved or deleted.",
                    "Call list_notebooks to see what is there.",
                    path=path,
                )
            await asyncio.sleep(_MOVING / 20)

    async def locate(self, file_id: str) -> str | None:
        """Where the notebook with a file id is, also if it was never open here."""
        return await self._backend.locate(file_id)

    def peer_of(self, room_id: RoomId) -> RoomPeer | None:
        """The peer of a room that is open."""
        opened = self._open.get(room_id)
        return None if opened is None else opened.peer

    async def last_modified(self, path: str) -> str | None:
        """When the file was last written."""
        return (await self._backend.files.look(path)).last_modified

    def names_at(self, path: str) -> set[str]:
        """The agents of this process that are in a document, as people see them."""
        rooms = [self._backend.known(path, kind) for kind in KINDS]
        at_path = [opened for room_id, opened in self._open.items() if room_id in rooms]
        seats = [seat for opened in at_path for seat in opened.agents.values()]
        return {seat.presence.display_name for seat in seats if seat.presence is not None}

    async def forget(self, path: str) -> None:
        """Nothing that was at a path, or below it, is there any more.

        Its edits must not be done again, nor taken back, in what comes there next.
        """
        self._backend.files.forget(path)
        gone = tuple(f"{name}/" for name in self.names(path))
        for room_id, opened in list(self._open.items()):
            if f"{opened.peer.link.path}/".startswith(gone):
                self._open.pop(room_id, None)
                await self._close(opened)
                for key in [key for key in self._seats if key[0] == room_id]:
                    del self._seats[key]

    async def close(self) -> None:
        """Leave all rooms."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in (*self._rejoining.values(), *self._following.values()):
            task.cancel()
        for opened in self._open.values():
            await self._close(opened)
        self._open.clear()

    async def _living(self, room_id: RoomId) -> _Open:
        opened = self._open.get(room_id)
        if opened is None or not opened.peer.link.alive:
            opened = await self._join(room_id)
        return opened

    async def _join(self, room_id: RoomId) -> _Open:
        """One peer for a room, however many agents ask for it at once."""
        task = self._joining.get(room_id)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._new_peer(room_id))
            self._joining[room_id] = task
            task.add_done_callback(lambda _: self._joining.pop(room_id, None))
        await asyncio.shield(task)
        self._start_sweeper()
        # What was forgotten since is closed, and does not come back.
        return self._open.get(room_id) or await self._join(room_id)

    async def _new_peer(self, room_id: RoomId) -> RoomPeer:
        before = self._open.get(room_id)
        link: RoomLink = await self._backend.join(room_id)
        try:
            peer, agents = await self._take_over(room_id, link, before)
        except BaseException:
            await link.close()
            raise
        peer.notes += self._unsaid.pop(room_id, [])
        self._open[room_id] = _Open(peer, agents)
        if before is not None:
            self._open[room_id].paths |= before.paths
        return peer

    async def _take_over(
        self, room_id: RoomId, link: RoomLink, before: _Open | None
    ) -> tuple[RoomPeer, dict[str, Seat]]:
        """A peer in a room, with all that was at the one before it, whose room died under it."""
        peer = RoomPeer(link)
        peer.on_edit = lambda: self._follow_soon(room_id)
        link.on_end = lambda: self._rejoin_soon(room_id)
        await asyncio.sleep(0)  # to take over a large document takes as long as others may wait
        if self.on_join is not None:
            await self.on_join(peer)
        if before is None:
            return peer, {}
        agents = dict(before.agents)
        visible = {key for key, seat in agents.items() if seat.presence is not None}
        await self._leave_room(before)
        for key, seat in agents.items():
            peer.seat(seat, key in visible)
        if before.peer.unsaved:
            await peer.catch_up()
            peer.inherit(before.peer)
        peer.notes += before.peer.notes
        before.peer.close()
        return peer, agents

    def _rejoin_soon(self, room_id: RoomId) -> None:
        """A room went away under a peer: be there again as soon as it can be."""
        if room_id in self._open and room_id not in self._rejoining:
            task = asyncio.get_running_loop().create_task(self._rejoin(room_id))
            self._rejoining[room_id] = task
            task.add_done_callback(lambda _: self._rejoining.pop(room_id, None))

    async def _rejoin(self, room_id: RoomId) -> None:
        pause = 0.2
        while (opened := self._open.get(room_id)) is not None and not opened.peer.link.alive:
            try:
                await self._join(room_id)
            except (TokenRefused, PathError) as error:
                self._log.warning("%s: %s", room_id, error.happened)
                opened.gone = isinstance(error, DocumentNotFound)
                return
            except CollaborationError as error:
                self._log.info("%s: %s", room_id, error.happened)
                await asyncio.sleep(pause)
                pause = min(10.0, 2 * pause)

    def _follow_soon(self, room_id: RoomId) -> None:
        """Somebody has edited: follow it until it is in the file."""
        if room_id not in self._following:
            task = asyncio.get_running_loop().create_task(self._follow(room_id))
            self._following[room_id] = task
            task.add_done_callback(lambda _: self._following.pop(room_id, None))

    async def _follow(self, room_id: RoomId) -> None:
        """If the file is changed on disk meanwhile, what it overwrites is done again."""
        pause, waited, told = _FOLLOW, 0.0, False
        oldest: Step | None = None
        while True:
            await asyncio.sleep(pause)
            opened = self._open.get(room_id)
            if opened is None or not opened.peer.unsaved or not opened.peer.link.alive:
                return
            peer = opened.peer
            if peer.unsaved[0] is not oldest:  # what was unsaved before is saved by now
                oldest, pause, waited, told = peer.unsaved[0], _FOLLOW, 0.0, False
            waited += pause
            pause = min(_HEARTBEAT, 1.5 * pause)
            late = waited > _LATE
            try:
                if late and peer.link.autosaves:
                    # Each output of a run, and each key that is pressed, postpones the server's
                    # own save. One that failed it does not try again, and reports to nobody.
                    await peer.save()
                await peer.catch_up()
            except CollaborationError as error:
                self._log.debug("%s: %s", room_id, error.happened)
            except Exception:  # what is unsaved has to be followed all the same
                self._log.exception("Could not look at %s", room_id)
            if late and not told and peer.unsaved:
                told = True
                peer.notes.append(
                    f"The server has not saved {inline(peer.link.path)} for {waited:.0f} s; "
                    "what is unsaved is in the live document only."
                )

    def _seat(self, room_id: RoomId, opened: _Open, agent: Agent) -> Seat:
        seat = opened.agents.get(agent.key)
        if seat is None:
            seat = self._seats.setdefault((room_id, agent.key), Seat(agent.key, agent.name))
            if not seat.seen:
                seat.seen = opened.peer.version
            opened.agents[agent.key] = seat
        if not opened.peer.shows(seat):  # it has left, or the room died while it came
            opened.peer.seat(seat)
            self._forget_seats()
        seat.bound = agent.bound
        seat.used = time.monotonic()
        return seat

    def leave(self, agent: str) -> None:
        """An agent has ended its session: nobody sees it any more. What it runs goes on, and its
        seats are kept for a while, as it may come back."""
        for opened in self._open.values():
            if (seat := opened.agents.get(agent)) is not None:
                opened.peer.hide(seat)

    def _forget_seats(self) -> None:
        """Bound what is kept for agents that have left; the one that left first goes first."""
        left = {key: seat for key, seat in self._seats.items() if seat.presence is None}
        kept = sum(seat.undo.characters for seat in left.values())
        for key, seat in sorted(left.items(), key=lambda item: item[1].used):
            if len(left) <= _SEATS and kept <= _KEPT:
                break
            del left[key], self._seats[key]
            kept -= seat.undo.characters

    def _start_sweeper(self) -> None:
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.get_running_loop().create_task(self._sweep())

    async def _sweep(self) -> None:
        while self._open:
            await asyncio.sleep(min(_HEARTBEAT, self._idle_timeout / 10))
            now = time.monotonic()
            idle_since, silent_since = now - self._idle_timeout, now - _SILENCE
            for room_id, opened in list(self._open.items()):
                for key, seat in list(opened.agents.items()):
                    if seat.used < idle_since and not seat.runs:
                        del opened.agents[key]
                        opened.peer.unseat(seat)
                    elif seat.used < silent_since and not (seat.runs or seat.bound):
                        opened.peer.hide(seat)
                if opened.agents:
                    opened.peer.show_presence()
                elif opened.since < idle_since:  # else who opened it is about to sit down
                    await self._leave(room_id, opened)

    async def _leave(self, room_id: RoomId, opened: _Open) -> None:
        if not await self._nothing_unsaved(room_id, opened):
            return  # else it would be lost with the server that is away just now
        if not opened.agents and self._open.get(room_id) is opened:
            del self._open[room_id]
            if opened.peer.notes:
                self._unsaid[room_id] = opened.peer.notes
                if len(self._unsaid) > _UNSAID:
                    del self._unsaid[next(iter(self._unsaid))]
            try:
                await self._close(opened)
            except Exception:  # the others have to be looked after all the same
                self._log.exception("Could not leave %s in good order", room_id)

    async def _nothing_unsaved(self, room_id: RoomId, opened: _Open) -> bool:
        """Have what agents wrote saved; whether it is, or has no file to be in any more."""
        peer = opened.peer
        try:
            await peer.link.flush()
            if peer.unsaved:
                await peer.catch_up()
        except CollaborationError as error:
            self._log.debug("%s: %s", room_id, error.happened)
        except Exception:
            self._log.exception("Could not save %s before leaving it", room_id)
        return opened.gone or not peer.unsaved

    async def _close(self, opened: _Open) -> None:
        await self._leave_room(opened)
        opened.peer.close()

    async def _leave_room(self, opened: _Open) -> None:
        for seat in opened.agents.values():
            opened.peer.unseat(seat)
        await opened.peer.link.close()
