"""What is known of a call once it is over: one record, from which every log and figure is made."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any

from ..collaboration.activity.activity import now
from ..collaboration.panel.entries import CallKind
from ..documents.foreign_text import PATH
from ..errors import CollaborationError
from ..short_ids import short_id
from ..workspace.agent import Agent
from ..workspace.permissions import Level
from ..workspace.permits import Visit
from ..workspace.sites import Site
from .caller import Caller

#: The outcome of a call that did what it should; others are codes of errors, and these.
OK, CANCELLED, FAILED = "ok", "cancelled", "failed"

#: Documents of one call that are recorded.
MOST_DOCUMENTS = 5

_log = logging.getLogger(__name__)


#: Arguments that say which document a call is about.
_PATHS = ("path", "notebook_path", "notebook_name")


@dataclass(slots=True, kw_only=True)
class CallRecord:
    """One call of a tool, read of a resource, or use of a prompt."""

    agent: Agent
    name: str
    """Of the tool, or the method of the protocol."""
    level: Level = Level.read
    """What it needs at least."""
    up_to: Level = Level.read
    """What it may need at most."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """As they were sent. They have contents, of which nothing may be written."""
    visits: Sequence[Visit] | None = None
    """What it was permitted to use so far; None if it was not let in. Not the call itself, which
    knows its record: each would keep the other until Python's garbage collector comes."""
    title: str = ""
    """What people call it."""
    kind: CallKind = "other"
    allowed: Level = Level.read
    """The most that its connection may do."""
    id: str = field(default_factory=lambda: short_id("call", 12))
    outcome: str = FAILED
    error: CollaborationError | None = None
    """Why it failed, if that is known."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the answer has; they have contents, too."""
    began: int = field(default_factory=now)
    """When it came, in milliseconds since the epoch."""
    seconds: float = 0.0
    """How long it took."""

    @property
    def documents(self) -> Sequence[tuple[Site, Visit]]:
        """The documents that it has opened, each once."""
        opened = {visit.file_id: visit for visit in self.visits or () if visit.file_id}
        return [
            (visit.server, visit)
            for visit in list(opened.values())[:MOST_DOCUMENTS]
            if isinstance(visit.server, Site)
        ]

    @property
    def named_path(self) -> Any:
        """The path that the caller has named, whatever it is; None if it named none."""
        given = {name.lower(): value for name, value in self.arguments.items()}
        return next((given[name] for name in _PATHS if name in given), None)

    @property
    def paths(self) -> Sequence[str]:
        """The documents, or else the paths; of a call that was refused, the path that it named."""
        shown = self.facts.get("path")  # as agents write it, also where it is a fork
        paths = [shown] if isinstance(shown, str) else []
        for visit in [visit for _, visit in self.documents] or self.visits or ():
            server = visit.server
            paths.append(server.name(visit.path) if isinstance(server, Site) else visit.path)
        if not paths and isinstance(self.named_path, str):
            paths.append(self.named_path)
        found = dict.fromkeys(without_query(path)[:PATH] for path in paths if path)
        return list(found)[:MOST_DOCUMENTS]

    @property
    def cells(self) -> Sequence[Mapping[str, Any]]:
        """The cells that the answer is about, with their `id` and perhaps `revision`."""
        cells = self.facts.get("cells")  # it may be a function, where only reading was asked for
        found = cells if isinstance(cells, list) else ()
        return [cell for cell in found if isinstance(cell, Mapping) and "id" in cell]

    @property
    def version_after(self) -> int | None:
        """The version of the document that the answer is about."""
        version = self.facts.get("version")
        return version if isinstance(version, int) else None

    @property
    def runs(self) -> Mapping[str, int]:
        """What became of the runs that it has started: how many are in which state."""
        return Counter(run["state"] for run in self.facts.get("runs") or ())


def without_query(path: str) -> str:
    """A path that may be a URL by mistake, without what may be a token."""
    return re.sub(r"\?[^?]*=.*", "?...", path, flags=re.DOTALL)


Observer = Callable[[CallRecord], None]
"""Does something with the record of a call, after its answer has left."""


class CallRecords:
    """Makes a record of each call, and hands it to whoever makes something of it.

    Args:
        at_end: Called right before the answer leaves, so it must be quick.
        at_start: Called before anything is done for a call; must be quick, too.
    """

    def __init__(
        self,
        observers: Sequence[Observer],
        at_end: Observer = lambda record: None,
        at_start: Observer = lambda record: None,
    ) -> None:
        self._observers = observers
        self._at_end = at_end
        self._at_start = at_start

    def following(self, record: CallRecord, caller: Caller) -> _Following:
        """Follow a call to its end: what is raised is its outcome, and so is how long it took."""
        return _Following(self, record, caller)

    def begin(self, record: CallRecord) -> None:
        """A call begins."""
        self._hand(record, self._at_start)

    def end(self, record: CallRecord) -> None:
        """A call is over, and its answer is about to leave."""
        self._hand(record, self._at_end)

    def tell(self, record: CallRecord) -> None:
        """Hand a record to all observers. None of them can harm the call or another one."""
        for observer in self._observers:
            self._hand(record, observer)
        if record.error is not None:
            _forget_frames(record.error)

    def _hand(self, record: CallRecord, observer: Observer) -> None:
        try:
            observer(record)
        except Exception:
            _log.exception("A call could not be recorded")


class _Following:
    """The time of a call. Not a generator: that would cost each edit time."""

    __slots__ = ("_caller", "_record", "_records", "_started")

    def __init__(self, records: CallRecords, record: CallRecord, caller: Caller) -> None:
        self._records, self._record, self._caller = records, record, caller

    def __enter__(self) -> CallRecord:
        self._started = time.perf_counter()
        self._records.begin(self._record)
        return self._record

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        record = self._record
        if isinstance(error, asyncio.CancelledError):
            record.outcome = CANCELLED
        elif isinstance(error, CollaborationError):
            record.outcome, record.error = error.code, error
        record.seconds = time.perf_counter() - self._started
        self._records.end(record)
        self._caller.after_answer(partial(self._records.tell, record))


def _forget_frames(error: BaseException) -> None:
    """Forget through which frames an error came, and those behind it.

    The frames know the error: together they would stay, with the whole request, until Python's
    garbage collector comes.
    """
    left, done = [error], set[int]()
    while left:
        each = left.pop()
        done.add(id(each))
        each.__traceback__ = None
        behind = (each.__cause__, each.__context__)
        left += [other for other in behind if other is not None and id(other) not in done]
