"""Listing files: what is in a folder, what a search finds, and how a path may go on."""

from __future__ import annotations

from ..backends.protocols.files import FileQuery, Files, FileType, Listing
from ..documents import file_types
from ..errors import InvalidArgument
from ..remedies import Intent
from .file_rollback import find_entry
from .permits import Permit


class FileListings:
    """The files of a server that a call may see."""

    def __init__(self, files: Files) -> None:
        self._files = files

    async def notebooks(self, permit: Permit, limit: int) -> Listing:
        """Notebooks whose path begins with the permitted one."""
        prefix = permit.path
        start = await self._folder_of(prefix)
        return await self._files.walk(
            start,
            FileQuery(
                lambda path, kind: (
                    kind == "notebook" and path.startswith(prefix) and permit.sees(path)
                ),
                (".ipynb",),
            ),
            lambda path: path.startswith(prefix) or prefix.startswith(f"{path}/"),
            limit,
        )

    async def children(self, permit: Permit, limit: int) -> Listing:
        """What is in a folder.

        Raises:
            DocumentNotFound: There is no such folder.
            InvalidArgument: It is a file.
        """
        path = permit.path
        await self._require_folder(permit)
        return await self._files.children(
            path,
            lambda at, kind: permit.sees(at) or (kind == "directory" and permit.may_enter(at)),
            limit,
        )

    async def search(
        self, permit: Permit, path_filter: str, file_type: str | None, limit: int
    ) -> Listing:
        """Files of a type or with a path, in a folder and all folders below it."""
        await self._require_folder(permit)
        fits_type, fits_path = file_types.of_type(file_type), file_types.at_path(path_filter)
        wanted = FileQuery(
            lambda at, kind: fits_path(at, kind) and fits_type(at, kind) and permit.sees(at),
            file_types.endings(file_type),
            file_types.part(path_filter),
            folders=(file_type or "").lower() in ("directory", "folder"),
        )
        return await self._files.walk(permit.path, wanted, _everywhere, limit)

    async def beginning(
        self, permit: Permit, beginning: str, file_type: str, limit: int
    ) -> Listing:
        """Files of a type in a folder or below it whose path or name begins in some way, in upper
        or lower case."""
        start, fits_type = beginning.removeprefix("./").lower(), file_types.of_type(file_type)

        def fits(at: str, kind: FileType) -> bool:
            path = at.lower()
            begins = path.startswith(start) or path.rpartition("/")[2].startswith(start)
            return begins and fits_type(at, kind) and permit.sees(at)

        def enter(at: str) -> bool:  # a name has no slash
            folder = f"{at.lower()}/"
            return "/" not in start or folder.startswith(start) or start.startswith(folder)

        wanted = FileQuery(fits, file_types.endings(file_type))
        return await self._files.walk(permit.path, wanted, enter, limit)

    async def _require_folder(self, permit: Permit) -> None:
        path = permit.path
        permit.require_known(path)
        if path and (entry := await self._files.look(path)).type != "directory":
            raise InvalidArgument(
                f"{path!r} is a {entry.type}, not a folder.",
                Intent.READ_OR_LIST_PARENT,
            )

    async def _folder_of(self, prefix: str) -> str:
        """The folder in which to start looking for paths with a prefix."""
        entry = await find_entry(self._files, prefix)
        is_folder = entry is not None and entry.type == "directory"
        return prefix if is_folder else prefix.rpartition("/")[0]


def _everywhere(path: str) -> bool:
    return True
