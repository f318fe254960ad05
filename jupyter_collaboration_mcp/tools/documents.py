"""The `document` toolset: read and edit live text files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ..backends.protocols.files import Listing
from ..documents import render
from ..documents.text_diff import unified
from ..documents.text_document import WHOLE
from ..documents.text_view import Lines, cut, line_count
from ..errors import InvalidArgument
from ..workspace.open_document import OpenDocument
from ..workspace.permissions import Level
from ..workspace.permits import Call, Permit
from ..workspace.sites import Site
from ..workspace.text_editing import TextChange, TextSpan, change_text
from .answers import Propose, Start, about, answer, company, joined, on_disk
from .listings import file_facts, list_files
from .places import SiteTools
from .registry import DEFAULT_LENGTH, MOST_CONTENT, Answer, tool

Revision = Annotated[str | None, Field(description="refuse if the text changed since")]

#: Places of an edit that an answer shows at most.
_SHOWN = 50

#: Longer texts, in characters, are not compared with what an agent knew of them.
_LARGE = 200_000


# Without docstrings: they would go into the schema, where every word costs a token.
class Operation(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: str | None = None
    position: Annotated[int, Field(strict=True, description="-1: append")] = -1
    length: Annotated[int, Field(strict=True, description="characters to replace; 0: insert")] = 0
    old_text: Annotated[str | None, Field(description="literal, must match once")] = None
    new_text: str | None = None


class Insertion(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str
    position: Annotated[int, Field(strict=True)]


class Deletion(BaseModel):
    model_config = ConfigDict(extra="forbid")

    position: Annotated[int, Field(strict=True, ge=0)]
    length: Annotated[int, Field(strict=True, ge=1)]


class DocumentTools(SiteTools):
    """What an agent does with text files."""

    @tool("List documents", Level.read, core=True)
    async def list_documents(
        self,
        call: Call,
        path: str = "",
        path_filter: Annotated[str, Field(description="part of a path, or a glob")] = "",
        file_type: Annotated[
            str | None, Field(description="notebook, text, markdown, directory, csv, ...")
        ] = None,
        max_results: Annotated[int, Field(ge=1, le=1000)] = 50,
        start_index: Start = 0,
    ) -> Answer:
        """Find files: list a folder, or with path_filter or file_type search all folders below it.
        Returns size, last change, who has it open."""

        async def ask(site: Site, folder: Permit, left: int) -> Listing:
            filing = site.workspace.filing
            if path_filter or file_type:
                return await filing.listings.search(folder, path_filter, file_type, left)
            return await filing.listings.children(folder, left)

        files = await list_files(call, self._sites, path, start_index, max_results, ask)
        documents = [file_facts(site, entry) for site, entry in files.entries]
        nothing = f"Nothing matches below {path or 'the root'!r}."
        return Answer(files.text(nothing), {"documents": documents, **files.facts})

    @tool("Read a document", Level.read, core=True)
    async def get_document(
        self,
        call: Call,
        path: str,
        include_collaboration_state: bool = True,
        max_content_length: Annotated[int, Field(ge=1)] = DEFAULT_LENGTH,
        start_line: Annotated[int | None, Field(ge=1, description="from 1")] = None,
        end_line: Annotated[int | None, Field(ge=1, description="included")] = None,
        start_position: Annotated[
            int | None, Field(ge=0, description="instead of start_line: character, from 0")
        ] = None,
    ) -> Answer:
        """Read a live text file, or some of its lines, with its handle, path@revision. For
        notebooks use get_notebook."""
        here = await self._open(call, Level.read, path, "file")
        limit = min(max_content_length, MOST_CONTENT)
        now = here.peer.text.view()
        lines = cut(now.source, start_line, end_line, start_position, limit)
        here.peer.seen_sources.add([now])
        if not lines.partial:
            here.seat.known.add(WHOLE, now.revision)
        return _read(here, now.source, now.revision, lines, include_collaboration_state)

    @tool("Join a document", Level.read)
    async def create_document_session(
        self, call: Call, path: str, file_type: str | None = None
    ) -> Answer:
        """Join a text file's room ahead of time; other tools join automatically."""
        if file_type == "notebook":
            raise InvalidArgument(
                "This tool is for text files; notebooks have their own.",
                "Call create_notebook_session.",
            )
        here = await self._open(call, Level.read, path, "file")
        now = here.peer.text.view()
        length = len(now.source)
        return joined(here, f"{length:,} characters", length=length, revision=now.revision)

    @tool("Edit a document", Level.write, core=True)
    async def batch_update_document(
        self,
        call: Call,
        path: str,
        operations: list[Operation],
        if_revision: Revision = None,
        propose: Propose = None,
    ) -> Answer:
        """Change a live text file, all or nothing: old_text to new_text, or content at a position
        (characters from 0, in the text before the call). Returns the new handle."""
        changes = [
            TextChange(each.content, each.position, each.length, each.old_text, each.new_text)
            for each in operations
        ]
        return await self._change(call, path, changes, if_revision, propose)

    @tool("Insert text", Level.write, only_adds=True)
    async def batch_insert_text(
        self,
        call: Call,
        path: str,
        operations: list[Insertion],
        if_revision: Revision = None,
        propose: Propose = None,
    ) -> Answer:
        """Insert text into a live text file at positions: characters from 0 in the text before
        the call, -1 for the end. All or nothing."""
        changes = [TextChange(each.text, each.position) for each in operations]
        return await self._change(call, path, changes, if_revision, propose)

    @tool("Delete text", Level.write)
    async def batch_delete_text(
        self,
        call: Call,
        path: str,
        operations: list[Deletion],
        if_revision: Revision = None,
        propose: Propose = None,
    ) -> Answer:
        """Delete ranges of a live text file: positions and lengths in characters of the text
        before the call. All or nothing."""
        changes = [TextChange("", each.position, each.length) for each in operations]
        return await self._change(call, path, changes, if_revision, propose)

    async def _change(
        self,
        call: Call,
        path: str,
        changes: Sequence[TextChange],
        if_revision: str | None,
        propose: str | None,
    ) -> Answer:
        here = await self._open(call, Level.write, path, "file", propose)
        limits, before = here.site.workspace.limits, here.peer.text.view()
        known = here.seat.known.get(WHOLE)
        written = await here.perform(change_text(here, changes, limits, if_revision))
        await here.peer.wait_acknowledged()
        guarded = here.expected is not None or if_revision is not None
        unread = known is None or len(before.source) > _LARGE
        expected = guarded or unread or before.revision == known
        seen = here.peer.seen_sources.get(known or "")
        return _changed(here, written, None if expected else seen)


