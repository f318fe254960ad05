"""Undo: what agents have changed in a document, and how to undo it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from ..collaboration.changes import Step, parts_of, summary
from ..collaboration.edits import LARGE_TEXT
from ..documents.foreign_text import first_of, inline
from ..documents.text_document import WHOLE, TextDocument
from ..workspace import editing
from ..workspace.permissions import Level
from ..workspace.permits import Call, require_level
from ..workspace.sites import SiteDocument
from ..workspace.undo_steps import AgentLog
from .answers import about, answer, cell_facts, cell_lines, how_many, learnt, on_disk
from .places import SiteTools
from .registry import Answer, tool
from .version_lines import moment

#: Cells of a step that an answer has as facts, and that it shows.
_CELLS, _SHOWN = 100, 5

#: Cells that the facts of an undo name.
_MOST_CELLS = 1_000

AgentName = Annotated[str | None, Field(description="another agent's name or id; needs admin")]


class UndoTools(SiteTools):
    """The calls that agents have made, one by one."""

    @tool("Undo your changes", Level.write, core=True)
    async def undo_agent_changes(
        self,
        call: Call,
        path: str,
        steps: Annotated[int, Field(ge=1)] = 1,
        since: Annotated[int | None, Field(description="undo all yours after this version")] = None,
        force: Annotated[bool, Field(description="keep others' text, drop yours")] = False,
        call_id: Annotated[str | None, Field(description="undo only this call")] = None,
        agent: AgentName = None,
    ) -> Answer:
        """Undo your own latest calls in a notebook or text file, one call per step. Other people's
        text stays as it is; if that is impossible, nothing happens and you get the diff."""
        here = await self._open(call, Level.write, path, None, edits=False)
        chosen = await self._log(call, here, agent)
        await here.peer.catch_up()  # reading what was stored has taken a moment
        other = None if chosen.agent == call.agent.key else chosen
        done = await here.perform(editing.undo(here, steps, since, force, call_id, other))
        await here.peer.wait_acknowledged()
        if other is not None:
            _notify(here, other, done.ids)
        left = len(chosen.log)
        whose = "your" if other is None else f"{inline(other.name)}'s"
        head = f"Undid {done.steps} of {whose} calls ({', '.join(done.calls)}); {left} left."
        if isinstance(here.peer.document, TextDocument):
            revision = here.peer.document.view().revision
            here.seat.known.add(WHOLE, revision)
            facts = {**about(here), "steps": done.steps, "left": left, "revision": revision}
            head += f" Now {here.label}@{revision}. {on_disk(here, facts)}"
            return answer(here, [head, *done.notes], facts)
        cells = cell_facts(here, done.cell_ids[:_MOST_CELLS])
        learnt(here, cells)
        facts = {
            **about(here),
            "steps": done.steps,
            "left": left,
            "cells": cells,
            "removed": done.removed,
        }
        lines = [f"{head} {on_disk(here, facts)}", *cell_lines(here, cells)]
        if len(done.cell_ids) > _MOST_CELLS:  # a restore may have changed all cells
            facts["cell_count"] = len(done.cell_ids)
            lines.append(f"{len(done.cell_ids):,} cells in all.")
        if done.removed:
            lines.append(f"Removed {how_many(len(done.removed))} again.")
        return answer(here, [*lines, *done.notes], facts)

    @tool("List what can be undone", Level.read)
    async def list_agent_changes(
        self,
        call: Call,
        path: str,
        agent: AgentName = None,
        limit: Annotated[int, Field(ge=1, le=200)] = 20,
    ) -> Answer:
        """List your calls that undo_agent_changes can undo in a notebook or text file, newest
        first, with their cells."""
        here = await self._open(call, Level.read, path, None)
        chosen = await self._log(call, here, agent)
        await here.peer.catch_up()
        total, steps = len(chosen.log), chosen.log.last(limit)
        changes = await _in_words(steps)
        lines = [
            f"{fact['call_id']} {fact['time']} {each.call}: {fact['summary']}" + _cells(here, fact)
            for each, fact in zip(steps, changes, strict=True)
        ]
        own = chosen.agent == call.agent.key
        whose = "yours" if own else inline(chosen.name)
        head = f"Calls of {whose} that can be undone in {here.label}: {total}."
        if total > len(steps):
            head += f" The latest {len(steps)}:"
        facts = {**about(here), "agent": chosen.name, "total": total, "changes": changes}
        return answer(here, [head, *lines], facts)

    async def _log(self, call: Call, here: SiteDocument, agent: str | None) -> AgentLog:
        """The steps of the agent that is named: the caller, unless it is another one.

        Raises:
            PermissionRefused: It is another one, and the connection may not do that.
        """
        steps, room = here.site.workspace.rooms.undo_steps, here.peer.link.room_id
        own = await steps.recall(room, call.agent.key)
        if agent is None or own.is_meant(agent):
            return own
        require_level(Level.admin, call.allowed)
        here.site.require(Level.admin)
        return await steps.find(room, agent)


def _notify(here: SiteDocument, other: AgentLog, ids: Sequence[str]) -> None:
    """Add to the next answer of an agent that somebody else has undone its calls."""
    if other.seat is not None:
        calls = ", ".join(first_of(ids))
        other.seat.notes.append(
            f"{inline(here.seat.name)} has undone calls of yours here: {calls}."
        )


async def _in_words(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """What steps did, in a thread if there is much to count."""
    if sum(step.characters for step in steps) > LARGE_TEXT:
        return await asyncio.to_thread(lambda: [_facts(step) for step in steps])
    return [_facts(step) for step in steps]


def _facts(step: Step) -> dict[str, Any]:
    cells = [cell_id for cell_id in parts_of(step.changes) if cell_id != WHOLE]
    return {
        "call_id": step.id,
        "version": step.version,
        "time": moment(step.version / 1000),
        "tool": step.call,
        "summary": summary(step),
        "cells": cells[:_CELLS],
        "cell_count": len(cells),
    }


def _cells(here: SiteDocument, fact: dict[str, Any]) -> str:
    """The cells of a step; without revisions, because the agent may not have read what they say."""
    labels = [here.peer.document.label(cell_id) for cell_id in fact["cells"][:_SHOWN]]
    if (more := fact["cell_count"] - len(labels)) > 0:
        labels.append(f"{more:,} more")
    return f" ({', '.join(labels)})" if labels else ""
