"""Files made, described and copied on a real server, through the extension and the command."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import nbformat
import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import eventually, install_kernel
from tests.harness.runs import run
from tests.harness.standalone import StandaloneProcess
from tests.harness.waiting import until
from tests.harness.ways import WAYS, served

pytestmark = pytest.mark.anyio

Join = Callable[[Path | str], Awaitable[Collaborator]]

#: Saves nothing by itself within a test: what is unsaved stays so.
LAZY = "--YDocExtension.document_save_delay=600"

OUTPUT = {"output_type": "stream", "name": "stdout", "text": "old\n"}

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


@pytest.fixture
def root(server: JupyterProcess, request: pytest.FixtureRequest) -> Path:
    """A folder of this test's own, which is in the server's root."""
    folder = Path(server.root) / re.sub(r"\W", "-", request.node.name)
    folder.mkdir()
    return folder


@pytest.fixture
def at(root: Path) -> Callable[[str], str]:
    """The path of something in this test's folder."""
    return lambda path: f"{root.name}/{path}"


@pytest.fixture
async def join(server: JupyterProcess) -> AsyncIterator[Join]:
    """Opens a person's tab."""
    people: list[Collaborator] = []

    async def open_tab(path: Path | str) -> Collaborator:
        local = str(Path(path).relative_to(server.root)) if isinstance(path, Path) else path
        kind: Any = "notebook" if local.endswith(".ipynb") else "file"
        person = Collaborator(server.url, server.token, local, kind=kind)
        await person.__aenter__()
        people.append(person)
        return person

    yield open_tab
    for person in people:
        await person.__aexit__(None, None, None)


At = Callable[[str], str]


def files_in(folder: Path) -> set[str]:
    """All that is in a folder but for what Jupyter keeps there for itself."""
    paths = (path.relative_to(folder) for path in folder.rglob("*"))
    return {str(path) for path in paths if not any(part.startswith(".") for part in path.parts)}


# -- create -----------------------------------------------------------------------------------


async def test_a_new_notebook_has_the_default_kernel_and_its_code_runs(
    ada: AgentClient, root: Path, at: At
) -> None:
    made = await ada.ask("create_document", path=at("new"), content="print(6 * 7)")
    assert made["path"] == at("new.ipynb")
    assert (made["type"], made["name"], made["folders"]) == ("notebook", "new.ipynb", [])
    content = json.loads((root / "new.ipynb").read_text())
    nbformat.validate(content)
    assert content["metadata"]["kernelspec"]["name"] == "python3"
    assert notebooks.sources(root / "new.ipynb") == ["print(6 * 7)"]
    told = await run(ada, made["path"], 0)
    assert told["state"] == "completed"
    assert "42" in str(told)


async def test_a_new_notebook_may_be_empty(ada: AgentClient, root: Path, at: At) -> None:
    await ada.ask("create_document", path=at("empty.ipynb"))
    assert notebooks.sources(root / "empty.ipynb") == []
    # jupyter-ydoc opens every notebook with a cell to type in.
    assert await ada.sources(at("empty.ipynb")) == [""]
    update = {"index": 0, "content": "1 + 1"}
    await ada.ask(
        "batch_update_notebook_cells", path=at("empty.ipynb"), updates=[update], exec=False
    )
    await until(lambda: notebooks.sources(root / "empty.ipynb") == ["1 + 1"])


async def test_a_notebook_is_created_for_the_chosen_kernel(
    server: JupyterProcess, ada: AgentClient, root: Path, at: At
) -> None:
    if not (server.home / "data" / "kernels" / "other").exists():
        install_kernel(server.home, "other", "python", language="julia")
    own = json.dumps(notebooks.notebook([notebooks.code("one", "1")]))
    for name, content in (("a.ipynb", None), ("b.ipynb", "1"), ("c.ipynb", own)):
        await ada.ask("create_document", path=at(name), content=content, kernel="other")
        metadata = json.loads((root / name).read_text())["metadata"]
        assert metadata["kernelspec"] == {
            "name": "other",
            "display_name": "Other",
            "language": "julia",
        }
        assert "language_info" not in metadata
    error = await ada.refused("create_document", path=at("d.ipynb"), kernel="nowhere")
    assert error["code"] == "kernel_unavailable"
    assert "python3" in error["next_step"]
    error = await ada.refused("create_document", path=at("d.md"), type="file", kernel="other")
    assert error["code"] == "invalid_argument"
    assert files_in(root) == {"a.ipynb", "b.ipynb", "c.ipynb"}


