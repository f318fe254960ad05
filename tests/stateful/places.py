"""Where words stand, and who may be there at the same time.

Cells have a line for each author, so that no two authors write at one position. Whoever writes
into a cell holds it *shared*; whoever moves, retypes, runs or deletes it, or changes the line of
another author, holds it *alone*: as documented, what somebody types meanwhile would be lost.
Nobody waits for a cell: who cannot have it takes another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

AUTHORS = ("ada", "bob", "cleo", "ana", "yuri")


def cell_text(name: str) -> str:
    """A cell that nobody has written into. Comments, so that it can be run."""
    return "\n".join([f"# {name}", *(f"# {author}::{author}" for author in AUTHORS)])


def bare(text: str) -> str:
    """A cell without its first line, which has its name."""
    return text.partition("\n")[2]


def mark(author: str) -> str:
    """What an author writes in front of."""
    return f":{author}"


@dataclass(eq=False)
class Cell:
    """A cell as the test believes it to be."""

    id: str
    runs: bool = False
    """Whether it is there to be run: its whole text is one `print`."""
    types: frozenset[str] = frozenset({"code"})
    """What it may be, or nothing if it is deleted."""
    maybe_deleted: bool = False
    shared: int = 0
    alone: bool = False
    rebuilt: int = 0
    """When it last was written anew, as a count of all such moments."""
    output: str | None = None
    """What it must have printed, where that is known."""

    @property
    def deleted(self) -> bool:
        return not self.types


class Cells:
    """The cells of a notebook."""

    def __init__(self) -> None:
        self.all: dict[str, Cell] = {}
        self.rebuilt = 0
        self._count = 0

    def add(self, cell_id: str, cell_type: str = "code", runs: bool = False) -> Cell:
        """A cell that a tab may not have heard of yet."""
        self.rebuilt += 1
        cell = self.all[cell_id] = Cell(cell_id, runs, frozenset({cell_type}))
        cell.rebuilt = self.rebuilt
        return cell

    def name(self, author: str) -> str:
        self._count += 1
        return f"{author}{self._count}"

    def free(self, alone: bool, runs: bool = False) -> list[Cell]:
        """Those that somebody may have."""
        return [
            cell
            for cell in self.all.values()
            if not (cell.alone or cell.deleted or (alone and cell.shared)) and cell.runs is runs
        ]

    @contextmanager
    def share(self, cells: Iterable[Cell]) -> Iterator[None]:
        held = list(cells)
        for cell in held:
            assert not cell.alone
            cell.shared += 1
        try:
            yield
        finally:
            for cell in held:
                cell.shared -= 1

    @contextmanager
    def take(self, cells: Sequence[Cell]) -> Iterator[None]:
        """Have cells alone. One whose fate is unknown afterwards is never given away again."""
        for cell in cells:
            assert not cell.alone
            assert not cell.shared
            cell.alone = True
        try:
            yield
        finally:
            self.rebuilt += 1
            for cell in cells:
                cell.rebuilt = self.rebuilt
                cell.alone = cell.maybe_deleted


class Pause:
    """Something that many do, and that one can have them pause."""

    def __init__(self) -> None:
        self._active = 0
        self._paused = False
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def active(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._paused)
            self._active += 1
        try:
            yield
        finally:
            self._active -= 1
            async with self._changed:
                self._changed.notify_all()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._paused)
            self._paused = True
            await self._changed.wait_for(lambda: not self._active)
        try:
            yield
        finally:
            self._paused = False
            async with self._changed:
                self._changed.notify_all()
