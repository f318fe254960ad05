"""Notebooks from templates, through both ways to a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ResourceTemplateReference

from tests.backends.disk.test_template_files import NAMES
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, agent
from tests.harness.jupyter import JupyterProcess
from tests.harness.ways import WAYS, served

pytestmark = pytest.mark.anyio

WEEKLY = """\
# %% [markdown]
# # Weekly numbers
#
# What we look at on Mondays.

# %% tags=["parameters"]
week = 1

# %%
print("week", week)
"""


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    anyio_backend: str,
) -> AsyncIterator[JupyterProcess]:
    own = tmp_path_factory.mktemp("templates")
    (own / "weekly.py").write_text(WEEKLY)
    (own / "broken.py").write_text('# %% tags=["parameters"]\nx = open\n')
    settings = {"template_dir": str(own)}
    async with served(make_server, request.param, settings=settings, measured=True) as process:
        yield process


@pytest.mark.parametrize("server", ["extension"], indirect=True)
@pytest.mark.parametrize("name", NAMES)
async def test_each_template_runs_from_top_to_bottom(server: JupyterProcess, name: str) -> None:
    path = f"{name}.ipynb"
    async with agent(server) as ada:
        await ada.ask("create_document", path=path, template=name)
        answer = await ada.ask("batch_execute_notebook_cells", path=path, timeout=60)
        cells = (await ada.ask("get_notebook", path=path, include_outputs=True))["cells"]
        states = {run["state"] for run in answer["runs"]}
        assert states == {"completed"}, answer
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert all(cell["execution_count"] for cell in code)
        assert any(cell.get("outputs") for cell in code)
        await ada.ask("delete_document", path=path)


async def test_a_template_is_made_with_parameters_and_runs(server: JupyterProcess) -> None:
    async with agent(server) as ada:
        data = Path(server.root) / "sales.csv"
        data.write_text("shop,sold\nNorth,3\nSouth,4\n")
        made = await ada.ask(
            "create_document",
            path="new/look.ipynb",
            template="eda",
            parameters={"path": "../sales.csv", "target": "sold"},
        )
        assert made["folders"] == ["new"]
        runs = await ada.ask("batch_execute_notebook_cells", path="new/look.ipynb", timeout=60)
        assert {run["state"] for run in runs["runs"]} == {"completed"}, runs
        text = await ada.say("get_notebook", path="new/look.ipynb", include_outputs=True)
        assert 'path = "../sales.csv"' in text or "path = '../sales.csv'" in text
        assert "North" in text


async def test_a_site_has_templates_of_its_own(server: JupyterProcess) -> None:
    async with agent(server) as ada:
        await ada.ask("create_document", path="w.ipynb", template="weekly", parameters={"week": 7})
        assert "week = 7" in (await ada.sources("w.ipynb"))[1]
        await ada.ask("delete_document", path="w.ipynb")
        (content,) = (await ada.client.read_resource("notebook://templates/weekly")).contents
        assert "# Weekly numbers" in getattr(content, "text", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"template": "edda"}, "There is no template 'edda'"),
        ({"template": "broken"}, "There is no template 'broken'"),
        ({"template": "eda", "parameters": {"file": "x"}}, "no parameter 'file'"),
        ({"template": "eda", "parameters": {"max_rows": "many"}}, "has the type integer"),
        ({"template": "eda", "content": "1"}, "Both content and template"),
        ({"parameters": {"path": "x"}}, "without the name of a template"),
        ({"template": "a.ipynb", "parameters": {}}, "without the name of a template"),
        ({"template": "../etc/eda"}, ""),
        ({"template": "eda", "type": "file"}, ""),
    ],
)
async def test_what_no_template_can_be_made_of_is_refused(
    server: JupyterProcess, arguments: dict[str, object], says: str
) -> None:
    notebooks.write(Path(server.root) / "a.ipynb", notebooks.numbered(1))
    before = sorted(Path(server.root).glob("[!.]*"))
    async with agent(server) as ada:
        error = await ada.refused("create_document", **{"path": "bad.ipynb", **arguments})
        assert says in error["message"]
    assert sorted(Path(server.root).glob("[!.]*")) == before


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_templates_are_listed_completed_and_previewed(
    server: JupyterProcess, mode: str
) -> None:
    async with agent(server, mode=mode, permission="read") as ada:
        listed = (await ada.client.list_resources()).resources
        found = {each.name: each for each in listed if each.uri.startswith("notebook://templates/")}
        assert set(found) == {*NAMES, "weekly"}
        assert found["eda"].title == "Template: First look at a table"
        assert "what is wrong with it" in str(found["eda"].description)
        names = [each["name"] for each in (found["eda"].meta or {})["parameters"]]
        assert names == ["path", "target", "max_rows", "delimiter"]
        preview = await ada.client.read_resource(found["eda"].uri)
        (content,) = preview.contents
        assert content.mime_type == "text/markdown"
        assert "# First look at a table" in getattr(content, "text", "")
        assert (content.meta or {})["pattern"] == "eda"
        reference = ResourceTemplateReference(uri="notebook://templates/{name}")
        values = await ada.client.complete(reference, {"name": "name", "value": "o"})
        assert values.completion.values == ["ooda_loop", "orchestration_suggest"]
        with pytest.raises(MCPError, match="There is no template 'none'") as refused:
            await ada.client.read_resource("notebook://templates/none")
        code = INVALID_PARAMS if mode == MODERN else -32002
        assert refused.value.error.code == code
        assert refused.value.error.data == {"uri": "notebook://templates/none"}
