"""Errors of agents that people have paused or stopped, and of what people do in the panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .base import CollaborationError, shortened


class AgentHeld(CollaborationError):
    """A person has paused or stopped the agent."""

    code = "agent_held"


class AgentPaused(AgentHeld):
    code = "agent_paused"

    @classmethod
    def refusing(cls) -> AgentPaused:
        return cls(
            "A person has paused you: edits and runs are refused, reading goes on. Nothing was "
            "done.",
            "Wait, or ask the person: only they can let you go on, in the panel of JupyterLab.",
        )


class AgentStopped(AgentHeld):
    code = "agent_stopped"

    @classmethod
    def refusing(cls) -> AgentStopped:
        return cls(
            "A person has stopped you: all calls are refused. Nothing was done.",
            "Stop working and tell the person: only they can let you go on, in the panel of "
            "JupyterLab.",
        )


class PanelError(CollaborationError):
    code = "panel_error"


class NotInPanel(PanelError):
    code = "unknown"

    @classmethod
    def of(cls, what: str, entry_id: str) -> NotInPanel:
        return cls(
            f"The panel has no {what} {shortened(entry_id)}: it may be too old.",
            "Reload the panel.",
        )

    @classmethod
    def cell(cls, cell_id: str) -> NotInPanel:
        return cls(f"The call has not changed the cell {shortened(cell_id)}.", "Reload the panel.")


class AlreadyReviewed(PanelError):
    code = "already_reviewed"

    @classmethod
    def by(cls, who: str | None, verdict: str, **detail: Any) -> AlreadyReviewed:
        done = "undone" if verdict == "undone" else "reviewed"
        return cls(
            f"This was {done} already{f' by {who}' if who else ''}. Nothing was changed.",
            "Nothing to do.",
            **detail,
        )


class ReviewGone(PanelError):
    """What is to be undone is not there any more."""

    code = "gone"

    @classmethod
    def document(cls, path: str | None) -> ReviewGone:
        named = f"{path!r}" if path else "The document"
        return cls(
            f"{named} was deleted, so nothing in it can be undone. Nothing was changed.",
            "Keep the change to take it off the list.",
        )

    @classmethod
    def cells(cls, names: Sequence[str]) -> ReviewGone:
        which = "The cell is" if len(names) == 1 else "The cells are"
        return cls(
            f"{which} not in the notebook any more, so there is nothing to undo. Nothing was "
            "changed.",
            "Keep the change to take it off the list.",
        )

    @classmethod
    def too_old(cls) -> ReviewGone:
        return cls(
            "What this call did is too long ago to be undone: only the latest 200 calls of an "
            "agent in a document can be. Nothing was changed.",
            "Restore an earlier version of the document, or keep the change.",
        )


class UndoConflict(PanelError):
    code = "undo_conflict"

    @classmethod
    def over(cls, cells: Mapping[str, str]) -> UndoConflict:
        """Of cells: their names, by id."""
        return cls(
            f"Others changed what the agent wrote in {_some([*cells.values()])}. Nothing was "
            "changed.",
            "Look at the texts and edit by hand, or repeat with force: that keeps every character "
            "of the others.",
            cells=list(cells),
        )

    @classmethod
    def typing(cls, people: Sequence[str], cells: Mapping[str, str]) -> UndoConflict:
        """Of people whose carets are in cells that would be replaced."""
        verb = "is" if len(people) == 1 else "are"
        return cls(
            f"{_some(people)} {verb} typing in {_some([*cells.values()])}. The undo would close "
            "the editor there, and what is being typed would be lost. Nothing was changed.",
            "Wait until they have left the cell, or repeat with force.",
            cells=list(cells),
        )


def _some(names: Sequence[str]) -> str:
    """Some names, in a sentence."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


class StillConnected(PanelError):
    code = "agent_connected"

    @classmethod
    def named(cls, name: str) -> StillConnected:
        return cls(
            f"{name} is connected, so it is not forgotten.", "Stop it, or wait until it has left."
        )


class StillHeld(PanelError):
    code = "agent_held"

    @classmethod
    def named(cls, name: str, state: str) -> StillHeld:
        return cls(
            f"{name} is {state}, so it is not forgotten: it could come back as somebody new.",
            "Let it go on first.",
        )


class TokenGone(PanelError):
    code = "token_gone"

    @classmethod
    def of(cls, name: str) -> TokenGone:
        return cls(
            f"The token of {name} was revoked or has expired, so it cannot go on.",
            "Connect the agent with a new token.",
        )


class CommandAway(PanelError):
    code = "command_away"

    @classmethod
    def of(cls, tool: str) -> CommandAway:
        return cls(
            f"The command in which {tool} was called is not connected. Nothing was interrupted.",
            "Interrupt the kernel in Jupyter's menu if it still works.",
        )
