"""Forks of the documents of the Jupyter server that this extension runs in.

They are those of jupyter-collaboration, which has them in memory only: a dictionary with what is
known about each, and a room for each. We keep them in a file, and put them back at a start. Forks
that people create over jupyter-collaboration's own API are adopted.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pycrdt import Doc

from ...documents.members import Member
from ...documents.updates import decode_state
from ...errors import ForkNotFound, RoomUnavailable
from ..protocols.forks import Apart, Contribution, Ending, Fork, valid_id
from ..protocols.room_ids import RoomId
from ..protocols.versions import Source
from ..upstream.session_creation import renamed
from .fork_link import ForkLink
from .fork_store import ROOT, ForkStore, ForkStoreBusy, ForkStoreError
from .fork_watch import Clocks, ForkWatch, base_clocks
from .history.rows import Row
from .room_paths import RoomPaths
from .rooms import Rooms, close_reason
from .server_parts import ServerParts

if TYPE_CHECKING:
    from pycrdt.websocket import YRoom

    from .room_watch import RoomWatch

_FORK_EVENTS = "https://schema.jupyter.org/jupyter_collaboration/fork/v1"
_CONTENTS_EVENTS = "https://events.jupyter.org/jupyter_server/contents_service/v1"

#: Seconds after which updates that nobody waits for are committed.
_COMMIT_DELAY = 0.005

#: Seconds after which a commit is tried again while another process is writing, and how often.
_TRY_AGAIN, _TRIES = 0.05, 40

#: Who creates a fork over the server's own API: only a user name is known, which may be random.
_SOMEBODY = "somebody in JupyterLab"

#: Seconds within which whoever created it so can say who it was.
_TOLD_AFTER = 60.0


class InProcessForks:
    """The forks of this server."""

    limitation = None

    def __init__(self, server: ServerParts, rooms: Rooms, paths: RoomPaths, path: Path) -> None:
        self._server = server
        self._rooms = rooms
        self._paths = paths
        self._store = ForkStore(path)
        self._log = server.log
        self._watches: dict[str, ForkWatch] = {}
        self.on_end: Callable[[str], Awaitable[None]] | None = None
        """Called with the id of each fork that has ended, whoever ended it."""
        self.on_change: Callable[[str], None] | None = None
        """Called with the id of each fork that is new or has ended."""
        self._timer: asyncio.TimerHandle | None = None
        self._holding = 0  # edits that are being made in slices
        self._released = asyncio.Event()

    # -- coming and going of the server ------------------------------------------------------

    def start(self) -> None:
        """Put back the forks of an earlier server, before the first request is served."""
        if not self._server.has_rooms:
            return
        self._rooms.on_watched = self._on_root_opened
        try:
            self._server.events.add_listener(schema_id=_FORK_EVENTS, listener=self._on_fork_event)
            self._server.events.add_listener(
                schema_id=_CONTENTS_EVENTS, listener=self._on_contents_event
            )
            for fork in self._store.forks():
                doc: Doc[Any] = Doc()
                for contribution in self._store.updates(fork.id):
                    doc.apply_update(contribution.update)
                clocks = base_clocks(self._store, fork.id) if fork.synchronize else None
                self._register(fork, self._new_room(doc), clocks)
        except Exception:  # people's documents must open all the same
            self._log.exception("Forks of documents could not be restored")

    async def stop(self) -> None:
        """Stop watching."""
        from jupyter_server_ydoc.handlers import FORK_ROOMS

        self._stop_timer()
        for fork_id, watch in self._watches.items():
            watch.close()
            FORK_ROOMS.pop(fork_id, None)
        self._watches.clear()
        self._store.close()

    # -- for agents --------------------------------------------------------------------------

    async def create(
        self, root: RoomId, title: str, description: str, synchronize: bool, author: Member
    ) -> Fork:
        watch = await self._rooms.open(root)
        try:
            async with watch.room._update_lock:  # B13: or the document is half of a file
                state = watch.room.ydoc.get_update()
                clocks = decode_state(watch.room.ydoc.get_state())
            path = self._paths.path_of_room(root) or ""
            fork = Fork(
                *(secrets.token_hex(6), root, title, description, synchronize),
                *(time.time(), author, path),
            )
            doc = await _built(state)
            self._store.add(fork, state)
            await self.durable()
            room = self._new_room(doc)
            self._register(fork, room, clocks)
            await (await self._rooms.started_server()).start_room(room)
            self._emit(fork, "create", author.id)
        finally:
            self._rooms.on_left(watch.room)
        return fork

    async def credit(self, fork_id: str, author: Member) -> bool:
        """Record who created a fork over the server's own API, which cannot be told.

        Returns whether it is recorded: not if its author is known, or if the fork is older than
        it would be if its author told of it, because then a person has created it.

        Raises:
            ForkNotFound: There is no such fork.
            RoomUnavailable: It could not be kept.
        """
        watch = self._watch(fork_id)
        known, created = watch.fork.author, watch.fork.created or 0
        taken = known is not None and known.name != _SOMEBODY
        if taken or time.time() - created > _TOLD_AFTER:
            return False
        self._change(watch, replace(watch.fork, author=author))
        await self.durable()
        return True

    async def list(self, root: RoomId | None = None) -> Sequence[Fork]:
        forks = [watch.fork for watch in self._watches.values()]
        return [fork for fork in forks if root in (None, fork.root)]

    async def get(self, fork_id: str) -> Fork:
        return self._watch(fork_id).fork

    async def path_of(self, fork: Fork) -> str | None:
        return self._paths.path_of_room(fork.root)

    def last_path(self, fork: Fork) -> str:
        """The path of the root, or the last one that is known if the root is gone."""
        return self._paths.path_of_room(fork.root) or fork.path

    def known_path(self, fork_id: str) -> str | None:
        """The path of what a fork was forked from, by the id of the fork."""
        watch = self._watches.get(fork_id)
        return None if watch is None else self.last_path(watch.fork) or None

    @contextlib.contextmanager
    def unsynchronized(self, fork: Fork) -> Iterator[Apart]:
        watch, apart = self._watch(fork.id), Apart(True)
        synchronized = watch.fork.synchronize
        if synchronized:
            # Neither a server that dies in between nor one that opens the root again may copy what
            # was merged into the fork.
            watch.release()
            self._change(watch, replace(watch.fork, synchronize=False))
        try:
            yield apart
        except BaseException:
            if synchronized and not apart.stays:
                self._change(watch, replace(watch.fork, synchronize=True))
                if self._watches.get(fork.id) is watch:
                    self._synchronize(watch)
            raise

    def writes(self, fork: Fork) -> int:
        return self._watch(fork.id).writes

    def rebase(self, fork: Fork, state: bytes) -> None:
        if fork.id in self._watches:
            self._store.rebase(fork.id, state)
            self._commit_soon()

    async def base(self, fork: Fork) -> bytes | None:
        await self.durable()
        try:
            return await asyncio.to_thread(self._store.base, fork.id)
        except ForkStoreError as error:
            raise _unusable(error) from error

    async def rows(self, fork_id: str) -> Sequence[Row]:
        """What a fork's document was made of, for its history.

        Raises:
            ForkNotFound: There is no such fork.
            RoomUnavailable: It could not be kept.
        """
        found = await self.contributions(self._watch(fork_id).fork)
        rows = [Row(0, each.time, each.update, _author(each.writer)) for each in found]
        return [rows[0]._replace(author=("document", None)), *rows[1:]] if rows else []

    async def contributions(self, fork: Fork) -> Sequence[Contribution]:
        await self.durable()
        try:
            return await asyncio.to_thread(self._store.updates, fork.id)
        except ForkStoreError as error:
            raise _unusable(error) from error

    async def join(self, room_id: RoomId) -> ForkLink:
        """Take a seat in the room of a fork.

        Raises:
            ForkNotFound: It is gone.
        """
        watch = self._watch(room_id.file_id)
        server = await self._rooms.started_server()
        await server.start_room(watch.room)
        await watch.room.ydoc_observed.wait()  # B2
        link = ForkLink(watch, self, server)
        await link.enter()
        return link

    async def end(self, fork: Fork, how: Ending, why: str, writes: int | None = None) -> bool:
        from jupyter_server_ydoc.handlers import FORK_ROOMS

        watch = self._watch(fork.id)
        if writes is not None and (watch.writes != writes or watch.awaits or self._holding):
            return False
        # Nothing is awaited until nobody can write into it any more.
        self._store.end(fork.id, how)
        self._forget(fork.id)
        FORK_ROOMS.pop(fork.id, None)
        for client in list(watch.room.clients):
            if hasattr(client, "close"):  # somebody's WebSocket; JupyterLab shows the reason
                client.close(1003, close_reason(why))
        self._server.ydoc.ywebsocket_server.rooms.pop(fork.id, None)
        with contextlib.suppress(RuntimeError):  # it was never started
            await watch.room.stop()
        self._emit(fork, "delete", "")
        await self.durable()
        return True

    # -- for links ---------------------------------------------------------------------------

    def lives(self, watch: ForkWatch) -> bool:
        """Whether the server has this very room under the id of the fork."""
        server = self._server.ydoc.ywebsocket_server
        return server.rooms.get(watch.fork.id) is watch.room

    async def durable(self) -> None:
        """Return when everything that forks have got would survive a crash.

        Raises:
            RoomUnavailable: It would not.
        """
        for attempt in range(_TRIES):
            while self._holding:
                await self._released.wait()
            try:
                self._commit()
                return
            except ForkStoreError as error:
                if not isinstance(error, ForkStoreBusy) or attempt == _TRIES - 1:
                    raise _unusable(error) from error
            await asyncio.sleep(_TRY_AGAIN)

    @contextlib.contextmanager
    def uncommitted(self) -> Iterator[None]:
        """Commit nothing meanwhile: after a crash there is all of an edit or nothing."""
        self._holding += 1
        self._released.clear()
        try:
            yield
        finally:
            self._holding -= 1
            if not self._holding:
                self._released.set()
                self._commit_soon()

    # -- parts -------------------------------------------------------------------------------

    def _watch(self, fork_id: str) -> ForkWatch:
        watch = self._watches.get(valid_id(fork_id))
        if watch is not None and self.lives(watch):
            return watch
        how = None
        with contextlib.suppress(ForkStoreError):
            how = self._store.ending(fork_id)
        raise ForkNotFound.unknown(fork_id) if how is None else ForkNotFound.over(fork_id, how)

    def _new_room(self, doc: Doc[Any]) -> YRoom:
        from jupyter_server_ydoc.websocketserver import exception_logger
        from pycrdt.websocket import YRoom

        return YRoom(ydoc=doc, exception_handler=exception_logger, log=self._log)

    def _register(self, fork: Fork, room: YRoom, clocks: Clocks | None) -> None:
        """Make a fork known to jupyter-collaboration, and watch it."""
        from jupyter_server_ydoc.handlers import FORK_ROOMS

        FORK_ROOMS[fork.id] = fork.info()
        self._server.ydoc.ywebsocket_server.rooms[fork.id] = room
        watch = ForkWatch(fork, room, self._store, self._commit_soon, clocks)
        self._watches[fork.id] = watch
        self._synchronize(watch)

    def _change(self, watch: ForkWatch, fork: Fork) -> None:
        """Change what is known about a fork, unless it is gone."""
        from jupyter_server_ydoc.handlers import FORK_ROOMS

        watch.fork = fork
        if self._watches.get(fork.id) is watch:
            FORK_ROOMS[fork.id] = fork.info()
            self._store.change(fork)
            self._commit_soon()

    def _synchronize(self, watch: ForkWatch) -> None:
        root = self._rooms.watch_of(watch.fork.root)
        if watch.fork.synchronize and root is not None:
            watch.follow(root)

    def _forget(self, fork_id: str) -> None:
        if (watch := self._watches.pop(fork_id, None)) is not None:
            watch.close()

    def _on_root_opened(self, root: RoomWatch) -> None:
        """Synchronize forks of a document that was opened again."""
        for watch in self._watches.values():
            if watch.fork.root == root.room_id:
                self._note_path(watch, self._paths.path_of_room(root.room_id))
                if watch.fork.synchronize:
                    watch.follow(root)

    async def _on_contents_event(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        """Note where the roots of forks are: it decides who may touch them when a root is gone."""
        old, new = data.get("source_path"), data.get("path")
        if data.get("action") == "rename" and old and new:
            for watch in self._watches.values():
                path = self._paths.path_of_room(watch.fork.root)
                # Whether the ids have followed already is a matter of who was told first.
                self._note_path(watch, path and (renamed(path, old, new) or path))

    def _note_path(self, watch: ForkWatch, path: str | None) -> None:
        if path and path != watch.fork.path:
            self._change(watch, replace(watch.fork, path=path))

    def _emit(self, fork: Fork, action: str, username: str) -> None:
        data = {
            "fork_roomid": fork.id,
            "fork_info": fork.info(),
            "username": username,
            "action": action,
        }
        self._server.events.emit(schema_id=_FORK_EVENTS, data=data)

    async def _on_fork_event(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        """Adopt what people fork over the server's own API, and forget what they delete there."""
        fork_id, action = str(data.get("fork_roomid")), data.get("action")
        if action == "delete":
            if fork_id in self._watches:
                self._forget(fork_id)
                self._store.end(fork_id, "deleted")
                self._commit_soon()
            if self.on_end is not None:  # we emit this event, too
                await self.on_end(fork_id)
        elif action == "create" and fork_id not in self._watches:
            room = self._server.ydoc.ywebsocket_server.rooms.get(fork_id)
            try:
                fork = Fork.of_info(fork_id, data.get("fork_info", {}))
            except (ForkNotFound, KeyError, ValueError):
                return  # of something else than a document: left as it is
            if room is not None:
                author = Member(str(data.get("username")), _SOMEBODY)
                path = self._paths.path_of_room(fork.root) or ""
                fork = replace(fork, created=time.time(), author=author, path=path)
                self._store.add(fork, room.ydoc.get_update())
                self._register(fork, room, decode_state(room.ydoc.get_state()))
                self._commit_soon()
        if self.on_change is not None:
            self.on_change(fork_id)

    def _commit_soon(self, delay: float = _COMMIT_DELAY) -> None:
        if self._timer is None and not self._holding:
            self._timer = asyncio.get_running_loop().call_later(delay, self._commit_now)

    def _commit_now(self) -> None:
        try:
            self._commit()
        except ForkStoreBusy:
            self._commit_soon(_TRY_AGAIN)
        except ForkStoreError:
            self._log.exception("Edits of forks could not be kept")

    def _commit(self) -> None:
        self._stop_timer()
        if self._holding:
            return
        self._store.commit()
        for watch in self._watches.values():
            watch.on_commit()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _built(state: bytes) -> Doc[Any]:
    """A document with a state; a large one takes too long for the event loop."""

    def build() -> Any:
        doc: Doc[Any] = Doc(allow_multithreading=True)
        doc.apply_update(state)
        return doc._doc

    # The document itself is used on the event loop's thread only, like that of any room.
    return Doc(doc=await asyncio.to_thread(build))


def _unusable(error: ForkStoreError) -> RoomUnavailable:
    return RoomUnavailable(
        f"What is in forks could not be made durable ({error}); it would be lost if the server "
        "crashed.",
        "Tell the person that the disk of the Jupyter server may be full.",
    )


def _author(writer: Member | None) -> tuple[Source, Member | None] | None:
    if writer is None:
        return None  # perhaps somebody else has reported it
    if writer == ROOT:
        return "document", None
    return ("agent" if writer.is_agent else "person"), writer
