"""What a kernel works on, as its messages tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What began before anybody listened is known by no name.
UNKNOWN = "unknown"


class KernelWork:
    """Follows the states that a kernel publishes."""

    def __init__(self, busy: bool = False) -> None:
        self.request: str | None = UNKNOWN if busy else None
        """What it runs now: the id of the request, or `UNKNOWN`."""

    def follow(self, request: str, parent: Mapping[str, Any], state: object) -> None:
        """Take a state; questions about the kernel itself are no work."""
        ran = parent.get("msg_type") == "execute_request"
        if state == "busy" and ran:
            self.request = request
        elif state == "idle" and (self.request == request or (self.request == UNKNOWN and ran)):
            self.request = None


def language_of(information: Mapping[str, Any]) -> str | None:
    """The language that a kernel says it speaks."""
    name = (information.get("language_info") or {}).get("name")
    return str(name) if name else None
