"""Exporting notebooks, and importing them again, through both ways to a server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.jupyter import JupyterProcess
from tests.harness.ways import WAYS, served

pytestmark = pytest.mark.anyio

BOOK = "bôok.ipynb"
CELLS = [("intro", "markdown", "# Sales 😀"), ("work", "code", "x = '```'\nx"), ("raw", "raw", "r")]
SCRIPT = "<b>bold</b><script>alert(1)</script>"
OUTPUT = {"output_type": "display_data", "data": {"text/html": SCRIPT}, "metadata": {}}


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, request: pytest.FixtureRequest, anyio_backend: str
) -> AsyncIterator[JupyterProcess]:
    async with served(make_server, request.param, measured=True) as process:
        root = Path(process.root)
        cells = [
            notebooks.markdown("intro", CELLS[0][2]),
            notebooks.code("work", CELLS[1][2], outputs=[OUTPUT]),
            {"id": "raw", "cell_type": "raw", "source": "r", "metadata": {}},
        ]
        notebooks.write(root / BOOK, notebooks.notebook(cells))
        (root / "notes.md").write_text("# Notes\n")
        yield process


async def test_a_notebook_goes_out_as_srcmd_and_comes_in_again(server: JupyterProcess) -> None:
    async with agent(server) as ada:
        await ada.write(BOOK, "intro", "# Sales 😀 now")  # not saved yet
        made = await ada.ask("export_document", path=BOOK)
        assert made["complete"]
        text = made["content"]
        assert text.startswith('<!-- srcbook:{"language":"python"} -->\n\n# Sales 😀 now\n\n')
        new = f"again-{server.standalone is None}.ipynb"
        await ada.ask("create_document", path=new, content=text)
        found = (await ada.ask("get_notebook", path=new))["cells"]
        assert [(cell["cell_type"], cell["source"]) for cell in found] == [
            ("markdown", "# Sales 😀 now"),
            ("code", CELLS[1][2]),
            ("raw", "r"),
        ]
        assert (await ada.ask("export_document", path=new))["content"] == text
        await ada.ask("undo_agent_changes", path=BOOK)


@pytest.mark.parametrize(
    ("form", "name", "has"),
    [
        ("srcmd", "out/sales.src.md", "###### cell-2.py"),
        ("script", "sales.py", "x = '```'"),
        ("html", "sales.html", "<b>bold</b>"),
        ("ipynb", "copy.ipynb", '"nbformat": 4'),
    ],
)
async def test_a_notebook_is_exported_to_a_new_file(
    server: JupyterProcess, form: str, name: str, has: str
) -> None:
    async with agent(server) as ada:
        made = await ada.ask("export_document", path=BOOK, format=form, export_path=name)
        assert (made["path"], made["format"]) == (name, form)
        text = (Path(server.root) / name).read_text()
        assert has in text
        assert "<script>alert" not in text or form == "ipynb"
        again = await ada.refused("export_document", path=BOOK, format=form, export_path=name)
        assert again["code"] == "already_exists"
        assert (Path(server.root) / name).read_text() == text


async def test_an_answer_has_the_content_of_a_page_and_not_its_style(
    server: JupyterProcess,
) -> None:
    async with agent(server) as ada:
        made = await ada.ask("export_document", path=BOOK, format="html")
        assert made["complete"]
        assert "<b>bold</b>" in made["content"]
        assert "<script" not in made["content"]


BAD = "<img src=x onerror=hit()>"

#: What nbconvert writes into its pages, beside what cells say.
HOSTILE: dict[str, Any] = {
    "cells": [
        {
            **notebooks.markdown(
                "intro", f"# T {BAD} [x](javascript:hit())\n\n<script>hit()</script>"
            ),
            "metadata": {"tags": [f"' onclick=hit() '{BAD}"]},
        },
        notebooks.code(
            "work",
            f"'{BAD}'",
            outputs=[
                {
                    "output_type": "display_data",
                    "data": {"image/png": "iVBORw0KGgo="},
                    "metadata": {"image/png": {"width": '1" onerror=hit() x="', "height": 7}},
                },
                *(
                    {"output_type": "display_data", "data": {mime: said}, "metadata": {}}
                    for mime, said in (
                        ("text/vnd.mermaid", f"graph TD;</pre>{BAD}"),
                        ("text/latex", BAD),
                        ("text/html", BAD),
                        ("image/svg+xml", "<svg onload='hit()'><script>hit()</script></svg>"),
                        ("application/javascript", "hit()"),
                    )
                ),
                {"output_type": "stream", "name": "stdout", "text": BAD},
                {"output_type": "error", "ename": BAD, "evalue": BAD, "traceback": [BAD]},
            ],
        ),
    ],
    "metadata": {
        "title": f"</title>{BAD}",
        "language_info": {"name": "python", "pygments_lexer": f"x'{BAD}"},
        "widgets": {
            "application/vnd.jupyter.widget-state+json": {"state": {"x": "</script>" + BAD}}
        },
    },
}


class Running(HTMLParser):
    """Notes what runs in a page, if it is ours: the template has scripts of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.scripted = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripted = tag == "script"
        self.found += [
            name for name, value in attrs if name.startswith("on") or "script:" in (value or "")
        ]

    def handle_endtag(self, tag: str) -> None:
        self.scripted = False

    def handle_data(self, data: str) -> None:
        if self.scripted and "hit()" in data:
            self.found.append(data)


