"""The `files` toolset: create, move, copy and delete files and folders, whoever has them open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from ..backends.protocols.files import FileEntry, FileType
from ..backends.protocols.room_ids import Kind
from ..documents import render
from ..documents.foreign_text import inline, listed
from ..documents.handles import parse_path
from ..documents.languages import language_in
from ..documents.new_notebook import for_kernel, from_template, new_notebook
from ..documents.template import NAME
from ..documents.text import clip, require_storable
from ..errors import (
    CorruptDocument,
    DocumentNotFound,
    InvalidArgument,
    NotText,
    TooLarge,
)
from ..workspace import cell_reading
from ..workspace.guards import guard_text
from ..workspace.kernel_state import choose_spec
from ..workspace.permissions import Level, clean_path
from ..workspace.permits import Call, Permit
from ..workspace.sites import Site
from .listings import file_facts
from .parts import Parts
from .places import SiteTools, names_fork, refuse_proposing
from .registry import MOST_CONTENT, Answer, tool

#: What a document is on disk.
_TYPES: Mapping[str, FileType] = {
    "notebook": "notebook",
    "file": "file",
    "markdown": "file",
    "directory": "directory",
}

#: The MIME type that Jupyter gives a file whose name tells it nothing.
_MIMETYPES = {"text": "text/plain", "base64": "application/octet-stream"}

#: Entries of a folder that are shown.
_ENTRIES = 100


class _Source(NamedTuple):
    """What a new document is made of."""

    content: str | None
    template: str | None
    parameters: dict[str, Any] | None
    kernel: str | None


class FileTools(SiteTools):
    """What an agent does with files."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._templates = parts.templates

    @tool("Create a document", Level.write, core=True)
    async def create_document(
        self,
        call: Call,
        path: str,
        type: Literal["notebook", "file", "markdown", "directory"] = "notebook",  # noqa: A002
        content: Annotated[
            str | None,
            Field(description="text; a notebook as JSON, .src.md or code with # %%"),
        ] = None,
        template: Annotated[
            str | None,
            Field(description="a name such as eda, or a path to copy without outputs"),
        ] = None,
        parameters: Annotated[dict[str, Any] | None, Field(description="of the template")] = None,
        ephemeral: Annotated[
            bool, Field(description="private, deleted when idle; path is a name")
        ] = False,
        kernel: Annotated[str | None, Field(description="see list_kernels")] = None,
        overwrite: bool = False,
    ) -> Answer:
        """Create a notebook, text file or folder, with missing parent folders."""
        self._sites.require_known(path)
        source = _Source(content, template, parameters, kernel)
        if ephemeral:
            return await self._create_ephemeral(call, path, _TYPES[type], source)
        if overwrite:
            refuse_proposing(call, "nothing was overwritten")
        if overwrite and parse_path(path).revision is not None:
            site, permit = await self._guarded(call, path)
        else:
            site, permit, *_ = await self._place(call, Level.write, _named(path, type))
        kind = _TYPES[type]
        made = await self._content(call, site, kind, source)
        filing = site.workspace.filing
        created = await filing.create(permit, kind, made, overwrite)
        entry, folders, saved = created.entry, list(created.folders), created.saved
        facts = {"created_document": True, **file_facts(site, entry), "folders": folders}
        text = f"Created the {_word(entry)} {site.label_of(entry.path)}{_also(folders)}."
        if not saved:
            facts["saved"] = False
            text += " People see it, but the server has not saved it yet."
        if created.carets:
            facts["notices"] = [created.carets]
            text += f"\n{created.carets}"
        return Answer(text, facts)

    @tool("Describe a document", Level.read)
    async def get_document_info(
        self,
        call: Call,
        path: str,
        max_content_length: Annotated[int, Field(ge=0)] = 2000,
    ) -> Answer:
        """Get type, format, MIME type, size, times, whether it is writable, who has it open, and
        the start of its content. Works for notebooks, folders and binary files too."""
        site, permit, *_ = await self._named(call, Level.read, path)
        entry = await self._looked(site, permit, path)
        limit = min(max_content_length, MOST_CONTENT)
        file_format, shown = await self._shown(site, permit, entry, limit)
        facts = {
            **file_facts(site, entry),
            "format": file_format,
            "mimetype": entry.mimetype or _MIMETYPES.get(file_format or ""),
            "content": shown,
        }
        size = "" if entry.size is None else f", {entry.size:,} bytes"
        mime = f", {facts['mimetype']}" if facts["mimetype"] else ""
        mime += ", not text" if file_format == "base64" else ""
        open_by = f", open by {listed(entry.people)}" if entry.people else ", open"
        head = (
            f"{site.label_of(entry.path)}: {_word(entry)}{mime}{size}, "
            f"changed {entry.last_modified}, created {entry.created}, "
            f"{'writable' if entry.writable else 'read-only'}"
            f"{open_by if entry.open else ''}"
        )
        lines = [head] if shown is None else [head, render.fenced(shown)]
        return Answer("\n".join(lines), facts)

    @tool("Delete a document", Level.write)
    async def delete_document(
        self,
        call: Call,
        path: str,
        recursive: Annotated[bool, Field(description="also what is in a folder")] = False,
    ) -> Answer:
        """Delete a file or folder, to the trash if the server has one. Anyone who has it open
        is notified. This cannot be undone."""
        site, permit, *_ = await self._named(call, Level.write, path)
        refuse_proposing(call, "nothing was deleted")
        await self._looked(site, permit, path)
        await self._guarded(call, path)
        entry, trash = await site.workspace.filing.delete(permit, recursive)
        where = " It is in the server's trash." if trash else ""
        facts = {"path": site.name(permit.path), "type": entry.type, "deleted": True}
        if trash is not None:
            facts["trash"] = trash
        return Answer(f"Deleted the {_word(entry)} {site.label_of(permit.path)}.{where}", facts)

    @tool("Rename a document", Level.write)
    async def rename_document(self, call: Call, path: str, newPath: str) -> Answer:  # noqa: N803
        """Rename or move a file or folder. Anyone who has it open keeps it, with unsaved edits."""
        site, old, new = await self._two_places(call, path, newPath)
        refuse_proposing(call, "nothing was renamed")
        folders = await site.workspace.filing.rename(old, new)
        text = f"Renamed {site.label_of(old.path)} to {site.label_of(new.path)}{_also(folders)}."
        facts = {"path": site.name(new.path), "old_path": site.name(old.path), "folders": folders}
        return Answer(text, facts)

    @tool("Copy a document", Level.write, only_adds=True)
    async def copy_document(self, call: Call, path: str, copyPath: str) -> Answer:  # noqa: N803
        """Copy a file or folder, including unsaved edits."""
        if names_fork(self._sites, path):
            return await self._copy_fork(call, path, copyPath)
        site, old, new = await self._two_places(call, path, copyPath)
        folders, notices = await site.workspace.filing.copy(old, new)
        text = f"Copied {site.label_of(old.path)} to {site.label_of(new.path)}{_also(folders)}."
        facts = {
            "path": site.name(new.path),
            "source_path": site.name(old.path),
            "folders": folders,
        }
        if notices:
            facts["notices"] = list(notices)
        return Answer(" ".join([text, *notices]), facts)

    @tool("Check that a document exists", Level.read)
    async def document_exists(self, call: Call, path: str) -> Answer:
        """Check whether a file or folder exists at a path."""
        try:
            site, permit, *_ = await self._named(call, Level.read, path)
            exists = await site.workspace.filing.exists(permit)
            at = permit.path
        except DocumentNotFound:  # only another agent may know of it
            site, local = self._sites.find(path)
            exists, at = False, clean_path(local)
        if not exists:
            self._sites.require_known(path)
        said = "exists" if exists else "does not exist"
        shown = site.label_of(at) if at else "The root"
        return Answer(f"{shown} {said}.", {"exists": exists})

    # -- parts -------------------------------------------------------------------------------

    async def _create_ephemeral(
        self, call: Call, path: str, kind: FileType, source: _Source
    ) -> Answer:
        """Create a notebook of the caller alone, which is deleted when nobody uses it."""
        if kind != "notebook":
            raise InvalidArgument(
                "Only a notebook can be ephemeral. Nothing was written.", "Leave type out."
            )
        site, name = self._sites.find(path)
        ephemeral, filing = site.workspace.ephemeral, site.workspace.filing
        at = ephemeral.new_path(name)
        made = await self._content(call, site, kind, source)
        async with ephemeral.making(at, call.agent, made):
            permit = await call.permit(site, Level.write, at)
            created = await filing.create(permit, kind, made, overwrite=False)
        facts = {
            "created_document": True,
            **file_facts(site, created.entry),
            "folders": list(created.folders),
            "ephemeral": True,
            "idle_timeout": ephemeral.timeout,
        }
        return Answer(
            f"Created the ephemeral notebook {site.label_of(at)}. It is deleted with its kernel "
            f"after {_duration(ephemeral.timeout)} without use; to keep it, rename or copy it with "
            "rename_document or copy_document.",
            facts,
        )

    async def _copy_fork(self, call: Call, path: str, new_path: str) -> Answer:
        """Make a file of a fork."""
        here = await self._open(call, Level.read, path, None)
        new = await self._beside(call, here.site, new_path)
        created = await here.site.workspace.forking.copy(here, new)
        name = here.site.label_of(new.path)
        text = f"Copied {here.label} to {name}{_also(created.folders)}. The fork is still there."
        facts = {
            "path": here.site.name(new.path),
            "source_path": here.name,
            "folders": list(created.folders),
        }
        return Answer(text, facts)

    async def _guarded(self, call: Call, path: str) -> tuple[Site, Permit]:
        """The place of a file to act on, if the file is still what the caller has read."""
        site, permit, revision, _ = await self._named(call, Level.write, path)
        if revision is not None:
            guard_text(await self._open(call, Level.read, path, "file"), revision)
        return site, permit

    async def _looked(self, site: Site, permit: Permit, path: str) -> FileEntry:
        try:
            return await site.workspace.filing.look(permit)
        except DocumentNotFound as error:
            raise self._sites.unknown(path, error) from error

    async def _two_places(
        self, call: Call, path: str, new_path: str
    ) -> tuple[Site, Permit, Permit]:
        site, old = await self._guarded(call, path)
        await call.permit(site, Level.read, old.path)  # its content can be read at the new path
        await self._looked(site, old, path)
        return site, old, await self._beside(call, site, new_path)

    async def _content(
        self,
        call: Call,
        site: Site,
        kind: FileType,
        source: _Source,
    ) -> Any:
        """The content of a new document."""
        content, template, parameters, kernel = source
        if parameters is not None and (template is None or not _names_template(template)):
            raise InvalidArgument(
                "parameters are given without the name of a template. Nothing was written.",
                "Name a template, or leave parameters out.",
            )
        if content is not None and template is not None:
            raise InvalidArgument("Both content and template are given.", "Give one of them.")
        if kernel is not None and kind != "notebook":
            raise InvalidArgument("Only a notebook has a kernel.", "Leave kernel out.")
        if kind == "directory":
            if content is not None or template is not None:
                raise InvalidArgument("A folder has no content.", "Leave content out.")
            return None
        if content is not None:
            require_storable(content)
            if len(content) > site.workspace.limits.source_length:
                raise TooLarge(
                    f"{len(content):,} characters of content; at most "
                    f"{site.workspace.limits.source_length:,} are allowed. Nothing was written.",
                    "Write large files with code in a kernel.",
                )
        if template is not None and kind == "notebook" and _names_template(template):
            notebook = await self._templates.make(template, parameters or {})
        elif template is not None:
            found = await self._template(call, kind, template)
            if kind == "file":
                return found
            notebook = from_template(found)
        elif kind == "file":
            return content or ""
        else:
            notebook = new_notebook(content)
        spec = await choose_spec(site.runs, kernel, language_in(notebook["metadata"]))
        for_kernel(notebook, spec, kernel is not None)
        return notebook

    async def _template(self, call: Call, kind: FileType, template: str) -> Any:
        site, permit, *_ = await self._place(call, Level.read, template)
        entry = await self._looked(site, permit, template)
        if entry.type != kind:
            raise InvalidArgument(
                f"The template {template!r} is a {_word(entry)}, not a {kind}.",
                f"Name a {kind}, or give another type.",
            )
        named: Kind = "notebook" if kind == "notebook" else "file"
        return await site.workspace.filing.read(permit, named)

    async def _shown(
        self, site: Site, permit: Permit, entry: FileEntry, limit: int
    ) -> tuple[str | None, str | None]:
        """The format of a document, and the beginning of its content."""
        if entry.type == "directory":
            listing = await site.workspace.filing.listings.children(permit, _ENTRIES)
            names = [inline(child.name) for child in listing.entries]
            more = "" if listing.complete else "\n..."
            return "json", clip("\n".join(names) + more, limit) if limit else None
        if entry.type == "notebook":
            if not limit:
                return "json", None
            try:
                here = await site.open(permit)
                await here.peer.refresh()
            except CorruptDocument:
                return None, None
            notebook = here.peer.notebook
            cells = await cell_reading.read_cells(
                notebook, lambda: range(len(notebook)), True, None
            )
            return "json", render.outline(cells, max_length=max(200, limit)).text
        try:
            here = await site.open(permit, "file")
            await here.peer.refresh()
        except NotText:
            return "base64", None
        except TooLarge:
            return None, None
        return "text", clip(str(here.peer.text), limit) if limit else None


def _named(path: str, kind: str) -> str:
    """A path with the extension that its type needs."""
    path = path.rstrip("/")
    if not path:
        raise InvalidArgument("The path is empty.", "Give the new document a name.")
    if kind == "notebook" and not path.endswith(".ipynb"):
        return f"{path}.ipynb"
    if kind == "markdown" and "." not in path.rpartition("/")[2]:
        return f"{path}.md"
    if kind in ("file", "markdown") and path.endswith(".ipynb"):
        raise InvalidArgument(
            f"{path!r} would be a notebook, not a {kind}.",
            "Use type=notebook, or another ending.",
        )
    return path


def _names_template(template: str) -> bool:
    """Whether it is the name of a template, not the path of a document."""
    return NAME.fullmatch(template) is not None


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:g} minutes" if minutes >= 2 else f"{seconds:g} s"


def _also(folders: Sequence[str]) -> str:
    return f", and created the folders {listed(folders)}" if folders else ""


def _word(entry: FileEntry) -> str:
    return "folder" if entry.type == "directory" else entry.type
