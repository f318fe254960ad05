"""Line ends of files: live texts have `\\n` alone, and a file keeps what it had.

Upstream turns `\\r\\n` into `\\n` when it loads a file, and would save it so.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from .differ import Edit, edits, patch

_CRLF = "\r\n"

#: A line end with what somebody has put before it.
_RETURNED = re.compile(r"\r+\n")


def plain(content: str) -> str:
    """The text as it is live."""
    return content.replace(_CRLF, "\n")


def restore(content: str, original: str) -> str:
    """A live text with the line ends that its file has; a new line gets what most others have.

    A carriage return that somebody puts right before a line break is no part of the text: it would
    be gone when the file is loaded, and be doubled with each save until then.

    Args:
        content: What is to be saved.
        original: What the file says now.
    """
    if _CRLF not in original:
        return _RETURNED.sub("\n", content)
    before = plain(original)
    content = _without_new_returns(content, before)
    if original.count(_CRLF) == original.count("\n"):
        return content.replace("\n", _CRLF)
    # Some of each: only what has been edited is written anew.
    new_line = _CRLF if 2 * original.count(_CRLF) > original.count("\n") else "\n"
    lost = _lost(original)  # where a carriage return has gone, in the live text
    changes = [
        Edit(
            change.start + bisect_left(lost, change.start),
            change.end + bisect_left(lost, change.end),
            change.text.replace("\n", new_line),
        )
        for change in edits(before, content)
    ]
    return patch(original, changes)


def _without_new_returns(content: str, before: str) -> str:
    """The text, with a carriage return before a line break only where there was one before."""
    if _CRLF not in content:
        return content
    written: list[range] = []
    shift = 0
    for change in edits(before, content):
        start = change.start + shift
        written.append(range(start, start + len(change.text)))
        shift += len(change.text) - (change.end - change.start)

    def settled(match: re.Match[str]) -> str:
        start, end = match.span()
        # A deletion has written nothing, and yet may have joined the two.
        new = any(place.start < end and place.stop > start for place in written)
        return "\n" if new else match.group()

    return _RETURNED.sub(settled, content)


def _lost(original: str) -> list[int]:
    """The positions in the live text of the line feeds that had a carriage return before them."""
    positions: list[int] = []
    at = original.find(_CRLF)
    while at >= 0:
        positions.append(at - len(positions))
        at = original.find(_CRLF, at + 2)
    return positions
