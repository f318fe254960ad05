"""Nonsense, in arguments and in bytes: it is refused or does what it says, and harms nothing.

`FUZZ_SEED` tries other nonsense.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import string
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import nbformat
import pytest
from mcp.shared.inbound import encode_header_value

from tests.conftest import MakeServer, Times
from tests.harness import catalogue, notebooks
from tests.harness.agents import AgentClient, agent, mcp_address
from tests.harness.catalogue import PROMPT_KINDS, RESOURCE_KINDS, Request
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import eventually
from tests.harness.ways import WAYS, served
from tests.transport.conftest import HEADERS, INITIALIZE

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]

SEED = int(os.environ.get("FUZZ_SEED", "18"))

NOTEBOOK, TEXT = "fuzzed.ipynb", "fuzzed.md"

#: Where nothing may be written that is not the doing of a call that was let in.
_SETTINGS = {"rate_limit": "0", "max_open_documents": "0"}

_TEXTS = (
    *("", " ", "\0", "\n", "a\nb", "\u202e", "\ud800", "\U0001f600" * 3, "null", "true", "1"),
    *("[]", "{}", '[{"a": 1}]', "[" * 50, "x" * 5_000, "%00", "%2e%2e%2f", "../..", "/etc/passwd"),
    *("C:\\x", "~", "a/../b", ".", "..", "-1", "NaN", "cell-00000", "cell-00000@000000"),
    *("text:x", "fork:0", "s-0", "run-0", "0" * 32, NOTEBOOK, TEXT, f"{NOTEBOOK}@abcdef", "new.md"),
    *("http://127.0.0.1:1/", "notebook://list", "python3", "\\d+", "*", "?", "[", "${jndi:x}"),
    *("<script>", "'; --", "{{7*7}}", "```\nignore", "é" * 200, "jcm_0_0"),
)

_NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 10, 10**6, 2**31, 2**53, 2**63, -(2**63), 2**64, 10**30, 10**400),
    *(0.5, -0.0, 1e308, -1e308, 1e-320),
)


class Nonsense:
    """Makes values that fit a schema, more or less."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def arguments(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Arguments of a call."""
        chance = self.random.random
        required = set(schema.get("required", ()))
        given = {
            name: self.value(name, each)
            for name, each in schema.get("properties", {}).items()
            if (name in required and chance() > 0.05) or chance() < 0.3
        }
        if chance() < 0.05:
            given[self.text()] = self.anything()
        return given

    def value(self, name: str, schema: dict[str, Any]) -> Any:
        """A value of an argument: often one that makes sense."""
        chance = self.random.random
        if chance() < 0.12:
            return self.anything()
        if chance() < 0.35 and (known := self._sensible(name)) is not None:
            return known
        if "enum" in schema and chance() < 0.8:
            return self.random.choice(schema["enum"])
        kinds = schema.get("type", ["string", "integer", "array", "object"])
        kind = kinds if isinstance(kinds, str) else self.random.choice(kinds)
        if kind == "array":
            items = schema.get("items", {})
            return [self.value(name, items) for _ in range(self.random.randrange(4))]
        if kind == "object":
            return self.arguments(schema) if "properties" in schema else {self.text(): self.text()}
        if kind == "boolean":
            return chance() < 0.5
        return self.random.choice(_NUMBERS) if kind in ("integer", "number") else self.text()

    def _sensible(self, name: str) -> Any:
        few = {
            "path": (NOTEBOOK, TEXT),
            "document_path": (NOTEBOOK, TEXT),
            "cell_id": ("cell-00000", 0, -1),
            "cell_ids": ("cell-00001", 0, 1),
            "index": (0, 1, -1),
            "start_index": (0, 1),
            "end_index": (1, 2),
            "position": (0, 1, -1),
            "old_text": ("x", "=", "\n"),
            "content": ("y = 1", "", "# words\n" * 5),
            "exec": (False,),
            "timeout": (0, 0.1),
            "wait": (0, 0.1),
        }
        return self.random.choice(few[name]) if name in few else None

    def text(self) -> str:
        """A text."""
        if self.random.random() < 0.7:
            return self.random.choice(_TEXTS)
        letters = string.printable + "é\u2028\u0000"
        return "".join(self.random.choices(letters, k=self.random.randrange(30)))

    def anything(self, depth: int = 0) -> Any:
        """Any value that JSON can hold, and some that it cannot."""
        pick = self.random.randrange(9 if depth < 3 else 6)
        if pick == 6:
            return [self.anything(depth + 1) for _ in range(self.random.randrange(4))]
        if pick == 7:
            return {self.text(): self.anything(depth + 1)}
        if pick == 8:
            return [[[[[[[[self.text()]]]]]]]] * self.random.randrange(1, 50)
        choices = (None, True, self.random.choice(_NUMBERS), self.text(), float("nan"), "")
        return choices[pick]

    def uri(self) -> str:
        """A URI of a resource, or of nothing."""
        kind = self.random.choice(list(RESOURCE_KINDS.values()))
        filled = re.sub(r"\{\?[^}]*\}", "", kind.template)
        filled = re.sub(r"\{\w+\}", lambda _: quote(self.text(), "", errors="replace"), filled)
        if self.random.random() < 0.3:
            at = self.random.randrange(len(filled))
            filled = filled[:at] + self.text() + filled[at + 1 :]
        return filled

    def request(self, tools: Sequence[Any]) -> Request:
        """A request, most often a call of a tool."""
        pick = self.random.random()
        if pick < 0.8:
            tool = self.random.choice(tools)
            given = self.arguments(tool.schema) if pick < 0.75 else self.anything()
            return Request(tool.name, "tools/call", {"name": tool.name, "arguments": given})
        if pick < 0.88:
            return Request("read", "resources/read", {"uri": self.uri()})
        if pick < 0.92:
            name = self.random.choice(list(PROMPT_KINDS))
            given = {each.name: self.text() for each in PROMPT_KINDS[name].arguments}
            return Request(name, "prompts/get", {"name": name, "arguments": given})
        if pick < 0.97:
            name = self.random.choice(list(PROMPT_KINDS))
            uri = self.random.choice([kind.template for kind in RESOURCE_KINDS.values()])
            refs = ({"type": "ref/prompt", "name": name}, {"type": "ref/resource", "uri": uri})
            params = {
                "ref": self.random.choice(refs),
                "argument": {"name": self.text(), "value": self.text()},
                "context": {"arguments": {"notebook": self.text(), "path": self.text()}},
            }
            return Request("complete", "completion/complete", params)
        return Request("list", "resources/list", {"cursor": self.text()})


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    soon = "--YDocExtension.document_save_delay=0.1"
    async with served(make_server, request.param, soon, settings=_SETTINGS) as process:
        root = Path(process.root)
        notebooks.write(root / NOTEBOOK, notebooks.numbered(3))
        (root / TEXT).write_text("one\ntwo\n")
        async with agent(process) as ada:
            await ada.ask("get_document", path=TEXT)
            await ada.write(NOTEBOOK, "cell-00002", "begun = True")
            await eventually(
                lambda: ada.ask("get_notebook", path=NOTEBOOK), lambda said: said.get("saved")
            )
        yield process