async def test_a_notebook_may_be_given_as_json(ada: AgentClient, root: Path, at: At) -> None:
    cells = [notebooks.code("one", "1", outputs=[OUTPUT]), notebooks.markdown("two", "# é😀")]
    given = notebooks.notebook(cells, metadata={"mine": 1})
    await ada.ask("create_document", path=at("a.ipynb"), content=json.dumps(given))
    written = json.loads((root / "a.ipynb").read_text())
    assert [cell["id"] for cell in written["cells"]] == ["one", "two"]
    assert written["cells"][0]["outputs"] == [{**OUTPUT, "text": ["old\n"]}]
    assert written["metadata"]["mine"] == 1
    assert await ada.sources(at("a.ipynb")) == ["1", "# é😀"]


@pytest.mark.parametrize(
    "content",
    [
        '{"nbformat": 4, "nbformat_minor": 5, "cells": [{}], "metadata": {}}',
        '{"nbformat": 4, "nbformat_minor": 5, "cells": [',
        '{"nbformat": 4, "nbformat_minor": 5, "cells": [], "metadata": {"a": "\\ud83d"}}',
    ],
)
async def test_an_invalid_notebook_is_not_written(
    ada: AgentClient, root: Path, at: At, content: str
) -> None:
    error = await ada.refused("create_document", path=at("new/a.ipynb"), content=content)
    assert error["code"] == "invalid_argument"
    assert files_in(root) == set()


@pytest.mark.parametrize(
    ("kind", "name", "named"),
    [
        ("markdown", "notes", "notes.md"),
        ("markdown", "notes.md", "notes.md"),
        ("markdown", "notes.txt", "notes.txt"),
        ("markdown", "v1.2 notes", "v1.2 notes"),
        ("file", "notes", "notes"),
        ("file", "notes.py", "notes.py"),
        ("file", "notes.py/", "notes.py"),
        ("notebook", "notes.md", "notes.md.ipynb"),
    ],
)
async def test_a_name_gets_the_extension_it_needs(
    ada: AgentClient, root: Path, at: At, kind: str, name: str, named: str
) -> None:
    made = await ada.ask("create_document", path=at(name), type=kind, content="é\n😀")
    assert (made["path"], made["name"]) == (at(named), named)
    assert files_in(root) == {named}
    if kind != "notebook":
        assert (root / named).read_text() == "é\n😀"
        assert (await ada.ask("get_document", path=at(named)))["content"] == "é\n😀"


async def test_a_folder_can_be_created_without_content(
    ada: AgentClient, root: Path, at: At
) -> None:
    made = await ada.ask("create_document", path=at("folder"), type="directory")
    assert (made["type"], made["size"]) == ("directory", None)
    assert (root / "folder").is_dir()
    error = await ada.refused("create_document", path=at("other"), type="directory", content="text")
    assert error["code"] == "invalid_argument"
    assert files_in(root) == {"folder"}


@pytest.mark.parametrize("kind", ["notebook", "file", "markdown", "directory"])
async def test_missing_folders_are_created_and_reported(
    ada: AgentClient, root: Path, at: At, kind: str
) -> None:
    (root / "a").mkdir()
    made = await ada.ask("create_document", path=at("a/b/c/new.ipynb.x"), type=kind)
    assert made["folders"] == [at("a/b"), at("a/b/c")]
    text = await ada.say("create_document", path=at("d/e"), type="directory")
    assert at("d") in text
    assert (root / "a" / "b" / "c").is_dir()
    assert (await ada.ask("document_exists", path=made["path"]))["exists"]


@pytest.mark.parametrize("path", ["", "/", "//"])
async def test_a_document_needs_a_name(ada: AgentClient, path: str) -> None:
    for kind in ("notebook", "file", "directory"):
        error = await ada.refused("create_document", path=path, type=kind)
        assert error["code"] == "invalid_argument"


