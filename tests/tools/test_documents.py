"""The document toolset against a real server, through the extension and through the command."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pycrdt import Text

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent, structured_address
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.standalone import StandaloneProcess
from tests.harness.waiting import until
from tests.transport.conftest import HEADERS, modern_call

pytestmark = pytest.mark.anyio

Put = Callable[..., Path]

STOCK = {"jupyter_collaboration_mcp": False}

THREE = "# Title\n\nsome words\n"

#: Letters of one to four bytes, two of which are one on the screen, in both directions.
LETTERS = "né 日本 😀 👩\u200d💻 e\u0301 שלום عرب\n"


@pytest.fixture
def put(server: JupyterProcess, request: pytest.FixtureRequest) -> Put:
    """Puts a text file of this test's own on the server's disk."""
    count = 0
    name = re.sub(r"\W+", "-", request.node.name)

    def write(content: str | bytes = THREE, ending: str = ".md") -> Path:
        nonlocal count
        count += 1
        file = Path(server.root) / f"{name}{count}{ending}"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    return write


@pytest.fixture(scope="module")
def folder(server: JupyterProcess) -> Path:
    """A folder with files of all kinds."""
    top = Path(server.root) / "kinds"
    for name in (
        *("a.md", "b.TXT", "c.py", "sub/x.md", "sub/deep/e.csv", "sub/deep/Fine.md"),
        *(".hidden/h.md", ".ipynb_checkpoints/a-checkpoint.md", ".dot.md"),
    ):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(name)
    (top / "picture.png").write_bytes(b"\x89PNG")
    (top / "empty").mkdir()
    notebooks.write(top / "sub" / "n.ipynb", notebooks.notebook([]))
    return top


def tab(server: JupyterProcess, file: Path, name: str = "Ana") -> Collaborator:
    """A person who has a text file open."""
    path = str(file.relative_to(server.root))
    return Collaborator(server.url, server.token, path, name, kind="file")


async def edit(client: AgentClient, file: Path, *operations: dict[str, Any], **more: Any) -> Any:
    return await client.ask(
        "batch_update_document", path=file.name, operations=list(operations), **more
    )


async def refused(client: AgentClient, file: Path, *operations: Any, **more: Any) -> Any:
    return await client.refused(
        "batch_update_document", path=file.name, operations=list(operations), **more
    )


async def read(client: AgentClient, file: Path) -> str:
    """The whole text, as an agent reads it."""
    facts = await client.ask("get_document", path=file.name)
    assert "next_position" not in facts
    return str(facts["content"])


async def saved(file: Path, content: str | bytes) -> None:
    """Wait until a file has something."""
    wanted = content.encode() if isinstance(content, str) else content
    try:
        await until(lambda: file.read_bytes() == wanted)
    except TimeoutError:
        assert file.read_bytes() == wanted
        raise


# -- reading ---------------------------------------------------------------------------------


async def test_reading_gives_the_text_its_revision_and_who_is_present(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    file = put(THREE + LETTERS)
    text = await ada.say("get_document", path=file.name)
    facts = await ada.ask("get_document", path=file.name)
    assert facts["content"] == THREE + LETTERS
    assert (facts["length"], facts["line_count"]) == (len(THREE + LETTERS), 4)
    assert (facts["start_line"], facts["start_position"]) == (1, 0)
    assert facts["path"] == file.name
    assert facts["saved"] is True
    assert facts["collaboration"]["people"] == []
    assert text.startswith(f"{file.name}@{facts['revision']}: 4 lines, {facts['length']} char")
    assert THREE + LETTERS in text
    assert "line break at the end" not in text
    async with tab(server, file):
        await person_is_known(ada, file)
    bare = await ada.ask("get_document", path=file.name, include_collaboration_state=False)
    assert "collaboration" not in bare


async def person_is_known(client: AgentClient, file: Path) -> None:
    async with asyncio.timeout(20):
        while True:
            facts = await client.ask("get_document", path=file.name)
            if facts["collaboration"]["people"] == ["Ana"]:
                return


@pytest.mark.parametrize(
    ("content", "lines"), [("", 0), ("\n", 1), ("no line break", 1), ("a\n\n\n", 3)]
)
async def test_every_text_is_read_unchanged(
    ada: AgentClient, put: Put, content: str, lines: int
) -> None:
    file = put(content)
    facts = await ada.ask("get_document", path=file.name)
    assert facts["content"] == content
    assert (facts["length"], facts["line_count"]) == (len(content), lines)
    said = "There is no line break at the end." in await ada.say("get_document", path=file.name)
    assert said is (content == "no line break")
    await edit(ada, file, {"content": "more"})
    await saved(file, f"{content}more")


async def test_a_part_can_be_selected_by_line_and_by_position(ada: AgentClient, put: Put) -> None:
    file = put("".join(f"line {n} é😀\n" for n in range(1, 10)))
    facts = await ada.ask("get_document", path=file.name, start_line=3, end_line=4)
    assert facts["content"] == "line 3 é😀\nline 4 é😀\n"
    assert (facts["start_line"], facts["start_position"]) == (3, 20)
    assert "next_position" not in facts
    facts = await ada.ask("get_document", path=file.name, start_position=23, end_line=3)
    assert facts["content"] == "e 3 é😀\n"
    text = await ada.say("get_document", path=file.name, start_line=8)
    assert "; lines 8 to 9 shown, from character 70\n" in text
    assert "line 7" not in text
    beyond = await ada.refused("get_document", path=file.name, start_line=12)
    assert (beyond["code"], beyond["length"]) == ("invalid_argument", 90)
    assert "9 lines" in beyond["message"]


async def test_a_long_text_is_cut_at_lines_and_can_be_read_to_its_end(
    ada: AgentClient, put: Put
) -> None:
    whole = LETTERS * 40 + "x" * 2500 + "\n" + LETTERS * 10 + "end"
    file = put(whole)
    position: int | None = 0
    parts: list[str] = []
    while position is not None:
        facts = await ada.ask(
            "get_document", path=file.name, start_position=position, max_content_length=1000
        )
        assert len(facts["content"]) <= 1000
        assert facts["start_position"] == sum(map(len, parts))
        parts.append(facts["content"])
        position = facts.get("next_position")
    assert "".join(parts) == whole
    cut = [part for part in parts[:-1] if not part.endswith("\n")]
    assert all(set(part) == {"x"} for part in cut)  # of the one line that is longer than that
    text = await ada.say("get_document", path=file.name, max_content_length=1000)
    first = parts[0].count("\n")
    assert f"; lines 1 to {first} shown, continue with start_line={first + 1}\n" in text


async def test_no_answer_is_longer_than_clients_show(ada: AgentClient, put: Put) -> None:
    file = put("word " * 400_000)
    call: dict[str, Any] = {"path": file.name, "max_content_length": 10_000_000}
    facts = await ada.ask("get_document", **call)
    assert len(facts["content"]) == facts["next_position"] == 45_000
    assert len(await ada.say("get_document", **call)) <= 48_000
    text = await ada.say("get_document", path=file.name)
    assert 38_000 < len(text) < 40_000
    assert text.partition("\n")[0].endswith(
        "; lines 1 to 1 shown, continue with start_position=38500"
    )
    last = await ada.ask("get_document", path=file.name, start_position=1_999_990)
    assert last["content"] == "word word "


async def test_an_answer_says_who_changed_which_lines_since(
    server: JupyterProcess, ada: AgentClient, bob: AgentClient, put: Put
) -> None:
    file = put("one\ntwo\nthree\nfour\n")
    first = await ada.ask("get_document", path=file.name)
    assert "others" not in first
    async with tab(server, file) as ana:
        await person_is_known(ada, file)
        await ana.type(None, "two", " é😀")
        await ana.flush()
        await edit(bob, file, {"old_text": "four", "new_text": "4"})
        now = await ada.ask("get_document", path=file.name)
        assert now["content"] == "one\ntwo é😀\nthree\n4\n"
        assert now["others"] == (
            "Since you last looked, others changed by Ana, Bob: line 2, line 4 edited."
        )
        assert now["version"] > first["version"]
        assert "others" not in await ada.ask("get_document", path=file.name)
        ana.insert(None, 0, "zero\n")
        await ana.flush()
        changed = await edit(ada, file, {"content": "five\n"})
        assert "by Ana: line 1 edited" in changed["others"]


async def test_text_typed_by_a_person_is_read_at_once(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    file = put()
    async with tab(server, file) as ana:
        for n in range(20):
            ana.insert(None, 0, f"{n} ")
            await ana.flush()
            assert await read(ada, file) == ana.source()


async def test_a_session_reports_its_room_and_session_id(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    file = put()
    facts = await ada.ask("create_document_session", path=file.name)
    assert facts["room_id"] == f"text:file:{facts['file_id']}"
    assert facts["session_id"]
    assert (facts["agent"], facts["length"]) == ("Ada", len(THREE))
    async with tab(server, file) as ana:
        await ana.until(lambda: [user["name"] for user in ana.awareness_users()] == ["Ada"])
    wrong = await ada.refused("create_document_session", path=file.name, file_type="notebook")
    assert "create_notebook_session" in wrong["next_step"]


# -- listing ---------------------------------------------------------------------------------


async def test_a_folder_listing_shows_one_level_including_folders(
    ada: AgentClient, folder: Path
) -> None:
    facts = await ada.ask("list_documents", path=folder.name)
    kinds = {entry["name"]: entry["type"] for entry in facts["documents"]}
    assert kinds == {
        "a.md": "file",
        "b.TXT": "file",
        "c.py": "file",
        "empty": "directory",
        "picture.png": "file",
        "sub": "directory",
    }
    assert list(kinds) == sorted(kinds)
    a = facts["documents"][0]
    assert (a["path"], a["size"], a["writable"], a["open"]) == (
        f"{folder.name}/a.md",
        4,
        True,
        False,
    )
    assert a["last_modified"]
    text = await ada.say("list_documents", path=folder.name)
    assert f"{folder.name}/sub/" in text
    assert folder.name in [e["name"] for e in (await ada.ask("list_documents"))["documents"]]
    nothing = await ada.say("list_documents", path=f"{folder.name}/empty")
    assert nothing == "Nothing matches below 'kinds/empty'."


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ({"path_filter": "/SUB/D"}, ["sub/deep/Fine.md", "sub/deep/e.csv"]),
        ({"path_filter": "fine"}, ["sub/deep/Fine.md"]),
        ({"path_filter": "sub/deep"}, ["sub/deep/Fine.md", "sub/deep/e.csv"]),
        ({"path_filter": "*.md"}, ["a.md", "sub/x.md", "sub/deep/Fine.md"]),
        ({"path_filter": "**/*.md"}, ["a.md", "sub/x.md", "sub/deep/Fine.md"]),
        ({"path_filter": "*/sub/?.md"}, ["sub/x.md"]),
        ({"path_filter": "**/deep/*.csv"}, ["sub/deep/e.csv"]),
        ({"file_type": "notebook"}, ["sub/n.ipynb"]),
        ({"file_type": "markdown"}, ["a.md", "sub/x.md", "sub/deep/Fine.md"]),
        ({"file_type": "csv"}, ["sub/deep/e.csv"]),
        ({"file_type": ".csv"}, ["sub/deep/e.csv"]),
        ({"file_type": "txt"}, ["b.TXT"]),
        ({"file_type": "directory"}, ["empty", "sub", "sub/deep"]),
        ({"file_type": "directory", "path_filter": "deep"}, ["sub/deep"]),
        ({"file_type": "markdown", "path_filter": "deep"}, ["sub/deep/Fine.md"]),
        (
            {"file_type": "text"},
            ["a.md", "b.TXT", "c.py", "sub/x.md", "sub/deep/Fine.md", "sub/deep/e.csv"],
        ),
        ({"file_type": "image"}, ["picture.png"]),
        ({"path_filter": "nothing like it"}, []),
    ],
    ids=str,
)
async def test_a_search_covers_all_folders(
    ada: AgentClient, folder: Path, search: dict[str, str], found: list[str]
) -> None:
    facts = await ada.ask("list_documents", path="kinds", **search)
    paths = [entry["path"].removeprefix("kinds/") for entry in facts["documents"]]
    assert sorted(paths) == sorted(found)
    depths = [path.count("/") for path in paths]
    assert depths == sorted(depths)  # breadth first
    assert facts["complete"] is True


async def test_two_stars_match_any_folder_or_none(ada: AgentClient, put: Put) -> None:
    file = put(ending=".rst")
    for pattern in ("**/*.rst", "*.rst", f"**/{file.name}"):
        facts = await ada.ask("list_documents", path_filter=pattern)
        assert file.name in [entry["path"] for entry in facts["documents"]]
    facts = await ada.ask("list_documents", path_filter=f"*/{file.name}")
    assert facts["documents"] == []


async def test_a_truncated_listing_says_so(ada: AgentClient, folder: Path) -> None:
    for search in ({}, {"file_type": "text"}):
        facts = await ada.ask("list_documents", path="kinds", max_results=3, **search)
        assert [entry["name"] for entry in facts["documents"]] == ["a.md", "b.TXT", "c.py"]
        assert facts["complete"] is False
        text = await ada.say("list_documents", path="kinds", max_results=3, **search)
        assert text.startswith("Entries 0 to 2; more follow, continue with start_index=3\n")
    exactly = await ada.ask("list_documents", path="kinds", max_results=6)
    assert (len(exactly["documents"]), exactly["complete"]) == (6, True)


async def test_a_listing_shows_who_has_a_document_open(
    server: JupyterProcess, ada: AgentClient, folder: Path
) -> None:
    path = "kinds/sub/x.md"
    # From outside only the rooms are known that one is in.
    await ada.ask("create_document_session", path=path)
    async with Collaborator(server.url, server.token, path, "Ana", kind="file"):
        async with asyncio.timeout(20):
            while True:
                facts = await ada.ask("list_documents", path="kinds/sub")
                entry = next(e for e in facts["documents"] if e["path"] == path)
                if entry["people"] == ["Ada (agent)", "Ana"]:
                    break
    assert entry["open"] is True
    assert [e["open"] for e in facts["documents"] if e["path"] != path] == [False, False]


@pytest.mark.parametrize("search", [{}, {"file_type": "markdown"}], ids=["level", "search"])
async def test_only_a_folder_can_be_listed(
    ada: AgentClient, folder: Path, search: dict[str, str]
) -> None:
    error = await ada.refused("list_documents", path="kinds/nowhere", **search)
    assert error["code"] == "document_not_found"
    error = await ada.refused("list_documents", path="kinds/a.md", **search)
    assert error["code"] == "invalid_argument"
    assert "get_document" in error["next_step"]
    error = await ada.refused("list_documents", path="../elsewhere", **search)
    assert error["code"] == "path_refused"


# -- editing ---------------------------------------------------------------------------------


async def test_an_edit_reaches_the_person_and_the_file(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    file = put()
    async with tab(server, file) as ana:
        facts = await edit(ada, file, {"content": "appended é😀\n"})
        expected = f"{THREE}appended é😀\n"
        await ana.until(lambda: ana.source() == expected)
        assert facts["operations"] == [{"position": len(THREE), "length": 12, "line": 4}]
        assert facts["length"] == len(expected)
        await saved(file, expected)
        now = await ada.ask("get_document", path=file.name)
        assert now["revision"] == facts["revision"]
    assert "content" not in facts  # what the caller sent is not repeated


EDITS: list[tuple[str, list[dict[str, Any]], str]] = [
    ("append", [{"content": "x"}], "abcdefx"),
    ("append twice", [{"content": "x"}, {"content": "y"}], "abcdefxy"),
    ("insert", [{"content": "x", "position": 2}], "abxcdef"),
    ("insert at the end", [{"content": "x", "position": 6}], "abcdefx"),
    ("replace", [{"content": "xyz", "position": 1, "length": 2}], "axyzdef"),
    ("delete", [{"content": "", "position": 0, "length": 3}], "def"),
    ("everything", [{"content": "new", "position": 0, "length": 6}], "new"),
    ("old text", [{"old_text": "cd", "new_text": "CD"}], "abCDef"),
    ("old text to nothing", [{"old_text": "abc", "new_text": ""}], "def"),
    (
        "before the call",
        [
            {"content": "", "position": 0, "length": 3},
            {"content": "x", "position": 3},
            {"content": "!", "position": 5, "length": 1},
        ],
        "xde!",
    ),
    (
        "backwards",
        [{"content": "2", "position": 4}, {"content": "1", "position": 1}],
        "a1bcd2ef",
    ),
    (
        "at one place",
        [{"content": text, "position": 3} for text in ("x", "y", "z")],
        "abcxyzdef",
    ),
    (
        "touching",
        [
            {"content": "1", "position": 0, "length": 3},
            {"content": "2", "position": 3, "length": 3},
            {"content": "-", "position": 3},
        ],
        "1-2",
    ),
    (
        "mixed",
        [
            {"old_text": "ef", "new_text": "EF"},
            {"content": ">", "position": 0},
            {"content": "."},
        ],
        ">abcdEF.",
    ),
    ("same", [{"content": "abc", "position": 0, "length": 3}], "abcdef"),
]


@pytest.mark.parametrize(
    ("operations", "expected"), [case[1:] for case in EDITS], ids=[case[0] for case in EDITS]
)
async def test_operations_refer_to_the_text_before_the_call(
    server: JupyterProcess,
    ada: AgentClient,
    put: Put,
    operations: list[dict[str, Any]],
    expected: str,
) -> None:
    file = put("abcdef")
    facts = await edit(ada, file, *operations)
    assert await read(ada, file) == expected
    for operation, place in zip(operations, facts["operations"], strict=True):
        content = operation.get("content", operation.get("new_text"))
        assert expected[place["position"] :][: place["length"]] == content
    async with tab(server, file) as ana:
        assert ana.source() == expected
    await saved(file, expected)


async def test_the_operations_of_a_call_are_applied_and_undone_as_one_change(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    file = put("one two three\nfour é😀\n")
    async with tab(server, file) as ana:
        shared = ana.doc.get("source", type=Text)
        before, seen = ana.source(), list[str]()
        shared.observe(lambda _: seen.append(str(shared)))
        await edit(
            ada,
            file,
            {"old_text": "😀", "new_text": "FOUR"},
            {"content": "ONE", "position": 0, "length": 3},
            {"content": "", "position": 4, "length": 4},
            {"content": "end\n"},
        )
        expected = "ONE three\nfour éFOUR\nend\n"
        await ana.until(lambda: ana.source() == expected)
        assert seen == [expected]
        facts = await ada.ask("undo_agent_changes", path=file.name)
        assert (facts["steps"], facts["left"]) == (1, 0)
        await ana.until(lambda: ana.source() == before)
        assert seen == [expected, before]


async def test_several_texts_can_be_inserted_or_deleted_in_one_call(
    ada: AgentClient, put: Put
) -> None:
    file = put("one two three")
    inserted = [
        {"text": "0 ", "position": 0},
        {"text": "and ", "position": 8},
        {"text": ".", "position": -1},
        {"text": "!", "position": -1},
    ]
    facts = await ada.ask("batch_insert_text", path=file.name, operations=inserted)
    assert await read(ada, file) == "0 one two and three.!"
    assert facts["length"] == 21
    deleted = [{"position": 10, "length": 4}, {"position": 0, "length": 2}]
    await ada.ask(
        "batch_delete_text",
        path=file.name,
        operations=deleted,
        if_revision=facts["revision"],
    )
    assert await read(ada, file) == "one two three.!"
    await saved(file, "one two three.!")


@pytest.mark.parametrize(
    "letters",
    [
        "😀",
        "👩\u200d👩\u200d👧",
        "e\u0301",
        "日本語",
        "שלום",
        "مرحبا",
        "\u202e",
        "🇩🇪",
        "\U0010ffff",
    ],
    ids=["emoji", "joined", "combining", "CJK", "Hebrew", "Arabic", "override", "flag", "last"],
)
async def test_positions_count_code_points(
    server: JupyterProcess, ada: AgentClient, put: Put, letters: str
) -> None:
    file = put(f"{letters} one {letters} two {letters}\n")
    whole = file.read_text()
    at = whole.index("two")
    async with tab(server, file) as ana:
        await edit(
            ada,
            file,
            {"content": "TWO", "position": at, "length": 3},
            {"content": letters, "position": 0},
            {"old_text": f"one {letters}", "new_text": f"{letters} eins"},
        )
        expected = f"{letters * 2} {letters} eins TWO {letters}\n"
        await ana.until(lambda: ana.source() == expected)
        assert await read(ada, file) == expected
        # Positions inside of what is one letter on the screen are positions like any other.
        await edit(ada, file, {"content": "|", "position": 1})
        await ana.until(lambda: ana.source() == f"{letters[0]}|{expected[1:]}")
        found = await ada.ask("get_document", path=file.name, start_position=len(letters))
        assert found["content"] == ana.source()[len(letters) :]
        await saved(file, ana.source())


BAD: list[tuple[str, list[dict[str, Any]], str]] = [
    ("none", [], "invalid_argument"),
    ("nothing", [{}], "invalid_argument"),
    ("only a place", [{"position": 1, "length": 1}], "invalid_argument"),
    ("beyond", [{"content": "x", "position": 7}], "invalid_argument"),
    ("too long", [{"content": "x", "position": 5, "length": 2}], "invalid_argument"),
    ("negative place", [{"content": "x", "position": -2}], "invalid_argument"),
    ("negative length", [{"content": "x", "position": 3, "length": -1}], "invalid_argument"),
    ("beyond the end", [{"content": "x", "length": 1}], "invalid_argument"),
    (
        "overlap",
        [
            {"content": "x", "position": 0, "length": 3},
            {"content": "y", "position": 2, "length": 2},
        ],
        "invalid_argument",
    ),
    (
        "within",
        [{"content": "x", "position": 0, "length": 4}, {"content": "y", "position": 2}],
        "invalid_argument",
    ),
    (
        "overlap of both kinds",
        [{"old_text": "abc", "new_text": "x"}, {"content": "y", "position": 2, "length": 1}],
        "invalid_argument",
    ),
    (
        "twice the same",
        [{"old_text": "abc", "new_text": "x"}, {"old_text": "abc", "new_text": "y"}],
        "invalid_argument",
    ),
    ("missing", [{"old_text": "not there", "new_text": "x"}], "text_mismatch"),
    ("ambiguous", [{"old_text": "e", "new_text": "x"}], "text_mismatch"),
    ("no old text", [{"old_text": "", "new_text": "x"}], "invalid_argument"),
    ("half", [{"old_text": "abc"}], "invalid_argument"),
    ("other half", [{"new_text": "abc"}], "invalid_argument"),
    ("both", [{"old_text": "abc", "new_text": "x", "content": "y"}], "invalid_argument"),
    ("both places", [{"old_text": "abc", "new_text": "x", "position": 0}], "invalid_argument"),
    ("misspelt", [{"contents": "x"}], "invalid_argument"),
    ("no number", [{"content": "x", "position": "first"}], "invalid_argument"),
    ("a number as text", [{"content": "x", "position": "3"}], "invalid_argument"),
    ("a truth for a number", [{"content": "x", "position": True}], "invalid_argument"),
    ("much", [{"content": "y" * 4_000_001}], "too_large"),
    ("many", [{"content": "x"}] * 1001, "too_large"),
]


@pytest.mark.parametrize(
    ("operations", "code"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
async def test_a_bad_operation_gives_a_clear_error_and_changes_nothing(
    ada: AgentClient, put: Put, operations: list[dict[str, Any]], code: str
) -> None:
    file = put("abcdee")
    before = await ada.ask("get_document", path=file.name)
    good = [{"old_text": "d", "new_text": "must not be applied"}] if operations else []
    assert (await refused(ada, file, *good, *operations))["code"] == code
    after = await ada.ask("get_document", path=file.name)
    assert after["content"] == "abcdee"
    assert after["version"] == before["version"]
    undo = await ada.refused("undo_agent_changes", path=file.name)
    assert undo["code"] == "nothing_to_undo"


@pytest.mark.parametrize(
    ("tool", "operations"),
    [
        ("batch_insert_text", []),
        ("batch_insert_text", [{"text": "x", "position": 7}]),
        ("batch_insert_text", [{"text": "x", "position": -2}]),
        ("batch_insert_text", [{"text": "x"}]),
        ("batch_delete_text", []),
        ("batch_delete_text", [{"position": -1, "length": 1}]),
        ("batch_delete_text", [{"position": 0, "length": 0}]),
        ("batch_delete_text", [{"position": 4, "length": 3}]),
        ("batch_delete_text", [{"position": 0, "length": 2}, {"position": 1, "length": 2}]),
        ("batch_delete_text", [{"position": 0}]),
        ("batch_insert_text", [{"text": "x", "position": True}]),
        ("batch_delete_text", [{"position": 0, "length": True}]),
    ],
)
async def test_bad_insertions_and_deletions_change_nothing(
    ada: AgentClient, put: Put, tool: str, operations: list[dict[str, Any]]
) -> None:
    file = put("abcdee")
    error = await ada.refused(tool, path=file.name, operations=operations)
    assert error["code"] == "invalid_argument"
    assert await read(ada, file) == "abcdee"


@pytest.mark.parametrize("field", ["content", "old_text", "new_text"])
async def test_half_a_character_is_refused(
    server: JupyterProcess, ada: AgentClient, put: Put, field: str
) -> None:
    file = put("a 😀")
    halves = {"old_text": "a", "new_text": "b"} if field != "content" else {}
    operations = [{"content": "good"}, {**halves, field: "x\ud83d"}]
    body, headers = modern_call("batch_update_document", path=file.name, operations=operations)
    url, credentials = structured_address(server)
    everything = {**HEADERS, **credentials, **headers}
    async with httpx2.AsyncClient(headers=everything, timeout=60, verify=False) as http:
        # The SDK's own client cannot even send it; JSON can.
        answer = await http.post(url, content=json.dumps(body))
    result = answer.json()["result"]
    assert result["isError"] is True
    code = "text_mismatch" if field == "old_text" else "invalid_argument"
    assert result["structuredContent"]["error"]["code"] == code
    assert await read(ada, file) == "a 😀"


async def test_a_stale_revision_is_refused_with_the_text_and_a_diff(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    file = put("one\ntwo\nthree\n")
    seen = (await ada.ask("get_document", path=file.name))["revision"]
    async with tab(server, file) as ana:
        ana.insert(None, 4, "and ")
        await ana.flush()
        good = {"old_text": "one", "new_text": "1"}
        error = await refused(ada, file, good, if_revision=seen)
        assert error["code"] == "stale_revision"
        assert error["source"] == "one\nand two\nthree\n" == ana.source()
        assert "-two" in error["diff"]
        assert "+and two" in error["diff"]
        assert error["revision"] != seen
        assert "+and two" in error["message"]
        assert await read(ada, file) == ana.source()
        for tool, operation in (
            ("batch_insert_text", {"text": "x", "position": 0}),
            ("batch_delete_text", {"position": 0, "length": 1}),
        ):
            error = await ada.refused(
                tool, path=file.name, operations=[operation], if_revision=seen
            )
            assert error["code"] == "stale_revision"
        facts = await edit(ada, file, good, if_revision=f"r:{error['revision']}")
        assert await read(ada, file) == "1\nand two\nthree\n"
        unknown = await refused(ada, file, good, if_revision="000000")
        assert (unknown["code"], unknown["diff"]) == ("stale_revision", None)
        assert unknown["revision"] == facts["revision"]


# -- bytes on disk ---------------------------------------------------------------------------


async def test_windows_line_endings_are_kept_or_their_loss_is_reported(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    file = put(b"one\r\ntwo\r\n\r\nfour", ".txt")
    facts = await ada.ask("get_document", path=file.name)
    assert facts["content"] == "one\ntwo\n\nfour"
    assert facts["length"] == 13
    # What comes with such ends is the same text, whatever the file has.
    await edit(
        ada,
        file,
        {"old_text": "one\r\ntwo", "new_text": "one\r\nand two"},
        {"content": "\r\nfive\n"},
    )
    assert await read(ada, file) == "one\nand two\n\nfour\nfive\n"
    if server.standalone is None:
        assert "notices" not in facts
        await saved(file, b"one\r\nand two\r\n\r\nfour\r\nfive\r\n")
    else:
        assert "turns them into LF when it saves" in " ".join(facts["notices"])
        await saved(file, b"one\nand two\n\nfour\nfive\n")


async def test_positions_count_a_windows_line_ending_as_one_character(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    file = put("é one\r\ntwo 😀\r\n\r\nfour\r\n".encode())
    text = "é one\ntwo 😀\n\nfour\n"
    facts = await ada.ask("get_document", path=file.name, start_position=text.index("two"))
    assert (facts["content"], facts["length"]) == (text[text.index("two") :], len(text))
    facts = await edit(
        ada,
        file,
        {"content": "FOUR", "position": text.index("four"), "length": 4},
        {"content": "\r\n", "position": text.index(" 😀"), "length": 1},
        {"content": "1\r\n", "position": 0, "length": 2},
        {"content": "", "position": text.index("\n\n"), "length": 1},
    )
    expected = "1\none\ntwo\n😀\nFOUR\n"
    assert await read(ada, file) == expected
    places = [(each["position"], each["length"], each["line"]) for each in facts["operations"]]
    assert places == [
        (expected.index("FOUR"), 4, 5),
        (expected.index("\n😀"), 1, 3),
        (0, 2, 1),
        (expected.index("\nFOUR"), 0, 4),
    ]
    end = "\r\n" if server.standalone is None else "\n"
    await saved(file, expected.replace("\n", end))


async def test_edits_of_people_keep_the_line_endings_with_the_extension(
    server: JupyterProcess, put: Put
) -> None:
    file = put(b"one\r\ntwo\r\n")
    async with tab(server, file) as ana:
        ana.insert(None, 0, "zero\n")
        assert await ana.save() == "success"
        kept = b"zero\r\none\r\ntwo\r\n"
        stock = server.standalone is not None
        assert file.read_bytes() == (kept.replace(b"\r\n", b"\n") if stock else kept)


async def test_mixed_line_endings_change_only_on_edited_lines(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    file = put(b"a\r\nb\nc\r\nd\r\ne\n")
    await edit(
        ada,
        file,
        {"old_text": "b", "new_text": "B"},
        {"old_text": "d\n", "new_text": "D\nnew\n"},
    )
    kept = b"a\r\nB\nc\r\nD\r\nnew\r\ne\n"
    await saved(file, kept if server.standalone is None else kept.replace(b"\r\n", b"\n"))


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfname,age\n1,2\n",
        b"tab\there  \n\n\n",
        "form\x0cfeed \x85 \u2028 name,\n".encode(),
        b"nul \x00 name,\n",
        b"old mac\rname,\n",
        "e\u0301 é name,".encode(),
    ],
    ids=["mark", "spaces", "separators", "nul", "carriage return", "not normalised"],
)
async def test_unusual_characters_are_kept(ada: AgentClient, put: Put, content: bytes) -> None:
    file = put(content, ".csv")
    assert (await read(ada, file)).encode() == content
    await edit(ada, file, {"content": "end"})
    await saved(file, content + b"end")


async def test_a_byte_order_mark_stays_in_front(ada: AgentClient, put: Put) -> None:
    file = put(b"\xef\xbb\xbfname,age\n", ".csv")
    await edit(ada, file, {"content": "top\n", "position": 0})
    await saved(file, b"\xef\xbb\xbftop\nname,age\n")


async def test_a_byte_order_mark_can_be_deleted(ada: AgentClient, put: Put) -> None:
    file = put(b"\xef\xbb\xbfname,age\n", ".csv")
    deletions = [{"position": 0, "length": 1}]
    await ada.ask("batch_delete_text", path=file.name, operations=deletions)
    assert await read(ada, file) == "name,age\n"
    await saved(file, b"name,age\n")


@pytest.mark.parametrize(
    ("content", "operation"),
    [
        ("a\nb\n", {"content": "\r", "position": 1}),
        ("a\nb\n", {"content": "x\r", "position": 1}),
        ("a\rb\nc\n", {"content": "", "position": 2, "length": 1}),
        ("a\rb\n", {"content": "\n", "position": 2}),
        ("a\nb\n", {"content": "c\r\r\n"}),
    ],
    ids=["inserted", "at the end", "joined", "line break", "twice"],
)
async def test_a_carriage_return_right_before_a_line_break_is_refused(
    ada: AgentClient, put: Put, content: str, operation: dict[str, Any]
) -> None:
    file = put(content)
    error = await refused(ada, file, operation)
    assert error["code"] == "invalid_argument"
    assert "carriage return" in error["message"]
    assert await read(ada, file) == content
    await edit(ada, file, {"content": "end"})
    await saved(file, f"{content}end")


async def test_a_carriage_return_that_a_person_types_does_not_multiply(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    file = put("a\nb\n")
    async with tab(server, file) as ana:
        await ana.type(None, "a", "\r")
        for letter in "xyz":
            await edit(ada, file, {"content": letter})
            assert await ana.save() == "success"
    if server.standalone is None:
        assert file.read_bytes() == b"a\nb\nxyz"


async def test_a_text_missing_from_a_file_gives_no_hint_about_cells(
    ada: AgentClient, put: Put
) -> None:
    error = await refused(ada, put(), {"old_text": "0123456789", "new_text": "x"})
    assert error["code"] == "text_mismatch"
    assert "cell" not in error["next_step"]


# -- undo ------------------------------------------------------------------------------------


async def test_undo_reverts_an_edit_and_keeps_what_a_person_typed(
    server: JupyterProcess, ada: AgentClient, bob: AgentClient, put: Put
) -> None:
    file = put("one\ntwo\nthree\n")
    async with tab(server, file) as ana:
        await edit(ada, file, {"old_text": "one", "new_text": "ONE é😀"})
        await edit(bob, file, {"content": "bob\n"})
        await edit(ada, file, {"old_text": "three\n", "new_text": ""})
        await ana.type(None, "two", " and a half")
        await ana.flush()
        facts = await ada.ask("undo_agent_changes", path=file.name, steps=2)
        assert (facts["steps"], facts["left"]) == (2, 0)
        expected = "one\ntwo and a half\nthree\nbob\n"
        assert await read(ada, file) == expected
        await ana.until(lambda: ana.source() == expected)
        now = await bob.ask("get_document", path=file.name)
        assert now["revision"] == facts["revision"]
        assert (await ada.refused("undo_agent_changes", path=file.name))["code"] == (
            "nothing_to_undo"
        )
        await saved(file, expected)


async def test_undo_is_refused_if_it_would_tear_somebodys_text_apart(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    file = put("start\n")
    async with tab(server, file) as ana:
        await edit(ada, file, {"content": "a sentence of the agent\n"})
        await ana.until(lambda: "agent" in ana.source())
        await ana.type(None, "a sentence", ", WITH THIS,")
        await ana.flush()
        torn = "start\na sentence, WITH THIS, of the agent\n"
        error = await ada.refused("undo_agent_changes", path=file.name)
        assert error["code"] == "undo_refused"
        assert "-a sentence, WITH THIS, of the agent" in error["message"]
        assert "+, WITH THIS," in error["message"]
        assert await read(ada, file) == torn == ana.source()
        await ada.ask("undo_agent_changes", path=file.name, force=True)
        await ana.until(lambda: ana.source() == "start\n, WITH THIS,")


async def test_a_large_text_can_grow_up_to_the_limit(
    server: JupyterProcess, ada: AgentClient
) -> None:
    file = Path(server.root) / "much.txt"
    file.write_text("x" * 6_000_000)
    await edit(ada, file, {"content": "LAST"}, {"position": 3_000_000, "content": "MIDDLE"})
    facts = await ada.ask("get_document", path=file.name, max_content_length=10)
    assert facts["length"] == 6_000_010
    error = await refused(ada, file, {"content": "y" * 3_999_999})
    assert error["code"] == "too_large"
    assert "at most 10,000,000 are live" in error["message"]


# -- what is no text -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("notebook.ipynb", "not_text", "get_notebook"),
        ("folder", "not_text", "list_documents"),
        ("", "not_text", "list_documents"),
        ("picture.png", "not_text", "image/png, 9 bytes"),
        ("latin.txt", "not_text", "text/plain, 5 bytes"),
        ("large.csv", "too_large", "10,000,001 bytes"),
        ("missing.md", "document_not_found", "list_documents"),
        ("missing/too.md", "document_not_found", "list_documents"),
        ("../outside.md", "path_refused", "outside"),
        ("%2e%2e/outside.md", "path_refused", "outside"),
        ("/etc/passwd", "document_not_found", "etc/passwd"),
    ],
)
async def test_a_file_that_is_not_text_gives_a_clear_error_and_stays_unchanged(
    server: JupyterProcess, ada: AgentClient, name: str, code: str, says: str
) -> None:
    root = Path(server.root)
    files = {
        "picture.png": b"\x89PNG\r\n\x1a\n\xff",
        "latin.txt": "caf\xe9!".encode("latin-1"),
        "large.csv": b"x" * 10_000_001,
    }
    (root / "folder").mkdir(exist_ok=True)
    if not (root / "notebook.ipynb").exists():
        notebooks.write(root / "notebook.ipynb", notebooks.notebook([]))
    for file, content in files.items():
        (root / file).write_bytes(content)
    for tool, more in (
        ("get_document", {}),
        ("create_document_session", {}),
        ("batch_update_document", {"operations": [{"content": "x"}]}),
        ("batch_insert_text", {"operations": [{"text": "x", "position": 0}]}),
        ("batch_delete_text", {"operations": [{"position": 0, "length": 1}]}),
    ):
        error = await ada.refused(tool, path=name, **more)
        assert error["code"] == code, tool
        assert says in f"{error['message']} {error['next_step']}"
    assert all((root / file).read_bytes() == content for file, content in files.items())


async def test_a_text_file_is_not_opened_as_a_notebook(ada: AgentClient, put: Put) -> None:
    file = put()
    error = await ada.refused("get_notebook", path=file.name)
    assert error["code"] == "not_a_notebook"
    assert "get_document" in error["next_step"]


# -- together --------------------------------------------------------------------------------


async def test_two_agents_and_a_person_lose_nothing_in_one_file(
    server: JupyterProcess, ada: AgentClient, bob: AgentClient, put: Put
) -> None:
    file = put("# Plan é😀\nada:\nbob:\nana:\nend\n")

    async def work(client: AgentClient, name: str) -> None:
        for n in range(25):
            await edit(client, file, {"old_text": f"{name}:", "new_text": f"{name}:{n:02d};"})

    async with tab(server, file) as ana:
        async with asyncio.TaskGroup() as group:
            group.create_task(work(ada, "ada"))
            group.create_task(work(bob, "bob"))
            group.create_task(ana.type(None, "ana:", "".join(f"{n:02d};" for n in range(25)), 0.01))
        await ana.flush()
        down = "".join(f"{n:02d};" for n in reversed(range(25)))
        up = "".join(f"{n:02d};" for n in range(25))
        whole = f"# Plan é😀\nada:{down}\nbob:{down}\nana:{up}\nend\n"
        assert await read(ada, file) == await read(bob, file) == whole
        await ana.until(lambda: ana.source() == whole)
    async with tab(server, file, "Fay") as fay:
        assert fay.source() == whole
    await saved(file, whole)


# -- without collaboration -------------------------------------------------------------------


def rewrite(file: Path, content: bytes) -> None:
    """Change a file on disk, and its time: on some systems that has steps of some ms."""
    before = file.stat().st_mtime_ns
    while file.stat().st_mtime_ns == before:
        file.write_bytes(content)


@asynccontextmanager
async def without_rooms(make_server: MakeServer) -> AsyncIterator[tuple[Path, AgentClient]]:
    extensions = {**STOCK, "jupyter_server_ydoc": False}
    async with (
        make_server(extensions=extensions) as server,
        StandaloneProcess([server]) as command,
        agent(command) as client,
    ):
        yield Path(server.root), client


async def test_a_server_without_collaboration_is_used_in_file_mode(
    make_server: MakeServer,
) -> None:
    async with without_rooms(make_server) as (root, ada):
        file = root / "windows.txt"
        file.write_bytes(b"one\r\ntwo\r\n")
        facts = await ada.ask("get_document", path=file.name)
        assert (facts["content"], facts["mode"]) == ("one\ntwo\n", "file")
        assert "notices" not in facts  # the line ends stay
        text = await ada.say("batch_update_document", path=file.name, operations=[{"content": "3"}])
        assert "File mode" in text
        assert file.read_bytes() == b"one\r\ntwo\r\n3"
        rewrite(file, b"one\r\nby somebody else\n3")
        await edit(ada, file, {"old_text": "one", "new_text": "1"})
        assert file.read_bytes() == b"1\r\nby somebody else\n3"
        await ada.ask("undo_agent_changes", path=file.name)
        assert file.read_bytes() == b"one\r\nby somebody else\n3"
        assert (await refused(ada, file, {"old_text": "x", "new_text": "y"}))["code"] == (
            "text_mismatch"
        )
        notebooks.write(root / "n.ipynb", notebooks.notebook([notebooks.code("a", "1 + 1")]))
        assert (await refused(ada, root / "n.ipynb", {"content": "x"}))["code"] == "not_text"
        assert await ada.sources("n.ipynb") == ["1 + 1"]
        (root / "latin.txt").write_bytes(b"caf\xe9")
        assert (await ada.refused("get_document", path="latin.txt"))["code"] == "not_text"
        assert (await ada.refused("get_document", path="nowhere"))["code"] == "document_not_found"
        file.unlink()
        assert (await ada.refused("get_document", path=file.name))["code"] == "document_not_found"


# -- a crash ---------------------------------------------------------------------------------

#: An edit is surely unsaved when the server is killed right after its answer.
SAVE_LATER = "--YDocExtension.document_save_delay=600"


@asynccontextmanager
async def crashing(make_server: MakeServer, way: str) -> AsyncIterator[JupyterProcess]:
    extensions = STOCK if way == "standalone" else {}
    async with make_server(SAVE_LATER, extensions=extensions, env=NOT_MEASURED) as server:
        if way == "extension":
            yield server
            return
        async with StandaloneProcess([server]) as command:
            server.standalone = command
            yield server


@pytest.mark.parametrize("way", ["extension", "standalone"])
async def test_an_acknowledged_edit_survives_a_kill_and_appears_once(
    make_server: MakeServer, way: str
) -> None:
    async with crashing(make_server, way) as server:
        file = Path(server.root) / "notes.txt"
        file.write_bytes(b"start\r\nend\r\n")
        expected = "start\nend\n"
        for n in range(2):  # the second time, of what has come back
            async with agent(server) as ada:
                await ada.ask("create_document_session", path=file.name)
                await edit(ada, file, {"old_text": "end", "new_text": f"edit {n} é😀\nend"})
                server.kill()
            expected = expected.replace("end", f"edit {n} é😀\nend")
            await server.start()
            if way == "extension":  # it is there before the first request is served
                assert file.read_bytes() == expected.replace("\n", "\r\n").encode()
            async with agent(server) as ada:
                facts = await ada.ask("get_document", path=file.name)
                assert facts["content"] == expected
                if way == "standalone":
                    assert "reapplied" in " ".join(facts["notices"])
            async with tab(server, file) as ana:
                assert ana.source() == expected
                await ana.save()
        ends = "\r\n" if way == "extension" else "\n"
        await saved(file, expected.replace("\n", ends))
