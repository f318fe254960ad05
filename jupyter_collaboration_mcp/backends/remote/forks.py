"""Forks of the documents of a Jupyter server elsewhere, over jupyter-collaboration's own API.

Such a server tells only of the forks of one document at a time, and forgets all when it restarts,
unless our extension keeps them there.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from logging import Logger
from typing import Any

from pycrdt import merge_updates

from ...documents.members import Member
from ...errors import ForkNotFound, RoomUnavailable
from ..protocols.forks import Apart, Contribution, Ending, Fork, valid_id
from ..protocols.room_ids import RoomId
from .extension_info import INFO_PATH
from .fork_socket import ForkSocket
from .jupyter_api import JupyterApi
from .server_errors import Refused

_NOT_KEPT = (
    "This server forgets its forks when it restarts; our extension, installed there, keeps them."
)

_FORKS = (*INFO_PATH.split("/"), "forks")

#: Forks that are remembered, and documents whose forks are looked for.
_KNOWN = 1_000


class RemoteForks:
    """The forks of one server.

    Args:
        locate: Finds the path of a file by its id.
        open_rooms: The rooms that we are in.
    """

    def __init__(
        self,
        api: JupyterApi,
        locate: Callable[[str], Awaitable[str | None]],
        open_rooms: Callable[[], Iterable[RoomId]],
        log: Logger,
    ) -> None:
        self._api = api
        self._locate = locate
        self._open_rooms = open_rooms
        self._log = log
        self._known: dict[str, Fork] = {}
        self._bases: dict[str, bytes] = {}
        self._merged: dict[str, bytes] = {}  # what of a fork was merged that is still there
        self._over: dict[str, Ending] = {}
        self._kept = False  # whether our extension keeps forks there

    @property
    def limitation(self) -> str | None:
        return None if self._kept else _NOT_KEPT

    async def create(
        self, root: RoomId, title: str, description: str, synchronize: bool, author: Member
    ) -> Fork:
        wanted = {"title": title, "description": description, "synchronize": synchronize}
        try:
            made = await self._api.request("PUT", *_address(root), body=wanted)
        except Refused as refused:
            raise _failed(root, refused) from refused
        with self._api.expecting("a fork"):
            fork = Fork.of_info(str(made["fork_roomid"]), made["fork_info"])
        path = await self._locate(root.file_id) or ""
        fork = self._remember(replace(fork, created=time.time(), author=author, path=path))
        with suppress(RoomUnavailable):  # then it counts as unknown
            self._bases[fork.id] = await self._first_state(fork)
        await self._tell_author(fork, author)
        return fork

    async def _tell_author(self, fork: Fork, author: Member) -> None:
        """Tell our extension, if it is there, who created a fork."""
        try:
            body = {"author": dict(author._asdict())}
            await self._api.request("PUT", *_FORKS, fork.id, body=body)
            self._kept = True
        except Refused as refused:
            self._log.debug("The server keeps no forks: %s", refused)

    async def list(self, root: RoomId | None = None) -> Sequence[Fork]:
        if root is not None:
            return await self._ask(root)
        if (kept := await self._ask_extension()) is not None:
            with self._api.expecting("forks"):
                return [self._remember(Fork.of_info(*each)) for each in kept["forks"].items()]
        roots = {fork.root for fork in self._known.values()} | set(self._open_rooms())
        lists = await asyncio.gather(*map(self._ask, sorted(roots)[:_KNOWN]))
        return [fork for forks in lists for fork in forks]

    async def get(self, fork_id: str) -> Fork:
        known = self._known.get(valid_id(fork_id))
        if known is None and (kept := await self._ask_extension(fork_id)) is not None:
            with self._api.expecting("a fork"):
                return self._remember(Fork.of_info(fork_id, kept["info"]))
        for fork in await self.list(None if known is None else known.root):
            if fork.id == fork_id:
                return fork
        if (how := self._over.get(fork_id)) is not None:
            raise ForkNotFound.over(fork_id, how)
        raise ForkNotFound.unknown(fork_id)

    async def path_of(self, fork: Fork) -> str | None:
        path = await self._locate(fork.root.file_id)
        if path is not None:
            try:
                await self._api.contents(path, content="0")
            except Refused as refused:
                if refused.status == 404:
                    return None
                raise _failed(fork.root, refused) from refused
            if (known := self._known.get(fork.id)) is not None:  # for when it is gone
                self._known[fork.id] = replace(known, path=path)
        return path

    def known_path(self, fork_id: str) -> str | None:
        """The last known path of what a fork was forked from."""
        known = self._known.get(fork_id)
        return None if known is None else known.path or None

    async def base(self, fork: Fork) -> bytes | None:
        if (merged := self._merged.get(fork.id)) is not None:
            return merged
        kept = await self._ask_extension(fork.id)
        if kept is None:
            return self._bases.get(fork.id)
        with self._api.expecting("a fork"):
            return None if kept["base"] is None else base64.b64decode(kept["base"])

    async def contributions(self, fork: Fork) -> Sequence[Contribution]:
        return ()  # another server remembers no authors

    @contextmanager
    def unsynchronized(self, fork: Fork) -> Iterator[Apart]:
        yield Apart(not fork.synchronize)

    def writes(self, fork: Fork) -> None:
        return None  # the server does not compare, so a moment remains

    def rebase(self, fork: Fork, state: bytes) -> None:
        self._merged[fork.id] = state

    async def join(self, room_id: RoomId) -> ForkSocket:
        """Take a seat in the room of a fork.

        Raises:
            ForkNotFound: It is gone.
        """
        fork = await self.get(room_id.file_id)
        path = await self._locate(fork.root.file_id) or fork.path
        link = ForkSocket(self._api, fork, path, self._log, self._exists)
        await link.enter()
        return link

    async def end(self, fork: Fork, how: Ending, why: str, writes: int | None = None) -> bool:
        try:
            await self._api.request(
                "DELETE", "api", "collaboration", "fork", fork.id, query={"merge": "false"}
            )
        except Refused as refused:
            if refused.status == 404:
                raise ForkNotFound.over(fork.id, self._over.get(fork.id, "deleted")) from refused
            raise _failed(fork.root, refused) from refused
        self._over[fork.id] = how
        self._forget(fork.id)
        return True

    async def _ask_extension(self, *fork_id: str) -> Any:
        """What our extension there knows of forks; None if it is not there, or knows nothing."""
        try:
            return await self._api.get(*_FORKS, *fork_id)
        except Refused as refused:
            if refused.status != 404:
                self._log.debug("The server tells nothing of forks: %s", refused)
            return None

    # -- parts -------------------------------------------------------------------------------

    async def _ask(self, root: RoomId) -> Sequence[Fork]:
        """The forks of a document, as the server lists them now."""
        try:
            found = await self._api.get(*_address(root))
        except Refused as refused:
            if refused.status == 404:  # without collaboration there are no forks
                return []
            raise _failed(root, refused) from refused
        with self._api.expecting("forks"):
            forks = [self._remember(Fork.of_info(key, info)) for key, info in found.items()]
        for fork_id in [each.id for each in self._known.values() if each.root == root]:
            if fork_id not in found:
                self._forget(fork_id)
        return forks

    def _forget(self, fork_id: str) -> None:
        for kept in (self._known, self._bases, self._merged):
            kept.pop(fork_id, None)

    def _remember(self, fork: Fork) -> Fork:
        """What is known of a fork: we remember of our own what a stock server does not."""
        if (known := self._known.get(fork.id)) is not None and not fork.path:
            fork = replace(fork, created=known.created, author=known.author, path=known.path)
        self._known[fork.id] = fork
        if len(self._known) > _KNOWN:
            self._forget(next(iter(self._known)))
        return fork

    async def _exists(self, fork: Fork) -> bool:
        return any(each.id == fork.id for each in await self._ask(fork.root))

    async def _first_state(self, fork: Fork) -> bytes:
        """What the room of a fork has that was just created, and that nobody else knows yet."""
        link = await self.join(fork.room_id)
        try:
            return merge_updates(*link.receive())
        finally:
            await link.close()


def _address(root: RoomId) -> tuple[str, ...]:
    return "api", "collaboration", "fork", str(root)


def _failed(root: RoomId, refused: Refused) -> RoomUnavailable:
    return RoomUnavailable(
        f"The Jupyter server cannot fork the document of room {root} now: {refused}.",
        "Try again in a while; the log of the Jupyter server says more.",
    )
