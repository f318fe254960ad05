"""Paths, names, links and disks that are not as one would wish: right, or a clear error."""

from __future__ import annotations

import json
import os
import re
import subprocess
import unicodedata
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent, structured_address
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import eventually
from tests.harness.waiting import until
from tests.transport.conftest import HEADERS, modern_call

pytestmark = pytest.mark.anyio

At = Callable[[str], str]
Disk = Callable[..., Path]

PAGE = 4096


@pytest.fixture
def root(server: JupyterProcess, request: pytest.FixtureRequest) -> Path:
    """A folder of this test's own, which is in the server's root."""
    folder = Path(server.root) / re.sub(r"\W", "-", request.node.name)
    folder.mkdir()
    return folder


@pytest.fixture
def at(root: Path) -> At:
    """The path of something in this test's folder."""
    return lambda path: f"{root.name}/{path}"


@pytest.fixture
def disk(root: Path) -> Iterator[Disk]:
    """Puts a small disk into the test's folder."""
    mounted: list[Path] = []

    def mount(size: str = "1m") -> Path:
        folder = root / "disk"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("a disk can only be mounted by root")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path, pages: int = 0) -> None:
    """Leave only so many pages free."""
    free = os.statvfs(disk).f_bavail - pages
    with (disk / "filler").open("ab") as file:
        file.write(b"f" * PAGE * free)


def write_protect(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


def files_in(folder: Path) -> set[str]:
    """All that is in a folder but for what Jupyter keeps there for itself."""
    paths = (path.relative_to(folder) for path in folder.rglob("*"))
    return {str(path) for path in paths if not any(part.startswith(".") for part in path.parts)}


async def append(ada: AgentClient, path: str, text: str) -> dict[str, Any]:
    return await ada.ask("batch_update_document", path=path, operations=[{"content": text}])


async def read(ada: AgentClient, path: str) -> str:
    return str((await ada.ask("get_document", path=path))["content"])


# -- paths ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "../outside.md",
        "in/../../outside.md",
        "%2e%2e%2foutside.md",
        "%252e%252e%252foutside.md",
        "..\\outside.md",
        "in/%2e%2e/x.md",
        "nul\0l.md",
    ],
)
async def test_a_path_out_of_the_root_is_refused_everywhere(
    server: JupyterProcess, ada: AgentClient, root: Path, at: At, path: str
) -> None:
    (root / "a.md").write_text("text")
    outside = Path(server.root).parent / "outside.md"
    outside.write_text("not yours")
    for tool, arguments in (
        ("create_document", {"path": path, "type": "file"}),
        ("create_document", {"path": path, "type": "file", "overwrite": True, "content": "x"}),
        ("create_document", {"path": at("b.md"), "type": "file", "template": path}),
        ("get_document_info", {"path": path}),
        ("get_document", {"path": path}),
        ("document_exists", {"path": path}),
        ("delete_document", {"path": path}),
        ("rename_document", {"path": path, "newPath": at("b.md")}),
        ("rename_document", {"path": at("a.md"), "newPath": path}),
        ("copy_document", {"path": path, "copyPath": at("b.md")}),
        ("copy_document", {"path": at("a.md"), "copyPath": path}),
        ("list_documents", {"path": path}),
    ):
        error = await ada.refused(tool, **arguments)
        assert error["code"] == "path_refused", tool
    assert outside.read_text() == "not yours"
    assert files_in(root) == {"a.md"}


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("../outside.md", "leads out of the server's root"),
        ("in/%2e%2e/%2e%2e/x.md", "leads out of the server's root"),
        ("in/../x.md", "has '..' in it"),
        ("nul\0l.md", "has a NUL character in it"),
        ("half a 😀 \ud83d.md", "has half of a surrogate pair in it"),
    ],
    ids=["out", "encoded", "up", "nul", "surrogate"],
)
async def test_the_error_says_what_is_wrong_with_a_path(
    server: JupyterProcess, root: Path, at: At, path: str, says: str
) -> None:
    (root / "a.md").write_text("text")
    url, credentials = structured_address(server)
    async with httpx2.AsyncClient(
        headers={**HEADERS, **credentials}, timeout=60, verify=False
    ) as http:
        for tool, arguments in (
            ("create_document", {"path": path, "type": "file"}),
            ("get_document", {"path": path}),
            ("get_notebook", {"path": path}),
            ("document_exists", {"path": path}),
            ("delete_document", {"path": path}),
            ("rename_document", {"path": at("a.md"), "newPath": path}),
            ("list_documents", {"path": path}),
            ("batch_update_document", {"path": path, "operations": [{"content": "x"}]}),
        ):
            body, headers = modern_call(tool, **arguments)
            # The SDK's own client cannot even send half a character; JSON can.
            answer = await http.post(url, content=json.dumps(body), headers=headers)
            error = answer.json()["result"]["structuredContent"]["error"]
            assert error["code"] == "path_refused", tool
            assert says in error["message"], tool
    assert files_in(root) == {"a.md"}


