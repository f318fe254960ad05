"""What code puts out, with a real kernel: in the people's notebook and in the agent's answer."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import time
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_types import (
    BlobResourceContents,
    CallToolResult,
    ImageContent,
    ResourceLink,
    TextResourceContents,
)

from tests.harness.agents import AgentClient, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import Person
from tests.tools.conftest import MakeGate, Warm

pytestmark = pytest.mark.anyio

Tab = Callable[[str], Any]


def png(width: int, height: int) -> str:
    """A red picture, in base64."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    rows = (b"\0" + b"\xff\0\0" * width) * height
    content = b"\x89PNG\r\n\x1a\n" + chunk(
        b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    )
    content += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(content).decode()


@pytest.fixture
def tab(server: JupyterProcess) -> Tab:
    """A person's open tab."""

    @asynccontextmanager
    async def open_tab(path: str) -> AsyncIterator[Collaborator]:
        async with Collaborator(server.url, server.token, path) as ana:
            yield ana

    return open_tab


async def run(client: AgentClient, path: str, cell: int = 0) -> CallToolResult:
    result = await client.call("execute_notebook_cell", path=path, cell_id=cell)
    assert not result.is_error, text_of(result)
    return result


async def outputs(
    client: AgentClient, warm: Warm, tab: Tab, code: str
) -> tuple[list[dict[str, Any]], CallToolResult]:
    """Run one cell; its outputs as people have them, and the agent's answer."""
    path = await warm(code)
    result = await run(client, path)
    async with tab(path) as ana:
        return ana.cell(0)["outputs"], result


def told(result: CallToolResult) -> dict[str, Any]:
    (facts,) = result.structured_content["runs"]
    return dict(facts)


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def display(mime: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {mime: value}, "metadata": {}, **more}


# -- streams ---------------------------------------------------------------------------------


async def test_stdout_and_stderr_are_separate_outputs(
    ada: AgentClient, warm: Warm, tab: Tab
) -> None:
    shown, result = await outputs(
        ada,
        warm,
        tab,
        "import sys\n"
        "for word in 'one', 'twö', '😀':\n    print(word, flush=True)\n"
        "print('careful', file=sys.stderr, flush=True)\n"
        "print('three')",
    )
    assert shown == [stream("one\ntwö\n😀\n"), stream("careful\n", "stderr"), stream("three\n")]
    text = text_of(result)
    assert text.index("twö") < text.index("stderr") < text.index("careful") < text.index("three")
    assert [output["kind"] for output in told(result)["outputs"]] == ["text", "stderr", "text"]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (r"for n in 0, 50, 100: print(f'\r{n:3}% |' + '#' * (n // 20), end='')", "100% |#####"),
        (r"for n in 0, 50, 100: print(f'\r{n:3}% |' + '█' * (n // 20), end='')", "100% |█████"),
        (r"for n in range(5): print('\b' * 7 + f'😀 {n} é', end='')", "😀 4 é"),
        (r"print('longer line\rshort')", "shortr line\n"),
        (r"print('one\r\ntwo\r\n', end='')", "one\ntwo\n"),
        (r"print('done\n 10%\r 20%\r', end=''); print('\r 30%')", "done\n 30%\n"),
        (r"print('\x1b[31mred\x1b[0m')", "\x1b[31mred\x1b[0m\n"),
    ],
    ids=["bar", "wide-bar", "backspace", "shorter", "windows", "cursor", "colours"],
)
async def test_text_is_stored_as_a_terminal_shows_it(
    ada: AgentClient, warm: Warm, tab: Tab, code: str, text: str
) -> None:
    for source in (code, code.replace("end=''", "end='', flush=True")):
        shown, _ = await outputs(ada, warm, tab, source)
        assert shown == [stream(text)]


