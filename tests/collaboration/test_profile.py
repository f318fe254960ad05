"""What an agent tells about itself, for as long as it is to be seen."""

from __future__ import annotations

import asyncio
import weakref
from contextvars import ContextVar, copy_context

import pytest

from jupyter_collaboration_mcp.collaboration import presence
from jupyter_collaboration_mcp.collaboration.presence import Profile
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio


async def test_a_profile_keeps_no_request_once_its_work_is_no_longer_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Jupyter has the handler of the present request in the context, which a timer keeps."""
    monkeypatch.setattr(presence, "_LINGER", 0.01)
    request: ContextVar[object] = ContextVar("request")
    profile = Profile("Ada <token>", "Ada")
    handler, context = asyncio.Event(), copy_context()
    gone = weakref.ref(handler)
    context.run(request.set, handler)
    context.run(lambda: profile.work("editing a.ipynb")())
    del handler, context
    assert profile.doing == "editing a.ipynb"
    await until(lambda: not profile.doing)
    assert gone() is None


async def test_what_an_agent_does_is_shown_until_it_has_done_nothing_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(presence, "_LINGER", 0.05)
    profile = Profile("Ada <token>", "Ada")
    profile.work("reading a.ipynb")()
    first = profile._timers["work"]
    monkeypatch.setattr(presence, "_LINGER", 600.0)
    profile.work("editing a.ipynb")()
    await until(lambda: profile._timers.get("work") is not first)
    assert profile.doing == "editing a.ipynb"
    profile.close()
