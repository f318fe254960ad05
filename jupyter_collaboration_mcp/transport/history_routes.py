"""The history of documents over REST, for the command and for people's own programs."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado.web import HTTPError, authenticated

from ..backends.protocols.history_messages import (
    HISTORY,
    MOST_AUTHORSHIPS,
    NO_DOCUMENT,
    AuthorshipMessage,
    dump_authors,
    dump_versions,
)
from ..backends.protocols.room_ids import RoomId
from ..backends.protocols.versions import Versions
from ..backends.remote.extension_info import INFO_PATH
from ..errors import CollaborationError, InvalidArgument, UnknownVersion

#: The most versions in one answer.
_MOST = 1_000

#: The most characters of the name of a version.
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class HistoryService:
    """What the handlers serve."""

    versions: Versions
    path_of: Callable[[str], str | None]
    """The path of the document with a file id."""
    credit: Callable[[RoomId, Sequence[AuthorshipMessage]], Awaitable[None]]
    """Learns who wrote what."""


class _HistoryHandler(APIHandler):
    """A request about the history of one document: allowed to whoever may read or write files."""

    auth_resource = "contents"

    collaboration_mcp_path: str | None = None
    """For authorizers: the path of the document."""

    def initialize(self, service: HistoryService) -> None:
        self.service = service

    async def prepare(self) -> None:  # type: ignore[override]
        try:
            self.room_id = RoomId(self.path_kwargs["room"])
        except ValueError:
            raise HTTPError(400, "This names no room.") from None
        self.collaboration_mcp_path = self.service.path_of(self.room_id.file_id)
        await super().prepare()

    @contextmanager
    def answering(self) -> Iterator[Versions]:
        """The history of the document; what goes wrong becomes a status."""
        if self.collaboration_mcp_path is None:
            raise HTTPError(404, NO_DOCUMENT)
        try:
            yield self.service.versions
        except UnknownVersion as error:
            raise HTTPError(410, error.happened) from error
        except InvalidArgument as error:
            raise HTTPError(409, error.happened) from error
        except CollaborationError as error:
            raise HTTPError(500, error.happened) from error

    def number(self, name: str, default: int | None = None) -> int | None:
        """A whole number of the query."""
        text = self.get_query_argument(name, None)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 16:
            raise HTTPError(400, f"{name} must be a whole number.")
        return int(text)


class VersionsHandler(_HistoryHandler):
    @authenticated
    @authorized
    async def get(self, room: str) -> None:
        """The latest versions: `limit`, `before`."""
        limit, before = self.number("limit", 20), self.number("before")
        with self.answering() as versions:
            found = await versions.list(self.room_id, min(limit or 1, _MOST), before)
        self.finish(dump_versions(found))


class StateHandler(_HistoryHandler):
    @authenticated
    @authorized
    async def get(self, room: str, version: str) -> None:
        """The shared document at a version, as one Yjs update."""
        with self.answering() as versions:
            state = await versions.state_at(self.room_id, int(version))
        self.finish({"state": base64.b64encode(state).decode()})


class CurrentHandler(_HistoryHandler):
    @authenticated
    @authorized
    async def get(self, room: str) -> None:
        """The version that the document has now."""
        with self.answering() as versions:
            self.finish({"id": await versions.current(self.room_id)})


class NamesHandler(_HistoryHandler):
    @authenticated
    @authorized
    async def get(self, room: str) -> None:
        """The named versions."""
        with self.answering() as versions:
            self.finish(dict(await versions.named(self.room_id)))


class NameHandler(_HistoryHandler):
    @authenticated
    @authorized
    async def put(self, room: str, version: str) -> None:
        """Name a version: `name`."""
        body: Any = self.get_json_body()
        name = body.get("name") if isinstance(body, dict) else None
        if not isinstance(name, str) or len(name) > _LONGEST_NAME:
            raise HTTPError(400, f"A name of at most {_LONGEST_NAME} characters is needed.")
        with self.answering() as versions:
            await versions.name(self.room_id, int(version), name)
        self.set_status(204)
        self.finish()


class AuthorsHandler(_HistoryHandler):
    @authenticated
    @authorized
    async def get(self, room: str) -> None:
        """Who wrote each cell last."""
        with self.answering() as versions:
            self.finish(dump_authors(await versions.authors(self.room_id)))

    @authenticated
    @authorized
    async def post(self, room: str) -> None:
        """Learn which agents of another process made which edits: `authorships`."""
        try:
            sent: Any = (self.get_json_body() or {})["authorships"]
            if not isinstance(sent, list) or len(sent) > MOST_AUTHORSHIPS:
                raise ValueError(len(sent))
            messages = [AuthorshipMessage.load(each) for each in sent]
        except (KeyError, TypeError, ValueError, AttributeError):
            raise HTTPError(400, "These are no authorships.") from None
        with self.answering():
            await self.service.credit(self.room_id, messages)
        self.set_status(204)
        self.finish()


def history_handlers(service: HistoryService) -> list[tuple[str, type, dict[str, Any]]]:
    """The handlers, below the base URL."""
    base = rf"/{INFO_PATH}/{HISTORY}/(?P<room>[^/]+)"
    version = r"(?P<version>[0-9]{1,16})"
    routes: list[tuple[str, type]] = [
        (base, VersionsHandler),
        (rf"{base}/state/{version}", StateHandler),
        (rf"{base}/current", CurrentHandler),
        (rf"{base}/names", NamesHandler),
        (rf"{base}/names/{version}", NameHandler),
        (rf"{base}/authors", AuthorsHandler),
    ]
    return [(route, handler, {"service": service}) for route, handler in routes]
