"""The toolset `connect`: named notebooks, tables, images, and what the original got wrong."""

from __future__ import annotations

import asyncio
import base64
import io
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import ImageContent
from PIL import Image

from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, AgentClient, agent, mcp_address, text_of
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import KernelApi
from tests.tools.conftest import MakeGate, New, Tab, Warm
from tests.tools.seed_documents import documented

pytestmark = pytest.mark.anyio

SHOWN = documented("connect.md")


@pytest.fixture
async def kim(server: JupyterProcess, request: pytest.FixtureRequest) -> AsyncIterator[AgentClient]:
    """An agent of this toolset who has connected nothing yet: of the newer era in Jupyter, and of
    the older one beside it."""
    name = f"Kim {abs(hash(request.node.name)) % 10**8}"
    era = MODERN if server.standalone is None else LEGACY
    async with agent(server, name, era, toolsets="connect") as client:
        yield client


async def connect(kim: AgentClient, path: str, name: str = "nb", **more: Any) -> str:
    return await kim.say("connect_notebook", notebook_name=name, notebook_path=path, **more)


async def refused(kim: AgentClient, tool: str, **arguments: Any) -> str:
    result = await kim.call(tool, **arguments)
    assert result.is_error, text_of(result)
    return text_of(result)


def table_in(text: str, tool: str = "list_cell") -> list[list[str]]:
    """The rows of the table in an answer, below the headers that the document of a tool has."""
    lines = text.splitlines()
    headers = "\t".join(SHOWN[tool].columns)
    start = next(n for n, line in enumerate(lines) if line.startswith(headers))
    rows = []
    for line in lines[start + 1 :]:
        if "\t" not in line:
            break
        rows.append(line.split("\t"))
    return rows


async def test_the_toolset_has_the_names_parameters_and_defaults(kim: AgentClient) -> None:
    tools = {tool.name: tool for tool in (await kim.client.list_tools()).tools}
    assert tools.keys() == SHOWN.keys()
    assert len(tools) == 11 + 3
    for name, shown in SHOWN.items():
        shown.check_schema(tools[name].input_schema)
    modes = tools["connect_notebook"].input_schema["properties"]["mode"]["enum"]
    assert modes == ["connect", "create", "reconnect"]


# -- notebooks -------------------------------------------------------------------------------


async def test_connect_notebook_gives_a_notebook_a_name_and_shows_its_first_cells(
    server: JupyterProcess, kim: AgentClient, new: New, api: KernelApi
) -> None:
    path = new(*[f"cell {n}" for n in range(25)])
    page = f"{server.url.replace('127.0.0.1', 'localhost')}lab?token={server.token}"
    said = await connect(kim, f"./{path}", "analysis", server_url=page, token=server.token)
    assert said.startswith("analysis connection successful!\nIndex\tType\tCount\tFirst Line\n")
    assert table_in(said)[3] == ["3", "code", "N/A", "cell 3"]
    assert len(table_in(said)) == 20
    assert "Cells 0 to 19 of 25 are shown; continue with start_index=20." in said
    # No kernel of its own, as the original started one: the notebook's own, when code runs.
    assert "Kernel: none yet. The first code that runs starts one, which people share." in said
    assert await api.sessions(path) == []


async def test_connect_notebook_creates_a_notebook_only_if_there_is_none(
    server: JupyterProcess, kim: AgentClient, new: New
) -> None:
    path = new("keep me")
    said = await refused(
        kim, "connect_notebook", notebook_name="nb", notebook_path=path, mode="create"
    )
    assert said.startswith("already_exists: ")
    assert notebooks.sources(server.root / path) == ["keep me"]
    assert await kim.say("list_notebook") == "No notebook is currently connected"
    made = f"made/{path}"
    await connect(kim, made, mode="create")
    assert (server.root / made).exists()
    meta = {"notebook_name": "nb", "cell_index": 0, "cell_content": "- **Author**: Kim"}
    await kim.say("overwrite_cell", **meta)  # as users of that server begin their notebooks
    rows = table_in(await kim.say("list_cell", notebook_name="nb"))
    assert rows == [["0", "markdown", "N/A", "- **Author**: Kim"]]
    missing = await refused(
        kim, "connect_notebook", notebook_name="other", notebook_path="missing.ipynb"
    )
    assert missing.startswith("document_not_found: ")
    assert "mode=create" in missing
    text = await refused(
        kim, "connect_notebook", notebook_name="t", notebook_path="new.txt", mode="create"
    )
    assert "ends with .ipynb" in text
    assert not (server.root / "new.txt").exists()


