"""Output that is too large for a document, kept in files beside it: for some time, up to a size."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..documents.output_log import Overflow
from ..errors import OutputGone

_KINDS = ("text", "json")

_NAME = re.compile(r"[\w-]{1,80}")


@dataclass(frozen=True, slots=True)
class SideLimits:
    """How long, and how much of it, output is kept."""

    run: int = 200_000_000
    """Bytes of one run."""
    total: int = 1_000_000_000
    """Bytes of all runs; the oldest go first."""
    age: float = 24 * 3600
    """Seconds."""


class Page(NamedTuple):
    """A part of an output."""

    text: str
    start: int
    end: int
    """Where the next page begins, in bytes."""
    size: int


class SideFiles:
    """One directory for each run, under one for each notebook."""

    def __init__(self, directory: Path, limits: SideLimits) -> None:
        self._directory = directory
        self.limits = limits
        self._sizes: dict[str, int] = {}
        self._swept = 0.0

    async def keep(self, notebook: str, run_id: str, overflow: Sequence[Overflow]) -> None:
        """Append to what is kept of a run."""
        await asyncio.to_thread(self._keep, notebook, run_id, overflow)

    async def page(self, notebook: str, run_id: str, index: int, start: int, length: int) -> Page:
        """A part of an output that is kept here.

        Raises:
            OutputGone: It is not, or not any more.
        """
        return await asyncio.to_thread(self._page, notebook, run_id, index, start, length)

    async def sweep(self) -> None:
        """Delete what is too old or too much."""
        await asyncio.to_thread(self._sweep)

    def _keep(self, notebook: str, run_id: str, overflow: Sequence[Overflow]) -> None:
        directory = self._place(notebook, run_id)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for part in overflow:
            kept = self._sizes.get(run_id, 0)
            content = part.content.encode(errors="replace")
            room = self.limits.run - kept
            if room <= 0:
                continue
            if len(content) > room:
                said = f"\n[not kept beyond {self.limits.run:,} bytes of one run]\n".encode()
                content = content[:room] + said
            self._sizes[run_id] = kept + len(content)
            with (directory / f"{part.index}.{part.kind}").open("ab") as file:
                file.write(content)
        if time.monotonic() - self._swept > 1:
            self._sweep()

    def _page(self, notebook: str, run_id: str, index: int, start: int, length: int) -> Page:
        directory = self._place(notebook, run_id)
        for kind in _KINDS:
            file = directory / f"{index}.{kind}"
            try:
                with file.open("rb") as opened:
                    size = file.stat().st_size
                    opened.seek(max(0, start))
                    return page_of(opened.read(length + 4), max(0, start), length, size)
            except FileNotFoundError:
                continue
        raise self.gone(run_id, index)

    def kind(self, notebook: str, run_id: str, index: int) -> str | None:
        """What is kept of an output: its text, or all of it as JSON."""
        place = self._place(notebook, run_id)
        return next((kind for kind in _KINDS if (place / f"{index}.{kind}").exists()), None)

    def gone(self, run_id: str, index: int) -> OutputGone:
        """What to say of an output that is not here."""
        return OutputGone(
            f"Output {index} of {run_id} is not kept any more, or never was: large outputs are "
            f"kept for {self.limits.age / 3600:g} hours and up to "
            f"{self.limits.total / 1_000_000:,.0f} MB in all. What the notebook itself holds of "
            "it is still there.",
            "Run the cell again, or read what is there with get_notebook(include_outputs=true).",
            run_id=run_id,
        )

    def _place(self, notebook: str, run_id: str) -> Path:
        if not (_NAME.fullmatch(notebook) and _NAME.fullmatch(run_id)):
            raise OutputGone(
                f"There is no run {run_id!r} of this notebook.", "Use a link from an answer."
            )
        return self._directory / notebook / run_id

    def _sweep(self) -> None:
        self._swept = time.monotonic()
        oldest = time.time() - self.limits.age
        found = []
        for run in self._directory.glob("*/*"):
            try:
                files = [file.stat() for file in run.iterdir()]
            except OSError:
                continue
            written = max((file.st_mtime for file in files), default=0.0)
            found.append((written, sum(file.st_size for file in files), run))
        total = 0
        for written, size, run in sorted(found, reverse=True):
            total += size
            if written < oldest or total > self.limits.total:
                shutil.rmtree(run, ignore_errors=True)
                self._sizes.pop(run.name, None)


def page_of(content: bytes, start: int, length: int, size: int) -> Page:
    """At most `length` bytes, without half a character at either end.

    Args:
        content: What follows `start`, a few bytes more than `length` if there are any.
    """
    first = 0
    while first < min(4, len(content)) and content[first] & 0xC0 == 0x80:
        first += 1
    last = min(length, len(content))
    while first < last < len(content) and content[last] & 0xC0 == 0x80:
        last -= 1
    text = content[first:last].decode(errors="replace")
    return Page(text, start + first, start + last, size)
