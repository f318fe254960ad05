"""Answers whose text is JSON for programs that parse it; what else there is to say is beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..documents.text import beginning, size
from .registry import DEFAULT_LENGTH, Answer

#: Bytes for the JSON; a client that shows less than all has to show what stands beside it, too.
_ROOM = DEFAULT_LENGTH - 1_000


def as_json(value: Any) -> str:
    """A value as a program parses it."""
    return json.dumps(value, ensure_ascii=False)


def parsed_by_programs(said: Answer, text: str, *notes: str) -> Answer:
    """An answer with a text for programs. What it says to a model follows in a block of its own.

    Args:
        notes: What else a model has to know.
    """
    beside = "\n".join(filter(None, [*notes, said.text]))
    return replace(said, text=text, beside=beside)


def fitting(values: Sequence[Any]) -> list[Any]:
    """As many values of a list as fit into an answer."""
    room, kept = _ROOM, []
    for value in values:
        room -= size(as_json(value)) + 2
        if room < 0:
            break
        kept.append(value)
    return kept


def clipped_text(text: str, made: Callable[[str], Any]) -> str:
    """The beginning of a text that fits into an answer.

    Args:
        made: The whole value with a text in it.
    """
    # In JSON a character may take several.
    while (length := size(as_json(made(text)))) > _ROOM and len(text) > 1:
        text = beginning(text, max(1, size(text) * _ROOM // length - 1))
    return text