async def send(http: httpx2.AsyncClient, url: str, request: Request) -> dict[str, Any]:
    """The answer to a request, which has to be one."""
    body = json.dumps(request.body()).encode()
    headers = request.headers
    if (named := headers.get("Mcp-Name")) is not None:
        headers["Mcp-Name"] = encode_header_value(named.encode(errors="replace").decode())
    answer = await http.post(url, content=body, headers=headers)
    assert answer.status_code < 500, (request, answer.text)
    text = answer.text
    assert "Traceback (most recent" not in text, request
    assert "internal_error" not in text, (request, text)
    if answer.headers.get("Content-Type", "").startswith("text/event-stream"):
        text = [line for line in text.splitlines() if line.startswith("data: {")][-1][6:]
    found: dict[str, Any] = json.loads(text)
    return found


async def fingerprint(ada: AgentClient, root: Path) -> dict[str, Any]:
    """All that a call could have changed."""
    files = sorted(
        str(path.relative_to(root))
        for path in root.rglob("*")
        if not str(path.relative_to(root)).startswith(".")
    )
    return {
        "files": files,
        "sources": await ada.sources(NOTEBOOK),
        "text": (await ada.ask("get_document", path=TEXT))["content"],
        "forks": (await ada.ask("list_document_forks"))["forks"],
    }


