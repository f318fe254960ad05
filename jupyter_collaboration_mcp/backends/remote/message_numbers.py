"""Whether messages of a kernel were lost while nobody was connected to hear them.

What a server wrote into a connection that was already cut is kept by nobody. Kernels built on
ipykernel number their messages, on all channels together, so a number that is left out tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class MessageNumbers:
    """The numbers of the messages of one kernel process, as they are heard."""

    def __init__(self) -> None:
        self._process = ""
        self._last = -1

    def take(self, header: Mapping[str, Any]) -> int | None:
        """Note a message; how many are missing between those before and it, None if unknown.

        Messages of different channels may overtake each other, so a few can be called missing
        that come a moment later. Answers to others are numbered too, and never heard here.
        """
        process, _, number = str(header.get("msg_id") or "").rpartition("_")
        if not process or not number.isdecimal():
            return None
        before = self._last if process == self._process else None
        self._last = max(int(number), before or 0)
        self._process = process
        return None if before is None else max(int(number) - before - 1, 0)