async def test_a_name_is_given_once_unless_the_agent_reconnects(kim: AgentClient, new: New) -> None:
    first, second = new("first"), new("second")
    await connect(kim, first)
    said = await refused(kim, "connect_notebook", notebook_name="nb", notebook_path=first)
    assert "is connected to this notebook already. Nothing was done." in said
    assert "mode=reconnect" in said
    for mode in ("connect", "reconnect"):
        arguments = {"notebook_name": "nb", "notebook_path": second, "mode": mode}
        said = await refused(kim, "connect_notebook", **arguments)
        assert "is the name of another notebook" in said
    assert "first" in await kim.say("read_cell", notebook_name="nb", cell_index=0)
    await connect(kim, first, mode="reconnect")
    await connect(kim, second, "unknown so far", mode="reconnect")


async def test_list_notebook_shows_server_notebook_and_kernel(
    server: JupyterProcess, kim: AgentClient, warm: Warm, new: New, api: KernelApi
) -> None:
    path, cold = await warm("x = 1"), new("y = 2")
    await connect(kim, path, "warm")
    await connect(kim, cold, "cold")
    said = await kim.say("list_notebook")
    assert said.splitlines()[0] == "Name\tJupyter URL\tPath\tKernel"
    rows = {row[0]: row[1:] for row in table_in(said, "list_notebook")}
    (session,) = await api.sessions(path)
    assert rows["warm"][1] == path
    assert rows["warm"][2].startswith(f"python3 {session['kernel']['id']} ")  # and its state
    assert rows["cold"][1:] == [cold, "none yet"]
    assert re.search(r":(\d+)/", rows["warm"][0])[1] == re.search(r":(\d+)/", server.url)[1]  # type: ignore[index]


async def test_restart_notebook_restarts_the_kernel_that_people_use(
    kim: AgentClient, warm: Warm, new: New, api: KernelApi
) -> None:
    path = await warm("x = 1")
    await connect(kim, path)
    await kim.say("execute_cell", notebook_name="nb", cell_index=0)
    (before,) = await api.sessions(path)
    assert await kim.say("restart_notebook", notebook_name="nb") == "nb restart successful"
    gone = await kim.say("execute_temporary_cell", notebook_name="nb", cell_content="'x' in dir()")
    assert "False" in gone
    (after,) = await api.sessions(path)
    assert after["kernel"]["id"] == before["kernel"]["id"]
    await connect(kim, new("never run"), "cold")
    said = await kim.say("restart_notebook", notebook_name="cold")
    assert said == "cold has no running kernel, so there was none to restart"


async def test_read_notebook_reads_the_source_page_by_page(kim: AgentClient, new: New) -> None:
    cells = [notebooks.markdown("title", "# Title\n\ttabbed"), *[f"x = {n}" for n in range(24)]]
    await connect(kim, new(*cells))
    said = await kim.say("read_notebook", notebook_name="nb")
    assert said.startswith("Cells 0 to 19 of 25 are shown; continue with start_index=20.\n")
    assert "Cell 0 (markdown):\n```\n# Title\n\ttabbed\n```" in said
    assert "Cell 1 (code, execution count None):\n```\nx = 0\n```" in said
    rest = await kim.say("read_notebook", notebook_name="nb", start_index=20)
    assert rest.startswith("Cell 20 ")
    some = await kim.say("read_notebook", notebook_name="nb", start_index=3, limit=1)
    assert "x = 2" in some
    assert "x = 3" not in some
    every = await kim.say("read_notebook", notebook_name="nb", limit=0)
    assert every.count("\nCell ") == 24


