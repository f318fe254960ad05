"""The disk of a contents manager whose files are on this machine.

A Jupyter path names a file. Its canonical path goes through no links to folders, and its link
target is the path of the file that it finally leads to.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

from jupyter_core.paths import is_hidden
from jupyter_server.services.contents.filemanager import (
    AsyncFileContentsManager,
    FileContentsManager,
)
from jupyter_server.utils import ensure_async

from ..protocols.files import Source
from .copy_files import copy_opened
from .folders import Folders
from .open_files import opened_exactly

#: Paths of which it is remembered where they are.
_REMEMBERED = 2_000


class LocalDisk:
    """The disk of a contents manager, which maps Jupyter paths to files."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._root = os.path.realpath(manager.root_dir)
        self._os_paths: dict[str, Path] = {}
        self._steps: dict[str, tuple[str, ...]] = {}
        # As Jupyter's own manager does it; but that looks up where the file is, each time.
        self._checks_access = type(manager).is_writable is FileContentsManager.is_writable

    @classmethod
    def below(cls, contents: Any) -> LocalDisk | None:
        """The disk of a contents manager; None if its files are elsewhere."""
        return cls(contents) if isinstance(contents, FileContentsManager) else None

    def real_path(self, path: str) -> Path:
        """The file on disk, with all links resolved."""
        return Path(self.resolve(path))

    def link_target(self, path: str) -> str:
        """The Jupyter path of what a link leads to; the path itself if it leads out of the root."""
        at = self.path_of(self.resolve(path))
        return path if at is None else at

    def resolve(self, path: str) -> str:
        """`real_path` as a text.

        Each call asks several times, and most paths have no link in them: to look at what is below
        the root is enough for those, because the root was resolved before.
        """
        steps = self._steps_to(path)
        if not steps or any(map(os.path.islink, steps)):
            return os.path.realpath(self._os_path(path))
        return steps[-1]

    def find(self, path: str) -> str | None:
        """`resolve`, or None if there is nothing. Each edit asks."""
        with contextlib.suppress(OSError):
            modes = [os.lstat(step).st_mode for step in self._steps_to(path)]
            if modes and not any(map(stat.S_ISLNK, modes)):
                return self._steps_to(path)[-1]
        real = self.resolve(path)
        return real if os.path.exists(real) else None  # noqa: PTH110

    def _steps_to(self, path: str) -> tuple[str, ...]:
        """The folders that a path goes through below the root, and its file, if there is no link
        among them; empty where that is not as simple."""
        steps = self._steps.get(path)
        if steps is None:
            if len(self._steps) >= _REMEMBERED:
                self._steps.clear()
            steps = self._steps[path] = self._find_steps(path)
        return steps

    def _find_steps(self, path: str) -> tuple[str, ...]:
        root, place = Path(self._manager.root_dir), self._os_path(path)
        if os.name != "posix" or not place.is_relative_to(root):
            return ()
        names = place.relative_to(root).parts
        if ".." in names:
            return ()
        below = accumulate(names, os.path.join, initial=self._root)
        return tuple(below)[1:]

    def path_of(self, real: str) -> str | None:
        """The Jupyter path of a file by its real path; None if it is outside of the root."""
        if real == self._root:
            return ""
        within = f"{self._root.rstrip(os.sep)}{os.sep}"
        return real[len(within) :].replace(os.sep, "/") if real.startswith(within) else None

    def served_target(self, path: str) -> str:
        """The link target, if the manager serves it; otherwise the path itself."""
        at = self.link_target(path)
        return at if at != path and self._os_path(at).exists() and self._serves(at) else path

    def _serves(self, path: str) -> bool:
        manager = self._manager
        if manager.allow_hidden or "\\" in path:
            return "\\" not in path
        try:
            return not is_hidden(str(self._os_path(path)), manager.root_dir)
        except OSError:  # there is nothing, for example because its folder is a file
            return True

    def canonical_path(self, path: str, follow: bool) -> str | None:
        """The path without links to folders, if the manager serves that.

        Args:
            follow: If the path itself is a link, use its target.

        Returns None if the path leads out of the root.
        """
        folder, _, name = path.rpartition("/")
        above = self.path_of(self.resolve(folder))
        if above is None or (follow and self.path_of(str(self.real_path(path))) is None):
            return None
        if follow and (at := self.served_target(path)) != path:
            return at
        if above == folder or not self._serves(above):
            return path
        return f"{above}/{name}" if above else name

    def entry_path(self, path: str) -> str:
        """The path without links to folders, whether the manager serves that or not."""
        folder, _, name = path.rpartition("/")
        if not folder:
            return path
        at = self.link_target(folder)
        return f"{at}/{name}" if at else name

    def modified(self, path: str) -> datetime | None:
        """When the target of a link was last changed; None if it is not a link, or is broken."""
        place = self._os_path(path)
        if not place.is_symlink():
            return None
        with contextlib.suppress(OSError):
            return datetime.fromtimestamp(place.stat().st_mtime, UTC)
        return None

    def writable(self, path: str) -> bool:
        if self._checks_access:
            return os.access(self._os_path(path), os.W_OK)
        return bool(self._manager.is_writable(path))

    def folders(self) -> Folders | None:
        """Walks through its folders; None if the manager overrides how they are listed."""
        manager = self._manager
        for name in ("get", "_dir_model", "should_list"):
            if getattr(type(manager), name) not in (
                getattr(FileContentsManager, name),
                getattr(AsyncFileContentsManager, name),
            ):
                return None
        return Folders.below(manager.root_dir, manager.allow_hidden, manager.hide_globs)

    def is_within(self, path: str, folder: str) -> bool:
        """Whether a path is a folder, or is inside of it, even through links."""
        place, outer = (
            Path(os.path.realpath(file.parent), file.name)
            for file in (self._os_path(path), self._os_path(folder))
        )
        return place.is_relative_to(outer)

    def has_moved(self, path: str, new_path: str) -> bool:
        """Whether what was at one path is now at the other."""
        return os.path.lexists(self._os_path(new_path)) and not os.path.lexists(self._os_path(path))

    def is_file(self, path: str) -> bool:
        return self._os_path(path).is_file()

    async def rename(self, path: str, new_path: str, announced: str) -> None:
        """Rename a file or a folder as the manager does, which would announce the path itself.

        Args:
            announced: The path that those who follow the file know it by.
        """
        await ensure_async(self._manager.rename_file(path, new_path))
        await ensure_async(self._manager.checkpoints.rename_all_checkpoints(path, new_path))
        self._manager.emit({"action": "rename", "path": new_path, "source_path": announced})

    async def copy(self, source: Source, new_path: str) -> None:
        """Copy a file or a folder, which Jupyter would do by reading all of it.

        Raises:
            FileExistsError: The new path is taken.
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
        """Remove what a failed write has left of a file that did not exist before."""
        rest = self._os_path(path)
        with contextlib.suppress(OSError):
            if rest.is_dir():
                shutil.rmtree(rest, ignore_errors=True)
            else:
                rest.unlink()

    def _os_path(self, path: str) -> Path:
        """Where a Jupyter path is on disk, wherever links lead. This depends on nothing else, and
        each call asks several times."""
        known = self._os_paths.get(path)
        if known is None:
            if len(self._os_paths) >= _REMEMBERED:
                self._os_paths.clear()
            known = self._os_paths[path] = Path(self._manager._get_os_path(path))
        return known