async def test_an_absolute_path_starts_at_the_root(ada: AgentClient, root: Path, at: At) -> None:
    (root / "a.md").write_text("text")
    assert await read(ada, f"/{at('a.md')}") == "text"
    assert await read(ada, f"./{root.name}//./a.md/") == "text"
    assert not (await ada.ask("document_exists", path="/etc/passwd"))["exists"]
    await ada.ask("create_document", path=f"/{at('etc/b.md')}", type="file")
    assert files_in(root) == {"a.md", "etc", "etc/b.md"}


async def test_hidden_files_are_neither_created_nor_touched(
    ada: AgentClient, root: Path, at: At
) -> None:
    (root / ".env").write_text("secret")
    (root / ".git").mkdir()
    (root / "a.md").write_text("text")
    for path in (".env", ".new.md", ".git/hooks/x", ".new/x", "in/.x/y"):
        for more in ({}, {"overwrite": True}):
            await ada.refused("create_document", path=at(path), type="file", content="x", **more)
        await ada.refused("create_document", path=at(path), type="directory")
        await ada.refused("rename_document", path=at("a.md"), newPath=at(path))
        await ada.refused("copy_document", path=at("a.md"), copyPath=at(path))
        await ada.refused("delete_document", path=at(path))
        assert not (await ada.ask("document_exists", path=at(path)))["exists"]
    assert (root / ".env").read_text() == "secret"
    assert (root / "a.md").read_text() == "text"
    shown = {path.name for path in root.iterdir()} - {".ipynb_checkpoints", ".jupyter"}
    assert shown == {".env", ".git", "a.md"}
    assert not list((root / ".git").iterdir())


# -- links ------------------------------------------------------------------------------------


async def test_links_that_leave_the_root_are_refused_by_the_extension(
    server: JupyterProcess, ada: AgentClient, root: Path, at: At, tmp_path: Path
) -> None:
    """Through the extension they are refused; a server itself follows them."""
    (tmp_path / "b.md").write_text("not yours")
    (root / "out").symlink_to(tmp_path)
    (root / "out.md").symlink_to(tmp_path / "b.md")
    (root / "a.md").write_text("mine")
    listed = await ada.ask("list_documents", path=root.name)
    found = await ada.ask("list_documents", path=root.name, path_filter="b.md")
    if server.standalone is not None:
        assert await read(ada, at("out/b.md")) == "not yours"
        return
    assert [entry["name"] for entry in listed["documents"]] == ["a.md"]
    assert found["documents"] == []
    operation = {"content": "mine"}
    for path in ("out.md", "out/b.md", "out/new.md", "out"):
        for tool, arguments in (
            ("get_document", {}),
            ("get_document_info", {}),
            ("batch_update_document", {"operations": [operation]}),
            ("create_document", {"type": "file", "content": "x"}),
            ("create_document", {"type": "file", "content": "x", "overwrite": True}),
            ("create_document", {"type": "directory"}),
            ("delete_document", {"recursive": True}),
            ("rename_document", {"newPath": at("c.md")}),
            ("copy_document", {"copyPath": at("c.md")}),
            ("list_documents", {}),
            ("document_exists", {}),
        ):
            error = await ada.refused(tool, path=at(path), **arguments)
            assert error["code"] == "path_refused", (tool, path)
        error = await ada.refused("copy_document", path=at("a.md"), copyPath=at(f"{path}/x"))
        assert error["code"] == "path_refused"
        error = await ada.refused("rename_document", path=at("a.md"), newPath=at(f"{path}/x"))
        assert error["code"] == "path_refused"
    assert (tmp_path / "b.md").read_text() == "not yours"
    assert {path.name for path in tmp_path.iterdir()} == {"b.md"}
    # A copy of the folder has the links, and not what they lead to.
    await ada.ask("copy_document", path=root.name, copyPath=f"{root.name}-copy")
    copy = root.with_name(f"{root.name}-copy")
    assert (copy / "out").is_symlink()
    assert (copy / "a.md").read_text() == "mine"


async def test_links_within_the_root_work(ada: AgentClient, root: Path, at: At) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "a.md").write_text("text\n")
    (root / "link.md").symlink_to("folder/a.md")
    (root / "linked").symlink_to("folder")
    assert await read(ada, at("link.md")) == "text\n"
    await append(ada, at("link.md"), "more\n")
    await until(lambda: (root / "folder" / "a.md").read_text() == "text\nmore\n")
    assert (root / "link.md").is_symlink()
    await ada.ask("create_document", path=at("linked/b.md"), type="file", content="b")
    assert (root / "folder" / "b.md").read_text() == "b"
    await ada.ask("rename_document", path=at("linked/b.md"), newPath=at("c.md"))
    assert (root / "c.md").read_text() == "b"
    await ada.ask("copy_document", path=at("link.md"), copyPath=at("copy.md"))
    assert (root / "copy.md").read_text() == "text\nmore\n"
    await ada.ask("delete_document", path=at("link.md"))
    assert not (root / "link.md").is_symlink()
    assert (root / "folder" / "a.md").exists()


