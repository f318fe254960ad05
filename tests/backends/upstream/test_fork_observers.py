"""Observers of forks over the server's own API, with and without the workaround (B18)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_server_ydoc.handlers import FORK_ROOMS, DocForkHandler
from pycrdt import Doc
from pycrdt.websocket import YRoom

from jupyter_collaboration_mcp.backends.upstream.fork_observers import ForkObservers

from .conftest import MakeStage

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("workaround", [True, False], ids=["with", "without"])
async def test_fork_observers_are_released(
    make_stage: MakeStage, workaround: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = make_stage(*([] if workaround else [ForkObservers.name]))
    assert (stage.workarounds.find(ForkObservers) is not None) == workaround
    rooms = stage.websocket_server
    doc: Doc[Any] = Doc()
    rooms.rooms["json:notebook:root"] = YRoom(ydoc=doc)
    monkeypatch.setattr(rooms, "start_room", _start_room)
    await DocForkHandler.put(_handler(rooms), "json:notebook:root")
    (fork_id,) = set(rooms.rooms) - {"json:notebook:root"}
    assert FORK_ROOMS.pop(fork_id)["synchronize"]
    # The fault: nobody knows this observer, and so nobody can release it.
    assert len(doc._subscriptions) == (0 if workaround else 1)


async def _start_room(room: YRoom) -> None:
    """What is not started needs no end."""


def _handler(rooms: Any) -> Any:
    """As much of a handler as it takes to fork, for a user who may do everything."""

    class Everybody:
        async def is_authorized(self, *_: Any) -> bool:
            return True

    return SimpleNamespace(
        _websocket_server=rooms,
        get_json_body=lambda: {"synchronize": True},
        current_user=SimpleNamespace(username="ana"),
        _emit_fork_event=lambda *_: None,
        set_status=lambda status: None,
        finish=lambda data: data,
        authorizer=Everybody(),
        auth_resource="contents",
        request=SimpleNamespace(method="PUT"),
        log=None,
    )