async def test_a_file_cannot_contain_other_files(ada: AgentClient, root: Path, at: At) -> None:
    (root / "a.md").write_text("text")
    for path in ("a.md/b.md", "a.md/deep/b.md"):
        error = await ada.refused("create_document", path=at(path), type="file", content="x")
        assert error["code"] == "invalid_argument"
        assert repr(at("a.md")) in error["message"]
        for tool, new in (("rename_document", "newPath"), ("copy_document", "copyPath")):
            error = await ada.refused(tool, path=at("a.md"), **{new: at(path)})
            assert error["code"] == "invalid_argument"
    assert files_in(root) == {"a.md"}
    assert (root / "a.md").read_text() == "text"


async def test_existing_files_are_not_overwritten(ada: AgentClient, root: Path, at: At) -> None:
    (root / "a.md").write_text("text")
    notebooks.write(root / "n.ipynb", notebooks.numbered(1))
    (root / "folder").mkdir()
    before = (root / "n.ipynb").read_bytes()
    for kind, name in (
        ("file", "a.md"),
        ("markdown", "a.md"),
        ("directory", "a.md"),
        ("notebook", "n"),
        ("directory", "n.ipynb"),
        ("file", "folder"),
        ("directory", "folder"),
    ):
        error = await ada.refused("create_document", path=at(name), type=kind)
        assert error["code"] == "already_exists"
    # What is of another kind is not even overwritten if that is asked for.
    for kind, name in (("file", "folder"), ("directory", "a.md"), ("directory", "folder")):
        error = await ada.refused("create_document", path=at(name), type=kind, overwrite=True)
        assert error["code"] == "already_exists"
    error = await ada.refused("create_document", path=at("n.ipynb"), type="file", overwrite=True)
    assert error["code"] == "invalid_argument"
    assert (root / "a.md").read_text() == "text"
    assert (root / "n.ipynb").read_bytes() == before
    assert files_in(root) == {"a.md", "n.ipynb", "folder"}


async def test_an_overwritten_text_is_shown_at_once_and_can_be_undone(
    ada: AgentClient, root: Path, at: At, join: Join
) -> None:
    file = root / "a.md"
    file.write_text("# Title\n\nold words\n")
    ana = await join(file)
    new = "# Title\n\nnew words\n"
    made = await ada.ask(
        "create_document", path=at("a.md"), type="file", content=new, overwrite=True
    )
    assert "saved" not in made
    assert made["size"] == len(new)
    await until(lambda: file.read_text() == new)  # the server may save it once more
    await ana.until(lambda: ana.source() == new)
    await ada.ask("undo_agent_changes", path=at("a.md"))
    await ana.until(lambda: ana.source() == "# Title\n\nold words\n")
    await until(lambda: file.read_text() == "# Title\n\nold words\n")


async def test_copying_a_closed_file_leaves_it_unchanged(
    ada: AgentClient, root: Path, at: At
) -> None:
    """A server that saves it would give it other line ends, and another time."""
    file = root / "windows.txt"
    file.write_bytes(b"a\r\nb\r\n")
    before = file.stat().st_mtime_ns
    await ada.ask("copy_document", path=at("windows.txt"), copyPath=at("copy.txt"))
    assert file.read_bytes() == (root / "copy.txt").read_bytes() == b"a\r\nb\r\n"
    assert file.stat().st_mtime_ns == before
    await ada.ask("rename_document", path=at("windows.txt"), newPath=at("moved.txt"))
    assert (root / "moved.txt").read_bytes() == b"a\r\nb\r\n"


async def test_a_binary_file_may_be_overwritten_by_text(
    ada: AgentClient, root: Path, at: At
) -> None:
    (root / "a.dat").write_bytes(b"\xff\xfe\x00")
    await ada.ask("create_document", path=at("a.dat"), type="file", content="t", overwrite=True)
    assert (root / "a.dat").read_text() == "t"
    assert (await ada.ask("get_document", path=at("a.dat")))["content"] == "t"


