"""The part of the `document` toolset about earlier versions of notebooks and text files."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from pydantic import Field

from ..documents.content_diff import PartDiff, compare
from ..documents.foreign_text import listed, quoted
from ..errors import InvalidArgument
from ..workspace.history import (
    VersionRef,
    cells_among,
    content_at,
    content_now,
    find_version,
    name_version,
    restore,
)
from ..workspace.permissions import Level
from ..workspace.permits import Call
from ..workspace.replacing import Replaced
from ..workspace.sites import SiteDocument
from .answers import Start, about, answer, on_disk
from .places import SiteTools
from .registry import Answer, tool
from .version_lines import fitting, moment, replaced_line, version_facts, version_line

Ref = Annotated[int | str, Field(description="id or name")]
SomeRef = Annotated[int | str | None, Field(description="default: now")]
Ids = list[str] | None

#: Cells of one kind that the facts of an answer name.
_MOST_CELLS = 1_000

#: The largest id of a version that can be asked for.
_LARGEST = 9_999_999_999_999_999


class HistoryTools(SiteTools):
    """What an agent does with earlier versions."""

    @tool("List versions", Level.read)
    async def get_document_history(
        self,
        call: Call,
        path: str,
        limit: Annotated[int, Field(ge=1, le=100)] = 10,
        before: Annotated[
            int | None, Field(ge=1, le=_LARGEST, description="id: only older ones")
        ] = None,
    ) -> Answer:
        """List the versions of a notebook or text file, newest first: id, time, author, what
        changed."""
        here = await self._open_with_history(call, Level.read, path)
        versions = here.site.workspace.versions
        found = await versions.list(here.peer.link.room_id, limit, before)
        head = f"{here.label}: versions, newest first"
        facts: dict[str, Any] = {
            **about(here),
            "versions": [version_facts(each) for each in found.versions],
        }
        if found.more:
            facts["next_before"] = found.versions[-1].id
            head += f"; continue with before={found.versions[-1].id}"
        lines = [version_line(each) for each in found.versions]
        if not lines:
            older = before is not None
            lines = ["There are no older versions." if older else "There are no versions yet."]
        return answer(here, [head, *lines], facts)

    @tool("Compare versions", Level.read)
    async def diff_document_versions(
        self,
        call: Call,
        path: str,
        from_version: Ref,
        to_version: SomeRef = None,
        cell_ids: Ids = None,
        start_index: Start = 0,
    ) -> Answer:
        """Compare two versions, or a version and now: a unified diff per cell."""
        here = await self._open_with_history(call, Level.read, path)
        versions = here.site.workspace.versions
        ends: list[VersionRef | None] = [from_version, to_version]
        ids = [None if end is None else await find_version(versions, here, end) for end in ends]
        before, after = [
            await content_now(here) if end is None else await content_at(versions, here, end)
            for end in ids
        ]
        between = f"{_named(ids[0])} and {_named(ids[1])}"
        chosen = cells_among([before, after], cell_ids, between)
        parts = await asyncio.to_thread(compare, before, after, chosen)
        shown = await asyncio.to_thread(fitting, parts[start_index:])
        return _compared(here, between, parts, shown, start_index)

    @tool("Restore a version", Level.write, idempotent=True)
    async def restore_document_version(
        self, call: Call, path: str, version: Ref, cell_ids: Ids = None
    ) -> Answer:
        """Make a live notebook or text file, or only some cells, say what a version said, outputs
        included. One step to undo; people see it live. Returns the id of the version before."""
        here = await self._open_with_history(call, Level.write, path)
        restored = await restore(here.site.workspace.versions, here, version, cell_ids)
        done = restored.done
        facts: dict[str, Any] = {
            **about(here),
            "restored": restored.version,
            "version_before": restored.before,
            **_changed(done),
        }
        about_version = f"version {restored.version} of {moment(restored.version / 1000)}"
        if not done:
            lines = [f"{here.label} already says what {about_version} says. Nothing was changed."]
        else:
            lines = [
                f"Restored {here.label} to {about_version}: {replaced_line(done)}. "
                f"{on_disk(here, facts)} The version before is {restored.before}; "
                "undo_agent_changes undoes this call."
            ]
        if done.running:
            cells = ", ".join(map(here.peer.document.label, done.running[:10]))
            lines.append(f"Still running, so their outputs stay: {cells}.")
        if done.people:
            who = [
                f"{listed(names)} in {here.peer.document.label(cell_id)}"
                for cell_id, names in list(done.people.items())[:10]
            ]
            lines.append(
                f"Others were changing the same at that moment; what they wrote is kept: "
                f"{'; '.join(who)}."
            )
            facts["changed_meanwhile"] = done.people
        return answer(here, lines, facts)

    @tool("Name a version", Level.write, idempotent=True)
    async def name_document_version(
        self, call: Call, path: str, name: str, version: SomeRef = None
    ) -> Answer:
        """Name a version, so that it is kept and can be referred to by name."""
        here = await self._open_with_history(call, Level.write, path)
        named = await name_version(here.site.workspace.versions, here, name, version)
        line = f"Version {named} of {here.label} is now named {quoted(name.strip())}."
        return answer(here, [line], {**about(here), "named": named, "name": name.strip()})


def _changed(done: Replaced) -> dict[str, Any]:
    """The cells that a restore changed, of very many the first, and how many they are."""
    names = ("inserted", "deleted", "moved", "edited", "outputs", "running")
    cells = {name: found for name in names if (found := getattr(done, name))}
    facts: dict[str, Any] = {name: found[:_MOST_CELLS] for name, found in cells.items()}
    facts["counts"] = {name: len(found) for name, found in cells.items()}
    return facts


def _named(version: int | None) -> str:
    return "now" if version is None else f"version {version}"


def _compared(
    here: SiteDocument, between: str, parts: list[PartDiff], shown: list[str], start: int
) -> Answer:
    facts: dict[str, Any] = {
        **about(here),
        "different": len(parts),
        "cells": [
            {"id": part.cell_id, "index": part.index, "kinds": list(part.kinds), "diff": text}
            for part, text in zip(parts[start:], shown, strict=False)
        ],
    }
    if start and start >= len(parts):
        raise InvalidArgument(
            f"start_index is {start}, but only {len(parts)} cells differ between {between}.",
            "Start at an earlier one; the first is 0.",
        )
    if not parts:
        return answer(here, [f"{here.label}: {between} say the same."], facts)
    if not parts[0].cell_id:
        head = f"{here.label}: {between}"
    else:
        cells = "1 cell differs" if len(parts) == 1 else f"{len(parts):,} cells differ"
        head = f"{here.label}: {cells} between {between}"
    if (end := start + len(shown)) < len(parts):
        head += f"; {start} to {end - 1} shown, continue with start_index={end}"
        facts["next_index"] = end
    return answer(here, [head, *shown], facts)
