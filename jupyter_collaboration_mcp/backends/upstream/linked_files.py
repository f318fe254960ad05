"""Makes the rooms of jupyter-server-ydoc see what a link leads to."""

from __future__ import annotations

from collections import ChainMap
from typing import Any
from weakref import WeakKeyDictionary

from jupyter_server.utils import ensure_async

from ..disk.local_disk import LocalDisk
from ..disk.open_files import Load, Loads, opened_files, report_opened_files
from .workaround import (
    Server,
    Workaround,
    changed_signature,
    missing_attributes,
    missing_fields,
    unused_names,
)

_CONTENTS = "contents_manager"


class OpenedFiles(Workaround):
    name = "opened_files"
    package = "jupyter-server"
    fault = (
        "It does not report which file it has opened, and a link may lead elsewhere by the time "
        "that one looks."
    )
    patches = ("FileManagerMixin.open",)
    without = (
        "a link that changes while it is read can show an agent a file that the path rules deny"
    )

    def check(self, server: Server) -> list[str]:
        if server.disk is None:
            return []
        return [
            *changed_signature(server.contents, "open", "os_path", "args", "kwargs"),
            *unused_names(server.contents, "_read_file", "open"),
        ]

    def apply(self, server: Server) -> None:
        if server.disk is not None:
            report_opened_files(server.contents)


class LinkTimes(Workaround):
    name = "link_times"
    package = "jupyter-server"
    fault = (
        "It gives a link its own time of change, which stays the same when somebody changes the "
        "file behind it: a room that people opened through a link never notices."
    )
    patches = ("FileLoaderMapping._settings",)
    without = "a save overwrites what others changed in a file that is open through a link"

    def check(self, server: Server) -> list[str]:
        return changed_mapping(server)

    def apply(self, server: Server) -> None:
        if server.ydoc is None or server.disk is None:
            return
        linked = LinkedContents(server.contents, server.disk)
        loaders = server.ydoc.file_loaders
        loaders._settings = ChainMap({_CONTENTS: linked}, loaders._settings)


class LoadRecords(Workaround):
    name = "load_records"
    package = "jupyter-server-ydoc"
    fault = "A room does not report which file it has loaded; a link may lead elsewhere by then."
    patches = ("FileLoader.load_content",)
    without = (
        "the path rules are checked against the file that a link leads to now, not against the one "
        "that a document was loaded from"
    )

    def __init__(self) -> None:
        self._loads: WeakKeyDictionary[Any, Loads] = WeakKeyDictionary()
        self._disk: LocalDisk | None = None

    def check(self, server: Server) -> list[str]:
        from jupyter_server_ydoc.loaders import FileLoader

        return changed_signature(FileLoader, "load_content", "format", "file_type", is_async=True)

    def apply(self, server: Server) -> None:
        self._disk = server.disk

    def on_loader(self, loader: Any) -> None:
        disk = self._disk
        if disk is None or loader in self._loads:
            return
        load = loader.load_content
        loads = self._loads[loader] = Loads()

        async def load_content(*arguments: Any, **options: Any) -> Any:
            path = loader.path
            with opened_files() as opened:
                model = await load(*arguments, **options)
            if opened:
                loads.add(Load(opened[-1], linked=disk.path_of(opened[-1]) != path))
            return model

        loader.load_content = load_content

    def of(self, loader: Any) -> Loads:
        """The files that a loader has loaded from."""
        return self._loads.get(loader) or Loads()


def changed_mapping(server: Server) -> list[str]:
    """How file loaders differ from ones that can be given another contents manager."""
    from jupyter_server_ydoc.loaders import FileLoader, FileLoaderMapping

    found = [
        *missing_fields(FileLoaderMapping, "_settings"),
        *unused_names(FileLoaderMapping, "__getitem__", "contents_manager"),
        *missing_fields(FileLoader, "_contents_manager"),
    ]
    if server.ydoc is None:
        return found
    loaders = server.ydoc.file_loaders
    found += missing_attributes(loaders, "_settings")
    if not found and loaders._settings.get(_CONTENTS) is not loaders.contents_manager:
        found.append("FileLoaderMapping.contents_manager is not from its settings")
    return found


class LinkedContents:
    """A contents manager that reports the modification time of a link's target."""

    def __init__(self, contents: Any, disk: LocalDisk) -> None:
        self._contents = contents
        self._disk = disk

    async def get(self, path: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        # Before reading: a change in between must not count as known.
        modified = self._disk.modified(path)
        model = await ensure_async(self._contents.get(path, *arguments, **options))
        return model if modified is None else {**model, "last_modified": modified}

    async def save(self, model: dict[str, Any], path: str = "") -> dict[str, Any]:
        saved = await ensure_async(self._contents.save(model, path))
        modified = self._disk.modified(path)
        return saved if modified is None else {**saved, "last_modified": modified}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._contents, name)
