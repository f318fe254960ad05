"""What tools tell clients about themselves, by which those decide what to ask a person about."""

from __future__ import annotations

import pytest
from mcp import Client

from docs.generate import _tools as every_tool
from jupyter_collaboration_mcp.tools.registry import Answer, RegisteredTool, tool
from jupyter_collaboration_mcp.workspace.permissions import Level
from jupyter_collaboration_mcp.workspace.permits import Call
from tests.harness.agents import agent, text_of
from tests.harness.jupyter import JupyterProcess
from tests.harness.toys import serve

#: Their level is for what they could see; tests/execution/test_introspection.py shows that they
#: change nothing.
ONLY_LOOK = {"inspect_variables"}

#: Nothing that is there is changed or overwritten: tests/tools/test_documents.py and test_files.py.
ONLY_ADD = {
    "batch_insert_text",
    "copy_document",
    "export_document",
    "fork_document",
    "connect_server",
    "connect_notebook",
    "insert_cell",
}

#: They change what others see of the agent: tests/tools/test_awareness.py.
SHOW = {
    "set_user_presence",
    "update_cursor_position",
    "broadcast_user_activity",
    "join_session",
    "leave_session",
    "end_nb_session",
}

#: Named tools that need more than their level for what some arguments ask for.
MORE = {"connect_notebook"}

TOOLS = every_tool()


@pytest.mark.parametrize("registered", TOOLS, ids=lambda each: each.name)
def test_hints_follow_from_the_level(registered: RegisteredTool) -> None:
    hints, most = registered.declaration.annotations, registered.declaration.up_to
    if registered.name in SHOW:
        assert most is Level.read
        assert (hints.read_only_hint, hints.destructive_hint) == (False, False)
        assert hints.open_world_hint is False
        return
    if most is Level.read or registered.name in ONLY_LOOK:
        assert (hints.read_only_hint, hints.open_world_hint) == (True, False)
        return
    assert hints.read_only_hint is False
    assert hints.destructive_hint is (registered.name not in ONLY_ADD)
    assert hints.open_world_hint is (most >= Level.execute)
    if most is Level.execute:
        assert (hints.destructive_hint, hints.idempotent_hint) == (True, False)


@pytest.mark.parametrize("registered", TOOLS, ids=lambda each: each.name)
def test_a_tool_that_can_run_code_is_destructive_and_open_world(registered: RegisteredTool) -> None:
    switch = registered.schema["properties"].get("exec")
    if switch is not None:
        assert registered.declaration.up_to is Level.execute
        assert registered.declaration.annotations.destructive_hint
        assert registered.declaration.annotations.open_world_hint
        if switch.get("default"):
            said = "and run them" in registered.description
            assert said or "Runs all code cells" in registered.description
    elif "export_path" in registered.schema["properties"]:
        assert registered.declaration.up_to is Level.write
    elif registered.name in MORE:
        assert registered.declaration.annotations.open_world_hint
    elif registered.declaration.up_to is not registered.declaration.level:
        raise AssertionError("nothing in its arguments asks for more than its level")


class Liars:
    ran: bool = False

    @tool("Look", Level.read)
    async def look(self, call: Call) -> Answer:
        """Look at something."""
        await call.authorize(Level.execute, "a.ipynb")
        self.ran = True
        return Answer("ran", {})

    @tool("Write", Level.write, up_to=Level.execute, only_adds=True, idempotent=True)
    async def write(self, call: Call) -> Answer:
        """Write something."""
        await call.authorize(Level.execute, "a.ipynb")
        return Answer("wrote and ran", {})


@pytest.mark.anyio
async def test_a_tool_that_asks_for_more_than_it_declares_fails() -> None:
    liars = Liars()
    async with Client(serve(tools=liars)) as client:
        failed = await client.call_tool("look", {})
        assert failed.is_error
        assert text_of(failed).startswith("internal_error: ")
        assert not liars.ran
        assert text_of(await client.call_tool("write", {})) == "wrote and ran"
        shown = {each.name: each.annotations for each in (await client.list_tools()).tools}
        assert shown["write"] is not None
        assert shown["write"].destructive_hint
        assert shown["write"].open_world_hint
        assert not shown["write"].idempotent_hint


@pytest.mark.anyio
async def test_no_tool_has_a_schema_of_its_output(server: JupyterProcess) -> None:
    """`tests.harness.agents` relies on it."""
    async with agent(server, toolsets="all") as ada:
        listed = (await ada.client.list_tools()).tools
    assert {"get_notebook", "read_nb_cells", "connect_notebook"} <= {each.name for each in listed}
    assert [each.name for each in listed if each.output_schema is not None] == []
