"""Addresses of what can be read as a resource: `notebook://` URIs as values.

Each form of address is a type. Its `format` writes the URI and its `parse` reads it; nothing else
puts such URIs together or takes them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, Self
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

_SCHEME = "notebook"

#: In place of a session, in addresses of something else.
_RUNS, _TEMPLATES, _LIST, _CURRENT = "runs", "templates", "list", "current"

_RESERVED = frozenset((_RUNS, _TEMPLATES, _LIST, _CURRENT))

#: The virtual folder of `file:///notebooks/...`, and the ending of a notebook there.
_FOLDER, _ENDING = "notebooks", ".src.md"

#: The formats in which a notebook can be read.
FORMATS = ("srcmd", "json", "cells")

#: Steps that lead nowhere: no resource is relative to another.
_DOTS = frozenset((".", ".."))

#: Digits of a number.
_DIGITS = 15


class Address(Protocol):
    """A URI of one form."""

    TEMPLATE: ClassVar[str]

    def format(self) -> str:
        """The URI."""

    @classmethod
    def parse(cls, uri: str) -> Self | None:
        """The address that a URI is; None if it is none of this form."""


class _Single:
    """The address of a resource of which there is only one."""

    TEMPLATE: ClassVar[str]

    def format(self) -> str:
        return self.TEMPLATE

    @classmethod
    def parse(cls, uri: str) -> Self | None:
        """The address, if this is it."""
        return cls() if uri.rstrip("/") == cls.TEMPLATE else None


@dataclass(frozen=True, slots=True)
class NotebookList(_Single):
    """All notebooks that are open."""

    TEMPLATE: ClassVar = f"{_SCHEME}://{_LIST}"


@dataclass(frozen=True, slots=True)
class CurrentDocument(_Single):
    """The document that the agent used last."""

    TEMPLATE: ClassVar = f"{_SCHEME}://{_CURRENT}"


@dataclass(frozen=True, slots=True)
class Document:
    """A notebook or text file."""

    TEMPLATE: ClassVar = "notebook://{session}/{notebook}"

    session: str
    """The session of the server, or of the agent at this document."""
    notebook: str
    """The file id; or the path, for people."""

    def format(self) -> str:
        return _format(self.session, (self.notebook,))

    @classmethod
    def parse(cls, uri: str) -> Self | None:
        """The address that a URI is; None if it is none of this form."""
        match _split(uri):
            case _Split(session, [notebook]) if notebook and session not in _RESERVED:
                return cls(session, notebook)
        return None


@dataclass(frozen=True, slots=True)
class DocumentAs:
    """A notebook in one of several formats."""

    TEMPLATE: ClassVar = "notebook://{session}/{notebook}/{format}"

    session: str
    notebook: str
    form: str
    """One of `FORMATS`; others are reported when it is read."""

    def format(self) -> str:
        return _format(self.session, (self.notebook, self.form))

    @classmethod
    def parse(cls, uri: str) -> Self | None:
        """The address that a URI is; None if it is none of this form."""
        match _split(uri):
            case _Split(session, [notebook, form]) if notebook and session not in _RESERVED:
                return cls(session, notebook, form)
        return None


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a notebook: its source."""

    TEMPLATE: ClassVar = "notebook://{session}/{notebook}/cells/{cell}"

    session: str
    notebook: str
    cell: str

    def format(self) -> str:
        return _format(self.session, (self.notebook, "cells", self.cell))

    @classmethod
    def parse(cls, uri: str) -> Self | None:
        """The address that a URI is; None if it is none of this form."""
        match _split(uri):
            case _Split(session, [notebook, "cells", cell]) if notebook:
                return cls(session, notebook, cell)
        return None


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
class Execution:
    """A run: its code, state, times and outputs."""

    TEMPLATE: ClassVar = "notebook://{session}/{notebook}/executions/{run}"

    session: str
    notebook: str
    run: str

    def format(self) -> str:
        return _format(self.session, (self.notebook, "executions", self.run))

    @classmethod
    def parse(cls, uri: str) -> Self | None:
        """The address that a URI is; None if it is none of this form."""
        match _split(uri):
            case _Split(session, [notebook, "executions", run]):
                return cls(session, notebook, run)
        return None


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


@dataclass(frozen=True, slots=True)
class Template:
    """A template of notebooks."""

    TEMPLATE: ClassVar = "notebook://templates/{name}"

    name: str

    def format(self) -> str:
        return _format(_TEMPLATES, (self.name,))

    @classmethod
    def parse(cls, uri: str) -> Self | None:
        """The address that a URI is; None if it is none of this form."""
        match _split(uri):
            case _Split(session, [name]) if name and session == _TEMPLATES:
                return cls(name)
        return None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A notebook under the standard scheme. Nothing of the disk has such an address."""

    TEMPLATE: ClassVar = "file:///notebooks/{session}/{notebook}.src.md"

    session: str
    notebook: str

    def format(self) -> str:
        return _format_file(self.session, f"{self.notebook}{_ENDING}")

    @classmethod
    def parse(cls, uri: str) -> Self | None:
        """The address that a URI is; None if it is none of this form."""
        match _split_file(uri):
            case [session, name] if name.endswith(_ENDING) and name != _ENDING:
                return cls(session, name.removesuffix(_ENDING))
        return None


@dataclass(frozen=True, slots=True)
class CellFile:
    """A cell of a notebook under the standard scheme."""

    TEMPLATE: ClassVar = "file:///notebooks/{session}/{notebook}/cells/{name}"

    session: str
    notebook: str
    name: str
    """The id of the cell, with or without the ending of its language; or the name that it has in
    the notebook's source file."""

    def format(self) -> str:
        return _format_file(self.session, self.notebook, "cells", self.name)

    @classmethod
    def parse(cls, uri: str) -> Self | None:
        """The address that a URI is; None if it is none of this form."""
        match _split_file(uri):
            case [session, notebook, "cells", name] if name:
                return cls(session, notebook, name)
        return None


#: All forms of addresses.
ADDRESSES: tuple[type[Address], ...] = (
    NotebookList,
    CurrentDocument,
    Document,
    DocumentAs,
    Cell,
    CellOutput,
    Execution,
    ExecutionOutput,
    RunOutput,
    Template,
    SourceFile,
    CellFile,
)


def _format_file(*steps: str) -> str:
    return f"file:///{_FOLDER}/" + "/".join(quote(step, safe="") for step in steps)


def _split_file(uri: str) -> Sequence[str] | None:
    """The steps below the virtual folder."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if (parts.scheme, parts.netloc, parts.query, parts.fragment) != ("file", "", "", ""):
        return None
    root, folder, *steps = (unquote(step) for step in f"{parts.path}/".split("/"))
    is_inside = (root, folder) == ("", _FOLDER) and _DOTS.isdisjoint(steps)
    return steps[:-1] if is_inside else None


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
    session = unquote(parts.netloc)
    return _Split(session, steps, query) if _DOTS.isdisjoint((session, *steps)) else None


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return int(text) if is_number else None
