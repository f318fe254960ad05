"""What a prompt is: arguments that a person gives, and the messages that are made of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..documents.images import Picture
from ..workspace.permits import Call


@dataclass(frozen=True, slots=True)
class Argument:
    """What a person gives, or may leave out."""

    name: str
    description: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Embedded:
    """A resource, or a part of it, inside a message."""

    uri: str
    text: str
    mime: str = "text/plain"


Message = str | Embedded | Picture
"""One message of the person to the model."""


class Prompt(Protocol):
    """A task that a person picks in their client. It is registered with its name."""

    title: str
    description: str
    arguments: Sequence[Argument]
    """Those that are required come first: some clients take them by their order."""

    async def messages(
        self, call: Call, given: Mapping[str, str], tools: Collection[str]
    ) -> Sequence[Message]:
        """What the model is told.

        Args:
            given: By argument; all that are required, and nothing that is empty.
            tools: The tools that this connection sees.

        Raises:
            CollaborationError: What was named is not there, or the caller may not see it.
        """

    async def complete(
        self, call: Call, argument: str, beginning: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        """Values of an argument that begin in some way.

        Args:
            given: Values of other arguments, as far as the person has chosen them.
        """
