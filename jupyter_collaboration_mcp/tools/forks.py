"""The forks of the `document` toolset: try something in a copy, and merge it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import Field

from ..backends.protocols.forks import Fork
from ..documents.foreign_text import NAME, PATH, inline, quoted
from ..documents.handles import brief_id
from ..documents.text_document import WHOLE
from ..documents.three_way import Deed, Merged, Side
from ..errors import ForkNotFound, ForkRefused
from ..workspace.forking import is_own
from ..workspace.merging import conflicting
from ..workspace.open_document import named
from ..workspace.permissions import Level
from ..workspace.permits import Call, require_level
from ..workspace.sites import Site
from .answers import about, answer, on_disk
from .places import SiteTools, names_fork, refuse_proposing, stated
from .registry import Answer, tool
from .version_lines import fitting, moment

#: Cells of one kind that an answer names.
_CELLS = 50

ForkName = Annotated[str, Field(description="fork:ID")]


class ForkTools(SiteTools):
    """What an agent does with forks."""

    @tool("Fork a document", Level.write, only_adds=True)
    async def fork_document(
        self,
        call: Call,
        path: str,
        title: str,
        description: str = "",
        synchronize: Annotated[bool, Field(description="also receive its later edits")] = False,
    ) -> Answer:
        """Copy a document to try something without changing it. Returns fork:ID, which tools that
        read, edit or run take as a path; its code runs in a kernel of its own."""
        title, description = stated(title, description)
        here = await self._open(call, Level.read, path, None)
        await call.permit(here.site, Level.write, here.path)
        forking = here.site.workspace.forking
        fork = await forking.create(here, title, description, synchronize)
        name = named(here.alias, fork.name)
        facts = {**about(here), **_facts(here.site, fork, here.path), "created_fork": True}
        lines = [f"Forked {here.label} as {name}: use that as the path."]
        if forking.limitation is not None:
            lines.append(forking.limitation)
        return answer(here, lines, facts)

    @tool("List forks", Level.read)
    async def list_document_forks(
        self, call: Call, path: Annotated[str | None, Field(description="only of this")] = None
    ) -> Answer:
        """List forks of documents: name, title, who made them and when."""
        found: list[tuple[Site, Fork, str]] = []
        if path is not None:
            if names_fork(self._sites, path):
                raise ForkRefused(
                    f"{path} is a fork itself; forks have no forks.", "Name its document instead."
                )
            here = await self._open(call, Level.read, path, None)
            forks = await here.site.workspace.forking.list(here.peer.link.room_id)
            found = [(here.site, fork, here.path) for fork in forks]
        else:
            await call.authorize(Level.read)
            for site in self._sites:
                for fork in await site.workspace.forking.list():
                    try:
                        at = await site.workspace.forking.path_of(fork)
                    except ForkNotFound:  # it is not known who may see it
                        continue
                    if await call.may_see(site.workspace, at):
                        found.append((site, fork, at))
        lines = [_line(*each) for each in found]
        facts = {"forks": [_facts(*each) for each in found]}
        return Answer("\n".join(lines) or "There are no forks.", facts)

    @tool("Merge a fork", Level.write)
    async def merge_document_fork(
        self,
        call: Call,
        fork: ForkName,
        preview: Annotated[bool, Field(description="only show what it would do")] = False,
        prefer: Annotated[
            Literal["fork", "document"] | None, Field(description="who wins a conflict")
        ] = None,
    ) -> Answer:
        """Put what changed in a fork into its document, as one step to undo, and end the fork.
        Refused with a diff if both changed the same cell, unless you prefer a side."""
        place = await self._place(call, Level.write, _fork_name(fork), forks=True)
        site, known, forking = place.site, place.fork, place.site.workspace.forking
        if known is None:
            raise ForkNotFound.unknown(fork)
        root = await call.permit(site, Level.write, await forking.root_path(known))
        source = await site.open(place.permit, None, known)
        here = await site.open(root, None)
        name = named(site.alias, known.name)
        if not preview:
            refuse_proposing(call, f"{name} is not merged")
        if preview:
            merged, parts = await forking.preview(here, source, prefer)
            facts = {**about(here), "fork": name, "preview": True, **_merged_facts(merged)}
            diffs = await asyncio.to_thread(fitting, parts)
            lines = _preview(name, here.label, merged, prefer)
            if more := len(parts) - len(diffs):
                diffs.append(
                    f"... and {more:,} more cells; diff_document_versions shows them later."
                )
            return answer(here, [*lines, *diffs], facts)
        merged = await forking.merge(here, source, prefer, call.agent)
        await site.runs.end_kernel(known.id)
        facts = {**about(here), "fork": name, "merged": True, **_merged_facts(merged)}
        head = f"Merged {name} into {here.label}: {_summary(merged)}. The fork is gone."
        return answer(here, [f"{head} {on_disk(here, facts)}", *_deeds(merged)], facts)

    @tool("Discard a fork", Level.write)
    async def discard_document_fork(self, call: Call, fork: ForkName) -> Answer:
        """Delete a fork and everything in it. Discarding somebody else's needs the level admin."""
        place = await self._place(call, Level.write, _fork_name(fork), forks=True)
        if place.fork is None:
            raise ForkNotFound.unknown(fork)
        name = named(place.site.alias, place.fork.name)
        if not is_own(place.fork, call.agent):
            refuse_proposing(call, f"{name}, which is somebody else's, was not discarded")
            require_level(Level.admin, call.allowed)
            place.site.require(Level.admin)
        await place.site.workspace.forking.end(place.fork, "discarded", call.agent)
        await place.site.runs.end_kernel(place.fork.id)
        return Answer(f"Discarded {name}.", {"fork": name, "discarded": True})


