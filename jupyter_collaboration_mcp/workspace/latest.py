"""The document that an agent used last, for calls that name none."""

from __future__ import annotations

from ..backends.protocols.forks import fork_name
from ..backends.protocols.room_ids import Kind
from .agent import Agent
from .open_document import escaped
from .sites import Sites


def latest_document(sites: Sites, agent: Agent, kind: Kind | None = None) -> str | None:
    """The path of the document that an agent used last, on any server, as agents write it.

    Args:
        kind: What it must be; None if it may be either.
    """
    found: tuple[float, str] | None = None
    for site in sites:
        for opened, seat in site.workspace.rooms.sessions():
            link = opened.peer.link
            fits = kind is None or link.room_id.kind == kind
            if seat.agent == agent.key and fits and (found is None or seat.used > found[0]):
                path = fork_name(link.room_id) if link.room_id.is_fork else escaped(link.path)
                found = seat.used, site.name(path)
    return None if found is None else found[1]