async def test_nothing_of_a_notebook_runs_in_a_page_that_is_made_of_it(
    server: JupyterProcess,
) -> None:
    path = "hostile.ipynb"
    book = {**notebooks.notebook(HOSTILE["cells"]), "metadata": HOSTILE["metadata"]}
    notebooks.write(Path(server.root) / path, book)
    async with agent(server) as ada:
        answered = (await ada.ask("export_document", path=path, format="html"))["content"]
        await ada.ask("export_document", path=path, format="html", export_path="hostile.html")
    for text in (answered, (Path(server.root) / "hostile.html").read_text()):
        assert "iVBORw0KGgo=" in text
        assert "height" in text
        running = Running()
        running.feed(text)
        running.close()
        assert running.found == []


async def test_an_answer_that_is_too_long_says_how_to_get_all(server: JupyterProcess) -> None:
    path = "long.ipynb"
    cells = [notebooks.code(f"c{n}", f"'{n} é' * {'9' * 90}") for n in range(600)]
    notebooks.write(Path(server.root) / path, notebooks.notebook(cells))
    async with agent(server) as ada:
        said = await ada.say("export_document", path=path, format="ipynb")
        assert "export_path writes all of it to a file" in said.split("\n")[0]
        assert len(said.encode()) < 40_000
        made = await ada.ask("export_document", path=path, format="srcmd", export_path="long.md")
        assert (Path(server.root) / "long.md").stat().st_size == made["size"] > 60_000


async def test_pictures_that_people_have_dropped_into_a_cell_are_exported_with_it(
    server: JupyterProcess,
) -> None:
    path, picture = "dropped.ipynb", {"a.png": {"image/png": "iVBORw0KGgo="}}
    cell = notebooks.markdown("intro", "![a](attachment:a.png)", attachments=picture)
    notebooks.write(Path(server.root) / path, notebooks.notebook([cell]))
    async with agent(server) as ada:
        made = await ada.ask("export_document", path=path, format="ipynb")
        assert json.loads(made["content"])["cells"][0]["attachments"] == picture
        page = await ada.ask("export_document", path=path, format="html")
        assert "data:image/png;base64,iVBORw0KGgo=" in page["content"]


async def test_a_fork_is_exported_as_it_is(server: JupyterProcess) -> None:
    async with agent(server) as ada:
        fork = (await ada.ask("fork_document", path=BOOK, title="t"))["fork"]
        await ada.write(fork, "work", "forked = 1")
        assert "forked = 1" in (await ada.ask("export_document", path=fork))["content"]
        assert "forked = 1" not in (await ada.ask("export_document", path=BOOK))["content"]
        await ada.ask("discard_document_fork", fork=fork)


async def test_srcmd_in_another_language_keeps_its_text(server: JupyterProcess) -> None:
    text = '<!-- srcbook:{"language":"javascript"} -->\n\n###### a.js\n\n```javascript\n1\n```\n'
    async with agent(server) as ada:
        path = "other.ipynb"
        await ada.ask("create_document", path=path, content=text, overwrite=True)
        (cell,) = json.loads((Path(server.root) / path).read_text())["cells"]
        assert (cell["source"], cell["metadata"]["name"]) == (["1"], "a.js")
        assert (
            "###### a.js\n\n```javascript\n1\n```"
            in ((await ada.ask("export_document", path=path))["content"])
        )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ({"path": "missing.ipynb"}, "document_not_found", ""),
        ({"path": "notes.md"}, "not_a_notebook", ""),
        ({"path": BOOK, "format": "docx"}, "invalid_argument", "srcmd"),
        ({"path": BOOK, "export_path": "a.ipynb"}, "invalid_argument", "ending"),
        ({"path": BOOK, "format": "ipynb", "export_path": "a.txt"}, "invalid_argument", "ending"),
        ({"path": BOOK, "export_path": "../a.md"}, "path_refused", ""),
        ({"path": BOOK, "export_path": ""}, "path_refused", ""),
    ],
)
async def test_what_cannot_be_exported_is_refused(
    server: JupyterProcess, arguments: dict[str, str], code: str, said: str
) -> None:
    async with agent(server) as ada:
        error = await ada.refused("export_document", **arguments)
        assert error["code"] == code
        assert said in f"{error['message']} {error['next_step']}"


async def test_broken_srcmd_writes_nothing(server: JupyterProcess) -> None:
    text = '<!-- srcbook:{"language":"python"} -->\n\n###### a.py\n\n```python\n1\n'
    async with agent(server) as ada:
        error = await ada.refused("create_document", path="broken.ipynb", content=text)
        assert (error["code"], "line 5" in error["message"]) == ("invalid_argument", True)
        assert not (Path(server.root) / "broken.ipynb").exists()


async def test_a_read_only_connection_gets_answers_and_no_files(server: JupyterProcess) -> None:
    async with agent(server, permission="read") as ada:
        assert (await ada.ask("export_document", path=BOOK))["complete"]
        error = await ada.refused("export_document", path=BOOK, export_path="no.md")
        assert error["code"] == "permission_refused"
    async with agent(server, works="propose") as ada:
        await ada.refused("export_document", path=BOOK, export_path="no.md")
    assert not (Path(server.root) / "no.md").exists()
