"""The journals of one root directory: one for each server that runs there, or crashed there."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from ..disk.aside import cause, set_aside
from .journal import Journal
from .journal_storage import MOST


def open_journals(directory: Path, above: Sequence[Path] = ()) -> tuple[Journal, list[Journal]]:
    """Open the journal to write, and those that crashed servers left; all are locked by us.

    Several servers may share a root directory: a journal that another one holds is not ours. Where
    no journal can be created, the first one has no file, and the list is empty.

    Args:
        above: Parent directories that are also ours, outermost first.
    """
    held: list[Journal] = []
    said: list[str] = []
    missing = "all names are taken"
    try:
        for place in (*above, directory):
            if os.path.lexists(place) and not place.is_dir():
                aside = set_aside(place)
                said.append(f"{place.name}, where the journal belongs, is set aside: {aside.name}.")
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        missing, numbers = cause(error), range(0)
    else:
        numbers = range(MOST)
    for number in numbers:
        path = directory / f"journal-{number}.db"
        exists = os.path.lexists(path)
        if held and not exists:
            break
        try:
            held.append(Journal(path))
        except BlockingIOError:  # a running server is writing it
            continue
        except (OSError, sqlite3.Error) as error:
            if not exists:  # so nothing can be created here
                missing = cause(error)
                break
            said.append(
                f"The journal {path.name} cannot be used ({cause(error)}) and was left as it is. "
                "What is unsaved in it is not in the files; the next start tries again."
            )
    journal = held[0] if held else Journal(directory / "journal-0.db", missing)
    for other in held[1:]:
        journal.events.extend(other.events)
    for sentence in said:
        journal.storage.report(sentence)
    return journal, held
