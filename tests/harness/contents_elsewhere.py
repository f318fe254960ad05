"""A contents manager that has its files elsewhere, as one over object storage has."""

from __future__ import annotations

import tempfile
from typing import Any

from jupyter_server.services.contents.filecheckpoints import AsyncGenericFileCheckpoints
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager
from jupyter_server.services.contents.manager import AsyncContentsManager


class ContentsElsewhere(AsyncContentsManager):
    """Answers all questions, and is no manager of local files: where they are is its own matter."""

    def __init__(self, **options: Any) -> None:
        super().__init__(checkpoints_class=AsyncGenericFileCheckpoints, **options)
        self._directory = tempfile.TemporaryDirectory(prefix="elsewhere-")
        self._files: Any = AsyncFileContentsManager(
            root_dir=self._directory.name, delete_to_trash=False, always_delete_dir=True
        )

    async def get(self, path: str, *arguments: Any, **options: Any) -> Any:
        return await self._files.get(path, *arguments, **options)

    async def save(self, model: dict[str, Any], path: str) -> Any:
        return await self._files.save(model, path)

    async def delete_file(self, path: str) -> None:
        if path.endswith("kept.md"):
            raise LookupError("the bucket is locked")  # no error that Jupyter knows
        await self._files.delete_file(path)

    async def rename_file(self, old_path: str, new_path: str) -> None:
        await self._files.rename_file(old_path, new_path)

    async def file_exists(self, path: str) -> bool:
        return bool(await self._files.file_exists(path))

    async def dir_exists(self, path: str) -> bool:
        return bool(await self._files.dir_exists(path))

    async def is_hidden(self, path: str) -> bool:
        return bool(await self._files.is_hidden(path))