async def test_overwriting_an_open_notebook_replaces_it_for_everybody(
    ada: AgentClient, root: Path, at: At, join: Join
) -> None:
    """Also for the agent itself: nothing of what it had not saved is done again in the new one."""
    file = root / "n.ipynb"
    notebooks.write(file, notebooks.numbered(3))
    ana = await join(file)
    await ada.write(at("n.ipynb"), "cell-00001", "not saved yet")
    new = notebooks.notebook([notebooks.code("cell-00001", "x = 1\n"), notebooks.code("b", "2")])
    await ada.ask("create_document", path=at("n.ipynb"), content=json.dumps(new), overwrite=True)
    assert await notebooks.whole_sources(file) == ["x = 1\n", "2"]
    assert await ada.sources(at("n.ipynb")) == ["x = 1\n", "2"]
    await ana.until(lambda: ana.sources() == ["x = 1\n", "2"])
    ana.insert(1, 1, "!")
    await ada.write(at("n.ipynb"), "cell-00001", "mine")
    await until(lambda: notebooks.sources(file) == ["mine", "2!"])


async def test_a_broken_notebook_may_be_overwritten(ada: AgentClient, root: Path, at: At) -> None:
    (root / "n.ipynb").write_text("{ broken")
    assert (await ada.refused("get_notebook", path=at("n.ipynb")))["code"] == "corrupt_document"
    error = await ada.refused("create_document", path=at("n.ipynb"))
    assert error["code"] == "already_exists"
    assert (root / "n.ipynb").read_text() == "{ broken"
    await ada.ask("create_document", path=at("n.ipynb"), content="1", overwrite=True)
    assert await ada.sources(at("n.ipynb")) == ["1"]


async def test_a_template_is_copied_without_its_outputs(
    ada: AgentClient, root: Path, at: At
) -> None:
    cells = [notebooks.code("one", "1", outputs=[OUTPUT], execution_count=4)]
    notebooks.write(root / "template.ipynb", notebooks.notebook(cells, metadata={"mine": 1}))
    await ada.ask("create_document", path=at("a.ipynb"), template=at("template.ipynb"))
    made = json.loads((root / "a.ipynb").read_text())
    assert made["cells"] == [{**notebooks.code("one", ""), "source": ["1"]}]
    assert made["metadata"]["mine"] == 1
    assert made["metadata"]["kernelspec"]["name"] == "python3"
    assert json.loads((root / "template.ipynb").read_text())["cells"][0]["outputs"]
    (root / "t.md").write_text("# Template é\r\n")
    await ada.ask("create_document", path=at("b"), type="markdown", template=at("t.md"))
    assert (root / "b.md").read_bytes() == "# Template é\r\n".encode()


async def test_a_template_must_exist_and_have_the_right_type(
    ada: AgentClient, root: Path, at: At
) -> None:
    (root / "t.md").write_text("text")
    (root / "t.bin").write_bytes(b"\xff\x00")
    (root / "large.txt").write_text("x" * 10_000_001)
    (root / "broken.ipynb").write_text("{")
    (root / "folder").mkdir()
    notebooks.write(root / "n.ipynb", notebooks.numbered(1))
    for kind, template, code in (
        ("notebook", "nowhere.ipynb", "document_not_found"),
        ("notebook", "t.md", "invalid_argument"),
        ("notebook", "broken.ipynb", "corrupt_document"),
        ("file", "n.ipynb", "invalid_argument"),
        ("file", "folder", "invalid_argument"),
        ("file", "t.bin", "not_text"),
        ("file", "large.txt", "too_large"),
        ("directory", "folder", "invalid_argument"),
        ("file", "../outside", "path_refused"),
    ):
        error = await ada.refused(
            "create_document", path=at("new/a"), type=kind, template=at(template)
        )
        assert error["code"] == code, template
    error = await ada.refused(
        "create_document", path=at("a"), type="file", template=at("t.md"), content="both"
    )
    assert error["code"] == "invalid_argument"
    there = {"t.md", "t.bin", "large.txt", "broken.ipynb", "folder", "n.ipynb"}
    assert files_in(root) == there


async def test_a_template_may_be_on_another_server(make_server: MakeServer) -> None:
    stock = {"jupyter_collaboration_mcp": False}
    async with (
        make_server(extensions=stock) as one,
        make_server(extensions=stock) as two,
        StandaloneProcess([one, two]) as command,
        agent(command) as ada,
    ):
        notebooks.write(Path(two.root) / "template.ipynb", notebooks.numbered(2))
        await ada.ask("create_document", path="s1:copy.ipynb", template="s2:template.ipynb")
        assert notebooks.sources(Path(one.root) / "copy.ipynb") == ["x = 0\n", "x = 1\n"]
        error = await ada.refused("copy_document", path="s1:copy.ipynb", copyPath="s2:copy.ipynb")
        assert error["code"] == "invalid_argument"
        # Without an alias the new path is on the server of the old one.
        await ada.ask("copy_document", path="s2:template.ipynb", copyPath="other.ipynb")
        assert (Path(two.root) / "other.ipynb").exists()
        assert not (Path(one.root) / "other.ipynb").exists()


