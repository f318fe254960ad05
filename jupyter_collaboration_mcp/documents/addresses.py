"""Addresses of what can be read as a resource: `notebook://` URIs as values.

Each form of address is a type. Its `format` writes the URI and its `parse` reads it; nothing else
puts such URIs together or takes them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

_SCHEME = "notebook"

#: In place of a session, in addresses that leave it and the notebook out.
_RUNS = "runs"

#: Digits of a number.
_DIGITS = 15


@dataclass(frozen=True, slots=True)
class CellOutput:
    """An output of a cell: as the cell has it now, or as one run left it."""

    TEMPLATE: ClassVar = "notebook://{session}/{notebook}/cells/{cell}/outputs/{n}{?run,offset}"

    session: str
    """Not needed to find the notebook: an address in a saved notebook outlives its server."""
    notebook: str
    """The file id."""
    cell: str
    index: int
    run: str | None = None
    offset: int = 0
    """Where to begin, in bytes."""

    def format(self) -> str:
        steps = (self.notebook, "cells", self.cell, "outputs", self.index)
        return _format(self.session, steps, run=self.run, offset=self.offset)

    @classmethod
    def parse(cls, uri: str) -> Self | None:
        """The address that a URI is; None if it is none of this form."""
        match _split(uri):
            case _Split(session, [notebook, "cells", cell, "outputs", number], query):
                index, offset = _number(number), _number(query.get("offset", "0"))
                if index is not None and offset is not None:
                    return cls(session, notebook, cell, index, query.get("run"), offset)
        return None

    @classmethod
    def in_notice(cls, text: str) -> Self | None:
        """The address in the notice with which a text ends: a last line of the form [... URI]."""
        line = text.rstrip().rpartition("\n")[2]
        if not (line.startswith("[") and line.endswith("]")):
            return None
        return cls.parse(line[1:-1].rpartition(" ")[2])


@dataclass(frozen=True, slots=True)
class ExecutionOutput:
    """An output of a run that stored nothing in its notebook."""

    TEMPLATE: ClassVar = "notebook://{session}/{notebook}/executions/{run}/outputs/{n}{?offset}"

    session: str
    notebook: str
    run: str
    index: int
    offset: int = 0

    def format(self) -> str:
        steps = (self.notebook, "executions", self.run, "outputs", self.index)
        return _format(self.session, steps, offset=self.offset)

    @classmethod
    def parse(cls, uri: str) -> Self | None:
        """The address that a URI is; None if it is none of this form."""
        match _split(uri):
            case _Split(session, [notebook, "executions", run, "outputs", number], query):
                index, offset = _number(number), _number(query.get("offset", "0"))
                if index is not None and offset is not None:
                    return cls(session, notebook, run, index, offset)
        return None


@dataclass(frozen=True, slots=True)
class RunOutput:
    """An output of any run, in the short form that answers have: each character costs tokens."""

    TEMPLATE: ClassVar = "notebook://runs/{run}/{n}{?offset}"

    run: str
    index: int
    offset: int = 0

    def format(self) -> str:
        return _format(_RUNS, (self.run, self.index), offset=self.offset)

    @classmethod
    def parse(cls, uri: str) -> Self | None:
        """The address that a URI is; None if it is none of this form."""
        match _split(uri):
            case _Split(session, [run, number], query) if session == _RUNS:
                index, offset = _number(number), _number(query.get("offset", "0"))
                if index is not None and offset is not None:
                    return cls(run, index, offset)
        return None


#: All forms of addresses.
ADDRESSES = (CellOutput, ExecutionOutput, RunOutput)


def _format(session: str, steps: Sequence[str | int], **query: str | int | None) -> str:
    place = "/".join(quote(str(step), safe="") for step in (session, *steps))
    given = urlencode({name: value for name, value in query.items() if value})
    return f"{_SCHEME}://{place}?{given}" if given else f"{_SCHEME}://{place}"


class _Split(NamedTuple):
    session: str
    steps: Sequence[str]
    query: Mapping[str, str]


def _split(uri: str) -> _Split | None:
    try:
        parts = urlsplit(uri)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    except ValueError:
        return None
    if parts.scheme != _SCHEME:
        return None
    steps = [unquote(step) for step in parts.path.strip("/").split("/")]
    return _Split(unquote(parts.netloc), steps, query)


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return int(text) if is_number else None
