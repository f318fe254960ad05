"""What the activity log has of calls: one entry for each that changes or runs something, and one
for many that only read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..collaboration.activity.activity import Activity, how_many, now
from ..documents.members import Member
from ..workspace.permissions import Level
from ..workspace.permits import Visit
from ..workspace.sites import Site
from .call_record import CANCELLED, MOST_DOCUMENTS, OK, CallRecord

#: Seconds in which all reads of a document by an agent are one activity.
_READS = 60.0

#: Agents at documents whose latest reads are remembered.
_REMEMBERED = 500


class CallActivity:
    """Records calls in the logs of the servers that they use."""

    def __init__(self) -> None:
        self._reads: dict[tuple[str, str], Activity] = {}

    def record(self, record: CallRecord) -> None:
        """Record a call that was let in and has been answered."""
        visits, tool, outcome = record.visits, record.name, record.outcome
        if visits is None or outcome == CANCELLED:
            return
        who = Member.agent(record.agent.key, record.agent.name)
        if record.level is Level.read:
            if outcome == OK:
                for site, visit in record.documents:
                    # When the call came: an agent has seen what others did until then.
                    self._record_read(site, visit, who, tool, record.began)
            return
        more = {"tool": tool, "outcome": outcome, "seconds": round(record.seconds, 3)}
        documents = record.documents
        for site, visit in documents:
            cells = [str(cell["id"]) for cell in record.cells]
            edited = record.level is Level.write and outcome == OK
            if edited:
                done = f"edited {how_many(len(cells), 'cell')}" if cells else "edited the document"
            else:
                done = _called(record)
            versions = _versions(record, visit) if len(documents) == 1 else {}
            _record(site, visit, who, "edit" if edited else "call", done, cells, more | versions)
        if not documents and visits:
            visit = visits[0]
            paths = list(dict.fromkeys(each.path for each in visits))[1:MOST_DOCUMENTS]
            others = {"paths": paths} if paths else {}
            if isinstance(visit.server, Site):
                _record(visit.server, visit, who, "call", _called(record), [], more | others)

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


def _called(record: CallRecord) -> str:
    return f"called {record.name}{'' if record.outcome == OK else f': {record.outcome}'}"


def _versions(record: CallRecord, visit: Visit) -> dict[str, int]:
    """The versions of the document before and after the call, as far as they are known."""
    versions = {"version_before": visit.version, "version_after": record.version_after}
    return {name: version for name, version in versions.items() if version}


def _record(
    site: Site,
    visit: Visit,
    who: Member,
    kind: str,
    done: str,
    cells: list[str],
    metadata: Mapping[str, Any],
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
            **metadata,
        )
    )
