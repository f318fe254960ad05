"""Text that is not ours, inside our own sentences: on one line, bounded, and known as foreign.

Names, times and error texts come from files, people, kernels and servers. Any of them may contain
line breaks, terminal codes or instructions to the reader, and may be very long. Longer texts, which
have lines of their own, go between fences instead (`render.fenced`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

#: Characters of a path, a name, an id, and of what somebody says about an error.
PATH, NAME, ID, MESSAGE = 500, 200, 64, 300

#: Names that are shown of many.
_LISTED = 20


def inline(text: object, limit: int = NAME) -> str:
    """A name as it is, if it cannot be mistaken for anything else; otherwise quoted."""
    text = str(text)
    return text if len(text) <= limit and _is_plain(text) else quoted(text, limit)


def quoted(text: object, limit: int = MESSAGE) -> str:
    """Somebody else's words in quotes: no character of them ends the line or the quotes."""
    text = str(text)
    if len(text) <= limit:
        return repr(text)
    return f"{text[:limit]!r}... ({len(text):,} characters)"


def words(text: object, limit: int = MESSAGE) -> str:
    """A reason that mostly we or the system give: as it is on one line, otherwise quoted."""
    text = str(text)
    return text if len(text) <= limit and text.isprintable() else quoted(text, limit)


def listed(names: Iterable[str], limit: int = NAME) -> str:
    """Names in one line; of very many, the first."""
    return ", ".join(first_of(inline(name, limit) for name in names))


def first_of(texts: Iterable[str]) -> list[str]:
    """Of very many the first, and how many more there are."""
    every = list(texts)
    more = [f"{len(every) - _LISTED:,} more"] if len(every) > _LISTED else []
    return [*every[:_LISTED], *more]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question with the known name that is closest, and a space; empty if none is close."""
    near = get_close_matches(name.strip().lower()[:40], list(known), n=1)
    return f"Did you mean {near[0]}? " if near else ""


def _is_plain(text: str) -> bool:
    # Not printable: control characters, line and paragraph separators, marks that turn the
    # direction of writing, and half a surrogate pair. A comma separates what we say of things.
    return (
        text != ""
        and text.isprintable()
        and text == text.strip()
        and text[0] not in "'\"`"
        and ", " not in text
    )


def without_secrets(url: str) -> str:
    """A URL, even one that makes no sense, without the query and the user info that it may have."""
    return re.sub(r"//[^/@]*@", "//", url.partition("?")[0])
