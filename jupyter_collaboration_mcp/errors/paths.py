"""Errors of files and paths."""

from __future__ import annotations

from collections.abc import Collection

from ..remedies import Intent
from .base import CollaborationError, one_line

#: Names that an error lists.
_NAMED = 20


class PathError(CollaborationError):
    code = "path_error"


class PathRefused(PathError):
    code = "path_refused"


class DocumentNotFound(PathError):
    code = "document_not_found"

    @classmethod
    def at(cls, path: str) -> DocumentNotFound:
        if not path:
            next_step = "Ask the person to look for the folder that the server should serve."
            return cls("The root folder of the Jupyter server is not there.", next_step, path=path)
        return cls(f"There is nothing at {path!r}.", Intent.LIST_DOCUMENTS, path=path)

    @classmethod
    def moved(cls, path: str, new_path: str) -> DocumentNotFound:
        return cls(
            f"{path!r} was renamed to {new_path!r}. Nothing was done.",
            "Repeat the call with the new path.",
            path=path,
            new_path=new_path,
        )


class NotebookUnknown(PathError):
    code = "notebook_unknown"

    @classmethod
    def among(cls, names: Collection[str], wanted: str) -> NotebookUnknown:
        """Among the names that an agent has given to notebooks."""
        there = ", ".join(list(names)[:_NAMED]) or "none"
        return cls(
            f"No notebook is connected under the name {wanted[:80]!r}; connected: {there}.",
            Intent.NAME_FIRST,
            notebook_name=wanted,
        )


class NotANotebook(PathError):
    code = "not_a_notebook"

    @classmethod
    def at(cls, path: str, kind: str) -> NotANotebook:
        next_step = Intent.READ_AS_TEXT if kind == "file" else Intent.NAME_NOTEBOOK
        return cls(f"{path!r} is a {kind}, not a notebook.", next_step, path=path, type=kind)


class NotText(PathError):
    code = "not_text"

    @classmethod
    def notebook(cls, path: str) -> NotText:
        return cls(
            f"{path!r} is a notebook, whose cells are read and edited one by one.",
            Intent.USE_CELLS,
            path=path,
            type="notebook",
        )

    @classmethod
    def folder(cls, path: str) -> NotText:
        return cls(f"{path!r} is a folder.", Intent.LIST_FOLDER, path=path, type="directory")

    @classmethod
    def binary(cls, path: str, size: int | None, mimetype: str | None) -> NotText:
        said = f", {size:,} bytes" if size is not None else ""
        return cls(
            f"{path!r} is not text in UTF-8 ({mimetype or 'unknown type'}{said}), "
            "so it cannot be shown or edited as one.",
            "Open it with code in a kernel, if it is needed.",
            path=path,
            type="file",
            size=size,
            mimetype=mimetype,
        )


class CorruptDocument(PathError):
    code = "corrupt_document"

    @classmethod
    def notebook(cls, path: str, why: str = "") -> CorruptDocument:
        because = f": {one_line(why)}" if why else ""
        return cls(
            f"{path!r} cannot be loaded as a notebook{because}. The file was not touched.",
            "Ask the person to repair or restore the file.",
            path=path,
        )


class ReadOnly(PathError):
    code = "read_only"

    @classmethod
    def at(cls, path: str) -> ReadOnly:
        return cls(
            f"{path!r} may not be written. Nothing was changed.",
            Intent.COPY_OR_ASK,
            path=path,
        )


class AlreadyExists(PathError):
    code = "already_exists"

    @classmethod
    def at(cls, path: str, kind: str) -> AlreadyExists:
        return cls(
            f"There is a {kind} at {path!r} already. Nothing was changed.",
            "Choose another path, or edit what is there.",
            path=path,
            type=kind,
        )


class InUse(PathError):
    code = "in_use"


class FolderNotEmpty(PathError):
    code = "folder_not_empty"


class FileFailed(PathError):
    code = "file_failed"

    @classmethod
    def to(cls, do: str, path: str, why: str) -> FileFailed:
        return cls(
            f"The Jupyter server could not {do} {path!r}: {why}.",
            "Choose another path, or tell the person what the server says.",
            path=path,
            reason=why,
        )