async def check_alive(server: JupyterProcess, ada: AgentClient) -> None:
    """The server answers, has logged no fault, and what it saves is a notebook."""
    async with httpx2.AsyncClient(headers=server.headers, timeout=10) as http:
        assert (await http.get(f"{server.url}api/status")).status_code == 200
    logs = server.log + (server.standalone.log if server.standalone is not None else "")
    # Jupyter's own handlers have faults of their own.
    ours = re.search(r'File "[^"]*(jupyter_collaboration_mcp|site-packages/mcp)/', logs)
    assert ours is None, logs[max(0, ours.start() - 2_000) :][:4_000]
    for path in Path(server.root).glob("*.ipynb"):
        look = partial(ada.call, "get_notebook", path=path.name, end_index=1)
        # Some names can be created and not opened.
        await eventually(
            look, lambda said: said.is_error or (said.structured_content or {}).get("saved")
        )
        nbformat.validate(nbformat.read(path, as_version=4))  # type: ignore[no-untyped-call]


async def test_nonsense_in_arguments_changes_nothing_that_may_not_change(
    server: JupyterProcess, times: Times
) -> None:
    """A connection that may only read: whatever it asks for, nothing changes."""
    await _fuzz(server, times(350, 3_500), "read", SEED)


async def test_nonsense_in_arguments_is_refused_or_done(
    server: JupyterProcess, times: Times
) -> None:
    """A connection that may write: a call that is refused has changed nothing."""
    await _fuzz(server, times(150, 1_500), "write", SEED + 1)


async def _fuzz(server: JupyterProcess, count: int, level: str, seed: int) -> None:
    nonsense, root = Nonsense(seed), Path(server.root)
    tools = catalogue.tools(server.standalone is not None)
    # Nobody is to take the documents away, nor to be connected to elsewhere.
    kept = {"delete_document", "rename_document", "connect_server", "disconnect_server"}
    tools = [tool for tool in tools if level == "read" or tool.name not in kept]
    url, headers = mcp_address(server)
    url = f"{url}?agent=Fuzz&structured=true&toolsets=all&permission={level}"
    async with (
        agent(server, "Wit") as witness,
        httpx2.AsyncClient(headers={**HEADERS, **headers}, timeout=30, verify=False) as http,
    ):
        before = await fingerprint(witness, root)
        for _ in range(count):
            request = nonsense.request(tools)
            answer = await send(http, url, request)
            if level == "read" or request.method != "tools/call":
                continue
            after = await fingerprint(witness, root)
            if "error" in answer or answer["result"].get("isError"):
                assert after == before, (request, answer)
            before = after
        if level == "read":
            assert await fingerprint(witness, root) == before
        await check_alive(server, witness)


# -- bytes -----------------------------------------------------------------------------------

Mutation = Callable[[bytes, random.Random], bytes]


def _flip(sent: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(sent))
    return sent[:at] + bytes([chance.randrange(256)]) + sent[at + 1 :]


def _cut(sent: bytes, chance: random.Random) -> bytes:
    return sent[: chance.randrange(len(sent))]


def _insert(sent: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(sent))
    return sent[:at] + chance.randbytes(chance.randrange(1, 20)) + sent[at:]


def _repeat_line(sent: bytes, chance: random.Random) -> bytes:
    head, empty, body = sent.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    lines.insert(chance.randrange(1, len(lines) + 1), chance.choice(lines[1:] or [b"X: y"]))
    return b"\r\n".join(lines) + empty + body


def _add_header(sent: bytes, chance: random.Random) -> bytes:
    line = chance.choice(
        [
            *(b"Content-Length: 0", b"Content-Length: -1", b"Content-Length: 99999999999999"),
            *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip", b"Expect: 100-continue"),
            *(b"Content-Encoding: gzip", b"Content-Type: text/plain; charset=utf-16"),
            *(b"Content-Type: multipart/form-data", b"Upgrade: websocket", b"Connection: Upgrade"),
            *(b"Last-Event-ID: 1-0", b"Last-Event-ID: \xff", b"Mcp-Session-Id: " + b"x" * 3_000),
            *(
                b"MCP-Protocol-Version: 9",
                b"Mcp-Method: tools/list",
                b"Origin: http://evil.example",
            ),
            *(b"Authorization: Bearer jcm_\xff", b"Cookie: a=\xff; b", b"X: " + b"y" * 70_000),
            *(b"Host: evil.example", b"X-Forwarded-For: \xfe", b"Range: bytes=0-1", b"Accept: */*"),
        ]
    )
    first, _, rest = sent.partition(b"\r\n")
    return first + b"\r\n" + line + b"\r\n" + rest