async def test_a_long_notebook_is_read_in_answers_that_say_how_to_continue(
    kim: AgentClient, server: JupyterProcess
) -> None:
    cells = [notebooks.code(f"c{n}", "y" * 9_000) for n in range(8)]
    cells.append(notebooks.code("huge", "z" * 90_000))
    notebooks.write(server.root / "pages.ipynb", notebooks.notebook(cells))
    await connect(kim, "pages.ipynb")
    start, read = 0, 0
    for _ in range(9):
        said = await kim.say("read_notebook", notebook_name="nb", start_index=start, limit=0)
        assert len(said) < 40_000
        read += said.count("y" * 9_000)
        more = re.match(r"Cells \d+ to \d+ of 9 are shown; continue with start_index=(\d+)", said)
        if more is None:
            break
        start = int(more[1])
    assert read == 8
    assert "of its 90,000 characters are shown" in said
    said = await kim.say("read_cell", notebook_name="nb", cell_index=8)
    assert "Do not write it back." in said


# -- cells -----------------------------------------------------------------------------------


async def test_list_cell_is_a_table_of_tab_separated_values(
    kim: AgentClient, server: JupyterProcess
) -> None:
    cells = [
        notebooks.code("a", "\n\n  import\tos\nprint()", execution_count=7),
        notebooks.markdown("b", "# Title\nmore"),
        notebooks.code("c", "forged\u2028" + "9\tcode\t1\trm"),
        *[notebooks.code(f"n{n}", f"x = {n}") for n in range(57)],
    ]
    notebooks.write(server.root / "table.ipynb", notebooks.notebook(cells))
    await connect(kim, "table.ipynb")
    said = await kim.say("list_cell", notebook_name="nb")
    assert said.splitlines()[0] == "Index\tType\tCount\tFirst Line"
    rows = table_in(said)
    assert len(rows) == 50
    assert rows[0] == ["0", "code", "7", "import os"]
    assert rows[1] == ["1", "markdown", "N/A", "# Title"]
    assert rows[2] == ["2", "code", "N/A", "forged 9 code 1 rm"]
    assert "Cells 0 to 49 of 60 are shown; continue with start_index=50." in said
    rest = await kim.say("list_cell", notebook_name="nb", start_index=50)
    assert [row[0] for row in table_in(rest)] == [str(n) for n in range(50, 60)]
    assert len(table_in(await kim.say("list_cell", notebook_name="nb", limit=0))) == 60
    assert "has 60" in await refused(kim, "list_cell", notebook_name="nb", start_index=60)


async def test_read_cell_shows_source_count_outputs_and_images(
    kim: AgentClient, server: JupyterProcess
) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (1400, 200), "red").save(picture, "PNG")
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "printed\n"},
        {"output_type": "execute_result", "data": {"text/plain": "42"}, "metadata": {}}
        | {"execution_count": 3},
        {"output_type": "error", "ename": "E", "evalue": "no", "traceback": ["Traceback", "E: no"]},
        {
            "output_type": "display_data",
            "data": {"image/png": base64.b64encode(picture.getvalue()).decode()},
            "metadata": {},
        },
    ]
    cell = notebooks.code("a", "plot()", outputs=outputs, execution_count=3)
    notebooks.write(server.root / "picture.ipynb", notebooks.notebook([cell]))
    await connect(kim, "picture.ipynb")
    result = await kim.call("read_cell", notebook_name="nb", cell_index=0)
    said = text_of(result)
    assert said.startswith("Cell 0 (code, execution count 3):\n```\nplot()\n```\nOutputs:\n")
    assert "printed" in said
    assert "42" in said
    assert "Traceback" in said
    (shown,) = [part for part in result.content if isinstance(part, ImageContent)]
    with Image.open(io.BytesIO(base64.b64decode(shown.data))) as image:
        assert image.width <= 700
    bare = await kim.call("read_cell", notebook_name="nb", cell_index=0, return_output=False)
    assert "printed" not in text_of(bare)
    assert len(bare.content) == 1


async def test_insert_cell_shows_what_is_around_it(kim: AgentClient, new: New) -> None:
    await connect(kim, new(*[f"cell {n}" for n in range(30)]))
    arguments = {"notebook_name": "nb", "cell_type": "markdown", "cell_content": "# New"}
    said = await kim.say("insert_cell", cell_index=15, **arguments)
    assert said.startswith("Insert successful!")
    assert "Surrounding cells information:\nIndex\tType\tCount\tFirst Line\n" in said
    rows = table_in(said)
    assert [int(row[0]) for row in rows] == list(range(10, 20))
    assert rows[5] == ["15", "markdown", "N/A", "# New"]
    said = await kim.say("insert_cell", cell_index=-1, **arguments)
    assert table_in(said)[-1] == ["31", "markdown", "N/A", "# New"]
    assert "cell 29" in await kim.say("read_cell", notebook_name="nb", cell_index=30)


