"""Saving an agent's edits before a kernel runs anything: the code may import or read them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from datetime import datetime

from ..backends.protocols.files import Files
from ..collaboration.peer import RoomPeer
from ..documents.foreign_text import PATH, inline, words
from ..errors import CollaborationError, FileFailed

#: Seconds that a run waits for the files to be saved.
_LIMIT = 5.0


async def save_before_run(peers: Sequence[RoomPeer], files: Files, alias: str) -> str | None:
    """Save documents, all at once and with a time limit.

    Returns a sentence for the answer if some could not be saved.
    """
    reasons = await asyncio.gather(*(_save(peer, files) for peer in peers))
    failed = [
        f"{_shown(peer, alias)} ({words(reason)})"
        for peer, reason in zip(peers, reasons, strict=True)
        if reason is not None
    ]
    if not failed:
        return None
    return (
        "Your latest edits were not on disk when this ran, so the kernel may have used the old "
        f"text of {', '.join(failed)}."
    )


async def _save(peer: RoomPeer, files: Files) -> str | None:
    """Save one document. Returns the reason if it could not be saved."""
    if not peer.link.autosaves:
        return "autosave is off"
    try:
        async with asyncio.timeout(_LIMIT):
            if peer.link.path.endswith(".py"):
                await _leave_second_of(peer.link.path, files)
            await peer.save()
    except TimeoutError:
        return f"not saved within {_LIMIT:g} s"
    except FileFailed as error:
        return str(error.detail.get("reason", error.happened))
    except CollaborationError as error:
        return error.happened.removesuffix(".")
    return None


async def _leave_second_of(path: str, files: Files) -> None:
    """Wait until the clock shows another second than when the module was last written.

    Python considers compiled code current if its source has the same size and was written in the
    same second: an import or reload would miss the second of two edits within one second.
    """
    modified = (await files.look(path)).last_modified
    if modified is not None:
        next_second = math.floor(datetime.fromisoformat(modified).timestamp()) + 1
        left = next_second - time.time()
        if 0 < left <= 1:  # otherwise it is another second, or the clock of another machine
            await asyncio.sleep(left)


def _shown(peer: RoomPeer, alias: str) -> str:
    path = peer.link.path
    return inline(f"{alias}:{path}" if alias else path, PATH)
