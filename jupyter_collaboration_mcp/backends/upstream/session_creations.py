"""Sessions that are being created, whose files may be renamed before a server knows of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Creation:
    """A session on its way."""

    path: str
    """Where its file is by now."""


class SessionCreations:
    """Follows the files of sessions until a server has them in its list."""

    def __init__(self) -> None:
        self._creations: set[Creation] = set()

    @contextmanager
    def follow(self, path: str) -> Iterator[Creation]:
        """Follow the file at a path, as long as its session is being created."""
        creation = Creation(path)
        self._creations.add(creation)
        try:
            yield creation
        finally:
            self._creations.discard(creation)

    def rename(self, old: str, new: str) -> list[tuple[str, str]]:
        """A file or a folder was renamed; returns where files were, and where they are now."""
        moves = []
        for creation in self._creations:
            path = renamed(creation.path, old, new)
            if path is not None:
                moves.append((creation.path, path))
                creation.path = path
        return moves


def renamed(path: str, old: str, new: str) -> str | None:
    """Where a path is after a file or a folder was renamed; None if it is not concerned."""
    return f"{new}{path[len(old) :]}" if f"{path}/".startswith(f"{old}/") else None
