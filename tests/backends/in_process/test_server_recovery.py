"""What a start after a crash makes of file, store and journal."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import pytest

from jupyter_collaboration_mcp.backends.remote.server_address import ServerAddress
from jupyter_collaboration_mcp.standalone.doctor import Check, examine
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import agent, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

PATH = "work.ipynb"

DEADLY_RENAME = "--ServerApp.contents_manager_class=tests.harness.deadly_rename.DeadlyRename"

#: Unless it is asked to, the server does not save while a test lasts, however slow the machine is.
NOT_BY_ITSELF = {"YDocExtension": {"document_save_delay": 3600}}


@pytest.fixture
async def server(make_server: MakeServer) -> AsyncIterator[JupyterProcess]:
    """A server of the test's own, with a notebook of three cells."""
    process = make_server(config=NOT_BY_ITSELF)
    notebooks.write(Path(process.root) / PATH, notebooks.numbered(3))
    async with process:
        yield process


def file_of(server: JupyterProcess) -> Path:
    return Path(server.root) / PATH


def journal_of(server: JupyterProcess) -> Path:
    (journal,) = server.home.glob("data/collaboration-mcp/*/journal-0.db")
    return journal


def rows(server: JupyterProcess, table: str) -> int:
    """Rows of a table in the journal, of which a server that runs lets nobody see but a copy."""
    journal = journal_of(server)
    with TemporaryDirectory() as folder:
        for file in journal.parent.glob(f"{journal.name}*"):
            shutil.copy(file, folder)
        with closing(sqlite3.connect(Path(folder) / journal.name)) as database:
            (count,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


async def room_id(server: JupyterProcess, http: httpx2.AsyncClient, path: str) -> str:
    """The id by which tabs open a notebook."""
    url = f"{server.url}api/collaboration/session/{path}"
    answer = await http.put(url, json={"format": "json", "type": "notebook"})
    return str(answer.raise_for_status().json()["fileId"])


async def crash_after_edit(server: JupyterProcess, text: str) -> None:
    async with agent(server) as ada:
        await ada.write(PATH, "cell-00001", text)
        server.kill()


async def live_sources(server: JupyterProcess) -> list[str]:
    async with agent(server) as ada:
        return await ada.sources(PATH)


async def test_the_file_is_recovered_before_the_first_request(server: JupyterProcess) -> None:
    await crash_after_edit(server, "survives")
    assert notebooks.sources(file_of(server))[1] != "survives"
    await server.start()
    assert notebooks.sources(file_of(server))[1] == "survives"
    assert "unsaved edits are in the file again" in server.log
    assert (await live_sources(server))[1] == "survives"


async def test_edits_of_a_person_without_an_agent_survive_too(server: JupyterProcess) -> None:
    """No agent was ever here: Jupyter alone would lose this second."""
    async with Collaborator(server.url, server.token, PATH) as ana:
        ana.insert("cell-00001", 0, "words of a person ")
        await ana.flush()
        # The journal writes at once, but nobody waits for it on behalf of people.
        wal = journal_of(server).with_name("journal-0.db-wal")
        await until(lambda: b"words of a person " in wal.read_bytes())
        server.kill()
    await server.start()
    assert notebooks.sources(file_of(server))[1].startswith("words of a person ")


async def test_a_file_changed_by_others_stays_and_our_version_is_kept_and_reported(
    server: JupyterProcess,
) -> None:
    await crash_after_edit(server, "ours, unsaved")
    theirs = notebooks.numbered(2)
    theirs["cells"][0]["source"] = "written by git"
    notebooks.write(file_of(server), theirs)
    await server.start()
    assert notebooks.sources(file_of(server))[0] == "written by git"
    (kept,) = Path(server.root).glob("work.recovered-*.ipynb")
    assert notebooks.sources(kept)[1] == "ours, unsaved"
    async with agent(server) as ada:
        text = await ada.say("get_notebook", path=PATH)
        assert "written by git" in text
        assert kept.name in text
        assert kept.name not in await ada.say("get_notebook", path=PATH)
    # It has been said and kept: the next start does not come back to it.
    await server.terminate()
    await server.start()
    assert len(list(Path(server.root).glob("work.recovered-*"))) == 1
    async with agent(server) as ada:
        assert kept.name not in await ada.say("get_notebook", path=PATH)


async def test_a_deleted_file_stays_deleted_and_our_version_is_kept(server: JupyterProcess) -> None:
    await crash_after_edit(server, "ours, unsaved")
    file_of(server).unlink()
    await server.start()
    assert not file_of(server).exists()
    (kept,) = Path(server.root).glob("work.recovered-*.ipynb")
    assert notebooks.sources(kept)[1] == "ours, unsaved"


async def test_a_half_written_notebook_is_recovered(server: JupyterProcess) -> None:
    """Jupyter copies the file to an intermediate and then writes in place; it died in between."""
    await crash_after_edit(server, "whole")
    file = file_of(server)
    shutil.copy(file, file.with_name(f".~{file.name}"))
    file.write_text(file.read_text()[:100])
    await server.start()
    assert notebooks.sources(file)[1] == "whole"


async def test_half_written_texts_are_recovered(server: JupyterProcess) -> None:
    """As of a notebook; but half a text can be read, and may end within a character."""
    before, after = b"one\r\ntwo\r\n", "one\r\ntwo\r\nbécause\r\n".encode()
    left = [b"", b"one\r\ntw", b"one\r", "one\r\ntwo\r\nbé".encode()[:-1]]
    files = [Path(server.root) / f"half-{number}.md" for number in range(len(left))]
    theirs = Path(server.root) / "theirs.md"
    for file in (*files, theirs):
        file.write_bytes(before)
    async with agent(server) as ada:
        for file in (*files, theirs):
            operations = [{"content": "bécause\n"}]
            await ada.ask("batch_update_document", path=file.name, operations=operations)
        server.kill()
    for file in (*files, theirs):
        shutil.copy(file, file.with_name(f".~{file.name}"))
    for file, written in zip(files, left, strict=True):
        file.write_bytes(written)
    theirs.write_text("one\nthree\n")  # by somebody else
    await server.start()
    assert [file.read_bytes() for file in files] == [after] * len(files)
    assert theirs.read_text() == "one\nthree\n"
    assert len(list(Path(server.root).glob("theirs.recovered-*.md"))) == 1
    assert sorted(Path(server.root).glob("*half*")) == files
    async with agent(server) as ada:
        for file in files:
            read = await ada.ask("get_document", path=file.name)
            assert read["content"] == "one\ntwo\nbécause\n"


async def test_a_save_whose_hash_was_never_recorded_is_recognized_as_ours(
    server: JupyterProcess,
) -> None:
    """The file was written, then another edit was acknowledged, then the server died.

    The room trusts the agent's own cell; nobody has signed the notebook, so the file does not.
    """
    async with agent(server) as ada:
        inserted = await ada.ask(
            "batch_insert_notebook_cells", path=PATH, cells=[{"content": "first"}], exec=False
        )
        await ada.write(PATH, "cell-00001", "second")
        server.kill()
    content = json.loads(file_of(server).read_text())
    # What an autosave between the two would have left.
    content["cells"].append(notebooks.code(inserted["cells"][0]["id"], "first"))
    notebooks.write(file_of(server), content)
    await server.start()
    assert notebooks.sources(file_of(server))[1::2] == ["second", "first"]
    assert not list(Path(server.root).glob("work.recovered-*"))


async def test_the_journal_is_empty_after_a_save(make_server: MakeServer) -> None:
    server = make_server()
    notebooks.write(file_of(server), notebooks.numbered(3))
    async with server:
        async with agent(server) as ada:
            for number in range(20):
                await ada.write(PATH, "cell-00001", f"edit {number}")
            await until(lambda: notebooks.sources(file_of(server))[1:2] == ["edit 19"])
            while "saved" not in await ada.ask("get_notebook", path=PATH):
                pass
            # The store takes its time with the last row.
            await until(lambda: rows(server, "rooms") == rows(server, "updates") == 0)
            server.kill()
        assert rows(server, "rooms") == 0
        assert rows(server, "updates") == 0
        assert rows(server, "credits WHERE call != ''") == 20
        log = len(server.log)
        await server.start()
        assert "Recovered" not in server.log[log:]


async def test_a_clean_shutdown_saves_and_leaves_nothing_to_recover(
    server: JupyterProcess,
) -> None:
    async with agent(server) as ada:
        await ada.write(PATH, "cell-00001", "just before Ctrl-C")
        await server.terminate()
    assert notebooks.sources(file_of(server))[1] == "just before Ctrl-C"
    assert rows(server, "rooms") == 0
    assert rows(server, "updates") == 0
    log, modified = len(server.log), file_of(server).stat().st_mtime_ns
    await server.start()
    assert "Recovered" not in server.log[log:]
    assert file_of(server).stat().st_mtime_ns == modified


async def test_a_server_that_never_saves_still_loses_nothing(make_server: MakeServer) -> None:
    config = {"YDocExtension": {"document_save_delay": None}}
    server = make_server(config=config)
    notebooks.write(Path(server.root) / PATH, notebooks.numbered(3))
    async with server:
        await crash_after_edit(server, "never saved")
        await server.start()
        assert notebooks.sources(Path(server.root) / PATH)[1] == "never saved"


async def test_the_stores_own_configuration_is_respected(make_server: MakeServer) -> None:
    """B15: rooms that we open, and recovery, use the configured database."""
    server = make_server(config={"SQLiteYStore": {"db_path": "elsewhere.db"}})
    notebooks.write(Path(server.root) / PATH, notebooks.numbered(3))
    async with server:
        await crash_after_edit(server, "elsewhere")
        await server.start()
        assert (await live_sources(server))[1] == "elsewhere"
        assert (Path(server.root) / "elsewhere.db").exists()
        assert not (Path(server.root) / ".jupyter_ystore.db").exists()


async def test_recovery_follows_a_rename_just_before_the_crash(server: JupyterProcess) -> None:
    async with agent(server) as ada:
        await ada.write(PATH, "cell-00001", "before the rename")
        async with httpx2.AsyncClient(headers=server.headers, timeout=60) as http:
            url = f"{server.url}api/contents/{PATH}"
            (await http.patch(url, json={"path": "renamed.ipynb"})).raise_for_status()
        await ada.write("renamed.ipynb", "cell-00002", "and after")
        server.kill()
    await server.start()
    renamed = file_of(server).with_name("renamed.ipynb")
    assert notebooks.sources(renamed)[1:] == ["before the rename", "and after"]
    assert not file_of(server).exists()
    assert not list(Path(server.root).glob("*recovered*"))


@pytest.mark.parametrize(("old", "new"), [(PATH, "renamed.ipynb"), ("below", "above")])
async def test_recovery_follows_a_rename_that_the_crash_interrupted(
    make_server: MakeServer, old: str, new: str
) -> None:
    process = make_server(DEADLY_RENAME, config=NOT_BY_ITSELF)
    path = old if old == PATH else f"{old}/{PATH}"
    file = Path(process.root) / path
    file.parent.mkdir(exist_ok=True)
    notebooks.write(file, notebooks.numbered(3))
    async with process as server:
        async with agent(server) as ada:
            await ada.write(path, "cell-00001", "before the rename")
            async with httpx2.AsyncClient(headers=server.headers, timeout=60) as http:
                room = await room_id(server, http, path)
                with pytest.raises(httpx2.HTTPError):
                    await http.patch(f"{server.url}api/contents/{old}", json={"path": new})
        server.kill()
        await server.start()
        renamed = path.replace(old, new)
        assert notebooks.sources(Path(server.root) / renamed)[1] == "before the rename"
        assert not list(Path(server.root).glob("**/*recovered*"))
        async with httpx2.AsyncClient(headers=server.headers, timeout=60) as http:
            assert await room_id(server, http, renamed) == room  # so that open tabs find it
        assert rows(server, "renames") == 0


async def test_a_start_forgets_edits_in_slices_of_rooms_that_have_nothing_unsaved(
    server: JupyterProcess,
) -> None:
    async with httpx2.AsyncClient(headers=server.headers, timeout=60) as http:
        room = f"json:notebook:{await room_id(server, http, PATH)}"
    await server.terminate()
    with closing(sqlite3.connect(journal_of(server))) as database, database:
        database.execute("INSERT INTO pending VALUES (1, ?, 0, x'0000')", (room,))
    await server.start()
    assert rows(server, "pending") == 0


async def test_an_undelivered_notice_is_delivered_after_a_crash(
    server: JupyterProcess,
) -> None:
    async with agent(server, "ada") as ada:
        await ada.write(PATH, "cell-00001", "of Ada")
        whole = json.loads(file_of(server).read_text())
        whole["cells"][1]["source"] = "of somebody else"
        file_of(server).write_text(json.dumps(whole))
        async with agent(server, "reader") as reader:
            while (await reader.sources(PATH))[1] != "of somebody else":
                pass  # each read looks at the file
        server.kill()
    await server.start()
    async with agent(server, "ada") as ada:
        said = text_of(await ada.call("get_notebook", path=PATH))
        assert "cell cell-00001 somebody wrote at the same place" in said
        assert "somebody wrote" not in text_of(await ada.call("get_notebook", path=PATH))
    assert rows(server, "notices") == 0


async def test_a_lost_store_leaves_the_file_intact(server: JupyterProcess) -> None:
    """The journal's updates build on items that only the store knows."""
    await crash_after_edit(server, "stands on the lost store")
    (Path(server.root) / ".jupyter_ystore.db").unlink()
    await server.start()
    assert notebooks.sources(file_of(server))[1] == "x = 1\n"
    assert "its unsaved edits cannot be brought back" in server.log
    (kept,) = journal_of(server).parent.glob("unrecovered-*.db")
    with closing(sqlite3.connect(kept)) as database:
        assert database.execute("SELECT count(*) FROM updates").fetchone()[0] > 0
    assert (await live_sources(server))[1] == "x = 1\n"


async def test_two_servers_on_one_root_have_journals_of_their_own(
    server: JupyterProcess, make_server: MakeServer
) -> None:
    async with agent(server) as ada:
        await ada.write(PATH, "cell-00000", "of the first")
        second = make_server(root=server.root, env={"JUPYTER_DATA_DIR": str(server.home / "data")})
        async with second, agent(second) as bob:
            await bob.ask("list_notebooks")
            assert "Recovered" not in second.log
    journals = sorted(path.name for path in journal_of(server).parent.glob("journal-*.db"))
    assert journals == ["journal-0.db", "journal-1.db"]


async def test_the_journal_is_bounded_while_nothing_is_saved(make_server: MakeServer) -> None:
    config = {
        "YDocExtension": {"document_save_delay": None},
        "JupyterCollaborationMCP": {"journal_limit": 20_000},
    }
    server = make_server(config=config)
    notebooks.write(Path(server.root) / PATH, notebooks.numbered(3))
    async with server:
        async with agent(server) as ada:
            for number in range(100):
                await ada.write(PATH, "cell-00001", f"{number} " + "text " * 200)
            server.kill()
        with closing(sqlite3.connect(journal_of(server))) as database:
            query = "SELECT sum(length(yupdate)) FROM updates"
            (held,) = database.execute(query).fetchone()
        assert held < 60_000
        await server.start()
        assert notebooks.sources(Path(server.root) / PATH)[1].startswith("99 text")


async def test_a_setting_that_destroys_stored_documents_causes_a_warning(
    make_server: MakeServer,
) -> None:
    """B6."""
    async with make_server(config={"SQLiteYStore": {"document_ttl": 60}}) as server:
        assert "document_ttl destroys stored documents" in server.log
        check = await extension_check(server)
        assert "document_ttl destroys stored documents" in check.said


async def extension_check(server: JupyterProcess) -> Check:
    """What `doctor` says of the extension."""
    checks = await examine(ServerAddress(server.url, server.token))
    (check,) = [check for check in checks if check.name == "extension"]
    return check


async def test_a_corrupt_journal_is_set_aside_reported_and_replaced(
    server: JupyterProcess,
) -> None:
    assert (await extension_check(server)).state == "ok"
    await crash_after_edit(server, "is in a broken journal")
    journal = journal_of(server)
    for file in journal.parent.glob("journal-0.db*"):
        file.write_bytes(b"rubbish" * 1000)
    await server.start()
    (aside,) = journal.parent.glob("set-aside-*-journal-0.db")
    assert aside.read_bytes() == b"rubbish" * 1000
    assert aside.name in server.log
    check = await extension_check(server)
    assert check.state == "warning"
    assert aside.name in check.said
    async with agent(server) as ada, agent(server, "Bob") as bob:
        assert aside.name in await ada.say("list_notebooks")
        assert aside.name not in await ada.say("get_notebook", path=PATH)  # once
        assert aside.name in (await bob.ask("get_notebook", path=PATH))["notices"][0]
        answer = await ada.write(PATH, "cell-00001", "is in the new one")
        assert "notices" not in answer
        server.kill()
    await server.start()
    assert notebooks.sources(file_of(server))[1] == "is in the new one"
    assert (await extension_check(server)).state == "ok"


async def test_the_readable_part_of_a_corrupt_journal_is_recovered(server: JupyterProcess) -> None:
    for name in ("a.md", "b.md"):
        (server.root / name).write_text("text\n")
    async with agent(server) as ada:
        for name, text in (("a.md", "edit a\n"), ("b.md", "edit b\n" * 20_000)):
            operations = [{"text": text, "position": 0}]
            await ada.ask("batch_insert_text", path=name, operations=operations)
        server.kill()
    with closing(sqlite3.connect(journal_of(server))) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    journal = journal_of(server)
    content = journal.read_bytes()
    # The middle of the long text: only its room needs it.
    place = content.rindex(b"edit b\n" * 100) // 4096 * 4096 - 20 * 4096
    journal.write_bytes(content[:place] + b"\xff" * 4096 + content[place + 4096 :])
    await server.start()
    assert (server.root / "a.md").read_text() == "edit a\ntext\n"
    (aside,) = journal.parent.glob("set-aside-*-journal-0.db")
    async with agent(server) as ada:
        assert aside.name in await ada.say("list_notebooks")
    assert rows(server, "rooms") == 0


async def test_agents_can_work_without_a_journal_and_are_warned(
    make_server: MakeServer, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("somebody's")
    config = {**NOT_BY_ITSELF, "JupyterCollaborationMCP": {"journal_dir": str(tmp_path / "file")}}
    server = make_server(config=config)
    notebooks.write(Path(server.root) / PATH, notebooks.numbered(3))
    async with server, agent(server) as ada:
        assert "No journal of unsaved edits can be kept" in await ada.say("list_notebooks")
        for text in ("one", "two"):
            answer = await ada.write(PATH, "cell-00001", text)
            assert "Not protected against a crash" in answer["notices"][0]
            assert answer["saved"] is False
        assert (await extension_check(server)).state == "warning"
        assert "No journal" in server.log
        # The rest of it would be beside the journal.
        assert "xxx" in await ada.say("run_code", path=PATH, code="print('x' * 3_000_000)")
    assert (tmp_path / "file").read_text() == "somebody's"
    assert notebooks.sources(Path(server.root) / PATH)[1] == "two"


async def test_an_edit_after_the_journal_was_deleted_survives_a_kill(
    server: JupyterProcess,
) -> None:
    async with agent(server) as ada:
        await ada.write(PATH, "cell-00000", "before")
        shutil.rmtree(journal_of(server).parent)
        answer = await ada.write(PATH, "cell-00001", "after")
        assert "deleted or replaced" in answer["notices"][0]
        assert "notices" not in await ada.write(PATH, "cell-00002", "later")
        server.kill()
    await server.start()
    assert notebooks.sources(file_of(server)) == ["before", "after", "later"]
