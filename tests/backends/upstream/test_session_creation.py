"""A notebook has one session, whoever opens it in the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from jupyter_server.services.sessions.sessionmanager import SessionManager
from tornado.web import HTTPError

from jupyter_collaboration_mcp.backends.upstream.session_creation import SessionCreation
from tests.harness.waiting import until

from .conftest import MakeStage
from .test_loaders import with_and_without

pytestmark = pytest.mark.anyio


class SlowKernels(AsyncMappingKernelManager):
    """Starts nothing, and takes its time for it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self.started: list[str] = []
        self.go_on = asyncio.Event()

    async def start_kernel(self, **_: Any) -> str:  # type: ignore[override]
        kernel_id = f"kernel-{len(self.started)}"
        self.started.append(kernel_id)
        async with asyncio.timeout(60):
            await self.go_on.wait()
        return kernel_id

    def __contains__(self, kernel_id: object) -> bool:
        return kernel_id in self.started

    def update_env(self, **_: Any) -> None: ...

    async def kernel_model(self, kernel_id: str) -> dict[str, Any]:
        return {"id": kernel_id, "name": "python3"}


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Any]:
    contents: Any = AsyncLargeFileManager(root_dir=str(tmp_path))
    make: Any = SessionManager
    sessions = make(kernel_manager=SlowKernels(), contents_manager=contents)
    yield sessions
    sessions.close()
    sessions.connection.close()


async def get_or_create(sessions: Any, path: str) -> str:
    """As Jupyter's own handler does it."""
    try:
        return str((await sessions.get_session(path=path, type="notebook"))["id"])
    except HTTPError:
        session = await sessions.create_session(path, path, "notebook", "python3")
        return str(session["id"])


@with_and_without
async def test_opening_a_notebook_twice_at_once_starts_one_kernel(
    make_stage: MakeStage, sessions: Any, works: bool
) -> None:
    make_stage(*([] if works else ["session_creation"]), sessions=sessions)
    kernels = sessions.kernel_manager
    both = [asyncio.create_task(get_or_create(sessions, "n.ipynb")) for _ in range(2)]
    await until(lambda: len(kernels.started) == (1 if works else 2))
    kernels.go_on.set()
    assert (len(set(await asyncio.gather(*both))) == 1) is works
    assert len(kernels.started) == (1 if works else 2)


@with_and_without
async def test_a_session_follows_a_rename_while_its_kernel_starts(
    make_stage: MakeStage, sessions: Any, works: bool
) -> None:
    stage = make_stage(*([] if works else ["session_creation"]), sessions=sessions)
    kernels = sessions.kernel_manager
    creating = asyncio.create_task(get_or_create(sessions, "folder/n.ipynb"))
    await until(lambda: bool(kernels.started))
    stage.workarounds.get(SessionCreation).rename("folder", "moved")
    kernels.go_on.set()
    await creating
    (session,) = await sessions.list_sessions()
    assert session["path"] == ("moved/n.ipynb" if works else "folder/n.ipynb")
