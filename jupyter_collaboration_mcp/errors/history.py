"""Errors of undo, versions and forks."""

from __future__ import annotations

from ..remedies import Intent
from .base import CollaborationError, one_line, shortened


class UndoError(CollaborationError):
    code = "undo_error"


class NothingToUndo(UndoError):
    code = "nothing_to_undo"


class UndoRefused(UndoError):
    code = "undo_refused"


class HistoryError(CollaborationError):
    code = "history_error"

    @classmethod
    def none_yet(cls) -> HistoryError:
        return cls(
            "The history of this document has nothing yet. The document is as it was.",
            "Try again in a moment.",
        )

    @classmethod
    def unreadable(cls, why: str) -> HistoryError:
        return cls(
            f"The history cannot be read now ({one_line(why)}). The document is as it was.",
            "Try again in a moment. If it fails again, ask the person to look at the log of the "
            "Jupyter server.",
        )


class UnknownVersion(HistoryError):
    code = "unknown_version"

    @classmethod
    def of(cls, version: int) -> UnknownVersion:
        return cls(
            f"The document has no version {version}.",
            Intent.LIST_VERSIONS,
            version=version,
        )


class ForkNotFound(HistoryError):
    code = "fork_not_found"

    @classmethod
    def unknown(cls, fork_id: str) -> ForkNotFound:
        return cls(
            f"There is no fork {shortened(fork_id)}. Nothing was done.",
            Intent.LIST_FORKS,
            fork=f"fork:{shortened(fork_id)}",
        )

    @classmethod
    def over(cls, fork_id: str, how: str) -> ForkNotFound:
        """Of a fork that was merged or discarded."""
        return cls(
            f"There is no fork {fork_id} any more: it was {how}. Nothing was done.",
            Intent.LIST_FORKS,
            fork=f"fork:{fork_id}",
            was=how,
        )


class ForkRefused(HistoryError):
    code = "fork_refused"

    @classmethod
    def no_file(cls, name: str) -> ForkRefused:
        return cls(
            f"{name} is a fork, which has no file. Nothing was done.", Intent.USE_FORK, fork=name
        )


class MergeConflict(HistoryError):
    code = "merge_conflict"


class NeedsExtension(HistoryError):
    code = "needs_extension"

    @classmethod
    def for_history(cls) -> NeedsExtension:
        return cls.for_person(
            "This Jupyter server keeps no history that can be read from outside: "
            "jupyter-collaboration-mcp is not installed there. The document is as it was.",
            "install jupyter-collaboration-mcp in the environment of that Jupyter server, and "
            "restart it.",
        )
