"""How many values a JSON text has, before anybody parses it.

To parse millions of values takes a second in which nobody else is served, not even from another
thread: the parser keeps Python's interpreter to itself. Long strings cost next to nothing.
"""

from __future__ import annotations

import asyncio

#: Values that are parsed at once. It takes a twentieth of a second.
MOST_VALUES = 600_000

#: Bytes that are looked at in one go.
_SLICE = 256 * 1024


async def has_too_many_values(*texts: bytes) -> bool:
    """Whether JSON texts together have more values than are parsed at once."""
    if sum(map(len, texts)) <= MOST_VALUES or sum(map(_values, texts)) <= MOST_VALUES:
        return False  # even if all those characters are outside of strings
    values = 0
    for text in texts:
        inside, rest = False, b""
        for start in range(0, len(text), _SLICE):
            piece, rest = rest + text[start : start + _SLICE], b""
            if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # it escapes what comes next
                piece, rest = piece[:-1], b"\\"
            parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
            values += _values(b"".join(parts[inside::2]))
            inside ^= len(parts) % 2 == 0
            if values > MOST_VALUES:
                return True
            await asyncio.sleep(0)
    return False


def _values(text: bytes) -> int:
    """At most how many values there are, if nothing of it is inside of a string."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")