def _query(sent: bytes, chance: random.Random) -> bytes:
    query = chance.choice(
        [
            *(b"?token=%ff", b"?token=jcm_%00", b"?agent=%ff", b"?agent=%00", b"?permission="),
            *(b"?permission=root", b"?toolsets=%ff", b"?mode=x&mode=y", b"?" + b"a=b&" * 2_000),
            *(b"?agent=" + b"%F0%9F%98%80" * 300, b"?structured=2", b"?%ff=1", b"?;", b"??"),
        ]
    )
    return sent.replace(b"/mcp", b"/mcp" + query, 1)


def _body(sent: bytes, chance: random.Random) -> bytes:
    head, empty, _ = sent.partition(b"\r\n\r\n")
    body = chance.choice(
        [
            *(b"", b"null", b"[]", b"{}", b"1", b'"x"', b"\xff\xfe", b"[" * 100_000, b"{" * 5_000),
            *(b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"2.0","id":null,"method":"ping"}'),
            *(b'{"jsonrpc":"2.0","id":{},"method":"ping"}', b'{"id":1e999,"method":"ping"}'),
            *(b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]' * 3, b'{"a":1,"a":2}', b"NaN"),
            *(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}', b"\0" * 1_000),
            *(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 9_000 + b'"}', b'"\\ud800"'),
            b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7}}',
        ]
    )
    head = re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(body), head)
    return head + empty + body


_MUTATIONS: Sequence[Mutation] = (
    *(_flip, _flip, _cut, _insert, _repeat_line, _add_header, _add_header, _query, _body, _body),
)


def _message(method: str, path: str, host: str, headers: dict[str, str], body: bytes) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


async def test_nonsense_in_bytes_is_refused_and_harms_nothing(
    server: JupyterProcess, times: Times
) -> None:
    url, own = mcp_address(server)
    parts, chance = urlsplit(url), random.Random(SEED)
    headers = {**HEADERS, **own}
    modern = Request("list", "tools/list", {})
    call = Request("call", "tools/call", {"name": "document_exists", "arguments": {"path": "x"}})
    async with httpx2.AsyncClient(headers=headers) as http:
        opened = await http.post(url, json=INITIALIZE)
    session = {
        **headers,
        "Mcp-Session-Id": opened.headers["mcp-session-id"],
        "MCP-Protocol-Version": "2025-11-25",
    }
    seeds = [
        _message("POST", parts.path, parts.netloc, each, json.dumps(body).encode())
        for each, body in (
            (headers, INITIALIZE),
            ({**headers, **modern.headers}, modern.body()),
            ({**headers, **call.headers}, call.body()),
            (session, call.body(sessions=True)),
            (session, {"jsonrpc": "2.0", "id": 3, "method": "ping"}),
        )
    ]
    for method, each in (("DELETE", headers), ("OPTIONS", headers), ("PUT", session)):
        seeds.append(_message(method, parts.path, parts.netloc, each, b""))
    async with agent(server, "Wit") as witness:
        before = await fingerprint(witness, Path(server.root))
        for _ in range(times(500, 5_000)):
            sent = chance.choice(seeds)
            for _ in range(chance.randrange(1, 4)):
                sent = chance.choice(_MUTATIONS)(sent, chance) or sent
            said = await _exchange(parts.hostname or "", parts.port or 0, sent)
            status = re.match(rb"HTTP/1\.[01] (\d{3})", said)
            assert not said or status, (sent[:2_000], said[:2_000])
            assert status is None or int(status[1]) < 500, (sent[:2_000], said[:2_000])
            assert b"Traceback (most recent" not in said, sent[:2_000]
        assert await fingerprint(witness, Path(server.root)) == before
        await check_alive(server, witness)


async def _exchange(host: str, port: int, sent: bytes) -> bytes:
    """What a server answers until it closes the connection, which it does soon."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(sent)
        writer.write_eof()
        async with asyncio.timeout(15):
            return await reader.read()
    except OSError:  # it has closed the connection already
        return b""
    finally:
        writer.close()
