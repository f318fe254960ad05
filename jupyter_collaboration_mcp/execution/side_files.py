"""Output that is too large for a document, stored in files for a limited time and size."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from ..documents.output_log import Overflow
from ..errors import OutputGone
from ..remedies import Intent

Kind = Literal["text", "json"]
"""Printed text, or a whole output."""

_KINDS: tuple[Kind, ...] = get_args(Kind)

_NAME = re.compile(r"[\w-]{1,80}")

#: Seconds between two checks for files that are too old or too many.
_SWEEP = 1.0


@dataclass(frozen=True, slots=True)
class SideLimits:
    """How long, and how much, output is kept."""

    run: int = 200_000_000
    """Bytes of one run."""
    total: int = 1_000_000_000
    """Bytes of all runs; the oldest are deleted first."""
    age: float = 24 * 3600
    """Seconds for which output is kept."""


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
        self._swept = -_SWEEP
        self._lock = threading.Lock()  # so that nobody reads a half-written file

    async def keep(self, notebook: str, run_id: str, overflow: Sequence[Overflow]) -> None:
        """Store more output of a run."""
        await asyncio.to_thread(self._keep, notebook, run_id, overflow)

    async def page(self, notebook: str, run_id: str, index: int, start: int, length: int) -> Page:
        """A page of a printed text that is stored here.

        Raises:
            OutputGone: It is not stored here, or no longer.
        """
        return await asyncio.to_thread(self._page, notebook, run_id, index, start, length)

    async def output(self, notebook: str, run_id: str, index: int) -> dict[str, Any]:
        """A result, a display or an error that is stored here.

        Raises:
            OutputGone: It is not stored here, or no longer.
        """
        return await asyncio.to_thread(self._output, notebook, run_id, index)

    async def kind(self, notebook: str, run_id: str, index: int) -> Kind | None:
        """What is stored of an output; None if nothing is."""
        return await asyncio.to_thread(self._kind, notebook, run_id, index)

    async def notebook_of(self, run_id: str) -> str | None:
        """The notebook of a run that has something stored here."""
        return await asyncio.to_thread(self._notebook_of, run_id)

    async def sweep(self) -> None:
        """Delete what is too old or too much."""
        await asyncio.to_thread(self._sweep)

    def gone(self, run_id: str, index: int) -> OutputGone:
        """The error for an output that is not here."""
        return OutputGone(
            f"Output {index} of {run_id} is not kept any more, or never was: large outputs are "
            f"kept for {self.limits.age / 3600:g} hours and up to "
            f"{self.limits.total / 1_000_000:,.0f} MB in all. What the notebook itself holds of "
            "it is still there.",
            Intent.RERUN_OR_READ_OUTPUTS,
            run_id=run_id,
        )

    # -- in a thread -------------------------------------------------------------------------

    def _keep(self, notebook: str, run_id: str, overflow: Sequence[Overflow]) -> None:
        directory = self._place(notebook, run_id)
        with self._lock:
            for part in overflow:
                directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                if isinstance(part.content, str):
                    self._keep_text(directory, part, part.content)
                else:
                    self._keep_output(directory, part)
        if time.monotonic() - self._swept >= _SWEEP:
            self._sweep()

    def _keep_text(self, directory: Path, part: Overflow, text: str) -> None:
        file = directory / f"{part.index}.text"
        if part.begins:
            self._forget(directory, part.index)
        elif not file.exists():
            return  # the earlier part has been deleted, and this alone is incomplete
        content = text.encode(errors="replace")
        room = self.limits.run - self._sizes.get(directory.name, 0)
        if len(content) > room:
            if room < 0:
                return
            said = f"\n[not kept beyond {self.limits.run:,} bytes of one run]\n".encode()
            content = content[: boundary(content, room)] + said
            self._sizes[directory.name] = self.limits.run + 1  # so that nothing can follow this
        else:
            self._grow(directory, len(content))
        with file.open("ab") as opened:
            opened.write(content)

    def _keep_output(self, directory: Path, part: Overflow) -> None:
        self._forget(directory, part.index)
        content = json.dumps(part.content).encode()
        if len(content) <= self.limits.run - self._sizes.get(directory.name, 0):
            self._grow(directory, len(content))
            (directory / f"{part.index}.json").write_bytes(content)

    def _grow(self, directory: Path, size: int) -> None:
        self._sizes[directory.name] = self._sizes.get(directory.name, 0) + size

    def _forget(self, directory: Path, index: int) -> None:
        for kind in _KINDS:
            file = directory / f"{index}.{kind}"
            if file.exists():
                self._grow(directory, -file.stat().st_size)
                file.unlink()

    def _page(self, notebook: str, run_id: str, index: int, start: int, length: int) -> Page:
        file = self._place(notebook, run_id) / f"{index}.text"
        try:
            with self._lock, file.open("rb") as opened:
                size = file.stat().st_size
                start = min(max(0, start), size)
                opened.seek(start)
                return page_of(opened.read(length + 4), start, length, size)
        except FileNotFoundError:
            raise self.gone(run_id, index) from None

    def _output(self, notebook: str, run_id: str, index: int) -> dict[str, Any]:
        file = self._place(notebook, run_id) / f"{index}.json"
        try:
            with self._lock:
                content = file.read_bytes()
        except FileNotFoundError:
            raise self.gone(run_id, index) from None
        output: dict[str, Any] = json.loads(content)
        return output

    def _kind(self, notebook: str, run_id: str, index: int) -> Kind | None:
        if time.monotonic() - self._swept >= _SWEEP:
            self._sweep()
        place = self._place(notebook, run_id)
        return next((kind for kind in _KINDS if (place / f"{index}.{kind}").exists()), None)

    def _notebook_of(self, run_id: str) -> str | None:
        if not _NAME.fullmatch(run_id):
            return None
        return next((run.parent.name for run in self._directory.glob(f"*/{run_id}")), None)

    def _place(self, notebook: str, run_id: str) -> Path:
        if not (_NAME.fullmatch(notebook) and _NAME.fullmatch(run_id)):
            raise OutputGone(
                f"There is no run {run_id[:100]!r} of this notebook.", "Use a link from an answer."
            )
        return self._directory / notebook / run_id

    def _sweep(self) -> None:
        with self._lock:
            self._swept = time.monotonic()
            oldest = time.time() - self.limits.age
            total = 0
            for written, size, run in sorted(self._runs(), reverse=True):
                total += size
                if written < oldest or total > self.limits.total:
                    shutil.rmtree(run, ignore_errors=True)
                    self._sizes.pop(run.name, None)

    def _runs(self) -> Iterator[tuple[float, int, Path]]:
        """When each run was last written, and its size."""
        for run in self._directory.glob("*/*"):
            try:
                files = [file.stat() for file in run.iterdir()]
            except OSError:
                continue
            written = max((file.st_mtime for file in files), default=0.0)
            yield written, sum(file.st_size for file in files), run


def page_of(content: bytes, start: int, length: int, size: int) -> Page:
    """At most `length` bytes, without a partial character at either end.

    Args:
        content: The bytes after `start`: a few more than `length`, if there are any.
    """
    first = 0
    while first < min(3, len(content)) and _continues(content[first]):
        first += 1
    last = boundary(content, length)
    if last <= first:  # a page smaller than one character would never end
        last = min(first + 1, len(content))
        while last < len(content) and _continues(content[last]):
            last += 1
    text = content[first:last].decode(errors="replace")
    return Page(text, start + first, start + last, size)


def boundary(content: bytes, length: int) -> int:
    """The end of the last whole UTF-8 character within a length."""
    end = min(length, len(content))
    while 0 < end < len(content) and _continues(content[end]):
        end -= 1
    return end


def _continues(byte: int) -> bool:
    """Whether a UTF-8 byte continues a character."""
    return byte & 0xC0 == 0x80
