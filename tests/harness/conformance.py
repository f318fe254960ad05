"""The official MCP conformance suite, one scenario at a time."""

import asyncio
import json
import os
import tempfile
from asyncio.subprocess import PIPE, STDOUT
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .yjs import KEEP_COMPILED, NODE_DIRECTORY, find_node

_SUITE = NODE_DIRECTORY / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist"

_CONTENT = [
    "completion-complete",
    "resources-read-text",
    "resources-read-binary",
    "resources-templates-read",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
]
_SUBSCRIPTIONS = ["resources-subscribe", "resources-unsubscribe"]

SCENARIOS = {
    "2025-11-25": [
        "server-initialize",
        "server-session-lifecycle",
        "ping",
        "tools-list",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "resources-list",
        "prompts-list",
        *_CONTENT,
        *_SUBSCRIPTIONS,
    ],
    "2026-07-28": [
        "server-stateless",
        "tools-list",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "input-required-result-unsupported-methods",
        "resources-list",
        "sep-2164-resource-not-found",
        "prompts-list",
        *_CONTENT,
    ],
}
"""By version of the specification, what a server is held to."""

NEED_DIAGNOSTICS = {"server-stateless", *_CONTENT, *_SUBSCRIPTIONS}
"""Those that call or read what only the suite's own server has."""


@dataclass(frozen=True)
class Check:
    """One thing the suite looked at."""

    name: str
    description: str
    status: str
    error: str | None

    @classmethod
    def of(cls, entry: dict[str, Any]) -> "Check":
        """The check in an entry of a result file."""
        return cls(entry["name"], entry["description"], entry["status"], entry.get("errorMessage"))

    def __str__(self) -> str:
        return f"{self.status} {self.name}: {self.description} ({self.error})"


@dataclass(frozen=True)
class ConformanceResult:
    """What one scenario found."""

    passed: list[Check]
    failed: list[Check]
    warned: list[Check]
    """What the specification only recommends."""
    output: str
    """What the suite printed."""

    @property
    def problems(self) -> str:
        """The failed checks, for people; empty if there are none."""
        return "\n".join(map(str, self.failed))


async def run_conformance(
    url: str, token: str, spec_version: str, scenario: str, timeout: float = 90
) -> ConformanceResult:
    """Run one scenario of the suite against a server.

    Args:
        url: The MCP endpoint.
        token: Sent as bearer token with every request to the endpoint's origin.
        spec_version: A key of SCENARIOS.
        scenario: Its name in the suite.
        timeout: Seconds until it is given up.

    Raises:
        RuntimeError: If the suite looked at nothing; the message has what it printed.
    """
    address = urlsplit(url)
    with tempfile.TemporaryDirectory(prefix="conformance-") as results:
        process = await asyncio.create_subprocess_exec(
            find_node(),
            "--import",
            (NODE_DIRECTORY / "authorize.mjs").as_uri(),
            _SUITE / "index.js",
            "server",
            *("--url", url),
            *("--spec-version", spec_version),
            *("--scenario", scenario),
            *("--output-dir", results),
            stdout=PIPE,
            stderr=STDOUT,
            env={
                **os.environ,
                **KEEP_COMPILED,
                "NO_COLOR": "1",
                "MCP_AUTHORIZATION": f"Bearer {token}",
                "MCP_ORIGIN": f"{address.scheme}://{address.netloc}",
            },
        )
        try:
            async with asyncio.timeout(timeout):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        checks = [Check.of(entry) for entry in _entries(Path(results))]
    text = output.decode(errors="replace")
    result = ConformanceResult(
        passed=[check for check in checks if check.status == "SUCCESS"],
        failed=[check for check in checks if check.status == "FAILURE"],
        warned=[check for check in checks if check.status == "WARNING"],
        output=text,
    )
    if not result.passed and not result.failed:
        raise RuntimeError(f"The suite checked nothing in {scenario} ({spec_version}):\n{text}")
    if process.returncode != 0 and not result.failed and not result.warned:
        raise RuntimeError(f"The suite ended with {process.returncode}:\n{text}")
    return result


def _entries(results: Path) -> list[dict[str, Any]]:
    return [
        entry
        for file in sorted(results.rglob("checks.json"))
        for entry in json.loads(file.read_text())
    ]