async def test_a_progress_bar_is_redrawn_in_the_document_while_it_runs(
    ada: AgentClient, warm: Warm, tab: Tab, gate: MakeGate
) -> None:
    first, second = gate(), gate()
    path = await warm(
        r"print('start\n 10% |█ é', end='', flush=True)" + f"\n{first.code}\n"
        r"print('\r 20% |██ é', end='', flush=True)" + f"\n{second.code}\n"
        r"print('\r100% |██████ é')"
    )
    async with tab(path) as ana:
        started = await ada.ask("execute_notebook_cell", path=path, cell_id=0, timeout=0)
        await ana.until(lambda: ana.cell(0)["outputs"] == [stream("start\n 10% |█ é")])
        first.open()
        await ana.until(lambda: ana.cell(0)["outputs"] == [stream("start\n 20% |██ é")])
        second.open()
        await ada.ask("get_run", run_id=started["runs"][0]["run_id"])
        await ana.until(lambda: ana.cell(0)["outputs"] == [stream("start\n100% |██████ é\n")])


async def test_text_arrives_while_the_cell_runs(
    ada: AgentClient, warm: Warm, tab: Tab, gate: MakeGate
) -> None:
    first = gate()
    path = await warm(f"print('before')\n{first.code}\nprint('after')")
    async with tab(path) as ana:
        answer = await ada.call("execute_notebook_cell", path=path, cell_id=0, timeout=0)
        await ana.until(lambda: ana.cell(0)["outputs"] == [stream("before\n")])
        assert ana.cell(0)["execution_state"] == "running"
        run_id = told(answer)["run_id"]
        assert "before" in text_of(await ada.call("get_run", run_id=run_id, wait=0))
        first.open()
        await ada.ask("get_run", run_id=run_id)
        await ana.until(lambda: ana.cell(0)["outputs"] == [stream("before\nafter\n")])


async def test_a_cell_that_prints_constantly_changes_the_document_at_most_twenty_times_a_second(
    ada: AgentClient, warm: Warm, tab: Tab, tmp_path: Path
) -> None:
    enough = tmp_path / "enough"
    path = await warm(
        f"import pathlib, time\nwhile not pathlib.Path({str(enough)!r}).exists():\n"
        "    print('x' * 40, flush=True)\n    time.sleep(0.001)"
    )
    async with tab(path) as ana:
        changes: list[int] = []
        seen = ana.doc.observe(lambda event: changes.append(len(event.update)))
        began = time.monotonic()
        call = asyncio.create_task(run(ada, path, 0))
        try:
            await ana.until(
                lambda: len(changes) > 20 and len(ana.cell(0)["outputs"][0]["text"]) > 10_000
            )
        finally:
            enough.touch()
        result = await call
        await ana.flush()
        took = time.monotonic() - began
        ana.doc.unobserve(seen)
        assert told(result)["state"] == "completed"
        assert ana.cell(0)["execution_state"] == "idle"
        assert len(changes) <= 20 * took + 3
        printed = ana.cell(0)["outputs"][0]["text"]
        # Each change is as large as what is new.
        assert sum(changes) < 3 * len(printed) + 10_000


async def test_ten_thousand_lines_are_summarized_in_a_thousand_tokens(
    ada: AgentClient, warm: Warm, tab: Tab
) -> None:
    shown, result = await outputs(
        ada, warm, tab, "for n in range(10_000): print(f'line {n:05} of many, é')"
    )
    assert shown == [stream("".join(f"line {n:05} of many, é\n" for n in range(10_000)))]
    text = text_of(result)
    assert "line 00000" in text
    assert "line 09999" in text
    facts = json.dumps(result.structured_content, separators=(",", ":"), ensure_ascii=False)
    assert len(text) + len(facts) <= 4_000
    (link,) = [part for part in result.content if isinstance(part, ResourceLink)]
    assert await whole(ada, str(link.uri)) == shown[0]["text"].rstrip("\n")


async def whole(client: AgentClient, uri: str) -> str:
    """All pages of a text behind an address."""
    found, offset = "", 0
    base = f"{uri}{'&' if '?' in uri else '?'}offset="
    while True:
        (content,) = (await client.client.read_resource(f"{base}{offset}")).contents
        assert isinstance(content, TextResourceContents)
        if (meta := content.meta) is None or meta["end"] >= meta["size"]:
            return found + content.text
        page, _, line = content.text.rpartition("\n")
        assert line == (
            f"[{meta['offset']:,} to {meta['end']:,} of {meta['size']:,} bytes; "
            f"next: {base}{meta['end']}]"
        )
        found += page
        offset = meta["end"]


