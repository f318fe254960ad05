"""Our endpoint, held to the official conformance suite of MCP."""

from collections.abc import AsyncIterator

import pytest

from tests.conftest import MakeServer
from tests.harness.conformance import SCENARIOS, run_conformance
from tests.harness.jupyter import JupyterProcess

pytestmark = [pytest.mark.anyio, pytest.mark.node]

NEED_A_TOOL_OF_THE_SUITE = {"ServerRejectsUndeclaredCapability", "MissingCapabilityHttp400"}
"""Checks of `server-stateless` that call the suite's own tool `test_missing_capability`."""


@pytest.fixture(scope="module")
async def lab_server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """Jupyter with our extension, as an agent meets it."""
    async with make_server() as process:
        yield process


@pytest.mark.parametrize(
    ("spec_version", "scenario"),
    [(version, scenario) for version, scenarios in SCENARIOS.items() for scenario in scenarios],
)
async def test_the_endpoint_conforms_to_the_specification(
    lab_server: JupyterProcess, spec_version: str, scenario: str
) -> None:
    result = await run_conformance(f"{lab_server.url}mcp", lab_server.token, spec_version, scenario)
    failed = [check for check in result.failed if check.name not in NEED_A_TOOL_OF_THE_SUITE]
    assert not failed, "\n".join(map(str, failed))