async def test_a_file_is_one_document_under_all_its_links(
    server: JupyterProcess, ada: AgentClient, root: Path, at: At
) -> None:
    """Each of two rooms would overwrite what the other saves."""
    if server.standalone is not None:
        pytest.skip("from outside of a server, a link looks like a file")
    (root / "folder").mkdir()
    real = root / "folder" / "real.md"
    real.write_text("old\n")
    (root / "alias.md").symlink_to("folder/real.md")
    (root / "linked").symlink_to("folder")
    names = [at("alias.md"), at("folder/real.md"), at("linked/real.md")]
    rooms = {(await ada.ask("create_document_session", path=name))["room_id"] for name in names}
    assert len(rooms) == 1
    for name in names:
        assert (await append(ada, name, f"through {name}\n"))["path"] == name
        await until(lambda name=name: f"through {name}" in real.read_text())  # type: ignore[misc]
    whole = "".join(["old\n", *(f"through {name}\n" for name in names)])
    assert real.read_text() == whole
    for name in names:
        facts = await ada.ask("get_document_info", path=name)
        assert (facts["path"], facts["content"], facts["open"]) == (name, whole, True)
        assert facts["size"] == len(whole)


async def test_links_to_a_hidden_file_share_one_document_too(
    server: JupyterProcess, ada: AgentClient, root: Path, at: At
) -> None:
    """As git-annex and others leave them; what is hidden cannot be opened by its own name."""
    if server.standalone is not None:
        pytest.skip("from outside of a server, a link looks like a file")
    (root / ".store").mkdir()
    (root / ".store" / "a.md").write_text("old\n")
    for name in ("one.md", "two.md"):
        (root / name).symlink_to(".store/a.md")
        await append(ada, at(name), f"{name}\n")
    assert await read(ada, at("one.md")) == await read(ada, at("two.md")) == "old\none.md\ntwo.md\n"
    (root / ".store" / "a.md").write_text("changed\n")
    assert (await read(ada, at("one.md"))).startswith("changed\n")


async def test_a_link_to_a_file_that_is_too_large_is_not_opened(
    server: JupyterProcess, ada: AgentClient, root: Path, at: At
) -> None:
    if server.standalone is not None:
        pytest.skip("from outside of a server, a link looks like a file")
    (root / "large.txt").write_text("x" * 10_000_001)
    (root / "link.txt").symlink_to("large.txt")
    error = await ada.refused("get_document", path=at("link.txt"))
    assert error["code"] == "too_large"
    assert repr(at("link.txt")) in error["message"]
    facts = await ada.ask("get_document_info", path=at("link.txt"))
    assert (facts["size"], facts["content"]) == (10_000_001, None)


async def test_a_link_has_the_type_of_its_target_whatever_its_name(
    server: JupyterProcess, ada: AgentClient, root: Path, at: At
) -> None:
    """As a text and as a notebook it would overwrite itself."""
    if server.standalone is not None:
        pytest.skip("from outside of a server, a link looks like a file")
    notebooks.write(root / "n.ipynb", notebooks.numbered(1))
    (root / "n.json").symlink_to("n.ipynb")
    assert (await ada.refused("get_document", path=at("n.json")))["code"] == "not_text"
    async with Collaborator(server.url, server.token, at("n.json"), kind="file") as ana:
        await ana.flush()  # the server knows her name
        error = await ada.refused("get_notebook", path=at("n.ipynb"))
        assert error["code"] == "in_use"
        assert ana.name in error["message"]
    assert len((await ada.ask("get_notebook", path=at("n.json")))["cells"]) == 1


async def test_a_notebook_has_one_kernel_under_all_its_links(
    server: JupyterProcess, ada: AgentClient, root: Path, at: At
) -> None:
    if server.standalone is not None:
        pytest.skip("from outside of a server, a link looks like a file")
    notebooks.write(root / "n.ipynb", notebooks.numbered(1))
    (root / "alias.ipynb").symlink_to("n.ipynb")
    await ada.ask("run_code", path=at("n.ipynb"), code="here = 41")
    told = await ada.ask("run_code", path=at("alias.ipynb"), code="here + 1")
    assert "42" in str(told)


