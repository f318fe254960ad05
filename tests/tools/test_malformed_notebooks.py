"""Notebooks and arguments that are JSON, or nearly, and that no shared document can hold."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pycrdt import Map

from tests.harness import notebooks
from tests.harness.agents import LEGACY, AgentClient, agent, over_stdio, structured_address, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.waiting import until
from tests.tools.conftest import New, Tab, Warm
from tests.transport.conftest import HEADERS, modern_call

pytestmark = pytest.mark.anyio

HALF = "\ud83d"

Write = Callable[[str, Any], Path]


@pytest.fixture
def write(server: JupyterProcess) -> Write:
    """Writes a file as it is given, and remembers nothing."""

    def to(path: str, content: Any) -> Path:
        file = Path(server.root) / path
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file

    return to


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def cell(**more: Any) -> dict[str, Any]:
    return notebooks.notebook([notebooks.code("one", "x"), {**notebooks.code("two", "y"), **more}])


def stream(text: Any) -> dict[str, Any]:
    return cell(outputs=[{"output_type": "stream", "name": "stdout", "text": text}])


def shown(value: Any) -> list[dict[str, Any]]:
    return [{"output_type": "display_data", "data": {"application/json": value}, "metadata": {}}]


MALFORMED: dict[str, Any] = {
    "a numeric source": cell(source=5),
    "a source of numbers": cell(source=[1, 2]),
    "no source": {**cell(), "cells": [{"cell_type": "raw", "metadata": {}, "id": "a"}]},
    "a stream of null": stream(None),
    "a stream of numbers": stream([5]),
    "half a character in a source": cell(source=f"x{HALF}"),
    "half a character in metadata": cell(metadata={"k": HALF}),
    "half a character in a key": cell(metadata={HALF: 1}),
    "half a character in an output": cell(outputs=shown(HALF)),
    "half a character in an id": cell(id=HALF),
    "deep metadata": cell(metadata={"k": nested(300)}),
    "deep metadata of the notebook": {**cell(), "metadata": {"k": nested(300)}},
    "a deep output": cell(outputs=shown(nested(300))),
    "very deep metadata": cell(metadata={"k": nested(900)}),
    "a count that is a word": cell(execution_count="many"),
    "outputs that are none": cell(outputs=["text"]),
    "an output without a type": cell(outputs=[{"data": {}}]),
    "a cell without a type": {**cell(), "cells": [{"source": "x", "metadata": {}, "id": "a"}]},
    "an id that is a number": cell(id=5),
    "cells that are no list": {**cell(), "cells": {}},
    "cells that are no objects": {**cell(), "cells": [None]},
    "a list": [1],
    "no notebook at all": {},
    "no JSON": "{ half a noteb",
}


async def test_a_malformed_notebook_is_reported_as_corrupt_and_not_changed(
    server: JupyterProcess, ada: AgentClient, write: Write
) -> None:
    for name, content in MALFORMED.items():
        path = f"malformed {name}.ipynb"
        file = write(path, content)
        before = file.read_bytes()
        for tool, arguments in (
            ("get_notebook", {"format": "full"}),
            ("batch_insert_notebook_cells", {"cells": [{"content": "new"}], "exec": False}),
        ):
            error = await ada.refused(tool, path=path, **arguments)
            assert error["code"] == "corrupt_document", (name, error)
            assert repr(path) in error["message"]
            assert str(server.root) not in error["message"], error
            assert "not touched" in error["message"]
            assert file.read_bytes() == before, name


async def test_a_person_is_notified_of_a_malformed_notebook_at_once(
    server: JupyterProcess, write: Write
) -> None:
    if server.standalone is not None:
        pytest.skip("a server without our extension lets them wait")
    for name in ("a numeric source", "half a character in metadata", "deep metadata"):
        file = write(f"person {name}.ipynb", MALFORMED[name])
        person = Collaborator(server.url, server.token, file.name)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), person:
                pass
        assert "4400" in str(person.last_error), name


# -- numbers of 64 bits and more --------------------------------------------------------------

LARGE = {
    "cells": [
        notebooks.code("one", "x", metadata={"k": 2**70, "small": 2**60 + 1}),
        notebooks.code("two", "y", outputs=shown([2**64 - 1]), execution_count=2**70),
    ],
    "metadata": {"k": {"l": [-(2**63) - 1]}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


async def test_a_notebook_with_large_integers_opens_as_in_a_browser(
    server: JupyterProcess, ada: AgentClient, tab: Tab, write: Write
) -> None:
    """Where it can be opened at all; a server without our extension cannot load it."""
    file = write("large.ipynb", LARGE)
    before = file.read_bytes()
    async with agent(server, "Bob", mode=LEGACY) as bob:
        if server.standalone is not None:
            error = await ada.refused("get_notebook", path="large.ipynb")
            assert error["code"] == "corrupt_document"
            assert "metadata.k is 1180591620717411303424" in error["message"]
            assert await bob.ask("list_notebooks")  # its session lives
            assert file.read_bytes() == before
            return
        said = await ada.say("get_notebook", path="large.ipynb", format="full")
        assert "cells[0].metadata.k" in said
        assert "rounded" in said
        assert "In[1180591620717411303424]" in said
        assert await bob.sources("large.ipynb") == ["x", "y"]
        person = await tab("large.ipynb")
        assert person.cell("one")["metadata"]["k"] == 2.0**70
    assert file.read_bytes() == before  # nobody has changed anything
    await ada.write("large.ipynb", "one", "edited")
    saved = await saved_with(file, "edited")
    assert saved["cells"][0]["metadata"]["k"] == 2.0**70
    assert saved["cells"][0]["metadata"]["small"] == 2**60 + 1
    assert saved["cells"][1]["outputs"][0]["data"]["application/json"] == [2.0**64]
    # As every other program reads it: no integer of more than 64 bits is left.
    json.loads(file.read_text(), parse_int=lambda digits: _small(int(digits)))


async def test_an_open_file_that_gains_a_large_integer_is_reloaded(
    server: JupyterProcess, ada: AgentClient, new: New
) -> None:
    path = new("x")
    assert await ada.sources(path) == ["x"]
    file = Path(server.root) / path
    content = json.loads(file.read_text())
    content["cells"][0] |= {"source": "changed", "metadata": {"k": 2**70}}
    file.write_text(json.dumps(content))
    if server.standalone is None:
        assert await ada.sources(path) == ["changed"]
        await ada.write(path, "cell-0", "edited")
        await saved_with(file, "edited")
        return
    error = await ada.refused("get_notebook", path=path)
    assert error["code"] == "corrupt_document"
    error = await ada.refused(
        "batch_insert_notebook_cells", path=path, cells=[{"content": "new"}], exec=False
    )
    assert error["code"] == "corrupt_document"
    assert json.loads(file.read_text()) == content


# -- NaN and Infinity -------------------------------------------------------------------------


async def test_a_notebook_with_nan_can_be_saved_or_is_refused(
    server: JupyterProcess, ada: AgentClient, tab: Tab, write: Write
) -> None:
    content = cell(metadata={"k": float("nan"), "l": [float("-inf"), 1e300]})
    file = write("nan.ipynb", content)
    before = file.read_bytes()
    if server.standalone is not None:
        error = await ada.refused("get_notebook", path="nan.ipynb")
        assert error["code"] == "corrupt_document"
        assert "cells[1].metadata.k is NaN" in error["message"]
        assert file.read_bytes() == before
        return
    person = await tab("nan.ipynb")
    person.insert("one", 0, "typed ")
    await saved_with(file, "typed x")
    await ada.write("nan.ipynb", "two", "edited")
    saved = await saved_with(file, "edited")
    metadata = saved["cells"][1]["metadata"]
    assert str(metadata["k"]) == "nan"
    assert metadata["l"] == [float("-inf"), 1e300]


# -- arguments --------------------------------------------------------------------------------


async def raw_call(server: JupyterProcess, tool: str, **arguments: Any) -> dict[str, Any]:
    """An answer to what the SDK's own client would not send: NaN, and halves of characters."""
    url, credentials = structured_address(server)
    async with httpx2.AsyncClient(
        headers={**HEADERS, **credentials}, timeout=60, verify=False
    ) as http:
        body, headers = modern_call(tool, **arguments)
        answer = await http.post(url, content=json.dumps(body), headers=headers)
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()["result"]
        return result


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (2**70, "updates[1].metadata.k[0] is 1180591620717411303424, an integer of 71 bits"),
        (-(2**63), "an integer of 64 bits"),
        (2**60, "an integer of 61 bits"),
        (1e300, "1e+300"),
        (float("nan"), "is NaN"),
        (float("inf"), "is Infinity"),
        (HALF, "half of a surrogate pair"),
        ({HALF: 1}, "half of a surrogate pair"),
    ],
    ids=["70 bits", "negative", "60 bits", "1e300", "nan", "infinity", "half", "half a key"],
)
async def test_metadata_that_no_document_can_hold_is_refused_with_the_whole_call(
    server: JupyterProcess, ada: AgentClient, new: New, value: Any, says: str
) -> None:
    path = new("a", "b")
    async with agent(server, "Bob", mode=LEGACY) as bob:
        before = await bob.ask("get_notebook", path=path, format="full")
        updates = [
            {"cell_id": "cell-0", "content": "changed"},
            {"cell_id": "cell-1", "metadata": {"fine": 1, "k": [value]}},
        ]
        answer = await raw_call(
            server, "batch_update_notebook_cells", path=path, updates=updates, exec=False
        )
        error = answer["structuredContent"]["error"]
        assert answer["isError"]
        assert error["code"] == "invalid_argument"
        assert says in error["message"]
        after = await bob.ask("get_notebook", path=path, format="full")  # its session lives
        assert after["cells"] == before["cells"]


