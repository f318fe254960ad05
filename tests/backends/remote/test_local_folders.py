"""A server whose files are on this machine: found on the disk, and told as the server has them."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_collaboration_mcp.backends.protocols.files import FileQuery, Listing
from jupyter_collaboration_mcp.backends.remote.answer_limits import Answer
from jupyter_collaboration_mcp.backends.remote.backend import RemoteBackend
from jupyter_collaboration_mcp.backends.remote.files import RemoteFiles
from jupyter_collaboration_mcp.backends.remote.jupyter_api import JupyterApi
from jupyter_collaboration_mcp.backends.remote.server_address import ServerAddress
from tests.backends.disk.test_folders import anything, everywhere, grow
from tests.conftest import MakeServer
from tests.harness.agents import agent
from tests.harness.jupyter import JupyterProcess
from tests.harness.standalone import StandaloneProcess

pytestmark = pytest.mark.anyio

#: No rooms, so that nothing of theirs is written beside the files.
BARE = {"jupyter_collaboration_mcp": False, "jupyter_server_ydoc": False}

TREE = [
    "a.md",
    "b/1.md",
    "b/2.ipynb",
    "b/.hidden.md",
    "b/.ipynb_checkpoints/2-checkpoint.ipynb",
    "b/deep/3.md",
    "b/__pycache__/4.md",
    "c/.git/5.md",
    "c/6.md~",
    "c/7.md",
]
SHOWN = ["a.md", "b/1.md", "b/2.ipynb", "c/7.md", "b/deep/3.md"]


class Api(JupyterApi):
    """Remembers what was asked for."""

    def __init__(self, address: ServerAddress) -> None:
        super().__init__(address)
        self.listed: list[str] = []
        self.looked_at: list[str] = []

    async def ask(
        self,
        method: str,
        *path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Answer:
        if path[:2] == ("api", "contents"):
            whole = (query or {}).get("content") == "1"
            (self.listed if whole else self.looked_at).append("/".join(path[2:]))
        return await super().ask(method, *path, query=query, body=body)


class Near:
    """The files of a server that may be below a root."""

    def __init__(self, api: Api, root: Path | None) -> None:
        self.api = api
        self.root = root
        self.files: RemoteFiles = RemoteBackend(api, logging.getLogger("test"), self._where).files

    def _where(self) -> Path | None:
        return self.root

    async def walk(self, start: str = "", limit: int = 1000, folders: bool = False) -> Listing:
        return await self.files.walk(start, FileQuery(anything, folders=folders), everywhere, limit)

    async def paths(self, start: str = "", folders: bool = False) -> list[str]:
        listing = await self.walk(start, folders=folders)
        assert listing.complete
        return [entry.path for entry in listing.entries]


@asynccontextmanager
async def near(server: JupyterProcess, root: Path | None) -> AsyncIterator[Near]:
    api = Api(ServerAddress(server.url, server.token))
    try:
        yield Near(api, root)
    finally:
        await api.close()


@pytest.fixture(scope="module")
async def server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    async with make_server(extensions=BARE) as process:
        grow(process.root, *TREE)
        yield process


@pytest.fixture
def twin(server: JupyterProcess, tmp_path: Path) -> Path:
    """A directory that looks like the server's, as far as its root goes; it has its time, too."""
    shutil.copytree(server.root, tmp_path / "twin", symlinks=True)
    return tmp_path / "twin"


async def test_a_search_requests_only_the_files_it_returns(server: JupyterProcess) -> None:
    async with near(server, server.root) as files:
        assert await files.paths() == SHOWN
        assert files.api.listed == [""]  # once, to see that it is the same disk
        assert files.api.looked_at[-len(SHOWN) :] == SHOWN
        some = await files.walk("b", limit=1)
        assert ([entry.path for entry in some.entries], some.complete) == (["b/1.md"], False)
        assert files.api.listed == [""]
        assert files.api.looked_at[-1] == "b/1.md"


async def test_a_local_walk_finds_the_same_as_the_server(server: JupyterProcess) -> None:
    async with near(server, server.root) as files, near(server, None) as asked:
        for start in ("", "b", "b/deep"):
            for folders in (False, True):
                found = await files.walk(start, folders=folders)
                assert found == await asked.walk(start, folders=folders)


async def test_a_large_folder_is_requested_only_as_far_as_it_is_shown(
    server: JupyterProcess,
) -> None:
    async with near(server, server.root) as files, near(server, None) as asked:
        for limit in (1, 2, 3, 4):
            listing = await files.files.children("b", anything, limit)
            assert listing == await asked.files.children("b", anything, limit)
        assert files.api.listed == ["", "b", "b"]  # where all of it is shown, that is one question


