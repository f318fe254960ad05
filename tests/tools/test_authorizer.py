"""An authorizer that decides by path is asked about all that is in a folder, too."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeServer
from tests.harness.agents import AgentClient, agent
from tests.harness.jupyter import JupyterProcess
from tests.harness.ways import served

pytestmark = pytest.mark.anyio

AUTHORIZER = "--ServerApp.authorizer_class=tests.harness.authorizers.KeepsPrivate"

OPERATIONS: dict[str, dict[str, Any]] = {
    "copy_document": {"copyPath": "elsewhere"},
    "rename_document": {"newPath": "elsewhere"},
    "delete_document": {"recursive": True},
}


@pytest.fixture(scope="module")
async def server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    always = "--FileContentsManager.always_delete_dir=True"
    async with make_server(AUTHORIZER, always) as process:
        yield process


@pytest.fixture
def root(server: JupyterProcess) -> Path:
    """The root, with nothing in it."""
    for path in Path(server.root).iterdir():
        if path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
            shutil.rmtree(path)
        elif not path.name.startswith("."):
            path.unlink()
    return Path(server.root)


def grow(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            (root / path).mkdir()
        else:
            (root / path).write_text(path)


def all_in(root: Path) -> set[str]:
    paths = {str(path.relative_to(root)) for path in root.rglob("*")}
    return {path for path in paths if not path.startswith((".jupyter", ".ipynb_checkpoints"))}


@pytest.mark.parametrize(
    "kept",
    ["top/private/p.txt", "top/in/private.txt", "top/.hidden/private.txt", "top/in/private/"],
)
async def test_a_folder_with_a_refused_file_stays_unchanged(
    ada: AgentClient, root: Path, kept: str
) -> None:
    grow(root, "top/a.txt", "top/in/b.txt", kept)
    before = all_in(root)
    for tool, arguments in OPERATIONS.items():
        error = await ada.refused(tool, path="top", **arguments)
        assert error["code"] == "permission_refused", tool
        assert "Nothing was changed." in error["message"]
        assert all_in(root) == before
    # What is allowed in it can be worked with.
    await ada.ask("copy_document", path="top/in/b.txt", copyPath="top/c.txt")
    await ada.ask("delete_document", path="top/c.txt")


async def test_a_link_to_a_refused_file_is_refused(ada: AgentClient, root: Path) -> None:
    grow(root, "top/a.txt", "private/p.txt")
    (root / "top" / "link.txt").symlink_to("../private/p.txt")
    for tool, arguments in OPERATIONS.items():
        assert (await ada.refused(tool, path="top", **arguments))["code"] == "permission_refused"
    assert all_in(root) == {"top", "top/a.txt", "top/link.txt", "private", "private/p.txt"}


async def test_an_unreadable_file_is_not_moved_to_a_readable_place(
    ada: AgentClient, root: Path
) -> None:
    grow(root, "top/unreadable.txt", "unreadable.txt")
    for path in ("top", "unreadable.txt"):
        for tool in ("copy_document", "rename_document"):
            error = await ada.refused(tool, path=path, **OPERATIONS[tool])
            assert error["code"] == "permission_refused"
    await ada.ask("delete_document", path="top", recursive=True)
    assert all_in(root) == {"unreadable.txt"}


async def test_a_locked_file_is_neither_moved_nor_deleted(ada: AgentClient, root: Path) -> None:
    grow(root, "top/in/locked.txt")
    for tool, arguments in OPERATIONS.items():
        assert (await ada.refused(tool, path="top", **arguments))["code"] == "permission_refused"
    assert all_in(root) == {"top", "top/in", "top/in/locked.txt"}


async def test_nothing_is_created_in_a_refused_place(ada: AgentClient, root: Path) -> None:
    grow(root, "top/a.txt", "sealed/a/sealed.txt", "shelf/locked/", "shelf/open/")
    (root / "door").symlink_to("shelf/locked")
    for tool, name in (("copy_document", "copyPath"), ("rename_document", "newPath")):
        for target in ("shelf/locked/top", "door/top", "locked"):
            error = await ada.refused(tool, path="top", **{name: target})
            assert error["code"] == "permission_refused"
        error = await ada.refused(tool, path="sealed", **{name: "shelf/open/new"})
        assert "or would have" in error["message"]
    await ada.ask("copy_document", path="top", copyPath="shelf/open/copy")
    await ada.ask("rename_document", path="top", newPath="shelf/open/top")
    assert all_in(root) == {
        "door",
        "sealed",
        "sealed/a",
        "sealed/a/sealed.txt",
        "shelf",
        "shelf/locked",
        "shelf/open",
        "shelf/open/copy",
        "shelf/open/copy/a.txt",
        "shelf/open/top",
        "shelf/open/top/a.txt",
    }


async def test_path_rules_apply_to_a_folders_content_in_its_new_place(
    make_server: MakeServer,
) -> None:
    config = {"JupyterCollaborationMCP": {"denied_paths": ["shelf/*.key"]}}
    async with make_server(config=config) as server, agent(server) as ada:
        grow(Path(server.root), "top/a.key")
        for tool, name in (("copy_document", "copyPath"), ("rename_document", "newPath")):
            error = await ada.refused(tool, path="top", **{name: "shelf"})
            assert error["code"] == "permission_refused"
        assert not (Path(server.root) / "shelf").exists()
        await ada.ask("rename_document", path="top", newPath="box")
        assert (Path(server.root) / "box" / "a.key").exists()


async def test_others_are_served_while_thousands_of_files_are_authorized(
    server: JupyterProcess, ada: AgentClient, root: Path
) -> None:
    (root / "top").mkdir()
    for number in range(5_000):
        (root / "top" / f"{number}.txt").touch()
    grow(root, "top/z/private.txt")
    answered = 0
    async with agent(server, "Bob") as bob:
        copying = asyncio.ensure_future(
            ada.refused("rename_document", path="top", newPath="elsewhere")
        )
        while not copying.done():
            await bob.ask("document_exists", path="top")
            answered += 1
    assert (await copying)["code"] == "permission_refused"
    assert answered > 5


async def test_the_command_copies_nothing_that_its_server_refuses_to_read(
    make_server: MakeServer,
) -> None:
    async with served(make_server, "standalone", AUTHORIZER) as stock, agent(stock) as ada:
        grow(Path(stock.root), "top/a.txt", "top/in/private.txt", "open/in/a.txt")
        error = await ada.refused("copy_document", path="top", copyPath="elsewhere")
        assert error["code"] == "token_refused"
        assert not (Path(stock.root) / "elsewhere").exists()
        await ada.ask("copy_document", path="open", copyPath="copy")
        assert (Path(stock.root) / "copy" / "in" / "a.txt").read_text() == "open/in/a.txt"


async def test_the_command_may_do_what_its_server_permits_its_token(
    make_server: MakeServer,
) -> None:
    """Jupyter asks about the path of a request, and not about what is in a folder."""
    always = "--FileContentsManager.always_delete_dir=True"
    async with served(make_server, "standalone", AUTHORIZER, always) as stock, agent(stock) as ada:
        root = Path(stock.root)
        grow(root, "top/in/private.txt", "top/private/p.txt", "other/in/private.txt")
        before = all_in(root)
        for path in ("top/in/private.txt", "top/private", "top/private/p.txt"):
            for tool in ("rename_document", "delete_document"):
                error = await ada.refused(tool, path=path, **OPERATIONS[tool])
                assert error["code"] in ("token_refused", "read_only"), (tool, path)
                assert all_in(root) == before
        await ada.ask("rename_document", path="top", newPath="elsewhere")
        await ada.ask("delete_document", path="other", recursive=True)
        assert all_in(root) == {
            "elsewhere",
            "elsewhere/in",
            "elsewhere/in/private.txt",
            "elsewhere/private",
            "elsewhere/private/p.txt",
        }