# -- clearing and updating -------------------------------------------------------------------


async def test_cleared_output_is_gone(ada: AgentClient, warm: Warm, tab: Tab) -> None:
    shown, result = await outputs(
        ada,
        warm,
        tab,
        "from IPython.display import clear_output\n"
        "print('one'); display(1); clear_output()\nprint('two')",
    )
    assert shown == [stream("two\n")]
    assert "one" not in text_of(result).partition("```")[2]


async def test_output_waiting_to_be_cleared_is_replaced_by_the_next(
    ada: AgentClient, warm: Warm, tab: Tab, gate: MakeGate
) -> None:
    first = gate()
    path = await warm(
        "from IPython.display import clear_output\n"
        f"print('one', flush=True)\nclear_output(wait=True)\n{first.code}\nprint('twö')\n"
        "clear_output(wait=True)"
    )
    async with tab(path) as ana:
        started = await ada.ask("execute_notebook_cell", path=path, cell_id=0, timeout=0)
        await first.reached()
        await ana.until(lambda: ana.cell(0)["outputs"] == [stream("one\n")])
        first.open()
        await ada.ask("get_run", run_id=started["runs"][0]["run_id"])
        await ana.until(lambda: ana.cell(0)["outputs"] == [stream("twö\n")])


async def test_a_display_can_be_updated_from_anywhere(
    server: JupyterProcess, ada: AgentClient, warm: Warm, tab: Tab
) -> None:
    path = await warm(
        "shown = display('éins', display_id='of-outputs')\n"
        "display('apart')\nshown.update('zwei')\nprint('ready')",
        "shown.update('from another cell')",
    )

    async with tab(path) as ana:

        async def becomes(text: str) -> None:
            await ana.until(
                lambda: (
                    ana.cell(0)["outputs"]
                    == [
                        display("text/plain", text),
                        display("text/plain", "'apart'"),
                        stream("ready\n"),
                    ]
                )
            )

        result = await run(ada, path, 0)
        await becomes("'zwei'")
        assert "'zwei'" in text_of(result)
        assert "éins" not in text_of(result)
        result = await run(ada, path, 1)
        assert "no output" in text_of(result)
        await becomes("'from another cell'")
        assert ana.cell(1)["outputs"] == []
        await ada.ask("run_code", path=path, code="shown.update('from scratch code, é')")
        await becomes("'from scratch code, é'")
        async with Person(server, path) as person:
            await person.execute("shown.update('from a person')")
        await becomes("'from a person'")


async def test_an_update_applies_to_the_latest_run_of_a_cell(
    ada: AgentClient, warm: Warm, tab: Tab
) -> None:
    path = await warm(
        "shown = display('a', display_id='again')\nprint('x')",
        "for letter in 'bc':\n    shown.update(letter)",
    )
    async with tab(path) as ana:

        def shows(letter: str) -> bool:
            expected = [display("text/plain", f"'{letter}'"), stream("x\n")]
            return bool(ana.cell(0)["outputs"] == expected)

        for _ in range(3):
            await run(ada, path, 0)
            await ana.until(lambda: shows("a"))
            await run(ada, path, 1)
            await ana.until(lambda: shows("c"))


async def test_an_update_does_not_touch_a_persons_output(
    ada: AgentClient, warm: Warm, tab: Tab
) -> None:
    path = await warm(
        "shown = display('a', display_id='theirs')", "other = display('a', display_id='other')"
    )
    async with tab(path) as ana:
        await run(ada, path, 0)
        await run(ada, path, 1)
        await ana.until(lambda: all(len(ana.cell(cell)["outputs"]) == 1 for cell in (0, 1)))
        with ana.doc.transaction():  # as somebody who runs it in JupyterLab, with the same result
            cell = ana.notebook.ycells[0]
            cell["outputs"].clear()
            cell["outputs"].append(display("text/plain", "'a'"))
        await ana.flush()
        await ada.ask("run_code", path=path, code="shown.update('b'); other.update('b')")
        await ana.until(lambda: ana.cell(1)["outputs"] == [display("text/plain", "'b'")])
        await ana.flush()
        assert ana.cell(0)["outputs"] == [display("text/plain", "'a'")]


