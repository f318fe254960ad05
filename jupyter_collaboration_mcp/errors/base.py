"""What every error has in common, and those of no particular part."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from ..remedies import Intent, Remedy


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


class RateLimited(CollaborationError):
    code = "rate_limited"

    @classmethod
    def calls(cls, per_minute: float, wait: float) -> RateLimited:
        """Of an agent that calls too often."""
        what = f"{per_minute:,.0f} calls a minute"
        return cls._of("rate_limit", what, wait, "do more with each call")

    @classmethod
    def runs(cls, per_minute: float, wait: float) -> RateLimited:
        """Of an agent that runs code too often."""
        what = f"{per_minute:,.0f} runs of code a minute"
        return cls._of("execution_rate_limit", what, wait, "use exec=false if nothing has to run")

    @classmethod
    def written(cls, per_minute: float, wait: float) -> RateLimited:
        """Of an agent that writes too much."""
        what = f"{per_minute:,.0f} bytes written a minute"
        return cls._of("write_rate_limit", what, wait, "put large data in a file with code")

    @classmethod
    def _of(cls, setting: str, what: str, wait: float, instead: str) -> RateLimited:
        seconds = math.ceil(wait)
        return cls(
            f"You have reached this server's limit of {what} ({setting}). Nothing was done.",
            f"Go on in {seconds} s; {instead}.",
            limit=setting,
            retry_after=seconds,
        )


class TooManyDocuments(CollaborationError):
    code = "too_many_documents"

    @classmethod
    def at_once(cls, most: int, idle: float) -> TooManyDocuments:
        """Of an agent that has many documents open.

        Args:
            idle: Seconds after which it leaves one that it does not use.
        """
        return cls(
            f"You have {most:,} documents open, and no agent may have more (max_open_documents). "
            "Nothing was opened.",
            Remedy(Intent.LEAVE_DOCUMENTS, {"seconds": f"{idle:g}"}),
            limit=most,
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

    @classmethod
    def while_replacing(cls) -> DocumentBusy:
        return cls(
            "Another call is restoring or merging this document at this moment. Nothing was "
            "changed by this one.",
            "Look at the document when that call is done, then decide whether to repeat this.",
        )

    @classmethod
    def while_merging(cls, fork: str) -> DocumentBusy:
        return cls(
            f"Another call is merging {fork} at this moment. Nothing was changed by this one.",
            "Look at the document when that call is done.",
            fork=fork,
        )


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


def _named(error: BaseException) -> str:
    """An error of a library, which may repeat anything."""
    return f"{type(error).__name__}: {one_line(str(error))}".removesuffix(": ")


def one_line(said: str) -> str:
    """A reason that may repeat anything, for instance a key of a notebook."""
    return said if len(said) <= 500 and said.isprintable() else repr(said[:300])


def shortened(said: str) -> str:
    """A name that a caller gave, which may be anything."""
    return said if len(said) <= 80 and said.isprintable() else repr(said[:60])
