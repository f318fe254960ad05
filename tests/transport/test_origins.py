"""Origins and hosts are what they say, not what they begin with."""

from __future__ import annotations

import httpx2
import pytest

from jupyter_collaboration_mcp.transport.origins import authority, host_name, is_origin
from tests.conftest import MakeServer
from tests.harness.standalone import BEARER, StandaloneProcess

pytestmark = pytest.mark.anyio

#: None is an origin of this machine; a `{port}` is the one of the server that is asked.
NO_ORIGINS = (
    "http://127.0.0.1:{port}@evil.example",
    "http://127.0.0.1:x@evil.example",
    "http://localhost:x@evil.example",
    "http://localhost:80:x@evil.example",
    "http://[::1]:x@evil.example",
    "http://evil.example@127.0.0.1:{port}",
    "http://127.0.0.1.evil.example:{port}",
    "http://127.0.0.1:{port}.evil.example",
    "http://127.0.0.1:{port}/",
    "http://127.0.0.1:{port}/path",
    "http://127.0.0.1:{port}?query",
    "http://127.0.0.1:{port}#fragment",
    "http://127.0.0.1:{port}\\@evil.example",
    "http:///127.0.0.1:{port}",
    "http://127.0.0.1:",
    "http://:{port}",
    "//127.0.0.1:{port}",
    "127.0.0.1:{port}",
    "ftp://127.0.0.1:{port}",
    "javascript://127.0.0.1:{port}",
    "http://127.0.0.1:{port}, http://evil.example",
    "http://evil.example http://127.0.0.1:{port}",
    "http://localhost%2eevil.example:{port}",
    "https://evil.example",
    "null",
    "x",
)


@pytest.mark.parametrize("origin", NO_ORIGINS[:-4])
def test_only_a_scheme_with_host_and_port_is_an_origin(origin: str) -> None:
    sent = origin.format(port=80)
    assert authority(sent) not in ("127.0.0.1:80", "localhost:80", "[::1]:80")
    assert authority(f"{sent}\n") is None


def test_an_origin_is_parsed_case_insensitively() -> None:
    assert authority("HTTPS://Lab.Example.org") == "lab.example.org"
    assert authority("http://[::1]:8888") == "[::1]:8888"
    assert host_name("[::1]:8888") == "[::1]"
    assert host_name("LOCALHOST") == "localhost"
    for origin in ("null", "vscode-webview://0a1b", "http://a_b.example:1"):
        assert is_origin(origin)
    for host in ("", "a@b", "a:b", "a:1:2", "a/b", "a b", "a\n", "::1"):
        assert host_name(host) is None


async def test_the_command_refuses_hosts_that_only_resemble_this_machine(
    make_server: MakeServer,
) -> None:
    # Who gets in is decided before any Jupyter is asked for anything.
    server = make_server(extensions={"jupyter_collaboration_mcp": False})
    allowed = ("--allowed-host=Lab.example.org", "--allowed-host=other.example:8443")
    async with StandaloneProcess([server], *allowed) as command, httpx2.AsyncClient() as http:
        port = httpx2.URL(command.url).port
        good = {
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {BEARER}",
        }

        async def status(*more: tuple[str, str]) -> int:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
            headers = [*good.items(), *more]
            return (await http.post(command.url, json=body, headers=headers)).status_code

        let_in = await status()
        assert let_in not in (401, 403, 421)
        for origin in NO_ORIGINS:
            assert await status(("Origin", origin.format(port=port))) == 403, origin
        own = f"http://127.0.0.1:{port}"
        assert await status(("Origin", own), ("Origin", NO_ORIGINS[0])) == 403
        assert await status(("Origin", NO_ORIGINS[0]), ("Origin", own)) == 403
        for origin in (
            own,
            "http://LOCALHOST",
            "https://localhost:1",
            "http://[::1]:99",
            "https://lab.example.org",
            "https://lab.example.org:1",
            "https://other.example:8443",
        ):
            assert await status(("Origin", origin)) == let_in, origin
        assert await status(("Origin", "https://other.example:1")) == 403
        for host in ("evil.example", "localhost:x@evil.example", "localhost:x", ""):
            assert await status(("Host", host)) == 421, host
        for host in ("LocalHost:1", "[::1]:2", "lab.example.org"):
            assert await status(("Host", host)) == let_in, host