async def test_delete_cell_shows_what_it_said_and_what_is_around_it(
    kim: AgentClient, new: New
) -> None:
    await connect(kim, new(*[f"cell {n}" for n in range(30)]))
    said = await kim.say("delete_cell", notebook_name="nb", cell_index=15)
    assert said.startswith("Delete successful!")
    assert "Deleted cell content:\n```\ncell 15\n```" in said
    rows = table_in(said)
    assert [row[3] for row in rows] == [f"cell {n}" for n in (*range(10, 15), *range(16, 21))]
    assert [int(row[0]) for row in rows] == list(range(10, 20))
    await connect(kim, new("only"), "one")
    said = await kim.say("delete_cell", notebook_name="one", cell_index=0)
    assert "only" in said


async def test_overwrite_cell_returns_a_diff_and_runs_nothing(
    kim: AgentClient, new: New, api: KernelApi
) -> None:
    path = new("x = 1\ny = 2\nz = 3")
    await connect(kim, path)
    content = "x = 1\ny = 20\nz = 3"
    arguments = {"notebook_name": "nb", "cell_index": 0, "cell_content": content}
    said = await kim.say("overwrite_cell", **arguments)
    assert said.startswith("Overwrite successful!")
    assert "```diff\n@@ -1,3 +1,3 @@\n x = 1\n-y = 2\n+y = 20\n z = 3\n```" in said
    assert "The cell said this already." in await kim.say("overwrite_cell", **arguments)
    assert await api.sessions(path) == []


async def test_execute_cell_runs_in_the_kernel_that_people_use(
    kim: AgentClient, warm: Warm, api: KernelApi
) -> None:
    path = await warm("import os\nprint('pid', os.getpid())", notebooks.markdown("note", "text"))
    (session,) = await api.sessions(path)
    await connect(kim, path)
    first = await kim.say("execute_cell", notebook_name="nb", cell_index=0)
    assert "pid" in first
    assert [each["kernel"]["id"] for each in await api.sessions(path)] == [session["kernel"]["id"]]
    said = await refused(kim, "execute_cell", notebook_name="nb", cell_index=1)
    assert said.startswith("not_code: ")


