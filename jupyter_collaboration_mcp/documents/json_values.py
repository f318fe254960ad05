"""JSON values: which of them a shared document can hold, and how many may be parsed at once.

pycrdt panics at an integer of 64 bits and at half a surrogate pair, a browser rounds integers from
2**53 on, and Jupyter cannot save a notebook that has NaN or Infinity in it, and saves a float of
64 bits or more as such an integer.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import InvalidArgument

#: From here on JavaScript has no exact integers.
LARGEST_EXACT = 2**53

#: From here on pycrdt has no integers at all.
LARGEST_STORED = 2**63

#: How deep a value may be nested. Readers of JSON give up at about 200, and answers need some.
DEEPEST = 150

#: Characters of a key, or of all keys that lead to something, that an error shows.
_SHOWN = 100


_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class Flaw(NamedTuple):
    """Something in a value that a document cannot hold."""

    where: str
    """Keys and indexes that lead to it, as one would write them: `.key[0]`."""
    why: str

    def describe(self, name: str) -> str:
        """In words, for a value that goes by some name."""
        where = f"{name}{self.where}"
        return f"{where if len(where) <= _SHOWN else where[:_SHOWN] + '...'} {self.why}"


def flaw(
    value: Any,
    integers: float = LARGEST_EXACT,
    floats: float | None = LARGEST_STORED,
    depth: int = 0,
) -> Flaw | None:
    """The first thing in a value that a document cannot hold; None if there is none.

    Args:
        integers: Those from here on are refused.
        floats: Those from here on are refused, and NaN; None if any will do.
        depth: How deep the value itself is nested.
    """
    if isinstance(value, str):
        if value.isascii() or _is_whole(value):
            return None
        return Flaw("", "has half of a surrogate pair in it")
    if isinstance(value, float):
        fits = floats is None or abs(value) < floats  # NaN is less than nothing
        return None if fits else Flaw("", _no_float(value))
    if isinstance(value, int):
        return None if -integers <= value < integers else Flaw("", _too_large(value))
    if depth >= DEEPEST and isinstance(value, Mapping | list):
        return Flaw("", f"is nested more than {DEEPEST} levels deep")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                return Flaw("", f"has a key that is not a string: {str(key)[:_SHOWN]}")
            if not (key.isascii() or _is_whole(key)):
                return Flaw("", "has a key with half of a surrogate pair in it")
            if (found := flaw(item, integers, floats, depth + 1)) is not None:
                return Flaw(f".{key}{found.where}", found.why)
        return None
    if isinstance(value, list):
        for index, item in enumerate(value):
            if (found := flaw(item, integers, floats, depth + 1)) is not None:
                return Flaw(f"[{index}]{found.where}", found.why)
        return None
    return None if value is None else Flaw("", f"is not JSON: {type(value).__name__}")


def require_storable(value: Any, name: str) -> None:
    """Refuse what would not come to people, or not into the file, as it was given.

    Raises:
        InvalidArgument: There is such a thing in it.
    """
    if (found := flaw(value)) is not None:
        raise InvalidArgument(
            f"{found.describe(name)}. Nothing was changed.",
            "Give a value that any program can read from JSON. Write such a number as a string.",
        )


def storable(value: Any) -> Any:
    """A value as JavaScript would have read it and written it again.

    Raises:
        RecursionError: It is nested too deeply.
    """
    return _storable(value, 0)


def storable_text(text: str) -> str:
    """A text without halves of characters, which no document can hold."""
    return text if text.isascii() or _is_whole(text) else text.encode(errors="replace").decode()


def round_integers(value: Any, depth: int = 0) -> list[str]:
    """Make the integers that pycrdt cannot hold what JavaScript makes of them, in place.

    Returns where they are. One that no floating-point number comes near stays as it is.
    """
    found: list[str] = []
    named = isinstance(value, dict)
    items = value.items() if named else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, dict | list):
            below = round_integers(item, depth + 1) if depth < DEEPEST else []
        elif isinstance(item, int) and not -LARGEST_STORED <= item < LARGEST_STORED:
            below = [""] if (rounded := _rounded(item)) is not None else []
            value[key] = item if rounded is None else rounded
        else:
            continue
        found += [f".{key}{rest}" if named else f"[{key}]{rest}" for rest in below]
    return found


def _storable(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float):
        return None if _is_endless(value) else value
    if isinstance(value, int):
        return value if -LARGEST_EXACT <= value < LARGEST_EXACT else _rounded(value)
    if depth >= DEEPEST and isinstance(value, Mapping | list):
        raise RecursionError
    if isinstance(value, Mapping):
        return {storable_text(key): _storable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_storable(item, depth + 1) for item in value]
    return value


def _rounded(value: int) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_endless(value: float) -> bool:
    return not math.isfinite(value)


def _no_float(value: float) -> str:
    if math.isfinite(value):
        return f"is {value}, which Jupyter would save as an integer that it cannot load"
    return f"is {_NAMES[str(value)]}, which is not JSON"


def _too_large(value: int) -> str:
    digits = f"{value}, " if value.bit_length() < 128 else ""
    return f"is {digits}an integer of {value.bit_length()} bits, which no live document can hold"


# How many values a JSON text has, before anybody parses it. Parsing millions takes a second, in
# which nobody else is served, not even from another thread: the parser keeps the interpreter to
# itself. Long strings cost next to nothing.

#: Values that may be parsed at once. It takes a twentieth of a second.
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
