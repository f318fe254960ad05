"""Our endpoint, held to the official conformance suite of MCP."""

import logging
from collections.abc import AsyncIterator

import pytest

from tests.conftest import MakeServer
from tests.harness.conformance import NEED_DIAGNOSTICS, SCENARIOS, run_conformance
from tests.harness.jupyter import JupyterProcess

pytestmark = [pytest.mark.anyio, pytest.mark.node]

_log = logging.getLogger(__name__)

CASES = [(version, scenario) for version, scenarios in SCENARIOS.items() for scenario in scenarios]


@pytest.fixture(scope="module")
async def lab_server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """Jupyter with our extension, as an agent meets it."""
    async with make_server() as process:
        yield process


@pytest.fixture(scope="module")
async def diagnostics_server(
    make_server: MakeServer, anyio_backend: str
) -> AsyncIterator[JupyterProcess]:
    """Jupyter with our extension, whose server has what the suite calls and reads as well."""
    async with make_server(extensions={"tests.transport.diagnostics": True}) as process:
        yield process


@pytest.mark.parametrize(
    ("spec_version", "scenario"), [case for case in CASES if case[1] not in NEED_DIAGNOSTICS]
)
async def test_the_endpoint_conforms_to_the_specification(
    lab_server: JupyterProcess, spec_version: str, scenario: str
) -> None:
    await _assert_conforms(lab_server, spec_version, scenario)


@pytest.mark.parametrize(
    ("spec_version", "scenario"), [case for case in CASES if case[1] in NEED_DIAGNOSTICS]
)
async def test_the_endpoint_conforms_where_the_suite_needs_content_of_its_own(
    diagnostics_server: JupyterProcess, spec_version: str, scenario: str
) -> None:
    await _assert_conforms(diagnostics_server, spec_version, scenario)


async def test_a_client_of_the_suite_resumes_a_call(diagnostics_server: JupyterProcess) -> None:
    url, token = f"{diagnostics_server.url}mcp", diagnostics_server.token
    result = await run_conformance(url, token, "2025-11-25", "server-sse-polling")
    # All that it checks is only recommended by the specification.
    assert not result.warned
    assert {check.name for check in result.passed} >= {
        "ServerSendsPrimingEvent",
        "ServerSendsRetryField",
        "ServerDisconnectResume",
    }


async def _assert_conforms(server: JupyterProcess, spec_version: str, scenario: str) -> None:
    """Nothing may fail; what is only recommended is logged (`pytest -rP` shows it)."""
    result = await run_conformance(f"{server.url}mcp", server.token, spec_version, scenario)
    for check in result.warned:
        _log.warning("%s", check)
    assert not result.failed, result.problems