@pytest.mark.parametrize("difference", ["more.md", "b/", "nothing at all", "another time"])
async def test_a_different_directory_is_not_mistaken_for_the_servers_root(
    server: JupyterProcess, twin: Path, difference: str
) -> None:
    time = twin.stat().st_mtime_ns
    shutil.rmtree(twin / "b")
    if difference == "b/":
        (twin / "b").touch()
    else:
        (twin / "b").mkdir()
    if difference == "more.md":
        (twin / difference).touch()
    os.utime(twin, ns=(time, time + 1_000_000 * (difference == "another time")))
    if difference == "nothing at all":
        shutil.rmtree(twin)
    async with near(server, twin) as files:
        assert await files.paths() == SHOWN


async def test_files_that_the_server_does_not_have_are_left_out(
    server: JupyterProcess, twin: Path
) -> None:
    for other in ("b/deep/0.md", "c/0/other.md"):
        grow(twin, other)
        async with near(server, twin) as files:
            assert await files.paths() == SHOWN
            assert other in files.api.looked_at
        (twin / other).unlink()
    (twin / "c" / "0").rmdir()
    (twin / "b" / "1.md").unlink()
    grow(twin, "b/1.md/")  # there it is a file
    async with near(server, twin) as files:
        assert await files.paths("b", folders=True) == [
            "b/1.md",
            "b/2.ipynb",
            "b/deep",
            "b/deep/3.md",
        ]


async def test_a_server_restarted_with_another_root_is_listed_remotely(
    make_server: MakeServer, server: JupyterProcess, twin: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.symlink_to(server.root)
    other = make_server(extensions=BARE, root=root, cwd=tmp_path)
    async with other, near(other, server.root) as files:
        assert await files.paths() == SHOWN
        await other.terminate()
        root.unlink()
        grow(tmp_path / "others", "a/b.md")
        root.symlink_to(tmp_path / "others")
        await other.start()
        assert await files.paths() == ["a/b.md"]


@pytest.mark.parametrize("at_the_top", [False, True])
async def test_hidden_files_are_found_where_the_server_shows_them(
    make_server: MakeServer, tmp_path: Path, at_the_top: bool
) -> None:
    server = make_server("--ContentsManager.allow_hidden=True", extensions=BARE, cwd=tmp_path)
    grow(server.root, *TREE, *([".top"] if at_the_top else []))
    async with server, near(server, server.root) as files, near(server, None) as asked:
        found = await files.paths()
        assert found == await asked.paths()
        assert "b/.hidden.md" in found
        assert not any("checkpoint" in path or ".git/" in path for path in found)
        assert files.api.listed == [""]


async def test_a_server_with_unusual_hide_globs_is_listed_remotely(
    make_server: MakeServer,
) -> None:
    server = make_server("--ContentsManager.hide_globs=secret*", extensions=BARE)
    grow(server.root, "a.md", "b/secret.md", "b/c.md", "secret/d.md")
    async with server, near(server, server.root) as files:
        assert await files.paths() == ["a.md", "b/c.md"]


async def test_links_are_shown_as_on_the_server_and_not_followed(
    make_server: MakeServer, tmp_path: Path
) -> None:
    server = make_server(extensions=BARE)
    grow(tmp_path, "outside/x.md")
    grow(server.root, "a.md", "b/c.md")
    (server.root / "b" / "up").symlink_to("..")
    (server.root / "out").symlink_to(tmp_path / "outside")
    (server.root / "out.md").symlink_to(tmp_path / "outside" / "x.md")
    (server.root / "b" / "broken.md").symlink_to("nowhere")
    async with server, near(server, server.root) as files:
        found = await files.paths(folders=True)
        assert found == ["a.md", "b", "out", "out.md", "b/c.md", "b/up"]
        assert files.api.listed == [""]
        assert await files.paths("out") == ["out/x.md"]


@pytest.mark.parametrize("beside", [True, False])
async def test_the_command_detects_where_a_local_servers_files_are(
    make_server: MakeServer, beside: bool
) -> None:
    server = make_server("--ServerApp.log_level=DEBUG", extensions=BARE)
    grow(server.root, *TREE)
    async with (
        server,
        StandaloneProcess([server], near=beside) as command,
        agent(command) as ada,
    ):
        found = await ada.ask("list_documents", file_type="markdown")
        assert [entry["path"] for entry in found["documents"]] == [
            path for path in SHOWN if path.endswith(".md")
        ]
        listed = re.findall(r"200 GET (\S+content=1)", server.log)
        assert len(listed) == (1 if beside else 4)  # the root alone, or all folders