# -- describe ---------------------------------------------------------------------------------

FIELDS = {
    *("name", "path", "type", "format", "created", "last_modified", "size", "writable"),
    *("mimetype", "content"),
}


async def test_a_text_file_is_described(ada: AgentClient, root: Path, at: At, join: Join) -> None:
    (root / "a.md").write_text("# é")
    told = await ada.ask("get_document_info", path=at("a.md"))
    assert set(told) >= FIELDS
    assert told["created"].startswith("20")
    assert told["last_modified"].startswith("20")
    wanted = {
        "name": "a.md",
        "path": at("a.md"),
        "type": "file",
        "format": "text",
        "size": 4,
        "writable": True,
        "mimetype": "text/markdown",
        "content": "# é",
    }
    assert {key: told[key] for key in wanted} == wanted
    await join(root / "a.md")

    async def look() -> dict[str, Any]:
        return await ada.ask("get_document_info", path=at("a.md"))

    told = await eventually(look, lambda told: "Ana" in told["people"])
    assert told["open"]
    (root / "no-ending").write_text("text")
    told = await ada.ask("get_document_info", path=at("no-ending"), max_content_length=0)
    assert (told["mimetype"], told["content"]) == ("text/plain", None)


async def test_a_notebook_and_a_folder_are_described(ada: AgentClient, root: Path, at: At) -> None:
    notebooks.write(root / "n.ipynb", notebooks.numbered(3))
    told = await ada.ask("get_document_info", path=at("n.ipynb"))
    assert set(told) >= FIELDS
    assert (told["type"], told["format"], told["writable"]) == ("notebook", "json", True)
    assert told["size"] == (root / "n.ipynb").stat().st_size
    assert "cell-00002" in told["content"]
    (root / "sub").mkdir()
    (root / "sub" / "a.md").touch()
    for path in (at(""), root.name):
        told = await ada.ask("get_document_info", path=path)
        assert set(told) >= FIELDS
        assert (told["type"], told["format"], told["size"]) == ("directory", "json", None)
        assert told["content"] == "n.ipynb\nsub"
    told = await ada.ask("get_document_info", path="")
    assert told["type"] == "directory"


async def test_files_that_cannot_be_shown_are_described_too(
    ada: AgentClient, root: Path, at: At
) -> None:
    (root / "a.png").write_bytes(PICTURE)
    (root / "blob").write_bytes(b"\xff\x00\xfe")
    (root / "broken.ipynb").write_text("{")
    told = await ada.ask("get_document_info", path=at("a.png"))
    assert set(told) >= FIELDS
    assert (told["format"], told["mimetype"], told["content"]) == ("base64", "image/png", None)
    assert told["size"] == len(PICTURE)
    told = await ada.ask("get_document_info", path=at("blob"))
    assert told["mimetype"] == "application/octet-stream"
    told = await ada.ask("get_document_info", path=at("broken.ipynb"))
    assert (told["type"], told["size"], told["content"]) == ("notebook", 1, None)


async def test_the_description_matches_the_files_current_content(
    ada: AgentClient, root: Path, at: At
) -> None:
    """Its size is looked up on disk, and its content in a room."""
    text, notebook = root / "a.md", root / "n.ipynb"
    for number in range(3):
        text.write_text(f"{'longer ' * number}{number}\n")
        notebooks.write(notebook, notebooks.numbered(number + 1))
        told = await ada.ask("get_document_info", path=at("a.md"))
        assert (told["content"], told["size"]) == (text.read_text(), text.stat().st_size)
        told = await ada.ask("get_document_info", path=at("n.ipynb"))
        assert f"x = {number}" in told["content"]
        assert told["size"] == notebook.stat().st_size