async def test_a_folder_cannot_be_moved_into_itself_through_a_link(
    server: JupyterProcess, ada: AgentClient, root: Path, at: At
) -> None:
    """Jupyter would copy it there, and then delete it with the copy."""
    if server.standalone is not None:
        pytest.skip("from outside of a server, a link looks like a folder")
    (root / "folder").mkdir()
    (root / "folder" / "a.md").write_text("text")
    (root / "link").symlink_to("folder")
    error = await ada.refused("rename_document", path=at("folder"), newPath=at("link/in"))
    assert error["code"] == "invalid_argument"
    assert (root / "folder" / "a.md").read_text() == "text"
    # The link itself may go there.
    await ada.ask("rename_document", path=at("link"), newPath=at("folder/link"))
    assert (root / "folder" / "link").is_symlink()


async def test_a_broken_link_is_neither_followed_nor_overwritten(
    ada: AgentClient, root: Path, at: At
) -> None:
    (root / "a.md").write_text("text")
    (root / "nowhere").symlink_to("nothing.md")
    for tool, arguments in (
        ("create_document", {"path": at("nowhere"), "type": "directory"}),
        ("create_document", {"path": at("nowhere"), "type": "file"}),
        ("rename_document", {"path": at("a.md"), "newPath": at("nowhere")}),
        ("copy_document", {"path": at("a.md"), "copyPath": at("nowhere")}),
    ):
        error = await ada.refused(tool, **arguments)
        assert error["code"] == "already_exists"
    await ada.refused("get_document", path=at("nowhere"))
    assert (root / "nowhere").is_symlink()
    assert not (root / "nothing.md").exists()
    assert (root / "a.md").read_text() == "text"


# -- names ------------------------------------------------------------------------------------

NAMES = [
    "100% sure.md",
    "a%20b%2Fc.md",
    "hash#tag.md",
    "what?.md",
    "a&b=c+d.md",
    "two  spaces .md",
    " leading and trailing ",
    "quote'\"`.md",
    "semi;colon,comma.md",
    "a:b.md",
    "s1:b.md",
    "br[ack]et{s}.md",
    "st*ar~.md",
    "$HOME and $(date).md",
    "<tag>|.md",
    "new\nline.md",
    unicodedata.normalize("NFC", "Äé.md"),
    unicodedata.normalize("NFD", "Äé.md"),
    "😀👩‍💻.md",
    "שלום.md",
    "checkpoints",
    "trust",
    "-rf",
    "ÿ" * 120 + ".md",
]


@pytest.mark.parametrize("name", NAMES)
async def test_files_may_have_any_name(ada: AgentClient, root: Path, at: At, name: str) -> None:
    made = await ada.ask("create_document", path=at(f"in/{name}"), type="file", content="text\n")
    assert (made["name"], made["path"]) == (name, at(f"in/{name}"))
    assert {path.name for path in (root / "in").iterdir()} == {name}
    (listed,) = (await ada.ask("list_documents", path=at("in")))["documents"]
    assert listed["name"] == name
    path = str(listed["path"])
    assert (await ada.ask("get_document_info", path=path))["content"] == "text\n"
    await append(ada, path, "more\n")
    assert await read(ada, path) == "text\nmore\n"
    await ada.ask("copy_document", path=path, copyPath=at(f"copy/{name}"))
    assert (root / "copy" / name).read_text() == "text\nmore\n"
    await ada.ask("rename_document", path=path, newPath=at(f"moved/{name}"))
    assert await read(ada, at(f"moved/{name}")) == "text\nmore\n"
    # The same name for a folder, with something in it that is open.
    await ada.ask("create_document", path=at(f"{name}/{name}"), type="file", content="in\n")
    await append(ada, at(f"{name}/{name}"), "it\n")
    assert await read(ada, at(f"{name}/{name}")) == "in\nit\n"
    (found,) = (await ada.ask("list_documents", path=at(name)))["documents"]
    assert found["name"] == name
    await ada.ask("delete_document", path=at(f"moved/{name}"))
    await ada.ask("delete_document", path=at(name), recursive=True)
    assert not (await ada.ask("document_exists", path=at(f"moved/{name}")))["exists"]
    assert files_in(root) == {"in", "copy", f"copy/{name}", "moved"}


async def test_a_name_with_a_backslash_is_not_mistaken_for_another_file(
    ada: AgentClient, root: Path, at: At
) -> None:
    """jupyter-server-fileid takes it for a slash, on all systems."""
    (root / "back").mkdir()
    (root / "back" / "slash.md").write_text("another file")
    await ada.ask("create_document", path=at("back\\slash.md"), type="file", content="text")
    error = await ada.refused("get_document", path=at("back\\slash.md"))
    assert error["code"] == "path_refused"
    await ada.ask("rename_document", path=at("back\\slash.md"), newPath=at("a.md"))
    assert await read(ada, at("a.md")) == "text"
    assert await read(ada, at("back/slash.md")) == "another file"


