"""What can go wrong, reported so that an agent can continue.

    CollaborationError
    ├── InvalidArgument          the call itself is invalid
    ├── TooLarge                 the call or its result exceeds a limit
    ├── PermissionRefused        a level, an authorizer or a path rule does not allow it
    ├── ExecutionError
    │   ├── NotCode              the cell cannot be run, because it holds no code
    │   ├── KernelUnavailable    no such kernel, or it cannot be started or reached
    │   ├── KernelBusy           the call needs an idle kernel
    │   ├── KernelLost           the kernel died, restarted or was shut down during the run
    │   ├── InterruptIgnored     the code keeps running after an interrupt
    │   ├── RunNotFound          no such run, or too long ago
    │   ├── RunBroken            the run could not be followed to its end
    │   ├── NoInputWanted        the run is not waiting for input
    │   ├── InputMissing         code asked for input and nobody answered
    │   ├── SecretRefused        code asked for a password
    │   └── OutputGone           no such output, or no longer kept
    ├── PathError
    │   ├── PathRefused          outside the root, or not a path
    │   ├── DocumentNotFound
    │   ├── NotANotebook         a directory, a text file, ...
    │   ├── NotText              a directory, a notebook, an image, another encoding, ...
    │   ├── CorruptDocument      exists, but cannot be read as what it should be
    │   ├── ReadOnly             can be read, but not written
    │   ├── AlreadyExists        something else is there, and will not be overwritten
    │   ├── InUse                people have it open and would lose their work
    │   ├── FolderNotEmpty       deleting it would delete what is inside
    │   └── FileFailed           the server tried and failed, on a full disk, say
    ├── CellError
    │   ├── CellNotFound         no such id or index
    │   ├── AmbiguousCell        an id prefix or text that matches several cells
    │   ├── StaleRevision        the cell or text changed since the caller read it
    │   ├── CellProtected        a mark of the cell forbids it to agents
    │   ├── CellBusy             a person's caret is there
    │   └── TextMismatch         the text to replace is missing, or occurs more than once
    ├── PresenceError
    │   ├── UserNotFound         nobody online has that id or name
    │   ├── AmbiguousUser        several people or agents have that name
    │   └── SessionNotFound      no such session, or it has ended
    ├── DocumentBusy             others kept changing the same cells
    ├── UndoError
    │   ├── NothingToUndo
    │   └── UndoRefused          would remove or strand somebody else's text
    ├── ServerError
    │   ├── ServerUnreachable    the Jupyter server does not answer
    │   ├── TokenRefused         the Jupyter server does not accept the token
    │   ├── NotJupyter           something else answers at that URL
    │   ├── AnswerTooLarge       the Jupyter server sent more than the limit
    │   └── UnknownServer        no server has that alias, or one has it already
    ├── InternalError            an internal error in this server
    ├── NoCollaboration          the Jupyter server has no rooms at all
    └── RoomUnavailable          no collaboration, room gone, or the edit could not be made durable

Each error has a code, says what happened and what is true now, and names one next step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from .remedies import Intent, Remedy


class CollaborationError(Exception):
    """Base of all errors that an agent may read.

    Args:
        happened: What went wrong and what is true now, in plain sentences.
        next_step: The one thing the caller should do next. Where a tool helps it is an intent: only
            the toolset that was called knows what its tools are called.
        detail: Machine-readable facts for `structuredContent`.
    """

    code: ClassVar[str] = "error"

    def __init__(self, happened: str, next_step: str | Intent | Remedy, **detail: Any) -> None:
        super().__init__(happened)
        self.happened = happened
        self.step = Remedy(next_step) if isinstance(next_step, Intent) else next_step
        """What to do next, as whoever raised this has put it."""
        self.remedy = self.next_step
        """What a person does about it, where a person reads this: `doctor`, the command's start."""
        self.detail = detail

    @classmethod
    def for_person(cls, happened: str, remedy: str, **detail: Any) -> Self:
        """An error that only a person can fix; an agent has to ask them."""
        error = cls(happened, f"Ask the person to do this: {remedy}", **detail)
        error.remedy = remedy
        return error

    @property
    def next_step(self) -> str:
        """What to do next, in plain words: no tool is named unless it was asked for by name."""
        return str(self.step)

    def step_in(self, wording: Mapping[Intent, str]) -> str:
        """What to do next, in the words of a toolset."""
        return self.step.worded(wording) if isinstance(self.step, Remedy) else self.step

    def said_in(self, wording: Mapping[Intent, str]) -> str:
        """The whole error, in the words of a toolset."""
        return f"{self.happened}\nNext: {self.step_in(wording)}"

    def __str__(self) -> str:
        return self.said_in({})


class InvalidArgument(CollaborationError):
    code = "invalid_argument"


class TooLarge(CollaborationError):
    code = "too_large"


class PermissionRefused(CollaborationError):
    code = "permission_refused"


class ExecutionError(CollaborationError):
    code = "execution_error"


class NotCode(ExecutionError):
    code = "not_code"


class KernelUnavailable(ExecutionError):
    code = "kernel_unavailable"


class KernelBusy(ExecutionError):
    code = "kernel_busy"


class KernelLost(ExecutionError):
    code = "kernel_lost"