async def test_a_call_waits_for_its_timeout_and_the_run_goes_on(
    kim: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    way = gate()
    await connect(kim, await warm(f"{way.code}\nprint('through')"))
    said = await kim.say("execute_cell", notebook_name="nb", cell_index=0, timeout=0.2)
    assert "still running" in said
    assert "read_cell shows its output as it comes, restart_notebook stops it." in said
    assert "get_run" not in said
    way.open()
    again = await kim.say("execute_cell", notebook_name="nb", cell_index=0)
    assert "through" in again


async def test_append_execute_cell_appends_runs_and_returns_the_output(
    kim: AgentClient, warm: Warm
) -> None:
    await connect(kim, await warm("x = 6"))
    await kim.say("execute_cell", notebook_name="nb", cell_index=0)
    said = await kim.say(
        "append_execute_cell", notebook_name="nb", cell_type="code", cell_content="print(x * 7)"
    )
    assert said.startswith("Appended as cell index 1.")
    assert "42" in said
    said = await kim.say(
        "append_execute_cell", notebook_name="nb", cell_type="markdown", cell_content="# End"
    )
    assert said.startswith("Appended as cell index 2.")
    said = await kim.say(
        "append_execute_code_cell", notebook_name="nb", cell_content="print(x * 8)"
    )
    assert said.startswith("Appended as cell index 3.")
    assert "48" in said
    rows = table_in(await kim.say("list_cell", notebook_name="nb"))
    assert [row[3] for row in rows] == ["x = 6", "print(x * 7)", "# End", "print(x * 8)"]


async def test_temporary_code_is_not_stored(kim: AgentClient, warm: Warm) -> None:
    await connect(kim, await warm("x = 1"))
    for tool in ("execute_temporary_cell", "execute_temporary_code"):
        said = await kim.say(tool, notebook_name="nb", cell_content="print(2 + 3)")
        assert "5" in said
        assert "empty" in await refused(kim, tool, notebook_name="nb", cell_content=" ")
    assert len(table_in(await kim.say("list_cell", notebook_name="nb"))) == 1


# -- what the original got wrong, and what goes wrong ----------------------------------------


async def test_each_agent_has_names_of_its_own(
    server: JupyterProcess, kim: AgentClient, new: New
) -> None:
    mine, theirs = new("mine"), new("theirs")
    await connect(kim, mine)
    async with agent(server, "Another", toolsets="connect") as other:
        said = await refused(other, "read_cell", notebook_name="nb", cell_index=0)
        assert said.startswith("notebook_unknown: ")
        await connect(other, theirs)
        read = [each.say("read_cell", notebook_name="nb", cell_index=0) for each in (kim, other)]
        first, second = await asyncio.gather(*read)
        assert "mine" in first
        assert "theirs" in second


async def test_a_name_stays_with_a_notebook_that_is_renamed(
    server: JupyterProcess, kim: AgentClient, ada: AgentClient, new: New
) -> None:
    path = new("here")
    await connect(kim, path)
    await ada.ask("rename_document", path=path, newPath=f"moved-{path}")
    assert "here" in await kim.say("read_cell", notebook_name="nb", cell_index=0)
    assert f"moved-{path}" in await kim.say("list_notebook")


async def test_an_index_that_means_another_cell_by_now_is_refused(
    kim: AgentClient, new: New, tab: Tab
) -> None:
    path = new(*"abc")
    await connect(kim, path)
    ana = await tab(path)
    ana.insert_cell(0, "from Ana")
    await ana.flush()
    for tool, more in (
        ("delete_cell", {}),
        ("read_cell", {}),
        ("overwrite_cell", {"cell_content": "x"}),
        ("insert_cell", {"cell_type": "code", "cell_content": "x"}),
        ("execute_cell", {}),
    ):
        said = await refused(kim, tool, notebook_name="nb", cell_index=1, **more)
        assert said.startswith("stale_index: "), tool
        assert "Call list_cell to see the cells." in said
    assert ana.sources() == ["from Ana", "a", "b", "c"]
    await kim.say("list_cell", notebook_name="nb")
    await kim.say("delete_cell", notebook_name="nb", cell_index=1)
    await ana.until(lambda: ana.sources() == ["from Ana", "b", "c"])


async def test_unknown_names_and_indexes_change_nothing(kim: AgentClient, new: New) -> None:
    said = await refused(kim, "delete_cell", notebook_name="nobody", cell_index=0)
    assert "No notebook is connected under the name 'nobody'; connected: none." in said
    assert "Next: Call connect_notebook first; list_notebook shows the names." in said
    await connect(kim, new(*"abc"))
    calls: list[tuple[str, dict[str, str]]] = [
        *[("delete_cell", {}), ("read_cell", {}), ("execute_cell", {})],
        ("overwrite_cell", {"cell_content": "x"}),
    ]
    for index in (3, -4, 99):
        for tool, more in calls:
            said = await refused(kim, tool, notebook_name="nb", cell_index=index, **more)
            assert said.startswith("cell_not_found: ")
            assert "list_cell" in said
    arguments = {"cell_index": 4, "cell_type": "code", "cell_content": "x"}
    said = await refused(kim, "insert_cell", notebook_name="nb", **arguments)
    assert said.startswith("invalid_argument: ")
    rows = table_in(await kim.say("list_cell", notebook_name="nb"))
    assert [row[3] for row in rows] == ["a", "b", "c"]


async def test_long_code_is_written_and_run(kim: AgentClient, warm: Warm) -> None:
    """Whatever a cell holds may be longer than a name."""
    await connect(kim, await warm("x = 1"))
    long = "\n".join([*[f"# {n} {'.' * 70}" for n in range(60)], "print(6 * 7)"])
    new = {"notebook_name": "nb", "cell_content": long}
    await kim.say("overwrite_cell", cell_index=0, **new)
    await kim.say("insert_cell", cell_index=1, cell_type="markdown", **new)
    for tool, more in (
        ("append_execute_cell", {"cell_type": "code"}),
        ("append_execute_code_cell", {}),
        ("execute_temporary_cell", {}),
        ("execute_temporary_code", {}),
    ):
        assert "42" in await kim.say(tool, **new, **more), tool
    for index in range(4):
        assert long in await kim.say("read_cell", notebook_name="nb", cell_index=index)


async def test_a_name_that_no_table_can_hold_is_refused(kim: AgentClient, new: New) -> None:
    path = new("x")
    for name in "", "  ", "a\nb", "tab\there", "x" * 201:
        arguments = {"notebook_name": name, "notebook_path": path}
        assert "cannot have the name" in await refused(kim, "connect_notebook", **arguments)
    assert await kim.say("list_notebook") == "No notebook is currently connected"


async def test_a_url_that_is_not_a_jupyter_server_connects_nothing(
    server: JupyterProcess, kim: AgentClient, new: New
) -> None:
    path = new("x")
    for url in "http://127.0.0.1:9/", "not a url", "ftp://x/", "http://[bad":
        arguments = {"notebook_name": "nb", "notebook_path": path, "server_url": url}
        said = await refused(kim, "connect_notebook", token="s3cret", **arguments)
        assert "s3cret" not in said
        arguments["server_url"] = f"{url}?token=s3cret"
        assert "s3cret" not in await refused(kim, "connect_notebook", **arguments)
        if server.standalone is None:
            assert "no other can be reached from inside it. Nothing was connected." in said
    assert await kim.say("list_notebook") == "No notebook is currently connected"
    command = "" if server.standalone is None else server.standalone.log
    assert "s3cret" not in server.log + command


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_the_url_that_the_client_has_used_is_that_of_the_server(
    server: JupyterProcess, new: New, era: str
) -> None:
    """A prompt has the URL that people know, which may lead through a proxy or another port."""
    url, headers = mcp_address(server)
    inside = server.standalone is None
    if inside:
        headers = {**headers, "Host": "localhost:9"}
    async with (
        httpx2.AsyncClient(headers=headers, verify=False) as http,
        Client(
            streamable_http_client(f"{url}?toolsets=connect", http_client=http), mode=era
        ) as kim,
    ):
        arguments = {"notebook_name": f"proxied {era}", "notebook_path": new("x")}
        for there in "http://localhost:9", "https://127.0.0.1:9/lab":
            arguments |= {"server_url": there, "mode": "reconnect"}
            result = await kim.call_tool("connect_notebook", arguments)
            assert result.is_error is not inside, text_of(result)
        arguments["server_url"] = "http://localhost:10"
        assert (await kim.call_tool("connect_notebook", arguments)).is_error


async def test_a_token_that_none_can_be_is_not_repeated(kim: AgentClient, new: New) -> None:
    arguments = {"notebook_name": "nb", "notebook_path": new("x"), "server_url": "http://there/"}
    assert "12345" not in await refused(kim, "connect_notebook", token=12345, **arguments)
    assert "s3cret" not in await refused(kim, "connect_notebook", token="s3cret\n", **arguments)
    for url in "http://kim:s3cret@[bad/", "ftp://s3cret@there/", "http://kim:s3cret@127.0.0.1:9/":
        arguments["server_url"] = url
        said = await refused(kim, "connect_notebook", **arguments)
        assert "s3cret" not in said
        assert not said.startswith("internal_error: ")
    assert await kim.say("list_notebook") == "No notebook is currently connected"


async def test_a_connection_that_may_only_read_connects_and_reads(
    server: JupyterProcess, new: New
) -> None:
    path = new("x = 1")
    async with agent(server, "Rea", toolsets="connect", permission="read") as rea:
        await connect(rea, path)
        assert "x = 1" in await rea.say("read_cell", notebook_name="nb", cell_index=0)
        tools = [tool.name for tool in (await rea.client.list_tools()).tools]
        assert "execute_cell" not in tools
        arguments = {"notebook_name": "new", "notebook_path": "n.ipynb", "mode": "create"}
        said = await refused(rea, "connect_notebook", **arguments)
        assert said.startswith("permission_refused: ")
    assert not (server.root / "n.ipynb").exists()


async def test_who_has_not_chosen_the_toolset_is_told_what_its_tools_are_here(
    ada: AgentClient,
) -> None:
    with pytest.raises(MCPError, match="Did you mean execute_notebook_cell"):
        await ada.call("execute_cell", notebook_name="nb", cell_index=0)