async def test_a_notebook_may_have_any_name(ada: AgentClient, root: Path, at: At) -> None:
    name = "it's 100% #1? é😀.ipynb"
    await ada.ask("create_document", path=at(name), content="1")
    assert await ada.sources(at(name)) == ["1"]
    await ada.ask("rename_document", path=at(name), newPath=at("checkpoints/trust.ipynb"))
    assert await ada.sources(at("checkpoints/trust.ipynb")) == ["1"]
    assert notebooks.sources(root / "checkpoints" / "trust.ipynb") == ["1"]


async def test_two_unicode_forms_of_a_letter_are_two_names(
    ada: AgentClient, root: Path, at: At
) -> None:
    one, other = (unicodedata.normalize(form, "é.md") for form in ("NFC", "NFD"))
    for name in (one, other):
        await ada.ask("create_document", path=at(name), type="file", content=ascii(name))
    if len(list(root.iterdir())) < 2:
        pytest.skip("they are one on this file system")
    assert await read(ada, at(one)) == ascii(one)
    assert await read(ada, at(other)) == ascii(other)


@pytest.mark.parametrize("length", [252, 300, 5000])
async def test_a_name_that_is_too_long_gives_an_error_and_leaves_nothing_behind(
    ada: AgentClient, root: Path, at: At, length: int
) -> None:
    """Of 252 bytes it can be written, and not put into the trash."""
    (root / "a.md").write_text("text")
    name = "n" * length
    error = None
    if length > 255:
        for tool, arguments in (
            ("create_document", {"path": at(f"new/in/{name}"), "type": "file"}),
            ("create_document", {"path": at(f"new/{name}/in"), "type": "directory"}),
            ("rename_document", {"path": at("a.md"), "newPath": at(f"new/{name}")}),
            ("copy_document", {"path": at("a.md"), "copyPath": at(f"new/{name}")}),
        ):
            error = await ada.refused(tool, **arguments)
            assert error["code"] == ("too_large" if length > 1000 else "file_failed")
        assert files_in(root) == {"a.md"}
    else:
        await ada.ask("create_document", path=at(name), type="file", content="text\n")
        await append(ada, at(name), "more\n")
        error = await ada.refused("delete_document", path=at(name))
        assert error["code"] == "file_failed"
        assert "long" in error["message"]
        # It is still there, and still live.
        await append(ada, at(name), "and more\n")
        await until(lambda: (root / name).read_text() == "text\nmore\nand more\n")
    assert (root / "a.md").read_text() == "text"


async def test_a_name_that_is_not_valid_text_hides_nothing_else(
    ada: AgentClient, root: Path, at: At
) -> None:
    (root / "good.md").write_text("text")
    try:
        Path(os.fsdecode(os.fsencode(root) + b"/bad\xff.md")).touch()
    except OSError:
        pytest.skip("this file system has only names that are text")
    for more in ({}, {"path_filter": "md"}):
        listed = await ada.ask("list_documents", path=root.name, **more)
        assert [entry["name"] for entry in listed["documents"]] == ["good.md"]
    info = await ada.ask("get_document_info", path=root.name)
    assert info["content"] == "good.md"


@pytest.mark.parametrize(
    "content", ['{"a": [1, null]}', "[1, 2]", "null", "true", "1.50", '"text"', "{}", ""]
)
async def test_text_that_looks_like_json_is_stored_unchanged(
    ada: AgentClient, root: Path, at: At, content: str
) -> None:
    """The SDK would parse it, because the argument may be missing."""
    await ada.ask("create_document", path=at("a.json"), type="file", content=content)
    assert (root / "a.json").read_text() == content


# -- what configuration keeps from agents -----------------------------------------------------

RULES = {"denied_paths": ["*.key", "private", "private/*", "*/kept"]}


