"""What the activity log has of calls: one entry for each that changes or runs something, and one
for many that only read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..collaboration.activity.activity import Activity, how_many, now
from ..collaboration.activity.guard import harmless
from ..documents.members import Member
from ..workspace.permissions import Level
from ..workspace.permits import Call, Visit
from ..workspace.sites import Site

#: Seconds in which all reads of a document by an agent are one activity.
_READS = 60.0

#: Agents at documents whose latest reads are remembered.
_REMEMBERED = 500

#: Documents of one call that get an entry.
_DOCUMENTS = 5

#: The outcome of a call that did what it should.
OK = "ok"


class CallActivity:
    """Records calls in the logs of the servers that they use."""

    def __init__(self) -> None:
        self._reads: dict[tuple[str, str], Activity] = {}

    @harmless
    def record(
        self,
        call: Call,
        level: Level,
        began: int,
        outcome: str = OK,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Record a call that has been answered.

        Args:
            level: What the tool needs at least.
            began: When the call came, in milliseconds: an agent has seen what others did until
                then.
            outcome: `OK`, or the code of the error.
            facts: What the answer has.
        """
        who = Member.agent(call.agent.key, call.agent.name)
        if level is Level.read:
            if outcome == OK:
                for site, visit in _documents(call):
                    self._record_read(site, visit, who, call.tool, began)
            return
        documents = list(_documents(call))
        for site, visit in documents:
            cells = _cells(facts or {})
            edited = level is Level.write and outcome == OK
            if edited:
                done = f"edited {how_many(len(cells), 'cell')}" if cells else "edited the document"
            else:
                done = f"called {call.tool}{'' if outcome == OK else f': {outcome}'}"
            _record(site, visit, who, "edit" if edited else "call", done, cells, call.tool, outcome)
        if not documents and call.visits:
            visit = call.visits[0]
            done = f"called {call.tool}{'' if outcome == OK else f': {outcome}'}"
            paths = list(dict.fromkeys(each.path for each in call.visits))[1:_DOCUMENTS]
            more = {"paths": paths} if paths else {}
            if isinstance(visit.server, Site):
                _record(visit.server, visit, who, "call", done, [], call.tool, outcome, **more)

    def _record_read(self, site: Site, visit: Visit, who: Member, tool: str, began: int) -> None:
        key = (who.id, visit.file_id)
        last = self._reads.pop(key, None)
        if last is not None and began - last.metadata["began"] < _READS * 1000:
            calls = last.metadata["calls"] + 1
            self._reads[key] = replace(
                last, time=began, metadata={**last.metadata, "calls": calls, "tool": tool}
            )
            site.activity.draft(self._reads[key])
            return
        self._reads[key] = activity = Activity.of(
            "read",
            who,
            f"{who.name} read the document",
            path=visit.path,
            file_id=visit.file_id,
            at=began,
            began=began,
            calls=1,
            tool=tool,
        )
        site.activity.record(activity)
        if len(self._reads) > _REMEMBERED:
            del self._reads[next(iter(self._reads))]


def _documents(call: Call) -> Iterator[tuple[Site, Visit]]:
    """The documents that a call has opened, each once."""
    visits = {visit.file_id: visit for visit in call.visits if visit.file_id}
    for visit in list(visits.values())[:_DOCUMENTS]:
        if isinstance(visit.server, Site):
            yield visit.server, visit


def _cells(facts: Mapping[str, Any]) -> list[str]:
    """The cells that an answer to an edit names."""
    cells = facts.get("cells") or ()
    return [str(cell["id"]) for cell in cells if isinstance(cell, Mapping) and "id" in cell]


def _record(
    site: Site,
    visit: Visit,
    who: Member,
    kind: str,
    done: str,
    cells: list[str],
    tool: str,
    outcome: str,
    **more: Any,
) -> None:
    site.activity.record(
        Activity.of(
            kind,
            who,
            f"{who.name} {done}",
            path=visit.path,
            file_id=visit.file_id,
            cells=cells,
            at=now(),
            tool=tool,
            outcome=outcome,
            **more,
        )
    )