async def test_a_huge_file_is_never_shown_whole(ada: AgentClient, root: Path, at: At) -> None:
    (root / "long.txt").write_text("line\n" * 400_000)
    told = await ada.ask("get_document_info", path=at("long.txt"))
    assert len(told["content"]) < 2100
    assert told["size"] == 2_000_000
    told = await ada.ask("get_document_info", path=at("long.txt"), max_content_length=10**9)
    assert len(told["content"]) < 101_000
    with (root / "huge.txt").open("wb") as file:
        file.truncate(1 << 30)
    told = await ada.ask("get_document_info", path=at("huge.txt"))
    assert (told["size"], told["content"]) == (1 << 30, None)
    assert (await ada.refused("get_document", path=at("huge.txt")))["code"] == "too_large"
    many = root / "many"
    many.mkdir()
    for number in range(1500):
        (many / f"{'n' * 100}{number}").touch()
    told = await ada.ask("get_document_info", path=at("many"))
    assert len(told["content"]) < 2100


async def test_document_exists_reports_whether_a_path_exists(
    ada: AgentClient, root: Path, at: At
) -> None:
    (root / "a.md").touch()
    for path, exists in (("a.md", True), ("", True), ("b.md", False), ("a.md/b", False)):
        assert (await ada.ask("document_exists", path=at(path)))["exists"] is exists
    assert (await ada.ask("document_exists", path=""))["exists"]
    assert (await ada.refused("document_exists", path="../a"))["code"] == "path_refused"
    for tool, more in (
        ("get_document_info", {}),
        ("delete_document", {}),
        ("rename_document", {"newPath": at("c.md")}),
        ("copy_document", {"copyPath": at("c.md")}),
    ):
        error = await ada.refused(tool, path=at("b.md"), **more)
        assert error["code"] == "document_not_found"