@pytest.mark.parametrize("value", [2**70, float("nan"), HALF, nested(200)])
async def test_a_notebook_that_no_document_can_hold_is_not_created(
    server: JupyterProcess, value: Any
) -> None:
    content = json.dumps(cell(metadata={"k": value}))
    answer = await raw_call(
        server, "create_document", path="created.ipynb", type="notebook", content=content
    )
    assert answer["structuredContent"]["error"]["code"] == "invalid_argument"
    assert not (Path(server.root) / "created.ipynb").exists()


async def test_half_a_character_in_any_argument_gets_an_answer(
    server: JupyterProcess, ada: AgentClient, warm: Warm, write: Write
) -> None:
    path, text = await warm("a"), write("half.md", "text\n").name
    for tool, arguments in (
        ("get_notebook", {"path": path, "query": HALF}),
        ("get_notebook", {"path": path, "cell_ids": [HALF]}),
        ("batch_insert_notebook_cells", {"path": path, "cells": [{"content": HALF}]}),
        ("batch_update_notebook_cells", {"path": path, "updates": [{"content": HALF}]}),
        (
            "batch_update_notebook_cells",
            {"path": path, "updates": [{"index": 0, "old_text": HALF, "new_text": "b"}]},
        ),
        (
            "batch_update_notebook_cells",
            {"path": path, "updates": [{"index": 0, "old_text": "a", "new_text": HALF}]},
        ),
        ("batch_update_notebook_cells", {"path": path, "updates": [{HALF: 1}]}),
        (
            "batch_delete_notebook_cells",
            {"path": path, "cell_ids": ["cell-0"], "if_revision": HALF},
        ),
        ("batch_update_document", {"path": text, "operations": [{"content": HALF}]}),
        ("batch_update_document", {"path": text, "operations": [{HALF: HALF}]}),
        ("create_document", {"path": "new.md", "type": "file", "content": HALF}),
        ("create_document", {"path": "new.ipynb", "type": "notebook", "content": HALF}),
        ("create_document", {"path": "new.ipynb", "type": "notebook", "kernel": HALF}),
        ("list_documents", {"path": "", "path_filter": HALF}),
        ("run_code", {"path": path, "code": f"'{HALF}'"}),
        ("get_run", {"run_id": HALF}),
    ):
        answer = await raw_call(server, tool, **arguments)
        code = answer["structuredContent"].get("error", {}).get("code")
        assert code != "internal_error", (tool, answer)
    assert await ada.sources(path) == ["a"]
    assert (Path(server.root) / text).read_text() == "text\n"