class InterruptIgnored(ExecutionError):
    code = "interrupt_ignored"


class RunNotFound(ExecutionError):
    code = "run_not_found"


class RunBroken(ExecutionError):
    code = "run_broken"


class InputMissing(ExecutionError):
    code = "input_missing"


class NoInputWanted(ExecutionError):
    code = "no_input_wanted"


class SecretRefused(ExecutionError):
    code = "secret_refused"


class OutputGone(ExecutionError):
    code = "output_gone"


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
        because = f": {_one_line(why)}" if why else ""
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


class CellError(CollaborationError):
    code = "cell_error"


class CellNotFound(CellError):
    code = "cell_not_found"


class AmbiguousCell(CellError):
    code = "ambiguous_cell"


class StaleRevision(CellError):
    code = "stale_revision"


class TextMismatch(CellError):
    code = "text_mismatch"


class PresenceError(CollaborationError):
    code = "presence_error"


class UserNotFound(PresenceError):
    code = "user_not_found"

    @classmethod
    def among(cls, wanted: str, names: Sequence[str]) -> UserNotFound:
        online = ", ".join(map(repr, names[:10])) or "nobody"
        return cls(f"Nobody online is called {wanted!r}. Online: {online}.", Intent.LIST_USERS)


class AmbiguousUser(PresenceError):
    code = "ambiguous_user"

    @classmethod
    def among(cls, wanted: str, users: Sequence[tuple[str, str]]) -> AmbiguousUser:
        ids = [user_id for _, user_id in users]
        return cls(
            f"{len(users)} users are called {wanted!r}: {', '.join(map(repr, ids[:10]))}.",
            "Name one of them by that id.",
            ids=ids[:10],
        )


class SessionNotFound(PresenceError):
    code = "session_not_found"

    @classmethod
    def of(cls, session: str) -> SessionNotFound:
        return cls(
            f"There is no session {session!r}, or it has ended.",
            Intent.LIST_SESSIONS,
            session_id=session,
        )


class CellProtected(CellError):
    code = "cell_protected"

    @classmethod
    def by_marks(cls, cells: Sequence[tuple[str, str, str]], note: str = "") -> CellProtected:
        """Of cells by handle, id and what forbids it; nothing of the call was done.

        Args:
            note: A sentence about all of them.
        """
        named = [f"{handle} ({reason})" for handle, _, reason in cells]
        return cls(
            f"Protected from agents: {_some(named)}. Nothing was changed.{note and f' {note}'}",
            Intent.LEAVE_OUT_OR_ASK,
            cells=[
                {"cell_id": cell_id, "mark": reason} for _, cell_id, reason in cells[:_DETAILED]
            ],
        )


class CellBusy(CellError):
    code = "cell_busy"

    @classmethod
    def with_carets(cls, sentence: str, places: Sequence[Mapping[str, Any]]) -> CellBusy:
        """Of places with the carets of people; nothing of the call was done."""
        return cls(
            f"{sentence} Nothing was changed.",
            Intent.WAIT_FOR_PERSON,
            carets=list(places[:_DETAILED]),
        )


class DocumentBusy(CollaborationError):
    code = "document_busy"

    @classmethod
    def while_preparing(cls) -> DocumentBusy:
        return cls(
            "While this large edit was being prepared, others kept changing the same cells or "
            "text, or the order of the cells. Nothing was changed.",
            "Try again in a moment. If it fails again, split the call into smaller ones.",
        )


class UndoError(CollaborationError):
    code = "undo_error"


class NothingToUndo(UndoError):
    code = "nothing_to_undo"


class UndoRefused(UndoError):
    code = "undo_refused"


class ServerError(CollaborationError):
    code = "server_error"


class ServerUnreachable(ServerError):
    code = "server_unreachable"


class TokenRefused(ServerError):
    code = "token_refused"


class NotJupyter(ServerError):
    code = "not_jupyter"


class AnswerTooLarge(ServerError):
    code = "answer_too_large"


class UnknownServer(ServerError):
    code = "unknown_server"


class InternalError(CollaborationError):
    code = "internal_error"

    @classmethod
    def of(cls, error: BaseException) -> InternalError:
        return cls(
            f"Internal error in this server ({_named(error)}).",
            "Check whether it took effect before you repeat it; the server's log has the details.",
        )

    @classmethod
    def undone(cls, error: BaseException) -> InternalError:
        """Of an edit that failed halfway; no part of it has left this process."""
        return cls(
            f"Internal error in this server ({_named(error)}). Nothing was changed.",
            "Read the document again, and try another edit; the server's log has the details.",
        )


class NoCollaboration(CollaborationError):
    code = "no_collaboration"


class RoomUnavailable(CollaborationError):
    code = "room_unavailable"


#: Things that an error names, and gives as facts.
_NAMED, _DETAILED = 20, 100


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _named(error: BaseException) -> str:
    """An error of a library, which may repeat anything."""
    return f"{type(error).__name__}: {_one_line(str(error))}".removesuffix(": ")


def _one_line(said: str) -> str:
    """A reason that may repeat anything, for instance a key of a notebook."""
    return said if len(said) <= 500 and said.isprintable() else repr(said[:300])
