"""`/mcp` in a real Jupyter server: who gets in, what passes through, and what never does."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_types import CallToolResult, TextContent

from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import Gate
from tests.harness.waiting import until
from tests.transport.conftest import ERAS, INITIALIZE, MakeJupyter, connect, modern_call
from tests.transport.extension import BODY_LIMIT
from tests.transport.test_origins import NO_ORIGINS

pytestmark = pytest.mark.anyio

#: Less than the 15 s after which the SDK pings, which would be a first event.
LIMIT = 10.0
FOREIGN = "https://evil.example"
FRIEND = "https://inspector.example"


def text(result: CallToolResult) -> str:
    assert not result.is_error
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


async def call(
    http: httpx2.AsyncClient, url: str, headers: dict[str, str], tool: str, **arguments: Any
) -> httpx2.Response:
    body, extra = modern_call(tool, **arguments)
    return await http.post(url, json=body, headers={**extra, **headers})


async def call_echo(
    http: httpx2.AsyncClient, url: str, headers: dict[str, str] | None = None
) -> httpx2.Response:
    return await call(http, url, headers or {}, "echo", text="hello")


def assert_json_error(response: httpx2.Response, status: int) -> None:
    assert response.status_code == status
    assert response.headers["Content-Type"].startswith("application/json")
    assert list(response.json()) == ["error"]


# Credentials


@pytest.mark.parametrize("scheme", ["token", "Bearer", "bearer", "Identity.token"])
async def test_a_token_in_the_authorization_header_is_accepted(
    jupyter: JupyterProcess, http: httpx2.AsyncClient, scheme: str
) -> None:
    headers = {"Authorization": f"{scheme} {jupyter.token}"}
    response = await call_echo(http, f"{jupyter.url}mcp", headers)
    assert response.status_code == 200
    assert response.json()["result"]["structuredContent"] == {"result": "hello"}


async def test_a_token_in_the_query_string_is_accepted(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    assert (await call_echo(http, f"{jupyter.url}mcp?token={jupyter.token}")).status_code == 200


async def test_the_url_may_end_with_a_slash(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    assert (await call_echo(http, f"{jupyter.url}mcp/", jupyter.headers)).status_code == 200


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "PUT", "PATCH", "HEAD"])
@pytest.mark.parametrize("credential", [None, "token wrong", "Identity.token wrong", "Basic eA=="])
async def test_every_method_answers_401_in_json_without_a_valid_credential(
    jupyter: JupyterProcess, http: httpx2.AsyncClient, method: str, credential: str | None
) -> None:
    headers = {"Authorization": credential} if credential else {}
    response = await http.request(method, f"{jupyter.url}mcp", headers=headers)
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="Jupyter"'
    assert response.status_code == 401
    assert "Location" not in response.headers
    if method != "HEAD":
        assert_json_error(response, 401)


async def test_a_wrong_token_in_the_query_string_answers_401(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    assert_json_error(await call_echo(http, f"{jupyter.url}mcp?token=wrong"), 401)


async def test_a_method_that_mcp_does_not_use_is_refused(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    response = await http.put(f"{jupyter.url}mcp", headers=jupyter.headers)
    assert_json_error(response, 405)
    assert response.headers["Allow"] == "GET, POST, DELETE, OPTIONS"


async def test_a_wrong_host_answers_403(jupyter: JupyterProcess, http: httpx2.AsyncClient) -> None:
    headers = {**jupyter.headers, "Host": "rebound.example"}
    assert_json_error(await call_echo(http, f"{jupyter.url}mcp", headers), 403)


async def test_a_token_does_not_set_a_login_cookie(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    response = await call_echo(http, f"{jupyter.url}mcp", jupyter.headers)
    assert "Set-Cookie" not in response.headers


async def test_a_browser_with_a_login_cookie_needs_the_xsrf_token(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    login = await http.get(f"{jupyter.url}api/status", headers=jupyter.headers)
    cookie = login.headers["Set-Cookie"].partition(";")[0]
    http.cookies.clear()
    url = f"{jupyter.url}mcp"
    refused = await call_echo(http, url, {"Cookie": cookie})
    assert_json_error(refused, 403)
    assert "_xsrf" in refused.json()["error"]
    headers = {"Cookie": f"{cookie}; _xsrf=abcd", "X-XSRFToken": "abcd"}
    accepted = await call(http, url, headers, "whoami")
    assert accepted.json()["result"]["structuredContent"]["credential"].startswith("user:")


async def test_everyone_is_one_anonymous_user_without_authentication(
    make_jupyter: MakeJupyter, http: httpx2.AsyncClient
) -> None:
    async with make_jupyter("--ServerApp.disable_check_xsrf=True", token="") as jupyter:
        opened = await http.post(f"{jupyter.url}mcp", json=INITIALIZE)
        assert opened.status_code == 200
        headers = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        ended = await http.delete(f"{jupyter.url}mcp", headers=headers)
        assert ended.status_code == 200


# Authorizers


@pytest.fixture(scope="module")
async def denying(make_jupyter: MakeJupyter, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    authorizer = "--ServerApp.authorizer_class=tests.transport.extension.DenyingAuthorizer"
    env = {"JUPYTER_SERVER_ALLOW_UNAUTHENTICATED_ACCESS": "false"}
    async with make_jupyter(authorizer, env=env) as process:
        yield process


@pytest.fixture(scope="module")
async def read_only(make_jupyter: MakeJupyter, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    authorizer = "--ServerApp.authorizer_class=tests.transport.extension.ReadOnlyAuthorizer"
    async with make_jupyter(authorizer) as process:
        yield process


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_denying_authorizer_answers_403(
    denying: JupyterProcess, http: httpx2.AsyncClient, method: str
) -> None:
    response = await http.request(method, f"{denying.url}mcp", headers=denying.headers)
    assert_json_error(response, 403)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "HEAD"])
async def test_a_server_that_requires_authentication_everywhere_answers_401_without_a_login_page(
    denying: JupyterProcess, http: httpx2.AsyncClient, method: str
) -> None:
    response = await http.request(method, f"{denying.url}mcp")
    assert response.status_code == 401
    assert response.headers["Content-Type"].startswith("application/json")


async def test_a_read_only_authorizer_allows_the_endpoint(read_only: JupyterProcess) -> None:
    async with connect(read_only, ERAS[0]) as client:
        assert text(await client.call_tool("echo", {"text": "hello"})) == "hello"


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_asks_the_authorizer_about_action_and_path(
    read_only: JupyterProcess, era: str
) -> None:
    async with connect(read_only, era) as client:

        async def may(action: str, path: str) -> Any:
            question = {"action": action, "resource": "contents", "path": path}
            answer = await client.call_tool("may", question)
            assert answer.structured_content is not None
            return answer.structured_content["result"]

        assert await may("read", "open.ipynb") is True
        assert await may("write", "open.ipynb") is False
        assert await may("read", "secret.ipynb") is False


async def test_concurrent_authorization_checks_use_their_own_paths(
    read_only: JupyterProcess,
) -> None:
    async with connect(read_only, ERAS[1]) as client:
        question = {"first": "secret.ipynb", "second": "open.ipynb"}
        answer = await client.call_tool("may_both", question)
        assert answer.structured_content == {"result": [False, True]}


# Origins


@pytest.fixture(scope="module")
async def friendly(make_jupyter: MakeJupyter, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """Under a base URL, with one foreign origin allowed."""
    async with make_jupyter(f"--ServerApp.allow_origin={FRIEND}", base_url="/user/ada/") as process:
        yield process


@pytest.mark.parametrize("origin", [FOREIGN, "null", "http://127.0.0.1:1"])
async def test_a_foreign_origin_is_refused_even_with_a_good_token(
    jupyter: JupyterProcess, http: httpx2.AsyncClient, origin: str
) -> None:
    headers = {**jupyter.headers, "Origin": origin}
    response = await call_echo(http, f"{jupyter.url}mcp", headers)
    assert_json_error(response, 403)
    assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.parametrize("origin", NO_ORIGINS)
async def test_an_origin_that_only_resembles_our_own_is_refused(
    jupyter: JupyterProcess, http: httpx2.AsyncClient, origin: str
) -> None:
    headers = {**jupyter.headers, "Origin": origin.format(port=jupyter.port)}
    assert_json_error(await call_echo(http, f"{jupyter.url}mcp", headers), 403)


async def test_several_origins_are_refused(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    own = f"http://127.0.0.1:{jupyter.port}"
    body, extra = modern_call("echo", text="hello")
    for origins in ([own, FOREIGN], [FOREIGN, own], [own, own]):
        headers = [*{**extra, **jupyter.headers}.items(), *(("Origin", each) for each in origins)]
        response = await http.post(f"{jupyter.url}mcp", json=body, headers=headers)
        assert_json_error(response, 403)


async def test_our_own_origin_is_allowed(jupyter: JupyterProcess, http: httpx2.AsyncClient) -> None:
    for host in ("127.0.0.1", "localhost"):
        named = {"Host": f"{host}:{jupyter.port}", "Origin": f"http://{host}:{jupyter.port}"}
        headers = {**jupyter.headers, **named}
        assert (await call_echo(http, f"{jupyter.url}mcp", headers)).status_code == 200


async def test_a_configured_origin_is_allowed_and_may_read_the_session_id(
    friendly: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    headers = {**friendly.headers, "Origin": FRIEND}
    response = await http.post(f"{friendly.url}mcp", json=INITIALIZE, headers=headers)
    assert response.status_code == 200
    assert response.headers["Access-Control-Allow-Origin"] == FRIEND
    assert "Mcp-Session-Id" in response.headers["Access-Control-Expose-Headers"]
    assert response.headers["Mcp-Session-Id"]


async def test_an_allowed_origin_may_read_the_401_response(
    friendly: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    response = await call_echo(http, f"{friendly.url}mcp", {"Origin": FRIEND})
    assert_json_error(response, 401)
    assert response.headers["Access-Control-Allow-Origin"] == FRIEND


async def test_origins_may_be_allowed_by_a_pattern(
    make_jupyter: MakeJupyter, http: httpx2.AsyncClient
) -> None:
    async with make_jupyter(r"--ServerApp.allow_origin_pat=https://.*\.example\.org") as jupyter:
        good = "https://lab.example.org"
        headers = {**jupyter.headers, "Origin": good}
        response = await call_echo(http, f"{jupyter.url}mcp", headers)
        assert response.status_code == 200
        assert response.headers["Access-Control-Allow-Origin"] == good
        for foreign in (FOREIGN, "https://evil.example/.example.org", "https://x@a.example.org"):
            headers["Origin"] = foreign
            refused = await call_echo(http, f"{jupyter.url}mcp", headers)
            assert_json_error(refused, 403)
            assert "Access-Control-Allow-Origin" not in refused.headers


PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,mcp-protocol-version,mcp-param-path",
}


async def test_a_preflight_from_an_allowed_origin_is_answered_without_a_credential(
    friendly: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    headers = {**PREFLIGHT, "Origin": FRIEND}
    response = await http.options(f"{friendly.url}mcp", headers=headers)
    assert response.status_code == 204
    assert response.content == b""
    assert response.headers["Access-Control-Allow-Origin"] == FRIEND
    assert response.headers["Access-Control-Allow-Methods"] == "GET, POST, DELETE, OPTIONS"
    assert "mcp-param-path" in response.headers["Access-Control-Allow-Headers"]


async def test_a_preflight_from_a_foreign_origin_is_refused(
    friendly: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    headers = {**PREFLIGHT, "Origin": FOREIGN}
    response = await http.options(f"{friendly.url}mcp", headers=headers)
    assert_json_error(response, 403)
    assert "Access-Control-Allow-Methods" not in response.headers


# What passes through


@pytest.mark.parametrize("era", ERAS)
async def test_tools_can_be_called_in_both_eras(jupyter: JupyterProcess, era: str) -> None:
    async with connect(jupyter, era) as client:
        expected = "2025-11-25" if era == "legacy" else era
        assert client.protocol_version == expected
        assert text(await client.call_tool("echo", {"text": "hällo 😀"})) == "hällo 😀"


@pytest.mark.parametrize("era", ERAS)
async def test_the_endpoint_works_under_a_base_url(friendly: JupyterProcess, era: str) -> None:
    async with connect(friendly, era) as client:
        assert text(await client.call_tool("echo", {"text": "hello"})) == "hello"


@pytest.mark.parametrize("era", ERAS)
async def test_progress_arrives_before_the_result(jupyter: JupyterProcess, era: str) -> None:
    name = f"progress-{era}"

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        # Only what arrives while the tool still runs can let it go on.
        async with connect(jupyter, era) as other:
            await other.call_tool("release", {"name": name})

    async with connect(jupyter, era) as client:
        calling = client.call_tool("hold", {"name": name}, progress_callback=on_progress)
        assert text(await asyncio.wait_for(calling, 60)) == "released"


async def test_the_head_of_a_stream_does_not_wait_for_its_first_event(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    url = f"{jupyter.url}mcp"
    headers = {**jupyter.headers, "Accept": "text/event-stream"}
    headers["Mcp-Session-Id"] = await open_session(http, url, jupyter.headers)
    async with asyncio.timeout(LIMIT), http.stream("GET", url, headers=headers) as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")


async def test_a_plain_answer_has_its_length_and_is_not_chunked(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    response = await call_echo(http, f"{jupyter.url}mcp", jupyter.headers)
    assert response.headers["Content-Type"] == "application/json"
    assert int(response.headers["Content-Length"]) == len(response.content)
    assert "Transfer-Encoding" not in response.headers


async def test_a_client_that_disconnects_cancels_its_call(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    body, headers = modern_call("hold", name="disconnect")
    body["params"]["_meta"]["progressToken"] = 1
    headers |= jupyter.headers
    async with http.stream("POST", f"{jupyter.url}mcp", json=body, headers=headers) as response:
        async for line in response.aiter_lines():
            if "holding" in line:
                break
    async with connect(jupyter, ERAS[1]) as client:
        assert text(await client.call_tool("outcome", {"name": "disconnect"})) == "cancelled"


async def test_a_client_that_disconnects_before_any_answer_cancels_its_call(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    # Without a progress token nothing is sent before the result, not even the status.
    calling = asyncio.create_task(
        call(http, f"{jupyter.url}mcp", jupyter.headers, "hold", name="silent")
    )
    async with connect(jupyter, ERAS[1]) as client:
        await client.call_tool("started", {"name": "silent"})
        calling.cancel()
        assert text(await client.call_tool("outcome", {"name": "silent"})) == "cancelled"


async def test_a_body_over_the_limit_answers_413(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    headers = jupyter.headers
    large = await call(http, f"{jupyter.url}mcp", headers, "echo", text="x" * BODY_LIMIT)
    assert large.status_code == 413
    fits = await call(http, f"{jupyter.url}mcp", headers, "echo", text="x" * (BODY_LIMIT - 1000))
    assert fits.status_code == 200


async def test_the_query_string_sets_agent_toolsets_and_permission(
    jupyter: JupyterProcess,
) -> None:
    query = "?agent=Ada%20L&toolsets=core&permission=read"
    async with connect(jupyter, ERAS[0], query) as client:
        who = (await client.call_tool("whoami", {})).structured_content
    assert who == {
        "credential": "token:server",
        "agent": "Ada L",
        "toolsets": ["core"],
        "permission": "read",
    }


async def test_parameters_missing_from_the_query_string_are_empty(jupyter: JupyterProcess) -> None:
    async with connect(jupyter, ERAS[1], "?agent=") as client:
        who = (await client.call_tool("whoami", {})).structured_content
    assert who is not None
    assert (who["agent"], who["toolsets"], who["permission"]) == (None, [], None)


async def test_a_call_counts_as_server_activity(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    async def last_activity() -> str:
        status = await http.get(f"{jupyter.url}api/status", headers=jupyter.headers)
        return str(status.json()["last_activity"])

    before = await last_activity()
    await call_echo(http, f"{jupyter.url}mcp", jupyter.headers)
    assert await last_activity() > before


# Sessions


async def open_session(http: httpx2.AsyncClient, url: str, headers: dict[str, str]) -> str:
    response = await http.post(url, json=INITIALIZE, headers=headers)
    assert response.status_code == 200
    return str(response.headers["Mcp-Session-Id"])


PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


async def test_delete_ends_a_session(jupyter: JupyterProcess, http: httpx2.AsyncClient) -> None:
    url = f"{jupyter.url}mcp"
    session = await open_session(http, url, jupyter.headers)
    headers = {**jupyter.headers, "Mcp-Session-Id": session}
    assert (await http.post(url, json=PING, headers=headers)).status_code == 200
    assert (await http.delete(url, headers=headers)).status_code == 200
    assert (await http.post(url, json=PING, headers=headers)).status_code == 404


async def test_a_session_accepts_its_token_in_header_or_query(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    url = f"{jupyter.url}mcp"
    session = {"Mcp-Session-Id": await open_session(http, url, jupyter.headers)}
    ping = await http.post(f"{url}?token={jupyter.token}", json=PING, headers=session)
    assert ping.status_code == 200


async def test_a_session_cannot_be_used_with_another_credential(
    make_jupyter: MakeJupyter, http: httpx2.AsyncClient
) -> None:
    provider = "--ServerApp.identity_provider_class=tests.transport.extension.TwoPeople"
    async with make_jupyter(provider) as jupyter:
        url = f"{jupyter.url}mcp"
        ada, grace = {"Authorization": "token ada"}, {"Authorization": "token grace"}
        session = {"Mcp-Session-Id": await open_session(http, url, ada)}
        for method in ("POST", "GET", "DELETE"):
            response = await http.request(method, url, json=PING, headers={**grace, **session})
            assert response.status_code == 404
        assert (await http.post(url, json=PING, headers={**ada, **session})).status_code == 200
        digest = hashlib.sha256(b"ada").hexdigest()[:16]
        who = await call(http, url, ada, "whoami")
        assert who.json()["result"]["structuredContent"]["credential"] == f"token:{digest}"


# Secrets


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_cannot_see_the_token(jupyter: JupyterProcess, era: str) -> None:
    for query in ("", f"?agent=Ada&token={jupyter.token}", f"?%74oken={jupyter.token}"):
        async with connect(jupyter, era, query) as client:
            seen = text(await client.call_tool("look", {}))
        assert "mcp-protocol-version" in seen
        assert jupyter.token not in seen
        assert "authorization" not in seen.lower()


async def test_a_tool_sees_neither_cookies_nor_the_referer(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    headers = {
        **jupyter.headers,
        "Cookie": "_xsrf=biscuit; other=biscuit",
        "X-XSRFToken": "biscuit",
        "Referer": f"{jupyter.url}lab?token={jupyter.token}",
        "Connection": "keep-alive",
    }
    seen = (await call(http, f"{jupyter.url}mcp", headers, "look")).text
    assert "biscuit" not in seen
    assert jupyter.token not in seen
    assert "keep-alive" not in seen


async def test_the_log_has_no_token_even_at_debug_level(
    jupyter: JupyterProcess, http: httpx2.AsyncClient
) -> None:
    good, bad = jupyter.token, "mistyped-token"
    for query in (f"token={good}", f"%74oken={good}&agent=log-probe", f"a=1&token={bad}&b=2"):
        await call_echo(http, f"{jupyter.url}mcp?{query}")
        await call_echo(http, f"{jupyter.url}mcp?{query}", {"Origin": FOREIGN})
        await http.put(f"{jupyter.url}mcp?{query}")
    await call_echo(http, f"{jupyter.url}mcp", {"Authorization": f"Identity.token {bad}"})
    # A request is logged when it has been answered, and so before the next one.
    await call_echo(http, f"{jupyter.url}mcp?agent=last-probe", jupyter.headers)
    await until(lambda: "/mcp?agent=last-probe" in jupyter.log)
    assert "/mcp?agent=log-probe" in jupyter.log
    assert good not in jupyter.log
    assert bad not in jupyter.log


# The life of the endpoint


async def test_a_failed_build_answers_500_without_internals_and_is_retried(
    make_jupyter: MakeJupyter, http: httpx2.AsyncClient
) -> None:
    async with make_jupyter(env={"FAILING_BUILDS": "1"}) as jupyter:
        url = f"{jupyter.url}mcp?token={jupyter.token}"
        failed = await call_echo(http, url)
        assert_json_error(failed, 500)
        assert failed.json() == {"error": "Internal Server Error"}
        assert (await call_echo(http, url)).status_code == 200
        assert "internals of the build" in jupyter.log  # the traceback is for the admin
        assert jupyter.token not in jupyter.log


async def test_requests_after_a_stop_answer_503(
    make_jupyter: MakeJupyter, http: httpx2.AsyncClient
) -> None:
    async with make_jupyter() as jupyter:
        url = f"{jupyter.url}mcp"
        assert (await call_echo(http, url, jupyter.headers)).status_code == 200
        await http.get(f"{jupyter.url}stop-mcp")
        assert_json_error(await call_echo(http, url, jupyter.headers), 503)


async def test_jupyter_shuts_down_in_time_with_open_streams(make_jupyter: MakeJupyter) -> None:
    async with make_jupyter() as jupyter, httpx2.AsyncClient(timeout=30, verify=False) as http:
        headers = {**jupyter.headers, "Accept": "application/json, text/event-stream"}
        url = f"{jupyter.url}mcp"
        headers["Mcp-Session-Id"] = await open_session(http, url, headers)
        async with http.stream("GET", url, headers=headers) as stream:
            assert stream.headers["Content-Type"].startswith("text/event-stream")
            assert await jupyter.terminate() == 0
        assert "Traceback" not in jupyter.log


async def test_jupyter_stays_responsive_while_the_first_mcp_request_imports_the_sdk(
    make_jupyter: MakeJupyter, http: httpx2.AsyncClient, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")  # at the end of the import
    async with make_jupyter(env={"WHILE_IMPORTING": gate.code}) as jupyter:
        first = asyncio.create_task(call_echo(http, f"{jupyter.url}mcp", jupyter.headers))
        await gate.reached()
        for _ in range(5):
            status = await http.get(f"{jupyter.url}api/status", headers=jupyter.headers)
            assert status.status_code == 200
        assert not first.done()
        gate.open()
        assert (await first).status_code == 200


async def test_mcp_leaves_jupyters_logging_unchanged(jupyter: JupyterProcess) -> None:
    async with connect(jupyter, ERAS[1]) as client:
        state = json.loads(text(await client.call_tool("logging_state", {})))
    assert state == {"handlers": [], "level": 30}
