"""What monitoring sees of calls: at Jupyter's own /metrics, and in the SDK's spans."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, use_span
from opentelemetry.util import types
from prometheus_client.parser import text_string_to_metric_families

from jupyter_collaboration_mcp.errors import InvalidArgument
from jupyter_collaboration_mcp.tools.registry import Answer, tool
from jupyter_collaboration_mcp.workspace.permissions import Level
from jupyter_collaboration_mcp.workspace.permits import Call
from tests.conftest import MakeServer
from tests.harness import measuring, notebooks, toys
from tests.harness.agents import agent
from tests.harness.ways import ours

pytestmark = pytest.mark.anyio

PREFIX = "jupyter_collaboration_mcp_"


async def metrics_of(url: str, headers: Mapping[str, str]) -> dict[tuple[str, ...], float]:
    """Our values at `/metrics`, by name and labels."""
    async with httpx2.AsyncClient(headers=dict(headers), timeout=30, verify=False) as http:
        text = (await http.get(f"{url}metrics")).text
    return {
        (sample.name.removeprefix(PREFIX), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(PREFIX)
    }


async def test_calls_errors_latency_documents_and_runs_are_at_jupyters_own_metrics(
    make_server: MakeServer,
) -> None:
    env = {**measuring.shared_server(), **ours({"execution_rate_limit": "1"})}
    async with make_server(env=env) as server:
        notebooks.write(Path(server.root) / "a.ipynb", notebooks.numbered(2))
        before = await metrics_of(server.url, server.headers)
        assert before["open_documents",] == before["runs",] == 0
        async with agent(server, "a name that is no label") as ada:
            await ada.sources("a.ipynb")
            await ada.sources("a.ipynb")
            await ada.refused("get_notebook", path="missing.ipynb")
            await ada.ask("run_code", path="a.ipynb", code="input()", timeout=0)
            await ada.refused("run_code", path="a.ipynb", code="1")
            counted = ("calls_total", "run_code", "refused")
            async with asyncio.timeout(20):  # a call is counted after its answer
                while counted not in (found := await metrics_of(server.url, server.headers)):
                    pass
        assert found["calls_total", "get_notebook", "ok"] == 2
        assert found["calls_total", "get_notebook", "error"] == 1
        assert found["errors_total", "document_not_found"] == 1
        assert found[counted] == found["errors_total", "rate_limited"] == 1
        assert found["call_seconds_count", "get_notebook"] == 3
        assert 0 < found["call_seconds_sum", "get_notebook"] < 30
        assert found["open_documents",] == found["runs",] == 1
        assert not [labels for labels in found if "a name that is no label" in labels]


def test_two_servers_in_one_process_share_what_is_counted() -> None:
    code = """if True:
        from prometheus_client import REGISTRY, generate_latest
        from jupyter_collaboration_mcp.server import metrics
        from jupyter_collaboration_mcp.workspace.sites import Sites
        one, other = Sites(), Sites()
        metrics.watch(one)
        metrics.watch(other)
        metrics.watch(other)
        print(generate_latest(REGISTRY).decode().count("TYPE jupyter_collaboration_mcp_runs gauge"))
        print(len(metrics._NOW.sites))
        metrics.forget(one)
        del other
        print(len(metrics._NOW.sites))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "2", "0"]


class RecordingSpan(NonRecordingSpan):
    """A span as one that is collected."""

    def __init__(self) -> None:
        super().__init__(INVALID_SPAN_CONTEXT)
        self.attributes: dict[str, Any] = {}

    def is_recording(self) -> bool:
        return True

    def set_attributes(self, attributes: Mapping[str, types.AttributeValue]) -> None:
        self.attributes.update(attributes)

    def set_attribute(self, key: str, value: types.AttributeValue) -> None:
        self.attributes[key] = value


class Tracer:
    """Remembers the spans that it has started."""

    def __init__(self) -> None:
        self.spans: list[RecordingSpan] = []

    @contextmanager
    def start_as_current_span(
        self, name: str, *, attributes: Mapping[str, Any], **_: Any
    ) -> Iterator[RecordingSpan]:
        span = RecordingSpan()
        span.attributes.update(attributes)
        self.spans.append(span)
        with use_span(span):
            yield span


class Toy:
    @tool("Toy", Level.read)
    async def play(self, call: Call, path: str) -> Answer:
        """Play."""
        if path == "broken":
            raise InvalidArgument("It is broken.", "Take another.")
        return Answer("ok", {"path": path})


async def test_the_sdks_spans_name_the_document_and_the_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tracer = Tracer()
    monkeypatch.setattr("mcp.shared._otel._tracer", tracer)
    async with Client(toys.serve(tools=Toy())) as client:
        await client.call_tool("play", {"path": "a.ipynb"})
        await client.call_tool("play", {"path": "broken"})
    calls = [each.attributes for each in tracer.spans if "gen_ai.tool.name" in each.attributes]
    annotated = [
        {name.removeprefix("jupyter_collaboration_mcp."): value for name, value in each.items()}
        for each in calls
        if "jupyter_collaboration_mcp.outcome" in each
    ]
    assert [
        (each["document"], each["outcome"], each["gen_ai.tool.name"]) for each in annotated
    ] == [
        ("a.ipynb", "ok", "play"),
        ("broken", "invalid_argument", "play"),
    ]
