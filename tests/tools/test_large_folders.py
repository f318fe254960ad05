"""Listing where there is much: 20,000 files in folders of folders, and 20,000 in one folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conftest import MakeServer
from tests.harness.agents import AgentClient, agent
from tests.harness.jupyter import JupyterProcess
from tests.harness.ways import NEAR, served

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

FILES = 20_000
FOLDERS = 200


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both, and in both what no listing shows."""
    root = tmp_path_factory.mktemp("large")
    plant_tree(root / "tree")
    (root / "flat").mkdir()
    for number in range(FILES):
        (root / "flat" / name(number)).touch()
    for folder in (root / "flat", root / "tree", root / "tree" / "project-00" / "part-000"):
        hide(folder)
    return root


def plant_tree(tree: Path) -> None:
    for number in range(FOLDERS):
        folder = tree / f"project-{number % 20:02d}" / f"part-{number:03d}"
        folder.mkdir(parents=True)
        for place in range(FILES // FOLDERS):
            (folder / name(place)).touch()
    (tree / "project-19" / "early.ipynb").touch()
    (folder / "last.csv").touch()


def name(number: int) -> str:
    return f"file-{number:05d}.{'ipynb' if number % 50 == 0 else 'txt'}"


def hide(folder: Path) -> None:
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "file-00000-checkpoint.ipynb").touch()
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "file.ipynb").touch()
    (folder / ".file.ipynb").touch()


@pytest.fixture(scope="module", params=["extension", NEAR])
async def server(
    make_server: MakeServer,
    anyio_backend: str,
    request: pytest.FixtureRequest,
    root: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[JupyterProcess]:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    async with served(make_server, request.param, root=root, cwd=elsewhere) as process:
        yield process


def paths(listing: dict[str, Any]) -> list[str]:
    return [entry["path"] for entry in listing.get("documents") or listing["notebooks"]]


async def test_the_first_notebooks_of_a_tree_are_listed_breadth_first(ada: AgentClient) -> None:
    listing = await ada.ask("list_notebooks", path_prefix="tree")
    assert len(paths(listing)) == 50
    assert paths(listing)[:4] == [
        "tree/project-19/early.ipynb",
        "tree/project-00/part-000/file-00000.ipynb",
        "tree/project-00/part-000/file-00050.ipynb",
        "tree/project-00/part-020/file-00000.ipynb",
    ]
    assert listing["complete"] is False
    assert "Entries 0 to 49; more follow, continue with start_index=50\n" in await ada.say(
        "list_notebooks", path_prefix="tree"
    )


async def test_the_first_of_thousands_of_files_are_listed(ada: AgentClient) -> None:
    listing = await ada.ask("list_documents", path="flat", max_results=60)
    assert paths(listing) == [f"flat/{name(number)}" for number in range(60)]
    assert listing["complete"] is False
    assert all(entry["size"] == 0 and entry["last_modified"] for entry in listing["documents"])


async def test_a_search_for_a_single_match_covers_the_whole_tree(ada: AgentClient) -> None:
    listing = await ada.ask("list_documents", path="tree", file_type="csv")
    assert paths(listing) == ["tree/project-19/part-199/last.csv"]
    assert listing["complete"] is True


async def test_a_search_with_thousands_of_matches_returns_up_to_the_limit(ada: AgentClient) -> None:
    for folder, first in (
        ("tree", ["tree/project-00/part-000/file-00001.txt"]),
        ("flat", [f"flat/{name(number)}" for number in range(1, 9)]),
    ):
        listing = await ada.ask("list_documents", path=folder, file_type="txt", max_results=300)
        assert len(paths(listing)) == 300
        assert paths(listing)[: len(first)] == first
        assert listing["complete"] is False


async def test_hidden_files_are_not_among_the_notebooks_of_a_folder(ada: AgentClient) -> None:
    listing = await ada.ask("list_documents", path="flat", file_type="notebook", max_results=1000)
    assert paths(listing) == [f"flat/{name(number)}" for number in range(0, FILES, 50)]
    assert listing["complete"] is True
    folders = await ada.ask("list_documents", path="tree", file_type="directory", max_results=300)
    assert len(paths(folders)) == 20 + FOLDERS
    assert paths(folders)[:21] == [
        *(f"tree/project-{number:02d}" for number in range(20)),
        "tree/project-00/part-000",
    ]


async def test_a_large_folder_is_described_and_not_deleted_by_mistake(ada: AgentClient) -> None:
    facts = await ada.ask("get_document_info", path="flat")
    assert facts["content"].startswith(f"{name(0)}\n{name(1)}\n")
    assert len(facts["content"]) < 10_000
    error = await ada.refused("delete_document", path="flat")
    assert "more than 100 entries" in error["message"]


async def test_others_are_served_while_a_large_folder_is_listed(
    server: JupyterProcess, ada: AgentClient
) -> None:
    """If it did not, one or two would get between the parts of a call that are not listing. What
    else the machine does makes them fewer, never more."""
    for search in ({"path_filter": "nowhere"}, {"path": "flat"}):
        counts = [await answered_during(server, ada.ask("list_documents", **search)) for _ in "123"]
        assert max(counts) >= 3


async def test_a_listing_of_a_remote_server_requests_only_what_is_shown(
    make_server: MakeServer, root: Path, tmp_path: Path
) -> None:
    async with (
        served(make_server, "standalone", root=root, cwd=tmp_path) as server,
        agent(server, "Ada") as ada,
    ):
        notebooks = await ada.ask("list_notebooks", path_prefix="tree")
        assert paths(notebooks)[:2] == [
            "tree/project-19/early.ipynb",
            "tree/project-00/part-000/file-00000.ipynb",
        ]
        assert (len(paths(notebooks)), notebooks["complete"]) == (50, False)
        listing = ada.ask("list_documents", path="flat", max_results=60)
        assert await answered_during(server, listing) >= 5


async def answered_during(server: JupyterProcess, call: Awaitable[object]) -> int:
    """How many questions to a server, one after another, were answered before a call was; no more
    than some are asked, which would slow it down."""
    listing, count = asyncio.ensure_future(call), 0
    async with httpx2.AsyncClient(headers=server.headers, timeout=60) as http:
        while not listing.done() and count < 20:
            (await http.get(f"{server.url}api/status")).raise_for_status()
            count += not listing.done()
    await listing
    return count