# -- more than a server passes on ------------------------------------------------------------


async def test_output_that_the_server_drops_is_reported_as_missing(
    server: JupyterProcess, ada: AgentClient, warm: Warm
) -> None:
    path = await warm(
        "for _ in range(100):\n    print('x' * 99_999, flush=True)\n1 / 0",
        r"print('IOPub data rate exceeded.\n')",
    )
    result = await run(ada, path)
    facts = told(result)
    assert facts["state"] == "failed"
    assert "ZeroDivisionError: division by zero" in text_of(result)
    if server.standalone is None:
        assert "output_missing" not in facts
        assert facts["outputs"][0]["length"] == 10_000_000
    else:
        assert "iopub_data_rate_limit (1,000,000 bytes/sec)" in facts["output_missing"]
        assert "Output is missing. The Jupyter server dropped" in text_of(result)
    assert "output_missing" not in told(await run(ada, path, 1))  # that said it itself


# -- rich outputs ----------------------------------------------------------------------------


async def test_a_picture_is_stored_unchanged_and_shown_to_the_agent(
    ada: AgentClient, warm: Warm, tab: Tab
) -> None:
    picture = png(8, 6)
    bundle = {"image/png": picture, "text/plain": "<Figure with 1 Axes>"}
    shown, result = await outputs(ada, warm, tab, f"display({bundle!r}, raw=True)")
    assert shown == [{"output_type": "display_data", "data": bundle, "metadata": {}}]
    (image,) = [part for part in result.content if isinstance(part, ImageContent)]
    assert image.mime_type == "image/png"
    assert image.data == picture
    assert base64.b64decode(image.data, validate=True).startswith(b"\x89PNG")
    assert "image/png 8 x 6" in text_of(result)
    assert picture[:40] not in text_of(result)
    assert picture[:40] not in json.dumps(result.structured_content)


async def test_a_large_picture_is_scaled_for_the_agent_and_complete_at_its_uri(
    ada: AgentClient, warm: Warm, tab: Tab
) -> None:
    picture = png(1500, 900)
    bundle = {"image/png": picture}
    shown, result = await outputs(ada, warm, tab, f"display({bundle!r}, raw=True)")
    assert shown[0]["data"] == bundle
    (image,) = [part for part in result.content if isinstance(part, ImageContent)]
    content = base64.b64decode(image.data, validate=True)
    assert struct.unpack(">II", content[16:24])[0] <= 700
    # It is all that a model can look at, so there is no link; the whole one is there all the same.
    assert not any(isinstance(part, ResourceLink) for part in result.content)
    run_id = result.structured_content["runs"][0]["run_id"]
    (behind,) = (await ada.client.read_resource(f"notebook://runs/{run_id}/0")).contents
    assert isinstance(behind, BlobResourceContents)
    assert behind.mime_type == "image/png"
    assert behind.blob == picture


@pytest.mark.parametrize(
    ("mime", "value", "kind"),
    [
        ("text/html", "<b>fétt</b>", "html"),
        ("text/latex", "$\\frac{a}{b}$", "latex"),
        ("text/markdown", "# Títle", "markdown"),
        ("application/json", {"a": [1, 2.5, None, True], "é": {"😀": "x"}}, "json"),
        ("image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg' width='8' height='6'/>", None),
        (
            "application/vnd.jupyter.widget-view+json",
            {"model_id": "0" * 32, "version_major": 2, "version_minor": 0},
            "widget",
        ),
        ("application/javascript", "alert('é')", "javascript"),
        ("application/vnd.nobody.knows+json", {"é": [1]}, "other"),
        ("application/x-unknown", "????", "other"),
    ],
    ids=["html", "latex", "md", "json", "svg", "widget", "js", "unknown-json", "unknown"],
)
async def test_rich_output_is_stored_and_named(
    ada: AgentClient, warm: Warm, tab: Tab, mime: str, value: Any, kind: str | None
) -> None:
    code = f"display({ {mime: value}!r}, raw=True, metadata={ {mime: {'isolated': True}}!r})"
    shown, result = await outputs(ada, warm, tab, code)
    assert shown == [display(mime, value, metadata={mime: {"isolated": True}})]
    (output,) = told(result)["outputs"]
    assert output["type"] == "display_data"
    if kind is not None:
        assert output["kind"] == kind
        assert output["mime"] == mime
    assert mime in text_of(result)


