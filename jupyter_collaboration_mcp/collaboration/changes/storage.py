"""Steps as bytes, and bytes as steps: what undo needs after a restart.

Each change is a line of JSON, so that a large step is written and read in pieces: a C function
that converts JSON holds the interpreter until it is done, in any thread.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from json.scanner import py_make_scanner  # type: ignore[attr-defined]

from ...backends.protocols.steps import Lazy, StoredStep
from .cells import CellDeletion, CellInsertion, CellMove
from .change import Change
from .properties import ExtrasChange, MetadataChange, OutputClearing, TypeChange
from .source import SourceChange
from .step import Step

#: Every kind of change, by its name. A test fails as long as a new one is not in it.
KINDS: dict[str, type[Change]] = {
    change.kind: change
    for change in (
        CellDeletion,
        CellInsertion,
        CellMove,
        ExtrasChange,
        MetadataChange,
        OutputClearing,
        SourceChange,
        TypeChange,
    )
}

#: Characters of a change from which on its JSON is converted in Python.
_LARGE = 1_000_000

_log = logging.getLogger(__name__)


def stored(step: Step) -> StoredStep:
    """A step, as it is kept."""
    return StoredStep(
        step.id, step.agent, step.version, step.call, step.characters, Lazy(lambda: _encoded(step))
    )


def restored(steps: Iterable[StoredStep]) -> list[Step]:
    """Steps that were kept, without those that cannot be read."""
    return list(_restored(steps))


def _restored(steps: Iterable[StoredStep]) -> Iterator[Step]:
    for step in steps:
        assert isinstance(step.changes, bytes)
        try:
            changes = tuple(_change(line) for line in step.changes.decode().splitlines())
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            _log.warning(
                "The step %s of %r cannot be undone any more: %r", step.id, step.call, error
            )
            continue
        if changes:
            yield Step(step.version, step.call, changes, step.agent, step.id)


def _encoded(step: Step) -> bytes:
    try:
        # ASCII: no character in it is a line end to `splitlines`, or half a surrogate pair.
        return b"\n".join(_line(change).encode() for change in step.changes)
    except Exception:
        _log.exception("A step of %r cannot be stored", step.call)
        return b""


def _line(change: Change) -> str:
    value = [change.kind, change.values()]
    if change.size < _LARGE:
        return json.dumps(value)
    return "".join(json.JSONEncoder().iterencode(value))


def _change(line: str) -> Change:
    decoder = json.JSONDecoder() if len(line) < _LARGE else _PatientDecoder()
    kind, values = decoder.decode(line)
    return KINDS[kind].from_values(values)


class _PatientDecoder(json.JSONDecoder):
    """Converts JSON in Python, which lets others go on."""

    def __init__(self) -> None:
        super().__init__()
        self.scan_once = py_make_scanner(self)
