"""Errors of undo, versions and forks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from ..remedies import Intent
from .base import CollaborationError, one_line, shortened


class UndoError(CollaborationError):
    code = "undo_error"


class NothingToUndo(UndoError):
    code = "nothing_to_undo"

    @classmethod
    def by(cls, author: str) -> Self:
        """There is no step of an agent; the name is empty for the one that asks."""
        return cls(
            f"There is no change of {author or 'yours'} to undo here.",
            "Nothing to do; only the latest 200 calls that changed a document can be undone.",
        )

    @classmethod
    def of_unknown(cls, wanted: str, names: Sequence[str]) -> Self:
        """Nobody of that name has steps."""
        known = ", ".join(map(repr, names[:10])) or "none"
        return cls(
            f"No agent {wanted[:60]!r} has changed this document, as far as that can be undone. "
            f"Agents that have: {known}.",
            "Name one of these, or leave agent out for your own changes.",
        )


class StepNotFound(UndoError):
    code = "step_not_found"

    @classmethod
    def named(cls, step_id: str) -> Self:
        return cls(
            f"There is no call {step_id[:40]!r} here that can be undone: it was undone already, is "
            "too old, or is another agent's. Nothing was changed.",
            Intent.LIST_CHANGES,
        )


class UndoRefused(UndoError):
    code = "undo_refused"

    @classmethod
    def over(cls, conflicts: Sequence[str], own: bool) -> Self:
        """Somebody's later work is in the way.

        Args:
            own: Whether it is only that of later calls of the same agent.
        """
        if own:
            return cls(
                "Undoing this would remove or tear apart what later calls of the same agent wrote; "
                "nothing was changed.\n" + "\n".join(conflicts),
                "Undo these calls first, or repeat with force=true, which keeps all they wrote.",
            )
        return cls(
            "Undoing this would remove or tear apart what others wrote; nothing was changed.\n"
            + "\n".join(conflicts),
            "Leave it, edit by hand, or repeat with force=true: "
            "that keeps every character of the others and drops yours around them.",
        )


class HistoryError(CollaborationError):
    code = "history_error"

    @classmethod
    def none_yet(cls) -> HistoryError:
        return cls(
            "This document has no history yet. The document is as it was.",
            "Try again in a moment.",
        )

    @classmethod
    def unreadable(cls, why: str) -> HistoryError:
        return cls(
            f"The history cannot be read now ({one_line(why)}). The document is as it was.",
            "Try again in a moment. If it fails again, ask the person to look at the log of the "
            "Jupyter server.",
        )

    @classmethod
    def unwritable(cls) -> HistoryError:
        return cls(
            "The server cannot write its index of the history now, so the name would be lost when "
            "it stops. Nothing was named.",
            "Tell the person that the disk of the Jupyter server may be full.",
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
