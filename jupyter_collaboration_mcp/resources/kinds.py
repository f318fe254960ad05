"""What a kind of resource is: URIs of one form, and how to list, read and watch what is there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..workspace.permits import Call


@dataclass(frozen=True, slots=True)
class Content:
    """One representation of a resource."""

    mime: str
    body: str | bytes
    meta: Mapping[str, Any] | None = None
    """What is known about it beside its content, such as which part of it this is."""
    uri: str | None = None
    """Its own URI, if it is only a part of what was asked for."""
    lasting: bool = False
    """Whether it stays the same while this process runs, so that clients may keep it."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A resource as clients list it."""

    uri: str
    name: str
    description: str
    mime: str
    title: str | None = None
    meta: Mapping[str, Any] | None = None
    last_modified: str | None = None


class Watch(Protocol):
    """A resource that somebody watches, until `close`."""

    async def may_read(self, call: Call) -> bool:
        """Whether a caller may still read it; asked anew before each notification."""

    def close(self) -> None:
        """Stop watching."""


class ResourceKind(Protocol):
    """Resources whose URIs have one form. `Kind` has defaults for all but `read`."""

    template: str
    """The form, as a URI template; one without variables is the URI of the only resource."""
    description: str
    mime: str | None
    """What all of them are, if that does not depend on the resource."""

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        """What is at a URI; None if a URI of this kind has another form.

        Raises:
            CollaborationError: There is nothing, or the caller may not see it.
        """

    def listed(self, call: Call) -> AsyncIterator[Listed]:
        """The resources of this kind that clients list, always in the same order."""

    async def complete(
        self, call: Call, variable: str, beginning: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        """Values of a variable of the template that begin in some way.

        Args:
            given: Values of other variables, as far as the person has chosen them.
        """

    async def watch(self, call: Call, uri: str, tell: Callable[[], None]) -> Watch | None:
        """Call `tell` at each change of what is at a URI; None if a URI of this kind has another
        form, or cannot change.

        Args:
            tell: Called on the event loop, perhaps for each key press; it is quick.

        Raises:
            CollaborationError: There is nothing, or the caller may not see it.
        """


class Kind:
    """A kind of resource that lists nothing, completes nothing and never changes."""

    mime: str | None = None

    async def listed(self, call: Call) -> AsyncIterator[Listed]:
        return
        yield

    async def complete(
        self, call: Call, variable: str, beginning: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        return ()

    async def watch(self, call: Call, uri: str, tell: Callable[[], None]) -> Watch | None:
        return None
