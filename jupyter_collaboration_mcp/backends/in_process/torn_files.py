"""A text file whose writing was cut off by a crash.

Jupyter copies a file to `.~name`, empties it, writes it, and removes the copy. A server that is
killed meanwhile leaves the beginning of the new text, or nothing at all, and the copy beside it.
Jupyter itself goes back to the copy of a notebook, which it cannot read; half a text looks whole.
"""

from __future__ import annotations

from pathlib import Path

from ...documents import line_ends
from ..disk.local_disk import LocalDisk


class TornFile:
    """What a crash may have left of a text."""

    def __init__(self, file: Path, copy: Path) -> None:
        self._file, self._copy = file, copy
        # The cut may go through a character, or through a line end.
        written = file.read_bytes().decode(errors="ignore")
        self.beginning = line_ends.plain(written.removesuffix("\r"))
        """As much of the text as was written, with `\\n` at the end of each line."""

    @classmethod
    def at(cls, disk: LocalDisk | None, path: str) -> TornFile | None:
        """None if there is no copy beside it, so that nobody was writing."""
        if disk is None:
            return None
        file = disk.real(path)
        copy = file.with_name(f".~{file.name}")
        return cls(file, copy) if file.is_file() and copy.is_file() else None

    def put_back(self) -> None:
        """Have what was there before it was written."""
        self._copy.replace(self._file)
