"""Disks that are full while somebody says so, or slow. Real ones can only be mounted by root."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

#: Beside the documents; as long as it is there, none can be written.
FULL = ".full"


class FullDisk(AsyncLargeFileManager):
    """Writes nothing while the disk is full, as a real one does: after the file is opened."""

    @contextmanager
    def atomic_writing(self, os_path: str, *arguments: Any, **options: Any) -> Iterator[Any]:
        with super().atomic_writing(os_path, *arguments, **options) as file:
            if (Path(self.root_dir) / FULL).exists():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os_path)
            yield file


class SlowRenames(AsyncLargeFileManager):
    """Takes its time to tell anybody that a file has another path by now."""

    async def rename_file(self, old_path: str, new_path: str) -> None:
        await super().rename_file(old_path, new_path)  # type: ignore[no-untyped-call]
        await asyncio.sleep(0.2)
