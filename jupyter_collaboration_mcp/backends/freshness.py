"""Whether a room elsewhere has what its file has: somebody may have changed it on disk.

A Jupyter server looks once a second. Whoever reads in between is told that something is coming.
"""

from __future__ import annotations

from datetime import datetime

from ..errors import DocumentNotFound
from .jupyter_api import JupyterApi, Refused
from .room_state import RoomState

#: Seconds after which a server has noticed a change of a file.
_NOTICED = 2.0


class Freshness:
    """What is known of the file of one room.

    Args:
        modified: When the file was changed last before the room was joined, if that is known.
    """

    def __init__(self, api: JupyterApi, modified: str | None = None) -> None:
        self._api = api
        self._modified = modified  # when the room was known to have what the file has
        self._overwrites = 0  # of the room, until then
        self._suspect: str | None = None  # when the file was changed by somebody, perhaps
        self._overwrites_before = 0  # of the room, until that was seen

    @property
    def modified(self) -> str | None:
        """When the file was changed last that the room is known to have."""
        return self._modified

    async def stale(self, path: str, state: RoomState) -> bool:
        """Whether the file has been changed, and the room has not taken it over yet.

        Raises:
            DocumentNotFound: It is not there any more.
        """
        segments = ("api", "contents", *path.split("/"))
        try:
            model, now = await self._api.dated(*segments, content="0")
            modified = str(model["last_modified"])
            if self._modified not in (None, modified):
                model = await self._api.get(*segments, content="0", hash="1")
                if not self._is_taken_over(modified, model.get("hash"), now, state):
                    return True
        except Refused as refused:
            if refused.status == 404:
                raise DocumentNotFound.at(path) from refused
            return False  # unreadable: others notice
        self._modified, self._overwrites = modified, state.overwrites
        return False

    def _is_taken_over(
        self, modified: str, on_disk: str | None, now: datetime | None, state: RoomState
    ) -> bool:
        if on_disk in (None, state.hash):  # the server itself saved it
            return True
        if self._suspect != modified:
            self._suspect, self._overwrites_before = modified, state.overwrites
        if state.overwrites > self._overwrites_before:
            return True
        # Something was taken over since it was last asked, and it may have been an earlier change.
        return state.overwrites > self._overwrites and _age(modified, now) > _NOTICED


def _age(modified: str, now: datetime | None) -> float:
    """Seconds since a file was changed, by the clock of its server; 0 if that is not known."""
    try:
        return 0.0 if now is None else (now - datetime.fromisoformat(modified)).total_seconds()
    except (ValueError, TypeError):
        return 0.0
