"""Makes failed saves leave the file as it was, and report the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from tornado.web import HTTPError

from ..disk.failed_saves import SaveFailed, reason, restored_on_failure
from ..disk.local_disk import LocalDisk
from .workaround import RoomObserver, Server, Workaround, changed_signature, unused_names

if TYPE_CHECKING:
    from jupyter_server_ydoc.rooms import DocumentRoom


class FailedSaves(Workaround):
    name = "failed_saves"
    package = "jupyter-server"
    fault = (
        "When the disk is full, its own way back fails as well: half a file is left with a copy "
        "beside it, and the room takes that half for somebody's change. Why a save failed is not "
        "in what jupyter-server-ydoc reports."
    )
    patches = ("FileLoader._save_content_at_path",)
    without = "a save to a full disk can destroy the file and empty the live document"

    def __init__(self) -> None:
        self._loaders: WeakSet[Any] = WeakSet()
        self._disk: LocalDisk | None = None

    def check(self, server: Server) -> list[str]:
        return changed_save()

    def apply(self, server: Server) -> None:
        self._disk = server.disk

    def on_room(self, room: DocumentRoom, observer: RoomObserver) -> None:
        loader: Any = room._file
        if loader in self._loaders:
            return
        self._loaders.add(loader)
        save = loader._save_content_at_path

        async def save_or_restore(model: dict[str, Any], path: str) -> Any:
            try:
                with restored_on_failure(self._disk, path):
                    return await save(model, path)
            except HTTPError as error:
                raise SaveFailed(reason(error)) from error

        loader._save_content_at_path = save_or_restore


def changed_save() -> list[str]:
    """How a file loader differs from one whose method of writing can be replaced."""
    from jupyter_server_ydoc.loaders import FileLoader

    return [
        *changed_signature(FileLoader, "_save_content_at_path", "model", "path", is_async=True),
        *unused_names(FileLoader, "_save_content", "_save_content_at_path"),
        *unused_names(FileLoader, "maybe_save_content", "_save_content"),
    ]
