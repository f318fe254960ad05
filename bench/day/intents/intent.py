"""What somebody asks of an agent, and the cheapest way to do it at either server.

An agent comes to a request with nothing but its words: it reads what it has to know, and quotes
only what it has read; what it knew from an earlier request is forgotten. It works on the live
notebook with the tools for that. Code in a kernel is for looking at variables and data; the
notebook's own file is no source, for it lacks what is not saved yet.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..sides import Answer, Handle, Illegal, Ours, Peer, Side, handles


@dataclass(frozen=True, slots=True)
class Intent:
    """One request."""

    name: str
    path: str
    request: str
    ours: Callable[[Ours, str], Awaitable[None]]
    peer: Callable[[Peer, str], Awaitable[None]]
    floods: str = ""
    """Why the peer has to read far more than it needs, if so."""
    contested: str = ""
    """Part of a cell that a person may edit after the agent has read it."""
    overtaken: tuple[str, str] | None = None
    """What a person replaces, and with what, after the agent has read it, on every day."""

    async def fulfil(self, side: Side, path: str) -> None:
        """Do what is asked, in this notebook or a copy of it."""
        if isinstance(side, Ours):
            await self.ours(side, path)
        elif isinstance(side, Peer):
            await self.peer(side, path)


def cell(answer: Answer, wanted: str, ends: bool = False) -> Handle:
    """The cell of ours whose line, or a line below it, has a text, or ends with it."""
    found: Handle | None = None
    shown = {handle.line: handle for handle in handles(answer.text)}
    for line in answer.text.splitlines():
        found = next((shown[text] for text in shown if text in line), found)
        if found is not None and (line.endswith(wanted) if ends else wanted in line):
            return found
    raise Illegal(f"{wanted!r} is not in the answer: {answer.text[:2_000]}")


def replace(handle: Handle, old: str, new: str) -> dict[str, str]:
    """An update of a cell of ours, named as it was shown.

    Text that must match once would do without the guard, but then the answer shows a diff.
    """
    return {"cell_id": handle.guarded, "old_text": old, "new_text": new}


async def find(ours: Ours, path: str, query: str) -> Answer:
    """Look for a text in a notebook of ours."""
    return await ours.look("get_notebook", path=path, query=query)


_ROW = re.compile(r"^(\d+)\t(code|markdown|raw)\t(\S+)\t(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Line:
    """A cell in the peer's table."""

    index: int
    type: str
    count: str
    first: str


def lines(answer: Answer | str) -> list[Line]:
    """The cells that an overview of the peer shows."""
    text = answer if isinstance(answer, str) else answer.text
    return [Line(int(row[1]), row[2], row[3], row[4]) for row in _ROW.finditer(text)]


async def overview(peer: Peer, path: str) -> list[Line]:
    """All cells of a notebook at the peer, each with its first line."""
    used = await peer.use(path)
    shown = [] if used is None else lines(used)
    if used is not None and f"Showing first {len(shown)} cells" in used.text and len(shown) < 20:
        return shown
    rest = {} if used is None else {"start_index": len(shown)}
    read = peer.look if used is None else peer.call
    answer = await read("read_notebook", notebook_name=_name(path), limit=0, **rest)
    return shown + lines(answer)


async def details(peer: Peer, path: str) -> Answer:
    """The whole source of a notebook at the peer."""
    await peer.use(path)
    return await peer.call(
        "read_notebook", notebook_name=_name(path), response_format="detailed", limit=0
    )


def cells_with(answer: Answer, wanted: str) -> list[int]:
    """The cells whose source, in the peer's detailed answer, has a text."""
    parts = re.split(r"=====Cell (\d+) \|[^\n]*=====\n", answer.text)
    return [int(n) for n, text in zip(parts[1::2], parts[2::2], strict=True) if wanted in text]


def at(shown: list[Line], wanted: str) -> int:
    """The index of the first cell whose first line has a text."""
    for line in shown:
        if wanted in line.first:
            return line.index
    raise Illegal(f"{wanted!r} is the first line of no cell")


async def run(peer: Peer, *indexes: int) -> list[Answer]:
    """Run cells at the peer, one call for each."""
    # Without streaming the answer is as short and comes sooner.
    return [await peer.call("execute_cell", cell_index=n, stream=False) for n in indexes]


async def edit(peer: Peer, path: str, index: int, old: str, new: str, first: str) -> int:
    """Replace text in a cell; where cells have moved, find it by its first line and try again.

    Returns:
        Where the cell is by now.
    """
    change = {"old_string": old, "new_string": new}
    answer = await peer.attempt("edit_cell_source", cell_index=index, **change)
    if not _worked(answer):
        index = at(await overview(peer, path), first)
        await peer.call("edit_cell_source", cell_index=index, **change)
    return index


def _worked(answer: Answer) -> bool:
    return not answer.is_error and "successfully" in answer.text


def _name(path: str) -> str:
    return path.removesuffix(".ipynb")