async def test_the_command_survives_a_large_integer(
    server: JupyterProcess, new: New, tmp_path: Path
) -> None:
    if server.standalone is None:
        pytest.skip("this is about the command")
    path = new("a")
    arguments = (f"--server={server.url}?token={server.token}",)
    async with over_stdio(tmp_path, *arguments) as ada:
        update = {"index": 0, "content": "changed", "metadata": {"k": 2**70}}
        result = await ada.call(
            "batch_update_notebook_cells", path=path, updates=[update], exec=False
        )
        assert result.is_error
        assert "71 bits" in text_of(result)
        assert await ada.sources(path) == ["a"]


async def test_the_command_survives_reading_large_integers(
    server: JupyterProcess, new: New, write: Write, tmp_path: Path
) -> None:
    if server.standalone is None:
        pytest.skip("this is about the command")
    file, path = write("large-over-stdio.ipynb", LARGE), new("a")
    before = file.read_bytes()
    async with over_stdio(tmp_path, f"--server={server.url}?token={server.token}") as ada:
        error = await ada.refused("get_notebook", path=file.name, format="full")
        assert error["code"] == "corrupt_document"
        assert "metadata.k is 1180591620717411303424" in error["message"]
        assert await ada.sources(path) == ["a"]
    assert file.read_bytes() == before


# -- what a kernel sends ----------------------------------------------------------------------


async def test_a_kernel_that_counts_beyond_64_bits_does_not_break_the_run(
    ada: AgentClient, warm: Warm, tab: Tab
) -> None:
    path = await warm("get_ipython().execution_count = 2**70", "1 + 1", "2 + 2")
    try:
        ran = await ada.ask("batch_execute_notebook_cells", path=path)
        assert [run["state"] for run in ran["runs"]] == ["completed"] * 3
        person = await tab(path)
        assert person.cell("cell-2")["execution_count"] == 2.0**70
    finally:
        await ada.ask("run_code", path=path, code="get_ipython().execution_count = 1")


async def test_metadata_that_is_not_json_is_shown_or_described(
    ada: AgentClient, new: New, tab: Tab
) -> None:
    """Browsers have values that JSON has not."""
    path = new("a", "b", "c")
    person = await tab(path)
    for number, value in enumerate((float("nan"), bytes([255]), nested(500))):
        metadata: Map[Any] = person.notebook.ycells[number]["metadata"]
        metadata["k"] = value
    await person.flush()
    said = await ada.say("get_notebook", path=path, format="full")
    assert "NaN" in said
    assert "metadata.k is not JSON: bytearray" in said
    assert "is nested more than 150 levels deep" in said


async def saved_with(file: Path, text: str) -> Any:
    """What a file says when it has some text."""
    await until(lambda: text in file.read_text() and file.read_text().endswith("}\n"))
    return json.loads(file.read_text())


def _small(number: int) -> int:
    assert -(2**63) <= number < 2**63
    return number