def _read(
    here: OpenDocument, whole: str, revision: str, lines: Lines, include_state: bool
) -> Answer:
    head = (
        f"{here.label}@{revision}: {_lines(whole)}, {len(whole):,} characters, "
        f"version {here.peer.version}"
    )
    if lines.partial:
        head += f"; lines {lines.first} to {lines.last} shown"
        head += f", from character {lines.start:,}" if lines.start else ""
    if lines.next_position is not None:
        head += f", continue with {_next(lines)}"
    said = [head, render.fenced(lines.content.removesuffix("\n"))]
    if lines.at_end and whole and not whole.endswith("\n"):
        said.append("There is no line break at the end.")
    facts: dict[str, Any] = {
        **about(here),
        "revision": revision,
        "length": len(whole),
        "line_count": line_count(whole),
        "start_line": lines.first,
        "start_position": lines.start,
        "content": lines.content,
    }
    if lines.next_position is not None:
        facts["next_position"] = lines.next_position
    if include_state:
        line, facts["collaboration"] = company(here)
        said += [line] if line else []
    return answer(here, said, facts)


def _changed(here: OpenDocument, written: Sequence[TextSpan], unexpected: str | None) -> Answer:
    now = here.peer.text.view()
    here.peer.seen_sources.add([now])
    here.seat.known.add(WHOLE, now.revision)
    places = [
        {"position": place.position, "length": place.length, "line": place.line}
        for place in written
    ]
    at = ", ".join(f"{place.line:,}" for place in written[:_SHOWN])
    more = f" and {len(written) - _SHOWN} more places" if len(written) > _SHOWN else ""
    noun = "line" if len(written) == 1 else "lines"
    text = f"Changed {here.label}@{now.revision} at {noun} {at}{more}."
    facts = {
        **about(here),
        "revision": now.revision,
        "length": len(now.source),
        "operations": places,
    }
    lines = [f"{text} {on_disk(here, facts)}"]
    if unexpected is not None:
        diff = unified(unexpected, now.source, limit=1_500)
        lines.append(f"Others had changed it since you read it:\n{render.fenced(diff)}")
    return answer(here, lines, facts)


def _next(lines: Lines) -> str:
    """The argument that continues where the text was cut."""
    if lines.content.endswith("\n"):
        return f"start_line={lines.last + 1}"
    return f"start_position={lines.next_position}"


def _lines(whole: str) -> str:
    count = line_count(whole)
    return "1 line" if count == 1 else f"{count:,} lines"
