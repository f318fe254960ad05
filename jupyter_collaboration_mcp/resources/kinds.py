"""What a kind of resource is: URIs of one form, and how to read what is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..workspace.permits import Call


@dataclass(frozen=True, slots=True)
class Content:
    """One representation of a resource."""

    mime: str
    body: str | bytes
    meta: Mapping[str, int] | None = None
    """Which part of it this is, if it is one."""


class ResourceKind(Protocol):
    """Resources whose URIs have one form."""

    template: str
    """The form, as a URI template."""
    description: str

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        """What is at a URI; None if a URI of this kind has another form.

        Raises:
            CollaborationError: There is nothing, or the caller may not see it.
        """
