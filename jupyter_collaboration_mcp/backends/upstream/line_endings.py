"""Makes text files keep their line endings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from tornado.web import HTTPError

from ..contents.line_endings import restore, text_model
from ..disk.failed_saves import SaveFailed, reason
from .failed_saves import changed_save
from .workaround import RoomObserver, Server, Workaround, missing_attributes, missing_fields

if TYPE_CHECKING:
    from jupyter_server_ydoc.rooms import DocumentRoom


class LineEndings(Workaround):
    name = "line_endings"
    package = "jupyter-server-ydoc"
    fault = "It turns `\\r\\n` into `\\n` when it loads a text file, and saves the file so."
    issue = "https://github.com/jupyterlab/jupyter-collaboration/issues/448"
    patches = ("FileLoader._save_content_at_path",)
    without = "a text file with Windows line endings is saved with other ones by any edit"

    def __init__(self) -> None:
        self._loaders: WeakSet[Any] = WeakSet()

    def check(self, server: Server) -> list[str]:
        from jupyter_server_ydoc import utils
        from jupyter_server_ydoc.loaders import FileLoader

        return [
            *changed_save(),
            *missing_fields(FileLoader, "_contents_manager", "last_modified"),
            *missing_attributes(utils, "OutOfBandChanges"),
        ]

    def on_room(self, room: DocumentRoom, observer: RoomObserver) -> None:
        from jupyter_server_ydoc.utils import OutOfBandChanges

        loader: Any = room._file
        if loader in self._loaders:
            return
        self._loaders.add(loader)
        save = loader._save_content_at_path

        async def save_with_endings(model: dict[str, Any], path: str) -> Any:
            if model["type"] == "file" and model["format"] == "text":
                try:
                    there = await text_model(loader._contents_manager, path)
                except HTTPError as error:
                    raise SaveFailed(reason(error)) from error
                if there is not None and there["last_modified"] != loader.last_modified:
                    raise OutOfBandChanges  # since the loader checked
                model = {**model, "content": restore(model["content"], there)}
            return await save(model, path)

        loader._save_content_at_path = save_with_endings
