"""The command: over stdio and HTTP, with one server, with several, and with none."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import httpx2
import psutil  # type: ignore[import-untyped]
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.conftest import MakeServer
from tests.harness import forking, notebooks
from tests.harness.agents import AgentClient, agent, over_stdio, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.proxy import Proxy
from tests.harness.standalone import BEARER, StandaloneProcess, environment
from tests.harness.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

STOCK = {"jupyter_collaboration_mcp": False}
PATH = "work.ipynb"
HTTP = ("--transport=http", "--server=http://127.0.0.1:1/")


#: A dependency that prints, warns and starts others that print: when it is imported, by the
#: command or later in a call, and at the end.
CHATTY = """\
import atexit, builtins, os, warnings

original = builtins.__import__
said = set()

def chatty(name, *rest, **more):
    module = original(name, *rest, **more)
    package = name.partition(".")[0]
    if package in ("mcp", "pycrdt", "websockets") and package not in said:
        said.add(package)
        print("chatty import of", package)
        os.system("echo chatty child")
        warnings.warn("a warning")
    return module

builtins.__import__ = chatty
atexit.register(print, "chatty end")
"""

_numbers = itertools.count()


def write(server: JupyterProcess, source: str = "1 + 1", path: str = PATH) -> None:
    cells = [notebooks.code("one", source), notebooks.markdown("two", "text")]
    notebooks.write(Path(server.root) / path, notebooks.notebook(cells))


def new(server: JupyterProcess, source: str = "1 + 1") -> str:
    """A notebook on a shared server: the room of one that was edited lives on for a while."""
    path = f"work-{next(_numbers)}.ipynb"
    write(server, source, path)
    return path


@pytest.fixture(scope="module")
async def stock(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A Jupyter server that has nothing of ours."""
    async with make_server(extensions=STOCK) as process:
        yield process


async def test_an_agent_edits_and_runs_over_stdio(stock: JupyterProcess, tmp_path: Path) -> None:
    path = new(stock)
    async with over_stdio(
        tmp_path, f"--server={stock.url}", JUPYTER_TOKEN=stock.token, PYTHONDEVMODE="1"
    ) as ada:
        facts = await ada.ask("execute_notebook_cell", path=path, cell_id="one", timeout=60)
        assert facts["runs"][0]["state"] == "completed"
        await ada.write(path, "two", "other text")
        assert await ada.sources(path) == ["1 + 1", "other text"]