FRAMES = json.loads((Path(__file__).parents[1] / "documents" / "frames.json").read_text())


async def test_a_small_table_is_shown_whole_and_its_full_output_is_only_plain_text(
    ada: AgentClient, warm: Warm
) -> None:
    data = FRAMES["describe"]["data"]
    result = await run(ada, await warm(f"display({data!r}, raw=True)"))
    text = text_of(result)
    assert "table 8 rows x 3 columns\n```\n\theight\tweight\tage\ncount\t500.000000" in text
    assert "\nmax\t200.660367\t99.842594\t89.000000\n```" in text
    assert "notebook://" not in str(result)
    page = await ada.ask("get_run", run_id=told(result)["run_id"], output=0)
    assert [part["mime"] for part in page["parts"]] == ["text/plain"]
    assert page["parts"][0]["text"] == data["text/plain"]


async def test_a_large_table_has_a_link_to_its_plain_text_only(
    ada: AgentClient, warm: Warm
) -> None:
    data = FRAMES["sixty_rows"]["data"]
    result = await run(ada, await warm(f"display({data!r}, raw=True)"))
    assert "table 60 rows x 3 columns: the first 5 rows; full: get_run(run_id=" in text_of(result)
    (link,) = [part for part in result.content if isinstance(part, ResourceLink)]
    assert await whole(ada, str(link.uri)) == data["text/plain"]


async def test_a_result_has_the_execution_count_of_its_cell(
    ada: AgentClient, warm: Warm, tab: Tab
) -> None:
    path = await warm("'é'", "2")
    counts = [told(await run(ada, path, cell))["execution_count"] for cell in (0, 1, 0)]
    assert counts[1:] == [counts[0] + 1, counts[0] + 2]
    async with tab(path) as ana:
        assert ana.cell(0)["execution_count"] == counts[2]
        assert ana.cell(0)["outputs"] == [
            {
                "output_type": "execute_result",
                "data": {"text/plain": "'é'"},
                "metadata": {},
                "execution_count": counts[2],
            }
        ]


async def test_an_error_is_stored_with_its_traceback(
    ada: AgentClient, warm: Warm, tab: Tab
) -> None:
    shown, result = await outputs(ada, warm, tab, "print('é')\nraise ValueError('wróng')")
    assert shown[0] == stream("é\n")
    error = shown[1]
    assert (error["output_type"], error["ename"], error["evalue"]) == (
        "error",
        "ValueError",
        "wróng",
    )
    assert any("\x1b[" in line for line in error["traceback"])
    assert told(result)["state"] == "failed"
    assert "ValueError: wróng" in text_of(result)
    assert "\x1b" not in text_of(result)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("10**30", 1e30),
        ("2**60 + 1", 2.0**60),
        ("[-2**63 - 1]", [-(2.0**63)]),
        ("10**400", None),
    ],
    ids=["1e30", "60-bits", "negative", "1e400"],
)
async def test_a_huge_number_does_not_break_the_run(
    ada: AgentClient, warm: Warm, tab: Tab, value: str, stored: Any
) -> None:
    shown, result = await outputs(
        ada,
        warm,
        tab,
        f"shown = display({{'application/json': {value}}}, raw=True, display_id='number')\n"
        f"shown.update({{'application/json': {value}}}, raw=True)\nprint('after')",
    )
    assert shown == [display("application/json", stored), stream("after\n")]
    assert told(result)["state"] == "completed"


@pytest.mark.parametrize("value", ["nan", "inf"])
async def test_nan_and_infinity_do_not_break_the_run(
    ada: AgentClient, warm: Warm, tab: Tab, value: str
) -> None:
    code = f"display({{'application/json': [float('{value}')]}}, raw=True)\nprint('after')"
    shown, result = await outputs(ada, warm, tab, code)
    assert stream("after\n") in shown
    assert told(result)["state"] == "completed"
    json.dumps(shown, allow_nan=False)
