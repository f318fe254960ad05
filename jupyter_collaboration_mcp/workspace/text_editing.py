"""Editing a live text file: each function is one call, all or nothing, in one transaction.

Positions are code points of the text as it was before the call. As in `editing`, each function
returns an edit, which the document's peer performs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..backends.protocols.room_ids import LARGEST
from ..collaboration.changes import SourceChange
from ..collaboration.edits import LARGE_CELLS, LARGE_TEXT, CallRecord, Edit, Work
from ..documents import line_ends, text
from ..documents.differ import Differ, patch
from ..documents.differ import Edit as TextEdit
from ..documents.text_document import WHOLE, TextDocument
from ..documents.text_search import find_once
from ..errors import InvalidArgument, TooLarge
from .call_limits import Limits
from .guards import expected_revision, guard_text
from .open_document import OpenDocument

#: Bytes of a text from which on even a small change is a large edit.
_LARGE_DOCUMENT = 500_000

#: Characters that all operations of a call may search: takes a third of a second.
_MOST_SEARCHED = 1_000_000_000

#: Operations of a call times characters of the text: the time yrs needs grows with both.
_MOST_SPLIT = 5_000_000_000

#: The byte order mark, with which some programs begin a file.
_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class TextChange:
    """Replace some characters, or a text that occurs exactly once."""

    content: str | None = None
    position: int = -1
    """-1: the end."""
    length: int = 0
    old_text: str | None = None
    new_text: str | None = None


@dataclass(frozen=True, slots=True)
class TextSpan:
    """The current position of something that a change has written."""

    position: int
    length: int
    line: int


def change_text(
    here: OpenDocument,
    changes: Sequence[TextChange],
    limits: Limits,
    if_revision: str | None = None,
) -> Edit[list[TextSpan]]:
    """Change a text; returns where it was changed, in the order of the changes."""
    _check_size(limits, changes)
    expected = expected_revision(here, if_revision)

    def begin() -> Work[list[TextSpan]]:
        guard_text(here, expected)
        return work

    def work(document: TextDocument, record: CallRecord) -> list[TextSpan]:
        old = str(document)
        _check_work(old, changes)
        wanted = [_edit(old, change) for change in changes]
        return _write(here, document, record, old, wanted)

    return Edit(begin, _is_large(here, changes))


def replace_text(here: OpenDocument, content: str, limits: Limits) -> Edit[None]:
    """Replace the whole text of a document."""
    _check_size(limits, [TextChange(content)])

    def work(document: TextDocument, record: CallRecord) -> None:
        old = str(document)
        _write(here, document, record, old, [_edit(old, TextChange(content, 0, len(old)))])

    return Edit(lambda: work, _is_large(here, [TextChange(content)]))


def _write(
    here: OpenDocument,
    document: TextDocument,
    record: CallRecord,
    old: str,
    wanted: Sequence[TextEdit],
) -> list[TextSpan]:
    ordered = sorted(range(len(wanted)), key=lambda n: (wanted[n].start, wanted[n].end, n))
    _check_overlaps([wanted[number] for number in ordered])
    new = patch(old, [wanted[number] for number in ordered])
    _check_length(old, new)
    _check_line_ends(old, new)
    if new != old:
        edits = _smallest(old, [wanted[n] for n in ordered])
        here.check_text(document, record, old, edits)
        inserted = document.change(edits, old)
        record(SourceChange(WHOLE, old, new), inserted)
    return _spans(new, wanted, ordered)


def _is_large(here: OpenDocument, changes: Sequence[TextChange]) -> bool:
    """Whether a change takes long enough for others to notice."""
    given = sum(len(change.content or change.new_text or "") for change in changes)
    return len(changes) > LARGE_CELLS or given > LARGE_TEXT or here.peer.text.size > _LARGE_DOCUMENT


def _edit(old: str, change: TextChange) -> TextEdit:
    if change.old_text is not None or change.new_text is not None:
        if change.content is not None or change.position != -1 or change.length:
            raise InvalidArgument(
                "An operation has both a position or content and old_text/new_text.",
                "Give one of them.",
            )
        if change.old_text is None or change.new_text is None:
            raise InvalidArgument("old_text and new_text belong together.", "Give both.")
        wanted = line_ends.plain(change.old_text)
        start = find_once(old, wanted)
        return TextEdit(start, start + len(wanted), line_ends.plain(change.new_text))
    if change.content is None:
        raise InvalidArgument(
            "An operation changes nothing.", "Give content, or old_text and new_text."
        )
    content = line_ends.plain(change.content)
    if change.position == -1:
        if change.length:
            raise InvalidArgument(
                "position is -1, which is the end: there is nothing to replace after it.",
                "Give the position of the text to replace, or no length.",
            )
        return TextEdit(len(old), len(old), content)
    end = change.position + change.length
    if change.position < 0 or change.length < 0 or end > len(old):
        raise InvalidArgument(
            f"Characters {change.position} to {end} are not within the document, which has "
            f"{len(old):,}. Nothing was changed.",
            "Read the document again; positions count characters from 0, and -1 is the end.",
            length=len(old),
        )
    deletes_mark = (change.position, end, content) == (0, len(_MARK), "")  # it alone, on purpose
    if old.startswith(_MARK) and change.position <= len(_MARK) and not deletes_mark:
        # Anywhere but at the very beginning of a file it would be garbage.
        first = len(_MARK)
        return TextEdit(first, max(end, first), content.removeprefix(_MARK))
    return TextEdit(change.position, end, content)


def _check_overlaps(ordered: Sequence[TextEdit]) -> None:
    for before, after in pairwise(ordered):
        if after.start < before.end:
            raise InvalidArgument(
                f"Two operations change the same characters: {before.start} to {before.end} and "
                f"{after.start} to {after.end}. Nothing was changed.",
                "Positions mean the document before the call; join the two, or call twice.",
            )


def _smallest(old: str, ordered: Sequence[TextEdit]) -> list[TextEdit]:
    """The same edits without what does not change, so that other people's carets stay."""
    differ = Differ()
    smaller = []
    for edit in ordered:
        for part in differ.edits(old[edit.start : edit.end], edit.text):
            smaller.append(TextEdit(edit.start + part.start, edit.start + part.end, part.text))
    return smaller


