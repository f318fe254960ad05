"""Finding the one place in a text that a caller quotes, and explaining where it is not."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from itertools import accumulate

from jupyter_collaboration_mcp.errors import InvalidArgument, TextMismatch


def replace_once(source: str, old_text: str, new_text: str) -> str:
    """Replace `old_text`, which must be in `source` exactly once, literally.

    Raises:
        InvalidArgument: `old_text` is empty.
        TextMismatch: `old_text` is not there, or there more than once.
    """
    start = find_once(source, old_text)
    return source[:start] + new_text + source[start + len(old_text) :]


def find_once(source: str, old_text: str) -> int:
    """Where `old_text`, which must be in `source` exactly once, begins.

    Raises:
        InvalidArgument: `old_text` is empty.
        TextMismatch: `old_text` is not there, or there more than once.
    """
    if not old_text:
        raise InvalidArgument(
            "old_text is empty, so there is no place to change.",
            "Give the text to replace, or use content instead.",
        )
    found = _occurrences(source, old_text)
    if not found:
        raise _not_found(source, old_text)
    if len(found) > 1:
        raise _found_often(source, found)
    return found[0]


# What to say when a text to replace is not there once

#: More occurrences than this are not counted.
_MOST_OCCURRENCES = 1_000


#: A source is searched for the same text, but for white space or case, up to this many characters;
#: and for similar lines up to this many. Each takes some 10 ms, in which nobody else is served.
_LARGEST_FOLDED = 200_000


_LARGEST_SEARCH = 80_000


#: Characters of similar lines that are compared.
_LARGEST_WINDOW = 2_000


_SHOWN_LINES = 8


_SHOWN_COLUMNS = 160


def _occurrences(source: str, wanted: str) -> list[int]:
    """Where `wanted` is; overlapping places count, because they are ambiguous, too."""
    found: list[int] = []
    place = source.find(wanted)
    while place >= 0 and len(found) < _MOST_OCCURRENCES:
        found.append(place)
        place = source.find(wanted, place + 1)
    return found


def _found_often(source: str, found: Sequence[int]) -> TextMismatch:
    lines = [source.count("\n", 0, place) + 1 for place in found[:10]]
    least = "at least " if len(found) == _MOST_OCCURRENCES else ""
    more = f" and {len(found) - len(lines):,} more" if len(found) > len(lines) else ""
    return TextMismatch(
        f"old_text is there {least}{len(found):,} times, on lines "
        f"{', '.join(map(str, lines))}{more}. Nothing was changed.",
        "Include more surrounding text in old_text, so that it matches once.",
        matches=len(found),
        lines=lines,
    )


def _not_found(source: str, wanted: str) -> TextMismatch:
    next_step = "Copy old_text exactly from the source, then call again."
    if not source.strip():
        return TextMismatch(
            "old_text was not found: the source is empty. Nothing was changed.",
            "Use content instead of old_text.",
            matches=0,
        )
    beginning = source[:_LARGEST_FOLDED]
    where = f" in the first {_LARGEST_SEARCH:,} characters" * (len(source) > _LARGEST_SEARCH)
    for difference, fold in _FOLDS:
        if window := _folded_window(beginning, wanted, fold):
            happened = f"old_text was not found; the source differs in {difference} here:"
            break
    else:
        window = _nearest_window(beginning[:_LARGEST_SEARCH], wanted)
        happened = f"old_text was not found; the nearest lines{where} are:"
    if not window:
        count = source.count("\n") + 1
        return TextMismatch(
            f"old_text was not found, nor anything like it{where} ({count:,} lines). "
            "Nothing was changed.",
            "Read the source again; it may stand elsewhere, or somebody changed it.",
            matches=0,
        )
    return TextMismatch(
        f"{happened}\n{_numbered(beginning, window)}\nNothing was changed.",
        next_step,
        matches=0,
        lines=[window.start + 1, window.stop],
    )


def _without_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n")


def _without_space(text: str) -> str:
    return "".join(text.split())


_FOLDS: Sequence[tuple[str, Callable[[str], str]]] = (
    ("line ends (CRLF)", _without_line_ends),
    ("white space", _without_space),
    ("case", str.casefold),
    ("white space and case", lambda text: _without_space(text).casefold()),
)


def _folded_window(source: str, wanted: str, fold: Callable[[str], str]) -> range | None:
    """The lines where `wanted` is found once both are folded."""
    target = fold(wanted) if len(wanted) <= _LARGEST_FOLDED else ""
    place = fold(source).find(target) if target else -1
    if place < 0:
        return None
    folded = [fold(line) for line in source.splitlines(keepends=True)]
    ends = list(accumulate(map(len, folded)))
    first = next(number for number, end in enumerate(ends) if end > place)
    last = next(number for number, end in enumerate(ends) if end >= place + len(target))
    return range(first, last + 1)


def _nearest_window(source: str, wanted: str) -> range | None:
    """The lines most like `wanted`: pieces of three characters first, then difflib on the best."""
    lines = source.splitlines()
    target = wanted.strip("\n")[:_LARGEST_WINDOW]
    height = min(target.count("\n") + 1, len(lines))
    pieces = _pieces(target)
    scores = [len(pieces & _pieces(line)) for line in lines]
    sums = _running_sums(scores, height)
    best = sorted(range(len(sums)), key=lambda first: -sums[first])[:5]

    def likeness(first: int) -> float:
        window = "\n".join(lines[first : first + height])[:_LARGEST_WINDOW]
        return difflib.SequenceMatcher(None, window, target).ratio()

    ranked = [(likeness(first), -first) for first in best if sums[first]]
    if not ranked or max(ranked)[0] < 0.4:
        return None
    first = -max(ranked)[1]
    return range(first, first + height)


def _pieces(text: str) -> set[str]:
    text = text.strip().casefold()
    return {text[place : place + 3] for place in range(max(1, len(text) - 2))} - {""}


def _running_sums(numbers: Sequence[int], width: int) -> list[int]:
    totals = [0]
    for number in numbers:
        totals.append(totals[-1] + number)
    return [totals[end] - totals[end - width] for end in range(width, len(totals))]


def _numbered(source: str, window: range) -> str:
    lines = source.splitlines()
    shown = [f"{number + 1:>5}  {_narrow(lines[number])}" for number in window[:_SHOWN_LINES]]
    if len(window) > _SHOWN_LINES:
        shown.append(f"       ... {len(window) - _SHOWN_LINES:,} more lines")
    return "\n".join(shown)


def _narrow(line: str) -> str:
    cut = len(line) - _SHOWN_COLUMNS
    return line if cut <= 0 else f"{line[:_SHOWN_COLUMNS]}... ({cut:,} more characters)"