@pytest.fixture(scope="module")
async def guarded(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    async with make_server(config={"JupyterCollaborationMCP": RULES}) as process:
        yield process


async def test_a_backslash_does_not_bypass_denied_paths(
    guarded: JupyterProcess,
) -> None:
    """The ids of files take it for a slash: it would lead to a room that is open."""
    file = Path(guarded.root) / "open.md"
    file.write_text("secret")
    (file.parent / "private").mkdir(exist_ok=True)
    async with (
        agent(guarded) as ada,
        httpx2.AsyncClient(headers=guarded.headers, timeout=60, verify=False) as http,
    ):
        await ada.ask("get_document", path="open.md")
        url = f"{guarded.url}api/contents/open.md"
        (await http.patch(url, json={"path": "private/open.md"})).raise_for_status()
        for path, code in (
            ("private/open.md", "permission_refused"),
            ("private\\open.md", "document_not_found"),
        ):
            assert (await ada.refused("get_document", path=path))["code"] == code
            error = await ada.refused(
                "batch_update_document", path=path, operations=[{"content": "x"}]
            )
            assert error["code"] == code
    assert (file.parent / "private" / "open.md").read_text() == "secret"


@pytest.mark.parametrize(
    "kept", ["a.key", "in/a.key", ".hidden/a.key", ".a.key", "__pycache__/a.key", "in/kept/"]
)
async def test_a_folder_with_a_denied_path_stays_unchanged(
    guarded: JupyterProcess, kept: str
) -> None:
    folder = Path(guarded.root) / re.sub(r"\W", "-", kept)
    (folder / kept).parent.mkdir(parents=True, exist_ok=True)
    (folder / "b.md").write_text("text")
    if kept.endswith("/"):
        (folder / kept).mkdir()
    else:
        (folder / kept).write_text("secret")
    async with agent(guarded) as ada:
        for tool, arguments in (
            ("delete_document", {"recursive": True}),
            ("rename_document", {"newPath": "elsewhere"}),
            ("copy_document", {"copyPath": "elsewhere"}),
        ):
            error = await ada.refused(tool, path=folder.name, **arguments)
            assert error["code"] == "permission_refused", tool
        assert (folder / kept).exists()
        assert not (Path(guarded.root) / "elsewhere").exists()
        # What is allowed in it can be worked with.
        await ada.ask("rename_document", path=f"{folder.name}/b.md", newPath=f"{folder.name}/c.md")
        await ada.ask("delete_document", path=f"{folder.name}/c.md")


async def test_denied_paths_are_neither_listed_nor_touched(
    guarded: JupyterProcess,
) -> None:
    root = Path(guarded.root)
    (root / "private").mkdir(exist_ok=True)
    (root / "private" / "a.md").write_text("secret")
    (root / "top.key").write_text("secret")
    (root / "seen.md").write_text("text")
    async with agent(guarded) as ada:
        for more in ({}, {"path_filter": "*"}, {"file_type": "directory"}):
            listed = await ada.ask("list_documents", **more)
            names = {entry["path"] for entry in listed["documents"]}
            assert not {"private", "private/a.md", "top.key"} & names
            assert ("seen.md" in names) == ("file_type" not in more)
        content = (await ada.ask("get_document_info", path=""))["content"]
        assert "private" not in content
        assert "top.key" not in content
        for path in ("private/a.md", "private", "top.key"):
            for tool, arguments in (
                ("get_document_info", {}),
                ("document_exists", {}),
                ("delete_document", {"recursive": True}),
                ("rename_document", {"newPath": "mine.md"}),
                ("copy_document", {"copyPath": "mine.md"}),
                ("create_document", {"type": "file", "overwrite": True, "content": "x"}),
            ):
                error = await ada.refused(tool, path=path, **arguments)
                assert error["code"] == "permission_refused", tool
            error = await ada.refused("copy_document", path="seen.md", copyPath=path)
            assert error["code"] == "permission_refused"
        error = await ada.refused("list_documents", path="private")
        assert error["code"] == "permission_refused"
        error = await ada.refused(
            "create_document", path="new", type="file", template="private/a.md"
        )
        assert error["code"] == "permission_refused"
    assert (root / "private" / "a.md").read_text() == "secret"
    assert (root / "top.key").read_text() == "secret"


async def test_links_do_not_bypass_path_rules(guarded: JupyterProcess) -> None:
    root = Path(guarded.root)
    for folder in ("private", "links"):
        (root / folder).mkdir(exist_ok=True)
    (root / "private" / "b.md").write_text("secret")
    (root / "links" / "b.md").symlink_to("../private/b.md")
    (root / "links" / "folder").symlink_to("../private")
    (root / "links" / "seen.md").write_text("text")
    async with agent(guarded) as ada:
        for more in ({}, {"path_filter": "*"}, {"file_type": "directory"}):
            listed = await ada.ask("list_documents", path="links", **more)
            names = {entry["name"] for entry in listed["documents"]}
            assert names == (set() if "file_type" in more else {"seen.md"})
        for path in ("links/b.md", "links/folder", "links/folder/b.md", "links/folder/new.md"):
            for tool, arguments in (
                ("get_document", {}),
                ("get_document_info", {}),
                ("batch_update_document", {"operations": [{"content": "mine"}]}),
                ("document_exists", {}),
                ("delete_document", {"recursive": True}),
                ("rename_document", {"newPath": "mine.md"}),
                ("copy_document", {"copyPath": "mine.md"}),
                ("create_document", {"type": "file", "overwrite": True, "content": "x"}),
                ("list_documents", {}),
            ):
                if tool == "list_documents" and path != "links/folder":
                    continue
                error = await ada.refused(tool, path=path, **arguments)
                assert error["code"] == "permission_refused", (tool, path)
                assert "private" not in str(error), (tool, path)
    assert files_in(root / "private") >= {"b.md"}
    assert (root / "private" / "b.md").read_text() == "secret"


async def test_a_read_only_agent_changes_nothing(
    server: JupyterProcess, root: Path, at: At
) -> None:
    (root / "a.md").write_text("text")
    async with agent(server, permission="read") as reader:
        tools = {tool.name for tool in (await reader.client.list_tools()).tools}
        assert {"get_document_info", "document_exists", "list_documents"} <= tools
        for tool, arguments in (
            ("create_document", {"path": at("b.md"), "type": "file"}),
            ("delete_document", {"path": at("a.md")}),
            ("rename_document", {"path": at("a.md"), "newPath": at("b.md")}),
            ("copy_document", {"path": at("a.md"), "copyPath": at("b.md")}),
        ):
            assert tool not in tools
            error = await reader.refused(tool, **arguments)
            assert error["code"] == "permission_refused"
        assert (await reader.ask("get_document_info", path=at("a.md")))["content"] == "text"
    assert files_in(root) == {"a.md"}


# -- disks ------------------------------------------------------------------------------------


async def test_a_file_that_becomes_read_only_while_open_is_no_longer_changed(
    ada: AgentClient, at: At, disk: Disk
) -> None:
    """A server would take the edit and never save it."""
    folder = disk()
    path, file = at("disk/a.md"), folder / "a.md"
    file.write_text("text\n")
    await append(ada, path, "more\n")
    await until(lambda: file.read_text() == "text\nmore\n")
    write_protect(folder)

    async def refuses() -> Any:
        return await ada.call(
            "batch_update_document", path=path, operations=[{"old_text": "?", "new_text": "!"}]
        )

    # From outside it is looked at once a second.
    told = await eventually(
        refuses, lambda told: told.structured_content["error"]["code"] == "read_only"
    )
    assert told.is_error
    assert file.read_text() == "text\nmore\n"


async def test_a_read_only_disk_can_be_read_and_not_changed(
    server: JupyterProcess, ada: AgentClient, root: Path, at: At, disk: Disk
) -> None:
    folder = disk()
    (folder / "a.md").write_text("text\n")
    notebooks.write(folder / "n.ipynb", notebooks.numbered(1))
    write_protect(folder)
    (root / "mine.md").write_text("mine\n")
    path = at("disk/a.md")
    assert await read(ada, path) == "text\n"
    told = await ada.ask("get_document_info", path=path)
    assert (told["writable"], told["content"]) == (False, "text\n")
    operation = {"content": "more"}
    error = await ada.refused("batch_update_document", path=path, operations=[operation])
    assert error["code"] == "read_only"
    update = {"cell_id": "cell-00000", "content": "x"}
    error = await ada.refused(
        "batch_update_notebook_cells", path=at("disk/n.ipynb"), updates=[update], exec=False
    )
    assert error["code"] == "read_only"
    for kind, name in (("file", "a.md"), ("notebook", "n.ipynb")):
        error = await ada.refused(
            "create_document", path=at(f"disk/{name}"), type=kind, content="x", overwrite=True
        )
        assert error["code"] == "read_only"
    for tool, arguments in (
        ("create_document", {"path": at("disk/new/b.md"), "type": "file", "content": "x"}),
        ("create_document", {"path": at("disk/b.ipynb")}),
        ("create_document", {"path": at("disk/folder"), "type": "directory"}),
        ("delete_document", {"path": path}),
        ("rename_document", {"path": path, "newPath": at("disk/b.md")}),
        ("rename_document", {"path": at("mine.md"), "newPath": at("disk/b.md")}),
        ("copy_document", {"path": path, "copyPath": at("disk/b.md")}),
    ):
        error = await ada.refused(tool, **arguments)
        assert error["code"] in ("read_only", "file_failed"), tool
    # Nothing is pending: nobody sees what was refused.
    async with Collaborator(server.url, server.token, path, kind="file") as ana:
        assert ana.source() == "text\n"
    assert await read(ada, path) == "text\n"
    assert (root / "mine.md").read_text() == "mine\n"
    await ada.ask("copy_document", path=path, copyPath=at("copy.md"))
    assert (root / "copy.md").read_text() == "text\n"
    assert files_in(folder) == {"a.md", "n.ipynb"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
async def test_a_write_protected_file_can_be_read_and_not_changed(
    ada: AgentClient, root: Path, at: At
) -> None:
    file, notebook = root / "a.md", root / "n.ipynb"
    file.write_text("text\n")
    notebooks.write(notebook, notebooks.numbered(1))
    for path in (file, notebook):
        path.chmod(0o444)
    before = notebook.read_bytes()
    assert await read(ada, at("a.md")) == "text\n"
    assert not (await ada.ask("get_document_info", path=at("a.md")))["writable"]
    operations, update = [{"content": "more"}], {"cell_id": "cell-00000", "content": "x"}
    for tool, arguments in (
        ("batch_update_document", {"path": at("a.md"), "operations": operations}),
        ("batch_update_notebook_cells", {"path": at("n.ipynb"), "updates": [update]}),
        ("create_document", {"path": at("a.md"), "type": "file", "overwrite": True}),
    ):
        assert (await ada.refused(tool, **arguments))["code"] == "read_only", tool
    assert await read(ada, at("a.md")) == file.read_text() == "text\n"
    assert notebook.read_bytes() == before


async def test_a_full_disk_is_left_without_half_written_files(
    server: JupyterProcess, ada: AgentClient, root: Path, at: At, disk: Disk
) -> None:
    folder = disk()
    large = os.urandom(2_000_000)
    (root / "large.bin").write_bytes(large)
    (root / "project").mkdir()
    (root / "project" / "large.bin").write_bytes(large)
    text = "x" * 2_000_000
    for tool, arguments in (
        ("create_document", {"path": at("disk/a.md"), "type": "file", "content": text}),
        ("create_document", {"path": at("disk/new/in/a.md"), "type": "file", "content": text}),
        ("create_document", {"path": at("disk/n.ipynb"), "content": text}),
        ("copy_document", {"path": at("large.bin"), "copyPath": at("disk/large.bin")}),
        ("copy_document", {"path": at("project"), "copyPath": at("disk/project")}),
        ("rename_document", {"path": at("large.bin"), "newPath": at("disk/moved.bin")}),
    ):
        error = await ada.refused(tool, **arguments)
        assert error["code"] == "file_failed", tool
        if server.standalone is None:
            assert "No space left on device" in error["message"]
            assert str(server.root) not in error["message"]
            assert files_in(folder) == set(), tool
        else:  # a server leaves some, and has no room for its trash
            left = f"was left at {arguments['path']!r}"
            if tool == "create_document":
                there = Path(server.root) / arguments["path"]
                assert left in error["message"] or not there.exists()
            for rest in (path for path in folder.rglob("*") if path.is_file()):
                rest.unlink()
    assert (root / "large.bin").read_bytes() == large
    assert (root / "project" / "large.bin").read_bytes() == large


async def test_an_edit_that_cannot_be_saved_is_kept_and_reported_as_unsaved(
    server: JupyterProcess, ada: AgentClient, root: Path, at: At, disk: Disk
) -> None:
    folder = disk()
    path, file = at("disk/a.md"), folder / "a.md"
    file.write_text("text\n")
    fill(folder)
    async with Collaborator(server.url, server.token, path, kind="file") as ana:
        assert (await append(ada, path, "more\n"))["saved"] is False

        async def look() -> dict[str, Any]:
            return await ada.ask("get_document", path=path)

        told = await eventually(look, lambda told: "notices" in told)
        (notice,) = told["notices"]
        assert path in notice
        assert "in the live document only" in notice
        if server.standalone is None:
            assert "No space left on device" in notice
            assert not (folder / ".~a.md").exists()
        assert "saved" not in told
        assert file.read_text() == "text\n"
        await ana.until(lambda: ana.source() == "text\nmore\n")
        made = await ada.ask(
            "create_document", path=path, type="file", content="new\n", overwrite=True
        )
        assert made["saved"] is False
        assert file.read_text() == "text\n"
        await ana.until(lambda: ana.source() == "new\n")
        (folder / "filler").unlink()
        ana.insert(None, 0, "Ana's ")
        await until(lambda: file.read_text() == "Ana's new\n")
        told = await eventually(look, lambda told: "saved" in told)
    assert files_in(folder) == {"a.md"}


async def test_a_save_that_runs_out_of_space_leaves_the_file_unchanged(
    server: JupyterProcess, ada: AgentClient, at: At, disk: Disk
) -> None:
    """There is room for the copy that Jupyter makes first, and not for the new text. Jupyter would
    leave half of it, take that for a change on disk, and give it to everybody in the room."""
    if server.standalone is not None:
        pytest.skip("a server without the extension has that fault")
    folder = disk()
    path, file = at("disk/a.md"), folder / "a.md"
    file.write_text("a" * 4000)
    fill(folder, pages=1)
    async with Collaborator(server.url, server.token, path, kind="file") as ana:
        await append(ada, path, "b" * 4000)
        await until(lambda: f"Error saving file: {path}" in server.log)
        assert file.read_text() == "a" * 4000
        assert not (folder / ".~a.md").exists()
        # The room looks at the file once a second: no change is seen in it.
        assert (await ada.ask("get_document", path=path))["content"] == "a" * 4000 + "b" * 4000
        await ana.flush()  # she has all that the room has
        assert ana.source() == "a" * 4000 + "b" * 4000
        (folder / "filler").unlink()
        await append(ada, path, "c")
        await until(lambda: file.read_text() == "a" * 4000 + "b" * 4000 + "c")
