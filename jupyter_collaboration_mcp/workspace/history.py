"""Earlier versions of an open document: finding, reading, restoring and naming them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..backends.protocols.versions import Versions
from ..documents.content import Content, NotebookContent, read_content
from ..documents.foreign_text import ID, NAME, did_you_mean, listed, quoted
from ..documents.handles import parse_cell
from ..errors import AmbiguousCell, CellNotFound, InvalidArgument, UnknownVersion
from ..remedies import Intent
from .open_document import OpenDocument
from .replacing import Replaced, note_people, replace_content

VersionRef = int | str
"""A version's id or its name."""

#: Characters of a name.
_LONGEST_NAME = 100

#: Milliseconds by which the clock of another server may be ahead.
_CLOCK_SLACK = 60_000


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did."""

    version: int
    before: int
    """The version of the state before it."""
    done: Replaced


async def find_version(versions: Versions, here: OpenDocument, given: VersionRef) -> int:
    """The id of a version that a caller names by its id or its name.

    Raises:
        UnknownVersion: It does not exist. An id that only looks right is found out later.
        InvalidArgument: Several versions have such a name.
    """
    text = str(given).strip()
    if isinstance(given, int) and not 0 < given < 10**19:
        raise UnknownVersion.of(given)
    if text.isdecimal() and len(text) < 20:
        version = int(text)
        if version > _now() + _CLOCK_SLACK:
            raise UnknownVersion(
                f"Version {version} would be in the future; there is no such version.",
                Intent.LIST_VERSIONS,
                version=version,
            )
        return version
    named = await versions.named(here.peer.link.room_id)
    if text in named:
        return named[text]
    alike = [name for name in named if name.casefold() == text.casefold()]
    if len(alike) > 1:
        raise InvalidArgument(
            f"{len(alike)} versions have that name in other capitals: {listed(alike)}.",
            "Write the name exactly, or give the id of the version.",
        )
    if alike:
        return named[alike[0]]
    known = f" Named versions: {listed(named)}." if named else " No version of it has a name."
    guess = did_you_mean(text, named) if text else ""
    raise UnknownVersion(
        f"No version of {here.label} has the name {quoted(text, NAME)}.{known} {guess}".rstrip(),
        Intent.LIST_VERSIONS,
    )


async def content_at(versions: Versions, here: OpenDocument, version: int) -> Content:
    """What a document said at a version.

    Raises:
        UnknownVersion: The document has no such version.
    """
    room_id = here.peer.link.room_id
    state = await versions.state_at(room_id, version)
    return await asyncio.to_thread(read_content, room_id.kind, state)


async def content_now(here: OpenDocument) -> Content:
    """What a document says now."""
    return await asyncio.to_thread(
        read_content, here.peer.link.room_id.kind, here.peer.doc.get_update()
    )


def cells_among(
    contents: Iterable[Content], given: Sequence[str] | None, where: str
) -> list[str] | None:
    """The whole ids of cells in some contents that a caller names by ids, beginnings or handles.

    Args:
        where: Where they were looked for, as a sentence names it.

    Raises:
        InvalidArgument: The document has no cells, or none is named.
        CellNotFound, AmbiguousCell: It is not one of them.
    """
    if given is None:
        return None
    ids: dict[str, None] = {}
    for content in contents:
        if not isinstance(content, NotebookContent):
            raise InvalidArgument("A text file has no cells.", "Leave cell_ids out.")
        ids |= dict.fromkeys(content.by_id)
    if not given:
        raise InvalidArgument("cell_ids is empty.", "Name at least one cell, or leave it out.")
    return list(dict.fromkeys(_cell_among(ids, parse_cell(each).name, where) for each in given))


def _cell_among(ids: Iterable[str], wanted: str, where: str) -> str:
    if wanted in ids:
        return wanted
    found = [cell_id for cell_id in ids if wanted and cell_id.startswith(wanted)]
    if len(found) > 1:
        raise AmbiguousCell(
            f"{len(found)} cells in {where} have an id that begins with {quoted(wanted, ID)}: "
            f"{listed(found[:5], ID)}. Nothing was changed.",
            "Repeat with more characters of the id.",
            cell_id=wanted,
            candidates=found[:5],
        )
    if not found:
        raise CellNotFound(
            f"There is no cell {quoted(wanted, ID)} in {where}. Nothing was changed.",
            Intent.COMPARE_VERSIONS,
            cell_id=wanted,
        )
    return found[0]


async def restore(
    versions: Versions, here: OpenDocument, given: VersionRef, cell_ids: Sequence[str] | None
) -> Restored:
    """Make a document, or some cells of it, say what it said at a version.

    Raises:
        UnknownVersion, InvalidArgument, CellError: As above.
        DocumentBusy: It is being restored already, or others kept changing it.
    """
    version = await find_version(versions, here, given)
    content = await content_at(versions, here, version)
    chosen = cells_among([content], cell_ids, f"version {version}")
    before = await versions.current(here.peer.link.room_id)
    since = here.peer.version
    done = await here.perform(replace_content(here, content, chosen))
    await here.peer.wait_acknowledged()
    note_people(here, since, done)
    return Restored(version, before, done)


async def name_version(
    versions: Versions, here: OpenDocument, name: str, given: VersionRef | None
) -> int:
    """Give a version a name, the current one by default; returns its id.

    Raises:
        InvalidArgument: It cannot be a name, or another version has it.
        UnknownVersion: The document has no such version.
    """
    name = name.strip()
    if not name or not name.isprintable() or name.isdecimal() or len(name) > _LONGEST_NAME:
        what = "is empty" if not name else f"cannot be {quoted(name, NAME)}"
        raise InvalidArgument(
            f"The name of a version {what}. Nothing was named.",
            f"Give a name of at most {_LONGEST_NAME} characters on one line, not only digits.",
        )
    room_id = here.peer.link.room_id
    if given is None:
        version = await versions.current(room_id)
    else:
        version = await find_version(versions, here, given)
    await versions.name(room_id, version, name)
    return version


def _now() -> int:
    return time.time_ns() // 1_000_000
