"""What the arguments of any call may be, checked in one place before anything is looked up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sized
from functools import cached_property
from itertools import islice
from typing import Any

from ..documents.json_values import MOST_VALUES, has_too_many_values
from ..documents.text import size
from ..errors import InvalidArgument, TooLarge

#: What arguments with these names are. All others are names of something: paths, ids, queries.
_KINDS = {
    "content": "text of a document",
    "cell_content": "text of a document",
    "old_text": "text of a document",
    "new_text": "text of a document",
    "code": "text of a document",
    "text": "text of a document",
    "metadata": "json",
}

#: Characters of a name.
_LONGEST_NAME = 1_000

#: Characters of all JSON in a call, values in it, and how deep they may be nested.
_LARGEST_JSON, _MOST_VALUES, _DEEPEST = 1_000_000, 50_000, 64

#: Characters of an argument that an error repeats.
_ECHO = 200

#: What is longer than that has one such piece in it, wherever one begins to cut it into them.
_PIECE = _ECHO // 2

#: Long arguments that an error may repeat.
_REPEATED = 20


def check(arguments: Mapping[str, Any], most_items: int) -> int:
    """Refuse arguments that are longer or more than any call needs.

    Args:
        most_items: How long a list may be.

    Returns:
        How many bytes of text they have.

    Raises:
        TooLarge: They are.
        InvalidArgument: They are nested too deeply.
    """
    checking = _Check(most_items)
    checking.walk(arguments)
    return checking.size


async def check_json(texts: Iterable[str]) -> None:
    """Refuse arguments that are JSON in a text, if parsing them would take long.

    Raises:
        TooLarge: They have too many values.
    """
    if await has_too_many_values(*(text.encode(errors="replace") for text in texts)):
        raise TooLarge(
            f"The arguments have more than {MOST_VALUES:,} values. Nothing was done.",
            "Split the call, or put large data in a file.",
        )


class _Check:
    """One walk through the arguments of a call."""

    def __init__(self, most_items: int) -> None:
        self._most_items = most_items
        self._values_left = _MOST_VALUES + 10 * most_items
        self._json_left = _LARGEST_JSON
        self.size = 0
        """Bytes of the texts so far."""

    def walk(self, arguments: Mapping[str, Any]) -> None:
        waiting: list[tuple[str, str, Any, int]] = [("The call", "names", arguments, 0)]
        while waiting:
            where, kind, value, depth = waiting.pop()
            if isinstance(value, str):
                self._text(where, kind, value)
                self.size += size(value)
            elif isinstance(value, list):
                self._collection(where, kind, value, depth)
                waiting += [(where, kind, item, depth + 1) for item in value]
            elif isinstance(value, dict):
                self._collection(where, kind, value, depth)
                for key, item in value.items():
                    self._text(where, kind, key, is_key=True)
                    inside = kind if kind == "json" else _KINDS.get(key, "names")
                    place = where if depth else f"The argument {key[:_ECHO]}"
                    waiting.append((place, inside, item, depth + 1))

    def _text(self, where: str, kind: str, text: str, is_key: bool = False) -> None:
        if len(text) <= _LONGEST_NAME and kind != "json":
            return  # as almost all are
        if is_key:
            where = f"A key in {where[0].lower()}{where[1:]}"
        if kind == "json":
            self._json_left -= len(text)
            if self._json_left < 0:
                raise TooLarge(
                    f"{where} has more than {_LARGEST_JSON:,} characters. Nothing was done.",
                    "Put large data in a file.",
                )
        elif kind == "names":
            raise TooLarge(
                f"{where} has {len(text):,} characters; at most {_LONGEST_NAME:,} are allowed. "
                "Nothing was done.",
                "Send a shorter one.",
            )

    def _collection(self, where: str, kind: str, values: Sized, depth: int) -> None:
        if depth > _DEEPEST:
            raise InvalidArgument(
                f"{where} is nested more than {_DEEPEST} levels deep. Nothing was done.",
                "Send fewer nested levels.",
            )
        if kind != "json" and len(values) > self._most_items:
            raise TooLarge(
                f"{where} has {len(values):,} elements; at most {self._most_items:,} are "
                "allowed in one call. Nothing was done.",
                "Split the call.",
            )
        self._values_left -= len(values)
        if self._values_left < 0:
            raise TooLarge(
                f"{where} has too many values: a call may have {_MOST_VALUES:,}. Nothing was done.",
                "Split the call, or put large data in a file.",
            )


def clipped(text: str) -> str:
    """As much of an argument as an error repeats."""
    return text if len(text) <= _ECHO else f"{text[: _ECHO - 3]}..."


def shown(value: Any) -> str:
    """An argument as JSON, as far as an error repeats it."""
    text = ""
    if isinstance(value, str):
        value = value[:_ECHO]
    for piece in json.JSONEncoder(default=str).iterencode(value):
        text += clipped(piece)
        if len(text) > _ECHO:
            break
    return clipped(text)


class Echoes:
    """Cuts what an error repeats of its call's arguments."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments

    @cached_property
    def _long(self) -> list[str]:
        """The long ones, which only an error asks for."""
        return list(dict.fromkeys(name for name in _names(self._arguments) if len(name) > _ECHO))

    def cut(self, text: str) -> str:
        """`text`, with long verbatim pieces of arguments cut."""
        for argument in islice(self._repeated(text), _REPEATED):
            text = self._cut(text, argument)
        return text

    def _repeated(self, text: str) -> Iterator[str]:
        """The arguments that a text may repeat too much of: it contains a whole piece of them."""
        if self._long and len(text) > _ECHO:
            pieces = {text[n : n + _PIECE] for n in range(len(text) - _PIECE + 1)}
            for name in self._long:
                if any(name[n : n + _PIECE] in pieces for n in range(0, len(name), _PIECE)):
                    yield name

    def cut_all(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The same for the texts among facts."""
        return {
            key: self.cut(value) if isinstance(value, str) else value
            for key, value in facts.items()
        }

    def _cut(self, text: str, argument: str) -> str:
        # What is repeated may be a part of it: a path without its slashes, or without its server.
        # A run that is longer than the limit has one of these pieces in it.
        start = 0
        while start + _PIECE <= len(text):
            first, last = start, start + _PIECE
            if text[first:last] in argument:
                while first and text[first - 1 : last] in argument:
                    first -= 1
                while last < len(text) and text[first : last + 1] in argument:
                    last += 1
                if last - first > _ECHO:
                    text = f"{text[: first + _ECHO - 3]}...{text[last:]}"
                    last = first + _ECHO
            start = last
        return text


def _names(value: Any) -> Iterator[str]:
    """The arguments that name something, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _names(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key not in _KINDS:
                yield from _names(item)