def _spans(new: str, wanted: Sequence[TextEdit], ordered: Sequence[int]) -> list[TextSpan]:
    places: dict[int, TextSpan] = {}
    shift, line, counted = 0, 1, 0
    for number in ordered:
        edit = wanted[number]
        position = edit.start + shift
        line += new.count("\n", counted, position)
        counted = position
        places[number] = TextSpan(position, len(edit.text), line)
        shift += len(edit.text) - (edit.end - edit.start)
    return [places[number] for number in range(len(wanted))]


def _check_size(limits: Limits, changes: Sequence[TextChange]) -> None:
    if not changes:
        raise InvalidArgument(
            "operations is empty; nothing was changed.", "Give at least one operation."
        )
    if len(changes) > limits.cells_per_call:
        raise TooLarge(
            f"{len(changes)} operations in one call; at most {limits.cells_per_call} are allowed. "
            "Nothing was changed.",
            "Split the call.",
        )
    given = [change.content or change.new_text or "" for change in changes]
    if (length := sum(map(len, given))) > limits.source_length:
        raise TooLarge(
            f"{length:,} characters in one call; at most {limits.source_length:,} are allowed. "
            "Nothing was changed.",
            "Split the call, or write large data with code in a kernel.",
        )
    for each in given:
        text.require_storable(each)


def _check_work(old: str, changes: Sequence[TextChange]) -> None:
    searches = sum(change.old_text is not None for change in changes)
    if searches * len(old) > _MOST_SEARCHED:
        most = _MOST_SEARCHED // len(old)
        raise TooLarge(
            f"{searches} operations look for old_text in {len(old):,} characters; at most {most} "
            "are allowed in one call. Nothing was changed.",
            "Split the call, or give positions.",
        )
    if len(changes) * len(old) > _MOST_SPLIT:
        raise TooLarge(
            f"{len(changes)} operations in a text of {len(old):,} characters; at most "
            f"{_MOST_SPLIT // len(old)} are allowed in one call. Nothing was changed.",
            "Split the call.",
        )


def _check_length(old: str, new: str) -> None:
    if len(new) > max(LARGEST, len(old)):
        raise TooLarge(
            f"The document would have {len(new):,} characters; at most {LARGEST:,} are live. "
            "Nothing was changed.",
            "Split it, or write large data with code in a kernel.",
        )


def _check_line_ends(old: str, new: str) -> None:
    """Refuse a carriage return before a line break: a new piece may touch the text beside it."""
    if new.count("\r\n") <= old.count("\r\n"):
        return
    line = new.count("\n", 0, new.index("\r\n")) + 1
    raise InvalidArgument(
        f"At the end of line {line} a carriage return would stand right before the line break. "
        "The lines of a live text end with \\n alone; its file keeps the line ends that it has. "
        "Nothing was changed.",
        "Leave the carriage return out, or delete it together with what follows it.",
    )
