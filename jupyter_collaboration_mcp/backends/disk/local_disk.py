"""The disk of a contents manager that has its files on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jupyter_core.paths import is_hidden
from jupyter_server.services.contents.filemanager import (
    AsyncFileContentsManager,
    FileContentsManager,
)

from ..protocols.files import Source
from .copy_files import copy_opened
from .folders import Folders
from .open_files import opened_exactly


class LocalDisk:
    """The disk below a contents manager, which knows where on it the files are."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._root = os.path.realpath(manager.root_dir)

    @classmethod
    def below(cls, contents: Any) -> LocalDisk | None:
        """The disk of a contents manager; None if it has its files elsewhere."""
        return cls(contents) if isinstance(contents, FileContentsManager) else None

    def real_path(self, path: str) -> Path:
        """Where a file really is, whatever links lead to it."""
        return Path(os.path.realpath(self._os_path(path)))

    def link_target(self, path: str) -> str:
        """The path of what a link leads to; the path itself if it leads out of the root."""
        at = self.path_of(os.path.realpath(self._os_path(path)))
        return path if at is None else at

    def path_of(self, real: str) -> str | None:
        """The path of a file by where it really is; None if it is out of the root."""
        if real == self._root:
            return ""
        within = f"{self._root.rstrip(os.sep)}{os.sep}"
        return real[len(within) :].replace(os.sep, "/") if real.startswith(within) else None

    def served_target(self, path: str) -> str:
        """The path of what a link leads to, if the manager serves that; else the path itself."""
        at = self.link_target(path)
        return at if at != path and self._os_path(at).exists() and self._serves(at) else path

    def _serves(self, path: str) -> bool:
        manager = self._manager
        if manager.allow_hidden or "\\" in path:
            return "\\" not in path
        try:
            return not is_hidden(str(self._os_path(path)), manager.root_dir)
        except OSError:  # nothing is there: it would be in a file, say
            return True

    def canonical_path(self, path: str, follow: bool) -> str | None:
        """The path of a file or a link itself, through no links, if the manager serves that.

        Args:
            follow: Of a link, where it leads to.

        Returns None if it leads out of the root.
        """
        folder, _, name = path.rpartition("/")
        above = self.path_of(os.path.realpath(self._os_path(folder)))
        if above is None or (follow and self.path_of(str(self.real_path(path))) is None):
            return None
        if follow and (at := self.served_target(path)) != path:
            return at
        if above == folder or not self._serves(above):
            return path
        return f"{above}/{name}" if above else name

    def entry_path(self, path: str) -> str:
        """The path of a file or a link itself, through whatever folders it was named."""
        folder, _, name = path.rpartition("/")
        if not folder:
            return path
        at = self.link_target(folder)
        return f"{at}/{name}" if at else name

    def modified(self, path: str) -> datetime | None:
        """When what a link leads to was changed last; None if it is no link, or leads nowhere."""
        place = self._os_path(path)
        if not place.is_symlink():
            return None
        with contextlib.suppress(OSError):
            return datetime.fromtimestamp(place.stat().st_mtime, UTC)
        return None

    def writable(self, path: str) -> bool:
        return bool(self._manager.is_writable(path))

    def folders(self) -> Folders | None:
        """How to walk through its folders; None if the manager lists them in a way of its own."""
        manager = self._manager
        for name in ("get", "_dir_model", "should_list"):
            if getattr(type(manager), name) not in (
                getattr(FileContentsManager, name),
                getattr(AsyncFileContentsManager, name),
            ):
                return None
        return Folders.below(manager.root_dir, manager.allow_hidden, manager.hide_globs)

    def is_within(self, path: str, folder: str) -> bool:
        """Whether a path is a folder, or is in it; through links, too."""
        place, outer = (
            Path(os.path.realpath(file.parent), file.name)
            for file in (self._os_path(path), self._os_path(folder))
        )
        return place.is_relative_to(outer)

    def has_moved(self, path: str, new_path: str) -> bool:
        """Whether what was at one path is at the other."""
        return os.path.lexists(self._os_path(new_path)) and not os.path.lexists(self._os_path(path))

    def is_file(self, path: str) -> bool:
        return self._os_path(path).is_file()

    async def copy(self, source: Source, new_path: str) -> None:
        """Copy a file or a folder; Jupyter would read all of it.

        Raises:
            FileExistsError: There is something already.
            OSError: It cannot be copied, and nothing of it is left.
        """
        try:
            await asyncio.to_thread(self._copy, source, self._os_path(new_path))
        except FileExistsError:
            raise
        except Exception:
            self.remove_rest(new_path)
            raise
        self._manager.emit(data={"action": "copy", "path": new_path, "source_path": source.path})

    def _copy(self, source: Source, target: Path) -> None:
        if os.path.lexists(target):
            raise FileExistsError(target)
        with opened_exactly(self._root, source.link_target) as file:
            copy_opened(file, target, source.names)

    def remove_rest(self, path: str) -> None:
        """Remove what a failed write has left of a file that was not there before."""
        rest = self._os_path(path)
        with contextlib.suppress(OSError):
            if rest.is_dir():
                shutil.rmtree(rest, ignore_errors=True)
            else:
                rest.unlink()

    def _os_path(self, path: str) -> Path:
        return Path(self._manager._get_os_path(path))
