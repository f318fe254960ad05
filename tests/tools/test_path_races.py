"""What is decided about a path holds for what is opened by it, whatever others do to the disk.

Somebody makes a link lead to an allowed and to a denied file in turns, as fast as they can, while
agents read and copy through it; or moves a notebook to where agents may not go.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio

SECRET = "what-nobody-may-see"

ROUNDS = 15


@pytest.fixture(scope="module")
async def server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    config = {"JupyterCollaborationMCP": {"denied_paths": ["denied", "denied/*"]}}
    authorizer = "--ServerApp.authorizer_class=tests.harness.authorizers.KeepsPrivate"
    poll = "--YDocExtension.file_poll_interval=0.05"
    slow = "--ServerApp.contents_manager_class=tests.harness.disks.SlowRenames"
    async with make_server(authorizer, poll, slow, config=config) as process:
        yield process


@pytest.fixture
def root(server: JupyterProcess, tmp_path: Path) -> Iterator[Path]:
    """The root, with files in folders that agents may see, and in those that they may not."""
    root = Path(server.root)
    for folder in (root / "open", *kept_from(root, tmp_path)):
        folder.mkdir(exist_ok=True)
        word = "public" if folder.name == "open" else SECRET
        (folder / "a.txt").write_text(word)
        notebooks.write(folder / "a.ipynb", notebooks.notebook([notebooks.code("one", word)]))
    yield root
    for path in root.iterdir():
        if path.is_symlink():
            path.unlink()
        elif path.is_dir() and not path.name.startswith("."):
            shutil.rmtree(path)


def kept_from(root: Path, outside: Path) -> list[Path]:
    """Folders that rules, an authorizer, and the root itself keep from agents."""
    return [root / "denied", root / "private", outside / "outside"]


def turns(root: Path, outside: Path, name: str) -> list[Path]:
    """What a link leads to in turns."""
    return [
        path for kept in kept_from(root, outside) for path in (root / "open" / name, kept / name)
    ]


@contextmanager
def flipping(link: Path, *targets: Path) -> Iterator[None]:
    """Meanwhile a link leads to one and to another in turns."""
    stop = threading.Event()
    new = link.with_name(f".new-{link.name}")

    def flip() -> None:
        for target in itertools.cycle(targets):
            new.symlink_to(target)
            new.replace(link)
            if stop.wait(0.0003):
                return

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def asked(ada: AgentClient, tool: str, **arguments: Any) -> bool:
    """Whether a call succeeds; whatever it answers, the secret is not in it."""
    result = await ada.call(tool, **arguments)
    said = text_of(result) + json.dumps(result.structured_content)
    assert SECRET not in said, tool
    return not result.is_error


def leaked(root: Path) -> list[Path]:
    """Files in which the secret is, besides those where it belongs."""
    copies = [path for path in root.glob("copies/**/*") if path.is_file() and not path.is_symlink()]
    return [path for path in copies if SECRET in path.read_text()]


async def test_a_flipping_link_reveals_nothing(
    ada: AgentClient, root: Path, tmp_path: Path
) -> None:
    good = 0
    with (
        flipping(root / "link.txt", *turns(root, tmp_path, "a.txt")),
        flipping(root / "link.ipynb", *turns(root, tmp_path, "a.ipynb")),
    ):
        for number in range(ROUNDS):
            for tool, arguments in _reads("link", f"copies/{number}"):
                good += await asked(ada, tool, **arguments)
    assert leaked(root) == []
    assert good > ROUNDS / 4  # what is allowed is not refused because it might be something else


async def test_a_flipping_folder_reveals_nothing(
    ada: AgentClient, root: Path, tmp_path: Path
) -> None:
    good = 0
    with flipping(root / "folder", *turns(root, tmp_path, "")):
        for number in range(ROUNDS):
            for tool, arguments in _reads("folder/a", f"copies/{number}"):
                good += await asked(ada, tool, **arguments)
            good += await asked(
                ada, "copy_document", path="folder", copyPath=f"copies/{number}/folder"
            )
    assert leaked(root) == []
    assert good > ROUNDS / 4


async def test_flipping_files_inside_a_copied_folder_reveal_nothing(
    ada: AgentClient, root: Path, tmp_path: Path
) -> None:
    (root / "top" / "in").mkdir(parents=True)
    (root / "top" / "z.txt").write_text("public")
    with (
        _turning(root / "top" / "a.txt", tmp_path / "outside" / "a.txt"),
        _turning(root / "top" / "b.txt", root / "denied" / "a.txt"),
        flipping(root / "top" / "in" / "link", *turns(root, tmp_path, "")),
    ):
        for number in range(ROUNDS):
            await asked(ada, "copy_document", path="top", copyPath=f"copies/{number}")
    assert leaked(root) == []


async def test_a_room_opened_by_a_person_through_a_flipping_link_reveals_nothing(
    server: JupyterProcess, ada: AgentClient, root: Path, tmp_path: Path
) -> None:
    """Its content is another one each time that the room looks at the file."""
    link = root / "link.txt"
    link.symlink_to(root / "open" / "a.txt")
    seen: list[str] = []
    async with Collaborator(server.url, server.token, "link.txt", kind="file") as person:
        with flipping(link, *turns(root, tmp_path, "a.txt")):
            while SECRET not in seen or len(seen) < 2 * ROUNDS:
                await asked(ada, "get_document", path="link.txt")
                await asked(ada, "get_document", path="open/a.txt")
                seen.append(person.source())


async def test_nothing_is_written_through_a_flipping_link_to_a_denied_place(
    ada: AgentClient, root: Path, tmp_path: Path
) -> None:
    kept = kept_from(root, tmp_path)
    before = {file for folder in kept for file in contents(folder)}
    good = 0
    with (
        flipping(root / "link.txt", *turns(root, tmp_path, "a.txt")),
        flipping(root / "folder", *turns(root, tmp_path, "")),
    ):
        for number in range(ROUNDS):
            (root / "open" / f"{number}.txt").write_text("public")
            (root / "open" / f"{number}").mkdir()
            for tool, arguments in _writes(number):
                good += await asked(ada, tool, **arguments)
    assert {file for folder in kept for file in contents(folder)} ^ before == set()
    assert good > ROUNDS / 2


def contents(folder: Path) -> list[tuple[Path, str | None]]:
    """All that is in a folder.

    But for the folder of checkpoints, which Jupyter makes wherever a path leads to at that moment,
    also to see that nothing is in it.
    """
    found = [path for path in folder.rglob("*") if path.name != ".ipynb_checkpoints"]
    return [(path, path.read_text() if path.is_file() else None) for path in found]


def _writes(number: int) -> list[tuple[str, dict[str, Any]]]:
    new, text = f"folder/new-{number}", {"type": "file", "content": "written"}
    return [
        ("create_document", {"path": f"{new}.txt", **text}),
        ("create_document", {"path": f"{new}.ipynb"}),
        ("create_document", {"path": f"{new}/in/a.txt", **text}),
        ("create_document", {"path": "link.txt", "overwrite": True, **text}),
        ("create_document", {"path": "folder/a.ipynb", "overwrite": True}),
        ("rename_document", {"path": f"open/{number}.txt", "newPath": f"{new}.md"}),
        ("rename_document", {"path": "folder/a.txt", "newPath": f"open/moved-{number}.txt"}),
        ("rename_document", {"path": f"open/{number}", "newPath": f"{new}.folder"}),
        ("copy_document", {"path": "open/a.txt", "copyPath": f"{new}.copy"}),
        ("delete_document", {"path": "folder/a.txt"}),
        ("create_document", {"path": "open/a.txt", **text}),
    ]


def _reads(path: str, copy: str) -> list[tuple[str, dict[str, Any]]]:
    text, notebook = f"{path}.txt", f"{path}.ipynb"
    update = {"cell_id": "one", "content": "x", "if_revision": "none"}
    return [
        ("get_document", {"path": text}),
        ("get_document_info", {"path": text}),
        ("get_notebook", {"path": notebook}),
        ("copy_document", {"path": text, "copyPath": f"{copy}/a.txt"}),
        ("copy_document", {"path": notebook, "copyPath": f"{copy}/a.ipynb"}),
        ("create_document", {"path": f"{copy}/t.txt", "type": "file", "template": text}),
        ("create_document", {"path": f"{copy}/t.ipynb", "template": notebook}),
        # An error quotes what is there, too.
        ("batch_update_notebook_cells", {"path": notebook, "updates": [update], "exec": False}),
    ]


@contextmanager
def _turning(file: Path, target: Path) -> Iterator[None]:
    """Meanwhile there is a file, or a link to another one."""
    plain = file.with_name(f".plain-{file.name}")
    stop = threading.Event()

    def turn() -> None:
        while not stop.wait(0.0003):
            plain.write_text("public")
            plain.replace(file)
            plain.symlink_to(target)
            plain.replace(file)

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


# -- a notebook that is moved on disk ---------------------------------------------------------


async def test_a_notebook_moved_on_disk_cannot_be_reached_under_its_old_path(
    server: JupyterProcess, ada: AgentClient, root: Path
) -> None:
    file = root / "moved.ipynb"
    long = f"word = {SECRET!r}\nprint(word * 100_000)\nword"
    notebooks.write(file, notebooks.notebook([notebooks.code("one", long)]))
    facts = await ada.ask("execute_notebook_cell", path="moved.ipynb", cell_id="one")
    (run,) = facts["runs"]
    assert run["state"] == "completed"
    uri = run["outputs"][0]["uri"]
    path = "moved.ipynb"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get_run", {"run_id": run["run_id"]}),
        ("get_run", {"run_id": run["run_id"], "output": 0}),
        ("inspect_variables", {"path": path}),
        ("run_code", {"path": path, "code": "word"}),
        ("execute_notebook_cell", {"path": path, "cell_id": "one"}),
        ("batch_execute_notebook_cells", {"path": path}),
        ("get_notebook_status", {"path": path}),
        ("get_notebook", {"path": path, "include_outputs": True}),
    ]
    for tool, arguments in calls[:4]:
        assert not (await ada.call(tool, **arguments)).is_error, tool
    file.rename(root / "denied" / "moved.ipynb")
    for tool, arguments in [*calls, ("restart_notebook_kernel", {"path": path})]:
        error = await ada.refused(tool, **arguments)
        assert error["code"] == "document_not_found", tool
        assert SECRET not in str(error)
    with pytest.raises(MCPError, match="document_not_found"):
        await ada.client.read_resource(uri)
    for tool, arguments in calls[2:]:
        error = await ada.refused(tool, **{**arguments, "path": "denied/moved.ipynb"})
        assert error["code"] == "permission_refused", tool


@pytest.mark.parametrize("by", ["an agent", "a person"])
async def test_an_edit_during_a_rename_is_applied_at_the_new_path(
    server: JupyterProcess, ada: AgentClient, bob: AgentClient, root: Path, by: str
) -> None:
    """The file is not at its old path any more, and nobody knows the new one yet."""
    old, new = f"{by[-3:]}-old.md", f"{by[-3:]}-new.md"
    (root / old).write_text("text\n")
    await ada.ask("get_document", path=old)
    async with httpx2.AsyncClient(headers=server.headers, timeout=60) as http:
        renaming = asyncio.ensure_future(
            bob.ask("rename_document", path=old, newPath=new)
            if by == "an agent"
            else http.patch(f"{server.url}api/contents/{old}", json={"path": new})
        )
        await until((root / new).exists)
        assert not renaming.done()
        edit = {"old_text": "text", "new_text": "text and more"}
        facts = await ada.ask("batch_update_document", path=old, operations=[edit])
        await renaming
    assert facts["path"] == new
    await until(lambda: (root / new).read_text() == "text and more\n")
    assert not (root / old).exists()
    error = await ada.refused("batch_update_document", path=old, operations=[edit])
    assert (error["code"], error["new_path"]) == ("document_not_found", new)


async def test_an_error_does_not_reveal_a_new_path_that_is_denied(
    server: JupyterProcess, ada: AgentClient, root: Path
) -> None:
    (root / "known.md").write_text("text\n")
    await ada.ask("get_document", path="known.md")
    async with httpx2.AsyncClient(headers=server.headers, timeout=60) as http:
        url = f"{server.url}api/contents/known.md"
        (await http.patch(url, json={"path": "denied/known.md"})).raise_for_status()
    error = await ada.refused("get_document", path="known.md")
    assert error["code"] == "document_not_found"
    assert "denied" not in str(error)