# -- copy -------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=WAYS)
async def lazy(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    """A server that does not save by itself in the time of a test."""
    async with served(make_server, request.param, LAZY) as process:
        yield process


async def test_a_copy_includes_unsaved_edits(lazy: JupyterProcess) -> None:
    root = Path(lazy.root)
    (root / "text.md").write_text("one\n")
    notebooks.write(root / "n.ipynb", notebooks.numbered(2))
    async with (
        agent(lazy) as ada,
        Collaborator(lazy.url, lazy.token, "text.md", kind="file") as ana,
        Collaborator(lazy.url, lazy.token, "n.ipynb") as bea,
    ):
        ana.insert(None, 0, "Ana's ")
        bea.insert(0, 0, "Bea's ")
        await ana.flush()
        await bea.flush()
        operation = {"old_text": "one", "new_text": "and Ada's"}
        await ada.ask("batch_update_document", path="text.md", operations=[operation])
        await ada.write("n.ipynb", "cell-00001", "Ada's")
        # Nobody has saved it yet, unless this machine was so busy that we did, after four seconds.
        assert (root / "text.md").read_text() in ("one\n", "Ana's and Ada's\n")
        told = await ada.ask("copy_document", path="text.md", copyPath="made/copy.md")
        assert (told["path"], told["source_path"]) == ("made/copy.md", "text.md")
        assert told["folders"] == ["made"]
        assert (root / "made" / "copy.md").read_text() == "Ana's and Ada's\n"
        await ada.ask("copy_document", path="n.ipynb", copyPath="copy.ipynb")
        assert notebooks.sources(root / "copy.ipynb") == ["Bea's x = 0\n", "Ada's"]
        # The original stays what it was, and where its people are.
        ana.insert(None, 0, "later: ")
        await ana.flush()
        assert (await ada.ask("get_document", path="text.md"))["content"] == (
            "later: Ana's and Ada's\n"
        )
        assert (await ada.ask("get_document", path="made/copy.md"))["content"] == (
            "Ana's and Ada's\n"
        )


async def test_a_copy_includes_a_persons_unsaved_edits(lazy: JupyterProcess) -> None:
    root = Path(lazy.root)
    (root / "alone.md").write_text("old\n")
    notebooks.write(root / "alone.ipynb", notebooks.numbered(1))
    async with (
        agent(lazy) as ada,
        Collaborator(lazy.url, lazy.token, "alone.md", kind="file") as ana,
        Collaborator(lazy.url, lazy.token, "alone.ipynb") as bea,
    ):
        ana.insert(None, 0, "Ana's ")
        bea.insert(0, 0, "Bea's ")
        await ana.flush()
        await bea.flush()
        assert (root / "alone.md").read_text() == "old\n"
        await ada.ask("copy_document", path="alone.md", copyPath="alone-copy.md")
        await ada.ask("copy_document", path="alone.ipynb", copyPath="alone-copy.ipynb")
        assert (root / "alone-copy.md").read_text() == "Ana's old\n"
        assert notebooks.sources(root / "alone-copy.ipynb") == ["Bea's x = 0\n"]


async def test_a_constantly_edited_file_is_copied_completely(lazy: JupyterProcess) -> None:
    """A large file takes longer to save than somebody needs for the next letter."""
    if lazy.standalone is not None:
        pytest.skip("a server without the extension copies what is there")
    root, lines = Path(lazy.root), "a line of a large file\n" * 170_000
    (root / "restless.md").write_text(lines)
    async with (
        agent(lazy) as ada,
        Collaborator(lazy.url, lazy.token, "restless.md", kind="file") as ana,
    ):
        typed = 0
        for number in range(5):
            path = f"restless-{number}.md"
            copying = asyncio.create_task(
                ada.ask("copy_document", path="restless.md", copyPath=path)
            )
            before = typed
            while not copying.done():
                ana.insert(None, 0, "A")
                await ana.flush()
                typed += 1
            await copying
            letters = (root / path).read_text().removesuffix(lines)
            assert set(letters) <= {"A"}
            assert before <= len(letters) <= typed
        assert typed > 5


async def test_a_copy_of_a_folder_has_all_its_content(lazy: JupyterProcess) -> None:
    folder = Path(lazy.root) / "project"
    (folder / "data" / "empty").mkdir(parents=True)
    (folder / "a.md").write_text("old\n")
    (folder / "data" / "a.png").write_bytes(PICTURE)
    (folder / "data" / "b.txt").write_bytes(b"one\r\ntwo\r\n")
    async with agent(lazy) as ada:
        operation = {"content": "and Ada's\n"}
        await ada.ask("batch_update_document", path="project/a.md", operations=[operation])
        told = await ada.ask("copy_document", path="project", copyPath="copies/project")
        assert told["folders"] == ["copies"]
        copy = Path(lazy.root) / "copies" / "project"
        assert files_in(copy) == files_in(folder)
        assert (copy / "a.md").read_text() == "old\nand Ada's\n"
        assert (copy / "data" / "a.png").read_bytes() == PICTURE
        assert (copy / "data" / "b.txt").read_bytes() == b"one\r\ntwo\r\n"
        for target in ("project", "project/data/in", "project/new"):
            error = await ada.refused("copy_document", path="project", copyPath=target)
            assert error["code"] == "invalid_argument"
        assert files_in(copy) == files_in(folder)


async def test_a_copy_overwrites_nothing(ada: AgentClient, root: Path, at: At) -> None:
    (root / "a.md").write_text("a")
    (root / "b.md").write_text("b")
    (root / "folder").mkdir()
    for target in ("b.md", "folder"):
        error = await ada.refused("copy_document", path=at("a.md"), copyPath=at(target))
        assert error["code"] == "already_exists"
    error = await ada.refused("copy_document", path=at("folder"), copyPath=at("b.md"))
    assert error["code"] == "already_exists"
    error = await ada.refused("copy_document", path=at("a.md"), copyPath=at("a.md"))
    assert error["code"] == "invalid_argument"
    assert (root / "b.md").read_text() == "b"
    assert files_in(root) == {"a.md", "b.md", "folder"}


async def test_a_large_file_is_copied_while_the_server_answers_others(
    server: JupyterProcess, ada: AgentClient, root: Path, at: At
) -> None:
    content = os.urandom(50_000_000)
    (root / "large.bin").write_bytes(content)
    async with httpx2.AsyncClient(headers=server.headers, timeout=60) as http:
        copying = asyncio.create_task(
            ada.ask("copy_document", path=at("large.bin"), copyPath=at("copy.bin"))
        )
        answered = 0
        while not copying.done():
            answer = await http.get(f"{server.url}api/status")
            assert answer.status_code == 200
            answered += 1
        await copying
    assert answered
    assert (root / "copy.bin").read_bytes() == content
    assert files_in(root) == {"large.bin", "copy.bin"}