async def test_only_mcp_messages_go_to_standard_output(
    stock: JupyterProcess, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(CHATTY)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-X",
        "dev",
        "-m",
        "jupyter_collaboration_mcp.cli",
        f"--server={stock.url}",
        env=environment(tmp_path, JUPYTER_TOKEN=stock.token, PYTHONPATH=str(tmp_path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "get_notebook", "arguments": {"path": new(stock)}},
    }
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert process.stdin is not None
    assert process.stdout is not None
    lines = []
    for message in (request, ready, call):
        process.stdin.write(json.dumps(message).encode() + b"\n")
        if "id" in message:
            lines.append(await asyncio.wait_for(process.stdout.readline(), 60))
    process.stdin.close()
    rest, complaints = await asyncio.wait_for(process.communicate(), 60)
    assert [json.loads(line)["id"] for line in lines] == [1, 2]
    assert rest == b""
    for said in (b"import of mcp", b"import of pycrdt", b"import of websockets", b"child", b"end"):
        assert b"chatty " + said in complaints
    assert b"UserWarning: a warning" in complaints
    assert stock.token.encode() not in complaints


async def test_http_requires_the_token(stock: JupyterProcess) -> None:
    new(stock)
    async with StandaloneProcess([stock]) as command, httpx2.AsyncClient(timeout=60) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        accept = {"Accept": "application/json, text/event-stream"}
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": BEARER}):
            answer = await http.post(command.url, json=body, headers={**accept, **header})
            assert answer.status_code == 401
            assert "invalid_token" in answer.text
        good = {**accept, "Authorization": f"Bearer {BEARER}"}
        foreign = {**good, "Origin": "https://elsewhere.example"}
        assert (await http.post(command.url, json=body, headers=foreign)).status_code == 403
        host = {**good, "Host": "elsewhere.example"}
        assert (await http.post(command.url, json=body, headers=host)).status_code in (403, 421)
        async with agent(command, "Ada") as ada:
            assert (await ada.ask("list_notebooks"))["notebooks"]


async def test_http_generates_a_token_and_listens_only_on_this_machine(
    stock: JupyterProcess,
) -> None:
    first, second = [await _made_up_token(stock), await _made_up_token(stock)]
    assert first != second
    assert min(len(first), len(second)) >= 32


async def _made_up_token(stock: JupyterProcess) -> str:
    command = StandaloneProcess([stock])
    del command.environment["JUPYTER_COLLABORATION_MCP_BEARER_TOKEN"]
    async with command:
        assert _listening(command.pid) == ["127.0.0.1"]
        await until(lambda: "Authorization: Bearer " in command.log)
        token = command.log.partition("Authorization: Bearer ")[2].split()[0]
        assert token != stock.token
        async with agent(command, bearer=token) as ada:
            assert (await ada.ask("list_servers"))["servers"][0]["state"] == "ok"
    return token


def _listening(pid: int) -> list[str]:
    """The addresses at which a process listens."""
    found = psutil.Process(pid).net_connections("tcp")
    return [each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN]


async def test_a_token_can_be_given_on_the_command_line(
    stock: JupyterProcess, tmp_path: Path
) -> None:
    path = new(stock)
    given = (f"--server={stock.url}", f"--token={stock.token}")
    async with over_stdio(tmp_path, *given, JUPYTER_TOKEN="of another program") as ada:
        assert await ada.sources(path) == ["1 + 1", "text"]


async def test_running_servers_are_listed(stock: JupyterProcess, tmp_path: Path) -> None:
    runtime = str(stock.home / "runtime")
    code, said, _ = await ran(tmp_path, "servers", JUPYTER_RUNTIME_DIR=runtime)
    assert (code, said) == (0, f"{stock.url}  {stock.root}\n")
    code, said, _ = await ran(tmp_path, "servers")
    assert (code, said) == (0, "No Jupyter server is running here.\n")


async def test_doctor_checks_the_running_server(stock: JupyterProcess, tmp_path: Path) -> None:
    runtime = str(stock.home / "runtime")
    code, said, _ = await ran(tmp_path, "doctor", JUPYTER_RUNTIME_DIR=runtime)
    assert code == 0
    assert f"{stock.url} answers" in said
    assert "The token is accepted" in said
    code, said, _ = await ran(tmp_path, "doctor")
    assert code == 1
    assert "jupyter lab" in said


async def test_several_servers_do_not_interfere(make_server: MakeServer) -> None:
    async with AsyncExitStack() as stack:
        servers = [make_server(extensions=STOCK) for _ in range(5)]
        for number, server in enumerate(servers):
            await stack.enter_async_context(server)
            write(server, f"server = {number + 1}")
        command = await stack.enter_async_context(StandaloneProcess(servers))
        ada = await stack.enter_async_context(agent(command, "Ada"))
        listed = await ada.ask("list_servers")
        assert [server["alias"] for server in listed["servers"]] == ["s1", "s2", "s3", "s4", "s5"]
        await asyncio.gather(
            *(
                ada.write(f"s{number}:{PATH}", "two", f"text {number}.{step}")
                for step in range(3)
                for number in range(1, 6)
            )
        )
        for number, server in enumerate(servers, 1):
            source, text = await ada.sources(f"s{number}:{PATH}")
            assert source == f"server = {number}"
            assert text in [f"text {number}.{step}" for step in range(3)]
            await until(partial(_is_saved, server, [source, text]))
        assert await ada.sources(PATH) == await ada.sources(f"s1:{PATH}")
        some = await ada.ask("list_notebooks", max_results=3)
        assert (len(some["notebooks"]), some["complete"]) == (3, False)
        error = await ada.refused("get_notebook", path=f"nowhere:{PATH}")
        assert error["code"] == "document_not_found"
        assert "'nowhere'" in error["message"]
        assert "s1, s2" in error["message"]
        assert (await ada.refused("get_notebook", path="s2:../x.ipynb"))["code"] == "path_refused"
        await ada.ask("disconnect_server", alias="s5")
        assert (await ada.refused("disconnect_server", alias="s5"))["code"] == "unknown_server"
        taken = await ada.refused("connect_server", url=servers[4].url, alias="s1")
        assert taken["code"] == "unknown_server"


def _is_saved(server: JupyterProcess, sources: list[str]) -> bool:
    return notebooks.sources(Path(server.root) / PATH) == sources


@pytest.mark.parametrize("aliases", [True, False], ids=["aliases", "one was disconnected"])
async def test_nothing_is_created_or_searched_on_a_server_other_than_the_named_one(
    stock: JupyterProcess, make_server: MakeServer, tmp_path: Path, aliases: bool
) -> None:
    async with make_server(extensions=STOCK) as other:
        write(other)
        named = f"here={stock.url}" if aliases else stock.url
        async with over_stdio(tmp_path, f"--server={named}", JUPYTER_TOKEN=stock.token) as ada:
            url = f"{other.url}?token={other.token}"
            await ada.ask("connect_server", url=url, alias="there")
            await ada.ask("disconnect_server", alias="there")
            before = new(stock)
            files = sorted(Path(stock.root).iterdir())
            for tool, arguments in (
                ("create_document", {"path": "there:new/report.ipynb"}),
                ("create_document", {"path": "there:x.md", "type": "file", "overwrite": True}),
                ("rename_document", {"path": before, "newPath": "there:x.ipynb"}),
                ("copy_document", {"path": before, "copyPath": "there:x.ipynb"}),
                ("document_exists", {"path": f"there:{PATH}"}),
                ("list_notebooks", {"path_prefix": "there:"}),
                ("list_documents", {"path": "there:"}),
            ):
                error = await ada.refused(tool, **arguments)
                assert (error["code"], error["alias"]) == ("unknown_server", "there"), tool
                assert "list_servers" in error["next_step"]
            assert sorted(Path(stock.root).iterdir()) == files
            # A name that has a colon itself can be said all the same.
            made = await ada.ask("create_document", path="./there:x.md", type="file", content="x")
            assert made["path"].endswith("there:x.md")
            assert (Path(stock.root) / "there:x.md").read_text() == "x"
            assert (await ada.ask("get_document", path="there:x.md"))["content"] == "x"
            assert (await ada.ask("document_exists", path="there:x.md"))["exists"]
            await ada.ask("delete_document", path="there:x.md")


async def test_a_permission_for_one_server_limits_only_that_one(make_server: MakeServer) -> None:
    async with make_server(extensions=STOCK) as one, make_server(extensions=STOCK) as two:
        write(one)
        write(two)
        async with (
            StandaloneProcess([one, two], "--permission=s2=read") as command,
            agent(command) as ada,
        ):
            await ada.write(f"s1:{PATH}", "two", "changed")
            updates = [{"cell_id": "two", "content": "changed"}]
            error = await ada.refused(
                "batch_update_notebook_cells", path=f"s2:{PATH}", updates=updates, exec=False
            )
            assert (error["code"], error["level"]) == ("permission_refused", "write")
            assert await ada.sources(f"s2:{PATH}") == ["1 + 1", "text"]


async def test_clients_are_informed_that_there_may_be_several_servers(
    stock: JupyterProcess, tmp_path: Path
) -> None:
    async with over_stdio(tmp_path, f"--server={stock.url}", JUPYTER_TOKEN=stock.token) as ada:
        assert "alias:path" in (ada.client.instructions or "")
        tools = {tool.name: tool for tool in (await ada.client.list_tools()).tools}
        annotations = tools["disconnect_server"].annotations
        assert annotations is not None
        assert not annotations.idempotent_hint  # the second time there is no such server


async def test_a_server_that_cannot_be_reached_is_reported_in_one_line(
    stock: JupyterProcess, tmp_path: Path
) -> None:
    path = new(stock)
    async with over_stdio(tmp_path, f"--server={stock.url}", JUPYTER_TOKEN="wrong") as ada:
        assert (await ada.refused("get_notebook", path=path))["code"] == "token_refused"
        for url, code in (
            ("http://127.0.0.1:9/", "server_unreachable"),
            ("http://no.such.host.invalid/", "server_unreachable"),
        ):
            error = await ada.refused("connect_server", url=url, alias="other")
            assert error["code"] == code
        assert len((await ada.ask("list_servers"))["servers"]) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--server=ftp://somewhere/"], "not the URL"),
        (["--server=a=http://127.0.0.1:1/", "--server=a=http://127.0.0.1:2/"], "is taken"),
        (["--permission=everything"], "read, write, execute, admin"),
        (["--server=a=http://127.0.0.1:1/", "--permission=zz=read"], "'zz'; known aliases: a"),
        (["--server=http://127.0.0.1:1/", "--permission=zz=read"], "known aliases: none"),
        (["--no-embedded", "--root=/no/such/directory"], "/no/such/directory"),
        ([*HTTP, "--port=99999"], "65535"),
        ([*HTTP, "--host=192.0.2.1"], "not on this machine"),
        ([*HTTP, "--host=no.such.host.invalid"], "no.such.host.invalid"),
    ],
    ids=["scheme", "twice", "level", "alias", "no alias", "root", "port", "address", "host"],
)
async def test_a_wrong_command_line_is_refused_in_one_line(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    code, said, complaints = await ran(tmp_path, *arguments)
    assert (code, said) == (2, "")
    (line,) = complaints.splitlines()
    assert words in line


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        (["--max-cells-per-call=x"], {}, "--max-cells-per-call: 'x' is not a whole number"),
        (["--transport=tcp"], {}, "--transport: 'tcp' is none of stdio, http"),
        (["--toolsets=cor"], {}, "Did you mean core?"),
        ([], {"ALLOWED_PATHS": '["a/*"'}, "JUPYTER_COLLABORATION_MCP_ALLOWED_PATHS: "),
        ([], {"PERMISSION": "reed"}, "JUPYTER_COLLABORATION_MCP_PERMISSION: "),
        ([], {"DENIED_PATH": "a/*"}, "Did you mean denied_paths?"),
        (["--denied-paths=a/*"], {"DENIED_PATHS": '["a/*"'}, "DENIED_PATHS: "),
    ],
)
async def test_a_wrong_setting_is_refused_in_one_line(
    arguments: list[str], variables: dict[str, str], words: str, tmp_path: Path
) -> None:
    named = {f"JUPYTER_COLLABORATION_MCP_{name}": text for name, text in variables.items()}
    code, said, complaints = await ran(tmp_path, "--no-embedded", *arguments, **named)
    assert (code, said) == (2, "")
    (line,) = complaints.splitlines()
    assert words in line