#: What a merge does to a cell, in words.
_DEEDS: dict[Deed, str] = {
    "added": "added",
    "deleted": "deleted",
    "edited": "edited",
    "moved": "moved",
    "outputs": "with new outputs",
}


def _summary(merged: Merged) -> str:
    """What a merge does, in numbers."""
    counts = Counter(deed for _, deed in merged.deeds)
    if any(cell_id == WHOLE for cell_id, _ in merged.deeds):
        return "text edited"
    said = [f"{count} {_DEEDS[deed]}" for deed, count in counts.items()]
    return f"cells: {', '.join(said)}" if said else "nothing to change"


def _deeds(merged: Merged) -> list[str]:
    """What a merge does to each cell, a line for each kind."""
    lines = []
    for deed, words in _DEEDS.items():
        cells = [brief_id(cell_id) for cell_id, done in merged.deeds if done == deed and cell_id]
        if cells:
            more = f" and {len(cells) - _CELLS} more" if len(cells) > _CELLS else ""
            lines.append(f"{words}: {' '.join(cells[:_CELLS])}{more}")
    return lines


def _preview(name: str, label: str, merged: Merged, prefer: Side | None) -> list[str]:
    if merged.conflicts and prefer is None:
        refused = f"Merging {name} into {label} as it is would be refused."
        return [f"{refused} {conflicting(merged.conflicts).happened}"]
    if not merged.deeds and not merged.conflicts:
        return [f"Merging {name} into {label} would change nothing."]
    lines = [f"Merging {name} into {label} would change this: {_summary(merged)}. Nothing is done."]
    if merged.conflicts:
        lines.append(f"Conflicts that the {prefer} wins: {len(merged.conflicts)}.")
    return lines


def _merged_facts(merged: Merged) -> dict[str, Any]:
    return {
        "cells": [{"id": cell_id, "change": deed} for cell_id, deed in merged.deeds],
        "conflicts": [
            {"cell_id": each.cell_id or None, "reason": each.why} for each in merged.conflicts
        ],
    }


def _fork_name(given: str) -> str:
    """The name of a fork; its id alone will do."""
    return given if ":" in given else f"fork:{given}"


def _line(site: Site, fork: Fork, path: str) -> str:
    when = "" if fork.created is None else f", {moment(fork.created)}"
    who = "" if fork.author is None else f" by {inline(fork.author.name, NAME)}"
    sync = ", synchronized" if fork.synchronize else ""
    title = quoted(fork.title) if fork.title else "without a title"
    about_it = f" {quoted(fork.description)}" if fork.description else ""
    name = inline(named(site.alias, fork.name), PATH)
    return f"{name}: {title} of {site.label_of(path)}{who}{when}{sync}.{about_it}"


def _facts(site: Site, fork: Fork, path: str) -> dict[str, Any]:
    return {
        "fork": named(site.alias, fork.name),
        "root": site.name(path),
        "title": fork.title,
        "description": fork.description,
        "synchronize": fork.synchronize,
        "author": None if fork.author is None else fork.author.name,
        "created": None if fork.created is None else moment(fork.created),
    }