async def test_a_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said, complaints = await ran(tmp_path, *HTTP, f"--port={port}")
    assert (code, said) == (2, "")
    (line,) = complaints.splitlines()
    assert "in use" in line
    assert "--port" in line


async def ran(home: Path, *arguments: str, **more: str) -> tuple[int | None, str, str]:
    """How the command ended, and what it said on both streams."""
    process = await asyncio.create_subprocess_exec(
        *(*forking.command("jupyter_collaboration_mcp.cli"), *arguments),
        env=environment(home, **more),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said, complaints = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, said.decode(), complaints.decode()


async def test_verbose_shows_no_token(stock: JupyterProcess) -> None:
    path = new(stock)
    async with StandaloneProcess([stock], "--verbose") as command, agent(command) as ada:
        await ada.sources(path)
        await ada.ask("execute_notebook_cell", path=path, cell_id="one", timeout=60)
    assert "uthorization" not in command.log
    assert stock.token not in command.log


async def test_http_is_served_only_under_allowed_host_names(stock: JupyterProcess) -> None:
    names = ("--allowed-host=lab.example", "--allowed-host=2001:db8::1")
    async with (
        StandaloneProcess([stock], "--host=0.0.0.0", *names) as command,
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {BEARER}"}, timeout=60) as http,
    ):
        url = command.url.replace("0.0.0.0", "127.0.0.1")
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        for host, allowed in (
            ("lab.example", True),
            ("lab.example:8080", True),
            ("[2001:db8::1]:8080", True),
            ("elsewhere.example", False),
        ):
            answer = await http.post(url, json=body, headers={"Host": host})
            assert (answer.status_code == 421) is not allowed


async def test_an_ipv6_address_is_printed_in_brackets(stock: JupyterProcess) -> None:
    async with StandaloneProcess([stock], "--host=::1") as command, agent(command) as ada:
        assert command.url.startswith("http://[::1]:")
        await ada.ask("list_servers")


async def test_a_configuration_starts_this_command_from_any_directory(
    stock: JupyterProcess, tmp_path: Path
) -> None:
    """Printed where the command is on the PATH, and used by a client that has none."""
    path = new(stock)
    here = Path(sys.executable).with_name("jupyter-collaboration-mcp")
    root = Path(stock.root)
    relative = os.path.relpath(root)
    code, said, _ = await ran(
        tmp_path, "config", "cursor", "--root", relative, PATH=str(here.parent)
    )
    assert code == 0
    entry = json.loads(said.split("\n", 1)[1])["mcpServers"]["jupyter"]
    assert entry == {"type": "stdio", "command": str(here), "args": ["--root", str(root)]}
    parameters = StdioServerParameters(
        command=entry["command"],
        args=entry["args"],
        env=environment(tmp_path, PATH="", JUPYTER_RUNTIME_DIR=str(stock.home / "runtime")),
        cwd=tmp_path,
    )
    async with Client(stdio_client(parameters)) as client:
        assert await AgentClient(client).sources(path) == ["1 + 1", "text"]


async def test_an_http_configuration_reaches_the_extensions_endpoint(
    make_server: MakeServer, tmp_path: Path
) -> None:
    """By its URL, which the server is asked for, and by the server that runs here."""
    elsewhere = "--JupyterCollaborationMCP.url_path=agents/mcp2"
    async with make_server(elsewhere, base_url="/user/ada/") as server:
        write(server)
        runtime = {"JUPYTER_RUNTIME_DIR": str(server.home / "runtime")}
        known = {"JUPYTER_TOKEN": server.token}
        page = f"{server.url}lab/tree/{PATH}?token={server.token}&agent=Ada"
        for words, query, more in (
            ((page,), "?agent=Ada", {}),
            ((f"{server.url}?permission=read",), "?permission=read", known),
            ((), "", runtime),
        ):
            asked = ("config", "cursor", "--http", *words)
            code, said, complaints = await ran(tmp_path, *asked, "--without-token", **more)
            assert (code, complaints) == (0, "")
            assert server.token not in said
            entry = json.loads(said.split("\n", 1)[1])["mcpServers"]["jupyter"]
            assert entry["url"] == f"{server.url}agents/mcp2{query}"
            assert entry["headers"]["Authorization"] == "Bearer ${env:JUPYTER_MCP_TOKEN}"
            code, said, complaints = await ran(tmp_path, *asked, **more)
            assert (code, complaints) == (0, "")
            assert server.token not in said
            entry = json.loads(said.split("\n", 1)[1])["mcpServers"]["jupyter"]
            assert entry["url"] == f"{server.url}agents/mcp2{query}"
            assert entry["headers"]["Authorization"].startswith("Bearer jcm_")
            async with (
                httpx2.AsyncClient(headers=entry["headers"], timeout=60) as http,
                Client(streamable_http_client(entry["url"], http_client=http)) as client,
            ):
                read = await AgentClient(client).say("get_notebook", path=PATH)
                assert "```\n1 + 1\n```" in read


async def test_an_http_configuration_says_what_it_cannot_know(
    stock: JupyterProcess, tmp_path: Path
) -> None:
    http = ("config", "cursor", "--http")
    for url in ("http://127.0.0.1:1/lab", "http://127.0.0.1:1/mcp"):
        code, said, complaints = await ran(tmp_path, *http, url)
        assert code == 0
        assert '"url": "http://127.0.0.1:1/mcp"' in said
        assert "does not report where its endpoint is" in complaints
        assert "put one into JUPYTER_MCP_TOKEN" in complaints
        assert "${env:JUPYTER_MCP_TOKEN}" in said
    for words, more, complaint in (
        ([stock.url], {"JUPYTER_TOKEN": stock.token}, "does not serve MCP itself"),
        (["ftp://somewhere/"], {}, "not the URL of a server"),
        ([], {}, "no Jupyter server is running here"),
        (["http://127.0.0.1:1/", "--permission=read"], {}, "?permission=read"),
    ):
        code, said, complaints = await ran(tmp_path, *http, *words, **more)
        assert (code, said) == (2, "")
        assert complaint in complaints.splitlines()[-1]
    code, _, complaints = await ran(tmp_path, "config", "cursor", "--without-token")
    assert (code, "--without-token needs --http" in complaints) == (2, True)
    code, _, complaints = await ran(tmp_path, "config", "claude-desktop", "--http", stock.url)
    assert (code, "takes no URLs" in complaints) == (2, True)


async def test_a_configuration_with_unknown_options_is_refused(tmp_path: Path) -> None:
    for wrong in (["--serve=x"], ["--tok", "hush"], ["--permission=all"], ["more"]):
        code, said, complaints = await ran(tmp_path, "config", "zed", *wrong)
        assert (code, said) == (2, "")
        assert complaints
    _, said, _ = await ran(tmp_path, "config", "--help")
    assert "passed through" in said


async def test_edits_lost_in_a_server_crash_are_reapplied(
    make_server: MakeServer,
) -> None:
    never_saved = "--YDocExtension.document_save_delay=600"  # or there may be nothing to make again
    async with make_server(never_saved, extensions=STOCK) as server:
        write(server, "first = 0")
        async with StandaloneProcess([server]) as command, agent(command) as ada:
            await ada.ask("get_notebook", path=PATH)
            for cycle in range(1, 4):
                await ada.replace(PATH, "one", "first", f"# {cycle}\nfirst")
                inserted = await ada.ask(
                    "batch_insert_notebook_cells",
                    path=PATH,
                    cells=[{"content": f"# cell {cycle}"}],
                    exec=False,
                )
                server.kill()
                await server.start()
                answer = await ada.ask("get_notebook", path=PATH)
                expected = "".join(f"# {n}\n" for n in range(1, cycle + 1)) + "first = 0"
                sources = [cell["source"] for cell in answer["cells"]]
                assert sources[0] == expected
                assert sources[2:] == [f"# cell {n}" for n in range(1, cycle + 1)]
                assert answer["cells"][-1]["id"] == inserted["cells"][0]["id"]
                assert "reapplied" in " ".join(answer["notices"])
                assert "others changed" not in answer.get("others", "")  # they are its own
                assert "notices" not in await ada.ask("get_notebook", path=PATH)
            async with Collaborator(server.url, server.token, PATH, "Ana") as ana:
                await ana.until(lambda: ana.sources() == sources)


@pytest.mark.parametrize("cut", [True, False], ids=["cut", "silent"])
async def test_a_network_failure_of_ten_seconds_loses_nothing(
    stock: JupyterProcess, cut: bool
) -> None:
    path = new(stock, "first = 0")
    async with Proxy(stock.url) as proxy:
        there = stock.url
        stock.url = proxy.url
        try:
            async with StandaloneProcess([stock]) as command, agent(command) as ada:
                await ada.ask("get_notebook", path=path)
                if cut:
                    proxy.cut()
                else:
                    proxy.pause()
                update = {"cell_id": "one", "old_text": "first", "new_text": "# cut\nfirst"}
                edit = asyncio.ensure_future(
                    ada.call("batch_update_notebook_cells", path=path, updates=[update], exec=False)
                )
                await asyncio.sleep(10)  # the fault itself
                proxy.resume()
                result = await edit
                assert not result.is_error, text_of(result)
                assert (await ada.sources(path))[0] == "# cut\nfirst = 0"
                async with Collaborator(there, stock.token, path, "Ana") as ana:
                    assert ana.source(0) == "# cut\nfirst = 0"
        finally:
            stock.url = there


async def test_a_server_is_started_if_none_is_running(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    cells = [notebooks.code("one", "1 + 1")]
    notebooks.write(root / PATH, notebooks.notebook(cells))
    async with over_stdio(tmp_path, cwd=root) as ada:
        facts = await ada.ask("execute_notebook_cell", path=PATH, cell_id="one", timeout=60)
        assert facts["runs"][0]["state"] == "completed"


async def test_a_running_server_is_found(stock: JupyterProcess, tmp_path: Path) -> None:
    path = new(stock)
    runtime = str(stock.home / "runtime")
    async with over_stdio(tmp_path, cwd=Path(stock.root), JUPYTER_RUNTIME_DIR=runtime) as ada:
        assert await ada.sources(path) == ["1 + 1", "text"]


async def test_a_server_without_collaboration_is_used_in_file_mode(
    make_server: MakeServer, tmp_path: Path
) -> None:
    without = {**STOCK, "jupyter_server_ydoc": False}
    async with make_server(extensions=without) as server:
        write(server)
        async with over_stdio(
            tmp_path, f"--server={server.url}", JUPYTER_TOKEN=server.token
        ) as ada:
            facts = await ada.write(PATH, "two", "in the file")
            assert facts["mode"] == "file"
            saved = json.loads((Path(server.root) / PATH).read_text())
            assert "".join(saved["cells"][1]["source"]) == "in the file"
            text = await ada.say("get_notebook", path=PATH)
            assert "File mode" in text
            saved["cells"][1]["source"] = "by somebody else"
            notebooks.write(Path(server.root) / PATH, saved)
            assert (await ada.sources(PATH))[1] == "by somebody else"
            ran = await ada.ask("execute_notebook_cell", path=PATH, cell_id="one", timeout=60)
            assert ran["runs"][0]["state"] == "completed"
